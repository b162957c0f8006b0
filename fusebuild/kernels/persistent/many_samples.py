"""The longest rows with which what samples share stays, where samples have many: one kernel for rows of many lengths.

Such rows are more than the registers of one block, and what stays is several times as much. A cluster of the largest
size has them, whose blocks have as many threads as the rows of a call ask for: the launch says how many. A
multiprocessor then has as many small blocks as its registers and its shared memory last for, and while one waits for
its peers, others load and store. Threads that are too many for a row would take that room, and have nothing to do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import ClassVar, Self

from fusebuild.ir.formula import Formula, product, total
from fusebuild.kernels.common.rows import PARTIAL_BYTES, SYSTEM_BYTES, WARP, next_power_of_two
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.persistent.long_rows import (
    EDGED_COLUMNS,
    Edged,
    EdgedChoice,
    LongRowsWay,
    shared_by_rows,
    shared_by_some,
)
from fusebuild.kernels.persistent.shares import Share
from fusebuild.kernels.persistent.way import Way

ROWS_OF_PLACE = 4
"""The rows of a sample that begin at each place of a vector, at least. All others trail. (H100, adaln_forward of
2 x 640 x 91648: 199 us so, 250 where rows trail; of 12 x 16 x 150000 59 and 82; of 211 x 5 x 70901 294 and 191.)"""

THREADS, FOR_FEW = (160, 192, 256, 384, 768), 256
"""Threads of a block, of which a multiprocessor has room for about 768, and those up to which rows have more where they
are few. (H100, adaln_forward of 40 rows of 36000 elements: 9.7 us where clusters of two large blocks take two turns,
8.3 in one; of 14 rows of 40000: 5.3 us with 256 threads, 5.9 with 512.)"""

BARRIER_BYTES = 64
"""Shared memory of the barriers at which blocks of a cluster wait for what others send."""

HELD_BYTES = 64
"""Bytes of a row that a thread keeps: with more of them, and those of the next row, a multiprocessor has too few
threads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManySamples(LongRowsWay):
    """A step for each number of threads. Rows that are no more than the clusters that run at a time have larger blocks:
    then the threads of a row are what counts."""

    FOR_ODD_ROWS: ClassVar[bool] = True

    threads: int = THREADS[-1]
    """Threads of a block."""

    def applies(self, earlier: Collection[type[Way]]) -> bool:
        return Edged in earlier and bool(shared_by_some(self.task, self.domain))

    def variants(self) -> tuple[VariantSpec, ...]:
        rows = self.sharing(shared_by_rows(self.task, self.domain, has_edges=True))
        if rows is None or self.target.cluster == 1:
            return ()
        few = rows._of(FOR_FEW)._running
        return tuple(chain.from_iterable(rows._of(each)._beyond(few if each < FOR_FEW else 0) for each in THREADS))

    def _of(self, threads: int) -> Self:
        """This for the rows that so many ``threads`` to a block are full of."""
        return replace(self, threads=threads, size=self.target.cluster * threads * self._vectors * self.vec)

    @property
    def _vectors(self) -> int:
        """The vectors of a row that a thread has."""
        return max(1, HELD_BYTES // self.vector_bytes(self.cached))

    def _beyond(self, few: int) -> tuple[VariantSpec, ...]:
        """The variant for more than so ``few`` rows."""
        are_whole: Formula = ("eq", ("mod", self.columns, self.vec), 0)
        of_place = product([self.rows_of_sample, total([1, product([self.vec - 1, are_whole])])])
        many: Formula = ("le", ROWS_OF_PLACE * self.vec, of_place)
        guard = (*self.odd_guard, ("lt", EDGED_COLUMNS, self.columns), many)
        return self.by(f"edged{self.size}", (*guard, ("lt", few, self.rows)) if few else guard)

    def shares(self) -> Iterator[Share]:
        """The one of blocks of as many threads as this is for, if a multiprocessor has room for one, and would have for
        one of the largest."""
        per_row, cluster = self.threads, self.target.cluster
        fit = self._registers * THREADS[-1] <= self.target.registers
        if not (self.stays(cluster) and self._room and fit):
            return
        yield Share(
            cluster=cluster,
            per_row=per_row,
            bytes=per_row * self._vectors * self.vector_bytes(self.cached),
            blocks=1,
            walkers=self._running,
            ahead=True,
        )

    @property
    def _room(self) -> int:
        """The blocks that a multiprocessor has room for."""
        cluster = self.target.cluster
        shared = self.reserved_bytes(THREADS[-1], cluster) + self.shared_bytes(self.threads, cluster)
        by_registers = self.target.registers // (self._registers * self.threads)
        return min(by_registers, self.target.shared_bytes // shared)

    @property
    def _registers(self) -> int:
        """Those of a thread, of which all threads of the largest blocks shall have as many."""
        return -(-self.registers(self.threads, self.target.cluster, ahead=True) // 8) * 8

    def reserved_bytes(self, per_row: int, cluster: int) -> int:
        """What reductions take with buffers for most of their partial results, whose size is a power of two, and the
        system."""
        buffer = next_power_of_two(PARTIAL_BYTES * max(self.partials) * cluster * per_row // WARP)
        return SYSTEM_BYTES + BARRIER_BYTES + 2 * buffer

    @property
    def _running(self) -> int:
        """The clusters that run at a time; 0 where none does."""
        return self.walkers(self.target.cluster, self._room) if self._room else 0

    def _most_threads(self, choice: EdgedChoice) -> int:
        return THREADS[-1]

    def _check_threads(self, choice: EdgedChoice) -> None:
        """As many warps of a cluster as a warp has lanes, at least: each lane takes up what one of them sends."""
        per_row, least = choice.threads_per_row, WARP * WARP // self.target.cluster
        choice.require(per_row >= least, "threads_per_row", f"it is {per_row}, and {least} are the fewest")
        choice.require_block("threads_per_row", per_row, THREADS[-1])
