"""Errors as ``--json`` says them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fusebuild.errors import Diagnostic, FusebuildError, LocatedError


class ReportedDiagnostic(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is wrong, and where; null for what no place in a file is known of."""

    file: str | None
    line: Annotated[int | None, Meta(description="from 1")]
    column: Annotated[int | None, Meta(description="from 1, in characters")]
    end_column: Annotated[int | None, Meta(description="the column behind the last one, on the same line")]
    message: str
    hint: Annotated[str, Meta(description="what to do; empty where that is not known")]
    severity: Literal["error"]


class FailureReport(msgspec.Struct, frozen=True, kw_only=True):
    """What any verb prints with ``--json`` when it ends with an error, instead of its own report."""

    error: Annotated[str, Meta(description="the class of the error, such as RecipeError")]
    exit_code: int
    diagnostics: tuple[ReportedDiagnostic, ...]


def failure_report(error: FusebuildError) -> FailureReport:
    """The report of a verb that ``error`` ended."""
    return FailureReport(error=type(error).__name__, exit_code=error.exit_code, diagnostics=reported([error]))


def reported(errors: Sequence[FusebuildError]) -> tuple[ReportedDiagnostic, ...]:
    """Everything that ``errors`` say."""
    return tuple(each for error in errors for each in _diagnostics(error))


def _diagnostics(error: FusebuildError) -> list[ReportedDiagnostic]:
    if isinstance(error, LocatedError):
        return [_located(each) for each in error.diagnostics]
    message, _, hint = str(error).partition("\n  hint: ")
    return [
        ReportedDiagnostic(
            file=getattr(error, "path", None),
            line=None,
            column=None,
            end_column=None,
            message=message,
            hint=hint,
            severity="error",
        )
    ]


def _located(diagnostic: Diagnostic) -> ReportedDiagnostic:
    place = diagnostic.location
    return ReportedDiagnostic(
        file=place.path,
        line=place.line,
        column=place.column,
        end_column=place.column + max(place.width, 1) if place.text else None,
        message=diagnostic.message,
        hint=diagnostic.hint,
        severity="error",
    )
