"""Reductions along rows and down columns in one pass over memory: the backward passes of norms and their modulations.

A block walks rows one after another. Each thread owns the same columns of every row, so what is reduced down columns
accumulates in its registers while rows are loaded, reduced along and stored; the next row is loaded while one is worked
on. At the end every block writes its accumulators to scratch, and one finishing kernel for each set of kept dims
combines them in a fixed order, so results are bitwise equal from run to run.

Blocks are ``splits x groups``: ``groups`` of them share the outer indices (those that some reduction keeps), ``splits``
the rows of each. (nvFuser's inner outer persistent scheduler keeps partial results of columns in registers likewise,
for one set of outer dims.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusebuild.formula import Formula, ceil_div, product
from fusebuild.ir import Task
from fusebuild.schedule.domain import AxisDomain
from fusebuild.schedule.inner_outer import Axes, InnerOuterParts, inner_outer_parts
from fusebuild.schedule.kernel import (
    KernelSpec,
    LaunchSpec,
    Rejection,
    VariantSpec,
    axis_product,
    extent_parameters,
    fits_int32,
    hint,
    scalar_parameters,
    tensor_parameters,
    try_domain,
    usable,
    vector_fids,
    vector_guards,
    vector_width,
)
from fusebuild.schedule.reduction import FinishHeuristics, partial_parameters
from fusebuild.schedule.rows import WARP, RowThreads, next_power_of_two
from fusebuild.target import Target

THREADS_PER_MULTIPROCESSOR = 512
"""Threads that each get 128 of a multiprocessor's 65,536 registers."""
COLUMN_REGISTERS = 72
"""What of its 128 registers a thread may keep for its columns: accumulators, inputs of two rows, resident inputs."""
ROWS_PER_BLOCK = 4
"""Rows that a block has at least, so that writing its accumulators is cheap beside reading its rows."""
FINISH_THREADS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerOuterHeuristics:
    """``storage`` of the accumulators is registers or scratch; ``chunks`` are the vectors of a row that a thread owns
    (registers only). Inputs ``fetched`` are loaded a row ahead; inputs ``resident`` are the same for all rows of an
    outer index and stay in registers."""

    threads: RowThreads
    storage: str
    chunks: int
    splits: int
    groups: int
    fetched: tuple[int, ...]
    resident: tuple[int, ...]
    min_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerOuterPersistentScheduler:
    name: str = "inner_outer_persistent"

    def accepts(self, task: Task, target: Target) -> Rejection | None:
        domain = try_domain(self.name, task)
        if isinstance(domain, Rejection):
            return domain
        parts = inner_outer_parts(self.name, task, domain)
        return parts if isinstance(parts, Rejection) else None

    def schedule(self, task: Task, target: Target, sizes: Mapping[str, int]) -> tuple[VariantSpec, ...]:
        domain = try_domain(self.name, task)
        assert isinstance(domain, AxisDomain)
        parts = inner_outer_parts(self.name, task, domain)
        assert isinstance(parts, InnerOuterParts)
        planner = _Planner(task=task, target=target, domain=domain, parts=parts, sizes=sizes)
        inner = len(domain.axes) - 1
        vec = min(vector_width(task, domain, inner), planner.most_columns)
        return usable([*([planner.registers(vec)] if vec > 1 else []), planner.registers(1), planner.scratch()])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planner:
    """One task on one target, for which variants are made."""

    task: Task
    target: Target
    domain: AxisDomain
    parts: InnerOuterParts
    sizes: Mapping[str, int]

    @property
    def columns(self) -> Formula:
        return axis_product(self.domain, self.parts.columns)

    @property
    def fetched(self) -> tuple[int, ...]:
        """Inputs of the whole domain, dense ones."""
        everything = tuple(range(len(self.domain.axes)))
        return tuple(fid for fid in self._vectors() if self.domain.accesses[fid].axes == everything)

    @property
    def resident(self) -> tuple[int, ...]:
        """Inputs of columns that change from one outer index to the next at most."""
        moving = {*self.parts.depth}
        return tuple(fid for fid in self._vectors() if not moving & {*self.domain.accesses[fid].axes})

    def _vectors(self) -> list[int]:
        return [
            fid
            for fid in vector_fids(self.domain, len(self.domain.axes) - 1)
            if fid in self.task.inputs and fid in self._read_by_rows()
        ]

    def _read_by_rows(self) -> set[int]:
        """The values that the walk over rows needs: all but those that only epilogues read."""
        exprs = self.task.fusion.exprs
        needed = {*self.parts.written_by_rows(self.task)}
        for index in reversed(self.task.exprs):
            expr = exprs[index]
            if index in self.parts.kept or not needed.isdisjoint(expr.outputs):
                needed.update(expr.inputs)
        return needed

    @property
    def reduced(self) -> tuple[int, ...]:
        """The results of the reductions down columns; a generalized one has several."""
        return tuple(fid for index in self.parts.down for fid in self.task.fusion.exprs[index].outputs)

    @property
    def most_columns(self) -> int:
        """How many columns a thread may own, a power of two."""

        def size(fid: int) -> int:
            return self.task.fusion.value(fid).dtype.bytes

        accumulators = sum(max(4, size(fid)) for fid in self.reduced)
        inputs = 2 * sum(map(size, self.fetched)) + sum(max(4, size(fid)) for fid in self.resident)
        most = 4 * COLUMN_REGISTERS // (accumulators + inputs)
        return 1 << max(0, most.bit_length() - 1)

    def registers(self, vec: int) -> VariantSpec:
        """Accumulators in registers, for rows that one block can own."""
        size = hint(self.columns, self.sizes)
        vectors = -(-size // vec)
        chunks = min(max(1, self.most_columns // vec), next_power_of_two(-(-vectors // THREADS_PER_MULTIPROCESSOR)))
        per_row = min(THREADS_PER_MULTIPROCESSOR, max(8, next_power_of_two(-(-vectors // chunks))))
        threads = RowThreads(per_row=per_row, rows=128 // per_row if per_row <= WARP else 1)
        heuristics = self._heuristics(
            threads, storage="registers", chunks=chunks, fetched=self.fetched, resident=self.resident
        )
        vector = vector_guards(self.task, self.domain, len(self.domain.axes) - 1, vec, self.parts.finished)
        fits: Formula = ("le", self.columns, per_row * chunks * vec)
        guard = (fits_int32(self.columns), *vector, fits)
        return self._variant(f"registers_vec{vec}_int32", guard, vec, "int32_t", heuristics)

    def scratch(self) -> VariantSpec:
        """The fallback for everything: accumulators in memory, every sweep reads its inputs again."""
        per_row = min(THREADS_PER_MULTIPROCESSOR, max(WARP, next_power_of_two(hint(self.columns, self.sizes) // 8)))
        heuristics = self._heuristics(
            RowThreads(per_row=per_row, rows=1), storage="scratch", chunks=0, fetched=(), resident=()
        )
        return self._variant("scratch_scalar_int64", (), 1, "int64_t", heuristics)

    def _heuristics(
        self, threads: RowThreads, *, storage: str, chunks: int, fetched: tuple[int, ...], resident: tuple[int, ...]
    ) -> InnerOuterHeuristics:
        """Blocks enough to fill the GPU once, each with a few rows at least."""
        min_blocks = THREADS_PER_MULTIPROCESSOR // threads.block
        blocks = self.target.multiprocessors * min_blocks
        outers = hint(axis_product(self.domain, self.parts.outer), self.sizes)
        depth = hint(axis_product(self.domain, self.parts.depth), self.sizes)
        splits = max(1, min(blocks // outers, depth // (ROWS_PER_BLOCK * threads.rows)))
        return InnerOuterHeuristics(
            threads=threads,
            storage=storage,
            chunks=chunks,
            splits=splits,
            groups=max(1, min(outers, blocks // splits)),
            fetched=fetched,
            resident=resident,
            min_blocks=min_blocks,
        )

    def _variant(
        self, name: str, guard: tuple[Formula, ...], vec: int, index: str, heuristics: InnerOuterHeuristics
    ) -> VariantSpec:
        kernel = KernelSpec(
            template="inner_outer_persistent",
            task=self.task,
            domain=self.domain,
            parameters=(
                *tensor_parameters(self.task, self.domain),
                *partial_parameters(self.task, self.reduced, const=False),
                *scalar_parameters(self.task),
                *extent_parameters(self.domain),
            ),
            index=index,
            vec=vec,
            heuristics=heuristics,
        )
        launch = LaunchSpec(
            kernel=kernel,
            grid=(heuristics.splits, heuristics.groups, 1),
            block=(heuristics.threads.per_row, heuristics.threads.rows, 1),
        )
        kept = dict.fromkeys(self.parts.kept[index] for index in self.parts.down)
        finishes = [self._finish(own, heuristics) for own in kept]
        scratch = tuple(
            product([*self._partials(self.parts.kept[index], heuristics), self.columns, value.dtype.bytes])
            for index in self.parts.down
            for value in map(self.task.fusion.value, self.task.fusion.exprs[index].outputs)
        )
        return VariantSpec(name=name, guard=guard, launches=(launch, *finishes), scratch=scratch)

    def _partials(self, kept: Axes, heuristics: InnerOuterHeuristics) -> tuple[Formula, Formula]:
        """``(partial results of each column, what the columns are kept for)``, both in points."""
        if not kept:
            return heuristics.splits * heuristics.groups, 1
        between = [axis for axis in self.parts.outer if axis not in kept]
        return product([heuristics.splits, axis_product(self.domain, between)]), axis_product(self.domain, kept)

    def _finish(self, kept: Axes, heuristics: InnerOuterHeuristics) -> LaunchSpec:
        """The kernel that combines the partial results of the reductions that keep ``kept``."""
        results = axis_product(self.domain, (*kept, *self.parts.columns))
        blocks = hint(results, self.sizes) // self.target.multiprocessors
        block_x = min(32, max(8, next_power_of_two(blocks + 1) // 2))
        kernel = KernelSpec(
            template="reduction_finish",
            task=self.task,
            domain=self.domain,
            parameters=(
                *tensor_parameters(self.task, self.domain),
                *partial_parameters(self.task, self.reduced, const=True),
                *scalar_parameters(self.task),
                *extent_parameters(self.domain),
            ),
            index="int64_t",
            vec=1,
            heuristics=FinishHeuristics(
                block_x=block_x,
                block_y=FINISH_THREADS // block_x,
                splits=heuristics.splits if kept else heuristics.splits * heuristics.groups,
                reductions=tuple(index for index in self.parts.down if self.parts.kept[index] == kept),
                kept=(*kept, *self.parts.columns),
                across=tuple(axis for axis in self.parts.outer if axis not in kept) if kept else (),
            ),
        )
        block = (block_x, FINISH_THREADS // block_x, 1)
        return LaunchSpec(kernel=kernel, grid=(ceil_div(results, block_x), 1, 1), block=block)
