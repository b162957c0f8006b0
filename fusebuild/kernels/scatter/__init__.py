"""Elements that are written to places which an index names.

The modules are imported when the first task scatters.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.family import Family
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import KernelSpec, VariantSpec
from fusebuild.kernels.common.storage import scatters
from fusebuild.kernels.common.view import KernelView

TEMPLATES = ("scatter_clear", "scatter_list", "scatter_places", "scatter_updates")


def _check(task: Task) -> None:
    from fusebuild.kernels.scatter.schedule import check

    check(task)


def _variants(planner: Planner) -> Sequence[VariantSpec]:
    from fusebuild.kernels.scatter.schedule import variants

    return variants(planner)


def _view(spec: KernelSpec) -> KernelView:
    from fusebuild.kernels.scatter.views import VIEWS

    return VIEWS[spec.template](spec)


FAMILY = Family(
    folder="scatter",
    name="scatter",
    check=_check,
    variants=_variants,
    views=dict.fromkeys(TEMPLATES, _view),
    exclusive=scatters,
    has_short_blocks=True,
    reads_slices_by_vectors=True,
)
