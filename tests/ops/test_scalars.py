"""What pointwise ops mean for numbers: as their torch references, for special and random ones of each dtype."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from fusebuild.ir.dtype import DType
from fusebuild.ir.types import Literal, TensorType, tensor_type
from fusebuild.ops.scalar_math import convert, fold, has_scalar_meaning
from fusebuild.ops.table import OPS, Kind, Rule, _unary
from fusebuild.ops.type_rules import TypeRuleError
from fusebuild.oracle.reference import torch_dtype

F64, F32, I64, I32 = DType.DOUBLE, DType.FLOAT, DType.INT64, DType.INT32

_SMALL = (-1000.0, -2.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 2.5, 1000.0)


def special_numbers(dtype: DType) -> tuple[Literal, ...]:
    """Numbers at which ops go wrong: the least and the greatest of ``dtype``, those beside zero, and what is none."""
    if dtype is DType.BOOL:
        return False, True
    if dtype.is_integer:
        low, high, digits = dtype.lowest, dtype.highest, 8 * dtype.bytes
        return low, low // 2 - 3, -7, -1, 0, 1, 2, 5, digits + 6, high // 2 + 4, high
    bias = 2 ** (dtype.row.exponent_bits - 1) - 1
    high, smallest = math.ldexp(1.75, bias), math.ldexp(1.0, 1 - bias - dtype.row.mantissa_bits)
    return -math.inf, -high, *_SMALL, smallest, -3 * smallest, high, math.inf, math.nan


SPECIAL = {dtype: special_numbers(dtype) for dtype in DType}
LEAVES_THE_SIGN_OF_ZERO_OPEN = frozenset({"maximum", "minimum", "clamp", "relu", "lerp"})
"""torch says nothing of which zero these give; the device header does, and a test of its own holds numbers to it."""
OVERFLOWS_EARLY = frozenset({"sinh", "cosh"})
"""torch's vectors of floats (AVX2) give infinity where exp overflows, although these are only half of it: at 89."""
ABSOLUTE = 1e-6
"""How near results of about one have to be. Near a zero of a function, as of lgamma at 1, floats are no nearer."""


def element_types(op: str, dtype: DType) -> list[TensorType]:
    """The types of operands of ``op`` that are elements of ``dtype``; a condition is a bool."""
    first = DType.BOOL if op == "where" else dtype
    return [tensor_type(each, ("elements",)) for each in (first, *[dtype] * (len(OPS[op].operands) - 1))]


def takes(op: str, dtype: DType) -> bool:
    with contextlib.suppress(TypeRuleError):
        return bool(OPS[op].infer(element_types(op, dtype), {"dtype": dtype}))
    return False


def drawn(chance: random.Random, dtype: DType) -> Literal:
    if dtype is DType.BOOL:
        return chance.random() < 0.5
    if dtype.is_integer:
        return chance.randrange(-(2 ** (8 * dtype.bytes - 1)), 2 ** (8 * dtype.bytes - 1)) >> chance.randrange(0, 60, 4)
    literal = convert(chance.choice((-1, 1)) * chance.uniform(1, 2) * 2.0 ** chance.randrange(-8, 8), dtype)
    assert literal is not None
    return literal


POINTWISE = [op.name for op in OPS.values() if op.kind is Kind.POINTWISE]
"""Of these, philox_uniform and philox_normal draw, and imag is no op of any dtype here."""
CASES = [(op, dtype) for op in POINTWISE for dtype in DType if OPS[op].scalar and takes(op, dtype)]


def test_every_op_that_takes_numbers_has_a_meaning_for_them() -> None:
    assert {op for op in POINTWISE if OPS[op].scalar is None} == {"imag", "philox_uniform", "philox_normal"}
    for op, dtype in CASES:
        assert has_scalar_meaning(op, OPS[op].operand_dtypes(element_types(op, dtype), {"dtype": dtype})), (op, dtype)


@pytest.mark.parametrize(("op", "dtype"), CASES, ids=lambda part: str(getattr(part, "value", part)))
def test_numbers_give_what_torch_gives(op: str, dtype: DType) -> None:
    types, chance = element_types(op, dtype), random.Random(op)
    step = 3 if len(types) > 2 else 1
    special = itertools.product(*(SPECIAL[type_.dtype][::step] for type_ in types))
    own = ([drawn(chance, type_.dtype) for type_ in types] for _ in range(50))
    rows = [row for each in (*special, *own) if is_sure(op, row := as_elements(each, types))]
    (result,) = OPS[op].infer(types, {"dtype": dtype})
    assert isinstance(result, TensorType)
    dtypes = OPS[op].operand_dtypes(types, {"dtype": dtype})
    for row, want in zip(rows, expected(op, rows, types, dtypes, result.dtype), strict=True):
        got = fold(op, row, dtypes, result.dtype)
        assert got is not None, row
        assert is_near(op, got, want, row), f"{op}{row} is {got}, torch says {want}"


