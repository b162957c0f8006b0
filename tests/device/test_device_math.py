"""Casts and math functions of the device header, run on the CPU, against torch."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence

import pytest
import torch

from support.device_harness import DTYPES, INF, NAN, TARGET, library, ptx_of, same_values
from support.places import DEVICE

# --- Casts

SPECIAL_FLOATS = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.5, 0.1, -0.7, 7.0, 100.25, 1e-3, 65504.0, 65519.9, 65520.0),
    *(1 + 2**-8, 1 + 3 * 2**-8, 1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-12, 1e-6, 1e-7, 6e-8, 3e-8, 1e-40, 1e-45, 3e38),
    *(1 + 2**-8 + 2**-30, 1 + 2**-11 + 2**-40, INF, -INF, NAN, -NAN),
]
SPECIAL_INTEGERS = [0, 1, -1, 2, -2, 3, -7, 12, 255, 256, 257, 2049, 65519, 65520, 2**24 + 1, 2**31 - 1, -(2**31)]
WIDE_INTEGERS = [2**31, 2**53 + 1, 2**62 + 2**38, 2**63 - 1, -(2**63), 2**32 + 5]


def cast_inputs(source: torch.dtype, to: torch.dtype) -> torch.Tensor:
    """Special values of ``source``, without those that torch leaves undefined in ``to``."""
    if source == torch.bool:
        return torch.tensor([False, True] * 4)
    if not source.is_floating_point:
        values = SPECIAL_INTEGERS + (WIDE_INTEGERS if source == torch.int64 else [])
        return torch.tensor(values + [0] * (-len(values) % 8), dtype=source)
    x = torch.tensor(SPECIAL_FLOATS, dtype=torch.float64).to(source)
    if to in (torch.int32, torch.int64):
        x = x[torch.isfinite(x) & (x.abs() < 2.0**31)]
    return torch.cat([x, torch.ones(-len(x) % 8, dtype=source)])


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("to", DTYPES)
def test_casts_agree_with_torch(source, to):
    x = cast_inputs(DTYPES[source], DTYPES[to])
    out = torch.zeros(2, len(x), dtype=DTYPES[to])
    library("casts").run(f"cast_{source}_{to}", (1,), (64,), x, out, len(x))
    expected = x.to(DTYPES[to])
    assert same_values(out[0], expected), (x, out[0], expected)
    assert same_values(out[1], expected), (x, out[1], expected)


def test_floats_that_an_integer_cannot_hold_saturate_as_on_a_gpu():
    x = torch.tensor([NAN, INF, -INF, 3e9, -3e9, 1e19, -1e19, 2147483648.0])
    lowest, highest = torch.iinfo(torch.int32).min, torch.iinfo(torch.int32).max
    out = torch.zeros(2, 8, dtype=torch.int32)
    library("casts").run("cast_float_int32", (1,), (64,), x, out, 8)
    assert out[0].tolist() == [0, highest, lowest, highest, lowest, highest, lowest, highest]
    wide = torch.zeros(2, 8, dtype=torch.int64)
    library("casts").run("cast_float_int64", (1,), (64,), x, wide, 8)
    low, high = -(2**63), 2**63 - 1
    assert wide[0].tolist() == [low, high, low, 3000000000, -3000000000, high, low, 2147483648]


# --- Math

FLOATS = [
    *(0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 3.5, 2.0, -2.0, 3.0, -3.0, 0.1, -0.1, 0.3, 0.75, -0.9),
    *(0.999, -0.999, 0.4999, 1e-3, 1e-8, -1e-8, 5.0, -5.0, 10.0, -10.0, 20.0, 50.0, -50.0, 88.0, -88.0, 100.0, 1000.0),
    *(1e5, -1e5, 123456.75, 1e10, -1e10, 1e30, -1e30, 3e38, 1e-38, 1e-40, -1e-40, 1e-45, INF, -INF, NAN),
]
UNARY_FLOAT = (
    *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "ceil", "cos", "cosh", "erf", "erfc"),
    *("erfinv", "exp", "exp2", "expm1", "floor", "frac", "lgamma", "log", "log10", "log1p", "log2"),
    *("neg", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt"),
    *("tan", "tanh", "trunc", "isfinite", "isinf", "isnan", "isneginf", "isposinf", "isreal", "signbit"),
)


def exact_fmod(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """torch.fmod, whose vectorized form gives NaN for some finite operands that are far apart."""
    is_defined = a.isfinite() & (b != 0) & ~b.isnan()
    rows = zip(a.tolist(), b.tolist(), is_defined.tolist(), strict=True)
    return torch.tensor([math.fmod(x, y) if defined else NAN for x, y, defined in rows], dtype=a.dtype)


def exact_remainder(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    rest = exact_fmod(a, b)
    return torch.where((rest != 0) & ((rest < 0) != (b < 0)), rest + b, rest)


BINARY_FLOAT = {
    "add": torch.add,
    "atan2": torch.atan2,
    "div": torch.div,
    "fmod": exact_fmod,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "mod": exact_fmod,
    "mul": torch.mul,
    "nextafter": torch.nextafter,
    "pow": torch.pow,
    "remainder": exact_remainder,
    "sub": torch.sub,
}


TOLERANCE = 4 if TARGET.is_host else 8
"""In units in the last place; CUDA's math functions allow themselves more than C libraries do."""


