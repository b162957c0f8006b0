"""What ``verify`` finds wrong with an artifact that runs: here on the CPU, with plans that lie in one of their runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from host_artifacts import compile_for_host
from small_recipes import recipe_of, text_of

from fusebuild.recipe import Recipe
from fusebuild.runtime.loader import LoadedPlan, load
from fusebuild.verification import Limits, Trial, recipe_trial, repeat_trial, verify_artifact

torch = pytest.importorskip("torch")

TWO = text_of({"x": "float[M, N]"}, "y = x * 2.0\ntop = max(x, dims=[1])", {"y": "float", "top": "float"},
              name="two", cases="M: 3, N: 40")  # fmt: skip
IN_PLACE = text_of({"x": "float[N]"}, "y = x + 1.0", {"y": "{dtype: float, alias: x}"}, name="in_place",
                   cases="N: 40")  # fmt: skip
TEXTS = {"two": TWO, "in_place": IN_PLACE}

Lie = Callable[[Any, Any], None]
"""What changes the inputs or the results of a run."""


class LyingPlan:
    """``plan``, but ``lie`` changes something after run number ``at``. ``runs`` counts them."""

    def __init__(self, plan: LoadedPlan, lie: Lie, at: int) -> None:
        self._plan, self._lie, self._at, self.runs = plan, lie, at, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._plan, name)

    def __call__(self, *inputs: Any, **more: Any) -> Any:
        self.runs += 1
        results = self._plan(*inputs, **more)
        if self.runs == self._at:
            self._lie(inputs, results)
        return results


def trial_of(recipe: Recipe) -> Trial:
    return recipe_trial(recipe, recipe.fusion.cases[0], "cpu", 0)


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(tmp_path_factory.mktemp("verification"), TEXTS)


def problem_after(artifacts: Path, lie: Lie, *, at: int) -> tuple[str, int]:
    """What is wrong with a hundred runs of which the one ``at`` lies, and how many were made."""
    plan = LyingPlan(load(artifacts / "two.fuse", target="host"), lie, at)
    verdict = repeat_trial(plan, trial_of(recipe_of(TWO)), 100)  # type: ignore[arg-type]
    assert not verdict.ok
    return verdict.problem, plan.runs


@pytest.mark.parametrize("name", TEXTS)
def test_every_run_has_the_bits_of_the_first(name: str, artifacts: Path) -> None:
    verdicts = list(verify_artifact(artifacts / f"{name}.fuse", target="host", limits=Limits(), runs=5))
    assert len(verdicts) > 2
    assert [verdict for verdict in verdicts if not verdict.ok] == []


def test_a_run_with_another_bit_is_named(artifacts: Path) -> None:
    def flip(inputs: Any, results: Any) -> None:
        results[1].view(torch.int32)[2] ^= 1

    assert problem_after(artifacts, flip, at=4) == ("top has other bits in run 4 than in the first", 4)


def test_a_zero_of_another_sign_has_other_bits(artifacts: Path) -> None:
    plan = load(artifacts / "two.fuse", target="host")
    trial = trial_of(recipe_of(TWO))
    trial.inputs[0][0, 0] = trial.wanted[0][0, 0] = 0.0

    def negate(inputs: Any, results: Any) -> None:
        results[0][0, 0] = -0.0

    verdict = repeat_trial(LyingPlan(plan, negate, 2), trial, 2)  # type: ignore[arg-type]
    assert verdict.problem == "y has other bits in run 2 than in the first"


def test_what_is_wrong_at_once_is_not_run_again(artifacts: Path) -> None:
    def spoil(inputs: Any, results: Any) -> None:
        results[0][1, 1] += 1.0

    assert problem_after(artifacts, spoil, at=1) == ("", 1)


def test_an_input_that_changes_is_a_problem(artifacts: Path) -> None:
    def overwrite(inputs: Any, results: Any) -> None:
        inputs[0][0, 0] = 7.0

    assert problem_after(artifacts, overwrite, at=1) == ("input x was overwritten", 1)


def test_nan_in_an_input_equals_itself(artifacts: Path) -> None:
    trial = trial_of(recipe_of(TWO))
    trial.inputs[0][1, 1] = trial.wanted[0][1, 1] = trial.wanted[1][1] = float("nan")
    verdict = repeat_trial(load(artifacts / "two.fuse", target="host"), trial, 3)
    assert (verdict.ok, verdict.problem) == (True, "")


def test_one_element_may_have_any_strides(artifacts: Path) -> None:
    recipe = recipe_of(TWO)
    trial = recipe_trial(recipe, {"M": 1, "N": 1}, "cpu", 0)
    strided = replace(trial, inputs=[torch.full((9,), 2.0).as_strided((1, 1), (7, 3))])
    for result in strided.wanted:
        result.copy_(4.0 if result.dim() == 2 else 2.0)
    assert repeat_trial(load(artifacts / "two.fuse", target="host"), strided, 2).ok
