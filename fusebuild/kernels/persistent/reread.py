"""Each sweep reads its inputs again: by vectors where rows are too long for anything else, and one element at a time
with 64-bit indices, which takes all rows that nothing else does."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from functools import partial

from fusebuild.ir.formula import Formula
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.rows import RESERVED_BYTES, check_rows, row_threads
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.persistent.cluster import Cluster
from fusebuild.kernels.persistent.heuristics import PersistentHeuristics
from fusebuild.kernels.persistent.way import Way, row_choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Elements(Way):
    """Any row, element by element."""

    def variants(self) -> tuple[VariantSpec, ...]:
        return (replace(self, vec=1).by("reread_scalar_int64", (), "int64_t"),)

    def by(self, way: str, guard: tuple[Formula, ...], index: str) -> VariantSpec:
        choice = decide(
            way, row_choice(row_threads(self.size, self.vec, 8)), self.tuned, partial(check_rows, target=self.target)
        )
        heuristics = PersistentHeuristics(threads=choice.threads, storage="reread", chunks=0, cached=())
        return self.rows_variant(way, guard, heuristics, choice, index=index)


@dataclass(frozen=True, slots=True, kw_only=True)
class Vectors(Elements):
    """Rows by vectors, where those at hand fit neither shared memory nor a cluster."""

    def applies(self, earlier: Collection[type[Way]]) -> bool:
        fits_shared = self.bytes_of(self.cached) * self.size <= self.target.shared_bytes - RESERVED_BYTES
        return self.vec > 1 and Cluster not in earlier and not fits_shared

    def variants(self) -> tuple[VariantSpec, ...]:
        return (self.by(f"reread_vec{self.vec}_int32", self.vector_guard, "int32_t"),)
