"""Measuring and its reports: what is counted, what is said where something is missing, and that the tables of the pages
are the committed measurement and nothing else. The device of these tests is the CPU with a clock of its own."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from fusebuild.bench import measure, traffic
from fusebuild.bench.exactness import OutputErrors, rms_error
from fusebuild.bench.measure import BenchOptions, bench_artifacts
from fusebuild.bench.plot import require_plot, write_plot
from fusebuild.bench.report import Measurement, Report, Sweep, markdown_table, summary_table, write_report
from fusebuild.bench.swept import sweep_table
from fusebuild.bench.timing import BATCH
from fusebuild.bench.traffic import Traffic
from fusebuild.cli.main import cli
from fusebuild.errors import OutOfMemoryError, UsageError, VerificationError
from fusebuild.ir.dtype import DType
from fusebuild.oracle.bounds import compare
from fusebuild.oracle.verification import Trial, TrialOutcome, recipe_trial, run_trial
from fusebuild.pipeline import compile_recipes
from fusebuild.recipe.recipe import Recipe, load_recipe
from fusebuild.recipe.sizes import least_bytes
from fusebuild.runtime.loader import LoadedPlan
from fusebuild.target.table import TARGETS
from support.fake_device import FakeDevice
from support.golden import Golden
from support.places import ROOT
from support.small_recipes import text_of

torch = pytest.importorskip("torch")

MEASURED = ROOT / "recipes" / "bench.json"
SWEPT = ROOT / "recipes" / "sweep.json"


def a_report(**more: Any) -> Report:
    measurement = Measurement(
        fusion="f", case={"M": 2, "N": 3}, segments=1, milliseconds=0.5, spread=0.01, least_bytes=10**9,
        plan_bytes=15 * 10**8, gigabytes_per_second=2000.0, roof=4000.0, error=1e-3, **more,
    )  # fmt: skip
    return Report(device="D", driver="1.2", torch="3", date="2026-01-02", measurements=(measurement,))


def read_report(path: Path) -> Report:
    """The report that :func:`write_report` wrote, by this version or by one that measured less."""
    return msgspec.json.decode(path.read_bytes(), type=Report)


def errors(output: str, rms: float, eager_rms: float | None) -> OutputErrors:
    return OutputErrors(output=output, dtype="float", elements=6, rms=rms, largest=2 * rms, eager_rms=eager_rms)


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    report = a_report(eager_error=2e-3, outputs=(errors("y", 3e-4, 2e-4), errors("z", 1e-4, None)))
    write_report(report, tmp_path / "report.json")
    assert read_report(tmp_path / "report.json") == report


def test_where_no_errors_exceed_eagers_the_table_says_so_and_where_none_were_compared_nothing() -> None:
    *_, claim = markdown_table(a_report(outputs=(errors("y", 2e-4, 2e-4), errors("z", 1e-4, None)))).splitlines()
    assert claim == "RMS errors against fp64 are no worse than eager's in 1 of 1 outputs that both give."
    assert "RMS errors" not in markdown_table(a_report(outputs=(errors("z", 1e-4, None),)))


def test_the_table_names_what_was_measured_where_and_when() -> None:
    first, _, header, _, row = markdown_table(a_report()).splitlines()
    assert first.startswith("D, driver 1.2, torch 3, 2026-01-02. ")
    assert header == (
        "| recipe | case | segments | ms | eager ms | compile ms | GB/s | of the copy roof | of an equal copy "
        "| times compile | call µs | plan bytes / least bytes | DRAM bytes / least bytes | error "
        "| RMS error / eager's |"
    )
    assert row == "| f | M=2 N=3 | 1 | 0.5000 | – | – | 2000 | 0.50 | – | – | – | 1.50 | – | 1.0e-03 | – |"


def test_the_table_shows_everything_that_was_measured_and_why_the_rest_was_not() -> None:
    more = {
        "eager_milliseconds": 2.0, "compile_milliseconds": 0.75, "copy_milliseconds": 0.45, "call_microseconds": 1.25,
        "eager_call_microseconds": 30.0, "dram_bytes_read": 6 * 10**8, "dram_bytes_written": 5 * 10**8,
        "eager_error": 2e-3, "outputs": (errors("y", 3e-4, 2e-4), errors("z", 1e-4, 4e-4), errors("k", 1.0, None)),
        "missing": {"reference": "no such op", "eager": "E", "compile": "C", "ncu": "ncu is not on PATH"},
    }  # fmt: skip
    *_, row, gap, claim, under, worse, blank, first, second, third, fourth = markdown_table(
        a_report(**more)
    ).splitlines()
    assert row == (
        "| f | M=2 N=3 | 1 | 0.5000 | 2.0000 | 0.7500 | 2000 | 0.50 | 0.90 | 1.50 | 1.2 / 30.0 / – | 1.50 | 1.10 "
        "| 1.0e-03 / 2.0e-03 / – | 1.50 |"
    )
    assert (gap, under, blank) == ("", "", "")
    assert claim == "RMS errors against fp64 are no worse than eager's in 1 of 2 outputs that both give:"
    assert worse == "- f M=2 N=3: the RMS error of y (float) is 3.0e-04, eager's 2.0e-04"
    assert first == "- f M=2 N=3: no torch reference: no such op"
    assert second == "- f M=2 N=3: no eager torch: E"
    assert third == "- f M=2 N=3: no torch.compile: C"
    assert fourth == "- f M=2 N=3: no DRAM bytes: ncu is not on PATH"


def test_a_report_of_a_version_that_measured_less_is_read(tmp_path: Path) -> None:
    write_report(a_report(), tmp_path / "report.json")
    data = json.loads((tmp_path / "report.json").read_text())
    known = ("fusion", "case", "segments", "milliseconds", "spread", "least_bytes", "plan_bytes",
             "gigabytes_per_second", "roof", "error")  # fmt: skip
    data["measurements"] = [{name: item[name] for name in known} for item in data["measurements"]]
    (tmp_path / "old.json").write_text(json.dumps(data))
    assert read_report(tmp_path / "old.json") == a_report()


def test_the_ratio_of_errors_is_that_of_the_worst_output_that_both_give() -> None:
    (found,) = a_report(outputs=(errors("a", 1.0, 2.0), errors("b", 3.0, 2.0), errors("c", 9.0, None))).measurements
    assert found.error_ratio == 1.5


def test_least_bytes_counts_each_distinct_element_once() -> None:
    """The figure of adaln_backward at 56x1024x1024: stride-0 inputs count their own elements."""
    fusion = load_recipe(ROOT / "recipes" / "adaln_backward.yaml").fusion
    assert least_bytes(fusion, {"B": 56, "S": 1024, "D": 1024}) == 353_132_544


def test_every_shipped_recipe_was_measured() -> None:
    recipes = {path.stem for path in (ROOT / "recipes").glob("*.yaml")}
    assert {each.fusion for each in read_report(MEASURED).measurements} == recipes


def the_sweep(path: Path) -> str:
    """The table of the sweep in the file ``path``, or that there is none."""
    return sweep_table(read_report(path)) if path.is_file() else "No sweep is committed.\n"


@pytest.mark.parametrize(
    ("page", "part", "text"),
    [
        ("docs/measured.md", "measured", lambda: markdown_table(read_report(MEASURED))),
        ("README.md", "summary", lambda: summary_table(read_report(MEASURED))),
        ("docs/measured.md", "sweep", lambda: the_sweep(SWEPT)),
    ],
)
def test_a_page_shows_the_committed_measurement(page: str, part: str, text: Callable[[], str], golden: Golden) -> None:
    before, rest = (ROOT / page).read_text(encoding="utf-8").split(f"<!-- {part}:begin -->\n")
    _, after = rest.split(f"<!-- {part}:end -->")
    golden(ROOT / page, f"{before}<!-- {part}:begin -->\n{text()}<!-- {part}:end -->{after}")


def test_a_sweep_that_is_committed_is_shown(tmp_path: Path) -> None:
    swept = msgspec.structs.replace(a_report(), sweep=Sweep(count=1, seed=2))
    write_report(swept, tmp_path / "sweep.json")
    assert the_sweep(tmp_path / "sweep.json") == sweep_table(swept)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_there_is_nothing_to_measure() -> None:
    with pytest.raises(UsageError, match=r"^bench needs a CUDA device, and torch sees none$"):
        bench_artifacts([])


SCALED = text_of(
    {"x": "float[M, N]"}, "y = x * s\nz = sum(x, dims=[1])", {"y": "float", "z": "float"}, name="scaled",
    scalars={"s": "double"}, cases="M: 4, N: 8",
)  # fmt: skip
IN_PLACE = text_of({"x": "float[M]"}, "y = x * 0.5", {"y": "{dtype: float, alias: x}"}, name="in_place", cases="M: 64")
REDUCED = """\
fusion: reduced
inputs:
  x: float[M, N]
