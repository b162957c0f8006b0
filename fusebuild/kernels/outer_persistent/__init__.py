"""Reductions over outer dims whose results are broadcast back: batch norms in training."""

from __future__ import annotations

from fusebuild.kernels.common.family import Family
from fusebuild.kernels.outer_persistent.alone_view import outer_alone
from fusebuild.kernels.outer_persistent.columns_view import outer_persistent_by_columns
from fusebuild.kernels.outer_persistent.schedule import check, variants

FAMILY = Family(
    folder="outer_persistent",
    name="outer_persistent",
    check=check,
    variants=variants,
    views={"outer_persistent": outer_persistent_by_columns, "outer_alone": outer_alone},
)
