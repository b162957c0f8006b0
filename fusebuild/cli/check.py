"""``fusebuild check``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from fusebuild.cli.freshness import rebuild_and_report, report_freshness
from fusebuild.cli.options import JSON, NVCC, OUT, PATHS, targets_named
from fusebuild.cli.verb import Verb
from fusebuild.target.table import Target


@click.command(cls=Verb, report="list[fusebuild.freshness.verdict:CheckedRecipe]")
@PATHS
@OUT
@click.option("--arch", "targets", callback=targets_named, help="Targets to expect (default: those in each artifact).")
@click.option("--rebuild", is_flag=True, help="Compile into scratch, too, and compare every byte.")
@click.option("-j", "--jobs", type=click.IntRange(min=1), help="Compilers at a time (default: one for each CPU).")
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
