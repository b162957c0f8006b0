"""Reductions along rows and down columns in one pass over memory: the backward passes of norms and their modulations.

A block walks rows one after another. Each thread owns the same columns of every row, so what is reduced down columns
accumulates in its registers (in shared memory where rows are too long) while rows are loaded, reduced along and stored;
the next rows are loaded meanwhile. Where those wait in shared memory, they are reduced along before the rows at hand
are stored: no warp waits for partial results of another that is less than a row behind. Rows that would take a
multiprocessor for themselves are shared by the blocks of a **cluster**, each of which has a part of their columns:
there are fewer partial results, and more rows on their way (H200, layernorm's backward pass, 8192 x 16384: 217 -> 201
us). At the end every block writes its accumulators to scratch, and a finishing kernel combines them in a fixed order,
so results are bitwise equal from run to run.

Blocks share the rows evenly. Where some reduction keeps outer indices, a block's rows follow each other, so that it has
rows of few indices, mostly of one; else neighbouring rows are those of different blocks. (nvFuser's inner outer
persistent scheduler keeps partial results of columns in registers likewise, for one set of outer dims.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fusebuild.ir.formula import Formula, product, total
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.finish import FINISH_THREADS, Finisher, FinishGroup, partial_parameters
from fusebuild.kernels.common.registers import Registers
from fusebuild.kernels.common.rows import (
    FEWEST_THREADS,
    MAX_THREADS,
    PARTIAL_BYTES,
    RESERVED_BYTES,
    WARP,
    RowThreads,
    has_lambdas,
    levels,
    next_power_of_two,
    rows_beside,
)
from fusebuild.kernels.common.scheduler import KernelScheduler, Planner
from fusebuild.kernels.common.spec import VariantSpec, fits_int32, hint, kernel_parameters, try_domain
from fusebuild.kernels.common.sweeps import costly_values
from fusebuild.kernels.inner_outer.axes import Axes, InnerOuterParts, inner_outer_parts
from fusebuild.kernels.inner_outer.shape import InnerOuterChoice, InnerOuterHeuristics, Shape

MOST_AT_ONCE = 4
"""Rows that a thread may work on together."""
IN_BLOCK = Registers(most=224, base=48)
"""Registers beside what a thread keeps for its columns; nvcc needs some of its 255 to move values about."""
IN_CLUSTER = Registers(most=224, base=56)
"""Registers where rows are reduced along a turn before they are stored. (With a base of 48 and what adds up to 168
registers ptxas 13.0 spills.)"""
LIGHT_IN_CLUSTER = Registers(most=224, base=32)
"""Registers there if what rows do is simple: :meth:`_Planner._is_light`."""
EXCHANGE_BUFFERS = 4
"""Partial results of so many rows have room then: exchange.cuh's kExchangeBuffers."""
BLOCK_THREADS = (128, 256, 512)
"""Threads that may share a row of more than 128 vectors."""
CLUSTERS = (2, 4, 8)
"""Blocks that may share a row."""
ROW_THREADS = (8, 16, 32, 64, 128, 256, 512)
"""Threads that may share a row whose vectors wait in shared memory."""
STAGES = 3
"""Groups of rows on their way to shared memory, at least: with one less, loads pause between rows."""
MOST_STAGES = 6
"""Groups of rows on their way to shared memory, at most: so many where a cluster's partial results are long on their
way."""
LEAST_COPY = 4
"""Bytes that a thread can copy to shared memory without waiting."""
MOST_BLOCKS = 8
"""Blocks on a multiprocessor beyond which more only make more partial results."""
MEMORY_THREADS = 512
"""Threads on a multiprocessor where accumulators are in memory, shared or not."""
ROWS_PER_BLOCK = 4
"""Rows that a block has at least, so that writing its accumulators is cheap beside reading its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerOuterPersistentScheduler(KernelScheduler):
    name: str = "inner_outer_persistent"

    def check(self, task: Task) -> None:
        inner_outer_parts(task, try_domain(task))

    def variants(self, planner: Planner) -> list[VariantSpec]:
        own, vec = _planner(planner), planner.vector_width(planner.domain.inner)
        wide = own.registers(vec) or own.memory(vec) if vec > 1 else ()
        return [*wide, *own.registers(1), own.scratch(1, ())]


def _planner(planner: Planner) -> _Planner:
    """A planner, with what each of the shapes that it tries asks for."""
    task, domain = planner.task, planner.domain
    parts, level = inner_outer_parts(task, domain), levels(task)
    read, moving = _read_by_rows(task, parts).intersection(task.inputs), {*parts.depth}
    axes = {fid: domain.accesses[fid].axes for fid in domain.dense_along(domain.inner) if fid in read}
    return _Planner.of(
        planner,
        parts=parts,
        fetched=tuple(fid for fid, own in axes.items() if own == domain.every),
        resident=tuple(fid for fid, own in axes.items() if moving.isdisjoint(own)),
        levels=max((level[task.fusion.exprs[index].outputs[0]] for index in parts.along), default=0),
    )


def _read_by_rows(task: Task, parts: InnerOuterParts) -> set[int]:
    """The values that the walk over rows needs: all but those that only epilogues read."""
    needed, accumulated = {*parts.written_by_rows(task)}, {*parts.accumulated}
    for index in reversed(task.exprs):
        expr = task.fusion.exprs[index]
        if index in accumulated or not needed.isdisjoint(expr.outputs):
            needed.update(expr.inputs)
    return needed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planner(Planner):
    """A planner that knows the ``parts`` of the task. ``fetched`` are its dense inputs of the whole domain,
    ``resident`` those of columns that change from one outer index to the next at most. Rows have ``levels`` of
    reductions, each of which needs the one before it."""

    parts: InnerOuterParts
    fetched: tuple[int, ...]
    resident: tuple[int, ...]
    levels: int

    @property
    def columns(self) -> Formula:
        return self.domain.points(self.parts.columns)

    def vector_bytes(self, vec: int, fids: Iterable[int]) -> int:
        """Bytes of the registers that a vector of each of ``fids`` takes: whole registers."""
        return sum(max(4, vec * self.bytes_of([fid])) for fid in fids)

    @property
    def reduced(self) -> tuple[int, ...]:
        """What accumulates down columns; a generalized reduction has several results."""
        return tuple(fid for index in self.parts.accumulated for fid in self.task.fusion.exprs[index].outputs)

    def registers(self, vec: int) -> tuple[VariantSpec, ...]:
        """Accumulators in registers, for rows that one block can own; none where the first case has longer ones."""
        blocks = self._shapes(vec)
        if not blocks:
            return ()
        way = f"registers_vec{vec}_int32"
        vectors = self._vectors(vec)
        shape = min(blocks, key=lambda each: each.preference(blocks[each], vectors))
        choice = decide(way, self._propose(shape, blocks[shape]), self.tuned, partial(self._check_registers, vec=vec))
        shape = self._shape_of(choice, vec)
        vector = self.vector_guards(self.domain.inner, vec, self.parts.finished)
        fits: Formula = ("le", self.columns, choice.threads_per_row * choice.cluster * shape.chunks * vec)
        guard = (fits_int32(self.columns), *vector, fits)
        staged = f"staged{choice.cluster if choice.cluster > 1 else ''}_vec{vec}_int32"
        name = way if choice.stages == 1 else staged
        shared_bytes = self._staged_bytes(shape, vec)
        resident, packed = (self.resident, ()) if choice.unpacks else ((), self.resident)
        heuristics = InnerOuterHeuristics.of(
            choice, storage="registers", chunks=shape.chunks, fetched=self.fetched, resident=resident, packed=packed
        )
        return (self._variant(way, guard, vec, "int32_t", heuristics, choice, shared_bytes, name=name),)

    def _shape_of(self, choice: InnerOuterChoice, vec: int) -> Shape:
        """The shape that is chosen, for the rows of the first case."""
        return Shape(
            threads=choice.threads,
            cluster=choice.cluster,
            chunks=self._chunks(choice.threads_per_row * choice.cluster, vec),
            at_once=choice.at_once,
            stages=choice.stages,
            unpacks=choice.unpacks,
        )

    def _staged_bytes(self, shape: Shape, vec: int) -> int:
        """Bytes of shared memory for the rows that a block has on their way: none where they go to registers."""
        if shape.stages == 1:
            return 0
        places = shape.stages * shape.threads.block * shape.chunks * shape.at_once
        return places * vec * self.bytes_of(self.fetched)

    def _vectors(self, vec: int) -> int:
        """Those of a row of the first case."""
        return -(-self.expected(self.parts.columns) // vec)

    def _chunks(self, threads: int, vec: int) -> int:
        """Vectors of a row that each of ``threads`` has."""
        return -(-self._vectors(vec) // threads)

    def _check_registers(self, choice: InnerOuterChoice, *, vec: int) -> None:
        self._check(choice)
        most = MOST_AT_ONCE if self.fetched else 1
        choice.require_at_most("at_once", most, f"a thread works on {most} rows at most")
        shape = self._shape_of(choice, vec)
        registers = self._registers(shape, vec)
        message = f"a thread would keep {shape.chunks} vectors of {shape.at_once} rows in {registers} registers"
        choice.require(registers <= IN_BLOCK.most, "threads_per_row", message)
        choice.require(shape.stages == 1 or self._can_stage(vec), "stages", "nothing is wide enough to be copied")
        message = "blocks share rows that are staged, with one level of reductions, which more than a warp each have"
        choice.require(shape.cluster == 1 or self._can_share(shape), "cluster", message)
        staged = self._staged_bytes(shape, vec)
        message = f"{shape.stages} stages take {staged} bytes of shared memory"
        choice.require(staged + self._reserved_bytes(shape) <= self.target.shared_bytes, "stages", message)

    def _check_memory(self, choice: InnerOuterChoice) -> None:
        self._check(choice)
        for knob in ("rows_per_block", "at_once"):
            choice.require_at_most(knob, 1, "accumulators in memory are those of one row")
        choice.require_at_most("cluster", 1, "accumulators in memory are those of one block")
        choice.require_at_most("stages", 1, "shared memory is for accumulators")

    def _check(self, choice: InnerOuterChoice) -> None:
        """Raise :class:`KnobError` for blocks that cannot be, or that would have nothing to do."""
        choice.require_power_of_two("threads_per_row", FEWEST_THREADS, MAX_THREADS)
        choice.require_power_of_two("cluster", 1, self.target.cluster)
        choice.require_power_of_two("rows_per_block", 1, MAX_THREADS)
        block = choice.threads.block
        most_rows = rows_beside(choice.threads_per_row, FINISH_THREADS)
        rows = f"rows of {choice.threads_per_row} threads share a block with {most_rows - 1} others at most"
        choice.require_at_most("rows_per_block", most_rows, rows)
        choice.require_block("threads_per_row", block)
        choice.require_at_most("blocks", self._rows, f"there are {self._rows} rows")
        choice.require_blocks("min_blocks", block, self.target.threads_per_multiprocessor)

    def _shapes(self, vec: int) -> dict[Shape, int]:
        """The shapes that own the rows of the first case and whose registers a multiprocessor has, and how many blocks
        it has room for."""
        vectors = self._vectors(vec)
        whole = max(FEWEST_THREADS, next_power_of_two(vectors))
        staged = [each for each in ROW_THREADS if each <= whole] if self._can_stage(vec) else []
        prefetched = [whole] if vectors <= BLOCK_THREADS[0] else BLOCK_THREADS
        clusters = [cluster for cluster in CLUSTERS if cluster <= self.target.cluster]
        ways = [
            *((each, 1, 1, STAGES, unpacks) for each in staged for unpacks in (True, False)),
            *((each, 1, at_once, 1, True) for each in prefetched for at_once in ((1, 2) if self.fetched else (1,))),
            *((each, cluster, 1, stages, True) for each in staged for cluster in clusters
              for stages in range(STAGES, MOST_STAGES + 1)),
        ]  # fmt: skip
        shapes = [
            Shape(
                threads=RowThreads(per_row=each, rows=rows_beside(each, BLOCK_THREADS[0])),
                cluster=cluster,
                chunks=self._chunks(each * cluster, vec),
                at_once=at_once,
                stages=stages,
                unpacks=unpacks,
            )
            for each, cluster, at_once, stages, unpacks in ways
        ]
        room = {shape: self._room(shape, vec) for shape in shapes if shape.cluster == 1 or self._can_share(shape)}
        return {shape: blocks for shape, blocks in room.items() if blocks}

    def _can_share(self, shape: Shape) -> bool:
        """Whether blocks of a cluster can share rows of this shape: staged ones with one level of reductions. (Of rows
        that a warp could have for itself there are enough without.)"""
        return shape.stages > 1 and self.levels == 1 and not shape.threads.in_one_warp

    def _room(self, shape: Shape, vec: int) -> int:
        """The blocks that a multiprocessor has registers and shared memory for; 0 where a thread has too few."""
        registers = self._registers(shape, vec)
        if registers > IN_BLOCK.most:
            return 0
        blocks = self.target.registers // (-(-registers // 8) * 8 * shape.threads.block)
        shared_bytes = self._staged_bytes(shape, vec) + self._reserved_bytes(shape)
        return min(MOST_BLOCKS, blocks, self.target.shared_bytes // shared_bytes)

    def _reserved_bytes(self, shape: Shape) -> int:
        """Bytes of shared memory for partial results of rows: a place is as large as the largest of them."""
        sizes = [len(self.task.fusion.exprs[index].outputs) for index in self.parts.along]
        warps = shape.cluster * shape.threads.block // WARP
        parts = len(sizes) * max(sizes, default=0) * shape.at_once * warps
        buffers = EXCHANGE_BUFFERS if shape.cluster > 1 else 2
        return max(RESERVED_BYTES, RESERVED_BYTES // 2 + buffers * parts * PARTIAL_BYTES)

    def _can_stage(self, vec: int) -> bool:
        """Whether threads can copy all that they fetch to shared memory: words of 4 bytes at least."""
        return bool(self.fetched) and all(vec * self.bytes_of([fid]) >= LEAST_COPY for fid in self.fetched)

    def _registers(self, shape: Shape, vec: int) -> int:
        """What a thread takes: what it keeps for its columns, and what it works with. It keeps accumulators, steady
        values and, unless they wait in shared memory, each input of the rows that it works on and of the next ones.
        Values narrower than a register share one in a vector only."""
        in_cluster = shape.cluster > 1
        steady = self.vector_bytes(1, self.reduced)
        steady += self._steady_bytes(in_cluster) if shape.unpacks else self.bytes_of(self.resident)
        fetched = self.vector_bytes(vec, self.fetched) if shape.stages == 1 else 0
        kept = -(-shape.chunks * (vec * steady + 2 * shape.at_once * fetched) // 4)
        if not in_cluster:
            return IN_BLOCK.base + kept
        return (LIGHT_IN_CLUSTER if self._is_light else IN_CLUSTER).base + kept

    def _steady_bytes(self, in_cluster: bool) -> int:
        """What a thread keeps of steady inputs for each column: most often their product, but where registers are
        counted closely each of them."""
        kept = [self.vector_bytes(1, [fid]) for fid in self.resident]
        return sum(kept) if in_cluster else max(kept, default=0)

    @property
    def _is_light(self) -> bool:
        """Whether rows are walked with few registers: there are no outer indices, two inputs at most, and no ops of
        many instructions."""
        is_costly = has_lambdas(self.task) or bool(costly_values(self.task, self.domain, self.parts.columns))
        return not self.parts.outer and len(self.fetched) <= 2 and not is_costly

    def memory(self, vec: int) -> tuple[VariantSpec, ...]:
        """Accumulators in shared memory or, where that is too small, in scratch: rows that registers cannot own. The
        next row still waits in registers if it can. None where the vectors that an update takes are too many."""
        most = self.target.registers // MEMORY_THREADS - IN_BLOCK.base
        updates = vec * self.vector_bytes(1, self.reduced) // 4
        if updates > most:
            return ()
        vector = self.vector_guards(self.domain.inner, vec, self.parts.finished)
        guard = (fits_int32(self.columns), *vector)
        way = f"shared_vec{vec}_int32"
        choice = decide(way, self._propose_memory(MEMORY_THREADS), self.tuned, self._check_memory)
        chunks = self._chunks(choice.threads_per_row, vec)
        rows = 2 * chunks * self.vector_bytes(vec, self.fetched) // 4
        is_fetched = rows + updates <= most
        heuristics = InnerOuterHeuristics.of(
            choice,
            storage="shared",
            chunks=chunks if is_fetched else 0,
            fetched=self.fetched if is_fetched else (),
        )
        shared_bytes = product([self.bytes_of(self.reduced), self.columns])
        fits: list[Formula] = [("le", shared_bytes, self.target.shared_bytes - RESERVED_BYTES)]
        if is_fetched:
            fits.append(("le", self.columns, chunks * vec * choice.threads_per_row))
        return (
            self._variant(way, (*guard, *fits), vec, "int32_t", heuristics, choice, shared_bytes),
            self.scratch(vec, vector),
        )

    def scratch(self, vec: int, guard: tuple[Formula, ...]) -> VariantSpec:
        """Accumulators in memory; every sweep reads its inputs again. The fallback for everything."""
        per_row = min(MEMORY_THREADS, max(WARP, next_power_of_two(self.expected(self.parts.columns) // (8 * vec))))
        way = f"scratch_{f'vec{vec}' if vec > 1 else 'scalar'}_int64"
        choice = decide(way, self._propose_memory(per_row), self.tuned, self._check_memory)
        heuristics = InnerOuterHeuristics.of(choice, storage="scratch", chunks=0)
        return self._variant(way, guard, vec, "int64_t", heuristics, choice)

    @property
    def _rows(self) -> int:
        """The rows of the first case."""
        return self.expected(self.parts.rows)

    def _propose(self, shape: Shape, blocks: int) -> InnerOuterChoice:
        """Clusters enough to fill the GPU once, ``blocks`` to a multiprocessor, each with a few rows at least."""
        wanted = self._rows // (ROWS_PER_BLOCK * shape.threads.rows)
        return InnerOuterChoice(
            threads_per_row=shape.threads.per_row,
            cluster=shape.cluster,
            rows_per_block=shape.threads.rows,
            at_once=shape.at_once,
            stages=shape.stages,
            unpacks=shape.unpacks,
            blocks=max(1, min(self.target.clusters(shape.cluster, blocks), wanted)),
            min_blocks=blocks,
        )

    def _propose_memory(self, per_row: int) -> InnerOuterChoice:
        """One row a block, whose accumulators are in memory."""
        threads = RowThreads(per_row=per_row, rows=1)
        shape = Shape(threads=threads, cluster=1, chunks=0, at_once=1, stages=1, unpacks=True)
        return self._propose(shape, MEMORY_THREADS // per_row)

    def _variant(
        self,
        way: str,
        guard: tuple[Formula, ...],
        vec: int,
        index: str,
        heuristics: InnerOuterHeuristics,
        choice: InnerOuterChoice,
        shared_bytes: Formula = 0,
        name: str = "",
    ) -> VariantSpec:
        partials = partial_parameters(self.task, self.reduced, const=False)
        parameters = kernel_parameters(self.task, self.domain, partials)
        kernel = self.kernel("inner_outer_persistent", heuristics, vec=vec, index=index, parameters=parameters)
        grid, block = heuristics.blocks * heuristics.cluster, (heuristics.threads.per_row, heuristics.threads.rows, 1)
        variant = self.variant(way, choice, guard, kernel, grid, block, name=name, shared_bytes=shared_bytes)
        finisher = Finisher(
            task=self.task, target=self.target, domain=self.domain, reduced=self.reduced, index="int64_t"
        )
        finish = finisher.launch([self._group(own, heuristics) for own in self.parts.finishes.values()])
        scratch = tuple(
            product([*self._partials(self.parts.kept[index], heuristics), self.columns, value.dtype.bytes])
            for index in self.parts.accumulated
            for value in map(self.task.fusion.value, self.task.fusion.exprs[index].outputs)
        )
        return replace(variant, launches=(*variant.launches, finish), scratch=scratch)

    def _partials(self, kept: Axes, heuristics: InnerOuterHeuristics) -> tuple[Formula, Formula]:
        """``(partial results of each column, what the columns are kept for)``, both in points."""
        if not kept:
            return heuristics.blocks, 1
        between = [axis for axis in self.parts.outer if axis not in kept]
        parts = most_parts(heuristics.blocks, self.domain.points(self.parts.outer))
        return product([parts, self.domain.points(between)]), self.domain.points(kept)

    def _group(self, indices: Sequence[int], heuristics: InnerOuterHeuristics) -> FinishGroup:
        """How the partial results of the reductions ``indices`` are combined, which keep the same axes and are all
        scaled ones or none."""
        kept = self.parts.kept[indices[0]]
        scaled = [(index, self.parts.scaled[index]) for index in indices if index in self.parts.scaled]
        by_block = not kept and not scaled
        outer = () if by_block else self.parts.outer
        across = tuple(axis for axis in outer if axis not in kept)
        parts = most_parts(heuristics.blocks, self.domain.points(outer)) if outer else heuristics.blocks
        return FinishGroup(
            splits=heuristics.blocks,
            reductions=tuple(indices),
            kept=(*kept, *self.parts.columns),
            partials=hint(product([parts, self.domain.points(across)]), self.sizes),
            results=self.expected((*kept, *self.parts.columns)),
            across=across,
            outer=outer,
            depth=self.parts.depth if outer else (),
            scaled=tuple((index, self._result(each.source), each.factor) for index, each in scaled),
        )

    def _result(self, index: int) -> int:
        return self.task.fusion.exprs[index].outputs[0]


def most_parts(blocks: int, outers: Formula) -> Formula:
    """As partition.cuh has it where there are rows enough: blocks that have rows of one of ``outers`` indices, at
    most."""
    return total([("floor_div", blocks, ("max", outers, 1)), 2])
