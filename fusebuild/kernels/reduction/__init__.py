"""Reductions without broadcasting back: inner, outer and full, several over the same axes in one pass."""

from __future__ import annotations

from fusebuild.kernels.common.family import Family
from fusebuild.kernels.reduction.inner_view import reduction_inner
from fusebuild.kernels.reduction.outer_view import reduction_outer
from fusebuild.kernels.reduction.schedule import check, check_storing, variants

FAMILY = Family(
    folder="reduction",
    name="reduction",
    takes_members=True,
    check=check,
    variants=variants,
    views={"reduction_inner": reduction_inner, "reduction_outer": reduction_outer},
)

STORING = Family(
    folder="reduction",
    name="storing_reduction",
    check=check_storing,
    variants=variants,
    rejects_in_its_own_words=False,
)
"""The same kernels for tasks with results of the whole domain, too, which no family takes that keeps it on chip."""
