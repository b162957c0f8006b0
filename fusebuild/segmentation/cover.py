"""A cover: tasks in run order that together hold every tensor expr of a Fusion and name in ``results`` what they write.

Two tasks may hold the same expr; then one of them writes its value, if anyone reads it, and the other computes it again
for itself. Every search of this package ends in a cover, and all of them are compared by :func:`seconds`.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusebuild.ir.fusion import Task
from fusebuild.kernels.families import runs_nothing
from fusebuild.segmentation.acceptance import Acceptance
from fusebuild.segmentation.cost import VIEW_SECONDS, CostModel

Cover = tuple[Task, ...]


def hbm_bytes(task: Task, costs: CostModel) -> int:
    """Bytes that ``task`` reads and writes, as a kernel of its own."""
    return costs.task_bytes(frozenset(task.exprs), task.inputs, task.outputs)


def seconds(cover: Sequence[Task], acceptance: Acceptance, costs: CostModel) -> float:
    """The predicted time of ``cover``; a task that only views memory costs next to nothing."""
    return sum(_seconds(task, acceptance, costs) for task in cover)


def _seconds(task: Task, acceptance: Acceptance, costs: CostModel) -> float:
    is_view = runs_nothing(acceptance.scheduler(task.exprs, task.results))
    return VIEW_SECONDS if is_view else costs.seconds(hbm_bytes(task, costs))
