"""``sort`` and ``topk`` of rows, with what is computed before on the rows and after on the results.

A row has one block, or some threads of one.
"""

from __future__ import annotations

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.family import Family, on_demand
from fusebuild.kernels.common.spec import indices_of
from fusebuild.ops.table import Kind

TEMPLATES = ("order_rows", "order_memory", "order_top")


def _orders(task: Task) -> tuple[int, ...]:
    """Indices of the task's sorts."""
    return indices_of(task, Kind.ORDER)


FAMILY = Family(
    folder="order",
    name="order",
    check=on_demand("fusebuild.kernels.order.schedule", "check"),
    variants=on_demand("fusebuild.kernels.order.schedule", "variants"),
    views=dict.fromkeys(TEMPLATES, on_demand("fusebuild.kernels.order.view", "order_view")),
    exclusive=_orders,
)
