"""The families of kernels, in the order in which the segmenter asks them, and the library that takes the rest.

Adding one adds a file and a line here, its template, and the view in ``fusebuild/views`` that fills the template."""

from __future__ import annotations

from fusebuild.ir import Task
from fusebuild.schedule.alias import AliasScheduler
from fusebuild.schedule.inner_outer_persistent import InnerOuterPersistentScheduler
from fusebuild.schedule.inner_persistent import InnerPersistentScheduler
from fusebuild.schedule.kernel import Rejection, Scheduler, rejection
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


MOST_PARAMETER_BYTES = 32_764 - 512
"""What CUDA takes as the parameters of one kernel, less room for what a scheduler adds of its own: tickets, partial
results, sizes of its loops."""


def parameter_problem(task: Task) -> str:
    """Why no kernel can be given all that ``task`` reads and writes; empty where one can."""
    values = [task.fusion.value(fid) for fid in (*task.inputs, *task.outputs)]
    tensors = [value.tensor for value in values if value.is_tensor]
    strides = sum(tensor.contiguity.count(False) for tensor in tensors)
    sizes = {extent for tensor in tensors for extent in tensor.shape if not isinstance(extent, int)}
    if 8 * (len(values) + strides + len(sizes)) <= MOST_PARAMETER_BYTES:
        return ""
    return f"{len(tensors)} tensors are more parameters than a kernel can have"


def first_accepting(task: Task, target: Target) -> Scheduler | tuple[Rejection, ...]:
    """The first scheduler that takes ``task``, or every scheduler's reason not to.

    No kernel computes what a library does and the library nothing else, and only one family combines in order, so the
    others' reasons would say only that. Transposing kernels take what pointwise ones take or less, so that their
    reasons would be said twice.
    """
    special = LibraryScheduler if has_library_call(task) else ScanScheduler if ordered(task) else None
    rejections: list[Rejection] = []
    problem = parameter_problem(task)
    for scheduler in SCHEDULERS:
        own = type(scheduler) if isinstance(scheduler, LibraryScheduler | ScanScheduler) else None
        if own is not special:
            continue
        needs_a_kernel = not isinstance(scheduler, AliasScheduler)
        rejected = (
            rejection(scheduler.name, task, problem) if problem and needs_a_kernel else scheduler.accepts(task, target)
        )
        if rejected is None:
            return scheduler
        if not isinstance(scheduler, TransposeScheduler):
            rejections.append(rejected)
    return tuple(rejections)
