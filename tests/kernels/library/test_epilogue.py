"""What a library does after a product, in one call: what is legal, what plans say of it, and what comes out.

On a GPU (``pytest -m gpu``) the same runs through cuBLASLt.
"""

from __future__ import annotations

import random

import msgspec
import pytest

from fusebuild.report.inspection import Inspection
from support.products import compared, device_target, loaded, plan_of, recipe_text
from support.small_recipes import text_of

torch = pytest.importorskip("torch")

EPILOGUES: list[tuple[dict[str, str], str]] = [
    ({"x": "M, K", "w": "N, K", "bias": "N"}, "linear(x, w) + bias"),
    ({"x": "M, K", "w": "N, K", "r": "M, N"}, "linear(x, w) + r"),
    ({"x": "M, K", "w": "N, K", "r": "M, N", "bias": "N"}, "0.5 * r + linear(x, w, bias)"),
    (
        {"a": "B, M, K", "b": "B, N, K", "r": "B, M, N", "bias": "N"},
        "r * -2.0 + a @ permute(b, [0, 2, 1]) + bias",
    ),
]
"""Operands' shapes, and a product with what a library does after it in float and double."""


def sizes_of_epilogues() -> list[dict[str, int]]:
    """Even, odd and empty ones."""
    drawn = random.Random(5125)
    odd = [{"B": drawn.randint(1, 4), **{size: drawn.randint(1, 70) for size in "MNK"}} for _ in range(3)]
    even = {"B": 2, "M": 16, "N": 32, "K": 64}
    return [even, *odd, even | {"K": 0}, even | {"M": 0}, even | {"B": 1, "M": 1, "N": 1, "K": 1}]


@pytest.mark.parametrize(
    ("inputs", "body", "dtype", "schedulers"),
    [
        ({"r": "M, N"}, "linear(x, w) + r", "float", ["library"]),
        ({"r": "N"}, "r + linear(x, w)", "double", ["library"]),
        ({"r": "M, N"}, "linear(x, w) + r", "bfloat16", ["library", "pointwise"]),  # rounded before it is added
        ({"r": "N"}, "linear(x, w) + r", "half", ["library", "pointwise"]),
        ({}, "relu(linear(x, w))", "half", ["library", "pointwise"]),  # the library makes 0 of NaN
        ({"r": "M, N"}, "relu(linear(x, w)) + r", "float", ["library", "pointwise"]),
        ({"r": "M, N"}, "linear(x, w) - r", "float", ["library", "pointwise"]),
        ({"r": "M, N", "s": "M, N"}, "linear(x, w) + r + s", "float", ["library", "pointwise"]),
        ({"r": "M, 1"}, "linear(x, w) + r", "float", ["library", "pointwise"]),
        ({}, "linear(x, w) * linear(x, w)", "float", ["library", "pointwise"]),
        ({"r": "M, N"}, "tanh(linear(x, w) + r)", "float", ["library", "pointwise"]),
    ],
)
def test_what_is_legal_after_a_product(inputs: dict[str, str], body: str, dtype: str, schedulers: list[str]) -> None:
    narrow = f"cast({body}, {dtype})" if dtype in ("half", "bfloat16") else body
    text = recipe_text({"x": "M, K", "w": "N, K"} | inputs, narrow, dtype)
    assert [segment.scheduler for segment in plan_of(text).targets[0].segments] == schedulers


def test_the_gelu_of_a_recipe_is_not_that_of_the_library() -> None:
    gelu = "t = linear(x, w, bias)\ny = 0.5 * t * (1.0 + erf(t * 0.7071067811865476))"
    text = text_of({"x": "float[M, K]", "w": "float[N, K]", "bias": "float[N]"}, gelu, {"y": "float"})
    assert [segment.scheduler for segment in plan_of(text).targets[0].segments] == ["library", "pointwise"]


def test_inspect_names_the_epilogue() -> None:
    text = recipe_text({"x": "K, M", "w": "N, K", "r": "M, N"}, "linear(permute(x, [1, 0]), w) + 0.5 * r")
    inspected = Inspection(plan=plan_of(text), target="sm_90", sizes=None)
    assert "  calls   linear in float: %0[M, K] transposed %1[K, N] transposed + 0.5 %2\n" in inspected.as_text()
    call = msgspec.to_builtins(inspected.report.segments[0].call)
    assert (call["transpose_a"], call["residual"], call["beta"]) == (True, 2, 0.5)


@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize(("inputs", "body"), EPILOGUES, ids=[body for _, body in EPILOGUES])
def test_the_host_computes_epilogues(inputs: dict[str, str], body: str, dtype: str) -> None:
    for sizes in sizes_of_epilogues():
        assert compared(recipe_text(inputs, body, dtype), sizes, "cpu", "host").ok, sizes


def test_a_residual_may_be_overwritten() -> None:
    text = text_of(
        {"x": "float[M, K]", "w": "float[N, K]", "state": "float[M, N]"},
        "y = linear(x, w) + state",
        {"y": "{dtype: float, alias: state}"},
    )
    x, w, state = torch.randn(5, 7), torch.randn(11, 7), torch.randn(5, 11)
    want = x @ w.t() + state
    plan = loaded(text)
    plan(x, w, state)
    torch.testing.assert_close(state, want)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("dtype", ["float", "double"])
@pytest.mark.parametrize(("inputs", "body"), EPILOGUES, ids=[body for _, body in EPILOGUES])
def test_the_library_computes_epilogues(inputs: dict[str, str], body: str, dtype: str) -> None:
    for sizes in sizes_of_epilogues():
        assert compared(recipe_text(inputs, body, dtype), sizes, "cuda", device_target()).ok, sizes
