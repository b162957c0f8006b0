"""``check`` and ``compile --frozen`` both say what is stale, and exit 3 where anything is."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusebuild.cli.output import print_json, progress, say
from fusebuild.cli.streams import printable
from fusebuild.errors import StaleError, one_line
from fusebuild.target.table import Target

if TYPE_CHECKING:
    from fusebuild.freshness.verdict import CheckedRecipe
    from fusebuild.segmentation import Search


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
