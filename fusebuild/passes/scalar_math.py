"""Ops on known scalars, computed in Python with the rounding and wrapping of their dtypes.

Python's floats are doubles. A float32 sum, product, quotient or square root computed in double and rounded once is the
correctly rounded one, so nothing is lost by computing here. An op that is missing here is simply not folded.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Sequence
from typing import Any

from fusebuild.ir import DType, Literal


def fold(op: str, operands: Sequence[Literal], operand_dtypes: Sequence[DType], result: DType) -> Literal | None:
    """``op`` of ``operands``, each first converted to its dtype, as a ``result``; None when it is not computed here."""
    converted = [convert(operand, dtype) for operand, dtype in zip(operands, operand_dtypes, strict=True)]
    if any(value is None for value in converted):
        return None
    is_floating = bool(operand_dtypes) and operand_dtypes[-1].is_floating
    function = (_FLOATING if is_floating else _INTEGRAL).get(op) or _EITHER.get(op)
    if function is None:
        return None
    try:
        return convert(function(*converted), result)
    except (OverflowError, ValueError, ZeroDivisionError):
        return None  # the device says what it is: an infinity or NaN that Python refuses to name


def folds(op: str) -> bool:
    """Whether ``op`` is computed here, in some dtype."""
    return any(op in table for table in (_FLOATING, _INTEGRAL, _EITHER))


def convert(literal: Literal, dtype: DType) -> Literal | None:
    """``literal`` as a ``dtype``; None for a float that fits no integer, where devices differ."""
    if dtype is DType.BOOL:
        return bool(literal)
    if dtype.is_integer:
        if isinstance(literal, float) and not abs(literal) < 2.0 ** (8 * dtype.bytes - 1):
            return None
        return _wrap(int(literal), 8 * dtype.bytes)
    return _round(float(literal), dtype)


def _wrap(value: int, bits: int) -> int:
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def _round(value: float, dtype: DType) -> float:
    """``value`` to the nearest ``dtype``, ties to even; beyond its range, an infinity."""
    if dtype is DType.DOUBLE or not math.isfinite(value):
        return value
    if dtype is DType.BFLOAT16:
        return _round_bfloat16(value)
    code = "<f" if dtype is DType.FLOAT else "<e"
    try:
        return float(struct.unpack(code, struct.pack(code, value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def _round_bfloat16(value: float) -> float:
    single = _round(value, DType.FLOAT)
    if not math.isfinite(single):
        return single
    (bits,) = struct.unpack("<I", struct.pack("<f", single))
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def _true_divide(a: float, b: float) -> float:
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def _truncated_divide(a: int, b: int) -> int:
    """Toward zero; by zero it is zero, as the device header has it."""
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _truncated_modulo(a: int, b: int) -> int:
    return a - b * _truncated_divide(a, b) if b else 0


def _maximum(a: float, b: float) -> float:
    return a if math.isnan(a) else b if math.isnan(b) else max(a, b)


def _minimum(a: float, b: float) -> float:
    return a if math.isnan(a) else b if math.isnan(b) else min(a, b)


def _integer_power(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64)
    return {1: 1, -1: -1 if b % 2 else 1}.get(a, 0)


_FLOATING: dict[str, Callable[..., Any]] = {
    "div": _true_divide,
    "truediv": _true_divide,
    "reciprocal": lambda x: _true_divide(1.0, x),
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log2": math.log2,
    "log10": math.log10,
    "pow": math.pow,
    "abs": math.fabs,
    "maximum": _maximum,
    "minimum": _minimum,
}
_INTEGRAL: dict[str, Callable[..., Any]] = {
    "div": _truncated_divide,
    "mod": _truncated_modulo,
    "fmod": _truncated_modulo,
    "pow": _integer_power,
    "abs": abs,
    "maximum": max,
    "minimum": min,
    "bitwise_and": operator.and_,
    "bitwise_or": operator.or_,
    "bitwise_xor": operator.xor,
    "gcd": math.gcd,
}
_EITHER: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "neg": operator.neg,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
    "logical_and": lambda a, b: a and b,
    "logical_or": lambda a, b: a or b,
    "logical_not": operator.not_,
    "where": lambda condition, a, b: a if condition else b,
    "cast": lambda x: x,
    "set": lambda x: x,
}
