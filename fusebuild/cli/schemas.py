"""The JSON schemas that are published: of recipes, and of what each verb prints with ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fusebuild.cli.main import cli
from fusebuild.cli.verb import Verb
from fusebuild.recipe.schema import DIALECT, recipe_schema
from fusebuild.system.failure import FailureReport


def reporting() -> Mapping[str, Verb]:
    """The verbs that have a report, by name."""
    verbs = {name: verb for name, verb in sorted(cli.commands.items()) if isinstance(verb, Verb)}
    return {name: verb for name, verb in verbs.items() if verb.report is not None}


def schema_of(name: str) -> dict[str, Any]:
    """The schema (draft 2020-12) of ``recipe``, or of the report of the verb ``name``. Raises :class:`KeyError` for
    a name that has none."""
    if name == "recipe":
        return recipe_schema()
    verb = reporting()[name]
    assert verb.report is not None
    title = {"$schema": DIALECT, "title": f"The report of fusebuild {name} --json"}
    if not verb.prints_json:
        return {**title, **msgspec.json.schema(verb.report())}  # into a file, which an error leaves as it is
    shapes, shared = msgspec.json.schema_components((verb.report(), FailureReport), ref_template="#/$defs/{name}")
    return {**title, "anyOf": list(shapes), "$defs": shared}
