"""What the tasks of a cover move, and the time that they take together: by it all searches for covers are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusebuild.ir.formula import Formula, total
from fusebuild.ir.fusion import Task
from fusebuild.kernels.families import runs_nothing
from fusebuild.segmentation.acceptance import Acceptance
from fusebuild.segmentation.cost import VIEW_SECONDS, CostModel
from fusebuild.segmentation.segmented import SegmentedFusion, scalar_closure


def with_scalars(task: Task) -> Task:
    """``task`` with the scalar arithmetic it needs: scalars are computed again wherever they are used."""
    return replace(task, exprs=scalar_closure(task.fusion, task.exprs))


def hbm_bytes(task: Task, costs: CostModel) -> int:
    """Bytes that ``task`` reads and writes, as a kernel of its own."""
    return costs.task_bytes(frozenset(task.exprs), task.inputs, task.outputs)


def total_hbm_bytes(segmented: SegmentedFusion) -> Formula:
    """Bytes that all segments read and write."""
    return total([segment.hbm_bytes for segment in segmented.segments])


def seconds(cover: Sequence[Task], acceptance: Acceptance, costs: CostModel) -> float:
    """The predicted time of ``cover``; a task that only views memory costs next to nothing."""
    return sum(_seconds(task, acceptance, costs) for task in cover)


def _seconds(task: Task, acceptance: Acceptance, costs: CostModel) -> float:
    is_view = runs_nothing(acceptance.scheduler(task.exprs, task.results))
    return VIEW_SECONDS if is_view else costs.seconds(hbm_bytes(task, costs))
