"""Every op on scalars, computed in Python to within rounding, for probes of lambdas.

``scalar_math`` computes exactly what a device computes, and only where it can. Here every op that a lambda may call has
a value, and what Python refuses to name (the logarithm of zero) is an infinity or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fusebuild.ir import DType, Literal
from fusebuild.passes.scalar_math import convert, fold


def evaluate(op: str, operands: Sequence[Literal], dtypes: Sequence[DType], result: DType) -> Literal:
    """``op`` of ``operands``, each first converted to its dtype, as a ``result``; NaN where Python has no value."""
    exact = fold(op, operands, dtypes, result)
    if exact is not None:
        return exact
    converted = [_known(convert(operand, dtype), dtype) for operand, dtype in zip(operands, dtypes, strict=True)]
    is_floating = bool(dtypes) and dtypes[-1].is_floating
    function = (_FLOATING if is_floating else _INTEGRAL).get(op) or _EITHER.get(op)
    if function is None:
        return _known(None, result)
    try:
        return _known(convert(function(*converted), result), result)
    except OverflowError:
        return _known(convert(math.inf, result), result)
    except (ValueError, ZeroDivisionError):
        return _known(convert(math.nan, result), result)


def _known(literal: Literal | None, dtype: DType) -> Literal:
    """``literal``; what a device does with a float that fits no integer is its own business, so any integer will do."""
    if literal is not None:
        return literal
    return math.nan if dtype.is_floating else 0


def _sign(x: float) -> float:
    return x if math.isnan(x) else float((x > 0) - (x < 0))


def _silu(x: float) -> float:
    return x * _sigmoid(x)


def _sigmoid(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


def _round(x: float) -> float:
    return x if not math.isfinite(x) else float(round(x))


def _remainder(a: float, b: float) -> float:
    left = math.fmod(a, b)
    return left + b if left and (left < 0) != (b < 0) else left


def _clamp(x: float, low: float, high: float) -> float:
    return x if math.isnan(x) else min(max(x, low), high)


def _shifted(x: int, by: int) -> int:
    return x << by if 0 <= by < 64 else 0


def _shifted_down(x: int, by: int) -> int:
    return x >> by if 0 <= by < 64 else -int(x < 0)


_FLOATING: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp2", "expm1", "lgamma",
        "log1p", "sin", "sinh", "tan", "tanh", "atan2", "nextafter", "fmod", "isfinite", "isinf", "isnan", "trunc",
        "ceil", "floor",
    )},
    "exp": math.exp,
    "log": lambda x: -math.inf if x == 0 else math.log(x),
    "log2": lambda x: -math.inf if x == 0 else math.log2(x),
    "log10": lambda x: -math.inf if x == 0 else math.log10(x),
    "rsqrt": lambda x: math.inf if x == 0 else 1.0 / math.sqrt(x),
    "sigmoid": _sigmoid,
    "silu": _silu,
    "frac": lambda x: x - math.trunc(x),
    "round": _round,
    "sign": _sign,
    "signbit": lambda x: math.copysign(1.0, x) < 0,
    "isneginf": lambda x: x == -math.inf,
    "isposinf": lambda x: x == math.inf,
    "mod": math.fmod,
    "remainder": _remainder,
    "pow": math.pow,
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
    "logical_right_shift": lambda x, by: (x % (1 << 64)) >> by if 0 <= by < 64 else 0,
}
_EITHER: dict[str, Callable[..., Any]] = {
    "real": lambda x: x,
    "isreal": lambda x: True,
    "relu": lambda x: x if x > 0 or x != x else 0 * abs(x),
    "lerp": lambda start, end, weight: start + weight * (end - start),
    "clamp": _clamp,
    "threshold": lambda x, limit, value: value if x <= limit else x,
    "addcmul": lambda x, a, b, value: x + value * a * b,
}
