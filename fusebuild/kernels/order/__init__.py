"""``sort`` and ``topk`` of rows, with what is computed before on the rows and after on the results.

A row has one block, or some threads of one.
"""

from __future__ import annotations

from fusebuild.kernels.common.family import Family
from fusebuild.kernels.order.schedule import check, orders, variants
from fusebuild.kernels.order.view import order_memory, order_rows, order_top

FAMILY = Family(
    folder="order",
    name="order",
    check=check,
    variants=variants,
    views={"order_rows": order_rows, "order_memory": order_memory, "order_top": order_top},
    exclusive=orders,
)
