"""One function per pointwise op, named as the op, on Python's numbers: what an op means where a value is known.

They mirror the device header: the semantics are torch's, and where Python raises, the result is the infinity or NaN
that a device gives. Each takes the dtype in which the op computes, then operands that are numbers of that dtype.
Results may lie beyond the dtype: who calls rounds or wraps them (``ops/scalar_math.py``).
"""

from __future__ import annotations

import functools
import math
import operator
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from fusebuild.ir.dtype import DType

Meaning: TypeAlias = "Callable[..., Any]"
"""What an op means for numbers: a function of the dtype in which it computes and of its operands."""


class Float(float):
    """A float whose operators never raise: what lies beyond a double is an infinity, and so is a division by zero."""

    def __neg__(self) -> Float:
        return type(self)(-float(self))

    def __abs__(self) -> Float:
        return type(self)(math.fabs(self))


class Single(Float):
    """A :class:`Float` that is rounded to float after each operation."""

    def __new__(cls, value: float) -> Single:
        return super().__new__(cls, rounded(value, DType.FLOAT))


class Whole(int):
    """An integer of so many ``bits`` whose operators wrap, as those of tensors do: no number grows without end."""

    bits = 64

    def __new__(cls, value: int) -> Whole:
        half = 1 << (cls.bits - 1)
        return super().__new__(cls, (int(value) + half) % (2 * half) - half)

    def __pow__(self, other: Any) -> Any:  # type: ignore[override]
        return type(self)(_whole_power(int(self), int(other))) if isinstance(other, int) else int(self) ** other

    def __rpow__(self, other: int) -> Whole:  # type: ignore[misc, override]
        return type(self)(_whole_power(int(other), int(self)))

    def __lshift__(self, by: int) -> Whole:
        return type(self)(int(self) << by if by < self.bits else 0)

    def __rlshift__(self, other: int) -> Whole:
        return type(self)(other) << int(self)


def _wrapping(name: str) -> Callable[..., Any]:
    """The method ``name`` of integers, whose result is as wide as the number is."""
    plain = getattr(int, name)

    def method(self: Whole, *others: Any) -> Any:
        result = plain(self, *others)
        return type(self)(result) if type(result) is int else result

    return method


for _name in ("add", "radd", "sub", "rsub", "mul", "rmul", "floordiv", "rfloordiv", "mod", "rmod", "and", "rand", "or",
              "ror", "xor", "rxor", "rshift", "neg", "abs", "invert"):  # fmt: skip
    setattr(Whole, f"__{_name}__", _wrapping(f"__{_name}__"))


class MeaningError(Exception):
    """What an op is said to mean for numbers fails, or is no number."""


def rounded(value: float, dtype: DType) -> float:
    """``value`` to the nearest ``dtype``, ties to even; beyond its range, an infinity. Narrower types than float are
    reached through it, as in kernels."""
    if dtype.is_reduced_precision:
        value = rounded(value, DType.FLOAT)
    if dtype is DType.DOUBLE or not math.isfinite(value):
        return value
    bias = (1 << dtype.row.exponent_bits - 1) - 1
    last_place = max(math.frexp(value)[1], 2 - bias) - 1 - dtype.row.mantissa_bits
    nearest = math.copysign(math.ldexp(round(math.ldexp(value, -last_place)), last_place), value)
    return nearest if abs(nearest) < 2.0 ** (bias + 1) else math.copysign(math.inf, value)


def named(op: str) -> Meaning | None:
    """The function of the op ``op`` here, which ends in _ where Python has another one of that name; or None."""
    function = globals().get(f"{op}_", None if op in _NO_OPS else globals().get(op))
    return function if callable(function) else None


_KINDS = {DType.DOUBLE: Float, DType.BOOL: bool} | {
    dtype: type(f"Whole{8 * dtype.bytes}", (Whole,), {"bits": 8 * dtype.bytes}) for dtype in DType if dtype.is_integer
}
_TRIED = {True: (1.0, 2.0, 0.5, -1.0, 0.0), False: (1, 2, 3, -1, 0)}


def of_reference(reference: Callable[..., Any], operands: int) -> Meaning | None:
    """What ``reference`` gives for numbers, where it is arithmetic that asks nothing of torch; None where it does."""

    def scalar(dtype: DType, *numbers: float) -> Any:
        kind = _KINDS.get(dtype, Single)
        return reference(None, *(kind(number) for number in numbers))

    return scalar if any(is_defined(scalar, dtype, operands) for dtype in (DType.DOUBLE, DType.INT64)) else None


def called(scalar: Meaning, dtype: DType, operands: Sequence[Any]) -> int | float | None:
    """What ``scalar`` gives for ``operands``; None beyond its domain. Raises :class:`MeaningError` where it fails
    otherwise: whoever added the op may have written anything."""
    try:
        result = scalar(dtype, *operands)
    except (ArithmeticError, ValueError):
        return None
    except Exception as error:
        raise MeaningError(f"{type(error).__name__}: {error}") from error
    if not isinstance(result, int | float):
        raise MeaningError(f"a {type(result).__name__} is no number")
    return result


