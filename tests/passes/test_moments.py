"""Mean and variance in one read: which reductions become a ``welford``, where it is cut, and what a recorder gives."""

from __future__ import annotations

import pytest

from fusebuild import FusionDefinition
from fusebuild.artifact.plan import as_formula
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.text import print_expr
from fusebuild.kernels.families import FAMILIES
from fusebuild.oracle.reference import evaluate_fp64, random_inputs
from fusebuild.passes import run_passes
from fusebuild.passes.decompose import decompose
from fusebuild.planning.assembly import plan_target
from fusebuild.recipe.recipe import load_recipe
from fusebuild.segmentation import segment
from fusebuild.target.table import TARGETS
from support.covers import total_hbm_bytes
from support.places import ROOT
from support.small_recipes import primitive, recipe_of, text_of, whole

SM_90 = TARGETS["sm_90"]
SIZES = {"A": 2, "B": 3, "C": 4, "D": 5}


def variance(shape: str, dims: list[int], *, op: str = "var") -> Fusion:
    """The variance of ``x`` over ``dims``, in primitives."""
    results = {"var": "y", "var_mean": "y, m", "welford": "m, y, _"}[op]
    outputs = dict.fromkeys(results.removesuffix(", _").split(", "), "float")
    return primitive(text_of({"x": f"float[{shape}]"}, f"{results} = {op}(x, dims={dims})", outputs))


def reductions(fusion: Fusion) -> list[str]:
    return [expr.op for expr in fusion.exprs if expr.op in ("sum", "welford")]


ONE_READ = [
    ("A, B", [0]),
    ("A, B", [0, 1]),
    ("A, B, C", [1]),
    ("A, B, C", [0, 1]),
    ("A, B, C", [0, 2]),
    ("A, B, C, D", [1, 3]),
    ("A, B, C, D", [0, 1, 3]),
    ("A, 1, C, D", [0, 2]),
    ("A, B, 1", [0]),
    ("A, 1", [0]),
    ("1024, 1024", [0, 1]),
]
TWO_READS = [
    ("A, B", [1]),
    ("A, B, C", [1, 2]),
    ("A, 1, C", [1, 2]),
    ("A, B, 1", [1]),
    ("256, 256", [0, 1]),
    ("B", []),
]
"""Rows that stay on chip, tensors that one block walks, and nothing to reduce."""
NO_KERNEL = [("A, B, C, D", [0, 2]), ("A, B, C, D, E", [0, 2, 3])]
"""What no kernel walks at once: something is kept inside of two runs of reduced dims."""


@pytest.mark.parametrize("op", ["var", "var_mean", "welford"])
@pytest.mark.parametrize(("shape", "dims"), ONE_READ)
def test_outer_and_full_variances_are_one_reduction(shape: str, dims: list[int], op: str) -> None:
    fusion = variance(shape, dims, op=op)
    assert reductions(fusion) == ["welford"]
    accepting = [scheduler.name for scheduler in FAMILIES if scheduler.accepts(fusion.whole(), SM_90) is None]
    assert accepting[0] == "reduction"
    assert {*accepting} <= {"reduction", "storing_reduction"}


@pytest.mark.parametrize("op", ["var", "var_mean", "welford"])
@pytest.mark.parametrize(("shape", "dims"), [*TWO_READS, *NO_KERNEL])
def test_other_variances_subtract_the_mean_first(shape: str, dims: list[int], op: str) -> None:
    assert "welford" not in reductions(variance(shape, dims, op=op))


@pytest.mark.parametrize(("shape", "dims"), [*ONE_READ[:9], *TWO_READS[:4], NO_KERNEL[0]])
@pytest.mark.parametrize("keepdim", [False, True])
def test_what_is_computed_stays_the_same(shape: str, dims: list[int], keepdim: bool) -> None:
    torch = pytest.importorskip("torch")
    body = f"v, m = var_mean(x, dims={dims}, keepdim={keepdim})\na, s, n = welford(x, dims={dims}, keepdim={keepdim})"
    outputs = {"v": "float", "m": "float", "a": "float", "s": "float", "n": "int64"}
    fusion = recipe_of(text_of({"x": f"float[{shape}]"}, body, outputs)).fusion
    inputs = random_inputs(fusion, SIZES, seed=6)
    wanted = evaluate_fp64(fusion, inputs)
    for got, want in zip(evaluate_fp64(run_passes(fusion), inputs), wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-12, atol=1e-12)
    v, m = torch.var_mean(inputs[0].double(), dims, keepdim=keepdim)  # type: ignore[union-attr]
    torch.testing.assert_close(wanted[0], v)
    torch.testing.assert_close(wanted[1], m)


