"""Short rows: a warp copies many of them to shared memory, as they lie side by side in global memory.

Of a short row that begins anywhere nearly every vector is its first or its last one, and a block that has one row at a
time, or eight, has few bytes on their way. Here each warp has **tiles** of its own, of many whole rows: they move in
aligned vectors from and to global memory, the next one while the warp works on the one at hand. As many threads share a
row as it asks for, a power of two up to a warp, which is an argument of the kernel; each has the columns that are so
many apart, and what is reduced down them accumulates in its registers. A thread that has a row for itself walks it in
straight lines, one for each length. (H100, adaln's backward pass: 997697 samples of 27 x 1 285 -> 226 us, 30000 of
100 x 5 88 -> 70; layernorm's, 3000001 x 7, 69 -> 61.)

Rows are handed out in **pieces**. Where a sample's rows are few, a piece has those of many samples, and the threads
that have all rows of one write what they add up to. Where they are many, samples are shared by parts, whose partial
results a finishing kernel combines. What is reduced over all samples takes what each of them adds up to: a sum that is
scaled from another one has no more to do than that, once for a piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Self

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, ceil_div, product, simplified, total
from fusebuild.kernels.common.choice import Choice, decide, fewer_blocks
from fusebuild.kernels.common.finish import (
    NARROWEST,
    CallGroup,
    Finisher,
    FinishGroup,
    partial_dtype,
    partial_parameters,
)
from fusebuild.kernels.common.lambdas import folded
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.registers import Registers, resident_blocks
from fusebuild.kernels.common.rows import SYSTEM_BYTES, WARP, next_power_of_two
from fusebuild.kernels.common.spec import (
    KernelParameter,
    KnownSizes,
    LaunchSpec,
    VariantSpec,
    VectorLayout,
    call_parameter,
    fits_int32,
    kernel_parameters,
)
from fusebuild.kernels.inner_outer.axes import Axes, InnerOuterParts, read_after
from fusebuild.kernels.inner_outer.striped import places_of_outputs

BLOCK = 128
"""Threads of a small block. As many of these as a multiprocessor has room for are joined to half as many blocks: they
leave half as many partial results, which a finishing kernel has to combine. (With that, and how warps share rows told
them, H100, November 2026: layernorm's backward pass, 1536 x 64, 5.2 -> 4.5 us, 63680 x 22 10.7 -> 9.9.)"""
HELD = 8
"""Columns of a thread, at most."""
ALIGNED_COLUMNS = 128
"""Columns of rows of whole vectors, at most: longer ones are faster where a block walks them. (H100, rmsnorm's backward
pass, 211520 x 192: 105 us in tiles, 90 so.)"""
TILE_BYTES = 4096
"""Shared memory of a warp's tile, where rows are short enough."""
STAGES = 2
"""Tiles that a warp has: one at hand, one on its way."""
MOST_BLOCKS = 6
"""Blocks of a multiprocessor, at most."""
MOST_TILE_BYTES = 8192
"""The same where they are not, at most."""
ALIGNMENT = 8
"""Elements of each row that a tile has room for are a multiple of so many."""
LEAST_ELEMENTS = 128
"""Elements of a warp's share that are worth a warp."""
ELEMENTS_OF_PART = 512
"""Elements of an outer index that are worth a part of it."""
TILED = Registers(base=44)
"""Registers of a thread, beside those for its columns."""
STRAIGHT = Registers(base=48)
"""The same where there are straight lines for rows of each length: with 44 ptxas 13.0 spills."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledHeuristics:
    """Blocks of ``threads``, each of which has ``held`` columns of a row at most; ``copied`` elements move at a time to
    and from global memory. Inputs ``fetched`` lie in tiles, outputs ``in_place`` of some, ``(output, input)``; inputs
    ``of_rows`` have one element a row, ``resident`` ones stay the same for all rows of an outer index. A warp has
    ``stages`` tiles of ``tile_bytes``; a row takes ``row_bytes`` of one and ``column_bytes`` for each column, a tile
    ``edge_bytes`` beside its rows. Tensors ``beside`` those of the rows move by vectors of a thread's columns, too."""

    threads: int
    held: int
    is_whole: bool
    copied: int
    stages: int
    tile_bytes: int
    edge_bytes: int
    column_bytes: int
    row_bytes: int
    fetched: tuple[int, ...]
    resident: tuple[int, ...]
    of_rows: tuple[int, ...]
    in_place: tuple[tuple[int, int], ...]
    beside: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledChoice(Choice):
    """Blocks of ``threads``, with tiles of up to ``tile_bytes`` where rows are short enough; a multiprocessor shall
    have the registers of ``min_blocks``."""

    FEWER = ("tile_bytes",)

    tile_bytes: int
    threads: int
    min_blocks: int

    @property
    def warps(self) -> int:
        return self.threads // WARP

    def stepped(self, knob: str, value: int) -> Self:
        """Larger blocks are fewer."""
        changed = super(TiledChoice, self).stepped(knob, value)
        if knob == "threads":
            changed = replace(changed, min_blocks=fewer_blocks(self.min_blocks, self.threads, value))
        return changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiled(Planner):
    """A planner that knows the ``parts`` of the task, its ``fetched`` dense inputs of the whole domain, and
    ``resident`` ones of columns that change from one outer index to the next at most; for vectors of ``vec``."""

    parts: InnerOuterParts
    vec: int
    fetched: tuple[int, ...]
    resident: tuple[int, ...]

    def of_whole_vectors(self) -> Iterator[VariantSpec]:
        """For rows of up to ``ALIGNED_COLUMNS``, which threads take by vectors."""
        way = f"tiled_vec{HELD}_int32"
        yield self._variant(way, True, decide(way, self._propose(TILED), self.tuned, self._check))

    def of_odd_rows(self) -> Iterator[VariantSpec]:
        """For rows of up to ``HELD`` columns for each thread of a warp, where they may be no whole vectors."""
        if self.has_odd_rows(HELD, self.columns):
            way = "tiled_scalar_int32"
            yield self._variant(way, False, decide(way, self._propose(STRAIGHT), self.tuned, self._check))

    @property
    def applies(self) -> bool:
        """Whether the task is as plain as that."""
        kept = {*self.parts.kept.values()}
        return self.parts.are_plain(self.task, self.domain) and kept <= {(), self.parts.outer}

    @property
    def columns(self) -> Formula:
        return self.domain.points(self.parts.columns)

    @property
    def _reduced(self) -> list[int]:
        """What has partial results: everything that is reduced down columns."""
        return folded(self.task, self.parts.down)

    @property
    def _of_rows(self) -> tuple[int, ...]:
        """Inputs that have one element a row, in the rows' order."""
        accesses, rows = self.domain.accesses, self.parts.rows
        return tuple(
            fid for fid in accesses if fid in self.task.inputs and self.domain.is_dense_over(accesses[fid], rows)
        )

    @property
    def _in_place(self) -> dict[int, int]:
        """For outputs that may lie in the place of an input in tiles, that input."""
        return dict(places_of_outputs(self._flat_outputs, self.fetched, self.bytes_of))

    @property
    def _beside(self) -> tuple[int, ...]:
        """What lies along columns beside what rows have: what stays the same for many of them, what follows from the
        sums of an outer index, and what that needs. None where some of it lies otherwise. (H100, November 2026, adaln's
        backward pass of 52928 samples of 1 x 64: 54 us element by element, 27 by vectors.)"""
        task, parts, domain = self.task, self.parts, self.domain
        of_outer = [fid for fid, kept in parts.finished.items() if kept and kept == parts.outer]
        after = read_after(task, [*of_outer, *(each.factor for each in parts.scaled.values())])
        own = [*self.resident, *sorted(after.intersection(task.inputs, domain.accesses))]
        own += [fid for fid in of_outer if fid in task.outputs]
        return tuple(dict.fromkeys(own)) if {*own} <= {*domain.dense_along(domain.inner)} else ()

    def _guards_of(self, beside: Sequence[int]) -> tuple[Formula, ...]:
        """Tensors ``beside`` rows begin and go on where a vector may."""
        others = {*self.domain.dense_along(self.domain.inner)} - {*beside}
        return self.vector_guards(self.domain.inner, HELD, others)

    @property
    def _flat_outputs(self) -> tuple[int, ...]:
        written = self.parts.written_by_rows(self.task)
        return tuple(fid for fid in self.domain.flat if fid in written)

    @property
    def _tiles(self) -> tuple[int, ...]:
        """The tensors that have a tile of their own."""
        return (*self.fetched, *(fid for fid in self._flat_outputs if fid not in self._in_place))

    def _propose(self, beside: Registers) -> TiledChoice:
        words = [max(4, self.bytes_of([fid])) // 4 for fid in (*self.fetched, *self.resident, *self._reduced)]
        registers = beside.base + HELD * sum(words)
        tile_bytes = max(TILE_BYTES, next_power_of_two(self._least_bytes))
        choice = TiledChoice(tile_bytes=tile_bytes, threads=BLOCK, min_blocks=1)
        by_memory = self.target.shared_bytes // (self._shared_bytes(choice) + SYSTEM_BYTES)
        small = resident_blocks(self.target, BLOCK, registers, min(MOST_BLOCKS, by_memory))
        blocks = max(1, small // 2)
        return replace(choice, threads=BLOCK * small // blocks, min_blocks=blocks)

    def _check(self, choice: TiledChoice) -> None:
        choice.require_power_of_two("tile_bytes", next_power_of_two(self._least_bytes), MOST_TILE_BYTES)
        choice.require_block("threads", choice.threads)
        choice.require_blocks("min_blocks", choice.threads, self.target.threads_per_multiprocessor)
        shared, most = self._shared_bytes(choice), self.target.shared_bytes
        choice.require(shared <= most, "threads", f"its tiles take {shared} bytes of shared memory, at most {most}")

    def _variant(self, way: str, is_whole: bool, choice: TiledChoice) -> VariantSpec:
        beside = self._beside if is_whole else ()
        heuristics = TiledHeuristics(
            threads=choice.threads,
            held=HELD,
            is_whole=is_whole,
            copied=self.vec,
            stages=STAGES,
            tile_bytes=choice.tile_bytes,
            edge_bytes=self._edge_bytes,
            column_bytes=self.bytes_of(self._tiles),
            row_bytes=self.bytes_of(self._of_rows),
            fetched=self.fetched,
            resident=self.resident,
            of_rows=self._of_rows,
            in_place=tuple(self._in_place.items()),
            beside=beside,
        )
        blocks, parts = self._blocks(choice), self._parts(choice)
        partials = partial_parameters(self.task, self._reduced, const=False)
        own = (
            call_parameter("parts", parts, "pieces that share an outer index"),
            *self._told(choice, product([choice.warps, blocks])),
        )
        kernel = self.kernel(
            "inner_outer_tiled",
            heuristics,
            vec=HELD,
            parameters=(*kernel_parameters(self.task, self.domain, partials), *own),
            vectors=VectorLayout.ANYWHERE,
            min_blocks=choice.min_blocks,
            sizes=KnownSizes(help=False),
        )
        guard = (
            fits_int32(self.rows),
            *self.aligned(self.domain.flat, self.vec),
            *((("eq", ("mod", self.columns, HELD), 0),) if is_whole else ()),
            *(self._guards_of(beside) if beside else ()),
            *(("le", 1, each) for each in (self.rows, self.columns)),
            ("le", self.columns, ALIGNED_COLUMNS if is_whole else WARP * HELD),
        )
        shared_bytes = self._shared_bytes(choice)
        block = (choice.threads, 1, 1)
        variant = self.variant(way, choice, guard, kernel, blocks, block, shared_bytes=shared_bytes)
        launches = (*variant.launches, *self._finishes(blocks, parts))
        return replace(variant, launches=launches, scratch=tuple(self._scratch(blocks, parts)))

    def _told(self, choice: TiledChoice, warps: Formula) -> Iterator[KernelParameter]:
        """How so many ``warps`` share the rows where there are no outer indices, as WarpPieces of warp_tiles.cuh does:
        whoever calls divides once, and not every warp before its first load."""
        bits: list[Formula] = [("gt", self.columns, HELD << bit) for bit in range(WARP.bit_length() - 1)]
        of_row = total([1, *(product([1 << bit, each]) for bit, each in enumerate(bits))])
        groups: Formula = ("floor_div", WARP, of_row)
        of_tile = total([product([self.bytes_of(self._tiles), self.columns]), self.bytes_of(self._of_rows)])
        fitting: Formula = ("floor_div", choice.tile_bytes - self._edge_bytes, ("max", 1, of_tile))
        turns: Formula = ("ceil_div", self.rows, ("max", 1, product([warps, groups])))
        tiles: Formula = ("max", 1, ("ceil_div", turns, ("max", 1, ("floor_div", fitting, groups))))
        yield call_parameter("row_shift", total(bits), "2^row_shift threads share a row")
        yield call_parameter("tiles", tiles, "of each warp")
        yield call_parameter("tile_rows", product([("ceil_div", turns, tiles), groups]), "rows of a tile")

    @property
    def _edge_bytes(self) -> int:
        """What a tile has beside its rows: tensors begin and end within vectors, and what follows bools may do so half
        of 16 bytes later."""
        filled = sum(ALIGNMENT for fid in (*self._tiles, *self._of_rows) if self.bytes_of([fid]) == 1)
        return 2 * self.vec * self.bytes_of(self._tiles) + ALIGNMENT * self.bytes_of(self._of_rows) + filled

    @property
    def _least_bytes(self) -> int:
        """A tile of as many rows as a warp has at a time, of any length."""
        return self._edge_bytes + WARP * (HELD * self.bytes_of(self._tiles) + self.bytes_of(self._of_rows))

    def _shared_bytes(self, choice: TiledChoice) -> int:
        """Those of tiles, or of what the warps of a block meet by."""
        meeting = WARP * HELD * self.bytes_of(folded(self.task, self._whole))
        return choice.warps * max(STAGES * choice.tile_bytes, meeting)

    @property
    def rows(self) -> Formula:
        return self.domain.points(self.parts.rows)

    @property
    def _whole(self) -> list[int]:
        """The reductions that keep nothing but columns."""
        return [index for index, kept in self.parts.kept.items() if not kept]

    def _blocks(self, choice: TiledChoice) -> Formula:
        """Blocks that fill the GPU of the call once, each with something to do."""
        some = ceil_div(product([self.rows, self.columns]), choice.warps * LEAST_ELEMENTS)
        return ("min", product([choice.min_blocks, MULTIPROCESSORS]), some)

    def _parts(self, choice: TiledChoice) -> Formula:
        """Pieces that share an outer index, as many as fill the GPU once, each with several tiles' elements."""
        if not self.parts.outer:
            return 1
        outers, depth = (self.domain.points(axes) for axes in (self.parts.outer, self.parts.depth))
        warps = product([choice.warps * choice.min_blocks, MULTIPROCESSORS])
        several: Formula = ("floor_div", product([depth, self.columns]), ELEMENTS_OF_PART)
        return ("max", 1, ("min", ("floor_div", warps, ("max", 1, outers)), several))

    def _finishes(self, blocks: Formula, parts: Formula) -> Iterator[LaunchSpec]:
        """The launch that combines the partial results: those of ``blocks``, and of outer indices those of their
        ``parts``, where there are several."""
        groups = [*self._partials((), blocks, 1)]
        if self.parts.outer:
            groups += self._partials(self.parts.outer, parts, ("gt", parts, 1))
        if groups:
            yield Finisher.of(self, reduced=self._reduced, index="int64_t", splits=blocks).launch_together(groups)

    def _partials(self, kept: Axes, splits: Formula, needed: Formula) -> Iterator[CallGroup]:
        """Those of the reductions that keep these axes of rows."""
        own = tuple(index for index in self.parts.down if self.parts.kept[index] == kept)
        if own:
            group = FinishGroup(reductions=own, kept=(*kept, *self.parts.columns))
            yield CallGroup(group=group, splits=splits, narrowest=NARROWEST, needed=needed)

    def _scratch(self, blocks: Formula, parts: Formula) -> Iterator[Formula]:
        for index in self.parts.down:
            outer = self.parts.kept[index]
            splits = product([("gt", parts, 1), parts]) if outer else blocks
            for fid in self.task.fusion.exprs[index].outputs:
                size = partial_dtype(self.task, fid).bytes
                yield simplified(product([size, splits, self.domain.points((*outer, *self.parts.columns))]))
