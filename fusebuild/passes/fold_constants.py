"""Compute now what is known now, and drop arithmetic that changes no value.

Only identities that hold for every operand, NaN, infinities and -0.0 included: ``x * 1``, ``x / 1``, ``x - 0``,
``x + -0.0`` (``x + 0`` for integers only, since -0.0 + 0.0 is 0.0), never ``x * 0``. Dtypes stay: where the arithmetic
also widened, a ``cast`` remains.
"""

from __future__ import annotations

import math

from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import Literal, ScalarType
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.scalar_math import fold
from fusebuild.ops.table import OPS
from fusebuild.ops.type_rules import promote
from fusebuild.passes.rewriting import Rewriter


def fold_constants(fusion: Fusion) -> Fusion:
    """``fusion`` with scalars of constants computed and exact identities applied."""
    rewriter = Rewriter(fusion)
    for expr in rewriter.exprs():
        if (literal := _known_scalar(rewriter, expr)) is not None:
            rewriter.make_constant(expr.outputs[0], literal)
        elif (same := _identity(rewriter, expr)) is not None:
            rewriter.replace_cast(expr, same)
        elif not _rewrite_power(rewriter, expr):
            rewriter.keep(expr)
    return rewriter.finish()


def _known_scalar(rewriter: Rewriter, expr: Expr) -> Literal | None:
    result = rewriter.value(expr.outputs[0])
    if len(expr.outputs) != 1 or not isinstance(result.type, ScalarType):
        return None
    if expr.op == "size":
        extent = expr.attribute("extent")
        return extent if isinstance(extent, int) else None
    operands = rewriter.operands(expr)
    literals = [operand.literal for operand in operands]
    if not literals or any(literal is None or isinstance(literal, tuple) for literal in literals):
        return None
    dtypes = OPS[expr.op].operand_dtypes([operand.type for operand in operands], dict(expr.attributes))
    return fold(expr.op, literals, dtypes, result.dtype)  # type: ignore[arg-type]


def _identity(rewriter: Rewriter, expr: Expr) -> Value | None:
    """The operand that the result equals, but for its dtype."""
    operands = rewriter.operands(expr)
    same: Value | None = None
    if OPS[expr.op].is_involution:
        same = _undone(rewriter, expr.op, operands[0])
    elif expr.op == "where" and operands[0].is_constant:
        same = operands[1] if operands[0].literal else operands[2]
    elif len(operands) == 2:
        same = _neutral(rewriter, expr, operands[0], operands[1])
    return same if same is not None and _same_dims(same, rewriter.value(expr.outputs[0])) else None


def _same_dims(value: Value, result: Value) -> bool:
    if not value.is_tensor or not result.is_tensor:
        return value.is_tensor == result.is_tensor
    return value.tensor.shape == result.tensor.shape


def _undone(rewriter: Rewriter, op: str, operand: Value) -> Value | None:
    """What ``operand`` was before ``op``, where it was the same kind of number: -(-x), and !!b for a bool."""
    definition = rewriter.definition(operand)
    if definition is None or definition.op != op:
        return None
    (source,) = rewriter.operands(definition)
    kind = source.dtype.is_floating, source.dtype.is_integer
    return source if kind == (operand.dtype.is_floating, operand.dtype.is_integer) else None


def _neutral(rewriter: Rewriter, expr: Expr, lhs: Value, rhs: Value) -> Value | None:
    is_floating = rewriter.value(expr.outputs[0]).dtype.is_floating
    if expr.op in ("mul", "div", "truediv", "pow") and _is_number(rhs, 1):
        return lhs
    if expr.op == "mul" and _is_number(lhs, 1):
        return rhs
    if expr.op == "sub" and _is_number(rhs, 0) and not _is_negative_zero(rhs):
        return lhs
    if expr.op == "add":
        for zero, other in ((rhs, lhs), (lhs, rhs)):
            if _is_number(zero, 0) and _is_negative_zero(zero) == is_floating:
                return other
    return None


def _is_number(value: Value, number: int) -> bool:
    return value.is_constant and value.literal == number


def _is_negative_zero(value: Value) -> bool:
    return isinstance(value.literal, float) and math.copysign(1.0, value.literal) < 0


def _rewrite_power(rewriter: Rewriter, expr: Expr) -> bool:
    """``pow(x, 2)`` and ``pow(x, 3)`` as products, which is what torch and nvFuser compute."""
    if expr.op != "pow":
        return False
    base, exponent = rewriter.operands(expr)
    if not (_is_number(exponent, 2) or _is_number(exponent, 3)):
        return False
    result = rewriter.value(expr.outputs[0])
    if promote([base.type]) is not result.dtype:
        base = rewriter.emit("cast", [base], name=f"{result.name}_base", dtype=result.dtype)
    is_cube = exponent.literal == 3
    left = rewriter.emit("mul", [base, base], name=f"{result.name}_squared") if is_cube else base
    rewriter.emit("mul", [left, base], result=result.fid)
    return True
