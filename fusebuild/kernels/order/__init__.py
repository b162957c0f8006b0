"""``sort`` and ``topk`` of rows, with what is computed before on the rows and after on the results.

A row has one block, or some threads of one. The modules are imported when the first task has a sort.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.family import Family
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import KernelSpec, VariantSpec, indices_of
from fusebuild.kernels.common.view import KernelView
from fusebuild.ops.table import Kind


def _orders(task: Task) -> tuple[int, ...]:
    """Indices of the task's sorts."""
    return indices_of(task, Kind.ORDER)


def _check(task: Task) -> None:
    from fusebuild.kernels.order.schedule import check

    check(task)


def _variants(planner: Planner) -> Sequence[VariantSpec]:
    from fusebuild.kernels.order.schedule import variants

    return variants(planner)


def _view(spec: KernelSpec) -> KernelView:
    from fusebuild.kernels.order.view import VIEWS

    return VIEWS[spec.template](spec)


FAMILY = Family(
    folder="order",
    name="order",
    check=_check,
    variants=_variants,
    views=dict.fromkeys(("order_rows", "order_memory", "order_top"), _view),
    exclusive=_orders,
)
