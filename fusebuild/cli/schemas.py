"""The JSON schemas that are published: of recipes, and of what each verb prints with ``--json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from fusebuild.artifact.json_types import path_schema
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
    if not verb.prints_json:  # but into a file, which an error leaves as it is
        return {**title, **msgspec.json.schema(verb.report(), schema_hook=path_schema)}
    types = (verb.report(), FailureReport)
    shapes, shared = msgspec.json.schema_components(types, schema_hook=path_schema, ref_template="#/$defs/{name}")
    return {**title, "anyOf": list(shapes), "$defs": {name: _open(each) for name, each in shared.items()}}


def _open(schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` with room for fields that a later version adds, also where an artifact may have no others."""
    return {key: value for key, value in schema.items() if (key, value) != ("additionalProperties", False)}
