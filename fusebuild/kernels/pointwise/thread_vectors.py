"""The choice of pointwise kernels whose threads have several vectors that are not neighbours."""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.kernels.common.choice import Choice
from fusebuild.kernels.common.rows import MAX_THREADS, WARP
from fusebuild.target.table import Target

MOST_VECTORS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorsChoice(Choice):
    """Blocks of ``threads``, each of which has so many ``vectors`` at most."""

    FEWER = ("vectors", "threads")

    threads: int
    vectors: int
    min_blocks: int


def check_vectors(choice: VectorsChoice, target: Target) -> None:
    """Raise :class:`KnobError` for blocks that cannot be."""
    choice.require_power_of_two("threads", WARP, MAX_THREADS)
    choice.require_power_of_two("vectors", 1, MOST_VECTORS)
    choice.require_blocks("min_blocks", choice.threads, target.threads_per_multiprocessor)
