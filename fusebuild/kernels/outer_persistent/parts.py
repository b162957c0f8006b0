"""The two parts of a task that several kernels run one after another: statistics, and what is made of each element."""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.parts import part_of
from fusebuild.kernels.common.rows import check_outputs, check_reductions, levels
from fusebuild.kernels.common.spec import reductions, try_domain
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.kernels.pointwise.schedule import check as check_elements
from fusebuild.kernels.reduction.schedule import check as check_statistics
from fusebuild.ops.table import op_of

MOST_READ_TWICE = 2
"""Tensors that both parts may read whole: to read three twice takes longer than to write what is made of them once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """``statistics`` computes all outputs that are one element a channel, ``elements`` the others from those."""

    statistics: Task
    elements: Task

    @property
    def between(self) -> frozenset[int]:
        """What the second part reads of the first."""
        return frozenset(self.elements.inputs).intersection(self.statistics.outputs)


def parts_of(task: Task) -> Parts:
    """The parts of ``task``. Raises :class:`UnfitError` where it has no such parts, or they no kernels."""
    domain = try_domain(task)
    check_reductions(task, domain)
    _check_axes(domain)
    check_outputs(task, domain, domain.kept, domain.every)
    level = levels(task)
    for index in reductions(task):
        for fid in task.fusion.exprs[index].outputs:
            if level[fid] > 1:
                raise UnfitError(f"{task.fusion.value(fid).name} needs the result of another reduction", fid)
    of_channels = [fid for fid in task.outputs if domain.accesses[fid].axes == domain.kept]
    others = [fid for fid in task.outputs if fid not in of_channels]
    parts = Parts(statistics=part_of(task, of_channels), elements=part_of(task, others, of_channels))
    _check_parts(parts, domain)
    return parts


def _check_axes(domain: AxisDomain) -> None:
    kept = domain.kept
    if not kept or not domain.axes[0].reduced:
        raise UnfitError("no reduction runs over outer dims alone")
    if kept != tuple(range(kept[0], kept[-1] + 1)):
        raise UnfitError("the dims of a channel are not neighbours")


def _check_parts(parts: Parts, domain: AxisDomain) -> None:
    statistics, elements = parts.statistics, parts.elements
    value = elements.fusion.value
    for index in reductions(elements):
        fid = elements.fusion.exprs[index].outputs[0]
        raise UnfitError(f"{value(fid).name} is broadcast back and no output", fid)
    if not elements.outputs or not parts.between:
        raise UnfitError("nothing that a reduction gives is broadcast back")
    for index in {*statistics.exprs}.intersection(elements.exprs):
        expr = elements.fusion.exprs[index]
        if op_of(expr).is_random:
            raise UnfitError(f"{value(expr.outputs[0]).name} is random, and would be drawn twice", expr.outputs[0])
    twice = {*statistics.inputs}.intersection(elements.inputs, domain.flat)
    if len(twice) > MOST_READ_TWICE:
        raise UnfitError(f"{len(twice)} tensors would be read twice")
    check_statistics(statistics)
    check_elements(elements)
