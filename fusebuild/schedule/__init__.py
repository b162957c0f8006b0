"""The families of kernels, in the order in which the segmenter asks them, and the library that takes the rest.

Adding one adds a file and a line here, its template, and the view in ``fusebuild/views`` that fills the template."""

from __future__ import annotations

from fusebuild.ir import Task
from fusebuild.schedule.alias import AliasScheduler
from fusebuild.schedule.inner_outer_persistent import InnerOuterPersistentScheduler
from fusebuild.schedule.inner_persistent import InnerPersistentScheduler
from fusebuild.schedule.kernel import Rejection, Scheduler
from fusebuild.schedule.library import LibraryScheduler, has_library_call
from fusebuild.schedule.pointwise import PointwiseScheduler
from fusebuild.schedule.reduction import ReductionScheduler
from fusebuild.schedule.scan import ScanScheduler, ordered
from fusebuild.schedule.transpose import TransposeScheduler
from fusebuild.target import Target

SCHEDULERS: tuple[Scheduler, ...] = (
    AliasScheduler(),
    TransposeScheduler(),
    PointwiseScheduler(),
    ReductionScheduler(),
    InnerPersistentScheduler(),
    InnerOuterPersistentScheduler(),
    ScanScheduler(),
    LibraryScheduler(),
)


def first_accepting(task: Task, target: Target) -> Scheduler | tuple[Rejection, ...]:
    """The first scheduler that takes ``task``, or every scheduler's reason not to.

    No kernel computes what a library does and the library nothing else, and only one family combines in order, so the
    others' reasons would say only that. Transposing kernels take what pointwise ones take or less, so that their
    reasons would be said twice.
    """
    special = LibraryScheduler if has_library_call(task) else ScanScheduler if ordered(task) else None
    rejections: list[Rejection] = []
    for scheduler in SCHEDULERS:
        own = type(scheduler) if isinstance(scheduler, LibraryScheduler | ScanScheduler) else None
        if own is not special:
            continue
        rejected = scheduler.accepts(task, target)
        if rejected is None:
            return scheduler
        if not isinstance(scheduler, TransposeScheduler):
            rejections.append(rejected)
    return tuple(rejections)
