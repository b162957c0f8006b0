"""What the family decides: how its threads walk, and how they access memory."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fusebuild.kernels.common.choice import Choice
from fusebuild.kernels.common.planner import Width
from fusebuild.kernels.common.rows import MAX_THREADS, WARP
from fusebuild.kernels.common.spec import VectorLayout


class Step(Enum):
    """What a kernel does of a scan."""

    WHOLE = "all of it: it walks rows or columns from end to end"
    SUMS = "it walks parts of them, and leaves what each combines to in scratch"
    PREFIXES = "it scans what the parts combine to"
    RESULTS = "it walks the same parts, from what all parts before them combine to"


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanHeuristics(Choice):
    """``threads`` of a block: they share a row, or each has columns of its own. Those of a row may load what they scan
    next ``ahead``. The sizes of the first case play no part."""

    FEWER = ("ahead", "threads")

    threads: int
    ahead: bool = False

    @property
    def step(self) -> Step:
        return Step.WHOLE

    def check(self) -> None:
        """Raise :class:`KnobError` for blocks that cannot be."""
        self.require_power_of_two("threads", WARP, MAX_THREADS)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartHeuristics:
    """``threads`` of a block that does one ``step`` of a scan in parts. Those of a row load what they scan next
    ahead."""

    threads: int
    step: Step

    @property
    def ahead(self) -> bool:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """How the vectors of a kernel are accessed, and where they begin."""

    width: Width
    vectors: VectorLayout = VectorLayout.ALIGNED
