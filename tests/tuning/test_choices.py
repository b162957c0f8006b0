"""Sweeps of choices: every variant that may run at drawn sizes is timed, and what the executor takes is compared with
the fastest."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from fusebuild.bench.device import Run, Timed
from fusebuild.cli.main import cli
from fusebuild.errors import VerificationError
from fusebuild.oracle.verification import Trial, TrialOutcome, run_trial
from fusebuild.pipeline import read_recipes
from fusebuild.recipe import drawn
from fusebuild.recipe.drawn import drawn_cases
from fusebuild.runtime.loader import LoadedPlan
from fusebuild.target.table import TARGETS
from fusebuild.tuning import choices
from fusebuild.tuning.choice_report import ChoiceReport, MeasuredChoice
from fusebuild.tuning.choices import sweep_choices
from fusebuild.tuning.place import Place
from support.fake_device import FakeDevice
from support.small_recipes import SUM_THEN_ADD, text_of

torch = pytest.importorskip("torch")

SOFTMAX = text_of(
    {"x": "bfloat16[M, N]"},
    "e = exp(x - max(x, dims=[1], keepdim=True))\ny = e / sum(e, dims=[1], keepdim=True)",
    {"y": "bfloat16"}, name="softmax", cases="M: 4, N: 64",
)  # fmt: skip


class LastIsFastest(FakeDevice):
    """Takes a millisecond less for each contender than for the one before it."""

    def __init__(self) -> None:
        super().__init__([])

    def milliseconds(self, lead: Run, contenders: Sequence[Timed]) -> list[float]:
        self._known = self._known if set(contenders) <= self._known.keys() else self._ranked(contenders)
        return [self._known[each] for each in contenders]

    def _ranked(self, contenders: Sequence[Timed]) -> dict[Timed, float]:
        return {each: 100.0 - index for index, each in enumerate(contenders)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two recipes: sizes of one are free, of the other none is. Cases of few bytes are drawn."""
    monkeypatch.setattr(drawn, "LARGE", (10**4, 10**5))
    monkeypatch.setattr(drawn, "SMALL", (10**3, 10**4))
    (tmp_path / "softmax.yaml").write_text(SOFTMAX)
    (tmp_path / "sum_then_add.yaml").write_text(SUM_THEN_ADD)
    return tmp_path


def swept(folder: Path, **options: Any) -> ChoiceReport:
    place = Place(device=LastIsFastest(), target=TARGETS["host"])
    return sweep_choices([folder], count=3, seed=5, out=folder / "build", place=place, **options)


