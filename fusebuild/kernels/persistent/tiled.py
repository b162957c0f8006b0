"""Short rows of any length: a block copies whole rows to shared memory, as they lie side by side in global memory.

Of a short row that begins anywhere, nearly every vector is its first or its last one, which it shares with the rows
beside it. A **tile** of many rows has one of each: it moves in aligned vectors from and to global memory, and between,
threads take its elements one by one. A thread has a run of neighbouring elements of a row, which it holds in registers
from sweep to sweep; runs are of an odd length, and so what the threads of a warp take at a time is in different banks
of shared memory. How many threads share a row, up to a warp, follows from its length at run time: one kernel serves
rows of one element and rows of a thousand.

What changes along columns alone, such as a weight, is in shared memory from the block's start. So is what is the same
for rows beside each other, such as the scale of a sample: the block copies what its rows have of it, as it lies there.
What is one element a row, such as a mean, comes with the tile and leaves with it.

The same kernel takes rows that are too few for tiles: :mod:`fusebuild.kernels.persistent.untiled`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import MULTIPROCESSORS, Formula, difference, evaluate, product, simplified, symbols, total
from fusebuild.kernels.common.choice import Choice, decide
from fusebuild.kernels.common.rows import MAX_THREADS, WARP
from fusebuild.kernels.common.spec import (
    VariantSpec,
    VectorLayout,
    counts,
    fits_int32,
    formula_parameter,
    kernel_parameters,
)
from fusebuild.kernels.common.sweeps import column_inputs
from fusebuild.kernels.persistent import alone
from fusebuild.kernels.persistent.alone import Alone
from fusebuild.kernels.persistent.budgets import TILED
from fusebuild.kernels.persistent.tiles import BLOCKS_WANTED, LEAST_COPY_BYTES, TilesWay
from fusebuild.kernels.persistent.untiled import MOST_EACH, MOST_HELD, REGISTERS, Untiled

BLOCK = 128
"""Threads of a block."""

HELD = 32
"""Elements of a row that a thread has at most, of one input or of two together: with the registers for as many, there
are blocks enough. (H200, softmax_backward with 32 of each and with 16: 86479 rows of 15 6.0 and 5.5 us, 9152 of 53 4.1
and 3.7, 119360 of 47 14.1 and 15.2.)"""

TOGETHER = 4
"""Elements that a thread loads before it computes with the first, and tests for the end of its run together."""

TILES_WANTED = 2 * BLOCKS_WANTED
"""Tiles that keep a device busy, several for each block that runs at a time: few would end at different times."""

AT_A_TIME = 768
"""Tiles of narrow rows that run at a time: a block has so little to do with them that to begin is most of it. Where
there are more, there are some times as many, or the last ones would leave most multiprocessors idle."""

FEW_TILES = 6
"""Tiles for each multiprocessor up to which they have no more rows than they must: so many run at a time."""

HELD_WORDS = 2
"""Registers that each element may take that a thread holds."""

FEWEST_BLOCKS, MOST_BLOCKS = 3, 6
"""Blocks that share a multiprocessor's registers: more are not waited for less."""

NARROW = 7
"""Elements of the longest row that a thread has alone, in straight lines for each length: tests for its end, and
whether others share the row, would be most of its work."""

APART = 3
"""Doublings of a row's threads up to which rows that a warp takes together are as far apart as their banks ask for.
Longer rows lie beside each other: two of a warp meet in some banks, which takes less than to give each a warp."""

TILE_BYTES = 32 * 1024
"""Shared memory of a tile, where rows are short enough, or half as much where none of it overlaps with another part:
several blocks share a multiprocessor, some of which wait for memory while others compute."""

STAGES = 4
"""Parts of a tile, of which a block computes one while others are on their way: all blocks of a device begin together,
and have but a few tiles each, so that else nobody would load while all compute. Those whose threads look for pieces of
a row, such as its channels, have no registers for that, and long rows are few in a tile. (H200, layernorm of 600001
rows of 63 59 -> 52 us, with tiles twice as large; softmax_backward of 71003 rows of 401 52.6 -> 55.3.)"""

ALL_TURNS = 1023
"""Turns of all threads that no tile has: where a stage has so many, it is the whole tile. It is odd, so that rows are
not taken for as many as may be apart."""

