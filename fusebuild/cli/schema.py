"""``fusebuild schema``."""

from __future__ import annotations

import click

from fusebuild.cli.output import print_json
from fusebuild.cli.verb import Verb


def _with_schema(context: click.Context, parameter: click.Parameter, value: str) -> str:
    from fusebuild.cli.schemas import reporting

    return str(click.Choice(["recipe", *reporting()]).convert(value, parameter, context))


@click.command(cls=Verb)
@click.argument("name", metavar="NAME", callback=_with_schema)
def schema(name: str) -> None:
    """Print the JSON schema of NAME: of a recipe, for editors, or of the report that a verb prints with --json.

    NAME is recipe, or a verb that has --json.
    """
    from fusebuild.cli.schemas import schema_of

    print_json(schema_of(name))
