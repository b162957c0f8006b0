"""What tuning found: the report of ``fusebuild tune``, for programs and as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from fusebuild.artifact.json_types import Milliseconds, Sizes
from fusebuild.report.aligned import aligned
from fusebuild.report.inspection import knobs_text


class MeasuredKernel(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel beside its neighbours, which differ in one knob."""

    fusion: str
    segment: int
    variant: str
    case: Sizes
    heuristic_milliseconds: Milliseconds
    milliseconds: Milliseconds
    tried: Annotated[int, Meta(description="neighbours that were raced")]
    refused: Annotated[tuple[str, ...], Meta(description="why others were not")]
    changed: Annotated[dict[str, bool | int], Meta(description="knobs that differ from the heuristics'")]
    win: Annotated[float, Meta(description="the share of the heuristics' time that is saved")]


class TuneReport(msgspec.Struct, frozen=True, kw_only=True):
    """``fusebuild tune --json``"""

    target: str
    device: str
    driver: str
    kernels: tuple[MeasuredKernel, ...]
    written: Annotated[tuple[Path, ...], Meta(description="files beside the recipes that changed")]
    skipped: Annotated[tuple[str, ...], Meta(description="kernels that could not be measured, and why")]

    def as_text(self) -> str:
        """A line for each kernel."""
        head = ("kernel", "case", "heuristic ms", "best ms", "win", "tried", "knobs")
        lines = aligned([head, *map(_cells, self.kernels)], names=[0, 1, 6])
        return "\n".join([*lines, *self.skipped]) + "\n"


def _cells(row: MeasuredKernel) -> tuple[str, ...]:
    return (
        f"{row.fusion}.{row.segment} {row.variant}",
        " ".join(f"{name}={size}" for name, size in row.case.items()) or "constant",
        f"{row.heuristic_milliseconds:.4f}",
        f"{row.milliseconds:.4f}",
        f"{100 * row.win:.1f} %" if row.changed else "–",
        str(row.tried),
        knobs_text(row.changed) if row.changed else "the heuristics' own",
    )
