"""The families of kernels, in the order in which the segmenter asks them.

Adding one adds a file and a line here, its template, and the view in ``fusebuild/views`` that fills the template."""

from __future__ import annotations

from fusebuild.ir import Task
from fusebuild.schedule.alias import AliasScheduler
from fusebuild.schedule.inner_persistent import InnerPersistentScheduler
from fusebuild.schedule.kernel import Rejection, Scheduler
from fusebuild.schedule.pointwise import PointwiseScheduler
from fusebuild.schedule.reduction import ReductionScheduler
from fusebuild.target import Target

SCHEDULERS: tuple[Scheduler, ...] = (
    AliasScheduler(),
    PointwiseScheduler(),
    ReductionScheduler(),
    InnerPersistentScheduler(),
)


def first_accepting(task: Task, target: Target) -> Scheduler | tuple[Rejection, ...]:
    """The first scheduler that takes ``task``, or every scheduler's reason not to."""
    rejections: list[Rejection] = []
    for scheduler in SCHEDULERS:
        rejected = scheduler.accepts(task, target)
        if rejected is None:
            return scheduler
        rejections.append(rejected)
    return tuple(rejections)
