"""The families of kernels, in the order in which the segmenter asks them.

A family is added as a folder here, templates in the folder of the same name, and a line in :data:`FAMILIES`.
"""

from __future__ import annotations

from fusebuild.ir.fusion import Task
from fusebuild.kernels import (
    alias,
    inner_outer,
    library,
    order,
    outer_persistent,
    persistent,
    pointwise,
    reduction,
    scan,
    scatter,
    transpose,
)
from fusebuild.kernels.common.family import Family, Runs, View
from fusebuild.kernels.common.finish_view import reduction_finish
from fusebuild.kernels.common.spec import KernelSpec, Rejection, too_many_parameters
from fusebuild.kernels.common.tickets import ticket_counters
from fusebuild.kernels.common.view import KernelView
from fusebuild.target.table import Target

FAMILIES: tuple[Family, ...] = (
    alias.FAMILY,
    transpose.FAMILY,
    pointwise.FAMILY,
    reduction.FAMILY,
    persistent.FAMILY,
    outer_persistent.FAMILY,
    inner_outer.FAMILY,
    reduction.STORING,
    pointwise.REPEATING,
    scan.FAMILY,
    scatter.FAMILY,
    order.FAMILY,
    library.FAMILY,
)

COMMON: dict[str, View] = {"reduction_finish": reduction_finish, "ticket_counters": ticket_counters}
"""Views of the kernels that several families launch beside their own."""


def template_folders() -> tuple[str, ...]:
    """Where templates lie below ``templates/``. No two templates have one name."""
    return ("common", *(family.folder for family in FAMILIES if family.views))


def view_of(spec: KernelSpec) -> KernelView:
    """The view of ``spec``, by its template. Every decision is made in it or before; a template only places lines."""
    views = next((family.views for family in FAMILIES if spec.template in family.views), COMMON)
    return views[spec.template](spec)


def family_of(scheduler: str) -> Family:
    """The family whose scheduler has that name. Raises :class:`StopIteration` where there is none."""
    return next(family for family in FAMILIES if family.name == scheduler)


def runs_nothing(scheduler: str) -> bool:
    """Whether the tasks that the scheduler of that name takes need no kernel, since their results are views."""
    return any(family.name == scheduler and family.runs is Runs.NOTHING for family in FAMILIES)


def first_accepting(task: Task, target: Target) -> Family | tuple[Rejection, ...]:
    """The first family that takes ``task``, or the reason of each that might have not to."""
    exclusive = [family for family in FAMILIES if family.exclusive is not None and family.exclusive(task)]
    rejections: list[Rejection] = []
    for family in exclusive or (family for family in FAMILIES if family.exclusive is None):
        rejected = family.accepts(task, target) or too_many_parameters(family.name, task, target)
        if rejected is None:
            return family
        if family.rejects_in_its_own_words:
            rejections.append(rejected)
    return tuple(rejections)
