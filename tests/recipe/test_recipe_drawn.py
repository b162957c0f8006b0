"""Cases that are drawn: within the facts of the recipe, of the bytes that were asked for, aligned and odd."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fusebuild.oracle.verification import largest_tensor
from fusebuild.recipe.drawn import ALIGNMENT, BREADTH, LARGE, LONGEST_ROW, MOST_ELEMENTS, SMALL, drawn_cases
from fusebuild.recipe.recipe import Recipe, load_recipe, parse_recipe
from fusebuild.recipe.sizes import least_bytes, require_fitting
from support.places import RECIPES, ROOT
from support.small_recipes import text_of

SEEDS = st.integers(0, 2**63 - 1)
few = settings(max_examples=15, deadline=None)  # each draws several cases, of a few milliseconds each


def recipe_of(facts: str = "", shape: str = "M, N", dtype: str = "float") -> Recipe:
    """A recipe that doubles one input; ``facts`` are lines of its extents."""
    text = text_of({"x": f"{dtype}[{shape}]"}, "y = x + x", {"y": dtype}, name="doubled")
    return parse_recipe(text.replace("inputs:", f"extents:\n{facts}\ninputs:") if facts else text, "doubled.yaml")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_cases_of_the_shipped_recipes_are_what_was_asked_for(path: Path) -> None:
    recipe = load_recipe(path)
    cases = drawn_cases(recipe, 24, 7)
    assert len(cases) == (0 if path.stem == "reduction_pointwise_epilogue" else 24)
    for index, case in enumerate(cases):
        require_fitting(recipe.fusion, case)
        low, high = SMALL if index % 2 else LARGE
        moved = least_bytes(recipe.fusion, case)
        assert low <= moved <= high
        assert largest_tensor(recipe.fusion, case) <= 1.125 * moved
        steps = {fact.symbol: fact.multiple_of for fact in recipe.fusion.facts}
        for symbol, size in case.items():
            if index // 2 % 2 == 0:
                assert size <= ALIGNMENT or size % ALIGNMENT == 0
            else:
                assert size // steps.get(symbol, 1) % 2 == 1


@few
@given(SEEDS, st.integers(1, 12))
def test_cases_are_distinct_and_those_of_a_seed_the_same(seed: int, count: int) -> None:
    recipe = recipe_of()
    cases = drawn_cases(recipe, count, seed)
    assert len({tuple(case.items()) for case in cases}) == count
    assert cases == drawn_cases(recipe, count, seed)
    assert cases == drawn_cases(recipe, count + 1, seed)[:count]


def test_seeds_and_names_draw_other_cases() -> None:
    recipe, other = load_recipe(ROOT / "recipes" / "gelu_backward.yaml"), load_recipe(ROOT / "recipes" / "softmax.yaml")
    drawn = [drawn_cases(recipe, 4, 1), drawn_cases(recipe, 4, 2), drawn_cases(other, 4, 1)]
    assert drawn[0] != drawn[1]
    assert drawn[0] != drawn[2]


@few
@given(SEEDS, st.integers(1, 100), st.integers(1, 5000), st.integers(0, 10**6))
def test_facts_hold(seed: int, multiple: int, least: int, width: int) -> None:
    most = -(-least // multiple) * multiple + width  # one size at least
    recipe = recipe_of(f"  N: {{multiple_of: {multiple}, min: {least}, max: {most}}}")
    cases = drawn_cases(recipe, 6, seed)
    assert len(cases) == 6
    for case in cases:
        require_fitting(recipe.fusion, case)
        assert min(case.values()) > 0


@few
@given(SEEDS, st.integers(1, 64))
def test_topk_finds_as_many_elements_as_it_gives(seed: int, k: int) -> None:
    body = f"v, i = topk(x, {k}, 1)"
    recipe = parse_recipe(text_of({"x": "float[M, N]"}, body, {"v": "float", "i": "int64"}), "r.yaml")
    cases = drawn_cases(recipe, 12, seed, max_elements=1000)
    assert cases
    assert min(case["N"] for case in cases) >= k


@few
@given(SEEDS)
def test_rows_are_of_every_length(seed: int) -> None:
    rows = [case["N"] for case in drawn_cases(recipe_of(dtype="bfloat16"), 40, seed)]
    assert max(rows) <= LONGEST_ROW
    octaves = [math.log2(row) for row in rows]
    assert min(octaves) < 8 < max(octaves)


@few
@given(SEEDS)
@example(8_589_429_169)
def test_a_vector_is_as_long_as_the_bytes_say(seed: int) -> None:
    """Where these are the fewest, an aligned size may lie up to one step below them."""
    recipe = recipe_of(shape="N")
    for index, case in enumerate(drawn_cases(recipe, 8, seed)):
        low, high = SMALL if index % 2 else LARGE
        assert low - 8 * ALIGNMENT < 8 * case["N"] <= high


def test_the_innermost_dim_is_that_of_the_stride_order() -> None:
    text = """\
