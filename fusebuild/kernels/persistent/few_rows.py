"""Rows that are too few for all multiprocessors: what counts then is how long one row takes.

Many threads share a row, and load all that they need of it at once, before the first reduction. Each has two vectors
at most, and asks for them before it knows whether they are in the row: loads then wait for nothing but addresses, and
those of vectors beyond the row, which take its last one again, cost less than a test before each would.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from fusebuild.ir.formula import Formula
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.rows import RowChoice, check_rows
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.common.sweeps import column_inputs
from fusebuild.kernels.persistent.registers import InRegisters
from fusebuild.kernels.persistent.way import PersistentHeuristics

FEW_ROWS_THREADS = 512
"""Threads that walk a row: many, each with little to do in turn."""

LOADED_BYTES = 192
"""Bytes of inputs that such a thread loads at once: nobody else needs its multiprocessor's registers."""

UNTESTED_VECTORS = 2
"""Vectors of each input that it loads without a test whether they are in the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FewRowsHeuristics(PersistentHeuristics):
    """Vectors beyond the row are loaded as its last one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedAhead(InRegisters):
    """A row for each multiprocessor at most: all that it needs is loaded at once, into the registers of one block."""

    def variants(self) -> tuple[VariantSpec, ...]:
        """None where other kernels load all of a row before the first reduction anyway."""
        ahead = column_inputs(self.task, self.domain)
        if self.vec == 1 or {*ahead} == {*self.cached} or self.rows == 1:
            return ()
        chunks = min(UNTESTED_VECTORS, LOADED_BYTES // self.vector_bytes(ahead))
        return (self._by(chunks, ahead),) if chunks else ()

    def _by(self, chunks: int, ahead: tuple[int, ...]) -> VariantSpec:
        way = f"few_rows_vec{self.vec}_int32"
        proposal = RowChoice(threads_per_row=FEW_ROWS_THREADS, rows_per_block=1, min_blocks=1)
        choice = decide(way, proposal, self.tuned, partial(check_rows, target=self.target, most_rows=1))
        heuristics = FewRowsHeuristics(
            threads=choice.threads,
            storage="registers",
            chunks=chunks,
            cached=ahead,
            early=self.early,
        )
        are_few: Formula = ("le", self.rows, self.target.multiprocessors)
        has_last: Formula = ("lt", 0, self.columns)
        fits: Formula = ("le", self.columns, choice.threads_per_row * chunks * self.vec)
        known = self.known_size(heuristics, choice.min_blocks)
        guard = (*self.vector_guard, are_few, has_last, fits)
        return replace(self.rows_variant(way, guard, heuristics, choice, when_known=known), for_few_rows=True)
