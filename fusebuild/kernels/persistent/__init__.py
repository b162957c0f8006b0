"""Reductions over the innermost axes whose results are broadcast back: rows stay on chip.

Its thirty modules are imported when the first task is taken, as they are a seventh of what a process imports to plan.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusebuild.kernels.common.family import Family
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import KernelSpec, VariantSpec
from fusebuild.kernels.common.view import KernelView
from fusebuild.kernels.persistent.fit import check

TEMPLATES = (
    "inner_persistent",
    "inner_resident",
    "inner_sampled",
    "inner_tiled",
    "inner_edged_tiles",
    "inner_threaded",
    "inner_split",
    "inner_staged",
    "inner_trailing",
)


def _variants(planner: Planner) -> Sequence[VariantSpec]:
    from fusebuild.kernels.persistent.schedule import variants

    return variants(planner)


def _view(spec: KernelSpec) -> KernelView:
    from fusebuild.kernels.persistent.views import VIEWS

    return VIEWS[spec.template](spec)


FAMILY = Family(
    folder="persistent",
    name="inner_persistent",
    check=check,
    variants=_variants,
    views=dict.fromkeys(TEMPLATES, _view),
)
