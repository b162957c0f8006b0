"""``uniform``, ``rand_like`` and ``dropout``, written with ``linear_index`` and ``philox_uniform``, and ``normal`` and
``randn_like``, written with ``philox_normal``.

The place of an element in the result of the op is what it draws by, and not where a kernel happens to compute it.
"""

from __future__ import annotations

from fusebuild.ir.dtype import DType
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.random import DRAW_BITS
from fusebuild.passes.rewriting import Rewriter

NORMAL = ("normal", "randn_like")
"""The ops whose numbers are normal."""


def random(rewriter: Rewriter, expr: Expr) -> None:
    """Write ``expr`` in primitives."""
    operands, result = rewriter.operands(expr), rewriter.value(expr.outputs[0])
    index = rewriter.emit("linear_index", [], name=f"{result.name}_index", shape=result.tensor.shape)
    primitive = "philox_normal" if expr.op in NORMAL else "philox_uniform"
    draw = rewriter.emit(primitive, [index, *operands[-2:]], name=f"{result.name}_draw")
    if expr.op == "dropout":
        _dropout(rewriter, expr, draw)
        return
    if result.dtype.is_reduced_precision and expr.op not in NORMAL:
        draw = _narrowed(rewriter, draw, result.dtype)
    if expr.op == "uniform" and [bound.literal for bound in operands[:2]] != [0, 1]:
        draw = rewriter.emit("uniform_between", [draw, *operands[:2]])
    if expr.op == "normal" and [number.literal for number in operands[:2]] != [0, 1]:
        draw = rewriter.emit("normal_around", [draw, *operands[:2]])
    rewriter.replace_cast(expr, draw)


def _narrowed(rewriter: Rewriter, draw: Value, dtype: DType) -> Value:
    """``draw`` with as many bits as a ``dtype`` has, so that no rounding makes it 1."""
    scale = 2.0 ** DRAW_BITS[dtype]
    scaled = rewriter.emit("mul", [draw, rewriter.constant(scale)])
    whole = rewriter.emit("floor", [scaled])
    return rewriter.emit("mul", [whole, rewriter.constant(1 / scale)])


def _dropout(rewriter: Rewriter, expr: Expr, draw: Value) -> None:
    """The operand over ``1 - p`` where the draw is not below ``p``, 0 elsewhere."""
    (x, p, *_), (result, mask) = rewriter.operands(expr), expr.outputs
    name = rewriter.value(result).name
    kept = rewriter.emit("ge", [draw, p], result=mask)
    one, zero = rewriter.constant(1.0), rewriter.constant(0.0)
    part = rewriter.emit("sub", [one, p], name=f"{name}_part")
    scale = rewriter.emit("truediv", [one, part], name=f"{name}_scale")
    scaled = rewriter.emit("mul", [x, scale], name=f"{name}_scaled")
    rewriter.emit("where", [kept, scaled, zero], result=result)
