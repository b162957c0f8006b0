"""Errors planted into kernels are found as before: what rounding alone does excuses none of them.

``FUSEBUILD_PLANTS=120 pytest tests/oracle/test_planting.py`` plants into as many random Fusions; a plain run takes 12.
Those that change less than the bounds of the dtypes were never found, and are not counted. Nor are those of a Fusion
whose right results the bounds of the dtypes alone refuse: that they refuse a wrong one, too, shows nothing.
"""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from fusebuild.ir.fusion import Fusion
from fusebuild.kernels.common.wrapping import wrapped
from fusebuild.oracle.bounds import bound_for, compare
from fusebuild.oracle.reference import random_inputs
from fusebuild.oracle.verification import Trial, trial_on, verify_artifact
from fusebuild.passes import run_passes
from support.host_artifacts import compile_for_host
from support.random_fusions import random_fusion
from support.small_recipes import recipe_of, text_of

pytest.importorskip("torch")

from support.planting import evaluate_planted, planted, plants

FUSIONS = int(os.environ.get("FUSEBUILD_PLANTS", "12"))
EACH = 8
"""Errors planted into each Fusion."""
COLUMNS = (16, 33, 64, 200, 1001)


def random_trial(seed: int) -> Trial:
    """A Fusion that looks like a real one, at sizes small enough to evaluate it often."""
    fusion, chance = random_fusion(seed, indexed=seed % 2 == 1), random.Random(seed)
    case = {"B": chance.choice((2, 3)), "M": chance.choice((16, 33, 40)), "N": chance.choice(COLUMNS)}
    positions = {
        fid: (0, "M" if fusion.value(fid).tensor.rank == 1 else "N")
        for fid in fusion.inputs
        if fusion.value(fid).is_tensor and fusion.value(fid).dtype.is_integer
    }
    return trial_on(fusion, case, random_inputs(fusion, case, seed=seed, ranges=positions))


def by_the_bound_alone(fusion: Fusion, results: Any, trial: Trial) -> bool:
    return all(
        compare(got, want, fusion.value(output.fid).dtype, bound=bound_for(fusion, output.fid)).ok
        for got, want, output in zip(results, trial.wanted, fusion.outputs, strict=True)
    )


def is_right(results: Any, trial: Trial) -> bool:
    return all(comparison.ok for comparison in trial.compared(results))


def test_planted_errors_are_found_and_right_results_pass() -> None:
    before, lost = 0, list[tuple[int, str, str]]()
    for seed in range(FUSIONS):
        trial = random_trial(seed)
        primitive = run_passes(trial.fusion)
        right = evaluate_planted(primitive, trial.inputs, None)
        assert is_right(right, trial), seed
        if not by_the_bound_alone(trial.fusion, right, trial):
            continue
        for plant in planted(primitive, seed, EACH):
            results = evaluate_planted(primitive, trial.inputs, plant)
            if not by_the_bound_alone(trial.fusion, results, trial):
                before += 1
                if is_right(results, trial):
                    lost.append((seed, plant.kind, primitive.exprs[plant.index].op))
    assert before >= 3 * FUSIONS
    assert not lost


def test_a_rounding_to_a_narrow_dtype_excuses_no_constant_that_was_forgotten() -> None:
    body = "n = cast(cast(silu(x), bfloat16), float)\nc = n - mean(n, dims=[1], keepdim=True)\n"
    text = text_of({"x": "float[M, N]"}, f"{body}y = rsqrt(mean(c * c, dims=[1]) + 1.0e-5)", {"y": "float"})
    fusion, case = recipe_of(text).fusion, {"M": 40, "N": 33}
    trial = trial_on(fusion, case, random_inputs(fusion, case, seed=72))
    primitive = run_passes(fusion)
    assert is_right(evaluate_planted(primitive, trial.inputs, None), trial)
    (forgotten,) = (plant for plant in plants(primitive) if plant.kind == "a constant forgotten")
    assert not is_right(evaluate_planted(primitive, trial.inputs, forgotten), trial)


SUMS = text_of(
    {"x": "float[M, N]"}, "y = rsqrt(sum(x * x, dims=[1]) + 10.0)\ntotal = sum(x, dims=[1])",
    {"y": "float", "total": "float"}, name="sums", cases="M: 5, N: 776",
)  # fmt: skip

EDITS = {
    "an accumulator in bfloat16": (
        r"(w\d+)\.add\(.*\);", r"\g<0> \1 = {fb::cast<float>(fb::cast<__nv_bfloat16>(\1.sum)), 0.0f};"),
    "the last vector of each row lost": (r"if \(col >= columns\) break;", "if (col + kVec >= columns) break;"),
    "another op": (r"= (t\d+) \* (t\d+);", r"= \1 + \2;"),
    "an epsilon forgotten": (r" \+ 10\.0f", ""),
}  # fmt: skip
"""What a mistake in a template makes of a kernel's text: a pattern and what stands there instead."""


@pytest.mark.parametrize("name", EDITS)
def test_mistakes_in_kernels_are_found(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    edited = list[int]()

    def spoilt(text: str) -> str:
        text, count = re.subn(*EDITS[name], wrapped(text))
        edited.append(count)
        return text

    monkeypatch.setattr("fusebuild.kernels.render.wrapped", spoilt)
    compile_for_host(tmp_path, {"sums": SUMS})
    assert sum(edited)
    verdicts = list(verify_artifact(tmp_path / "sums.fuse", target="host"))
    assert verdicts
    assert not all(verdict.ok for verdict in verdicts)  # a variant may have no such statement


def test_the_kernels_that_are_spoilt_are_right(tmp_path: Path) -> None:
    compile_for_host(tmp_path, {"sums": SUMS})
    assert all(verdict.ok for verdict in verify_artifact(tmp_path / "sums.fuse", target="host"))
