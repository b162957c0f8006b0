"""Rows of a few elements, whose number is known: a thread has whole rows.

A thread's rows are as many as a vector has elements, and so they are as many whole vectors as a row has elements. They
are copied to a tile in shared memory as all others are (:mod:`fusebuild.kernels.persistent.tiles`); from there a thread
takes its vectors, and where rows are of an odd length, those of a warp's threads are in different banks. In registers,
where it is known of each element which row it is of, the thread computes with one row after the other and with no other
thread. (H200: layernorm of 7 columns moves .95 of what a copy does, where threads that take elements one by one move
.73.)

What is one element a row lies in tiles, too. What changes along columns alone is the same for all threads of a block,
each of which reads it from global memory once: the caches have it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fusebuild.ir.formula import Formula, ceil_div
from fusebuild.kernels.common.choice import Choice, decide
from fusebuild.kernels.common.rows import MAX_THREADS, WARP, next_power_of_two
from fusebuild.kernels.common.spec import KnownSizes, VariantSpec, VectorLayout, kernel_parameters, known_parameters
from fusebuild.kernels.persistent.budgets import THREADED
from fusebuild.kernels.persistent.tiles import LEAST_COPY_BYTES, TilesWay

BLOCK = 64
"""Threads of a block, at least: they meet twice, and what waits there is little."""

LEAST_TILE_BYTES = 2 * 1024
"""Bytes of what a block copies: with less of it too many blocks have to start. (H200, softmax of one column: 162 us
with 1 KiB, 137 with 2, 143 with 4.)"""

LONGEST = 16
"""Elements of a row, at most."""

ACCESS_BYTES = 16
"""Bytes of the widest access."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadedHeuristics:
    """Blocks of ``threads``, each of which has ``rows`` rows of ``columns`` elements, which have the places of ``vec``
    in a vector. Values ``kept`` are held from sweep to sweep; tensors ``of_rows`` have one element a row; inputs
    ``columns_alone`` change along nothing else; outputs lie ``in_place`` of inputs, ``(output, input)``; ``copied``
    elements of each tensor, ``(tensor, elements)``, move at a time from or to global memory."""

    threads: int
    rows: int
    columns: int
    vec: int
    kept: tuple[int, ...]
    of_rows: tuple[int, ...]
    columns_alone: tuple[int, ...]
    in_place: tuple[tuple[int, int], ...]
    copied: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreadedChoice(Choice):
    """Threads of a block; a multiprocessor shall have the registers of ``min_blocks``."""

    FEWER = ("threads",)

    threads: int
    min_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Threaded(TilesWay):
    """Rows of a few elements in the registers of one thread each."""

    NAME: ClassVar[str] = "threaded"
    TEMPLATE: ClassVar[str] = "inner_threaded"

    def variants(self) -> tuple[VariantSpec, ...]:
        """One where the recipe names the size at hand, and threads have registers for such rows; else none. Raises
        :class:`KnobError` for a choice that no kernel can be made with."""
        columns = self.known_columns
        if columns is None or self.crosses or not 1 <= columns <= LONGEST or not self._fits(columns):
            return ()
        return (self._variant(columns),)

    @property
    def _of_rows(self) -> tuple[int, ...]:
        """Tensors of one element a row that move by vectors."""
        is_wide = {fid: self._bytes_of_rows(fid) >= LEAST_COPY_BYTES for fid in self.of_rows}
        return tuple(fid for fid in self.of_rows if fid in self.task.outputs or is_wide[fid])

    def _bytes_of_rows(self, fid: int) -> int:
        """The bytes that one element of each of a thread's rows takes."""
        return self.vec * self.bytes_of([fid])

    def _fits(self, columns: int) -> bool:
        """Whether all that is written lies in tiles, and a thread has registers for its rows."""
        in_tiles = {*self.domain.flat, *self._of_rows}
        return {*self.task.outputs} <= in_tiles and self._registers(columns) <= THREADED.most

    def _registers(self, columns: int) -> int:
        """The registers of a thread that has its rows of all inputs, and one row of whatever else changes along it."""
        inputs = columns * sum(map(self._bytes_of_rows, self.flat_inputs))
        of_rows = sum(map(self._bytes_of_rows, self._of_rows))
        outputs = [fid for fid in self.domain.flat if fid in self.task.outputs]
        words = [max(1, self.bytes_of([fid]) // 4) for fid in (*self.resident, *self.kept, *outputs)]
        return THREADED.base + (inputs + of_rows) // 4 + columns * sum(words)

    def _propose(self, columns: int) -> ThreadedChoice:
        threads = max(BLOCK, next_power_of_two(-(-LEAST_TILE_BYTES // self._copied_bytes(columns))))
        fitting = self.target.registers // (threads * self._registers(columns))
        fitting = max(1, min(self.target.threads_per_multiprocessor // threads, fitting))
        return ThreadedChoice(threads=threads, min_blocks=fitting)

    def _check(self, choice: ThreadedChoice) -> None:
        choice.require_power_of_two("threads", WARP, MAX_THREADS)
        choice.require_blocks("min_blocks", choice.threads, self.target.threads_per_multiprocessor)
        columns = self.known_columns
        assert columns is not None
        most = self._shared_bytes(choice, columns)
        message = f"{most} bytes of shared memory are more than {self.target.shared_bytes}"
        choice.require(most <= self.target.shared_bytes, "threads", message)

    def _shared_bytes(self, choice: ThreadedChoice, columns: int) -> int:
        return choice.threads * self._copied_bytes(columns)

    def _copied_bytes(self, columns: int) -> int:
        """What a thread's rows take of the tiles."""
        return self.vec * (columns * self.bytes_of(self.tiles) + self.bytes_of(self._of_rows))

    def _variant(self, columns: int) -> VariantSpec:
        choice = decide(self.way, self._propose(columns), self.tuned, self._check)
        in_tiles = (*self.domain.flat, *self._of_rows)
        access_bytes = {fid: min(ACCESS_BYTES, self._bytes_of_rows(fid)) for fid in in_tiles}
        heuristics = ThreadedHeuristics(
            threads=choice.threads,
            rows=self.vec,
            columns=columns,
            vec=next_power_of_two(columns),
            kept=self.kept,
            of_rows=self._of_rows,
            columns_alone=self.resident,
            in_place=tuple(self.in_place.items()),
            copied=tuple((fid, size // self.bytes_of([fid])) for fid, size in access_bytes.items()),
        )
        kernel = self.kernel(
            self.TEMPLATE,
            heuristics,
            vec=1,
            parameters=known_parameters(kernel_parameters(self.task, self.domain), self.named_sizes),
            vectors=VectorLayout.ANYWHERE,
            min_blocks=choice.min_blocks,
            sizes=KnownSizes(help=False, branchless=True),
        )
        sizes: list[Formula] = [("eq", symbol, size) for symbol, size in self.named_sizes.items()]
        memory = {fid: self.task.fusion.value(fid).memory for fid in access_bytes}
        aligned: list[Formula] = [("aligned", memory[fid], size) for fid, size in access_bytes.items()]
        grid, shared_bytes = ceil_div(self.rows, choice.threads * self.vec), self._shared_bytes(choice, columns)
        guard, block = (*sizes, *aligned), (choice.threads, 1, 1)
        return self.variant(self.way, choice, guard, kernel, grid, block, shared_bytes=shared_bytes)
