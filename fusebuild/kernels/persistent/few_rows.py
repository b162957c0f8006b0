"""A row for each multiprocessor at most (:mod:`fusebuild.kernels.common.few_rows`): all that it needs is loaded before
the first reduction."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from fusebuild.ir.formula import Formula
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.few_rows import FEW_ROWS_THREADS, FewRows, ways_of_few_rows
from fusebuild.kernels.common.rows import RowChoice, check_rows
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.common.sweeps import column_inputs
from fusebuild.kernels.persistent.heuristics import FewRowsHeuristics
from fusebuild.kernels.persistent.registers import InRegisters


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedAhead(InRegisters):
    """All that a row needs is loaded at once, into the registers of one block."""

    def variants(self) -> tuple[VariantSpec, ...]:
        """None where other kernels load all of a row before the first reduction anyway."""
        ahead = column_inputs(self.task, self.domain)
        if self.vec == 1 or {*ahead} == {*self.cached} or self.rows == 1:
            return ()
        return tuple(self._by(each, ahead) for each in ways_of_few_rows(self.vector_bytes(ahead)))

    def _by(self, few: FewRows, ahead: tuple[int, ...]) -> VariantSpec:
        way = f"{few.name}_vec{self.vec}_int32"
        proposal = RowChoice(threads_per_row=FEW_ROWS_THREADS, rows_per_block=1, min_blocks=1)
        choice = decide(way, proposal, self.tuned, partial(check_rows, target=self.target, most_rows=1))
        heuristics = FewRowsHeuristics(
            threads=choice.threads, storage="registers", chunks=few.chunks, cached=ahead, clamped=few.clamped
        )
        are_few: Formula = ("le", self.rows, self.target.multiprocessors)
        has_last: tuple[Formula, ...] = (("lt", 0, self.columns),) if few.clamped else ()
        fits: Formula = ("le", self.columns, choice.threads_per_row * few.chunks * self.vec)
        known = self.known_size(heuristics, choice.min_blocks)
        guard = (*self.vector_guard, are_few, *has_last, fits)
        return replace(self.rows_variant(way, guard, heuristics, choice, when_known=known), for_few_rows=True)
