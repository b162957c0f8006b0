"""The oracle of reductions and scans with lambdas combines as a loop over the indices does."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusebuild.ir.fusion import Fusion
from fusebuild.oracle.reference import evaluate, evaluate_fp64
from fusebuild.passes import run_passes
from support.small_recipes import COUNTED_SUM, recipe_of, text_with_lambdas

torch = pytest.importorskip("torch")

State = tuple[int, ...]
SYMBOLS = "ABC"


@dataclass(frozen=True, slots=True, kw_only=True)
class Monoid:
    """A lambda, exact on integers and not commutative, and the same in Python."""

    text: str
    dtype: str
    identity: State
    combine: Callable[[State, State], State]


@functools.cache
def affine_modulo(prime: int) -> Monoid:
    """Maps ``x -> a x + b`` of the integers modulo ``prime``, one after another."""
    text = f"""\
f:
  left: {{a: int64, b: int64}}
  right: {{c: int64, d: int64}}
  body: |
    slope = remainder(a * c, {prime})
    offset = remainder(b * c + d, {prime})
  results: [slope, offset]
  ordered: true
"""
    return Monoid(
        text=text,
        dtype="int64",
        identity=(1, 0),
        combine=lambda x, y: (x[0] * y[0] % prime, (x[1] * y[0] + y[1]) % prime),
    )


def matrices() -> Monoid:
    """Products of 2 x 2 matrices of 32-bit integers, which wrap."""
    text = """\
f:
  left: {a: int32, b: int32, c: int32, d: int32}
  right: {p: int32, q: int32, r: int32, s: int32}
  body: |
    w = a * p + b * r
    x = a * q + b * s
    y = c * p + d * r
    z = c * q + d * s
  results: [w, x, y, z]
  ordered: true
