"""What a reduction reads to combine or store it, which decides where vectors may begin."""

from __future__ import annotations

from collections.abc import Sequence

from fusebuild.kernels.common.domain import Access
from fusebuild.kernels.common.lambdas import combined
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import VariantSpec, reductions
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.reduction.stores import stored_outputs


def read_along_columns(planner: Planner, variant: VariantSpec) -> list[Access]:
    """What ``variant`` reads to combine or store it that changes from column to column."""
    inner = planner.domain.inner
    return [access for access in _combined_reads(planner, variant) if inner in access.axes]


def lie_flat(planner: Planner, variant: VariantSpec, columns: Sequence[int]) -> bool:
    """Whether neighbouring columns, those at the ends of the inner axes of ``columns`` too, are neighbours in all that
    ``variant`` reads to combine or store it, and in what it stores, or find the same there: then a vector may begin at
    any column."""
    inside = {*columns}
    stored = [planner.domain.accesses[fid] for fid in stored_outputs(planner.task, planner.domain)]
    accesses = [*_combined_reads(planner, variant), *stored]
    moving = [access for access in accesses if not inside.isdisjoint(access.axes)]
    return all(inside <= {*access.axes} and planner.domain.is_contiguous(access) for access in moving)


def _combined_reads(planner: Planner, variant: VariantSpec) -> list[Access]:
    """What ``variant`` reads to combine or store it."""
    body = Body(variant.launches[0].kernel)
    return [planner.domain.accesses[fid] for fid in body.reads(_swept(planner, body))]


def _swept(planner: Planner, body: Body) -> list[int]:
    """What a sweep computes of each element: what it combines, and what it stores."""
    return [*combined(body, reductions(planner.task)), *stored_outputs(planner.task, planner.domain)]


def reads_flat_alone(planner: Planner, variant: VariantSpec) -> bool:
    """Whether the elements that ``variant`` combines come from flat tensors, wherever they are in them."""
    return _read_beside_flat(planner, variant) == frozenset()


def reads_flat_and_rows(planner: Planner, variant: VariantSpec) -> bool:
    """The same, but for values that a whole row has in common."""
    domain, beside = planner.domain, _read_beside_flat(planner, variant)
    reduced = {*domain.reduced}
    return beside is not None and all(reduced.isdisjoint(domain.accesses[fid].axes) for fid in beside)


def _read_beside_flat(planner: Planner, variant: VariantSpec) -> frozenset[int] | None:
    """The tensors beside flat ones that the elements come from which ``variant`` combines; None where they depend on
    their coordinates, too, or what is stored is not flat."""
    body = Body(variant.launches[0].kernel)
    operands = _swept(planner, body)
    stored = stored_outputs(planner.task, planner.domain)
    if body.coordinate_axes(body.closure(operands)) or not {*stored} <= {*planner.domain.flat}:
        return None
    return frozenset(body.reads(operands)) - {*planner.domain.flat}
