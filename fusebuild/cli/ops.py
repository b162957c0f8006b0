"""``fusebuild ops``."""

from __future__ import annotations

import click

from fusebuild.cli.output import Answer, print_text
from fusebuild.cli.verb import Verb


@click.command(cls=Verb, report="list[fusebuild.report.op_reference:OpReference]")
@click.argument("names", nargs=-1)
def ops(names: tuple[str, ...]) -> Answer:
    """Say of each op NAME, or of every op, how it is called, which dtypes it takes, and what an example gives."""
    from fusebuild.report.op_reference import op_reference, op_references, reference_text

    found = [op_reference(name) for name in names] if names else op_references()
    return Answer(report=found, tell=lambda: print_text(reference_text(found)))
