"""The JSON schemas that are published: of recipes, and of what each verb prints with ``--json``."""

from __future__ import annotations

from typing import Any

import msgspec

from fusebuild.artifact.json_types import path_schema
from fusebuild.definition.script import ImportedRecipe
from fusebuild.freshness.incremental import CompileReport
from fusebuild.freshness.verdict import CheckedRecipe
from fusebuild.oracle.verification import VerifiedCase
from fusebuild.recipe.schema import DIALECT, recipe_schema
from fusebuild.report.cache import CacheReport
from fusebuild.report.diff import DiffReport
from fusebuild.report.doctor import DoctorFinding
from fusebuild.report.inspection import InspectReport
from fusebuild.report.op_reference import OpReference
from fusebuild.system.failure import FailureReport
from fusebuild.tuning.report import TuneReport


def schema_of(name: str) -> dict[str, Any]:
    """The schema (draft 2020-12) of ``recipe``, or of the report of the verb ``name``. Raises :class:`KeyError` for
    a name that has none."""
    if name == "recipe":
        return recipe_schema()
    title = {"$schema": DIALECT, "title": f"The report of fusebuild {name} --json"}
    if name == "bench":
        return {
            **title,
            **msgspec.json.schema(_report(name), schema_hook=path_schema),
        }  # into a file, which an error leaves as it is
    types = (_report(name), FailureReport)
    shapes, shared = msgspec.json.schema_components(types, schema_hook=path_schema, ref_template="#/$defs/{name}")
    return {**title, "anyOf": list(shapes), "$defs": {name: _open(each) for name, each in shared.items()}}


def _open(schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` with room for fields that a later version adds, also where an artifact may have no others."""
    return {key: value for key, value in schema.items() if (key, value) != ("additionalProperties", False)}


def _report(verb: str) -> Any:
    if verb == "bench":
        from fusebuild.bench import Report

        return Report
    return {
        "cache": CacheReport,
        "check": list[CheckedRecipe],
        "compile": CompileReport | list[CheckedRecipe],
        "diff": DiffReport,
        "doctor": list[DoctorFinding],
        "import": list[ImportedRecipe],
        "inspect": InspectReport | list[InspectReport],
        "ops": list[OpReference],
        "tune": TuneReport,
        "verify": list[VerifiedCase],
    }[verb]
