"""What a sweep of choices found: the report of ``fusebuild tune --sweep``, for programs and as a table."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from fusebuild.artifact.json_types import Milliseconds, Sizes
from fusebuild.report.aligned import aligned

CLOSE = 0.05
"""A choice is good where no other one takes less time by more than this share of its own."""


class MeasuredChoice(msgspec.Struct, frozen=True, kw_only=True):
    """What the executor takes at a case, beside the fastest of all variants that may run there."""

    fusion: str
    case: Sizes
    least_bytes: Annotated[int, Meta(description="bytes that any implementation must move")]
    tried: Annotated[int, Meta(description="variants that may run there, each of which was timed")]
    variants: Annotated[tuple[str, ...], Meta(description="what the executor takes, segment by segment")]
    milliseconds: Milliseconds
    best_variants: tuple[str, ...]
    best_milliseconds: Milliseconds

    @property
    def loss(self) -> float:
        """The share of the time that the fastest variant would save."""
        return 1 - self.best_milliseconds / self.milliseconds if self.milliseconds else 0.0

    @property
    def is_close(self) -> bool:
        """Whether nothing else is faster by more than :data:`CLOSE`."""
        return self.loss <= CLOSE


class ChoiceReport(msgspec.Struct, frozen=True, kw_only=True):
    """``fusebuild tune --sweep --json``"""

    target: str
    device: str
    driver: str
    count: Annotated[int, Meta(description="sizes drawn for each recipe")]
    seed: int
    choices: tuple[MeasuredChoice, ...]
    wrong: Annotated[tuple[str, ...], Meta(description="cases that give wrong results or fail otherwise")]
    too_large: Annotated[tuple[str, ...], Meta(description="cases that do not fit the memory of the device")]

    def as_text(self) -> str:
        """A line for each recipe, then one for each case where another variant would have won, the worst first."""
        fusions = dict.fromkeys(each.fusion for each in self.choices)
        head = ("recipe", "cases", "with a choice", f"within {CLOSE:.0%}", "median loss", "largest loss")
        rows = [_summary(name, [each for each in self.choices if each.fusion == name]) for name in fusions]
        missed = sorted((each for each in self.choices if not each.is_close), key=lambda each: -each.loss)
        tables = [aligned([head, *rows], names=[0])]
        if missed:
            columns = ("recipe", "case", "taken", "ms", "fastest", "ms", "loss")
            tables.append(aligned([columns, *map(_cells, missed)], names=[0, 1, 2, 4]))
        parts = ["\n".join(lines) for lines in (*tables, [*self.wrong, *self.too_large]) if lines]
        return "\n\n".join(parts) + "\n"


def _summary(name: str, choices: Sequence[MeasuredChoice]) -> tuple[str, ...]:
    losses = [each.loss for each in choices]
    return (
        name,
        str(len(choices)),
        str(sum(each.tried > 1 for each in choices)),
        str(sum(each.is_close for each in choices)),
        f"{statistics.median(losses):.1%}",
        f"{max(losses):.1%}",
    )


def _cells(row: MeasuredChoice) -> tuple[str, ...]:
    return (
        row.fusion,
        " ".join(f"{name}={size}" for name, size in row.case.items()),
        ", ".join(row.variants),
        f"{row.milliseconds:.4f}",
        ", ".join(row.best_variants),
        f"{row.best_milliseconds:.4f}",
        f"{row.loss:.1%}",
    )
