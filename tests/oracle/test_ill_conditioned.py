"""Right kernels whose results are farther from fp64 than the bounds of their dtypes: ``verify`` takes them for right.

In each the inputs are such that some roundings weigh much. The bound alone refuses every one of these results.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from fusebuild.ir.fusion import Fusion
from fusebuild.oracle.bounds import bound_for, compare
from fusebuild.oracle.reference import Evaluation, Step, held_in_fp64
from fusebuild.oracle.verification import Trial, recipe_inputs, run_trial, trial_on
from fusebuild.runtime.loader import load
from support.host_artifacts import compile_for_host
from support.small_recipes import recipe_of, text_of

torch = pytest.importorskip("torch")

ADAMW = text_of(
    {"p": "float[N]", "g": "bfloat16[N]", "m": "float[N]", "v": "float[N]"},
    "gf = cast(g, float)\nm1 = m * 0.9 + gf * 0.1\nv1 = v * 0.999 + gf * gf * 0.001\n"
    "p1 = p * 0.99999 - m1 / (sqrt(v1) + eps) * lr",
    {"p1": "float", "m1": "float", "v1": "float"},
    name="adamw", scalars={"lr": "{dtype: double, value: 1.0e-3}", "eps": "{dtype: double, value: 1.0e-8}"},
    cases="N: 1000",
)  # fmt: skip
QUANTIZED_NORM = text_of(
    {"x": "bfloat16[M, N]", "w": "bfloat16[N]"},
    "f = cast(x, float)\nrstd = rsqrt(mean(f * f, dims=[1], keepdim=True) + 1.0e-6)\ny = f * rstd * w\n"
    "scale = 127.0 / max(abs(y), dims=[1], keepdim=True)\nq = cast(round(y * scale), int32)",
    {"q": "int32"}, name="quantized_norm", cases="M: 300, N: 1001",
)  # fmt: skip
ATTENTION = text_of(
    {"q": "bfloat16[S, D]", "k": "bfloat16[D, S]", "v": "bfloat16[S, D]"},
    "f = cast(matmul(q, k), float)\ne = exp(f - max(f, dims=[1], keepdim=True))\n"
    "p = cast(e / sum(e, dims=[1], keepdim=True), bfloat16)\no = matmul(p, v)",
    {"o": "bfloat16"}, name="attention", cases="S: 48, D: 512",
)  # fmt: skip
TEXTS = {"adamw": ADAMW, "quantized_norm": QUANTIZED_NORM, "attention": ATTENTION}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(tmp_path_factory.mktemp("ill_conditioned"), TEXTS)


def trial_of(name: str) -> Trial:
    recipe = recipe_of(TEXTS[name])
    case = recipe.fusion.cases[0]
    return trial_on(recipe.fusion, case, _with_trouble(name, recipe_inputs(recipe, case, seed=0, device="cpu")))


def _with_trouble(name: str, inputs: list[Any]) -> list[Any]:
    """``inputs``, for AdamW such that each new second moment is what is left of two numbers that cancel."""
    if name != "adamw":
        return inputs
    p, g, m, _, *scalars = inputs
    square = g.double().square() * 0.001
    return [p, g, m, ((1e-5 * square - square) / 0.999).float(), *scalars]


def by_the_bound_alone(fusion: Fusion, results: Any, trial: Trial) -> bool:
    return all(
        compare(got, want, fusion.value(output.fid).dtype, bound=bound_for(fusion, output.fid)).ok
        for got, want, output in zip(results, trial.wanted, fusion.outputs, strict=True)
    )


@pytest.mark.parametrize("name", ["adamw", "quantized_norm"])
def test_a_right_kernel_passes(name: str, artifacts: Path) -> None:
    trial = trial_of(name)
    outcome = run_trial(load(artifacts / f"{name}.fuse", target="host"), trial)
    assert not by_the_bound_alone(trial.fusion, outcome.results, trial)
    assert outcome.verdict.ok


def test_attention_passes_on_this_machine(artifacts: Path) -> None:
    assert run_trial(load(artifacts / "attention.fuse", target="host"), trial_of("attention")).verdict.ok


class _OtherSide(Evaluation):
    """The first product is rounded as ever but for one element, the largest of its row, which falls to the other side:
    of all such elements it is nearest to a tie, where it is the library's order of adding that decides."""

    def run(self, step: Step) -> tuple[Any, ...]:
        (product,) = super().run(step)
        if step.expr is not next(expr for expr in self.fusion.exprs if expr.op == "matmul"):
            return (product,)
        row_maxima = product == product.amax(1, keepdim=True)
        rounded = product.bfloat16()
        other = torch.nextafter(rounded, torch.where(product > rounded, math.inf, -math.inf).bfloat16()).double()
        tie_distance = torch.where(row_maxima, (other - product).abs() / (other - rounded).abs(), math.inf)
        at = int(tie_distance.argmin())
        product.view(-1)[at] = other.view(-1)[at]
        return (product,)


def test_attention_passes_whichever_way_a_product_is_rounded() -> None:
    """Which of them fall to the other side depends on the library: on a GPU another one than here."""
    trial = trial_of("attention")
    (made,) = _OtherSide(trial.fusion, trial.inputs, held_in_fp64, {}).outputs(frozenset())
    assert not by_the_bound_alone(trial.fusion, [made], trial)
    assert all(comparison.ok for comparison in trial.compared([made]))


@pytest.mark.parametrize("name", TEXTS)
def test_a_wrong_kernel_fails_all_the_same(name: str, artifacts: Path) -> None:
    trial = trial_of(name)
    results = list(run_trial(load(artifacts / f"{name}.fuse", target="host"), trial).results)
    results[0] = results[0].roll(1, 0)
    assert not all(comparison.ok for comparison in trial.compared(results))