WIDEST_TILE_BYTES = 72 * 1024
"""Shared memory of the tile of the fewest rows: three blocks share a multiprocessor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledHeuristics:
    """Blocks of ``threads``, each of which holds ``most`` elements of a row, and whole rows of up to ``narrow`` ones;
    a tile comes in so many ``stages``;
    ``copied`` elements move at a time to and from global memory, and ``per_word`` share a word of shared memory. Inputs
    ``cached`` and values ``kept`` are held in registers from sweep to sweep; ``resident`` inputs change along columns
    alone; those ``of_groups`` along the ``outer`` first ones of the other axes, too, so that groups of rows share them;
    tensors ``of_rows`` have one element a row; outputs lie ``in_place`` of inputs, ``(output, input)``. Of rows that
    are too few for tiles, a thread has up to ``untiled`` elements, and has all inputs ``loaded`` before it computes,
    those ``singly`` element by element. Of rows of one element it has up to ``alone``; none where tiles have those."""

    threads: int
    most: int
    narrow: int
    stages: int
    copied: int
    per_word: int
    cached: tuple[int, ...]
    kept: tuple[int, ...]
    resident: tuple[int, ...]
    of_groups: tuple[int, ...]
    outer: int
    of_rows: tuple[int, ...]
    in_place: tuple[tuple[int, int], ...]
    untiled: int
    alone: int
    loaded: tuple[int, ...]
    singly: tuple[int, ...]

    @property
    def parts(self) -> int:
        """The parts that a vector's beginning may have: halves, quarters, …"""
        return TOGETHER.bit_length() - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TiledChoice(Choice):
    """A thread has up to ``held`` elements of a row; tiles of up to ``tile_bytes`` where rows are short enough."""

    FEWER = ("held", "threads")

    threads: int
    held: int
    tile_bytes: int
    min_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiled(TilesWay):
    """Tiles whose elements threads take one by one."""

    NAME: ClassVar[str] = "tiled"
    TEMPLATE: ClassVar[str] = "inner_tiled"

    def variants(self) -> tuple[VariantSpec, ...]:
        """One for rows of up to ``held`` elements for each thread of a warp, and an odd one; none where rows are surely
        longer. Raises :class:`KnobError` for a choice that no kernel can be made with."""
        choice = decide(self.way, self._propose(), self.tuned, self._check)
        return () if self._shortest > self._longest(choice) else (self._variant(choice),)

    @property
    def _shortest(self) -> int:
        """The elements of the shortest row."""
        least = {fact.symbol: fact.min or 1 for fact in self.task.fusion.facts}
        return int(evaluate(self.columns, {symbol: least.get(symbol, 1) for symbol in symbols(self.columns)}))

    @property
    def _per_word(self) -> int:
        """Elements of the narrowest tensor that a thread takes of a word of shared memory: two where an element has one
        or two bytes, else one."""
        return 2 if min(self.bytes_of([fid]) for fid in self.domain.flat) <= 2 else 1

    def _most(self, held: int) -> int:
        """The elements that a thread has where ``held`` would do: a word's times an odd number."""
        return ((held // self._per_word) | 1) * self._per_word

    def _longest(self, choice: TiledChoice) -> int:
        """The elements of the longest row."""
        return WARP * self._most(choice.held)

    def _steps(self, choice: TiledChoice) -> list[tuple[int, int, int]]:
        """``(elements of a row, doublings, rows)``: beyond so many elements, so many more doublings of the threads of a
        row, and so many rows that a block's threads walk at least where there are many. Rows that a warp takes together
        are as far apart as their banks ask for, but for long ones, of which that would be too many."""
        most, apart = self._most(choice.held), WARP * self._per_word
        doublings = range(WARP.bit_length())
        fit = [step <= APART and self._tile_bytes(apart, most << step) <= WIDEST_TILE_BYTES for step in doublings]
        rows = [max(apart * fit[step], choice.threads >> step) for step in doublings]
        longer = ((most << step, 1, rows[step + 1] - rows[step]) for step in doublings[:-1])
        return [(0, 0, rows[0]), *longer]

    def _tile_bytes(self, rows: int, columns: int) -> int:
        return rows * columns * self.bytes_of(self.tiles)

    def _row_shift(self, choice: TiledChoice) -> Formula:
        steps = self._steps(choice)
        return simplified(total([product([more, ("lt", beyond, self.columns)]) for beyond, more, _ in steps]))

    def _variant(self, choice: TiledChoice) -> VariantSpec:
        cached, kept = self._in_registers()
        few, single = self._untiled(choice), self._alone(choice)
        heuristics = TiledHeuristics(
            threads=choice.threads,
            most=self._most(choice.held),
            narrow=NARROW,
            stages=1 if self._singly else STAGES,
            copied=self.vec,
            per_word=self._per_word,
            cached=cached,
            kept=kept,
            resident=self.resident,
            of_groups=self.of_groups,
            outer=self._outer,
            of_rows=self._of_rows,
            in_place=tuple(self.in_place.items()),
            untiled=few.most,
            alone=single.most,
            loaded=self._loaded,
            singly=self._singly,
        )
        tile_rows = simplified(single.rows_of_block(self._tile_rows(choice)))
        groups = formula_parameter(
            "tile_groups", self._tile_groups(tile_rows), "groups that a tile has rows of, at most"
        )
        alone_rows = formula_parameter(
            "alone_rows", simplified(single.rows_of_thread), "rows of one element that a thread has to itself, or 0"
        )
        own = [
            formula_parameter("without_tile", few.threads_of_row, "threads that a row without a tile has, or 0"),
            formula_parameter("row_shift", self._row_shift(choice), "2 to it threads share a row"),
            formula_parameter("tile_rows", tile_rows, "rows of a tile"),
            formula_parameter("turn_rows", self._turn_rows(choice), "of which a stage has a multiple"),
            *((groups,) if self.of_groups else ()),
            *((alone_rows,) if single.most else ()),
        ]
        kernel = self.kernel(
            self.TEMPLATE,
            heuristics,
            vec=TOGETHER,
            parameters=(*kernel_parameters(self.task, self.domain), *own),
            vectors=VectorLayout.ANYWHERE,
            min_blocks=choice.min_blocks,
        )
        groups_fit = (fits_int32(self._group_rows), *self.aligned(self.of_groups, self.vec)) if self.of_groups else ()
        sizes_fit = (guard for guard in self._divisors_fit if guard not in groups_fit)
        guard = (
            *self.odd_guard,
            *groups_fit,
            *sizes_fit,
            ("le", 1, self.columns),
            ("le", self.columns, self._longest(choice)),
        )
        grid, block = few.grid(simplified(("ceil_div", self.rows, tile_rows))), (choice.threads, 1, 1)
        shared_bytes = self._shared_bytes(tile_rows)
        return self.variant(self.way, choice, guard, kernel, grid, block, shared_bytes=shared_bytes)

    @property
    def _loaded(self) -> tuple[int, ...]:
        """The inputs that a thread loads before it computes, where there is no tile: all that lie along rows."""
        return column_inputs(self.task, self.domain)

    @property
    def _singly(self) -> tuple[int, ...]:
        """Other inputs that change along rows, but do not lie along them: a channel has one of its pixels."""
        reduced, accesses = {*self.domain.reduced}, self.domain.accesses
        changing = [fid for fid in self.task.inputs if fid in accesses and reduced & {*accesses[fid].axes}]
        return tuple(fid for fid in changing if fid not in self._loaded)

    def _alone(self, choice: TiledChoice) -> Alone:
        """How rows of one element are taken, if there are such."""
        most = alone.MOST_ROWS if self.domain.kept and self._shortest == 1 else 0
        return Alone(rows=self.rows, columns=self.columns, most=most, threads=choice.threads, blocks=choice.min_blocks)

    def _untiled(self, choice: TiledChoice) -> Untiled:
        words = sum(map(self._words, (*self._loaded, *self._singly, *self.kept)))
        held = MOST_HELD
        while held > 1 and held * words > REGISTERS:
            held //= 2
        least = 2 if self._alone(choice).most else 1
        return Untiled(
            rows=self.rows, columns=self.columns, least=least, most=held,
            most_each=MOST_HELD if self._singly else MOST_EACH, threads=choice.threads, blocks=choice.min_blocks,
        )  # fmt: skip

    def _in_registers(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The inputs and the values that ``HELD_WORDS`` last for: costly values before inputs, which shared memory has,
        and all of them or none."""
        words = sum(map(self._words, self.kept))
        kept, left = (self.kept, HELD_WORDS - words) if words <= HELD_WORDS else ((), HELD_WORDS)
        cached = list[int]()
        for fid in self.cached:
            if fid in self.flat_inputs and self._words(fid) <= left:
                cached.append(fid)
                left -= self._words(fid)
        return tuple(cached), kept

    def _words(self, fid: int) -> int:
        return max(1, self.bytes_of([fid]) // 4)

    def _propose(self) -> TiledChoice:
        inputs, _ = self._in_registers()
        held = HELD // max(1, len(inputs))
        while held > 1 and self._least_tile(BLOCK, held) > WIDEST_TILE_BYTES:
            held //= 2
        return TiledChoice(threads=BLOCK, held=held, tile_bytes=TILE_BYTES, min_blocks=self._blocks(held))

    def _blocks(self, held: int) -> int:
        """The blocks that a multiprocessor has registers for, when a thread holds so many elements of a row, what it
        has at hand of each tensor, and the states and temporaries of lambdas."""
        words = sum(self._words(fid) for fids in self._in_registers() for fid in fids)
        lambdas = sum(bool(expr.combine) for expr in self.task.steps)
        others = TILED.base + TILED.per_tensor * len(self.domain.accesses) + TILED.per_lambda * lambdas
        others += TILED.per_axis * self.divided
        registers = others + words * (held + TOGETHER)
        return max(FEWEST_BLOCKS, min(MOST_BLOCKS, self.target.registers // (BLOCK * registers)))

    def _least_tile(self, threads: int, held: int) -> int:
        """The bytes of the fewest long rows, at most: one for each warp."""
        return self._tile_bytes(threads // WARP, WARP * self._most(held))

    def _check(self, choice: TiledChoice) -> None:
        choice.require_power_of_two("threads", WARP, MAX_THREADS)
        choice.require_power_of_two("held", 1, HELD)
        choice.require_block("threads", choice.threads)
        choice.require_blocks("min_blocks", choice.threads, self.target.threads_per_multiprocessor)
        most = max(choice.tile_bytes, self._least_tile(choice.threads, choice.held))
        most += most * self.bytes_of(self.of_groups) // self.bytes_of(self.tiles)
        most += 2 * self.vec * self.bytes_of((*self.tiles, *self.of_groups))
        most += self._longest(choice) * self._resident_bytes() + choice.threads * self.bytes_of(self._of_rows)
        message = f"{most} bytes of shared memory are more than {self.target.shared_bytes}"
        choice.require(most <= self.target.shared_bytes, "tile_bytes", message)

    def _least_rows(self, choice: TiledChoice) -> Formula:
        """The rows that a block's threads walk at least: as many as they have at a time, where as many as may be apart
        would leave multiprocessors idle."""
        few, beside, shift, rows, before = list[Formula](), list[Formula](), 0, 0, (0, 0)
        for beyond, more, further in self._steps(choice):
            shift, rows = shift + more, rows + further
            now = min(rows, choice.threads >> shift), max(0, rows - (choice.threads >> shift))
            is_longer: Formula = ("lt", beyond, self.columns)
            few.append(product([now[0] - before[0], is_longer]))
            beside.append(product([now[1] - before[1], is_longer]))
            before = now
        are_many: Formula = ("lt", product([FEW_TILES * WARP * self._per_word, MULTIPROCESSORS]), self.rows)
        return total([*few, product([are_many, total(beside)])])

    def _turn_rows(self, choice: TiledChoice) -> Formula:
        """The rows that a stage is a multiple of: those that a block's threads walk at least, or more than a tile."""
        turns = difference(ALL_TURNS, product([ALL_TURNS - 1, self._in_stages(choice)]))
        return simplified(product([self._least_rows(choice), turns]))

    def _tile_rows(self, choice: TiledChoice) -> Formula:
        """The rows of a tile: as many as the block's threads walk at least, or times that."""
        least = self._least_rows(choice)
        row_bytes = total([product([self.bytes_of(self.tiles), self.columns]), self.bytes_of(self._of_rows)])
        fit: Formula = ("floor_div", self._room(choice) if self.resident else choice.tile_bytes, row_bytes)
        times: Formula = ("max", 1, ("ceil_div", self.rows, product([AT_A_TIME, ("max", 1, fit)])))
        turns: Formula = ("ceil_div", self.rows, product([AT_A_TIME * choice.threads, times]))
        short = product([choice.threads, ("le", self.columns, NARROW), turns])
        spread: Formula = ("max", ("floor_div", self.rows, TILES_WANTED), short, self._spread(choice, least, row_bytes))
        return simplified(product([least, ("max", 1, ("floor_div", ("min", fit, spread), least))]))

    def _spread(self, choice: TiledChoice, least: Formula, row_bytes: Formula) -> Formula:
        """The rows of as few tiles as run at a time, or some times as many where those would be too large: a block
        waits for memory with each tile, however few rows that has."""
        at_a_time = product([choice.min_blocks, MULTIPROCESSORS])
        most: Formula = ("max", least, ("floor_div", self._room(choice), row_bytes))
        times: Formula = ("max", 1, ("ceil_div", self.rows, product([at_a_time, most])))
        return product([least, ("ceil_div", self.rows, product([at_a_time, least, times]))])

    def _room(self, choice: TiledChoice) -> Formula:
        """Shared memory of a tile that comes in stages, or half as much."""
        return product([choice.tile_bytes // 2, total([1, self._in_stages(choice)])])

    def _in_stages(self, choice: TiledChoice) -> Formula:
        """1 where rows are so short that stages of them are worth their barriers, else 0."""
        return 0 if self._singly else ("le", self.columns, self._most(choice.held) << APART)

    @property
    def _outer(self) -> int:
        """The axes along which groups of rows differ, none where nothing is the same for neighbouring rows alone."""
        return len(self.domain.accesses[self.of_groups[0]].axes) - len(self.domain.reduced) if self.of_groups else 0

    @property
    def _group_rows(self) -> Formula:
        """The rows of a group."""
        return self.domain.points(self.domain.kept[self._outer :])

    @property
    def _divisors_fit(self) -> tuple[Formula, ...]:
        """What holds where 32 bits have the sizes that the numbers of a tile's rows are divided by."""
        kept, accesses = self.domain.kept, self.domain.accesses.values()
        divides = any(0 < len({*kept} & {*access.axes}) < len(kept) for access in accesses)
        divides |= counts(self.task) or bool(self.domain.sources)
        extents = [self.domain.axes[axis].extent for axis in kept[1:]] if divides else []
        return tuple(fits_int32(extent) for extent in extents if not isinstance(extent, int))

    def _tile_groups(self, tile_rows: Formula) -> Formula:
        reached: Formula = ("floor_div", tile_rows, ("max", 1, self._group_rows))
        return simplified(("min", tile_rows, total([2, reached])))

    def _shared_bytes(self, tile_rows: Formula) -> Formula:
        tiles = product([self.bytes_of(self.tiles), self._places(tile_rows)])
        groups = product([self.bytes_of(self.of_groups), self._places(self._tile_groups(tile_rows))])
        columns = product([self._resident_bytes(), total([self.columns, 1])])
        rows = product([self.bytes_of(self._of_rows), tile_rows])
        return simplified(total([tiles, groups, columns, rows] if self.of_groups else [tiles, columns, rows]))

    @property
    def _of_rows(self) -> tuple[int, ...]:
        """Tensors of one element a row that move by elements."""
        is_wide = {fid: self.bytes_of([fid]) >= LEAST_COPY_BYTES for fid in self.of_rows}
        return tuple(fid for fid in self.of_rows if fid in self.task.outputs or is_wide[fid])

    def _places(self, rows: Formula) -> Formula:
        """Elements of a tile of so many ``rows``."""
        return product([self.vec, total([2, ("floor_div", product([rows, self.columns]), self.vec)])])

    def _resident_bytes(self) -> int:
        """What one column takes of all resident inputs, which may be floats for threads."""
        return sum(max(DType.FLOAT.bytes, self.bytes_of([fid])) for fid in self.resident)
