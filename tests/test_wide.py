"""Recipes with very many inputs and outputs: twice as many take about twice the work, counted in calls of Python."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable

import pytest

from fusebuild.pipeline import plan_recipe
from fusebuild.recipe import parse_recipe
from fusebuild.target import TARGETS

MOST = 2.3


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


def calls(text: str) -> int:
    """How many calls it takes to read and plan a recipe."""
    profile = cProfile.Profile()
    profile.enable()
    plan_recipe(parse_recipe(text, "wide.yaml"), [TARGETS["sm_90"]])
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "shape",
    [lambda i: "N", lambda i: "M, N", lambda i: f"N{i}", lambda i: f"M, N{i % 7}"],
    ids=["one size", "two sizes", "sizes of their own", "seven sizes"],
)
def test_twice_as_many_take_twice_the_work(shape: Callable[[int], str]) -> None:
    calls(elementwise(3, shape))  # what is done once for a process
    assert calls(elementwise(240, shape)) <= MOST * calls(elementwise(120, shape))
