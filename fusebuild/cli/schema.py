"""``fusebuild schema``."""

from __future__ import annotations

import click

from fusebuild.cli.output import print_json
from fusebuild.cli.verb import Verb

SCHEMAS = (
    "recipe", "bench", "cache", "check", "compile", "diff", "doctor", "import", "inspect", "ops", "tune", "verify",
)  # fmt: skip


@click.command(cls=Verb)
@click.argument("name", type=click.Choice(SCHEMAS), metavar="NAME")
def schema(name: str) -> None:
    """Print the JSON schema of NAME: of a recipe, for editors, or of the report that a verb prints with --json.

    NAME is recipe, or a verb: bench, cache, check, compile, diff, doctor, import, inspect, ops, tune, verify.
    """
    from fusebuild.cli.schemas import schema_of

    print_json(schema_of(name))