@pytest.mark.usefixtures("compilers")
class TestSweeping:
    def test_every_variant_that_may_run_is_timed(self, folder: Path) -> None:
        steps: list[tuple[int, int]] = []
        report = swept(folder, on_progress=lambda done, total: steps.append((done, total)))
        (recipe, _) = read_recipes([folder])
        assert [each.case for each in report.choices] == [*drawn_cases(recipe, 3, 5)]
        assert steps == [(1, 3), (2, 3), (3, 3)]
        assert (report.target, report.device, report.wrong, report.too_large) == ("host", "a CPU", (), ())
        assert max(each.tried for each in report.choices) > 1
        for each in report.choices:
            count = choices.set_count(each.least_bytes, LastIsFastest())
            assert each.milliseconds * count == pytest.approx(100)
            assert each.best_milliseconds * count == pytest.approx(101 - each.tried)
            assert (each.best_variants == each.variants) == (each.tried == 1)

    @pytest.mark.parametrize(
        ("raised", "words"),
        [(VerificationError("it is wrong"), "it is wrong"),
         (RuntimeError("illegal memory access"), "{name} {failing}: RuntimeError: illegal memory access")],
    )  # fmt: skip
    def test_a_case_that_fails_is_named_and_others_are_measured(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch, raised: Exception, words: str
    ) -> None:
        (recipe, _) = read_recipes([folder])
        failing, *others = drawn_cases(recipe, 3, 5)

        def run(plan: LoadedPlan, trial: Trial, **options: Any) -> TrialOutcome:
            if trial.case == failing:
                raise raised
            return run_trial(plan, trial, **options)

        monkeypatch.setattr(choices, "run_trial", run)
        report = swept(folder)
        assert report.wrong == (words.format(name=recipe.fusion.name, failing=failing),)
        assert [each.case for each in report.choices] == others

    def test_a_case_beyond_the_memory_is_named(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def run(plan: LoadedPlan, trial: Trial, **options: Any) -> TrialOutcome:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7 GiB.")

        monkeypatch.setattr(choices, "run_trial", run)
        report = swept(folder)
        assert not report.choices
        assert len(report.too_large) == 3
        assert "out of memory on cpu: the largest tensor has" in report.too_large[0]


def a_choice(fusion: str, case: dict[str, int], taken: float, best: float, tried: int = 2) -> MeasuredChoice:
    best_variants = ("short",) if best < taken else ("tiled",)
    return MeasuredChoice(fusion=fusion, case=case, least_bytes=8, tried=tried, variants=("tiled",), milliseconds=taken,
                          best_variants=best_variants, best_milliseconds=best)  # fmt: skip


class TestReport:
    def test_misses_are_named_the_worst_first(self) -> None:
        report = ChoiceReport(
            target="sm_90", device="D", driver="1", count=2, seed=7, wrong=("f {'M': 1}: error",), too_large=("g: no",),
            choices=(a_choice("f", {"M": 2}, 1.0, 0.9), a_choice("f", {"M": 3}, 1.0, 0.96),
                     a_choice("g", {"K": 5}, 0.02, 0.01), a_choice("g", {"K": 6}, 0.5, 0.5, tried=1)),
        )  # fmt: skip
        assert report.as_text() == (
            "recipe  cases  with a choice  within 5%  median loss  largest loss\n"
            "f           2              2          1         7.0%         10.0%\n"
            "g           2              1          1        25.0%         50.0%\n"
            "\n"
            "recipe  case  taken      ms  fastest      ms   loss\n"
            "g       K=5   tiled  0.0200  short    0.0100  50.0%\n"
            "f       M=2   tiled  1.0000  short    0.9000  10.0%\n"
            "\n"
            "f {'M': 1}: error\n"
            "g: no\n"
        )  # fmt: skip

    def test_where_nothing_is_missed_there_is_one_table(self) -> None:
        report = ChoiceReport(target="sm_90", device="D", driver="1", count=1, seed=7, wrong=(), too_large=(),
                              choices=(a_choice("f", {"M": 3}, 1.0, 0.96),))  # fmt: skip
        assert report.as_text().count("\n") == 2

    def test_a_sweep_without_cases_says_so(self) -> None:
        report = ChoiceReport(target="sm_90", device="D", driver="1", count=1, seed=7, wrong=(), too_large=(),
                              choices=())  # fmt: skip
        assert report.as_text() == "recipe  cases  with a choice  within 5%  median loss  largest loss\n"


@pytest.mark.usefixtures("compilers")
class TestVerb:
    def test_json_holds_what_was_measured(self, folder: Path) -> None:
        arguments = ["tune", str(folder / "softmax.yaml"), "--arch", "host", "--sweep", "1", "-o", str(folder / "b")]
        result = CliRunner().invoke(cli, [*arguments, "--json"])
        assert result.exit_code == 0, result.output
        found = json.loads(result.stdout)
        assert [each["fusion"] for each in found["choices"]] == ["softmax"]
        assert not list(folder.glob("*.tuned.json"))

    def test_drawn_sizes_and_given_ones_are_not_for_one_call(self, folder: Path) -> None:
        arguments = ["tune", str(folder / "softmax.yaml"), "--arch", "host", "--sweep", "1", "--case", "M=1,N=2"]
        result = CliRunner().invoke(cli, arguments)
        assert result.exit_code != 0
        assert "--sweep draws the sizes, so --case has no place beside it" in str(result.exception) + result.output