lambdas:
  added:
    left: {a: float}
    right: {b: float}
    body: c = a + b
    results: [c]
body: |
  y = reduce([x], init=[0.0], combine=added, dims=[1])
outputs:
  y: float
cases:
  - {M: 4, N: 8}
"""
REFERENCES = {
    "right": "x * s",
    "wrong": "x + s",
    "other_dtype": "(x * s).half()",
    "other_shape": "x.sum(dim=1)",
    "too_many": "(x * s, x.sum(dim=1), x)",
    "unknown": "F.scale_all(x)",
    "raising": "torch.sum(x, dim=7)",
}


@pytest.fixture(scope="module")
def artifacts(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Artifacts for the CPU: each of these recipes, and ``scaled`` with each of the references."""
    folder = tmp_path_factory.mktemp("bench")
    texts = {"scaled": SCALED, "in_place": IN_PLACE, "reduced": REDUCED}
    texts |= {
        name: f"{SCALED.replace('scaled', name)}bench:\n  reference: {reference}\n"
        for name, reference in REFERENCES.items()
    }
    texts["rounding"] = text_of({"x": "bfloat16[M, N]"}, "y = (x * x + x) * x", {"y": "bfloat16"}, name="rounding",
                                cases="M: 64, N: 128") + "bench:\n  reference: (x * x + x) * x\n"  # fmt: skip
    texts["sized"] = (
        f"{SCALED.replace('scaled', 'sized')}bench:\n  cases:\n    - {{M: 3, N: 5}}\n    - {{M: 0, N: 5}}\n"
    )
    texts["even"] = SCALED.replace("scaled", "even").replace("inputs:", "extents:\n  N: {multiple_of: 2}\ninputs:")
    texts["uncased"] = SCALED.replace("scaled", "uncased").partition("cases:")[0]
    texts["constant"] = text_of({"x": "float[3]"}, "y = exp(x)", {"y": "float"}, name="constant")
    for name, reference in (("drawn", ""), ("drawn_right", "F.dropout(x, 0.5)"), ("drawn_wrong", "F.dropout(x, 0.9)")):
        section = f"bench:\n  reference: {reference}\n" if reference else ""
        texts[name] = text_of({"x": "float[M, N]"}, "y, kept = dropout(x, 0.5, seed)", {"y": "float", "kept": "bool"},
                              name=name, scalars={"seed": "int64"}, cases="M: 64, N: 128") + section  # fmt: skip
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    compile_recipes([folder], [TARGETS["host"]], folder / "build", jobs=2)
    return folder / "build"