def is_defined(scalar: Meaning, dtype: DType, operands: int) -> bool:
    """Whether ``scalar`` takes numbers of ``dtype``: it gives one for some, and the others are beyond its domain."""
    numbers = (True, False) if dtype is DType.BOOL else _TRIED[dtype.is_floating]
    try:
        results = [called(scalar, dtype, [number] * operands) for number in numbers]
    except MeaningError:
        return False
    return any(result is not None for result in results)


_NO_OPS = frozenset(globals())
"""What has a name here and is the meaning of no op: all of the above."""


def _library(function: Callable[..., float], poles: Mapping[float, float] | None = None) -> Meaning:
    """``function`` of Python's library: NaN outside of its domain, an infinity of the operand's sign beyond its range,
    and at ``poles`` the infinities there."""

    def scalar(dtype: DType, *operands: float) -> float:
        if poles is not None and operands[0] in poles:
            return poles[operands[0]]
        try:
            return function(*operands)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.copysign(math.inf, operands[0])

    return scalar


def _of_size(scalar: Meaning) -> Meaning:
    """``scalar`` of the absolute value."""
    return lambda dtype, x: scalar(dtype, abs(x))


def _plain(function: Callable[..., Any]) -> Meaning:
    """``function``, whatever the dtype."""
    return lambda dtype, *operands: function(*operands)


def _rounding(function: Callable[[float], int]) -> Meaning:
    """``function`` to a whole number; the sign of zero stays, and so does what is not finite, or whole by its kind."""

    def scalar(dtype: DType, x: float) -> float:
        return math.copysign(function(x), x) if dtype.is_floating and math.isfinite(x) else x

    return scalar


acos, asin, atan = _library(math.acos), _library(math.asin), _library(math.atan)
acosh, asinh = _library(math.acosh), _library(math.asinh)
atanh = _library(math.atanh, {-1.0: -math.inf, 1.0: math.inf})
cos, sin, tan = _library(math.cos), _library(math.sin), _library(math.tan)
cosh, sinh, tanh = _of_size(_library(math.cosh)), _library(math.sinh), _library(math.tanh)
erf, erfc = _library(math.erf), _library(math.erfc)
exp, exp2, expm1 = _library(math.exp), _library(lambda x: math.pow(2.0, x)), _library(math.expm1)
log, log2, log10 = (_library(function, {0.0: -math.inf}) for function in (math.log, math.log2, math.log10))
log1p = _library(math.log1p, {-1.0: -math.inf})
sqrt, atan2 = _library(math.sqrt), _library(math.atan2)
ceil, floor, trunc, round_ = _rounding(math.ceil), _rounding(math.floor), _rounding(math.trunc), _rounding(round)
isfinite, isinf, isnan = _plain(math.isfinite), _plain(math.isinf), _plain(math.isnan)
isreal = _plain(lambda x: True)
abs_, neg = _plain(abs), _plain(operator.neg)
add, sub, mul = _plain(operator.add), _plain(operator.sub), _plain(operator.mul)
eq, ne, lt = _plain(operator.eq), _plain(operator.ne), _plain(operator.lt)
le, gt, ge = _plain(operator.le), _plain(operator.gt), _plain(operator.ge)
bitwise_and, bitwise_or, bitwise_xor = _plain(operator.and_), _plain(operator.or_), _plain(operator.xor)
logical_and, logical_or = _plain(lambda a, b: a and b), _plain(lambda a, b: a or b)
logical_not, gcd = _plain(operator.not_), _plain(math.gcd)
signbit, sign = _plain(lambda x: math.copysign(1.0, x) < 0), _plain(lambda x: (x > 0) - (x < 0))
isneginf, isposinf = _plain(lambda x: x == -math.inf), _plain(lambda x: x == math.inf)
frac = _plain(lambda x: float(x - trunc(DType.DOUBLE, x)) if math.isfinite(x) else math.nan)
truediv, reciprocal = _plain(lambda a, b: _quotient(a, b)), _plain(lambda x: _quotient(1.0, x))
rsqrt, silu = _plain(lambda x: _quotient(1.0, sqrt(DType.DOUBLE, x))), _plain(lambda x: x * sigmoid(DType.DOUBLE, x))
where = _plain(lambda condition, a, b: a if condition else b)
threshold = _plain(lambda x, limit, value: value if x <= limit else x)


def lgamma(dtype: DType, x: float) -> float:
    if not math.isfinite(x):
        return abs(x)
    return math.inf if x <= 0 and x == math.floor(x) else float(_library(math.lgamma)(dtype, x))


def erfinv(dtype: DType, x: float) -> float:
    if not abs(x) < 1.0:
        return math.copysign(math.inf, x) if abs(x) == 1.0 else math.nan
    if abs(x) > 0.5:
        return math.copysign(_inverse_of_erfc(1.0 - abs(x)), x)
    y = x * math.sqrt(math.pi) / 2.0
    for _ in range(8):
        y -= (math.erf(y) - x) * math.sqrt(math.pi) / 2.0 * math.exp(y * y)
    return y


