"""Rows whose tensors begin anywhere, however long they are, in parts where there are few: as many blocks as fill the
device have a part of a row each.

What a row is reduced to is known when all of its blocks are done, which is when their kernel is. So there is a launch
for each sweep over the rows, which reads them again: its blocks combine the partial results that the sweeps before it
left in scratch, each block those of its row, and leave their own. All launches are of one kernel, to which the number
of the sweep is an argument. What the caches have of a row is what was read last: every other sweep goes backwards.
Where there are rows enough, each has one part, and the first launch does all sweeps.

A sum and the squares around what follows from it take one sweep (:mod:`fusebuild.kernels.persistent.moments`): each
block leaves the sum of its part and the squares around that part's own mean.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, difference, product, simplified, total
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.finish import partial_dtype, partial_parameters
from fusebuild.kernels.common.lambdas import folded
from fusebuild.kernels.common.planner import FEW
from fusebuild.kernels.common.rows import MAX_THREADS, WARP, RowChoice, RowThreads, by_level, check_rows
from fusebuild.kernels.common.spec import (
    KernelSpec,
    KnownSizes,
    VariantSpec,
    formula_parameter,
    kernel_parameters,
    reductions,
)
from fusebuild.kernels.persistent.moments import Moments, moments_of
from fusebuild.kernels.persistent.way import Way
from fusebuild.ops.table import op_of

PARTS = 8
"""Parts of rows for each multiprocessor: several for each block that runs at a time, which end at different times."""

LEAST_VECTORS = 4
"""Vectors of a part for each thread, at least."""

LONG_PART = 16
"""The same where there are several parts for each block that runs at a time: where they would be shorter, all blocks
run at a time."""

THREADS, BLOCKS = 256, 3
"""Threads of a block, and blocks whose registers a multiprocessor shall have."""

SHORT, WARP_ROW = 256, 2048
"""Elements of the longest row that a warp has where tensors begin anywhere, and of that where rows are many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitHeuristics:
    """Blocks of ``threads``, each of which has a part of a row. One sweep reads it for all reductions that are
    ``moments`` of the same elements, where there are some. Tensors begin ``anywhere``: vectors are aligned in that
    one."""

    threads: RowThreads
    moments: Moments | None
    anywhere: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Anywhere(Way):
    """Rows of any length whose tensors begin anywhere: all that nothing else takes. Vectors are aligned in one of the
    tensors, and cut out of the aligned words around them in others. Short rows have a warp each."""

    TEMPLATE: ClassVar[str] = "inner_split"

    def applies(self, earlier: Collection[type[Way]]) -> bool:
        domain, elements = self.domain, self.domain.points(self.domain.every)
        is_one_run = domain.reduced == (domain.inner,) and bool(domain.kept) and not domain.sources
        is_small = isinstance(elements, int) and elements <= FEW
        ops = [op_of(expr) for expr in self.task.steps]
        return (
            is_one_run
            and self.vec > 1
            and self._aligned is not None
            and not is_small
            and not any(op.running for op in ops)
        )

    @property
    def _aligned(self) -> int | None:
        """The tensor in which vectors are aligned: one that is stored, or else one that is read; None where no tensor
        has rows side by side."""
        flat = self.domain.flat
        return next((fid for fid in self.task.outputs if fid in flat), next(iter(flat), None))

    def variants(self) -> tuple[VariantSpec, ...]:
        aligned = self._aligned
        assert aligned is not None
        way = f"anywhere_vec{self.vec}_int64"
        proposal = RowChoice(threads_per_row=THREADS, rows_per_block=1, min_blocks=BLOCKS)
        choice = decide(way, proposal, self.tuned, self._check)
        threads = choice.threads.block
        heuristics = SplitHeuristics(threads=choice.threads, moments=self._moments, anywhere=aligned)
        parts = self._parts(threads)
        kernel = self._kernel_of_parts(heuristics, choice, parts)
        beside = difference(threads // WARP, product([threads // WARP - 1, difference(1, self._are_short)]))
        blocks: Formula = ("ceil_div", product([parts, self.rows]), beside)
        return (self._in_sweeps(self.variant(way, choice, (), kernel, 0, (threads, 1, 1)), parts, blocks),)

    @property
    def _moments(self) -> Moments | None:
        return moments_of(self.task, self.domain)

    def _kernel_of_parts(self, heuristics: SplitHeuristics, choice: RowChoice, parts: Formula) -> KernelSpec:
        """The kernel of all launches, whose parameters are those that its sweeps share."""
        arrays, threads = partial_parameters(self.task, self._reduced, const=False), choice.threads.block
        team = total([threads, product([WARP - threads, self._are_short])])
        return self.kernel(
            self.TEMPLATE,
            heuristics,
            vec=self.vec,
            index="int64_t",
            parameters=(
                *kernel_parameters(self.task, self.domain, arrays),
                formula_parameter("parts", parts, "of a row, one for each block"),
                formula_parameter("team", team, "threads of a row, or of a part of it"),
            ),
            min_blocks=choice.min_blocks,
            sizes=KnownSizes(help=False),
        )

    @property
    def _reduced(self) -> list[int]:
        """What reductions give."""
        return folded(self.task, reductions(self.task))

    def _in_sweeps(self, variant: VariantSpec, parts: Formula, blocks: Formula) -> VariantSpec:
        """``variant`` with a launch for each sweep over the ``parts`` of rows. Where rows have one part each, the first
        one does all that is to be done with its ``blocks``, and the others have none."""
        (launch,) = variant.launches
        reading = 1 if self._moments else len(by_level(self.task, reductions(self.task)))
        grids = [blocks, *[product([("lt", 1, parts), product([parts, self.rows])])] * reading]
        launches = (
            replace(
                launch,
                kernel=replace(
                    launch.kernel,
                    parameters=(
                        *launch.kernel.parameters,
                        formula_parameter("sweep", sweep, "over all rows, or the first of all of them"),
                    ),
                ),
                grid=(grid, 1, 1),
            )
            for sweep, grid in enumerate(grids)
        )
        scratch = (product([parts, partial_dtype(self.task, fid).bytes, self.rows]) for fid in self._reduced)
        return replace(variant, launches=tuple(launches), scratch=tuple(scratch))

    def _parts(self, threads: int) -> Formula:
        """The parts of a row: as many as fill the device, several times where they are long, of which none is too
        short for its threads."""
        rows: Formula = ("max", 1, self.rows)
        filling: Formula = ("floor_div", ("mul", PARTS, MULTIPROCESSORS), rows)
        at_once: Formula = ("floor_div", ("mul", BLOCKS, MULTIPROCESSORS), rows)
        most, long = (
            ("floor_div", self.columns, threads * self.vec * vectors) for vectors in (LEAST_VECTORS, LONG_PART)
        )
        wanted: Formula = ("max", at_once, product([filling, ("le", filling, long)]))
        return simplified(("max", 1, ("min", wanted, most)))

    def _check(self, choice: RowChoice) -> None:
        choice.require_power_of_two("threads_per_row", WARP, MAX_THREADS)
        check_rows(choice, self.target, most_rows=1)

    @property
    def _are_short(self) -> Formula:
        """1 where a row has a warp, else 0: where it is short, or less short and there are more rows than blocks."""
        are_many: Formula = ("lt", product([BLOCKS, MULTIPROCESSORS]), self.rows)
        return ("le", self.columns, total([SHORT, product([WARP_ROW - SHORT, are_many])]))