def measured(artifacts: Path, name: str, device: FakeDevice | None = None, **options: Any) -> Measurement:
    device = device or FakeDevice([2.0, 30.0, 4.0, 1.0, 0.5])
    (found,) = bench_artifacts([artifacts / f"{name}.fuse"], BenchOptions(**options), device=device).measurements
    return found


class TestMeasuring:
    def test_each_is_timed_in_its_turn_on_sets_that_exceed_the_cache(self, artifacts: Path) -> None:
        device = FakeDevice([2.0, 30.0, 4.0, 1.0, 0.5])
        report = bench_artifacts([artifacts / "scaled.fuse"], device=device)
        (found,) = report.measurements
        assert (report.device, report.driver) == ("a CPU", "0.1")
        assert found.least_bytes == 2 * 4 * 8 * 4 + 4 * 4
        sets = 12  # 3000 bytes in tensors of 272
        assert device.captured_calls == [sets, 1] * 4  # those that are timed, and the one before them
        assert (found.milliseconds, found.eager_milliseconds) == (2.0 / sets, 30.0 / sets)
        assert (found.compile_milliseconds, found.copy_milliseconds) == (4.0 / sets, 1.0 / sets)
        assert (found.copy_ratio, found.compile_ratio) == (0.5, 2.0)
        assert found.roof == 4000 / 0.5 / 1e6
        assert found.spread == found.eager_spread == found.compile_spread == found.copy_spread == 0.0
        calls = (found.call_microseconds, found.eager_call_microseconds, found.compile_call_microseconds)
        assert calls == pytest.approx((1.0 / BATCH,) * 3)
        assert found.reference == "fusion"
        assert found.missing == {}
        assert found.dram_bytes_read is None
        assert device.released >= 2

    def test_without_comparison_only_the_artifact_and_copies_run(self, artifacts: Path) -> None:
        device = FakeDevice([2.0, 1.0, 0.5])
        found = measured(artifacts, "scaled", device, compare=False)
        assert len(device.captured_calls) == 4
        assert (found.eager_milliseconds, found.compile_milliseconds, found.reference) == (None, None, "")
        assert found.copy_ratio == 0.5
        assert found.missing == {}

    def test_outputs_in_place_are_measured_too(self, artifacts: Path) -> None:
        assert measured(artifacts, "in_place").compile_ratio == 2.0

    def test_errors_of_all_are_against_one_oracle_on_the_same_inputs(
        self, artifacts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        asked: list[Any] = []

        def trial(recipe: Recipe, *given: Any) -> Trial:
            asked.append(recipe_trial(recipe, *given))
            return asked[-1]

        monkeypatch.setattr(measure, "recipe_trial", trial)
        found = measured(artifacts, "rounding")
        (made,) = asked
        (x,), (want,) = made.inputs, made.wanted
        (row,) = found.outputs
        assert (row.output, row.dtype, row.elements) == ("y", "bfloat16", 64 * 128)
        exact = (x.double().square() + x.double()) * x.double()
        assert torch.equal(want, exact)
        rounded = (x * x + x) * x  # eager rounds each result to bfloat16, ours only the last
        assert row.rms == rms_error(exact.bfloat16(), exact)
        assert row.eager_rms == row.compile_rms == rms_error(rounded, exact)
        assert row.largest == found.error == compare(exact.bfloat16(), exact, DType.BFLOAT16).error
        assert row.eager_largest == found.eager_error == found.compile_error
        assert found.eager_error == compare(rounded, exact, DType.BFLOAT16).error
        assert found.error_ratio is not None
        assert found.error_ratio < 0.9
        assert not row.is_worse

    def test_outputs_that_the_reference_does_not_give_have_our_errors_alone(self, artifacts: Path) -> None:
        first, second = measured(artifacts, "right").outputs
        assert (first.output, second.output) == ("y", "z")
        assert (first.rms, first.eager_rms, first.compile_rms) == pytest.approx((0.0, 0.0, 0.0), abs=1e-7)
        assert (second.eager_rms, second.eager_largest, second.compile_rms) == (None, None, None)

    def test_without_comparison_errors_are_ours(self, artifacts: Path) -> None:
        found = measured(artifacts, "rounding", FakeDevice([2.0, 1.0, 0.5]), compare=False)
        (row,) = found.outputs
        assert 2**-10 < row.rms < 2**-8
        assert found.error == row.largest > row.rms
        assert (row.eager_rms, found.eager_error, found.compile_error, found.error_ratio) == (None,) * 4

    def test_a_lambda_leaves_torch_out_and_the_report_says_so(self, artifacts: Path) -> None:
        found = measured(artifacts, "reduced", FakeDevice([2.0, 1.0, 0.5]))
        assert found.missing == {"reference": "reduce with a lambda has no torch function"}
        assert (found.eager_milliseconds, found.reference, found.copy_ratio) == (None, "", 0.5)

    def test_the_reference_of_the_recipe_is_what_torch_runs(self, artifacts: Path) -> None:
        found = measured(artifacts, "right")
        assert (found.reference, found.missing, found.compile_ratio) == ("x * s", {}, 2.0)

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("other_dtype", "the reference gives torch.float16 for y, which is float"),
            ("other_shape", "the reference gives (4,) for y, which is (4, 8)"),
            ("too_many", "the reference has 3 results, the fusion 2 outputs"),
        ],
    )
    def test_a_reference_that_computes_something_else_is_not_measured(
        self, artifacts: Path, name: str, why: str
    ) -> None:
        found = measured(artifacts, name, FakeDevice([2.0, 1.0, 0.5]))
        assert found.missing == {"eager": why, "compile": why}
        assert found.copy_ratio == 0.5

    def test_a_reference_with_other_numbers_is_not_measured(self, artifacts: Path) -> None:
        found = measured(artifacts, "wrong", FakeDevice([2.0, 1.0, 0.5]))
        assert set(found.missing) == {"eager", "compile"}
        assert found.missing["eager"].startswith("the reference is another y: error ")

    @pytest.mark.parametrize(("name", "outputs"), [("drawn", "y, kept"), ("drawn_right", "y")])
    def test_random_numbers_of_torch_need_only_be_distributed_alike(
        self, artifacts: Path, name: str, outputs: str
    ) -> None:
        found = measured(artifacts, name)
        assert found.missing == {"errors": f"torch draws other random numbers for {outputs}"}
        assert (found.eager_error, found.compile_error, found.error_ratio) == (None, None, None)
        assert found.compile_ratio == 2.0

    def test_random_numbers_of_another_distribution_are_not_measured(self, artifacts: Path) -> None:
        why = "the reference is another y: it is distributed otherwise"
        found = measured(artifacts, "drawn_wrong", FakeDevice([2.0, 1.0, 0.5]))
        assert found.missing == {"eager": why, "compile": why}

    def test_a_reference_that_raises_is_reported_with_its_reason(self, artifacts: Path) -> None:
        found = measured(artifacts, "raising", FakeDevice([2.0, 1.0, 0.5]))
        assert found.missing["eager"].startswith("IndexError: Dimension out of range")
        assert found.missing["compile"]

    def test_a_function_that_torch_does_not_have_is_reported(self, artifacts: Path) -> None:
        found = measured(artifacts, "unknown", FakeDevice([2.0, 1.0, 0.5]))
        assert found.missing == {"reference": f"torch.nn.functional {torch.__version__} has no function 'scale_all'"}

    def test_a_compiler_that_is_not_there_leaves_eager_measured(self, artifacts: Path) -> None:
        found = measured(artifacts, "scaled", FakeDevice([2.0, 30.0, 1.0, 0.5], backend="no_such_backend"))
        assert list(found.missing) == ["compile"]
        assert found.missing["compile"].startswith("InvalidBackend: ")
        assert found.eager_milliseconds == 30.0 / 12

    @pytest.mark.parametrize(
        ("fails", "name"), [(2, "eager"), (3, "eager"), (4, "compile"), (5, "compile"), (6, "copy"), (7, "copy")]
    )
    def test_what_cannot_be_captured_is_reported_and_the_others_are_measured(
        self, artifacts: Path, fails: int, name: str
    ) -> None:
        found = measured(artifacts, "scaled", FakeDevice([2.0, 30.0, 1.0, 0.5], fails=fails))
        assert found.missing == {name: "MemoryError: out of memory"}
        times = {"eager": found.eager_milliseconds, "compile": found.compile_milliseconds}
        times["copy"] = found.copy_milliseconds
        assert [each for each, time in times.items() if time is None] == [name]

    def test_the_cases_of_the_bench_section_replace_the_first(self, artifacts: Path) -> None:
        device = FakeDevice([2.0, 30.0, 4.0, 1.0, 0.5])
        report = bench_artifacts([artifacts / "sized.fuse"], device=device)
        assert [each.case for each in report.measurements] == [{"M": 3, "N": 5}, {"M": 0, "N": 5}]

    def test_wrong_results_are_not_timed_and_take_nothing_with_them(
        self, artifacts: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def run(plan: LoadedPlan, trial: Trial) -> TrialOutcome:
            outcome = run_trial(plan, trial)
            wrong = replace(outcome, verdict=replace(outcome.verdict, error=0.5))
            return wrong if trial.case["M"] == 3 else outcome

        monkeypatch.setattr(measure, "run_trial", run)
        device = FakeDevice([2.0, 30.0, 4.0, 1.0, 0.5])
        report = bench_artifacts([artifacts / "sized.fuse"], device=device)
        assert [each.case for each in report.measurements] == [{"M": 0, "N": 5}]
        assert report.wrong == ("sized {'M': 3, 'N': 5}: error 0.5 exceeds 1e-05",)
        monkeypatch.setattr("fusebuild.bench.measure.bench_artifacts", lambda *given: report)
        arguments = ["bench", str(artifacts / "sized.fuse"), "--json", str(tmp_path / "bench.json")]
        done = CliRunner().invoke(cli, arguments)
        assert isinstance(done.exception, VerificationError)
        assert str(done.exception) == "\n".join(report.wrong)
        assert "| sized | M=0 N=5 |" in done.output
        assert read_report(tmp_path / "bench.json") == report

    def test_a_case_that_does_not_fit_into_memory_is_named(
        self, artifacts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def run(plan: LoadedPlan, trial: Trial) -> TrialOutcome:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 7 GiB.")

        monkeypatch.setattr(measure, "run_trial", run)
        path = re.escape(str(artifacts / "sized.fuse"))
        words = f"{path}: sized M=3 N=5: out of memory on cpu: the largest tensor has 15 elements\n  hint: --case "
        with pytest.raises(OutOfMemoryError, match=f"^{words}measures other sizes$"):
            bench_artifacts([artifacts / "sized.fuse"], device=FakeDevice([1.0]))

    def test_given_cases_replace_all_others(self, artifacts: Path) -> None:
        assert measured(artifacts, "sized", cases=({"M": 2, "N": 9},)).case == {"M": 2, "N": 9}

    @pytest.mark.parametrize(
        ("case", "message"),
        [
            ({"M": 2}, "case M=2: even needs a size for N"),
            ({"M": 2, "N": 4, "K": 1}, "case M=2,N=4,K=1: even has no symbol K; its symbols are M, N"),
            ({"M": 2, "N": 3}, "case M=2,N=3: N is 3, but extents says multiple_of: 2"),
        ],
    )
    def test_a_case_that_does_not_fit_is_refused_before_anything_runs(
        self, artifacts: Path, case: Mapping[str, int], message: str
    ) -> None:
        device = FakeDevice([1.0])
        with pytest.raises(UsageError) as caught:
            bench_artifacts([artifacts / "even.fuse"], BenchOptions(cases=(case,)), device=device)
        assert str(caught.value) == message
        assert device.captured_calls == []

    def test_a_recipe_without_cases_is_not_passed_over(self, artifacts: Path) -> None:
        with pytest.raises(UsageError, match=r"^uncased has no cases; say with --case how large M, N are$"):
            bench_artifacts([artifacts / "uncased.fuse"], device=FakeDevice([1.0]))
        assert measured(artifacts, "constant").case == {}

    def test_ncu_that_is_not_there_is_reported(self, artifacts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PATH", "")
        assert measured(artifacts, "scaled", ncu=True).missing == {"ncu": "ncu is not on PATH"}

    def test_what_ncu_counts_is_kept(self, artifacts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        counted = Traffic(bytes_read=136, bytes_written=272, kernels=1)
        monkeypatch.setattr("fusebuild.bench.measure.measured_traffic", lambda path, case, seed: counted)
        found = measured(artifacts, "scaled", ncu=True)
        assert (found.dram_bytes_read, found.dram_bytes_written, found.dram_ratio) == (136, 272, 1.5)

    def test_one_call_is_profiled_after_those_that_warm_up(
        self, artifacts: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        order: list[str] = []
        for name in ("synchronize", "profiler.start", "profiler.stop"):
            monkeypatch.setattr(f"torch.cuda.{name}", partial(order.append, name))
        run = LoadedPlan.__call__

        def called(plan: LoadedPlan, *inputs: Any) -> Any:
            order.append("call")
            return run(plan, *inputs)

        monkeypatch.setattr(LoadedPlan, "__call__", called)
        traffic.profiled_call(str(artifacts / "scaled.fuse"), '{"M": 2, "N": 3}', "0", "host")
        warm_up = ["call"] * traffic.WARM_UP
        assert order == [*warm_up, "synchronize", "profiler.start", "call", "synchronize", "profiler.stop"]


class TestPlot:
    @pytest.mark.parametrize(("ending", "start"), [(".png", b"\x89PNG"), (".svg", b"<?xml")])
    def test_a_report_is_drawn(self, tmp_path: Path, ending: str, start: bytes) -> None:
        paths = [tmp_path / f"{name}{ending}" for name in "ab"]
        for path in paths:
            write_plot(a_report(eager_milliseconds=2.0), path)
        first, second = (path.read_bytes() for path in paths)
        assert first.startswith(start)
        assert first == second
        if ending == ".svg":
            assert b"M=2 N=3" in first
            assert b"copy roof" in first

    def test_other_formats_are_refused(self) -> None:
        with pytest.raises(UsageError, match=r"^--plot writes \.png or \.svg, not 'roof\.pdf'$"):
            require_plot(Path("out/roof.pdf"))

    def test_without_matplotlib_the_message_says_what_to_install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        with pytest.raises(UsageError, match=r"^--plot needs matplotlib: pip install 'fusebuild\[plot\]'$"):
            require_plot(Path("roof.svg"))


class TestCommandLine:
    @pytest.mark.parametrize("text", ["M", "M=", "M=x", "M=1,,N=2", "=3", "M=-1", "M=1,M=2"])
    def test_a_case_is_written_as_sizes(self, text: str, tmp_path: Path) -> None:
        done = CliRunner().invoke(cli, ["bench", str(tmp_path), "--case", text])
        assert done.exit_code == 2
        assert f"Invalid value for '--case': '{text}' is not written like M=1024,N=4096" in done.output

    def test_options_reach_the_measuring_and_files_are_written(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        given: list[Any] = []

        def measured(paths: Sequence[Path], options: BenchOptions) -> Report:
            given.extend([*paths, options])
            return a_report()

        monkeypatch.setattr("fusebuild.bench.measure.bench_artifacts", measured)
        (tmp_path / "a.fuse").write_text("")
        arguments = ["bench", str(tmp_path), "--case", "M=1,N=2", "--case", "M = 3, N=4", "--no-compare", "--ncu",
                     "--seed", "5", "--json", str(tmp_path / "r.json"), "--plot", str(tmp_path / "r.svg")]  # fmt: skip
        done = CliRunner().invoke(cli, arguments)
        assert done.output == markdown_table(a_report())
        cases = ({"M": 1, "N": 2}, {"M": 3, "N": 4})
        assert given == [tmp_path / "a.fuse", BenchOptions(cases=cases, compare=False, ncu=True, seed=5)]
        assert read_report(tmp_path / "r.json") == a_report()
        assert (tmp_path / "r.svg").is_file()
