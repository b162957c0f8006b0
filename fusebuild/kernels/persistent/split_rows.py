"""Rows that no cluster keeps, in parts: as many blocks as fill the device have a part of a row each.

What a row is reduced to is known when all of its blocks are done, which is when their kernel is. So there is a launch
for each sweep over the rows, which reads them again: its blocks combine the partial results that the sweeps before it
left in scratch, each block those of its row, and leave their own. All launches are of one kernel, to which the number
of the sweep is an argument. What the caches have of a row is what was read last: every other sweep goes backwards.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, simplified
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.finish import partial_dtype, partial_parameters
from fusebuild.kernels.common.lambdas import folded
from fusebuild.kernels.common.rows import MAX_THREADS, WARP, RowChoice, RowThreads, by_level, check_rows
from fusebuild.kernels.common.spec import (
    KnownSizes,
    LaunchSpec,
    VariantSpec,
    formula_parameter,
    kernel_parameters,
    reductions,
)
from fusebuild.kernels.persistent.long_rows import EDGED_COLUMNS, Edged
from fusebuild.kernels.persistent.way import Way

THREADS = 512
"""Threads of a block."""

BLOCKS = 2
"""Blocks whose registers a multiprocessor shall have."""

PARTS = 8
"""Parts of rows for each multiprocessor: several for each block that runs at a time, which end at different times."""

LEAST_VECTORS = 4
"""Vectors of a part for each thread, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitHeuristics:
    """Blocks of ``threads``, each of which has a part of a row."""

    threads: RowThreads


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Way):
    """Rows of several axes, which are products of sizes and for that often very long."""

    TEMPLATE: ClassVar[str] = "inner_split"
    FOR_ODD_ROWS: ClassVar[bool] = True

    def applies(self, earlier: Collection[type[Way]]) -> bool:
        return self.crosses and Edged in earlier

    def variants(self) -> tuple[VariantSpec, ...]:
        """One. Raises :class:`KnobError` for a choice that no kernel can be made with."""
        way = f"split_vec{self.vec}_int32"
        choice = decide(
            way, RowChoice(threads_per_row=THREADS, rows_per_block=1, min_blocks=BLOCKS), self.tuned, self._check
        )
        parts, reduced = self._parts(choice.threads.block), folded(self.task, reductions(self.task))
        kernel = self.kernel(
            self.TEMPLATE,
            SplitHeuristics(threads=choice.threads),
            vec=self.vec,
            min_blocks=choice.min_blocks,
            sizes=KnownSizes(help=False),
        )
        arrays = partial_parameters(self.task, reduced, const=False)
        own = kernel_parameters(self.task, self.domain, arrays)
        sweeps = range(len(by_level(self.task, reductions(self.task))) + 1)
        kernels = (
            replace(
                kernel,
                parameters=(
                    *own,
                    formula_parameter("parts", parts, "of a row, one for each block"),
                    formula_parameter("sweep", sweep, "over all rows"),
                ),
            )
            for sweep in sweeps
        )
        grid, block = product([parts, self.rows]), (choice.threads.block, 1, 1)
        guard = (*self.odd_guard, ("lt", EDGED_COLUMNS, self.columns))
        variant = self.variant(way, choice, guard, kernel, grid, block)
        return (
            replace(
                variant,
                launches=tuple(LaunchSpec(kernel=each, grid=(grid, 1, 1), block=block) for each in kernels),
                scratch=tuple(product([parts, partial_dtype(self.task, fid).bytes, self.rows]) for fid in reduced),
            ),
        )

    def _parts(self, threads: int) -> Formula:
        """The parts of a row: as many as fill the device, of which none is too short for its threads."""
        filling: Formula = ("floor_div", ("mul", PARTS, MULTIPROCESSORS), ("max", 1, self.rows))
        most: Formula = ("floor_div", self.columns, threads * self.vec * LEAST_VECTORS)
        return simplified(("max", 1, ("min", filling, most)))

    def _check(self, choice: RowChoice) -> None:
        choice.require_power_of_two("threads_per_row", WARP, MAX_THREADS)
        check_rows(choice, self.target, most_rows=1)
