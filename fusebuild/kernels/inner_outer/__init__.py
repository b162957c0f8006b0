"""Reductions along rows and down columns in one pass over memory: the backward passes of norms."""

from __future__ import annotations

from fusebuild.kernels.common.family import Family
from fusebuild.kernels.inner_outer.schedule import InnerOuterPersistentScheduler
from fusebuild.kernels.inner_outer.view import inner_outer_persistent

FAMILY = Family(
    folder="inner_outer",
    scheduler=InnerOuterPersistentScheduler(),
    views={"inner_outer_persistent": inner_outer_persistent},
)
