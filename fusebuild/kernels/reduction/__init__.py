"""Reductions without broadcasting back: inner, outer and full, several over the same axes in one pass."""

from __future__ import annotations

from fusebuild.kernels.common.family import Family
from fusebuild.kernels.reduction.inner_view import reduction_inner
from fusebuild.kernels.reduction.outer_view import reduction_outer
from fusebuild.kernels.reduction.schedule import check, variants

FAMILY = Family(
    folder="reduction",
    name="reduction",
    check=check,
    variants=variants,
    views={"reduction_inner": reduction_inner, "reduction_outer": reduction_outer},
)
