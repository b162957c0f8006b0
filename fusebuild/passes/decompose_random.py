"""``uniform``, ``rand_like`` and ``dropout``, written with ``linear_index`` and ``philox_uniform``.

The place of an element in the result of the op is what it draws by, and not where a kernel happens to compute it.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusebuild.ir.dtype import DType
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.random import DRAW_BITS
from fusebuild.passes.rewriting import Rewriter


def random(rewriter: Rewriter, expr: Expr) -> None:
    """Write ``expr`` in primitives."""
    operands, result = rewriter.operands(expr), rewriter.value(expr.outputs[0])
    index = rewriter.emit(
        "linear_index", [], {"shape": result.tensor.shape}, name=f"{result.name}_index", location=expr.location
    )
    draw = rewriter.emit("philox_uniform", [index, *operands[-2:]], name=f"{result.name}_draw", location=expr.location)
    if expr.op == "dropout":
        _dropout(rewriter, expr, draw)
        return
    draw = _narrowed(rewriter, expr, draw, result.dtype)
    if expr.op == "uniform" and not _is_unit(operands[:2]):
        draw = rewriter.emit("uniform_between", [draw, *operands[:2]], location=expr.location)
    rewriter.replace_cast(expr, draw)


def _narrowed(rewriter: Rewriter, expr: Expr, draw: Value, dtype: DType) -> Value:
    """``draw`` with as many bits as a ``dtype`` has, so that no rounding makes it 1."""
    if not dtype.is_reduced_precision:
        return draw
    scale, location = 2.0 ** DRAW_BITS[dtype], expr.location
    scaled = rewriter.emit("mul", [draw, rewriter.constant(scale, location=location)], location=location)
    whole = rewriter.emit("floor", [scaled], location=location)
    return rewriter.emit("mul", [whole, rewriter.constant(1 / scale, location=location)], location=location)


def _is_unit(bounds: Sequence[Value]) -> bool:
    return [bound.literal for bound in bounds] == [0, 1]


def _dropout(rewriter: Rewriter, expr: Expr, draw: Value) -> None:
    """The operand over ``1 - p`` where the draw is not below ``p``, 0 elsewhere."""
    (x, p, *_), (result, mask), location = rewriter.operands(expr), expr.outputs, expr.location
    name = rewriter.value(result).name
    kept = rewriter.emit("ge", [draw, p], result=mask, location=location)
    one, zero = (rewriter.constant(number, location=location) for number in (1.0, 0.0))
    part = rewriter.emit("sub", [one, p], name=f"{name}_part", location=location)
    scale = rewriter.emit("truediv", [one, part], name=f"{name}_scale", location=location)
    scaled = rewriter.emit("mul", [x, scale], name=f"{name}_scaled", location=location)
    rewriter.emit("where", [kept, scaled, zero], result=result, location=location)