"""

    def product(x: State, y: State) -> State:
        (a, b, c, d), (p, q, r, s) = x, y
        parts = (a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s)
        return tuple((part + 2**31) % 2**32 - 2**31 for part in parts)

    return Monoid(text=text, dtype="int32", identity=(1, 0, 0, 1), combine=product)


MONOIDS = {"affine": affine_modulo, "matrices": lambda prime: matrices()}


@functools.cache
def fusion_of(kind: str, prime: int, rank: int, call: str) -> Fusion:
    """``call``, ``scan`` or ``reduce`` with its dims, of as many inputs as the state has parts."""
    monoid = MONOIDS[kind](prime)
    names = [f"x{part}" for part in range(len(monoid.identity))]
    # What is modulo a prime stays so only where the elements are.
    parts = [f"remainder({name}, {prime})" if kind == "affine" else name for name in names]
    op, _, where = call.partition(" ")
    results = [f"y{part}" for part in range(len(names))]
    body = f"{', '.join(results)} = {op}([{', '.join(parts)}], init={list(monoid.identity)}, combine=f, {where})"
    inputs = dict.fromkeys(names, f"{monoid.dtype}[{', '.join(SYMBOLS[:rank])}]")
    return recipe_of(text_with_lambdas(inputs, body, dict.fromkeys(results, ""), monoid.text)).fusion


def reduced(parts: Sequence[Any], monoid: Monoid, dims: Sequence[int], keepdim: bool) -> list[Any]:
    """The parts combined over ``dims``, index by index, the last dim fastest."""
    sizes = parts[0].shape
    kept = [1 if dim in dims else size for dim, size in enumerate(sizes)]
    out = [torch.zeros(kept, dtype=part.dtype) for part in parts]
    for place in itertools.product(*map(range, kept)):
        walked = [range(size) if dim in dims else [place[dim]] for dim, size in enumerate(sizes)]
        state = monoid.identity
        for index in itertools.product(*walked):
            state = monoid.combine(state, tuple(int(part[index]) for part in parts))
        for result, number in zip(out, state, strict=True):
            result[place] = number
    return out if keepdim else [result.reshape([s for d, s in enumerate(sizes) if d not in dims]) for result in out]


def scanned(parts: Sequence[Any], monoid: Monoid, dim: int) -> list[Any]:
    out = [torch.zeros_like(part) for part in parts]
    kept = [range(1 if each == dim else size) for each, size in enumerate(parts[0].shape)]
    for place in itertools.product(*kept):
        state = monoid.identity
        for position in range(parts[0].shape[dim]):
            index = (*place[:dim], position, *place[dim + 1 :])
            state = monoid.combine(state, tuple(int(part[index]) for part in parts))
            for result, number in zip(out, state, strict=True):
                result[index] = number
    return out


@st.composite
def uses(draw: st.DrawFn) -> tuple[str, int, tuple[int, ...], tuple[int, ...], bool, int]:
    """``(lambda, prime, sizes, dims, keepdim, seed)``; without dims, the last of the sizes is scanned along."""
    sizes = draw(st.lists(st.integers(0, 7), min_size=1, max_size=3).map(tuple))
    dims = draw(st.sets(st.integers(0, len(sizes) - 1), max_size=len(sizes)).map(sorted).map(tuple))
    kind = draw(st.sampled_from(sorted(MONOIDS)))
    return kind, draw(st.sampled_from((2, 97, 65537))), sizes, dims, draw(st.booleans()), draw(st.integers(0, 1000))


@given(uses())
@settings(max_examples=120, deadline=None, derandomize=True)
def test_ordered_lambdas_combine_as_a_loop_does(
    use: tuple[str, int, tuple[int, ...], tuple[int, ...], bool, int],
) -> None:
    kind, prime, sizes, dims, keepdim, seed = use
    monoid = MONOIDS[kind](prime)
    generator = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, monoid.dtype)
    parts = [torch.randint(-(2**20), 2**20, sizes, generator=generator).to(dtype) for _ in monoid.identity]
    elements = [part.remainder(prime) for part in parts] if kind == "affine" else parts
    if dims:
        call = f"reduce dims={list(dims)}, keepdim={keepdim}"
        wanted = reduced(elements, monoid, dims, keepdim)
    else:
        call = f"scan dim={seed % len(sizes)}"
        wanted = scanned(elements, monoid, seed % len(sizes))
    fusion = fusion_of(kind, prime, len(sizes), call)
    for evaluated in (evaluate(fusion, parts), evaluate_fp64(fusion, parts), evaluate(run_passes(fusion), parts)):
        for got, want in zip(evaluated, wanted, strict=True):
            assert got.dtype == want.dtype
            assert torch.equal(got, want)


def test_parts_are_held_in_their_dtypes_and_in_fp64_where_that_is_asked_for() -> None:
    body = "s, n = reduce([x, 1], init=[0.0, 0], combine=counted_sum, dims=[1])"
    fusion = recipe_of(text_with_lambdas({"x": "float[M, N]"}, body, {"s": "", "n": ""}, COUNTED_SUM)).fusion
    x = torch.tensor([[2.0**24, 1.0]])
    assert [part.tolist() for part in evaluate(fusion, [x])] == [[2.0**24], [2]]
    wide = evaluate_fp64(fusion, [x])
    assert [part.dtype for part in wide] == [torch.float64, torch.int64]
    assert wide[0].tolist() == [2.0**24 + 1]


KEPT_LARGEST = """\
top:
  left: {value_a: float, weight_a: float}
  right: {value_b: float, weight_b: float}
  body: |
    value = maximum(value_a, value_b)
    shift = where(isinf(value), 0.0, value)
    weight = weight_a * exp(value_a - shift) + weight_b * exp(value_b - shift)
  results: [value, weight]
"""


@pytest.mark.parametrize("call", ["reduce(OPERANDS, dims=[1])", "scan(OPERANDS, dim=1)"])
def test_even_one_element_is_combined_with_the_identity(call: str) -> None:
    """As kernels do; where an element is infinite, that is what makes it a state of this lambda."""
    operands = "[x, 1.0], init=[lowest, 0.0], combine=top"
    text = text_with_lambdas({"x": "float[M, N]"}, f"t, w = {call.replace('OPERANDS', operands)}", {"t": "", "w": ""},
                             KEPT_LARGEST, scalars={"lowest": "{dtype: float, value: -.inf}"})  # fmt: skip
    x = torch.tensor([[-float("inf")], [2.0], [float("inf")]])
    top, weight = evaluate(recipe_of(text).fusion, [x])
    assert torch.equal(top.flatten(), x[:, 0])
    assert weight.flatten().tolist() == [0.0, 1.0, float("inf")]
