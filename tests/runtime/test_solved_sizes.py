"""Sizes that no dim of an input is alone: how calls find them, and what calls with wrong sizes are told."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import pytest
import torch

import fusebuild
from fusebuild.runtime.loader import LoadedPlan

RECIPE = """
fusion: solved
extents: {D: {multiple_of: 4}}
relations: [S <= P, S >= 1]
inputs:
  gate_up: "float[T, 2*I]"
  grouped: "float[T, D // 4, 4]"
  part: float[S, I + 1]
  whole: float[P]
  scaled: "float[T*K]"
body: |
  halves = slice(gate_up, [0, 0], [T, I]) + slice(gate_up, [0, I], [T, 2 * I])
  flat = reshape(grouped, [T, D]) * 2.0
  first = sum(part, dims=[1]) + slice(whole, [0], [S])
  rows = reshape(scaled, [T, K]) + 1.0
outputs: {halves: float, flat: float, first: float, rows: float}
cases: [{T: 3, I: 2, D: 8, S: 2, P: 5, K: 4}]
"""


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> LoadedPlan:
    folder: Path = tmp_path_factory.mktemp("solved")
    path = folder / "solved.yaml"
    path.write_text(RECIPE)
    return fusebuild.compile(path, target="host")


def shapes_of(t: int, i: int, d: int, s: int, p: int, k: int) -> list[list[int]]:
    return [[t, 2 * i], [t, d // 4, 4], [s, i + 1], [p], [t * k]]


GOOD = shapes_of(3, 2, 8, 2, 5, 4)


def call(plan: LoadedPlan, shapes: list[list[int]]) -> Any:
    return plan(*map(torch.ones, shapes))


def test_results(plan: LoadedPlan) -> None:
    halves, flat, first, rows = call(plan, GOOD)
    assert [[*each.shape] for each in (halves, flat, first, rows)] == [[3, 2], [3, 8], [2], [3, 4]]
    for result, value in ((halves, 2), (flat, 2), (first, 4), (rows, 2)):
        assert result.eq(value).all()


@pytest.mark.parametrize(
    ("position", "shape", "message"),
    [
        (0, [3, 7], "argument 0 'gate_up': dim 1 is 2*I, which 7 cannot be"),
        (2, [2, 4], "argument 2 'part': dim 1 is I + 1 = 3, got 4"),
        (2, [0, 3], "expected S >= 1, got S=0"),
        (3, [1], "expected S <= P, got S=2, P=1"),
        (4, [13], "argument 4 'scaled': dim 0 is T*K, which 13 cannot be"),
        (1, [3, 2], "argument 1 'grouped': expected float[T=3, D // 4, 4], got float[3, 2]"),
        (1, [3, 2, 5], "argument 1 'grouped': expected float[T=3, D // 4=2, 4], got float[3, 2, 5]"),
    ],
)
def test_wrong_sizes(plan: LoadedPlan, position: int, shape: list[int], message: str) -> None:
    shapes = [*GOOD[:position], shape, *GOOD[position + 1 :]]
    with pytest.raises(ValueError, match=f"^{re.escape(f'solved: {message}')}$"):
        call(plan, shapes)


def test_a_factor_of_no_elements_tells_nothing(plan: LoadedPlan) -> None:
    with pytest.raises(ValueError, match=r"argument 4 'scaled': dim 0 is T\*K, which does not tell K where T is 0"):
        call(plan, shapes_of(0, 2, 8, 2, 5, 4))


def test_one_wrong_size_is_always_refused(plan: LoadedPlan) -> None:
    """Whichever dim it is, unless other sizes make it right."""
    drawn = random.Random(7)
    for _ in range(200):
        s = drawn.randint(1, 9)
        shapes = shapes_of(drawn.randint(1, 6), drawn.randint(0, 9), 4 * drawn.randint(0, 5), s, s, drawn.randint(0, 5))
        call(plan, shapes)
        position = drawn.randrange(len(shapes))
        dim = drawn.randrange(len(shapes[position]))
        wrong = [[*shape] for shape in shapes]
        wrong[position][dim] += drawn.choice([1, 2, 5])
        free = (1, 1), (3, 0)  # D and P: nothing else has their sizes
        fits = (position, dim) in free or (position == 4 and wrong[4][0] % shapes[0][0] == 0)
        if fits:
            call(plan, wrong)
            continue
        with pytest.raises(ValueError, match=r"^solved: (argument \d '\w+': |expected S <= P, got S=\d+, P=\d+)"):
            call(plan, wrong)


def test_as_an_operator_of_torch(plan: LoadedPlan) -> None:
    operator = plan.as_torch_op("solved_sizes::solved")
    inputs = [torch.ones(shape) for shape in GOOD]
    fake = [torch.empty(shape, device="meta") for shape in GOOD]
    assert [each.shape for each in operator(*fake)] == [each.shape for each in plan(*inputs)]
    with pytest.raises(RuntimeError, match="argument 0 'gate_up': dim 1 has to be 2\\*I"):
        operator(torch.empty([3, 7], device="meta"), *fake[1:])
