"""``fusebuild inspect``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusebuild.cli.options import SEGMENTATION, case_given, targets_named
from fusebuild.cli.output import Answer, print_text
from fusebuild.cli.verb import Verb
from fusebuild.target.table import Target

if TYPE_CHECKING:
    from fusebuild.segmentation import Search


@click.command(
    cls=Verb, report="fusebuild.report.inspection:InspectReport | list[fusebuild.report.inspection:InspectReport]"
)
@click.argument("path", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option(
    "--arch", "targets", callback=targets_named, help="Targets to show (default: sm_90, or an artifact's own)."
)
@click.option("--case", metavar="SIZES", callback=case_given,
              help="The sizes to show, such as M=1024,N=4096 (default: those of the recipe's first case).")  # fmt: skip
@click.option("--html", "page", type=click.Path(path_type=Path, dir_okay=False),
              help="Write a page here that draws the segments; nothing but a browser is needed to see it.")  # fmt: skip
@SEGMENTATION
def inspect(
    path: Path,
    targets: tuple[Target, ...] | None,
    case: dict[str, int] | None,
    page: Path | None,
    search: Search | None,
) -> Answer:
    """Show the segments of PATH (a recipe or an artifact): why each cut exists, what crosses it, how many bytes, and
    which of its variants a call takes.

    Needs no GPU. With --json and one target the report is one object, with several it is a list.
    """
    from fusebuild.report.inspection import inspections_of

    inspections, fusion = inspections_of(path, targets, search, case)
    if page is not None:
        from fusebuild.report.html import write_page

        write_page(page, inspections, fusion)
    reports = [inspection.report for inspection in inspections]
    shown = inspections if page is None else []
    return Answer(
        report=reports[0] if len(reports) == 1 else reports,
        tell=lambda: print_text("\n".join(inspection.as_text() for inspection in shown)),
    )
