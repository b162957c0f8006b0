"""Rows that no cluster keeps well: a block reduces one part of a row and stores another that trails behind.

Rows of several axes are such, which are products of sizes and for that often very long, and those that read what
differs from sample to sample, which takes more room than they do.

What a row is reduced to is known when all of its parts have been read, and by then it is no longer on chip, but L2 has
it still, if not too much has been read after it. So there is one launch, whose blocks go through the parts of all rows
in order: each reads one part and reduces it, and then stores the part that so many parts before, which it reads again.
That is a row's parts, and as many more as blocks are ahead of those that are not done: it seldom waits. The block that
reads the last part of a row combines the partial results of all, in their order. Memory is read once and written once;
before, in a launch for each sweep, all was read twice, from memory.

A block draws its turn when it begins, and waits for nothing but what blocks with earlier turns leave before they wait
themselves: it would go on even if no other block ran at the time.

A sum and the squares around what follows from it take one reading (:mod:`fusebuild.kernels.persistent.moments`): each
block has the squares around the mean of its own part.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, ceil_div, product, total
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.finish import partial_dtype, partial_parameters
from fusebuild.kernels.common.lambdas import folded
from fusebuild.kernels.common.rows import MAX_THREADS, WARP, RowChoice, RowThreads, by_level, check_rows
from fusebuild.kernels.common.spec import (
    KnownSizes,
    VariantSpec,
    formula_parameter,
    kernel_parameters,
    reductions,
)
from fusebuild.kernels.common.tickets import TicketCounters
from fusebuild.kernels.persistent.long_rows import EDGED_COLUMNS, Edged, shared_by_some
from fusebuild.kernels.persistent.moments import Moments, moments_of
from fusebuild.kernels.persistent.way import Way

MOST_VECTORS = 8
"""Vectors of each input that a thread has of a part, at most."""

THREADS, BLOCKS, PART_REGISTERS = 256, 4, 32
"""Threads of a block, blocks whose registers a multiprocessor shall have, and registers that a thread's vectors may
fill. Blocks are many rather than large: while one waits for what another has left, others load and store."""

CUTTING_THREADS, CUTTING_BLOCKS, CUTTING_REGISTERS = 256, 3, 24
"""The same where threads cut what rows share out of unaligned words, which fill registers, too."""

GATHERING_BLOCKS = 3
"""Blocks where vectors gather what pieces of a row have, such as its channels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailingHeuristics:
    """Blocks of ``threads``, each of which has so many ``vectors`` of a part of a row. One reading serves all
    reductions that are ``moments`` of the same elements, where there are some. Inputs ``of_samples`` begin anywhere."""

    threads: RowThreads
    vectors: int
    moments: Moments | None
    of_samples: tuple[int, ...]

    @property
    def room(self) -> int:
        """Vectors that the edges of a row have room for after its last one."""
        return 2 if self.of_samples else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trailing(Way):
    """Rows of any length that vectors cross, or that read what some rows share and others do not."""

    TEMPLATE: ClassVar[str] = "inner_trailing"
    FOR_ODD_ROWS: ClassVar[bool] = True

    def applies(self, earlier: Collection[type[Way]]) -> bool:
        return Edged in earlier and (self.crosses or bool(self._of_samples))

    def variants(self) -> tuple[VariantSpec, ...]:
        """One. Raises :class:`KnobError` for a choice that no kernel can be made with."""
        way = f"trailing_vec{self.vec}_int32"
        threads, blocks = (CUTTING_THREADS, CUTTING_BLOCKS) if self._shared else (THREADS, self._blocks)
        proposal = RowChoice(threads_per_row=threads, rows_per_block=1, min_blocks=blocks)
        choice = decide(way, proposal, self.tuned, self._check)
        threads = choice.threads.block
        heuristics = TrailingHeuristics(threads=choice.threads, vectors=self._vectors, moments=self._moments,
                                        of_samples=self._of_samples)  # fmt: skip
        parts: Formula = ("max", 1, ceil_div(self.columns, threads * self.vec * self._vectors))
        trail = total([parts, MULTIPROCESSORS])
        reduced = folded(self.task, reductions(self.task))
        arrays = partial_parameters(self.task, reduced, const=False)
        kernel = self.kernel(
            self.TEMPLATE,
            heuristics,
            vec=self.vec,
            index="int32_t",
            parameters=(
                *kernel_parameters(self.task, self.domain, arrays),
                formula_parameter("parts", parts, "of a row"),
                formula_parameter("trail", trail, "parts from one that is stored to the one that is read meanwhile"),
            ),
            min_blocks=choice.min_blocks,
            sizes=KnownSizes(help=False),
        )
        turns = total([product([parts, self.rows]), product([trail, self._readings])])
        grid = product([("lt", 0, self.rows), turns])
        guard = (*self.odd_guard, ("lt", EDGED_COLUMNS, self.columns), *self.aligned(self._shared, self.vec))
        variant = self.variant(way, choice, guard, kernel, grid, (threads, 1, 1))
        scratch = (product([partial_dtype(self.task, fid).bytes, self.rows, total([parts, 1])]) for fid in reduced)
        counters = TicketCounters()
        warps = ceil_div(total([1, product([self._readings, self.rows])]), counters.counters)
        return (counters.serving(replace(variant, scratch=tuple(scratch)), warps),)

    @property
    def _blocks(self) -> int:
        """The blocks of rows that share nothing by vectors."""
        domain, reduced = self.domain, {*self.domain.reduced}
        along = [{*domain.accesses[fid].axes} & reduced for fid in self.task.inputs if fid in domain.accesses]
        has_pieces = any(axes and domain.inner not in axes for axes in along)
        return GATHERING_BLOCKS if has_pieces else BLOCKS

    @property
    def _shared(self) -> tuple[int, ...]:
        """Inputs that rows share, all of them or some, and have by vectors."""
        vectors = self.domain.dense_along(self.domain.inner)
        return () if self.crosses else tuple(fid for fid in vectors if fid not in self.domain.flat)

    @property
    def _of_samples(self) -> tuple[int, ...]:
        return () if self.crosses else shared_by_some(self.task, self.domain)

    @property
    def _moments(self) -> Moments | None:
        return moments_of(self.task, self.domain)

    @property
    def _readings(self) -> int:
        """How often a row is read before it is stored."""
        return 1 if self._moments else len(by_level(self.task, reductions(self.task)))

    @property
    def _vectors(self) -> int:
        """Vectors of each input that a thread has of a part: an even number, or one."""
        inputs = [fid for fid in self.domain.flat if fid in self.task.inputs]
        registers = CUTTING_REGISTERS if self._shared else PART_REGISTERS
        held = min(MOST_VECTORS, 4 * registers // max(4, self.vector_bytes(inputs)))
        return max(1, held - held % 2)

    def _check(self, choice: RowChoice) -> None:
        choice.require_power_of_two("threads_per_row", 2 * WARP, MAX_THREADS)  # one warp waits, and another one counts
        check_rows(choice, self.target, most_rows=1)
