"""The demo: every recipe compiled for several targets and run on the CPU against the oracle, with one table at the end.

``python -m fusebuild.cli.demo recipes`` does what ``fusebuild compile`` and ``fusebuild verify --target host`` do, and
adds up. A second run compiles nothing.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from fusebuild.errors import FusebuildError, LocatedError, NothingVerifiedError
from fusebuild.oracle.verification import Limits, Verdict, verify_artifact
from fusebuild.pipeline import BuiltArtifact, compile_recipes
from fusebuild.target.table import find_target

HOST = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One recipe: what was built, by target, and what running it on the CPU said."""

    fusion: str
    segments: dict[str, int]
    objects: dict[str, int]
    kernels: int
    cases: int
    verdicts: tuple[Verdict, ...]

    @property
    def ran(self) -> int:
        """The cases small enough to run."""
        return len({tuple(verdict.case.items()) for verdict in self.verdicts})

    @property
    def worst(self) -> Verdict:
        """The verdict nearest to failing, or failed."""
        return max(self.verdicts, key=lambda verdict: (not verdict.ok, verdict.error / (verdict.bound or math.inf)))

    @property
    def ok(self) -> bool:
        return bool(self.verdicts) and all(verdict.ok for verdict in self.verdicts)


def summarize(built: BuiltArtifact, max_elements: int) -> Row:
    """Run the artifact's small cases on the CPU: every variant, aligned and misaligned."""
    planned = built.planned
    return Row(
        fusion=planned.plan.fusion,
        segments={target.target: len(target.segments) for target in planned.plan.targets},
        objects={target: len(kernels) for target, kernels in planned.kernels.items()},
        kernels=len({name for kernels in planned.kernels.values() for name in kernels}),
        cases=len(planned.recipe.fusion.cases),
        verdicts=_verdicts(built.path, max_elements),
    )


def _verdicts(path: Path, max_elements: int) -> tuple[Verdict, ...]:
    """The verdicts of running the artifact. There are none where no case is small enough; its row is then a failure."""
    try:
        return tuple(verify_artifact(path, target=HOST, limits=Limits(max_elements=max_elements)))
    except NothingVerifiedError:
        return ()


def table(rows: Sequence[Row]) -> str:
    """The rows as text, one line each. ``runs`` counts every variant and alignment of every case that ran."""
    targets = list(rows[0].objects)
    head = ["recipe", "segments", "kernels", *targets, "cases", "runs", "worst error", "bound", "ok"]
    lines = [head, *(_cells(row, targets) for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if index else cell.ljust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _cells(row: Row, targets: Sequence[str]) -> list[str]:
    worst = [f"{row.worst.error:.1e}", f"{row.worst.bound:.1e}"] if row.verdicts else ["-", "-"]
    return [
        row.fusion,
        "/".join(map(str, sorted(set(row.segments.values())))),
        str(row.kernels),
        *(str(row.objects[target]) for target in targets),
        f"{row.ran} of {row.cases}",
        str(len(row.verdicts)),
        *worst,
        "ok" if row.ok else "FAIL",
    ]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("recipes", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--out", default="build", show_default=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--arch", default="sm_80,sm_90,sm_100,host", show_default=True, help="Targets; host is added.")
@click.option("--max-elements", default=1_000_000, show_default=True, help="Skip cases with a larger tensor.")
def demo(recipes: tuple[Path, ...], out: Path, arch: str, max_elements: int) -> None:
    """Compile RECIPES, run their small cases on the CPU against the oracle, and print a table; exit 1 if one fails."""
    names = dict.fromkeys([*arch.split(","), HOST])
    targets = [find_target(name) for name in names]
    click.echo(f"compiling for {', '.join(names)}")
    report = compile_recipes(recipes, targets, out)
    click.echo(f"compiled {report.build.compiled} of {report.build.total} objects in {report.build.seconds:.1f} s")
    click.echo(f"running every case of at most {max_elements:,} elements on {HOST}, against the fp64 oracle\n")
    rows = [summarize(artifact, max_elements) for artifact in report.artifacts]
    click.echo(table(rows))
    if not all(row.ok for row in rows):
        sys.exit(1)


def main() -> None:
    """Run the demo; errors of fusebuild end it with their message and exit code."""
    try:
        demo()
    except FusebuildError as error:
        click.echo(str(error) if isinstance(error, LocatedError) else f"error: {error}", err=True)
        sys.exit(error.exit_code)


if __name__ == "__main__":
    main()
