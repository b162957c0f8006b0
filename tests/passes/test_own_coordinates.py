"""A coordinate that is read in two places is two values; nothing else is copied, and nothing computes otherwise."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.text import print_fusion
from fusebuild.ir.values import Value
from fusebuild.ir.verify import verify
from fusebuild.ops.builder import FusionBuilder
from fusebuild.oracle.reference import evaluate, random_inputs
from fusebuild.passes import run_passes
from fusebuild.passes.dead_code import dead_code
from fusebuild.passes.decompose import decompose
from fusebuild.passes.own_coordinates import own_coordinates
from fusebuild.pipeline import plan_recipe
from fusebuild.target.table import TARGETS
from support.small_recipes import recipe_of, text_of

torch = pytest.importorskip("torch")

INPUTS = {"x": "float[S, S]", "b": "bfloat16[B, S, S]"}
CAUSAL = "i = iota(S)\nm = broadcast(i, [True, False]) <= broadcast(i, [False, True])\n"


def fusion_of(body: str, *outputs: str, inputs: Mapping[str, str] = INPUTS) -> Fusion:
    used = {name: type_ for name, type_ in inputs.items() if name in re.findall(r"\w+", body)}
    return decompose(recipe_of(text_of(used, body, dict.fromkeys(outputs or ("y",), ""))).fusion)


def owned(fusion: Fusion) -> Fusion:
    """``fusion`` after the pass, which changes no result and has nothing left to do, without dead code."""
    after = dead_code(verify(own_coordinates(fusion)))
    assert print_fusion(own_coordinates(after)) == print_fusion(after)
    inputs = random_inputs(fusion, {"S": 5, "B": 2}, seed=3)
    for got, want in zip(evaluate(after, inputs), evaluate(fusion, inputs), strict=True):
        assert torch.equal(got, want)
    return after


def count(fusion: Fusion, op: str) -> int:
    return [expr.op for expr in fusion.exprs].count(op)


class TestCopies:
    def test_for_a_row_and_a_column(self) -> None:
        assert count(owned(fusion_of(CAUSAL + "y = where(m, x, 0.0)")), "iota") == 2

    def test_all_that_a_place_is_computed_from(self) -> None:
        body = "i = cos(cast(iota(S), float) * 0.5)\ny = x * broadcast(i, [True, False]) + broadcast(i, [False, True])"
        after = owned(fusion_of(body))
        assert [count(after, op) for op in ("iota", "cast", "mul", "cos")] == [2, 2, 3, 2]

    def test_beside_what_reads_it_as_it_is(self) -> None:
        body = CAUSAL + "y = where(m, x, 0.0)\nz = i + 1"
        after = owned(fusion_of(body, "y", "z"))
        assert count(after, "iota") == 2

    def test_once_for_views_that_agree(self) -> None:
        body = "i = iota(S)\ny = x * broadcast(i, [False, True])\nz = x + broadcast(i + 1, [False, True])"
        assert count(owned(fusion_of(body, "y", "z")), "iota") == 2


class TestStays:
    @pytest.mark.parametrize(
        "body",
        [
            "y = x * broadcast(iota(S), [True, False])",
            "i = iota(S)\ny = x * i + i",
            "i = iota(S)\ny = x * i\nz = x + (i + 1)",
            "r = max(x, dims=[1])\ny = broadcast(r, [True, False]) + broadcast(r, [False, True])",
        ],
    )
    def test_what_is_in_one_place_or_in_memory(self, body: str) -> None:
        fusion = fusion_of(body, "y", *(["z"] if "z =" in body else []))
        assert print_fusion(own_coordinates(fusion)) == print_fusion(fusion)


@pytest.mark.parametrize(
    "body",
    [
        CAUSAL + "y = where(m, x, -inf)",
        CAUSAL + "e = exp(where(m, cast(b, float), -inf))\ny = e / sum(e, dims=[2], keepdim=True)",
        "y = triu(x) + tril(exp(x), -1)",
        "i = cast(iota(S), float)\nd = abs(broadcast(i, [True, False]) - broadcast(i, [False, True]))\n"
        "y = max(x - d * 0.5, dims=[1])",
    ],
)
def test_square_masks_take_one_kernel(body: str) -> None:
    used = {name: type_ for name, type_ in INPUTS.items() if name in re.findall(r"\w+", body)}
    recipe = recipe_of(text_of(used, body, {"y": ""}))
    assert len(plan_recipe(recipe, [TARGETS["sm_90"]]).plan.targets[0].segments) == 1


@st.composite
def programs(draw: st.DrawFn) -> Fusion:
    """Coordinates, what is computed of them, and views of them, in any order."""
    builder = FusionBuilder("program")
    live = [builder.tensor(DType.FLOAT, ("S", "S"), name="x")]
    counts: list[Value] = []
    for _ in range(draw(st.integers(2, 10))):
        kind = draw(st.sampled_from(("iota", "view", "view", "unary", "binary")))
        if kind == "iota" or not counts:
            named = {"length": "S", "dtype": DType.INT64}
            counts += builder.call("iota", [builder.constant(draw(st.integers(0, 2))), builder.constant(1)], named)
        elif kind == "view":
            one = draw(st.sampled_from([each for each in counts if each.tensor.rank == 1]))
            mask = draw(st.sampled_from(((True, False), (False, True))))
            counts += builder.call("broadcast", [one], {"is_broadcast_dim": mask})
        elif kind == "unary":
            counts += builder.call("neg", [draw(st.sampled_from(counts))])
        else:
            counts += builder.call("add", [draw(st.sampled_from(counts)), draw(st.sampled_from(counts))])
    wide = [each for each in counts if each.tensor.rank == 2] or counts
    live += [builder.call("mul", [live[0], draw(st.sampled_from(wide))])[0] for _ in range(2)]
    for place, value in enumerate((*live[1:], draw(st.sampled_from(counts)))):
        builder.output(value, name=f"y{place}")
    return builder.finish()


@given(programs())
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
def test_random_programs_compute_the_same(fusion: Fusion) -> None:
    owned(decompose(fusion))
    inputs = random_inputs(fusion, {"S": 4}, seed=1)
    for got, want in zip(evaluate(run_passes(fusion), inputs), evaluate(fusion, inputs), strict=True):
        assert torch.equal(got, want)
