"""``fusebuild schema``: the JSON schemas of recipes, and of what each verb prints with ``--json``."""

from __future__ import annotations

from typing import Any

import click

from fusebuild.cli.output import print_json
from fusebuild.cli.verb import Verb


def reporting() -> dict[str, Verb]:
    """The verbs that have a report, by name."""
    from fusebuild.cli.main import cli

    verbs = {name: verb for name, verb in sorted(cli.commands.items()) if isinstance(verb, Verb)}
    return {name: verb for name, verb in verbs.items() if verb.report is not None}


def _with_schema(context: click.Context, parameter: click.Parameter, value: str) -> str:
    return str(click.Choice(["recipe", *reporting()]).convert(value, parameter, context))


@click.command(cls=Verb)
@click.argument("name", metavar="NAME", callback=_with_schema)
def schema(name: str) -> None:
    """Print the JSON schema of NAME: of a recipe, for editors, or of the report that a verb prints with --json.

    NAME is recipe, or a verb that has --json.
    """
    print_json(schema_of(name))


def schema_of(name: str) -> dict[str, Any]:
    """The schema (draft 2020-12) of ``recipe``, or of the report of the verb ``name``. Raises :class:`KeyError` for
    a name that has none."""
    import msgspec

    from fusebuild.artifact.json_types import path_schema
    from fusebuild.recipe.schema import DIALECT, recipe_schema
    from fusebuild.system.failure import FailureReport

    if name == "recipe":
        return recipe_schema()
    verb = reporting()[name]
    title = {"$schema": DIALECT, "title": f"The report of fusebuild {name} --json"}
    if not verb.prints_json:  # its --json writes a file, which stays as it is where the verb fails
        (report,) = verb.report_types()
        return {**title, **msgspec.json.schema(report, schema_hook=path_schema)}
    types = (*verb.report_types(), FailureReport)
    shapes, shared = msgspec.json.schema_components(types, schema_hook=path_schema, ref_template="#/$defs/{name}")
    return {**title, "anyOf": list(shapes), "$defs": {name: _open(each) for name, each in shared.items()}}


def _open(schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` without a ban on fields that it does not name: a later version may add some."""
    return {key: value for key, value in schema.items() if (key, value) != ("additionalProperties", False)}