def erfcinv(dtype: DType, x: float) -> float:
    if not 0.0 < x < 2.0:
        return {0.0: math.inf, 2.0: -math.inf}.get(x, math.nan)
    if 0.5 <= x <= 1.5:
        return erfinv(dtype, 1.0 - x)
    return _inverse_of_erfc(x) if x < 1.0 else -_inverse_of_erfc(2.0 - x)


def _inverse_of_erfc(tail: float) -> float:
    """Where erfc is ``tail``, at most a half: by halving, since erfc falls all the way."""
    low, high = 0.0, 28.0
    for _ in range(64):
        middle = (low + high) / 2.0
        low, high = (middle, high) if math.erfc(middle) > tail else (low, middle)
    return (low + high) / 2.0


def sigmoid(dtype: DType, x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


def relu(dtype: DType, x: float) -> float:
    return maximum(dtype, x, 0.0) if dtype.is_floating else max(x, 0)


def bitwise_not(dtype: DType, x: int) -> int:
    return not x if dtype is DType.BOOL else ~x


def div(dtype: DType, a: float, b: float) -> float:
    """Integers toward zero; by zero it is zero, as the device header has it."""
    if dtype.is_floating:
        return _quotient(a, b)
    return 0 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _quotient(a: float, b: float) -> float:
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def fmod(dtype: DType, a: float, b: float) -> float:
    if dtype.is_floating:
        return float(_library(math.fmod)(dtype, a, b))
    return a - b * div(dtype, a, b) if b else 0


mod = fmod


def remainder(dtype: DType, a: float, b: float) -> float:
    left = fmod(dtype, a, b)
    return left + b if left and (left < 0) != (b < 0) else left


def pow_(dtype: DType, base: float, exponent: float) -> float:
    return _power(base, exponent) if dtype.is_floating else _whole_power(int(base), int(exponent))


def _power(base: float, exponent: float) -> float:
    is_odd = math.isfinite(exponent) and abs(math.fmod(exponent, 2.0)) == 1.0
    if base == 0 and exponent < 0:
        return math.copysign(math.inf, base) if is_odd else math.inf
    try:
        return math.pow(base, exponent)
    except ValueError:
        return math.nan
    except OverflowError:
        return -math.inf if base < 0 and is_odd else math.inf


def _whole_power(base: int, exponent: int) -> int:
    if exponent >= 0:
        return pow(base, exponent, 1 << 64)
    return {1: 1, -1: -1 if exponent % 2 else 1}.get(base, 0)


def nextafter(dtype: DType, start: float, end: float) -> float:
    if dtype is DType.DOUBLE:
        return math.nextafter(start, end)
    if math.isnan(start) or math.isnan(end) or start == end:
        return start + end if start != end else end
    if start == 0:
        return math.copysign(2.0**-149, end)
    bits = struct.unpack("<i", struct.pack("<f", start))[0] + (1 if (start < end) == (start > 0) else -1)
    return float(struct.unpack("<f", struct.pack("<i", bits))[0])


def maximum(dtype: DType, a: float, b: float) -> float:
    """NaN wins over every number, and +0 is above -0."""
    return a + b if a != a or b != b else max(a, b, key=_by_size_and_sign)


def minimum(dtype: DType, a: float, b: float) -> float:
    return a + b if a != a or b != b else min(a, b, key=_by_size_and_sign)


def _by_size_and_sign(x: float) -> tuple[float, float]:
    return x, math.copysign(1.0, x)


def _shifts_everything_out(dtype: DType, by: int) -> bool:
    return not 0 <= by < 8 * dtype.bytes


def bitwise_left_shift(dtype: DType, x: int, by: int) -> int:
    return 0 if _shifts_everything_out(dtype, by) else x << by


def bitwise_right_shift(dtype: DType, x: int, by: int) -> int:
    return x >> (8 * dtype.bytes - 1 if _shifts_everything_out(dtype, by) else by)


def logical_right_shift(dtype: DType, x: int, by: int) -> int:
    return 0 if _shifts_everything_out(dtype, by) else x % (1 << 8 * dtype.bytes) >> by


def lerp(dtype: DType, start: float, end: float, weight: float) -> float:
    """From the nearer end, as the device header has it."""
    return start + weight * (end - start) if abs(weight) < 0.5 else end - (end - start) * (1.0 - weight)


def clamp(dtype: DType, x: float, low: float, high: float) -> float:
    """``high`` where it is below ``low``."""
    return minimum(dtype, maximum(dtype, x, low), high)


for _name, _function in {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "truediv": _quotient,
    "mod": functools.partial(remainder, DType.DOUBLE), "pow": _power,
}.items():  # fmt: skip
    setattr(Float, f"__{_name}__", lambda self, other, of=_function: type(self)(of(float(self), float(other))))
    setattr(Float, f"__r{_name}__", lambda self, other, of=_function: type(self)(of(float(other), float(self))))
