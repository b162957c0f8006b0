"""Folds of whole tensors are made of the results of those over fewer dims: nothing that is computed changes, and the
tensor is read once."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusebuild.ir.fusion import Fusion
from fusebuild.ir.text import print_fusion
from fusebuild.ir.verify import verify
from fusebuild.passes.common_subexpressions import common_subexpressions
from fusebuild.passes.decompose import decompose
from fusebuild.passes.shared_folds import shared_folds
from fusebuild.pipeline import plan_recipe
from fusebuild.target.table import TARGETS
from support.same_results import assert_equal
from support.small_recipes import recipe_of, text_of

pytest.importorskip("torch")

INPUTS = {"x": "float[A, B, C]"}


def fusion_of(body: str, outputs: Mapping[str, str], inputs: Mapping[str, str] = INPUTS) -> Fusion:
    return common_subexpressions(decompose(recipe_of(text_of(inputs, body, outputs)).fusion))


def shared(before: Fusion) -> Fusion:
    """``before`` after the pass, which changes no result and has nothing left to do."""
    after = verify(shared_folds(before))
    assert print_fusion(shared_folds(after)) == print_fusion(after)
    for sizes in ({"A": 3, "B": 4, "C": 5}, {"A": 1, "B": 1, "C": 1}):
        assert_equal(after, before, sizes)
    return after


def readers(fusion: Fusion) -> int:
    """How many reductions read an input, or what is computed of one elementwise."""
    reduced: set[int] = set()
    count = 0
    for expr in fusion.exprs:
        is_reduction = "dims" in dict(expr.attributes) and expr.op in ("sum", "prod", "max", "min")
        count += is_reduction and reduced.isdisjoint(expr.inputs)
        if is_reduction or not reduced.isdisjoint(expr.inputs):
            reduced.update(expr.outputs)
    return count


@pytest.mark.parametrize(("body", "outputs", "count"), [
    ("a = max(x, dims=[2])\nb = max(x)", "a b", 1),
    ("b = max(x)\na = max(x, dims=[2])", "a b", 1),
    ("a = max(abs(x), dims=[2], keepdim=True)\nb = max(abs(x))", "a b", 1),
    ("a = sum(x, dims=[2])\nb = sum(x, dims=[1, 2])\nc = sum(x)", "a b c", 2),
    ("c = sum(x)\nb = sum(x, dims=[1, 2])\na = sum(x, dims=[2])", "a b c", 2),
    ("a = max(x, dims=[2])\nb = x / max(x)", "a b", 2),
    ("a = max(x, dims=[2])\nb = a / max(x)", "a b", 1),
    ("a = sum(x, dims=[0])\nb = sum(x)", "a b", 1),
    ("a = sum(x, dims=[0])\nb = sum(x, dims=[0, 1])", "a b", 2),
    ("a = mean(x, dims=[2])\nb = mean(x)", "a b", 1),
    ("a = max(x, dims=[2])\nb = min(x)", "a b", 2),
    ("a = max(x, dims=[0])\nb = max(x, dims=[1, 2])", "a b", 2),
    ("a = max(x, dims=[2])\nb = max(x)\nc = sum(x)", "a b c", 3),
    ("a = max(x, dims=[2])\nb = max(x)\nc = sum(x)\nd = sum(x, dims=[2])", "a b c d", 2),
])  # fmt: skip
def test_who_reads_the_tensor(body: str, outputs: str, count: int) -> None:
    assert readers(shared(fusion_of(body, dict.fromkeys(outputs.split(), "")))) == count


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_of_any_dims_in_any_order(data: st.DataObject) -> None:
    dims = [list(each) for count in (1, 2, 3) for each in combinations(range(3), count)]
    ops = st.sampled_from(["sum", "max", "min", "prod", "mean"])
    folds = data.draw(st.lists(st.tuples(ops, st.sampled_from(dims), st.booleans()), min_size=1, max_size=5))
    dtype = data.draw(st.sampled_from(["float", "half", "int32", "double", "bool"]))
    body = [f"r{place} = {op}(x, dims={own}, keepdim={keeps})" for place, (op, own, keeps) in enumerate(folds)]
    outputs = {f"r{place}": "" for place in range(len(folds))}
    shared(fusion_of("\n".join(body), outputs, {"x": f"{dtype}[A, B, C]"}))


def test_the_tensor_is_read_by_one_segment() -> None:
    body = "y = x * 2.0\nrows = max(abs(x), dims=[2], keepdim=True)\nall = max(abs(x))"
    recipe = recipe_of(text_of(INPUTS, body, {"y": "bfloat16", "rows": "float", "all": "float"}))
    (target,) = plan_recipe(recipe, [TARGETS["sm_90"]]).plan.targets
    tensor, *_ = recipe.fusion.inputs
    assert [tensor in segment.inputs for segment in target.segments] == [True, False]
