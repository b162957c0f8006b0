"""Blocks that share a reduction and run together: a cluster, whose first block combines what all have.

That takes less time than a second kernel. (H100, 2026-11-27: argmax of 19 x 31232 4.8 -> 3.9 us, logsumexp of 15 x
20000 5.2 -> 3.7, column_sum of 3584 x 448 5.4 -> 4.9.) A cluster has few multiprocessors, so it is good where its
blocks have all they share on their way at once or in a few turns, and where clusters are no more than run at a time.
Whether they are is a formula of the sizes: the same kernel is launched with clusters, or without and followed by one
that finishes.
"""

from __future__ import annotations

from fusebuild.ir.formula import Formula, product, simplified, total
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import reductions
from fusebuild.ops.table import op_of

BLOCKS = 8
"""Blocks of a cluster: reduction_inner's and reduction_outer's kCluster."""
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


def cluster_where(condition: Formula) -> Formula:
    """The blocks of a cluster, 1 where there shall be none."""
    return simplified(total([1, product([BLOCKS - 1, condition])]))


def either(condition: Formula, first: Formula, second: Formula) -> Formula:
    """``first`` where the ``condition``, 1 or 0, holds, else ``second``."""
    return simplified(total([product([first, condition]), product([second, ("eq", condition, 0)])]))