def ulps_apart(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """How many representable values lie between; 0 for two NaNs and for zeros of either sign, huge for NaN and not."""
    integer = torch.int32 if a.dtype == torch.float32 else torch.int64
    lowest = torch.iinfo(integer).min
    bits = [x.view(integer).to(torch.float64) for x in (a, b)]
    ordered = [torch.where(x < 0, lowest - x, x) for x in bits]
    distance = (ordered[0] - ordered[1]).abs()
    if integer == torch.int64:  # doubles that are near have bits that a double cannot tell apart
        near = (a - b).abs() <= 4 * 2.0**-52 * b.abs()
        distance = torch.where(near, 0.0, distance)
    one_is_nan = a.isnan() != b.isnan()
    return torch.where(a.isnan() & b.isnan(), 0.0, torch.where(one_is_nan, INF, distance))


def assert_near(actual: torch.Tensor, expected: torch.Tensor, *inputs: torch.Tensor) -> None:
    if actual.dtype == torch.bool:
        wrong = actual != expected
    else:
        wrong = ulps_apart(actual, expected) > TOLERANCE
        wrong &= ~((actual - expected).abs() <= torch.finfo(actual.dtype).tiny)  # some libraries flush subnormals
    details = [(*(x[wrong].tolist() for x in inputs), actual[wrong].tolist(), expected[wrong].tolist())]
    assert not wrong.any(), details


def run_pointwise(name: str, *inputs: torch.Tensor, result: torch.dtype | None = None) -> torch.Tensor:
    count = inputs[0].numel()
    out = torch.zeros(count, dtype=result or inputs[0].dtype)
    library("math").run(name, (-(-count // 128),), (128,), *inputs, out, count)
    return out


def pairs(values: Sequence[float], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    a, b = zip(*itertools.product(values, values), strict=True)
    return torch.tensor(a, dtype=dtype), torch.tensor(b, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("name", UNARY_FLOAT)
def test_unary_float_functions_agree_with_torch(name, dtype):
    x = torch.tensor(FLOATS, dtype=DTYPES[dtype])
    expected = getattr(torch, name)(x)
    actual = run_pointwise(f"{name}_{dtype}", x, result=expected.dtype)
    if name == "lgamma":  # near its zeros only the absolute error is small
        actual = torch.where((actual - expected).abs() <= torch.finfo(x.dtype).eps, expected, actual)
    assert_near(actual, expected, x)


@pytest.mark.parametrize("dtype", ["float", "double"])
def test_silu_agrees_with_torch(dtype):
    x = torch.tensor(FLOATS, dtype=DTYPES[dtype])
    assert_near(run_pointwise(f"silu_{dtype}", x), torch.nn.functional.silu(x), x)


@pytest.mark.parametrize("dtype", ["float", "double"])
def test_the_reciprocal_of_what_is_at_least_one_agrees_with_torch(dtype):
    x = torch.tensor([1.0, 1.0000001, 1.5, 3.0, 7.0, 1003.0, 65504.5, 2.0**31, 1e30, NAN], dtype=DTYPES[dtype])
    assert_near(run_pointwise(f"reciprocal_of_at_least_one_{dtype}", x), torch.reciprocal(x), x)


@pytest.mark.parametrize("dtype", ["float", "double"])
def test_erfcinv_inverts_erfc_into_the_tails(dtype):
    values = [1.0, 0.5, 1.5, 0.1, 1.9, 1e-3, 1e-10, 1e-30, 1e-38, 0.9999, 1.0001, 0.31, 0.29]
    x = torch.tensor(values, dtype=DTYPES[dtype])
    expected = -torch.special.ndtri(x.double() / 2) / math.sqrt(2)
    actual = run_pointwise(f"erfcinv_{dtype}", x).double()
    tolerance = 4 * torch.finfo(DTYPES[dtype]).eps
    assert torch.allclose(actual, expected, rtol=tolerance, atol=1e-15), (actual, expected)
    edges = torch.tensor([0.0, 2.0, -0.1, 2.1, NAN], dtype=DTYPES[dtype])
    assert same_values(run_pointwise(f"erfcinv_{dtype}", edges), torch.tensor([INF, -INF, NAN, NAN, NAN]))


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize("name", BINARY_FLOAT)
def test_binary_float_functions_agree_with_torch(name, dtype):
    a, b = pairs(FLOATS, DTYPES[dtype])
    assert_near(run_pointwise(f"{name}_{dtype}", a, b), BINARY_FLOAT[name](a, b), a, b)


def test_maximum_and_minimum_do_not_depend_on_the_order_of_zeros():
    for dtype in ("float", "double"):
        a, b = pairs([0.0, -0.0], DTYPES[dtype])
        assert run_pointwise(f"maximum_{dtype}", a, b).signbit().tolist() == [False, False, False, True]
        assert run_pointwise(f"minimum_{dtype}", a, b).signbit().tolist() == [False, True, True, True]


def on_integers(function: Callable[[int, int], int]) -> Callable[..., torch.Tensor]:
    """``function`` on Python's integers, wrapped: for ops where torch raises, traps or overflows at the edges."""

    def guarded(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        exact = [function(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
        return torch.tensor([(x + 2**63) % 2**64 - 2**63 for x in exact]).to(a.dtype)

    return guarded


def truncating_division(x: int, y: int) -> int:
    return 0 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def truncating_remainder(x: int, y: int) -> int:
    return 0 if y == 0 else x - y * truncating_division(x, y)


def flooring_remainder(x: int, y: int) -> int:
    return 0 if y == 0 else x % y


INTEGERS = [
    *(0, 1, -1, 2, -2, 3, -3, 5, 7, -7, 12, -18, 31, 32, 33, 40, 63, 64, 65, 1000, -1000, 46341, 2**31 - 1, -(2**31)),
]
WIDE = [2**31, -(2**31) - 1, 2**40 + 3, 2**63 - 1, -(2**63)]
BINARY_INTEGER = {
    "add": torch.add,
    "bitwise_and": torch.bitwise_and,
    "bitwise_left_shift": torch.bitwise_left_shift,
    "bitwise_or": torch.bitwise_or,
    "bitwise_right_shift": torch.bitwise_right_shift,
    "bitwise_xor": torch.bitwise_xor,
    "div": on_integers(truncating_division),
    "fmod": on_integers(truncating_remainder),
    "gcd": on_integers(math.gcd),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "mod": on_integers(truncating_remainder),
    "mul": torch.mul,
    "pow": torch.pow,
    "remainder": on_integers(flooring_remainder),
    "sub": torch.sub,
}


def integers(dtype: str) -> list[int]:
    return INTEGERS + (WIDE if dtype == "int64" else [])


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", ["abs", "bitwise_not", "neg", "relu", "sign"])
def test_unary_integer_functions_agree_with_torch(name, dtype):
    x = torch.tensor(integers(dtype), dtype=DTYPES[dtype])
    assert torch.equal(run_pointwise(f"{name}_{dtype}", x), getattr(torch, name)(x))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("name", BINARY_INTEGER)
def test_binary_integer_functions_agree_with_torch(name, dtype):
    a, b = pairs(integers(dtype), DTYPES[dtype])
    actual, expected = run_pointwise(f"{name}_{dtype}", a, b), BINARY_INTEGER[name](a, b)
    wrong = actual != expected
    assert not wrong.any(), (a[wrong], b[wrong], actual[wrong], expected[wrong])


@pytest.mark.parametrize(("dtype", "bits"), [("int32", 32), ("int64", 64)])
def test_logical_right_shift_shifts_in_zeros(dtype, bits):
    a, b = pairs(integers(dtype), DTYPES[dtype])
    expected = [(x % 2**bits) >> y if 0 <= y < bits else 0 for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    signed = [x - 2**bits if x >= 2 ** (bits - 1) else x for x in expected]
    assert run_pointwise(f"logical_right_shift_{dtype}", a, b).tolist() == signed


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum"])
def test_binary_bool_functions_agree_with_torch(name):
    a, b = pairs([False, True], torch.bool)
    assert torch.equal(run_pointwise(f"{name}_bool", a, b), getattr(torch, name)(a, b))
    assert run_pointwise("bitwise_not_bool", a[1:3]).tolist() == [True, False]


TERNARY = {
    "addcmul_of_two": lambda x, a, b: x + 2 * a * b,
    "clamp": torch.clamp,
    "lerp": torch.lerp,
    "threshold": lambda x, limit, value: torch.where(x <= limit, value, x),
    "where_positive": lambda condition, a, b: torch.where(condition > 0, a, b),
}


@pytest.mark.parametrize("dtype", ["float", "double", "int32", "int64"])
@pytest.mark.parametrize("name", TERNARY)
def test_ternary_functions_agree_with_torch(name, dtype):
    if name == "lerp" and dtype.startswith("int"):
        pytest.skip("lerp is for floating types")
    is_float = DTYPES[dtype].is_floating_point
    values = [0.0, 1.0, -1.5, 0.25, 0.5, -3.0, 1e15, INF, -INF, NAN] if is_float else [0, 1, -1, 5, -7, 2**30]
    a, b, c = (
        torch.tensor(column, dtype=DTYPES[dtype]) for column in zip(*itertools.product(values, repeat=3), strict=True)
    )
    assert_near_or_equal(run_pointwise(f"{name}_{dtype}", a, b, c), TERNARY[name](a, b, c), a, b, c)


def assert_near_or_equal(actual: torch.Tensor, expected: torch.Tensor, *inputs: torch.Tensor) -> None:
    if actual.is_floating_point():
        assert_near(actual, expected, *inputs)
    else:
        assert torch.equal(actual, expected)


def test_a_division_by_a_known_size_gives_the_bits_that_a_division_gives():
    generator = torch.Generator().manual_seed(0)
    special = torch.tensor([0.0, -0.0, INF, -INF, NAN, 3e38, -1.0])
    x = torch.cat([special, torch.randn(9 * 128 - len(special), generator=generator)])
    for size in (1, 3, 7, 15, 4095, 4096, 50257):
        divisor = torch.full_like(x, size)
        assert same_values(run_pointwise("divide_by_known_float", x, divisor), x / divisor)


def test_a_division_by_one_to_two_gives_the_bits_that_a_division_gives():
    generator = torch.Generator().manual_seed(0)
    special = torch.tensor([0.0, -0.0, INF, -INF, NAN, 3e38, -1.0])
    x = torch.cat([special, torch.randn(9 * 128 - len(special), generator=generator)])
    for divisor in (torch.ones_like(x), torch.full_like(x, 2.0), 1 + torch.rand(len(x), generator=generator)):
        assert same_values(run_pointwise("divide_by_one_to_two_float", x, divisor), x / divisor)
    assert run_pointwise("divide_by_one_to_two_float", x, torch.full_like(x, NAN)).isnan().all()


@pytest.mark.parametrize(("name", "far"), [("sigmoid", 0.0), ("silu", -0.0)])
def test_where_exp_overflows_nothing_is_left(name, far):
    x = torch.tensor([-100.0, -1000.0, -3e38])
    found = run_pointwise(f"{name}_float", x)
    assert torch.allclose(found, torch.full_like(x, far), rtol=0, atol=1e-40)
    assert torch.equal(found.signbit(), torch.full_like(x, far).signbit())


# --- nvcc


@pytest.fixture(scope="module")
def math_entries(tmp_path_factory):
    """The PTX of each kernel of ``math.cu`` by its name."""
    ptx = ptx_of(DEVICE / "math.cu", tmp_path_factory.mktemp("ptx"))
    return {text.partition("(")[0]: text for text in ptx.split(".entry ")[1:]}


@pytest.mark.parametrize("name", ["div", "reciprocal", "sqrt"])
def test_nvcc_divides_and_takes_roots_as_ieee_754_says(math_entries, name):
    """Near the ends of a float's range, too, where approximations give 0 and infinity."""
    text = math_entries[f"{name}_float"]
    assert re.search(r"(?:div|rcp|sqrt)\.rn\.f32", text)
    assert not re.search(r"(?:div|rcp|sqrt)\.(?:approx|full)", text)


def test_nvcc_takes_the_reciprocal_of_what_is_at_least_one_in_an_instruction(math_entries):
    text = math_entries["reciprocal_of_at_least_one_float"]
    assert re.findall(r"(?:div|rcp)\S+", text) == ["rcp.approx.ftz.f32"]


@pytest.mark.parametrize("name", ["sigmoid", "silu"])
def test_nvcc_divides_by_one_to_two_without_a_branch(math_entries, name):
    """Its own division calls a function where operands are unusual, and neighbours wait for each other."""
    text = math_entries[f"{name}_float"]
    assert re.findall(r"(?:div|rcp)\S+", text) == ["rcp.approx.ftz.f32"]
    assert len(re.findall(r"\bbra\b", text)) == 1  # of the threads beyond the last element
