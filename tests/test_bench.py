"""Bench reports: what is counted, and that the README's table is the committed measurement and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusebuild.bench import Measurement, Report, bench_artifacts, least_bytes, markdown_table, read_report, write_report
from fusebuild.errors import UsageError
from fusebuild.recipe import load_recipe

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parent.parent
MEASURED = ROOT / "recipes" / "bench.json"


def a_report() -> Report:
    measurement = Measurement(
        fusion="f", case={"M": 2, "N": 3}, segments=1, milliseconds=0.5, spread=0.01, least_bytes=10**9,
        plan_bytes=15 * 10**8, gigabytes_per_second=2000.0, roof=4000.0, error=1e-3,
    )  # fmt: skip
    return Report(device="D", driver="1.2", torch="3", date="2026-01-02", measurements=(measurement,))


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    write_report(a_report(), tmp_path / "report.json")
    assert read_report(tmp_path / "report.json") == a_report()


def test_the_table_names_what_was_measured_where_and_when() -> None:
    first, _, header, _, row = markdown_table(a_report()).splitlines()
    assert first.startswith("D, driver 1.2, torch 3, 2026-01-02. ")
    assert header.split(" | ")[2:6] == ["segments", "ms", "GB/s", "of the copy roof"]
    assert row == "| f | M=2 N=3 | 1 | 0.5000 | 2000 | 0.50 | 1.50 | 1.0e-03 |"


def test_least_bytes_counts_each_distinct_element_once() -> None:
    """The figure of adaln_backward at 56x1024x1024: stride-0 inputs count their own elements."""
    fusion = load_recipe(ROOT / "recipes" / "adaln_backward.yaml").fusion
    assert least_bytes(fusion, {"B": 56, "S": 1024, "D": 1024}) == 353_132_544


def test_every_shipped_recipe_was_measured() -> None:
    recipes = {path.stem for path in (ROOT / "recipes").glob("*.yaml")}
    assert {each.fusion for each in read_report(MEASURED).measurements} == recipes


def test_the_readme_shows_the_committed_measurement() -> None:
    text = (ROOT / "README.md").read_text()
    shown = text.split("<!-- measured:begin -->\n")[1].split("<!-- measured:end -->")[0]
    assert shown == markdown_table(read_report(MEASURED))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_there_is_nothing_to_measure() -> None:
    with pytest.raises(UsageError, match=r"^bench needs a CUDA device, and torch sees none$"):
        bench_artifacts([])
