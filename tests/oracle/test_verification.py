"""What ``verify`` finds wrong with an artifact that runs: here on the CPU, with plans that lie in one of their runs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from fusebuild.cli.demo import _runs
from fusebuild.cli.schema import schema_of
from fusebuild.errors import NothingVerifiedError, OutOfMemoryError, UsageError
from fusebuild.oracle.verification import (
    Trial,
    Verdict,
    VerifyOptions,
    recipe_trial,
    repeat_trial,
    run_trial,
    verify_artifact,
    verify_or_skip,
)
from fusebuild.recipe.drawn import drawn_cases
from fusebuild.recipe.recipe import Recipe
from fusebuild.runtime.loader import LoadedPlan, load
from support.faults import Done, fusebuild
from support.host_artifacts import compile_for_host
from support.small_recipes import recipe_of, text_of

torch = pytest.importorskip("torch")

TWO = text_of({"x": "float[M, N]"}, "y = x * 2.0\ntop = max(x, dims=[1])", {"y": "float", "top": "float"},
              name="two", cases="M: 3, N: 40")  # fmt: skip
IN_PLACE = text_of({"x": "float[N]"}, "y = x + 1.0", {"y": "{dtype: float, alias: x}"}, name="in_place",
                   cases="N: 40")  # fmt: skip
PLACES = text_of({"x": "float[M, N]"}, "i = argmax(x, dim=1)", {"i": "int64"}, name="places", cases="M: 3, N: 40")
TEXTS = {"two": TWO, "in_place": IN_PLACE, "places": PLACES}

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
    verdicts = list(verify_artifact(artifacts / f"{name}.fuse", target="host", options=VerifyOptions(runs=5)))
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

    problem, runs = problem_after(artifacts, spoil, at=1)
    assert problem.startswith("y[1, 1]: got ")
    assert runs == 1


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


NO_CASES = TWO.replace("fusion: two", "fusion: no_cases").partition("cases:")[0]
KNOWN_SIZES = text_of({"x": "float[3, 5]"}, "y = x * 2.0", {"y": "float"}, name="known_sizes")
HUGE = text_of({"x": "float[N, N]"}, "y = x * 2.0", {"y": "float"}, name="huge", cases=f"N: {2**29}")
SOME_LARGE = TWO.replace("fusion: two", "fusion: some_large") + "  - {M: 3, N: 4000}\n"


@pytest.fixture(scope="module")
def odd_artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {"no_cases": NO_CASES, "known_sizes": KNOWN_SIZES, "huge": HUGE, "some_large": SOME_LARGE}
    return compile_for_host(tmp_path_factory.mktemp("odd"), texts)


def test_a_recipe_without_cases_is_not_verified(odd_artifacts: Path) -> None:
    with pytest.raises(NothingVerifiedError, match=r"no_cases\.fuse: nothing was verified: its recipe names no cases"):
        list(verify_artifact(odd_artifacts / "no_cases.fuse", target="host"))


def test_cases_that_are_all_too_large_verify_nothing(artifacts: Path, odd_artifacts: Path) -> None:
    words = r"nothing was verified: its only case has a tensor of more than 100 elements"
    with pytest.raises(NothingVerifiedError, match=words):
        list(verify_artifact(artifacts / "two.fuse", target="host", options=VerifyOptions(max_elements=100)))
    with pytest.raises(NothingVerifiedError, match="each of its 2 cases"):
        list(verify_artifact(odd_artifacts / "some_large.fuse", target="host", options=VerifyOptions(max_elements=100)))


def test_a_recipe_of_known_sizes_needs_no_cases(odd_artifacts: Path) -> None:
    verdicts = list(verify_artifact(odd_artifacts / "known_sizes.fuse", target="host"))
    assert verdicts
    assert all(verdict.ok and verdict.case == {} for verdict in verdicts)


def test_a_case_that_is_too_large_is_said_to_be_skipped(odd_artifacts: Path) -> None:
    found = list(
        verify_or_skip(odd_artifacts / "some_large.fuse", target="host", options=VerifyOptions(max_elements=1000))
    )
    skipped = [each for each in found if each.skipped_elements]
    assert skipped == [Verdict(fusion="some_large", target="host", case={"M": 3, "N": 4000}, skipped_elements=12000)]
    assert len(found) > 2


def test_memory_that_does_not_suffice_is_an_error_that_names_the_case(odd_artifacts: Path) -> None:
    with pytest.raises(OutOfMemoryError, match=rf"huge N={2**29}: out of memory on cpu: the largest tensor has "):
        list(verify_artifact(odd_artifacts / "huge.fuse", target="host"))


@pytest.mark.parametrize(
    "error", [MemoryError(), torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7 GiB."),
              RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes.")],
)  # fmt: skip
def test_memory_is_named_however_it_is_said(error: Exception, artifacts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("fusebuild.oracle.verification.evaluate_fp64", fail)
    with pytest.raises(OutOfMemoryError, match="two M=3 N=40: out of memory"):
        list(verify_artifact(artifacts / "two.fuse", target="host"))


def test_other_errors_stay_what_they_are(artifacts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("something else")

    monkeypatch.setattr("fusebuild.oracle.verification.evaluate_fp64", fail)
    with pytest.raises(RuntimeError, match="something else"):
        list(verify_artifact(artifacts / "two.fuse", target="host"))


@pytest.mark.parametrize("seed", [3, 2**40])
def test_drawn_sizes_are_those_that_bench_draws(seed: int) -> None:
    recipe = recipe_of(TWO)
    assert VerifyOptions(sweep=4, seed=seed).cases_of(recipe) == drawn_cases(recipe, 4, seed)


@pytest.mark.parametrize("seed", [3, 2**40])
def test_sizes_are_drawn_within_the_limit_of_elements(artifacts: Path, seed: int) -> None:
    options = VerifyOptions(sweep=4, seed=seed, max_elements=20_000)
    verdicts = list(verify_or_skip(artifacts / "two.fuse", target="host", options=options))
    drawn = drawn_cases(recipe_of(TWO), 4, seed, max_elements=20_000)
    assert len(drawn) == 4
    assert list(dict.fromkeys(tuple(verdict.case.values()) for verdict in verdicts)) == [
        tuple(case.values()) for case in drawn
    ]
    assert all(verdict.ok and not verdict.skipped_elements for verdict in verdicts)
    assert {verdict.variant for verdict in verdicts} > {None}, "variants are forced at drawn sizes, too"


def test_a_sweep_says_where_nothing_fits_or_fewer_cases_than_wanted(
    artifacts: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = VerifyOptions(sweep=4, max_elements=0)
    with pytest.raises(NothingVerifiedError, match="allows no sizes whose tensors all have at most 0 elements"):
        list(verify_artifact(artifacts / "two.fuse", target="host", options=options))
    few = VerifyOptions(sweep=9, max_elements=4).cases_of(recipe_of(TWO))  # there are 8, from 1 x 1 to 4 x 1
    assert 1 < len(few) < 9
    assert caplog.messages == [f"two: only {len(few)} cases of 9 to be drawn"]


def test_a_recipe_of_known_sizes_runs_them_in_a_sweep(odd_artifacts: Path) -> None:
    verdicts = list(verify_artifact(odd_artifacts / "known_sizes.fuse", target="host", options=VerifyOptions(sweep=4)))
    assert [verdict.case for verdict in verdicts if verdict.variant is None] == [{}, {}]


def test_given_sizes_replace_those_of_the_recipe(artifacts: Path, odd_artifacts: Path) -> None:
    options = VerifyOptions(cases=({"M": 2, "N": 7}, {"M": 1, "N": 1}))
    verdicts = list(verify_artifact(artifacts / "two.fuse", target="host", options=options))
    assert {tuple(verdict.case.values()) for verdict in verdicts} == {(2, 7), (1, 1)}
    assert all(verdict.ok for verdict in verdicts)
    with pytest.raises(UsageError, match="case M=2: two needs a size for N"):
        list(verify_artifact(artifacts / "two.fuse", target="host", options=VerifyOptions(cases=({"M": 2},))))


def test_a_case_that_the_plan_refuses_is_refused_as_a_call_is(artifacts: Path) -> None:
    message = "case M=4,N=0: places: argmax over dim 1 of 'x': there are no elements to choose from, N=0"
    with pytest.raises(UsageError, match=re.escape(message)):
        list(
            verify_artifact(artifacts / "places.fuse", target="host", options=VerifyOptions(cases=({"M": 4, "N": 0},)))
        )


def test_the_command_draws_sizes_or_takes_them(artifacts: Path) -> None:
    assert "two                            M=2 N=7" in verified(artifacts, "two.fuse", "--case", "M=2,N=7").out
    done = verified(artifacts, "two.fuse", "--sweep", "2", "--seed", "3", "--max-elements", "4000", "--json")
    assert json.loads(done.out)[0]["case"] == drawn_cases(recipe_of(TWO), 2, 3, max_elements=4000)[0]
    done = verified(artifacts, "two.fuse", "--sweep", "2", "--case", "M=2,N=7")
    assert (done.code, done.err) == (2, "error: --sweep draws the sizes, so --case has no place beside it\n")


def verified(folder: Path, *arguments: str) -> Done:
    with chdir(folder):
        return fusebuild("verify", *arguments, "--target", "host")


def test_the_command_counts_what_it_skips(odd_artifacts: Path) -> None:
    done = verified(odd_artifacts, "some_large.fuse", "--max-elements", "1000")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-2].endswith("M=3 N=4000                   skipped      a tensor has 12,000 elements")
    assert done.out.splitlines()[-1].endswith(" passed, 0 failed, 1 skipped")
    rows = json.loads(verified(odd_artifacts, "some_large.fuse", "--max-elements", "1000", "--json").out)
    assert [row["state"] for row in rows if row["case"]["N"] == 4000] == ["skipped"]
    assert {row["state"] for row in rows if row["case"]["N"] == 40} == {"passed"}
    jsonschema.validate(rows, schema_of("verify"))


def test_the_command_fails_when_it_verified_nothing_of_an_artifact(odd_artifacts: Path) -> None:
    done = verified(odd_artifacts, "no_cases.fuse", "known_sizes.fuse")
    assert done.code == 6
    words = "nothing was verified: its recipe names no cases; --sweep draws some, --case names one"
    assert done.err == f"error: no_cases.fuse: {words}\n"
    assert done.out.splitlines()[-1].endswith(" passed, 0 failed")
    done = verified(odd_artifacts, "some_large.fuse", "--max-elements", "10", "--json")
    assert (done.code, [row["state"] for row in json.loads(done.out)]) == (6, ["skipped", "skipped"])


def test_the_command_names_the_case_that_memory_does_not_suffice_for(odd_artifacts: Path) -> None:
    done = verified(odd_artifacts, "huge.fuse")
    assert done.code == 1
    assert done.err.startswith(f"error: huge.fuse: huge N={2**29}: out of memory on cpu")
    assert f"hint: --max-elements {2**58 - 1} skips this case" in done.err


def test_the_demo_shows_what_it_could_not_verify_as_a_failure(odd_artifacts: Path) -> None:
    assert _runs(odd_artifacts / "no_cases.fuse", 1000) == ()


def spoilt(artifacts: Path, lie: Lie) -> str:
    plan = LyingPlan(load(artifacts / "two.fuse", target="host"), lie, 1)
    return run_trial(plan, trial_of(recipe_of(TWO))).verdict.problem  # type: ignore[arg-type]


def test_a_wrong_element_is_shown_with_what_was_expected(artifacts: Path) -> None:
    trial = trial_of(recipe_of(TWO))

    def spoil(inputs: Any, results: Any) -> None:
        results[0][0, 1] += 0.001
        results[0][1, 17] = 7.5
        results[1][2] += 0.001

    assert spoilt(artifacts, spoil) == f"y[1, 17]: got 7.5, expected {float(trial.wanted[0][1, 17]):.9g}"


def test_an_undefined_element_is_shown_beside_what_is_overwritten(artifacts: Path) -> None:
    trial = trial_of(recipe_of(TWO))

    def spoil(inputs: Any, results: Any) -> None:
        results[1][2] = float("nan")
        inputs[0][0, 0] = 7.0

    wrong = f"top[2]: got nan, expected {float(trial.wanted[1][2]):.9g}"
    assert spoilt(artifacts, spoil) == f"input x was overwritten; {wrong}"


def test_the_command_shows_the_wrong_element(artifacts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(inputs: Any, results: Any) -> None:
        results[0][1, 17] = 7.5

    plan = LyingPlan(load(artifacts / "two.fuse", target="host"), spoil, 1)
    monkeypatch.setattr("fusebuild.oracle.verification.load", lambda *_, **__: plan)
    wanted = f"y[1, 17]: got 7.5, expected {float(trial_of(recipe_of(TWO)).wanted[0][1, 17]):.9g}"
    line, *_ = verified(artifacts, "two.fuse").out.splitlines()
    assert line.endswith(f"FAIL  {wanted}")
    plan.runs = 0
    row, *_ = json.loads(verified(artifacts, "two.fuse", "--json").out)
    assert row["problem"] == wanted


POLE = text_of({"x": "float[M]"}, "y = 1.0 / (x - x * 1e7 * 1e-7)", {"y": "float"}, name="pole", cases="M: 1")


def test_a_divisor_that_rounds_to_zero_is_right(tmp_path: Path) -> None:
    path = compile_for_host(tmp_path, {"pole": POLE + "  - {M: 64}\n"}) / "pole.fuse"
    verdicts = list(verify_artifact(path, target="host"))
    assert [verdict.problem for verdict in verdicts if not verdict.ok] == []
    assert len(verdicts) > 2
