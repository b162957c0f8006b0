"""Sweeps: drawn cases are measured as others are, one that fails takes none with it, and a table and a picture sum them
up."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from fusebuild.bench import measure
from fusebuild.bench.ahead import Job
from fusebuild.bench.measure import BenchOptions, bench_artifacts
from fusebuild.bench.plot import write_plot
from fusebuild.bench.report import Measurement, Report, Sweep, markdown_table, write_report
from fusebuild.bench.swept import groups_of, sweep_table
from fusebuild.cli.main import cli
from fusebuild.cli.schema import schema_of
from fusebuild.errors import UsageError, VerificationError
from fusebuild.oracle.verification import Trial, TrialOutcome, read_recipe, run_trial
from fusebuild.pipeline import compile_recipes
from fusebuild.recipe import drawn
from fusebuild.recipe.drawn import drawn_cases
from fusebuild.runtime.loader import LoadedPlan
from fusebuild.target.table import TARGETS
from support.fake_device import FakeDevice
from support.golden import Golden
from support.places import GOLDEN
from support.small_recipes import SUM_THEN_ADD, text_of

torch = pytest.importorskip("torch")


def a_measurement(fusion: str, case: dict[str, int], megabytes: float, **more: Any) -> Measurement:
    return Measurement(
        fusion=fusion, case=case, segments=1, milliseconds=0.5, spread=0.01, least_bytes=round(megabytes * 10**6),
        plan_bytes=10**6, gigabytes_per_second=2000.0, roof=4000.0, error=1e-3, **more,
    )  # fmt: skip


def torch_took(compiled: float, eager: float, copy: float) -> dict[str, float]:
    return {"compile_milliseconds": compiled, "eager_milliseconds": eager, "copy_milliseconds": copy}


def a_sweep(*measurements: Measurement, wrong: tuple[str, ...] = (), **more: Any) -> Report:
    return Report(device="D", driver="1.2", torch="3", date="2026-01-02", measurements=measurements, wrong=wrong,
                  sweep=Sweep(count=3, seed=7, **more))  # fmt: skip


SWEPT = a_sweep(
    a_measurement("f", {"M": 2, "N": 3}, 40, variants=("rows_vec8", "plain"), **torch_took(0.6, 2.0, 0.5)),
    a_measurement("f", {"M": 5, "N": 3}, 1, variants=("plain",), **torch_took(1.0, 0.4, 0.25)),
    a_measurement("f", {"M": 4, "N": 3}, 32, variants=("rows_vec8", "plain"), **torch_took(0.45, 3.0, 0.4)),
    a_measurement("f", {"M": 9, "N": 3}, 500, **torch_took(0.75, 1.0, 0.45)),
    a_measurement("g", {"K": 8}, 3, copy_milliseconds=0.3, missing={"reference": "no such op"}),
    a_measurement("g", {"K": 9}, 4, copy_milliseconds=0.4, missing={"reference": "no such op"}),
    a_measurement("h", {"K": 7}, 4, missing={"copy": "out of memory"}),
    wrong=("f {'M': 1, 'N': 1}: error 0.5 exceeds 1e-05",),
    skipped=("constant",),
    too_large=("f.fuse: f M=6 N=7: out of memory on cuda: the largest tensor has 42 elements",),
)


class TestTable:
    def test_the_text_is_that_of_the_golden_file(self, golden: Golden) -> None:
        golden(GOLDEN / "bench" / "sweep.md", sweep_table(SWEPT))

    def test_large_cases_come_before_small_ones(self) -> None:
        found = [(group.fusion, group.sizes, [each.label for each in group.measurements]) for group in groups_of(SWEPT)]
        assert found == [
            ("f", "large", ["M=2 N=3", "M=4 N=3", "M=9 N=3"]),
            ("f", "small", ["M=5 N=3"]),
            ("g", "small", ["K=8", "K=9"]),
            ("h", "small", ["K=7"]),
        ]

    def test_a_sweep_survives_its_file_and_the_table_of_cases_can_be_made_of_it(self, tmp_path: Path) -> None:
        write_report(SWEPT, tmp_path / "sweep.json")
        found = msgspec.json.decode((tmp_path / "sweep.json").read_bytes(), type=Report)
        assert found == SWEPT
        assert "| f | M=9 N=3 | 1 | 0.5000 |" in markdown_table(found)

    def test_the_schema_knows_sweeps(self, tmp_path: Path) -> None:
        write_report(SWEPT, tmp_path / "sweep.json")
        written, schema = json.loads((tmp_path / "sweep.json").read_text()), Draft202012Validator(schema_of("bench"))
        schema.validate(written)
        assert written["sweep"]["seed"] == 7
        assert written["measurements"][0]["variants"] == ["rows_vec8", "plain"]
        del written["sweep"]["count"]
        assert not schema.is_valid(written)


class TestPlot:
    @pytest.mark.parametrize("report", [SWEPT, a_sweep()], ids=["cases", "none"])
    def test_a_sweep_is_drawn_over_bytes(self, tmp_path: Path, report: Report) -> None:
        paths = [tmp_path / f"{name}.svg" for name in "ab"]
        for path in paths:
            write_plot(report, path)
        first, second = (path.read_bytes() for path in paths)
        assert first == second
        assert b"MB that a case moves at least" in first
        assert (b"torch.compile" in first) == bool(report.measurements)

    def test_each_recipe_has_a_panel(self, tmp_path: Path) -> None:
        many = [a_measurement(f"recipe{index}", {"K": 1}, 1, **torch_took(1, 1, 1)) for index in range(7)]
        write_plot(a_sweep(*many), tmp_path / "many.svg")
        text = (tmp_path / "many.svg").read_text()
        assert all(f"recipe{index}" in text for index in range(7))


@pytest.fixture(scope="module")
def artifacts(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts for the CPU: one of each size of which is free, and one of which none is."""
    folder = tmp_path_factory.mktemp("sweep")
    doubled = text_of({"x": "float[M, N]"}, "y = x + x", {"y": "float"}, name="doubled", cases="M: 4, N: 8")
    for name, text in (("doubled", doubled), ("sum_then_add", SUM_THEN_ADD)):
        (folder / f"{name}.yaml").write_text(text)
    compile_recipes([folder], [TARGETS["host"]], folder / "build", jobs=2)
    return folder / "build"


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cases of few bytes."""
    monkeypatch.setattr(drawn, "LARGE", (10**4, 10**5))
    monkeypatch.setattr(drawn, "SMALL", (10**3, 10**4))


def swept(artifacts: Path, **options: Any) -> Report:
    paths = [artifacts / "doubled.fuse", artifacts / "sum_then_add.fuse"]
    torchs = [30.0, 4.0] if options.get("compare", True) else []
    return bench_artifacts(paths, BenchOptions(**{"sweep": 4, "seed": 5, **options}),
                           device=FakeDevice([2.0, *torchs, 1.0, 0.5]))  # fmt: skip


@pytest.mark.usefixtures("little")
class TestMeasuring:
    def test_drawn_cases_are_measured_as_others_are(self, artifacts: Path) -> None:
        report = swept(artifacts)
        cases = drawn_cases(read_recipe(artifacts / "doubled.fuse"), 4, 5)
        assert [each.case for each in report.measurements] == [*cases]
        assert report.sweep == Sweep(count=4, seed=5, skipped=("sum_then_add",))
        assert report.wrong == ()
        for each in report.measurements:
            assert (each.compile_ratio, each.eager_ratio, each.copy_ratio) == (2.0, 15.0, 0.5)
            assert len(each.variants) == each.segments == 1

    def test_other_seeds_measure_other_cases(self, artifacts: Path) -> None:
        first, second = (swept(artifacts, seed=seed, sweep=1, compare=False) for seed in (1, 2))
        assert first.measurements[0].case != second.measurements[0].case

    @pytest.mark.parametrize(
        ("raised", "wrong", "too_large"),
        [
            (VerificationError("it is wrong"), "it is wrong", ""),
            (ValueError("no such grid\nat all"), "doubled {case}: ValueError: no such grid", ""),
            (UsageError("it does not fit"), "doubled {case}: it does not fit", ""),
            (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7 GiB."), "",
             "{path}: doubled {sizes}: out of memory on cpu: the largest tensor has {elements:,} elements"),
        ],
    )  # fmt: skip
    def test_a_case_that_fails_is_named_and_the_others_are_measured(
        self, artifacts: Path, monkeypatch: pytest.MonkeyPatch, raised: Exception, wrong: str, too_large: str
    ) -> None:
        failing, *others = drawn_cases(read_recipe(artifacts / "doubled.fuse"), 4, 5)

        def run(plan: LoadedPlan, trial: Trial) -> TrialOutcome:
            if trial.case == failing:
                raise raised
            return run_trial(plan, trial)

        monkeypatch.setattr(measure, "run_trial", run)
        report = swept(artifacts)
        assert [each.case for each in report.measurements] == others
        names = {
            "case": failing,
            "path": artifacts / "doubled.fuse",
            "sizes": " ".join(f"{name}={size}" for name, size in failing.items()),
            "elements": failing["M"] * failing["N"],
        }
        assert report.sweep is not None
        assert report.wrong == tuple(filter(None, [wrong.format(**names)]))
        assert report.sweep.too_large == tuple(filter(None, [too_large.format(**names)]))

    def test_a_device_that_is_of_no_use_any_more_does_not_lose_what_was_measured(
        self, artifacts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cases = drawn_cases(read_recipe(artifacts / "doubled.fuse"), 4, 5)
        broken: list[str] = []

        def run(plan: LoadedPlan, trial: Trial) -> TrialOutcome:
            if trial.case == cases[2] or broken:
                broken.append("illegal memory access")
                raise RuntimeError(broken[0])
            return run_trial(plan, trial)

        def release(device: FakeDevice) -> None:
            if broken:
                raise RuntimeError(broken[0])

        monkeypatch.setattr(measure, "run_trial", run)
        monkeypatch.setattr(FakeDevice, "release", release)
        report = swept(artifacts)
        assert [each.case for each in report.measurements] == [*cases[:2]]
        assert report.wrong == tuple(f"doubled {case}: RuntimeError: illegal memory access" for case in cases[2:])

    def test_where_jobs_are_asked_for_all_cases_are_compiled_ahead(
        self, artifacts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[Any] = []
        monkeypatch.setattr(measure, "compile_ahead", lambda *given: asked.append(given))
        swept(artifacts, jobs=3, compare=False)
        assert asked == []
        report = swept(artifacts, jobs=3)
        ((jobs, processes, seed, device),) = asked
        path = str(artifacts / "doubled.fuse")
        assert jobs == [Job(path=path, case=each.case) for each in report.measurements]
        assert (processes, seed, device.torch_name) == (3, 5, "cpu")


class TestCommandLine:
    def test_options_reach_the_measuring_and_the_table_is_printed(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given: list[Any] = []

        def measured(paths: Sequence[Path], options: BenchOptions) -> Report:
            given.append(options)
            return SWEPT

        monkeypatch.setattr("fusebuild.bench.measure.bench_artifacts", measured)
        (tmp_path / "a.fuse").write_text("")
        arguments = ["bench", str(tmp_path), "--sweep", "3", "--jobs", "2", "--seed", "7",
                     "--json", str(tmp_path / "r.json"), "--plot", str(tmp_path / "r.svg")]  # fmt: skip
        done = CliRunner().invoke(cli, arguments)
        assert done.output == sweep_table(SWEPT)
        assert isinstance(done.exception, VerificationError)
        assert str(done.exception) == "\n".join(SWEPT.wrong)
        assert given == [BenchOptions(sweep=3, jobs=2, seed=7)]
        assert msgspec.json.decode((tmp_path / "r.json").read_bytes(), type=Report) == SWEPT
        assert (tmp_path / "r.svg").is_file()

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (("--sweep", "3", "--case", "M=1"), "--sweep draws the sizes, so --case has no place beside it"),
            (("--jobs", "2"), "--jobs compiles for --sweep, which is not asked for"),
        ],
    )
    def test_options_that_do_not_go_together(self, tmp_path: Path, options: Sequence[str], message: str) -> None:
        done = CliRunner().invoke(cli, ["bench", str(tmp_path), *options])
        assert isinstance(done.exception, UsageError)
        assert str(done.exception) == message

    @pytest.mark.parametrize(("option", "value"), [("--sweep", "0"), ("--sweep", "-1"), ("--jobs", "0")])
    def test_there_is_one_case_and_one_process_at_least(self, tmp_path: Path, option: str, value: str) -> None:
        done = CliRunner().invoke(cli, ["bench", str(tmp_path), f"{option}={value}"])
        assert done.exit_code == 2
        assert f"{value} is not in the range x>=1." in done.output
