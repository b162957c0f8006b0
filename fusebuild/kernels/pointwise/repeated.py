"""Outputs that repeat along the innermost axes: of the threads that have the same element of one, the first writes it.

What such an output is made of is on its way to the others in any case, so that it takes no kernel of its own, unless
those axes have no elements: then a second launch writes it, which otherwise has no blocks.
"""

from __future__ import annotations

from collections.abc import Iterable

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.spec import try_domain
from fusebuild.kernels.common.unfit import UnfitError


def repeated_along(domain: AxisDomain, fids: Iterable[int]) -> frozenset[int]:
    """The axes that some of the tensors ``fids`` lack; what is scattered goes to a place of its own along each."""
    accesses = [access for fid in fids if (access := domain.accesses[fid]).position is None]
    return frozenset(axis for access in accesses for axis in domain.every if axis not in access.axes)


def repeated_outputs(task: Task, domain: AxisDomain) -> tuple[int, ...]:
    """The outputs of ``task`` that lack an axis."""
    return tuple(fid for fid in task.outputs if domain.accesses[fid].axes != domain.every)


def check_repeated(task: Task) -> None:
    """Raise :class:`UnfitError` unless some outputs of ``task`` lack the innermost axes, all of them the same ones, and
    the others none. What is overwritten by such an output other threads may read later; and what repeats along outer
    axes, or is read elsewhere, has faster kernels."""
    domain, value = try_domain(task), task.fusion.value
    fids = repeated_outputs(task, domain)
    if not fids or len(fids) == len(task.outputs):
        raise UnfitError("no output lacks dims that another one has")
    for fid in fids:
        axes, output = domain.accesses[fid].axes, task.fusion.output(fid)
        if axes != domain.every[: len(axes)] or axes != domain.accesses[fids[0]].axes:
            raise UnfitError(f"{value(fid).name} has other dims than this family writes", fid)
        if output is not None and output.alias is not None:
            raise UnfitError(f"{output.name} overwrites {value(output.alias).name}, which other threads read", fid)
    if domain.sources:
        fid = min(domain.sources)
        raise UnfitError(f"{value(fid).name} is read elsewhere than where it is used", fid)
    for fid, access in domain.accesses.items():
        if access.axes != domain.every[: len(access.axes)] or not domain.is_contiguous(access):
            raise UnfitError(f"{value(fid).name} is not dense along the first dims", fid)
