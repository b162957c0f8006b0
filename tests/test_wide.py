"""Recipes with very many inputs and outputs: twice as many take about twice the work, counted in lines of Python."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from fusebuild.pipeline import plan_recipe
from fusebuild.recipe import parse_recipe
from fusebuild.segmentation.segmenter import MOST_REFINED
from fusebuild.target import TARGETS

MOST = 2.2
MANY = 4000


def elementwise(count: int, shape: Callable[[int], str]) -> str:
    """So many tensors, each doubled by itself."""
    names = range(count)
    return "\n".join(
        [
            "fusion: wide",
            "inputs:",
            *(f"  x{i}: float[{shape(i)}]" for i in names),
            "body: |",
            *(f"  y{i} = x{i} * 2.0" for i in names),
            "outputs:",
            *(f"  y{i}: float" for i in names),
        ]
    )


def steps(text: str) -> int:
    """How many lines of Python it takes to read and plan a recipe; a comprehension's count as often as it is run."""
    count = 0

    def step(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        plan_recipe(parse_recipe(text, "wide.yaml"), [TARGETS["sm_90"]])
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    ("shape", "few"),
    [(lambda i: "N", 60), (lambda i: "M, N", 60), (lambda i: f"N{i}", MOST_REFINED + 5),
     (lambda i: f"M, N{i % 7}", MOST_REFINED + 5)],
    ids=["one size", "two sizes", "sizes of their own", "seven sizes"],
)  # fmt: skip
def test_twice_as_many_take_twice_the_work(shape: Callable[[int], str], few: int) -> None:
    """Up to 4,000, as the parabola goes through three counts that do not take as long."""
    steps(elementwise(3, shape))  # what is done once for a process
    first, second, third = (steps(elementwise(count, shape)) for count in (few, 2 * few, 3 * few))
    square = (third - 2 * second + first) / 2 / few**2
    each = (second - first) / few - 3 * square * few
    half, whole = (first + each * (count - few) + square * (count**2 - few**2) for count in (MANY // 2, MANY))
    assert whole <= MOST * half
