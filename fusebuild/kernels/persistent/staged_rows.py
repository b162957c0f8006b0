"""Long rows of several axes in the shared memory of a cluster of blocks, which is more than its registers.

Such rows are products of sizes, and for that often longer than what registers hold. A cluster **walks** rows: where a
thread has stored a vector, it copies one of the next row to the same place, so that loads go on while a row is stored.
Rows begin anywhere in a vector, as those with edges in :mod:`fusebuild.kernels.persistent.long_rows` do. Where rows are
so short that two blocks have room on a multiprocessor, one loads and stores while the other one reduces.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from fusebuild.ir.formula import Formula, ceil_div, product, total
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.filling import running_clusters
from fusebuild.kernels.common.rows import (
    MAX_THREADS,
    PARTIAL_BYTES,
    RESERVED_BYTES,
    WARP,
    RowChoice,
    RowThreads,
    check_rows,
    next_power_of_two,
)
from fusebuild.kernels.common.spec import VariantSpec, formula_parameter
from fusebuild.kernels.persistent.long_rows import EDGED_COLUMNS, Edged
from fusebuild.kernels.persistent.moments import Moments, moments_of
from fusebuild.kernels.persistent.way import BLOCKS_AT_A_TIME, STAGED_THREADS, Way, stages


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedHeuristics:
    """A row is in the shared memory of a ``cluster`` of blocks of ``threads``, as far as inputs ``cached`` go. So many
    ``walkers`` share the rows. One sweep reads a row for all reductions that are ``moments`` of the same elements,
    where there are some."""

    threads: RowThreads
    cluster: int
    cached: tuple[int, ...]
    walkers: Formula
    moments: Moments | None

    def grid(self, rows: Formula) -> Formula:
        """Blocks for ``rows`` rows."""
        return product([self.cluster, ("min", rows, self.walkers)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Staged(Way):
    """Rows of any length that vectors cross, up to what the largest cluster holds."""

    TEMPLATE: ClassVar[str] = "inner_staged"
    FOR_ODD_ROWS: ClassVar[bool] = True

    def applies(self, earlier: Collection[type[Way]]) -> bool:
        return Edged in earlier and stages(self)

    def variants(self) -> tuple[VariantSpec, ...]:
        """One. Raises :class:`KnobError` for a choice that no kernel can be made with."""
        way = f"staged_vec{self.vec}_int32"
        proposal = RowChoice(threads_per_row=STAGED_THREADS, rows_per_block=1, min_blocks=BLOCKS_AT_A_TIME)
        choice = decide(way, proposal, self.tuned, self._check)
        threads, cluster = choice.threads.block, self.target.cluster
        half = self._longest(threads, BLOCKS_AT_A_TIME)
        walkers = running_clusters(cluster, total([1, ("le", self.columns, half)]))
        heuristics = StagedHeuristics(
            threads=choice.threads,
            cluster=cluster,
            cached=self.cached,
            walkers=walkers,
            moments=moments_of(self.task, self.domain),
        )
        chunks = ceil_div(self.columns, cluster * threads * self.vec)
        fits: Formula = ("le", self.columns, self._longest(threads, 1))
        return (
            self.rows_variant(
                way,
                (*self.odd_guard, ("lt", EDGED_COLUMNS, self.columns), fits),
                heuristics,
                choice,
                shared_bytes=product([chunks, self._chunk_bytes(threads)]),
                more=(formula_parameter("walkers", walkers, "clusters that share the rows"),),
            ),
        )

    def _chunk_bytes(self, threads: int) -> int:
        """What one vector of each thread of a block takes."""
        return threads * self.vec * self.bytes_of(self.cached)

    def _longest(self, threads: int, blocks: int) -> int:
        """The elements of the longest row of which a multiprocessor holds the parts that so many ``blocks`` have."""
        slots = self.target.cluster * threads // WARP
        exchanged = 2 * next_power_of_two(PARTIAL_BYTES * slots) * sum(self.partials)
        room = self.target.shared_bytes // blocks - RESERVED_BYTES - exchanged
        return room // self._chunk_bytes(threads) * self.target.cluster * threads * self.vec

    def _check(self, choice: RowChoice) -> None:
        choice.require_power_of_two("threads_per_row", WARP, MAX_THREADS)
        check_rows(choice, self.target, most_rows=1)
