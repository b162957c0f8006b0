"""Rows beyond the registers: in shared memory, up to what one block may use; else each sweep reads its inputs again,
one element at a time with 64-bit indices, which takes all rows that nothing else does: those of several axes that no
vectors cross, and those whose elements are read elsewhere."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

from fusebuild.ir.formula import Formula, product
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.rows import MAX_THREADS, RESERVED_BYTES, RowThreads, check_rows, row_threads
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.persistent.cluster import Cluster
from fusebuild.kernels.persistent.long_rows import Edged
from fusebuild.kernels.persistent.registers import RUNGS
from fusebuild.kernels.persistent.way import PersistentHeuristics, Way, row_choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared(Way):
    """A row in the shared memory of each block: rows beyond the registers, up to what one block may use, where no
    cluster keeps them."""

    def applies(self, earlier: Collection[type[Way]]) -> bool:
        """Unless earlier ways take all rows that are to be fast: long ones in clusters, or those that facts allow, all
        of which one block keeps."""
        _, most = self.extremes
        fit_registers = most is not None and most <= max(RUNGS)
        return not (fit_registers or Cluster in earlier or (Edged in earlier and self.target.cluster > 1))

    def variants(self) -> tuple[VariantSpec, ...]:
        way = f"shared_vec{self.vec}_int32"
        wanted = row_threads(max(self.size, 2048 * self.vec), self.vec, 8).per_row
        proposal = row_choice(RowThreads(per_row=min(MAX_THREADS, wanted), rows=1))
        choice = decide(way, proposal, self.tuned, partial(check_rows, target=self.target, most_rows=1))
        heuristics = PersistentHeuristics(threads=choice.threads, storage="shared", chunks=0, cached=self.cached)
        shared_bytes = product([self.bytes_of(self.cached), self.columns])
        fits: Formula = ("le", shared_bytes, self.target.shared_bytes - RESERVED_BYTES)
        return (self.rows_variant(way, (*self.vector_guard, fits), heuristics, choice, shared_bytes=shared_bytes),)


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements(Way):
    """Any row, element by element."""

    def variants(self) -> tuple[VariantSpec, ...]:
        rows, way = replace(self, vec=1), "reread_scalar_int64"
        proposal = row_choice(row_threads(self.size, 1, 8))
        choice = decide(way, proposal, self.tuned, partial(check_rows, target=self.target))
        heuristics = PersistentHeuristics(threads=choice.threads, storage="reread", chunks=0, cached=())
        return (rows.rows_variant(way, (), heuristics, choice, index="int64_t"),)