fusion: columns
inputs:
  x: {type: "float[M, N]", stride_order: [0, 1]}
body: |
  y = x + x
outputs:
  y: float
"""
    rows = [case["M"] for case in drawn_cases(parse_recipe(text, "columns.yaml"), 40, 0)]
    assert max(rows) <= LONGEST_ROW


@pytest.mark.parametrize(
    ("facts", "shape"),
    [
        ("", "3, 5"),
        ("  M: {min: 4, max: 4}\n  N: {multiple_of: 8, max: 8}", "M, N"),
        ("  M: {max: 0}\n  N: {multiple_of: 8, max: 7}", "M, N"),
    ],
)
def test_where_no_size_is_free_there_is_nothing_to_draw(facts: str, shape: str) -> None:
    assert drawn_cases(recipe_of(facts, shape), 4, 0) == ()


@few
@given(SEEDS)
def test_every_size_is_drawn_where_there_are_few(seed: int) -> None:
    recipe = recipe_of("  M: {min: 4, max: 4}\n  N: {min: 1, max: 3}")
    cases = drawn_cases(recipe, 10, seed)
    assert {case["M"] for case in cases} == {4}
    assert sorted(case["N"] for case in cases) == [1, 2, 3]


def test_sizes_that_allow_no_large_case_give_what_they_allow() -> None:
    recipe = recipe_of("  M: {max: 10}\n  N: {max: 100}")
    first, *_ = drawn_cases(recipe, 8, 0)
    assert 4000 <= least_bytes(recipe.fusion, first) <= 8000


@few
@given(SEEDS)
def test_no_tensor_has_more_elements_than_the_case_has_bytes(seed: int) -> None:
    text = text_of({"x": "float[M, 1]", "y": "float[1, N]"}, "z = sum(x * y, dims=[1])", {"z": "float"}, name="outer")
    recipe = parse_recipe(text, "outer.yaml")
    for index, case in enumerate(drawn_cases(recipe, 6, seed)):
        assert case["M"] * case["N"] <= (SMALL if index % 2 else LARGE)[1]


@few
@given(SEEDS)
def test_ranges_of_integers_are_not_empty(seed: int) -> None:
    text = text_of({"x": "int32[M, N]"}, "y = x + x", {"y": "int32"}, name="ranged")
    recipe = parse_recipe(text.replace("int32[M, N]", '{type: "int32[M, N]", range: [N, M]}'), "ranged.yaml")
    cases = drawn_cases(recipe, 6, seed)
    assert len(cases) == 6
    assert all(case["N"] < case["M"] for case in cases)


def elements_of(recipe: Recipe, count: int, seed: int, most: int) -> list[int]:
    """Those of the largest tensor of each case that is drawn within a limit."""
    return [largest_tensor(recipe.fusion, case) for case in drawn_cases(recipe, count, seed, max_elements=most)]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
@pytest.mark.parametrize("most", [100, 6000, 300_000])
def test_as_many_cases_of_the_shipped_recipes_as_are_wanted_have_few_elements(path: Path, most: int) -> None:
    recipe = load_recipe(path)
    cases = drawn_cases(recipe, 8, 20, max_elements=most)
    assert len(cases) == len({tuple(case.items()) for case in cases})
    assert len(cases) == (0 if path.stem == "reduction_pointwise_epilogue" else 8)
    for case in cases:
        require_fitting(recipe.fusion, case)
        assert 0 < largest_tensor(recipe.fusion, case) <= most


@few
@given(SEEDS, st.integers(0, 10_000))
def test_no_case_exceeds_the_limit_of_elements(seed: int, most: int) -> None:
    recipe = recipe_of("  N: {multiple_of: 8, min: 16}")
    elements = elements_of(recipe, 6, seed, most)
    assert all(16 <= each <= most for each in elements)
    assert bool(elements) == (most >= 16)
    assert len(elements) == 6 or most < 200


@few
@given(SEEDS)
def test_elements_are_of_every_number_within_the_limit(seed: int) -> None:
    elements = elements_of(recipe_of(), 40, seed, 64_000)
    assert 64_000 / BREADTH / 1.125 <= min(elements) < 8000 < max(elements) <= 64_000


@few
@given(SEEDS)
def test_a_limit_that_nothing_reaches_draws_no_more_than_large_cases_have(seed: int) -> None:
    assert max(elements_of(recipe_of(), 6, seed, 2**62)) <= MOST_ELEMENTS


@pytest.mark.parametrize("most", [0, 1, 7])
def test_nothing_is_drawn_where_nothing_fits(most: int) -> None:
    assert elements_of(recipe_of("  N: {min: 8}"), 4, 0, most) == []
