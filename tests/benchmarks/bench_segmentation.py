"""How good the heuristic cuts are: their predicted time over that of the best cut there is, on random Fusions.

``PYTHONPATH=tests python -m benchmarks.bench_segmentation`` compares, prints the table, and keeps it: ``--json FILE``
as data, ``--page FILE`` between the markers there. ``make bench-segmentation`` writes what the page on segments shows.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

from fusebuild.segmentation import segment
from fusebuild.segmentation.draft import Problem
from fusebuild.segmentation.exact import exact_cover, rules_of
from fusebuild.target.table import TARGETS
from support.covers import seconds
from support.random_fusions import atom_count, random_fusion

MOST_JOBS = 2
BEGIN, END = "<!-- segmentation:begin -->\n", "<!-- segmentation:end -->"
ROUNDING = 1e-9
"""Costs closer than this, relative to each other, are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One Fusion: predicted seconds and segments of the heuristic cut and of the exact one."""

    seed: int
    atoms: int
    heuristic_seconds: float
    exact_seconds: float
    heuristic_segments: int
    exact_segments: int

    @property
    def ratio(self) -> float:
        return self.heuristic_seconds / self.exact_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Some comparisons together; ``optimal`` is the share of those whose heuristic cut is as good as any."""

    fusions: int
    optimal: float
    mean: float
    worst: float
    heuristic_segments: float
    exact_segments: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """What the page on segments shows: a summary for each number of atoms and one of all, and the worst comparisons."""

    target: str
    first_seed: int
    by_atoms: dict[str, Summary]
    overall: Summary
    worst: tuple[Comparison, ...]


def compare(seed: int, target_name: str = "sm_90") -> Comparison:
    """Both cuts of the random Fusion of ``seed``."""
    fusion, target = random_fusion(seed), TARGETS[target_name]
    problem = replace(Problem.of(fusion, target), dependencies=rules_of(fusion))
    acceptance, costs = problem.acceptance, problem.costs
    heuristic = [each.task for each in segment(fusion, target).segments]
    exact = exact_cover(problem)
    return Comparison(
        seed=seed,
        atoms=atom_count(fusion),
        heuristic_seconds=seconds(heuristic, acceptance, costs),
        exact_seconds=seconds(exact, acceptance, costs),
        heuristic_segments=len(heuristic),
        exact_segments=len(exact),
    )


def report(comparisons: Sequence[Comparison], target_name: str = "sm_90") -> Report:
    """The report on ``comparisons``, which are in the order of their seeds."""
    counts = sorted({each.atoms for each in comparisons})
    return Report(
        target=target_name,
        first_seed=comparisons[0].seed,
        by_atoms={str(count): _summary(each for each in comparisons if each.atoms == count) for count in counts},
        overall=_summary(comparisons),
        worst=tuple(sorted(comparisons, key=lambda each: (-each.ratio, each.seed))[:5]),
    )


def _summary(comparisons: Iterable[Comparison]) -> Summary:
    some = list(comparisons)
    ratios = [each.ratio for each in some]
    return Summary(
        fusions=len(some),
        optimal=sum(ratio < 1 + ROUNDING for ratio in ratios) / len(some),
        mean=sum(ratios) / len(some),
        worst=max(ratios),
        heuristic_segments=sum(each.heuristic_segments for each in some) / len(some),
        exact_segments=sum(each.exact_segments for each in some) / len(some),
    )


def markdown_table(report: Report) -> str:
    """The table that the page on segments shows."""
    lines = [
        f"{report.overall.fusions} random fusions, seeds from {report.first_seed}, on {report.target}: "
        "predicted time of the heuristic cut over that of the exact one.",
        "",
        "| atoms | fusions | optimal | mean | worst | segments | segments of the best |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, each in (*report.by_atoms.items(), ("all", report.overall)):
        lines.append(
            f"| {name} | {each.fusions} | {each.optimal:.1%} | {each.mean:.4f} | {each.worst:.4f} "
            f"| {each.heuristic_segments:.2f} | {each.exact_segments:.2f} |"
        )
    worst = ", ".join(f"{each.seed} ({each.ratio:.4f})" for each in report.worst if each.ratio >= 1 + ROUNDING)
    return "\n".join([*lines, "", f"Worst seeds: {worst or 'none'}."]) + "\n"


def write_report(report: Report, path: Path) -> None:
    """``report`` as JSON."""
    path.write_text(json.dumps(asdict(report), indent=2) + "\n")


def read_report(path: Path) -> Report:
    """The report that :func:`write_report` wrote."""
    data = json.loads(path.read_text())
    return Report(
        target=data["target"],
        first_seed=data["first_seed"],
        by_atoms={name: Summary(**each) for name, each in data["by_atoms"].items()},
        overall=Summary(**data["overall"]),
        worst=tuple(Comparison(**each) for each in data["worst"]),
    )


def shown_in(text: str) -> str:
    """What stands between the markers in ``text``."""
    return text.split(BEGIN)[1].split(END)[0]


def _compare_all(seeds: Sequence[int], jobs: int, target_name: str) -> list[Comparison]:
    comparisons = []
    with ProcessPoolExecutor(max_workers=min(jobs, MOST_JOBS)) as pool:
        for each in pool.map(partial(compare, target_name=target_name), seeds, chunksize=8):
            comparisons.append(each)
            if len(comparisons) % 100 == 0 or len(comparisons) == len(seeds):
                print(f"{len(comparisons)} of {len(seeds)} fusions", file=sys.stderr)
    return comparisons


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare heuristic cuts with exact ones on random fusions.")
    parser.add_argument("--count", type=int, default=500, help="fusions (default: 500)")
    parser.add_argument("--seed", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--jobs", type=int, default=MOST_JOBS, help=f"processes, at most {MOST_JOBS}")
    parser.add_argument("--target", default="sm_90", choices=sorted(TARGETS))
    parser.add_argument("--json", type=Path, help="write the report here")
    parser.add_argument("--page", type=Path, help="write the table between the markers here")
    given = parser.parse_args(arguments)
    seeds = range(given.seed, given.seed + given.count)
    made = report(_compare_all(seeds, given.jobs, given.target), given.target)
    table = markdown_table(made)
    print(table, end="")
    if given.json:
        write_report(made, given.json)
    if given.page:
        text = given.page.read_text()
        given.page.write_text(text.replace(BEGIN + shown_in(text) + END, BEGIN + table + END))


if __name__ == "__main__":
    main()
