"""The families of kernels, in the order in which the segmenter asks them.

A family is added as a folder here, templates in the folder of the same name, and a line in :data:`FAMILIES`.
"""

from __future__ import annotations

from fusebuild.ir.fusion import Task
from fusebuild.kernels import alias, inner_outer, library, persistent, pointwise, reduction, scan, transpose
from fusebuild.kernels.common.family import Family, View
from fusebuild.kernels.common.finish_view import reduction_finish
from fusebuild.kernels.common.spec import KernelSpec, Rejection, Scheduler, too_many_parameters
from fusebuild.kernels.common.tickets_view import ticket_counters
from fusebuild.kernels.common.view import KernelView
from fusebuild.target.table import Target

FAMILIES: tuple[Family, ...] = (
    alias.FAMILY,
    transpose.FAMILY,
    pointwise.FAMILY,
    reduction.FAMILY,
    persistent.FAMILY,
    inner_outer.FAMILY,
    scan.FAMILY,
    library.FAMILY,
)

SCHEDULERS: tuple[Scheduler, ...] = tuple(family.scheduler for family in FAMILIES)

COMMON: dict[str, View] = {"reduction_finish": reduction_finish, "ticket_counters": ticket_counters}
"""Views of the kernels that several families launch beside their own."""

TEMPLATE_FOLDERS = ("common", *(family.folder for family in FAMILIES if family.views))
"""Where templates lie below ``templates/``. No two have one name."""


def view_of(spec: KernelSpec) -> KernelView:
    """The view of ``spec``, by its template. Every decision is made in it or before; a template only places lines."""
    views = next((family.views for family in FAMILIES if spec.template in family.views), COMMON)
    return views[spec.template](spec)


def scheduler_named(name: str) -> Scheduler:
    """The scheduler of that ``name``. Raises :class:`StopIteration` where there is none."""
    return next(scheduler for scheduler in SCHEDULERS if scheduler.name == name)


def first_accepting(task: Task, target: Target) -> Scheduler | tuple[Rejection, ...]:
    """The first scheduler that takes ``task``, or the reason of each that might have not to."""
    exclusive = [family for family in FAMILIES if family.exclusive is not None and family.exclusive(task)]
    rejections: list[Rejection] = []
    for family in exclusive or (family for family in FAMILIES if family.exclusive is None):
        scheduler = family.scheduler
        rejected = scheduler.accepts(task, target) or too_many_parameters(scheduler.name, task, target)
        if rejected is None:
            return scheduler
        if family.rejects_in_its_own_words:
            rejections.append(rejected)
    return tuple(rejections)
