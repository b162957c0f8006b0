"""Every op on scalars, computed in Python to within rounding, for probes of lambdas.

``scalar_math`` computes exactly what a device computes, and only where it can. Here every op that a lambda may call has
a value, and what Python refuses to name (the logarithm of zero) is an infinity or NaN.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fusebuild.ir import DType, Literal
from fusebuild.ops import OPS
from fusebuild.passes.scalar_math import convert, fold, folds


def evaluate(op: str, operands: Sequence[Literal], dtypes: Sequence[DType], result: DType) -> Literal:
    """``op`` of ``operands``, each first converted to its dtype, as a ``result``; NaN where Python has no value."""
    exact = fold(op, operands, dtypes, result)
    if exact is not None:
        return exact
    converted = [_known(convert(operand, dtype), dtype) for operand, dtype in zip(operands, dtypes, strict=True)]
    is_floating = bool(dtypes) and dtypes[-1].is_floating
    function = (_FLOATING if is_floating else _INTEGRAL).get(op) or _EITHER.get(op)
    if op in _SIZED:
        function = _SIZED[op](dtypes[0])
    if function is None and not _is_listed(op) and _has_plain_reference(op):
        function = partial(OPS[op].reference, None)
    if function is None:
        return _known(None, result)
    try:
        return _known(convert(function(*converted), result), result)
    except OverflowError:
        return _known(convert(math.inf, result), result)
    except (ValueError, ZeroDivisionError):
        return _known(convert(math.nan, result), result)


def has_scalar_meaning(op: str) -> bool:
    """Whether ``op`` can be computed on Python's numbers."""
    return _is_listed(op) or _has_plain_reference(op)


def _is_listed(op: str) -> bool:
    return folds(op) or any(op in table for table in (_FLOATING, _INTEGRAL, _EITHER, _SIZED))


def _has_plain_reference(op: str) -> bool:
    """Whether the reference of ``op`` is arithmetic, which takes Python's numbers and asks nothing of torch."""
    try:
        return isinstance(OPS[op].reference(None, *(1 for _ in OPS[op].operands)), int | float)
    except (AttributeError, TypeError):
        return False


def _known(literal: Literal | None, dtype: DType) -> Literal:
    """``literal``; what a device does with a float that fits no integer is its own business, so any integer will do."""
    if literal is not None:
        return literal
    return math.nan if dtype.is_floating else 0


def _silu(x: float) -> float:
    return x * _sigmoid(x)


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


def _whole(rounding: Callable[[float], int]) -> Callable[[float], float]:
    """``rounding`` to a whole number, where what is not finite stays as it is."""
    return lambda x: float(rounding(x)) if math.isfinite(x) else x


def _with_poles(function: Callable[[float], float], poles: Mapping[float, float]) -> Callable[[float], float]:
    """``function``, and at ``poles``, where Python raises, the infinities there."""
    return lambda x: poles[x] if x in poles else function(x)


def _lgamma(x: float) -> float:
    return math.inf if x <= 0 and x == math.floor(x) else math.lgamma(x)


def _sinh(x: float) -> float:
    return math.copysign(math.inf, x) if abs(x) > 711.0 else math.sinh(x)


def _pow(base: float, exponent: float) -> float:
    is_odd = math.isfinite(exponent) and exponent % 2 == 1
    if base == 0 and exponent < 0:
        return math.copysign(math.inf, base) if is_odd else math.inf
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return -math.inf if base < 0 and is_odd else math.inf


def _next_after(dtype: DType) -> Callable[[float, float], float]:
    """The next ``dtype`` from one number on toward another."""
    if dtype is DType.DOUBLE:
        return math.nextafter

    def next_float(start: float, end: float) -> float:
        if math.isnan(start) or math.isnan(end) or start == end:
            return start + end if start != end else end
        if start == 0:
            return math.copysign(2.0**-149, end)
        bits = struct.unpack("<i", struct.pack("<f", start))[0] + (1 if (start < end) == (start > 0) else -1)
        return float(struct.unpack("<f", struct.pack("<i", bits))[0])

    return next_float


def _remainder(a: float, b: float) -> float:
    left = math.fmod(a, b)
    return left + b if left and (left < 0) != (b < 0) else left


def _lerp(start: float, end: float, weight: float) -> float:
    """From the nearer end, as the device header has it."""
    return start + weight * (end - start) if abs(weight) < 0.5 else end - (end - start) * (1.0 - weight)


def _clamp(x: float, low: float, high: float) -> float:
    return x if math.isnan(x) else min(max(x, low), high)


def _shifted(x: int, by: int) -> int:
    return x << by if 0 <= by < 64 else 0


def _shifted_down(x: int, by: int) -> int:
    return x >> by if 0 <= by < 64 else -int(x < 0)


def _shifted_down_as_bits(dtype: DType) -> Callable[[int, int], int]:
    """A shift to the right that fills up with zeros."""
    bits = 8 * dtype.bytes
    return lambda x, by: x % (1 << bits) >> by if 0 <= by < bits else 0


_FLOATING: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in (
        "acos", "acosh", "asin", "asinh", "atan", "cos", "cosh", "erf", "erfc", "exp2", "expm1", "sin", "tan", "tanh",
        "atan2", "fmod", "isfinite", "isinf", "isnan",
    )},
    **{name: _whole(getattr(math, name)) for name in ("ceil", "floor", "trunc")},
    "atanh": _with_poles(math.atanh, {-1.0: -math.inf, 1.0: math.inf}),
    "log1p": _with_poles(math.log1p, {-1.0: -math.inf}),
    "lgamma": _lgamma,
    "sinh": _sinh,
    "exp": math.exp,
    "log": lambda x: -math.inf if x == 0 else math.log(x),
    "log2": lambda x: -math.inf if x == 0 else math.log2(x),
    "log10": lambda x: -math.inf if x == 0 else math.log10(x),
    "rsqrt": lambda x: math.inf if x == 0 else 1.0 / math.sqrt(x),
    "sigmoid": _sigmoid,
    "silu": _silu,
    "frac": lambda x: math.fmod(x, 1.0),
    "round": _whole(round),
    "sign": lambda x: float((x > 0) - (x < 0)),
    "signbit": lambda x: math.copysign(1.0, x) < 0,
    "isneginf": lambda x: x == -math.inf,
    "isposinf": lambda x: x == math.inf,
    "mod": math.fmod,
    "remainder": _remainder,
    "pow": _pow,
}  # fmt: skip
_INTEGRAL: dict[str, Callable[..., Any]] = {
    "ceil": lambda x: x,
    "floor": lambda x: x,
    "round": lambda x: x,
    "trunc": lambda x: x,
    "sign": lambda x: (x > 0) - (x < 0),
    "remainder": lambda a, b: a % b if b else 0,
    "bitwise_not": lambda x: not x if isinstance(x, bool) else ~x,
    "bitwise_left_shift": _shifted,
    "bitwise_right_shift": _shifted_down,
}
_EITHER: dict[str, Callable[..., Any]] = {
    "real": lambda x: x,
    "isreal": lambda x: True,
    "relu": lambda x: x if x > 0 or x != x else 0,
    "lerp": _lerp,
    "clamp": _clamp,
    "threshold": lambda x, limit, value: value if x <= limit else x,
    "addcmul": lambda x, a, b, value: x + value * a * b,
}
_SIZED: dict[str, Callable[[DType], Callable[..., Any]]] = {
    "nextafter": _next_after,
    "logical_right_shift": _shifted_down_as_bits,
}
"""Ops whose results hang on how many bits a number has."""
