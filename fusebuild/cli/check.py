"""``fusebuild check``. ``compile --frozen`` says what is stale in the same way, and exits with 3 where anything is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fusebuild.cli.options import JOBS, NVCC, OUT, PATHS, targets_named
from fusebuild.cli.output import Answer, progress, say
from fusebuild.cli.streams import printable
from fusebuild.cli.verb import Verb
from fusebuild.errors import StaleError, one_line
from fusebuild.target.table import Target

if TYPE_CHECKING:
    from fusebuild.freshness.verdict import CheckedRecipe


@click.command(cls=Verb, report="list[fusebuild.freshness.verdict:CheckedRecipe]")
@PATHS
@OUT
@click.option("--arch", "targets", callback=targets_named, help="Targets to expect (default: those in each artifact).")
@click.option("--rebuild", is_flag=True, help="Compile into scratch, too, and compare every byte.")
@JOBS
@NVCC
def check(
    paths: Sequence[Path],
    out: Path,
    targets: tuple[Target, ...] | None,
    rebuild: bool,
    jobs: int | None,
    nvcc: str | None,
) -> Answer:
    """Say whether the artifacts of the recipes in PATHS are fresh; exit 3 when one is not.

    Without --rebuild nothing is compiled, and machine code is compared with what the build recorded beside it.
    """
    from fusebuild.freshness.check import check_recipes

    if rebuild:
        verdicts = rebuilt(paths, out, targets=targets, nvcc=nvcc, jobs=jobs)
    else:
        verdicts = check_recipes(paths, out, targets=targets, nvcc=nvcc)
    return freshness(verdicts, paths, out)


def rebuilt(paths: Sequence[Path], out: Path, **how: Any) -> tuple[CheckedRecipe, ...]:
    """What compiling everything into a scratch folder, as ``how`` says, tells of the artifacts in ``out``."""
    from fusebuild.freshness.rebuild import rebuild_recipes

    with progress("compiling") as on_progress:
        return rebuild_recipes(paths, out, on_progress=on_progress, **how)


def freshness(verdicts: Sequence[CheckedRecipe], paths: Sequence[Path], out: Path) -> Answer:
    """Say what is stale, on stderr; the exit code is 3 when anything is."""
    from fusebuild.freshness.check import orphans
    from fusebuild.freshness.verdict import Stale, orphan, summary

    orphaned = orphans(paths, out, verdicts)
    for verdict in verdicts:
        for reason in verdict.why:
            click.echo(printable(f"{one_line(verdict.recipe)}: stale: {reason}"), err=True)
    for path in orphaned:
        click.echo(printable(f"orphaned: {one_line(path)}: {Stale.NO_RECIPE()}"), err=True)
    return Answer(
        report=[*verdicts, *map(orphan, orphaned)],
        tell=lambda: say(summary(verdicts)),
        exit_code=0 if all(verdict.fresh for verdict in verdicts) else StaleError.exit_code,
    )
