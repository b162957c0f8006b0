"""The row in shared memory: rows beyond the registers, up to what one block may use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from fusebuild.ir.formula import Formula, product
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.rows import MAX_THREADS, RESERVED_BYTES, RowThreads, check_rows, row_threads
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.persistent.heuristics import PersistentHeuristics
from fusebuild.kernels.persistent.way import Way, row_choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared(Way):
    """A row for each block."""

    def variants(self) -> tuple[VariantSpec, ...]:
        way = f"shared_vec{self.vec}_int32"
        wanted = row_threads(max(self.size, 2048 * self.vec), self.vec, 8).per_row
        proposal = row_choice(RowThreads(per_row=min(MAX_THREADS, wanted), rows=1))
        choice = decide(way, proposal, self.tuned, partial(check_rows, target=self.target, most_rows=1))
        heuristics = PersistentHeuristics(threads=choice.threads, storage="shared", chunks=0, cached=self.cached)
        shared_bytes = product([self.bytes_of(self.cached), self.columns])
        fits: Formula = ("le", shared_bytes, self.target.shared_bytes - RESERVED_BYTES)
        return (self.rows_variant(way, (*self.vector_guard, fits), heuristics, choice, shared_bytes=shared_bytes),)