def test_the_steps_have_names_and_places() -> None:
    body = "v, m = var_mean(x, dims=[0], keepdim=True)"
    fusion = decompose(recipe_of(text_of({"x": "bfloat16[A, B]"}, body, {"v": "float", "m": "float"})).fusion)
    assert [print_expr(fusion, expr) for expr in fusion.exprs] == [
        "%3 v_count: int64 = size(extent=A)",
        "%4 m_reduced: float[B], %5 v_m2: float[B], %6 v_n: int64[B] = welford(%0, dims=[0], keepdim=false)",
        "%2 m: float[1, B] = broadcast(%4, is_broadcast_dim=[true, false])",
        "%9 v_freedom: int64 = sub(%3, %7)",
        "%10 v_divisor: int64 = maximum(%9, %8)",
        "%11 v_reduced: float[B] = div(%5, %10)",
        "%1 v: float[1, B] = broadcast(%11, is_broadcast_dim=[true, false])",
    ]
    assert decompose(fusion) == fusion


def test_variances_with_other_corrections_share_one_reduction() -> None:
    body = "v, m = var_mean(x, dims=[0], correction=0)\nu = var(x, dims=[0])"
    task = whole({"x": "float[A, B]"}, body, {"v": "float", "m": "float", "u": "float"})
    assert reductions(task.fusion) == ["welford"]


@pytest.mark.parametrize("name", ["batchnorm_train", "batchnorm_train_nchw"])
def test_batch_norm_is_one_segment(name: str) -> None:
    fusion = load_recipe(ROOT / "recipes" / f"{name}.yaml").fusion
    segmented = segment(run_passes(fusion), SM_90)
    assert [each.scheduler for each in segmented.segments] == ["outer_persistent"]
    assert {output.name for output in segmented.segments[0].fusion.outputs} == {
        "y", "mean", "rstd", "new_mean", "new_var"
    }  # fmt: skip
    x = fusion.value(fusion.inputs[0]).tensor.nbytes
    moved = [evaluate(formula, fusion.cases[0]) for formula in (total_hbm_bytes(segmented), x)]
    assert moved[0] == pytest.approx(2 * moved[1], rel=1e-3)  # a pair of kernels reads x again


def test_counts_come_from_the_shape() -> None:
    fusion = decompose(
        recipe_of(
            text_of({"x": "float[A, B]"}, "_, m2, n = welford(x, dims=[0])", {"m2": "float", "n": "int64"})
        ).fusion
    )
    assert [expr.op for expr in fusion.exprs] == ["welford", "size", "full"]
    assert decompose(fusion) == fusion


def test_partial_means_are_doubles() -> None:
    text = text_of({"x": "float[M]"}, "v, m = var_mean(x)", {"v": "float", "m": "float"}, cases="M: 4194304")
    plan = plan_target(segment(primitive(text), SM_90), SM_90, "test.yaml").target
    sizes = {"M": 4194304, MULTIPROCESSORS: SM_90.multiprocessors}
    mean, m2, count = (evaluate(as_formula(slot.bytes), sizes) for slot in plan.workspace)
    assert mean > 0
    assert (m2, count) == (mean // 2, mean // 2)


def test_a_recorder_gives_the_triple_that_nvfuser_gives() -> None:
    torch = pytest.importorskip("torch")
    fd = FusionDefinition()
    x = fd.define_tensor(shape=[-1, -1], contiguity=True)
    mean, deviations, count = fd.ops.welford(x, [0])
    fd.add_output(fd.ops.div(deviations, count))
    fd.add_output(mean)
    (given,) = random_inputs(fd.fusion, {"i0": 7, "i1": 3}, seed=2)
    variance, mean = evaluate_fp64(fd.fusion, [given])
    wanted = torch.var_mean(given.double(), 0, correction=0)  # type: ignore[union-attr]
    torch.testing.assert_close((variance, mean), wanted)
