"""The choice of pointwise kernels whose neighbouring threads have neighbouring elements, or vectors of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from fusebuild.kernels.common.choice import Choice
from fusebuild.kernels.common.rows import MAX_THREADS, WARP
from fusebuild.target.table import Target

MOST_UNROLL = 16
"""Vectors that a thread may load before it uses the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseHeuristics(Choice):
    """``unroll`` vectors are loaded before the first is used: the bytes in flight that hide memory latency."""

    FEWER = ("unroll", "threads")

    threads: int
    unroll: int
    min_blocks: int

    def stepped(self, knob: str, value: int) -> Self:
        """A multiprocessor keeps its threads, in larger or smaller blocks."""
        if knob == "threads":
            return replace(self, threads=value, min_blocks=max(1, self.min_blocks * self.threads // value))
        return replace(self, **{knob: value})


def check_elements(choice: PointwiseHeuristics, target: Target) -> None:
    """Raise :class:`KnobError` for blocks that cannot be."""
    choice.require_power_of_two("threads", WARP, MAX_THREADS)
    choice.require_power_of_two("unroll", 1, MOST_UNROLL)
    choice.require_blocks("min_blocks", choice.threads, target.threads_per_multiprocessor)
