"""What tuning found, as data and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypedDict

from msgspec import Meta

from fusebuild.artifact.json_types import Milliseconds, Sizes
from fusebuild.report.inspection import knobs_text


class TunedKernel(TypedDict):
    """A kernel beside its neighbours, which differ in one knob."""

    fusion: str
    segment: int
    variant: str
    case: Sizes
    heuristic_milliseconds: Milliseconds
    milliseconds: Milliseconds
    tried: Annotated[int, Meta(description="neighbours that were raced")]
    refused: Annotated[list[str], Meta(description="why others were not")]
    changed: Annotated[dict[str, bool | int], Meta(description="knobs that differ from the heuristics'")]
    win: Annotated[float, Meta(description="the share of the heuristics' time that is saved")]


class TuneReport(TypedDict):
    """``fusebuild tune --json``"""

    target: str
    device: str
    driver: str
    kernels: list[TunedKernel]
    written: list[str]
    skipped: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One kernel. Times are medians in milliseconds; ``tried`` counts the neighbours that were raced, ``refused`` has
    the reasons why others were not, ``changed`` the knobs that differ from the heuristics' choice."""

    fusion: str
    segment: int
    variant: str
    case: Mapping[str, int]
    heuristic_milliseconds: float
    milliseconds: float
    tried: int
    refused: tuple[str, ...]
    changed: Mapping[str, int]

    @property
    def win(self) -> float:
        """The share of the heuristics' time that is saved."""
        return 1 - self.milliseconds / self.heuristic_milliseconds if self.changed else 0.0

    def as_json(self) -> TunedKernel:
        """The same as JSON has it."""
        return {
            "fusion": self.fusion,
            "segment": self.segment,
            "variant": self.variant,
            "case": dict(self.case),
            "heuristic_milliseconds": self.heuristic_milliseconds,
            "milliseconds": self.milliseconds,
            "tried": self.tried,
            "refused": list(self.refused),
            "changed": {**self.changed},
            "win": self.win,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneFindings:
    """All kernels of one run, what they were measured on, the files that changed, and the kernels that could not be
    measured, with the reason."""

    target: str
    device: str
    driver: str
    rows: tuple[Row, ...]
    written: tuple[Path, ...]
    skipped: tuple[str, ...] = ()

    def as_json(self) -> TuneReport:
        """The same as JSON has it."""
        return {
            "target": self.target,
            "device": self.device,
            "driver": self.driver,
            "kernels": [row.as_json() for row in self.rows],
            "written": [path.as_posix() for path in self.written],
            "skipped": [*self.skipped],
        }

    def as_text(self) -> str:
        """A line for each kernel."""
        head = ("kernel", "case", "heuristic ms", "best ms", "win", "tried", "knobs")
        lines = [head, *map(_cells, self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join([*(_line(line, widths) for line in lines), *self.skipped]) + "\n"


_NUMBERS = (2, 3, 4, 5)
"""The columns that hold numbers."""


def _line(cells: tuple[str, ...], widths: list[int]) -> str:
    placed = [
        cell.rjust(width) if column in _NUMBERS else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(placed).rstrip()


def _cells(row: Row) -> tuple[str, ...]:
    return (
        f"{row.fusion}.{row.segment} {row.variant}",
        " ".join(f"{name}={size}" for name, size in row.case.items()) or "constant",
        f"{row.heuristic_milliseconds:.4f}",
        f"{row.milliseconds:.4f}",
        f"{100 * row.win:.1f} %" if row.changed else "–",
        str(row.tried),
        knobs_text(row.changed) if row.changed else "the heuristics' own",
    )
