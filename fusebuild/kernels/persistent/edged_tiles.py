"""Short rows of a known length, in tiles that threads read by aligned vectors.

Rows of an odd length begin at any place of an aligned vector, but those whose numbers differ by a multiple of a
vector's elements begin at the same one. A block has **groups** of threads, as many as a vector has elements or a
multiple of it, and each group takes one row of the tile after another, so many rows apart: its threads have the same
columns of all of them. They take whole vectors of the row from shared memory, and each has one of the few elements
beside those, the row's **edges** (as in :mod:`fusebuild.kernels.persistent.long_rows`). What changes along columns
alone, such as a weight, a thread cuts out of unaligned words while the tile is on its way: once, where it has registers
for it, else for each row.

Measured on an H200, a layernorm of 127 columns has 0.94 of a copy's bandwidth so, and 0.86 where threads take its
elements one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Self

from fusebuild.ir.formula import Formula, product, simplified
from fusebuild.kernels.common.choice import decide, fewer_blocks
from fusebuild.kernels.common.rows import FEWEST_THREADS, SYSTEM_BYTES, WARP, RowChoice, RowThreads, check_rows
from fusebuild.kernels.common.spec import (
    KnownSizes,
    VariantSpec,
    formula_parameter,
    kernel_parameters,
    known_parameters,
)
from fusebuild.kernels.persistent.budgets import EDGED_TILES
from fusebuild.kernels.persistent.long_rows import EDGED_COLUMNS, Edged
from fusebuild.kernels.persistent.tiles import BLOCKS_WANTED, TilesWay

FEWEST_VECTORS = 8
"""Vectors of the shortest row: of a shorter one, too much is edges."""

HELD, FEWER_HELD = 32, 16
"""Elements of a row that a thread has at most, and where a part of a warp is enough for that."""

MOST_HELD = 64
"""Elements of a row that a thread has at most where a choice is given: more fill its registers."""

LEAST_BLOCK = 128
"""Threads of a block, at least."""

TURNS = 4
"""Rows that a group takes of a tile, one after another."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgedTilesHeuristics:
    """Blocks of groups of ``threads``; a thread has ``chunks`` vectors of a row of so many ``columns``, and a group has
    ``turns`` rows of a tile, at most. Inputs ``cached`` and values ``kept`` are in registers from sweep to sweep,
    inputs ``held`` from row to row; outputs lie ``in_place`` of inputs, ``(output, input)``."""

    threads: RowThreads
    chunks: int
    columns: int
    turns: int
    cached: tuple[int, ...]
    kept: tuple[int, ...]
    held: tuple[int, ...]
    in_place: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgedTilesChoice(RowChoice):
    """A block takes ``rows_per_block`` rows of a tile at a time, and up to ``turns`` times as many in all; its threads
    hold what they need of the columns, or cut it out for each row."""

    FEWER: ClassVar[tuple[str, ...]] = ("holds_columns", "rows_per_block", "threads_per_row")

    turns: int
    holds_columns: bool

    def stepped(self, knob: str, value: int) -> Self:
        """The rows of a block stay where threads change: they are a multiple of a vector's elements."""
        changed = super(RowChoice, self).stepped(knob, value)
        if knob == "min_blocks":
            return changed
        return replace(changed, min_blocks=fewer_blocks(self.min_blocks, self.threads.block, changed.threads.block))


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgedTiles(TilesWay):
    """Tiles that threads read by aligned vectors, of rows whose size is known."""

    NAME: ClassVar[str] = "edged_tiles"
    TEMPLATE: ClassVar[str] = "inner_edged_tiles"

    def variants(self) -> tuple[VariantSpec, ...]:
        """One for rows of the size that is known, or none where threads do not take such rows well. Raises
        :class:`KnobError` for a choice that no kernel can be made with."""
        size = self.known_columns
        if size is None or size % self.vec == 0 or size < FEWEST_VECTORS * self.vec:
            return ()
        if size > EDGED_COLUMNS and Edged.of(replace(self, tuned={})).variants():
            return ()
        proposal = self._propose(size)
        if proposal is None:
            return ()
        choice = decide(self.way, proposal, self.tuned, partial(self._check, size=size))
        return (self._variant(size, choice),)

    def _edges(self, size: int) -> int:
        """The most elements that a row has beside its whole vectors: they are as many up to a whole vector, and at both
        ends of the row one vector less one."""
        least = size % self.vec
        return least + self.vec if least + self.vec <= 2 * (self.vec - 1) else least

    def _chunks(self, size: int, per_row: int) -> int:
        """The vectors of a row that a thread has."""
        return -(-(size // self.vec) // per_row)

    def _shapes(self, size: int) -> Iterator[RowThreads]:
        """The threads that may have a row, the best first, each of which has an element of its edges at most."""
        for held, most in ((FEWER_HELD, WARP // 2), (HELD, WARP)):
            per_row = FEWEST_THREADS
            while per_row <= most:
                if per_row >= self._edges(size) and self._chunks(size, per_row) * self.vec <= held:
                    yield RowThreads(per_row=per_row, rows=max(LEAST_BLOCK // per_row, self.vec))
                per_row *= 2

    def _propose(self, size: int) -> EdgedTilesChoice | None:
        threads = next(self._shapes(size), None)
        if threads is None:
            return None
        chunks, turns, turn_bytes = self._chunks(size, threads.per_row), TURNS, threads.rows * self._row_bytes(size)
        most = self.target.shared_bytes // 2 - SYSTEM_BYTES
        while turns > 1 and turns * turn_bytes > most:
            turns //= 2
        if turns * turn_bytes > most:
            return None
        holds = bool(self.resident) and self._registers(chunks, self.resident) <= EDGED_TILES.most
        blocks = self._blocks(size, threads, turns, self._registers(chunks, self.resident if holds else ()))
        return EdgedTilesChoice(
            threads_per_row=threads.per_row,
            rows_per_block=threads.rows,
            min_blocks=blocks,
            turns=turns,
            holds_columns=holds,
        )

    def _blocks(self, size: int, threads: RowThreads, turns: int, registers: int) -> int:
        """The blocks that a multiprocessor has room for."""
        by_registers = self.target.registers // (threads.block * (-(-registers // 8) * 8))
        by_threads = self.target.threads_per_multiprocessor // threads.block
        shared = threads.rows * turns * self._row_bytes(size) + SYSTEM_BYTES
        return max(1, min(by_registers, by_threads, self.target.shared_bytes // shared))

    def _row_bytes(self, size: int) -> int:
        """Shared memory that a row takes, with what has one element for it."""
        narrow = [fid for fid in self.task.outputs if fid not in (*self.tiles, *self.in_place)]
        return size * self.bytes_of(self.tiles) + self.bytes_of(narrow)

    def _registers(self, chunks: int, held: Sequence[int]) -> int:
        """What a thread takes that holds so many vectors of a row, and of inputs ``held``."""
        cached, kept = self._in_registers(chunks)
        at_hand = self.domain.dense_along(self.domain.inner)
        beside = [fid for fid in at_hand if fid not in (*self.domain.flat, *self.task.outputs, *held)]
        lambdas = sum(bool(expr.combine) for expr in self.task.steps)
        others = EDGED_TILES.on(self.target, at_hand=self.vec * self.bytes_of(at_hand) // 4)
        others += sum(self.vec * self.bytes_of([fid]) // 4 + EDGED_TILES.per_cut for fid in beside)
        others += EDGED_TILES.per_lambda * lambdas
        return others + self._words(chunks, (*cached, *held)) + self._words(chunks, kept)

    def _in_registers(self, chunks: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The inputs and the values that registers last for: costly values before inputs, which shared memory has, and
        all of each or none."""
        left = EDGED_TILES.most - EDGED_TILES.least
        kept = self.kept if self._words(chunks, self.kept) <= left else ()
        left -= self._words(chunks, kept)
        return self.cached if self._words(chunks, self.cached) <= left else (), kept

    def _words(self, chunks: int, fids: Sequence[int]) -> int:
        """Registers that ``chunks`` vectors of each of ``fids`` take, and an element beside them."""
        return sum(max(1, chunks * self.vec * self.bytes_of([fid]) // 4) + 1 for fid in fids)

    def _check(self, choice: EdgedTilesChoice, *, size: int) -> None:
        check_rows(choice, self.target)
        per_row, rows = choice.threads_per_row, choice.rows_per_block
        message = f"a row has up to {self._edges(size)} elements beside its vectors"
        choice.require(per_row >= self._edges(size), "threads_per_row", message)
        held = self._chunks(size, per_row) * self.vec
        choice.require(
            held <= MOST_HELD, "threads_per_row", f"a thread would have {held} elements, at most {MOST_HELD}"
        )
        message = f"it is {rows}, but rows {self.vec} apart begin at the same place of a vector"
        choice.require(rows % self.vec == 0, "rows_per_block", message)
        needed = rows * choice.turns * self._row_bytes(size) + SYSTEM_BYTES
        message = f"{needed} bytes of shared memory are more than {self.target.shared_bytes}"
        choice.require(needed <= self.target.shared_bytes, "turns", message)
        choice.require(
            bool(self.resident) or not choice.holds_columns, "holds_columns", "nothing changes along columns alone"
        )

    def _tile_rows(self, choice: EdgedTilesChoice) -> Formula:
        """The rows of a tile: as many as the groups are, or some times that."""
        spread: Formula = ("floor_div", self.rows, BLOCKS_WANTED * choice.rows_per_block)
        turns: Formula = ("max", 1, ("min", choice.turns, spread))
        return simplified(product([choice.rows_per_block, turns]))

    def _variant(self, size: int, choice: EdgedTilesChoice) -> VariantSpec:
        chunks, tile_rows = self._chunks(size, choice.threads_per_row), self._tile_rows(choice)
        cached, kept = self._in_registers(chunks)
        heuristics = EdgedTilesHeuristics(
            threads=choice.threads,
            chunks=chunks,
            columns=size,
            turns=choice.turns,
            cached=cached,
            kept=kept,
            held=self.resident if choice.holds_columns else (),
            in_place=tuple(self.in_place.items()),
        )
        own = formula_parameter("tile_rows", tile_rows, "rows of a tile")
        kernel = self.kernel(
            self.TEMPLATE,
            heuristics,
            vec=self.vec,
            parameters=known_parameters((*kernel_parameters(self.task, self.domain), own), self.named_sizes),
            min_blocks=choice.min_blocks,
            sizes=KnownSizes(help=False),
        )
        guard = (*self.aligned((*self.domain.flat, *heuristics.held), self.vec), ("eq", self.columns, size))
        grid, block = simplified(("ceil_div", self.rows, tile_rows)), (choice.threads.block, 1, 1)
        shared_bytes = simplified(product([tile_rows, self._row_bytes(size)]))
        return self.variant(self.way, choice, guard, kernel, grid, block, shared_bytes=shared_bytes)
