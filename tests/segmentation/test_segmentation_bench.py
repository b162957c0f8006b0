"""The heuristic cuts against the exact ones; the page's table is the committed comparison and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.bench_segmentation import (
    BEGIN,
    END,
    ROUNDING,
    Comparison,
    compare,
    main,
    markdown_table,
    read_report,
    report,
    shown_in,
    write_report,
)
from fusebuild.ir.text import print_fusion
from support.places import ROOT, TESTS
from support.random_fusions import atom_count, random_fusion

COMPARED = TESTS / "benchmarks" / "segmentation_bench.json"
EXAMPLE = Comparison(
    seed=7, atoms=3, heuristic_seconds=3e-6, exact_seconds=2e-6, heuristic_segments=2, exact_segments=1
)


@pytest.fixture(scope="module")
def comparisons() -> list[Comparison]:
    return [compare(seed) for seed in range(25)]


class TestTheHeuristicSearch:
    def test_is_never_better_than_the_exact_one(self, comparisons: list[Comparison]) -> None:
        assert [each for each in comparisons if each.ratio < 1 - ROUNDING] == []

    def test_is_nearly_as_good_everywhere(self, comparisons: list[Comparison]) -> None:
        assert max(each.ratio for each in comparisons) <= 1.10

    def test_is_as_good_on_the_whole(self, comparisons: list[Comparison]) -> None:
        assert sum(each.ratio for each in comparisons) / len(comparisons) <= 1.01

    def test_is_tried_on_fusions_that_are_cut(self, comparisons: list[Comparison]) -> None:
        assert sum(each.exact_segments > 1 for each in comparisons) >= len(comparisons) // 2


class TestRandomFusions:
    def test_follow_from_the_seed(self) -> None:
        assert print_fusion(random_fusion(3)) == print_fusion(random_fusion(3))
        assert print_fusion(random_fusion(3)) != print_fusion(random_fusion(4))

    @pytest.mark.parametrize("most_atoms", [4, 12])
    def test_have_at_most_so_many_atoms(self, most_atoms: int) -> None:
        assert all(1 < atom_count(random_fusion(seed, most_atoms)) <= most_atoms for seed in range(20))

    def test_show_what_real_ones_do(self) -> None:
        fusions = [random_fusion(seed) for seed in range(60)]
        ops = {expr.op for fusion in fusions for expr in fusion.exprs}
        assert {"sum", "max", "cast", "broadcast", "segment_set", "silu", "rsqrt", "exp", "truediv"} <= ops
        assert any(output.alias is not None for fusion in fusions for output in fusion.outputs)
        assert {len(fusion.value(fusion.inputs[0]).tensor.shape) for fusion in fusions} == {2, 3}


class TestReport:
    def test_summaries(self) -> None:
        equal = replace(EXAMPLE, seed=8, heuristic_seconds=2e-6, heuristic_segments=1)
        larger = replace(EXAMPLE, seed=9, atoms=5)
        made = report([EXAMPLE, equal, larger])
        assert {name: each.fusions for name, each in made.by_atoms.items()} == {"3": 2, "5": 1}
        three = made.by_atoms["3"]
        assert (three.optimal, three.mean, three.worst) == (0.5, 1.25, 1.5)
        assert (three.heuristic_segments, three.exact_segments) == (1.5, 1)
        assert [each.seed for each in made.worst] == [7, 9, 8]

    def test_survives_its_file(self, tmp_path: Path) -> None:
        write_report(report([EXAMPLE]), tmp_path / "report.json")
        assert read_report(tmp_path / "report.json") == report([EXAMPLE])

    def test_the_table(self) -> None:
        assert markdown_table(report([EXAMPLE])) == (
            "1 random fusions, seeds from 7, on sm_90: "
            "predicted time of the heuristic cut over that of the exact one.\n"
            "\n"
            "| atoms | fusions | optimal | mean | worst | segments | segments of the best |\n"
            "|---:|---:|---:|---:|---:|---:|---:|\n"
            "| 3 | 1 | 0.0% | 1.5000 | 1.5000 | 2.00 | 1.00 |\n"
            "| all | 1 | 0.0% | 1.5000 | 1.5000 | 2.00 | 1.00 |\n"
            "\n"
            "Worst seeds: 7 (1.5000).\n"
        )

    def test_the_script_writes_between_the_markers_alone(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        data, page = tmp_path / "report.json", tmp_path / "page.md"
        page.write_text(f"before\n{BEGIN}old\n{END}after\n")
        main(["--count", "2", "--seed", "3", "--jobs", "1", "--json", str(data), "--page", str(page)])
        table = markdown_table(read_report(data))
        assert capsys.readouterr().out == table
        assert page.read_text() == f"before\n{BEGIN}{table}{END}after\n"


def test_the_committed_comparison_is_of_500_fusions_and_good() -> None:
    committed = read_report(COMPARED)
    assert (committed.overall.fusions, committed.first_seed, committed.target) == (500, 0, "sm_90")
    assert committed.overall.mean <= 1.01


def test_the_page_shows_the_committed_comparison() -> None:
    assert shown_in((ROOT / "docs" / "internals" / "segments.md").read_text()) == markdown_table(read_report(COMPARED))
