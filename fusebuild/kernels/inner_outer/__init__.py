"""Reductions along rows and down columns in one pass over memory: the backward passes of norms."""

from __future__ import annotations

from fusebuild.kernels.common.family import Family
from fusebuild.kernels.inner_outer.schedule import check, variants
from fusebuild.kernels.inner_outer.tiled_view import inner_outer_tiled
from fusebuild.kernels.inner_outer.view import inner_outer_persistent

FAMILY = Family(
    folder="inner_outer",
    name="inner_outer_persistent",
    check=check,
    variants=variants,
    views={"inner_outer_persistent": inner_outer_persistent, "inner_outer_tiled": inner_outer_tiled},
)
