"""The JSON schemas that are published: of recipes, and of what each verb prints with ``--json``."""

from __future__ import annotations

from typing import Any

import msgspec

from fusebuild import reports
from fusebuild.recipe_schema import DIALECT, recipe_schema


def schema_of(name: str) -> dict[str, Any]:
    """The schema (draft 2020-12) of ``recipe``, or of the report of the verb ``name``. Raises :class:`KeyError` for
    a name that has none."""
    if name == "recipe":
        return recipe_schema()
    title = {"$schema": DIALECT, "title": f"The report of fusebuild {name} --json"}
    if name == "bench":
        return {**title, **msgspec.json.schema(_report(name))}  # into a file, which an error leaves as it is
    types = (_report(name), reports.FailureReport)
    shapes, shared = msgspec.json.schema_components(types, ref_template="#/$defs/{name}")
    return {**title, "anyOf": list(shapes), "$defs": shared}


def _report(verb: str) -> Any:
    if verb == "bench":
        from fusebuild.bench import Report

        return Report
    return {
        "cache": reports.CacheReport,
        "check": list[reports.CheckedRecipe],
        "compile": reports.CompileReport | list[reports.CheckedRecipe],
        "diff": reports.DiffReport,
        "doctor": list[reports.DoctorFinding],
        "import": list[reports.ImportedRecipe],
        "inspect": reports.InspectReport | list[reports.InspectReport],
        "tune": reports.TuneReport,
        "verify": list[reports.VerifiedCase],
    }[verb]
