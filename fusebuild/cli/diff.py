"""``fusebuild diff``."""

from __future__ import annotations

from pathlib import Path

import click

from fusebuild.cli.output import Answer, print_text
from fusebuild.cli.verb import Verb


@click.command("diff", cls=Verb, report="fusebuild.report.diff:DiffReport")
@click.argument("old", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.argument("new", type=click.Path(path_type=Path, exists=True, dir_okay=False))
def diff_command(old: Path, new: Path) -> Answer:
    """Show what the artifact NEW has that OLD has not: segments, bytes, kernels, registers.

    Bytes are those of the first case of NEW's recipe. Needs no GPU. The exit code is 0 for artifacts that differ, too.
    """
    from fusebuild.artifact.file import open_artifact
    from fusebuild.recipe.inside import recipe_in
    from fusebuild.report.diff import compare

    before, after = open_artifact(old), open_artifact(new)
    fusion = recipe_in(after).fusion
    diff = compare(before, after, fusion.cases[0] if fusion.cases else {})
    return Answer(report=diff, tell=lambda: print_text(diff.as_text()))
