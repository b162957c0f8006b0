"""The fusions in ``tests/fewest`` take the fewest segments and bytes, but for the gaps that are written down there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from fusebuild.recipe.recipe import load_recipe
from support.fewest import state_of, worklist
from support.places import FEWEST

CAPABILITIES, GAPS = worklist()


@pytest.mark.parametrize("path", FEWEST, ids=lambda path: path.stem)
def test_a_recipe_is_as_expected_or_as_its_gap_says(path: Path) -> None:
    state, gap = state_of(path), GAPS.get(path.stem)
    if gap is None:
        assert state.is_kept, f"it is {state.as_declared()}: if that is no mistake, gaps.toml has to say so"
        return
    assert not state.is_kept, "the gap is closed: delete its entry in gaps.toml"
    assert state.as_declared() == {key: said for key, said in gap.items() if key != "lacks"}


def test_the_worklist_names_recipes_that_are_there_and_capabilities_that_lack() -> None:
    assert len(FEWEST) >= 60
    assert {*GAPS} <= {path.stem for path in FEWEST}
    assert {*CAPABILITIES} == {*Counter(gap["lacks"] for gap in GAPS.values())}


@pytest.mark.parametrize("path", [path for path in FEWEST if "refusal" not in GAPS.get(path.stem, {})],
                         ids=lambda path: path.stem)  # fmt: skip
def test_a_recipe_says_what_it_is_and_is_tried_at_odd_sizes(path: Path) -> None:
    recipe = load_recipe(path)
    assert recipe.fusion.name == path.stem
    assert recipe.fusion.doc
    assert recipe.expected.segments
    assert recipe.expected.bytes is not None
    _, *small = recipe.fusion.cases
    assert len(small) >= 2
    assert any(all(size % 2 for size in case.values()) for case in small)
