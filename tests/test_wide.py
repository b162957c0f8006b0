"""Recipes with very many inputs and outputs: twice as many take about twice the work, counted in calls of Python."""

from __future__ import annotations

import cProfile
import pstats
from collections.abc import Callable

import pytest

from fusebuild import plan_check, schedule
from fusebuild.errors import ScheduleError
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


def chained(count: int) -> str:
    """So many tensors, added one after the other."""
    names = range(1, count)
    return "\n".join(
        [
            "fusion: wide",
            "inputs:",
            *(f"  x{i}: float[N]" for i in range(count)),
            "body: |",
            "  y0 = x0 * 2.0",
            *(f"  y{i} = y{i - 1} + x{i}" for i in names),
            "outputs:",
            f"  y{count - 1}: float",
        ]
    )


@pytest.mark.parametrize(
    ("text", "segments"),
    [(elementwise(70, lambda i: "N"), 2), (chained(140), 2)],
    ids=["apart", "chained"],
)
def test_no_kernel_is_given_more_than_it_has_parameters_for(
    text: str, segments: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real bound, of some 4,000 tensors, takes a minute."""
    monkeypatch.setattr(schedule, "MOST_PARAMETER_BYTES", 1024)
    plan = plan_recipe(parse_recipe(text, "wide.yaml"), [TARGETS["sm_90"]]).plan
    assert len(plan.targets[0].segments) == segments
    sizes = plan_check.argument_sizes(plan, plan.targets[0])
    assert max(sum(given) for lists in sizes.values() for given in lists) <= 1024 + 512


def test_what_no_kernel_has_parameters_for_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedule, "MOST_PARAMETER_BYTES", 16)
    with pytest.raises(ScheduleError, match="3 tensors are more parameters than a kernel can have"):
        plan_recipe(parse_recipe(chained(2), "wide.yaml"), [TARGETS["sm_90"]])
