"""``fusebuild check``. ``compile --frozen`` says what is stale in the same way, and exits with 3 where anything is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusebuild.cli.options import JOBS, JSON, NVCC, OUT, PATHS, targets_named
from fusebuild.cli.output import print_json, progress, say
from fusebuild.cli.streams import printable
from fusebuild.cli.verb import Verb
from fusebuild.errors import StaleError, one_line
from fusebuild.target.table import Target

if TYPE_CHECKING:
    from fusebuild.freshness.verdict import CheckedRecipe
    from fusebuild.segmentation import Search


@click.command(cls=Verb, report="list[fusebuild.freshness.verdict:CheckedRecipe]")
@PATHS
@OUT
@click.option("--arch", "targets", callback=targets_named, help="Targets to expect (default: those in each artifact).")
@click.option("--rebuild", is_flag=True, help="Compile into scratch, too, and compare every byte.")
@JOBS
@NVCC
@JSON
def check(
    paths: Sequence[Path],
    out: Path,
    targets: tuple[Target, ...] | None,
    rebuild: bool,
    jobs: int | None,
    nvcc: str | None,
    as_json: bool,
) -> None:
    """Say whether the artifacts of the recipes in PATHS are fresh; exit 3 when one is not.

    Without --rebuild nothing is compiled, and machine code is compared with what the build recorded beside it.
    """
    if rebuild:
        rebuild_and_report(paths, out, targets, None, nvcc, jobs, as_json)
        return
    from fusebuild.freshness.check import check_recipes

    report_freshness(check_recipes(paths, out, targets=targets, nvcc=nvcc), paths, out, as_json)


def rebuild_and_report(
    paths: Sequence[Path],
    out: Path,
    targets: tuple[Target, ...] | None,
    search: Search | None,
    nvcc: str | None,
    jobs: int | None,
    as_json: bool,
) -> list[Path]:
    """Compile everything into a scratch folder, say which artifacts differ from that, and exit 3 where any does. Gives
    the artifacts where none does."""
    from fusebuild.freshness.rebuild import rebuild_recipes

    with progress("compiling") as on_progress:
        verdicts = rebuild_recipes(
            paths, out, targets=targets, search=search, nvcc=nvcc, jobs=jobs, on_progress=on_progress
        )
    report_freshness(verdicts, paths, out, as_json)
    return [verdict.artifact for verdict in verdicts]


def report_freshness(verdicts: Sequence[CheckedRecipe], paths: Sequence[Path], out: Path, as_json: bool) -> None:
    """Say what is stale, and exit 3 when anything is."""
    from fusebuild.freshness.check import orphans
    from fusebuild.freshness.verdict import Stale, orphan, summary

    orphaned = orphans(paths, out, verdicts)
    if as_json:
        print_json([*verdicts, *map(orphan, orphaned)])
    for verdict in verdicts:
        for reason in verdict.why:
            click.echo(printable(f"{one_line(verdict.recipe)}: stale: {reason}"), err=True)
    for path in orphaned:
        click.echo(printable(f"orphaned: {one_line(path)}: {Stale.NO_RECIPE()}"), err=True)
    if not as_json:
        say(summary(verdicts))
    if not all(verdict.fresh for verdict in verdicts):
        sys.exit(StaleError.exit_code)
