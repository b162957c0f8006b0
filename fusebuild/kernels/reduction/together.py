"""Blocks that share a reduction and run together: a cluster, whose first block combines what all have.

That takes less time than a second kernel. (H100, 2026-11-27: argmax of 19 x 31232 4.8 -> 3.9 us, logsumexp of 15 x
20000 5.2 -> 3.7, column_sum of 3584 x 448 5.4 -> 4.9.) A cluster has few multiprocessors, so it is good where its
blocks have all they share on their way at once or in a few turns, and where clusters are no more than run at a time.
Whether they are is a formula of the sizes: the same kernel is launched with clusters, or without and followed by one
that finishes.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.formula import Formula, product, simplified, total
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import KernelParameter, formula_parameter, reductions
from fusebuild.ops.table import op_of

BLOCKS = 8
"""Blocks of a cluster: as many as together.cuh combines."""
MOST_ELEMENTS = 2**22
"""Elements of all clusters together, at most: to read more takes so long that a second kernel is no matter."""
CLUSTERS = 16
"""Clusters of one block a multiprocessor that run at a time on a GPU, about."""
GATHERED_BYTES = 16 * 1024
"""What blocks of a cluster may leave in the first one's static shared memory."""

WORD = 8
"""Bytes of what a reduction accumulates of a column, for each part of it, at most."""


def columns_gathered(task: Task) -> int:
    """The columns of which all blocks may leave what the reductions of ``task`` accumulate."""
    exprs = [task.fusion.exprs[index] for index in reductions(task)]
    parts = max(2 if op_of(expr).running else len(expr.outputs) for expr in exprs)
    return GATHERED_BYTES // (BLOCKS * WORD * parts * len(exprs))


def either(condition: Formula, first: Formula, second: Formula) -> Formula:
    """``first`` where the ``condition``, 1 or 0, holds, else ``second``."""
    return simplified(total([product([first, condition]), product([second, ("eq", condition, 0)])]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """How blocks share reductions. ``blocks`` have all of them, and where they run apart ``splits`` share those of
    each, whose partial results another kernel combines; where they ``are_clustered``, 1 or 0, a cluster does."""

    blocks: Formula
    splits: Formula
    are_clustered: Formula = 0

    @property
    def can_cluster(self) -> bool:
        """Whether there are sizes for which blocks are clustered."""
        return self.are_clustered != 0

    @property
    def cluster(self) -> Formula:
        """The blocks of a cluster, 1 where there is none."""
        return simplified(total([1, product([BLOCKS - 1, self.are_clustered])]))

    @property
    def together(self) -> Formula:
        """The blocks that share those of one, which lie along y."""
        return either(self.are_clustered, BLOCKS, self.splits) if self.can_cluster else self.splits

    @property
    def grid(self) -> tuple[Formula, Formula, Formula]:
        return simplified(self.blocks), self.together, 1

    @property
    def parameters(self) -> tuple[KernelParameter, ...]:
        """What a kernel is told of clusters, if it can have some."""
        own = formula_parameter("cluster", self.cluster, "blocks that share a reduction and run together")
        return (own,) if self.can_cluster else ()
