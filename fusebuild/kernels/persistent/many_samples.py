"""The longest rows with which what samples share stays, where samples have many: one kernel for rows of many lengths.
So does it where rows are so few that hardly any cluster has a second one: none waits for what others leave.

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
from fusebuild.kernels.common.rows import WARP
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.persistent.long_rows import (
    EDGED_COLUMNS,
    SAMPLED_THREAD_BYTES,
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

ROWS_OF_CLUSTER = 2
"""Rows for each cluster that runs at a time up to which they do not trail, whatever their samples have. (H200,
adaln_forward of 3 rows of 40075: 12.7 us where they trail, 6.0 so; of 60 17.9 and 12.2; of 100 20.9 and 19.2.)"""

THREADS, LARGEST, LONGEST = (128, 160, 256), 256, 512
"""Threads of a block, of the largest one of the same kernel, and of one that is alone on its multiprocessor, for the
longest rows: those have a kernel that knows how many it has. (H100, adaln_forward of 64 x 17 x 38208: 106 us where rows
have 256 threads, 87 where they have 128; 95 with 160 threads that have two thirds as much of a row each. Of 61 x 33 x
49545 254, 219 and 236.)"""

AT_A_TIME = 512
"""Threads of all blocks of a multiprocessor: each has the registers for its part of two rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ManySamples(LongRowsWay):
    """A step for each number of threads. Rows that are no more than the clusters of larger blocks that run at a time
    have those: then the threads of a row are what counts. (H100, 14 rows of 40000: 5.3 us with 256 threads, 5.9 with
    512.)"""

    FOR_ODD_ROWS: ClassVar[bool] = True

    threads: int = LARGEST
    """Threads of a block."""

    def applies(self, earlier: Collection[type[Way]]) -> bool:
        return Edged in earlier and bool(shared_by_some(self.task, self.domain))

    def variants(self) -> tuple[VariantSpec, ...]:
        rows = self.sharing(shared_by_rows(self.task, self.domain, has_edges=True))
        if rows is None or self.target.cluster == 1:
            return ()
        steps = [rows._of(threads) for threads in (*THREADS, LONGEST)]
        few = (*(larger._running for larger in steps[1 : len(THREADS)]), 0, 0)
        return tuple(chain.from_iterable(step._beyond(least) for step, least in zip(steps, few, strict=True)))

    def _of(self, threads: int) -> Self:
        """This for the rows that so many ``threads`` to a block are full of."""
        return replace(self, threads=threads, size=self.target.cluster * threads * self._vectors * self.vec)

    @property
    def _vectors(self) -> int:
        """The vectors of a row that a thread has."""
        return max(1, SAMPLED_THREAD_BYTES // self.vector_bytes(self.cached))

    def _beyond(self, few: int) -> tuple[VariantSpec, ...]:
        """The variant for more than so ``few`` rows."""
        guard = (*self.odd_guard, ("lt", EDGED_COLUMNS, self.columns), self._stays_long)
        return self.by(f"edged{self.size}", (*guard, ("lt", few, self.rows)) if few else guard)

    @property
    def _stays_long(self) -> Formula:
        """Whether what stays serves many rows, or rows are so few that it need not."""
        are_whole: Formula = ("eq", ("mod", self.columns, self.vec), 0)
        of_place = product([self.rows_of_sample, total([1, product([self.vec - 1, are_whole])])])
        least = ROWS_OF_PLACE * self.vec
        are_few: Formula = ("le", self.rows, ROWS_OF_CLUSTER * self._running)
        return ("le", least, total([of_place, product([least, are_few])]))

    def shares(self) -> Iterator[Share]:
        """The one of blocks of as many threads as this is for, if a multiprocessor has room for one. The registers are
        those of the largest blocks of the kernel."""
        largest, cluster = max(self.threads, LARGEST), self.target.cluster
        fit = self.registers(self.threads, cluster, ahead=True) * AT_A_TIME <= self.target.registers
        if not (self.stays(cluster) and self._room and fit):
            return
        yield Share(
            cluster=cluster,
            per_row=self.threads,
            bytes=self.threads * self._vectors * self.vector_bytes(self.cached),
            blocks=AT_A_TIME // largest,
            walkers=self._running,
            ahead=True,
        )

    @property
    def _room(self) -> int:
        """The blocks that a multiprocessor has room for."""
        cluster = self.target.cluster
        shared = self.reserved_bytes(LARGEST, cluster) + self.shared_bytes(self.threads, cluster)
        return min(AT_A_TIME // self.threads, self.target.shared_bytes // shared)

    @property
    def _running(self) -> int:
        """The clusters that run at a time; 0 where none does."""
        return self.walkers(self.target.cluster, self._room) if self._room else 0

    def _most_threads(self, choice: EdgedChoice) -> int:
        return LARGEST if choice.threads_per_row <= LARGEST else 0

    def _check_threads(self, choice: EdgedChoice) -> None:
        """As many warps of a cluster as a warp has lanes, at least: each lane takes up what one of them sends."""
        per_row, least = choice.threads_per_row, WARP * WARP // self.target.cluster
        choice.require(per_row >= least, "threads_per_row", f"it is {per_row}, and {least} are the fewest")
        choice.require_block("threads_per_row", per_row, LONGEST)
        if per_row > LARGEST:
            super(ManySamples, self)._check_threads(choice)