def as_elements(row: Sequence[Literal], types: Sequence[TensorType]) -> tuple[Literal, ...]:
    """``row``, each rounded to its dtype."""
    rounded = [convert(number, type_.dtype) for number, type_ in zip(row, types, strict=True)]
    return tuple(number for number in rounded if number is not None)


def is_sure(op: str, row: tuple[Literal, ...]) -> bool:
    """False where torch is wrong. Its gcd of the most negative integer may be negative; the fmod of its vectors is NaN
    for quotients beyond the integers of a double; for the inverse of erfc it has only 1 - x."""
    if op in ("fmod", "mod", "remainder"):
        a, b = (abs(float(number)) for number in row)
        return not (b > 0 and math.isfinite(a) and a / 2.0**50 > b)
    if op == "gcd":
        return min(row) not in (-(2**63), -(2**31))
    return op != "erfcinv" or not 0.0 < abs(row[0]) < 1e-3


def expected(
    op: str, rows: list[tuple[Literal, ...]], types: list[TensorType], dtypes: tuple[DType, ...], result: DType
) -> list[Any]:
    """What torch gives for ``rows``."""
    torch = pytest.importorskip("torch")
    columns = [
        torch.tensor(list(column), dtype=torch_dtype(type_.dtype)).to(torch_dtype(met))
        for column, type_, met in zip(zip(*rows, strict=True), types, dtypes, strict=True)
    ]
    results: list[Any] = OPS[op].reference(torch, *columns).to(torch_dtype(result)).tolist()
    return results


def is_near(op: str, got: Literal, want: Literal, row: tuple[Literal, ...]) -> bool:
    if got != got or want != want:
        return got != got and want != want
    if got == want:
        same_sign = math.copysign(1, got) == math.copysign(1, want)
        return same_sign or op in LEAVES_THE_SIGN_OF_ZERO_OPEN
    if op in OVERFLOWS_EARLY and isinstance(got, float) and math.isinf(want):
        return 2.0**127 <= math.copysign(got, got * want) < math.inf
    if not isinstance(got, float) or not (math.isfinite(got) and math.isfinite(want)):
        return False
    scale = max([1.0, *(abs(float(number)) for number in row)]) if op in ("lerp", "addcmul") else 1.0
    return abs(got - want) <= max(1e-5 * abs(want), ABSOLUTE * scale)


@pytest.mark.parametrize("x", [5e-324, 1e-300, 1e-20, 1e-5, 0.3])
def test_erfcinv_is_the_inverse_of_erfc(x: float) -> None:
    got = fold("erfcinv", [x], [F64], F64)
    assert got is not None
    assert math.erfc(got) == pytest.approx(x, rel=1e-9, abs=5e-324)


def test_the_rest_of_a_large_quotient_is_exact() -> None:
    assert fold("fmod", [-1.7e308, 0.75], [F64, F64], F64) == math.fmod(-1.7e308, 0.75)
    assert fold("mod", [2.0**100, 3.0], [F64, F64], F64) == 2**100 % 3


def test_a_divisor_is_never_negative() -> None:
    assert fold("gcd", [-(2**63), -(2**62) - 3], [I64, I64], I64) == 1


def test_references_of_arithmetic_round_after_each_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS, "added", _unary("added", Rule.FLOATING, "{0}", reference=lambda torch, x: x * x / x))
    assert fold("added", [1e30], [F32], F32) == math.inf
    assert fold("added", [1e30], [F64], F64) == pytest.approx(1e30)


@pytest.mark.parametrize("dtype", [F64, F32])
def test_plus_zero_is_above_minus_zero(dtype: DType) -> None:
    for pair in ((0.0, -0.0), (-0.0, 0.0)):
        assert math.copysign(1, fold("maximum", pair, [dtype] * 2, dtype) or 0.0) == 1
        assert str(fold("minimum", pair, [dtype] * 2, dtype)) == "-0.0"


@pytest.mark.parametrize(
    ("reference", "operand", "want"),
    [
        (lambda torch, x: x**3, -1e200, -math.inf),
        (lambda torch, x: x**3, 1e200, math.inf),
        (lambda torch, x: 1 / x, -0.0, -math.inf),
        (lambda torch, x: x**-2, 0.0, math.inf),
        (lambda torch, x: (x - x) / (x - x), 1.0, math.nan),
        (lambda torch, x: abs(x) ** 2, -1e200, math.inf),
        (lambda torch, x: x * (x > 0), -3.0, -0.0),
        (lambda torch, x: x % 3.0, -1.0, 2.0),
        (lambda torch, x: x**0.5, -1.0, math.nan),
    ],
)
def test_references_of_arithmetic_give_numbers_what_they_give_tensors(
    reference: Callable[..., Any], operand: float, want: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.setitem(OPS, "added", _unary("added", Rule.FLOATING, "{0}", reference=reference))
    got = fold("added", [operand], [F64], F64)
    assert got == pytest.approx(want, nan_ok=True)
    assert got == pytest.approx(reference(torch, torch.tensor(operand, dtype=torch.float64)).item(), nan_ok=True)
