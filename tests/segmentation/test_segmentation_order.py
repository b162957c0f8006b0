"""The cut does not depend on the order in which an author wrote independent statements."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusebuild.ir.fusion import Fusion
from fusebuild.ir.verify import verify
from fusebuild.passes import run_passes
from fusebuild.recipe.recipe import load_recipe, parse_recipe
from fusebuild.segmentation import SegmentedFusion, segment
from fusebuild.segmentation.acceptance import Acceptance
from fusebuild.segmentation.canonical import canonical_order, reordered
from fusebuild.segmentation.cost import CostModel
from fusebuild.target.table import TARGETS
from support.covers import seconds
from support.places import RECIPES
from support.strategies import fusions

SM_90 = TARGETS["sm_90"]


def cost(segmented: SegmentedFusion) -> float:
    fusion = segmented.fusion
    cover = [each.task for each in segmented.segments]
    return seconds(cover, Acceptance(fusion, SM_90), CostModel(fusion, SM_90))


def shuffled_body(text: str, chance: random.Random) -> str:
    """The recipe ``text`` with the statements of its body in another order that defines every name before its use."""
    head, _, rest = text.partition("\nbody: |\n")  # a lambda's own body is indented
    lines = rest.splitlines()
    end = next(index for index, line in enumerate(lines) if line and not line.startswith(" "))
    statements = ast.parse("\n".join(line[2:] for line in lines[:end])).body
    waiting = list(statements)
    chance.shuffle(waiting)
    written: set[str] = set()
    made = {name for statement in statements for name in _targets(statement)}
    body: list[str] = []
    while waiting:
        ready = next(each for each in waiting if _reads(each) & made <= written)
        waiting.remove(ready)
        written |= _targets(ready)
        body.append(f"  {ast.unparse(ready)}")
    return "\n".join([head, "body: |", *body, *lines[end:]]) + "\n"


def _targets(statement: ast.stmt) -> set[str]:
    assert isinstance(statement, ast.Assign)
    return {node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)}


def _reads(statement: ast.stmt) -> set[str]:
    assert isinstance(statement, ast.Assign)
    return {node.id for node in ast.walk(statement.value) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_shuffling_statements_leaves_the_cost(path: Path) -> None:
    recipe = load_recipe(path)
    expected = cost(segment(run_passes(recipe.fusion), SM_90))
    for seed in range(3):
        text = shuffled_body(recipe.text, random.Random(seed))
        assert cost(segment(run_passes(parse_recipe(text, "shuffled.yaml").fusion), SM_90)) == pytest.approx(expected)


def shuffled(fusion: Fusion, chance: random.Random) -> Fusion:
    """``fusion`` with its exprs in another topological order, and fids to match."""
    waiting = list(range(len(fusion.exprs)))
    chance.shuffle(waiting)
    order: list[int] = []
    while waiting:
        ready = next(
            index
            for index in waiting
            if all(fusion.definition(fid) in (None, *order) for fid in fusion.exprs[index].inputs)
        )
        waiting.remove(ready)
        order.append(ready)
    return verify(reordered(fusion, tuple(order)))


@given(fusions(aliases=False), st.integers(0, 2**16))
@settings(max_examples=60, deadline=None)
def test_shuffling_exprs_leaves_the_cost(fusion: Fusion, seed: int) -> None:
    primitive = run_passes(fusion)
    other = shuffled(primitive, random.Random(seed))
    assert cost(segment(other, SM_90)) == pytest.approx(cost(segment(primitive, SM_90)))


@given(fusions())
@settings(max_examples=60, deadline=None)
def test_the_canonical_order_is_a_topological_one_of_all_live_exprs(fusion: Fusion) -> None:
    primitive = run_passes(fusion)
    order = canonical_order(primitive)
    assert sorted(order) == list(range(len(primitive.exprs)))
    verify(reordered(primitive, order))
