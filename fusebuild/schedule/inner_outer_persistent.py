"""Reductions along rows and down columns in one pass over memory: the backward passes of norms and their modulations.

A block walks rows one after another. Each thread owns the same columns of every row, so what is reduced down columns
accumulates in its registers (in shared memory where rows are too long) while rows are loaded, reduced along and stored;
the next rows are loaded meanwhile. Where those wait in shared memory, they are reduced along before the rows at hand
are stored: no warp waits for partial results of another that is less than a row behind. At the end every block writes
its accumulators to scratch, and a finishing kernel combines them in a fixed order, so results are bitwise equal from
run to run.

Blocks share the rows evenly. Where some reduction keeps outer indices, a block's rows follow each other, so that it has
rows of few indices, mostly of one; else neighbouring rows are those of different blocks. (nvFuser's inner outer
persistent scheduler keeps partial results of columns in registers likewise, for one set of outer dims.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from fusebuild.formula import Formula, product, total
from fusebuild.ir import Task
from fusebuild.schedule.choice import (
    NOT_TUNED,
    Choice,
    Tuned,
    decide,
    decision,
    fewer_blocks,
    require,
    require_at_most,
    require_block,
    require_blocks,
    require_power_of_two,
)
from fusebuild.schedule.domain import AxisDomain
from fusebuild.schedule.finish import FINISH_THREADS, Finisher, FinishGroup, partial_parameters
from fusebuild.schedule.inner_outer import Axes, InnerOuterParts, inner_outer_parts
from fusebuild.schedule.kernel import (
    KernelSpec,
    LaunchSpec,
    Rejection,
    VariantSpec,
    axis_product,
    fits_int32,
    hint,
    kernel_parameters,
    try_domain,
    usable,
    vector_fids,
    vector_guards,
    vector_width,
)
from fusebuild.schedule.rows import (
    FEWEST_THREADS,
    MAX_THREADS,
    PARTIAL_BYTES,
    RESERVED_BYTES,
    WARP,
    RowThreads,
    levels,
    next_power_of_two,
    rows_beside,
)
from fusebuild.schedule.sweeps import costly_values
from fusebuild.target import Target

MOST_AT_ONCE = 4
"""Rows that a thread may work on together."""
THREAD_REGISTERS = 224
"""Registers that a thread may be planned to fill: of its 255 nvcc needs some to move values about."""
OTHER_REGISTERS = 48
"""What a thread takes beside what it keeps for its columns: addresses, numbers of the row, arithmetic."""
AHEAD_REGISTERS = 32
"""The same where rows are reduced along a turn before they are stored, and what they do is simple: layernorm's backward
pass has 96 registers for 16384 columns and takes 128."""
EXCHANGE_BUFFERS = 4
"""Partial results of so many rows have room then: exchange.cuh's kExchangeBuffers."""
BLOCK_THREADS = (128, 256, 512)
"""Threads that may share a row of more than 128 vectors."""
ROW_THREADS = (8, 16, 32, 64, 128, 256, 512)
"""Threads that may share a row whose vectors wait in shared memory."""
STAGES = 3
"""Groups of rows on their way to shared memory: with one less, loads pause between rows."""
LEAST_COPY = 4
"""Bytes that a thread can copy to shared memory without waiting."""
ENOUGH_THREADS = 384
"""Threads on a multiprocessor whose warps hide each other's waits."""
FEW_CHUNKS = 3
"""Vectors of a row beyond which a thread has too much to do between two barriers."""
MOST_BLOCKS = 8
"""Blocks on a multiprocessor beyond which more only make more partial results."""
MEMORY_THREADS = 512
"""Threads on a multiprocessor where accumulators are in memory, shared or not."""
ROWS_PER_BLOCK = 4
"""Rows that a block has at least, so that writing its accumulators is cheap beside reading its rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerOuterChoice(Choice):
    """How rows are laid over threads, and over ``blocks`` of them; a multiprocessor shall have the registers of
    ``min_blocks``. ``unpacks`` what is the same for many rows once, or for each of them."""

    threads_per_row: int
    rows_per_block: int
    at_once: int
    stages: int
    unpacks: bool
    blocks: int
    min_blocks: int

    @property
    def threads(self) -> RowThreads:
        return RowThreads(per_row=self.threads_per_row, rows=self.rows_per_block)

    def stepped(self, knob: str, value: int) -> Self:
        """The grid keeps filling the GPU once: with as many blocks as a multiprocessor has registers for. Threads that
        have more to do at once need more of them."""
        changed = super(InnerOuterChoice, self).stepped(knob, value)
        if knob == "threads_per_row":
            changed = replace(changed, rows_per_block=rows_beside(value, self.threads.block))
        if knob in ("threads_per_row", "rows_per_block"):
            blocks = fewer_blocks(self.min_blocks, self.threads.block, changed.threads.block)
            changed = replace(changed, min_blocks=blocks)
        if knob == "at_once" and value > self.at_once:
            changed = replace(changed, min_blocks=max(1, self.min_blocks // 2))
        if knob == "blocks":
            return changed
        return replace(changed, blocks=max(1, self.blocks * changed.min_blocks // self.min_blocks))


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerOuterHeuristics:
    """``storage`` of the accumulators is registers, shared or scratch; ``chunks`` are the vectors of a row that a
    thread owns, 0 where it walks the row in a loop. A thread works on ``at_once`` rows together, so that their waits
    overlap, while inputs ``fetched`` of the next ones are loaded: into registers or, where there are several
    ``stages``, so many times as many rows into shared memory, each thread's own vectors. Inputs ``resident`` are the
    same for all rows of an outer index: what follows from them alone stays in registers, or those ``packed``
    themselves, in fewer.
    """

    threads: RowThreads
    storage: str
    chunks: int
    at_once: int
    stages: int
    ahead: bool
    blocks: int
    fetched: tuple[int, ...]
    resident: tuple[int, ...]
    packed: tuple[int, ...]
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

    def schedule(
        self, task: Task, target: Target, sizes: Mapping[str, int], tuned: Tuned = NOT_TUNED
    ) -> tuple[VariantSpec, ...]:
        domain = try_domain(self.name, task)
        assert isinstance(domain, AxisDomain)
        parts = inner_outer_parts(self.name, task, domain)
        assert isinstance(parts, InnerOuterParts)
        planner = _planner(task, target, domain, parts, sizes, tuned)
        inner = len(domain.axes) - 1
        vec = vector_width(task, domain, inner)
        wide = planner.registers(vec) or planner.memory(vec) if vec > 1 else ()
        return usable([*wide, *planner.registers(1), planner.scratch(1, ())])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """How rows are laid over threads; ``blocks`` fit a multiprocessor."""

    threads: RowThreads
    chunks: int
    at_once: int
    stages: int
    unpacks: bool
    blocks: int

    def preference(self) -> tuple[int, ...]:
        """Less for faster shapes, as measured on the backward passes of norms with 128 to 16384 columns: the next rows
        in registers, few chunks, then many rows on their way, then blocks that do not all wait at once. Where the next
        rows wait in shared memory warps enough to hide each other's waits, and few threads that have to meet."""
        if self.stages > 1:
            return (1, self.blocks * self.threads.block < ENOUGH_THREADS, not self.unpacks, self.threads.per_row)
        return (0, self.chunks > FEW_CHUNKS, -self.blocks * self.at_once, -self.blocks, self.chunks)


def _planner(
    task: Task, target: Target, domain: AxisDomain, parts: InnerOuterParts, sizes: Mapping[str, int], tuned: Tuned
) -> _Planner:
    """A planner, with what each of the shapes that it tries asks for."""
    read = _read_by_rows(task, parts).intersection(task.inputs)
    everything, moving = tuple(range(len(domain.axes))), {*parts.depth}
    axes = {fid: domain.accesses[fid].axes for fid in vector_fids(domain, len(domain.axes) - 1) if fid in read}
    level = levels(task)
    return _Planner(
        task=task, target=target, domain=domain, parts=parts, sizes=sizes, tuned=tuned,
        fetched=tuple(fid for fid, own in axes.items() if own == everything),
        resident=tuple(fid for fid, own in axes.items() if moving.isdisjoint(own)),
        levels=max((level[task.fusion.exprs[index].outputs[0]] for index in parts.along), default=0),
    )  # fmt: skip


def _read_by_rows(task: Task, parts: InnerOuterParts) -> set[int]:
    """The values that the walk over rows needs: all but those that only epilogues read."""
    needed, accumulated = {*parts.written_by_rows(task)}, {*parts.accumulated}
    for index in reversed(task.exprs):
        expr = task.fusion.exprs[index]
        if index in accumulated or not needed.isdisjoint(expr.outputs):
            needed.update(expr.inputs)
    return needed


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planner:
    """One task on one target, for which variants are made. ``fetched`` are its dense inputs of the whole domain,
    ``resident`` those of columns that change from one outer index to the next at most. Rows have ``levels`` of
    reductions, each of which needs the one before it."""

    task: Task
    target: Target
    domain: AxisDomain
    parts: InnerOuterParts
    sizes: Mapping[str, int]
    tuned: Tuned
    fetched: tuple[int, ...]
    resident: tuple[int, ...]
    levels: int

    @property
    def columns(self) -> Formula:
        return axis_product(self.domain, self.parts.columns)

    @property
    def reduced(self) -> tuple[int, ...]:
        """What accumulates down columns; a generalized reduction has several results."""
        return tuple(fid for index in self.parts.accumulated for fid in self.task.fusion.exprs[index].outputs)

    def registers(self, vec: int) -> tuple[VariantSpec, ...]:
        """Accumulators in registers, for rows that one block can own; none where the first case has longer ones."""
        shapes = self._shapes(vec)
        if not shapes:
            return ()
        way = f"registers_vec{vec}_int32"
        proposal = self._propose(min(shapes, key=_Shape.preference))
        choice = decide(way, proposal, self.tuned, partial(self._check_registers, vec=vec))
        chunks = self._chunks(choice.threads_per_row, vec)
        heuristics = self._heuristics(
            choice, chunks=chunks, storage="registers", fetched=self.fetched,
            resident=self.resident if choice.unpacks else (), packed=() if choice.unpacks else self.resident,
        )  # fmt: skip
        vector = vector_guards(self.task, self.domain, len(self.domain.axes) - 1, vec, self.parts.finished)
        fits: Formula = ("le", self.columns, choice.threads_per_row * chunks * vec)
        guard = (fits_int32(self.columns), *vector, fits)
        shared_bytes = self._staged_bytes(choice.threads, chunks, vec, choice.at_once, choice.stages)
        name = way if choice.stages == 1 else f"staged_vec{vec}_int32"
        return (self._variant(way, guard, vec, "int32_t", heuristics, choice, shared_bytes, name=name),)

    def _staged_bytes(self, threads: RowThreads, chunks: int, vec: int, at_once: int, stages: int) -> int:
        """Bytes of shared memory for the rows that a block has on their way: none where they go to registers."""
        if stages == 1:
            return 0
        return stages * threads.block * chunks * at_once * vec * sum(map(self._bytes, self.fetched))

    def _chunks(self, threads: int, vec: int) -> int:
        """Vectors of a row that each of ``threads`` has."""
        return -(-hint(self.columns, self.sizes) // (threads * vec))

    def _check_registers(self, choice: InnerOuterChoice, *, vec: int) -> None:
        self._check(choice)
        most = MOST_AT_ONCE if self.fetched else 1
        require_at_most(choice, "at_once", most, f"a thread works on {most} rows at most")
        chunks = self._chunks(choice.threads_per_row, vec)
        registers = self._registers(choice.threads, chunks, vec, choice.at_once, choice.stages, choice.unpacks)
        message = f"a thread would keep {chunks} vectors of {choice.at_once} rows in {registers} registers"
        require(registers <= THREAD_REGISTERS, "threads_per_row", message)
        require(choice.stages == 1 or self._can_stage(vec), "stages", "nothing is wide enough to be copied")
        staged = self._staged_bytes(choice.threads, chunks, vec, choice.at_once, choice.stages)
        message = f"{choice.stages} stages take {staged} bytes of shared memory"
        reserved = self._reserved_bytes(choice.threads, choice.at_once, choice.stages)
        require(staged + reserved <= self.target.shared_bytes, "stages", message)

    def _check_memory(self, choice: InnerOuterChoice) -> None:
        self._check(choice)
        for knob in ("rows_per_block", "at_once"):
            require_at_most(choice, knob, 1, "accumulators in memory are those of one row")
        require_at_most(choice, "stages", 1, "shared memory is for accumulators")

    def _check(self, choice: InnerOuterChoice) -> None:
        """Raise :class:`KnobError` for blocks that cannot be, or that would have nothing to do."""
        require_power_of_two(choice, "threads_per_row", FEWEST_THREADS, MAX_THREADS)
        require_power_of_two(choice, "rows_per_block", 1, MAX_THREADS)
        block = choice.threads.block
        most_rows = rows_beside(choice.threads_per_row, FINISH_THREADS)
        rows = f"rows of {choice.threads_per_row} threads share a block with {most_rows - 1} others at most"
        require_at_most(choice, "rows_per_block", most_rows, rows)
        require_block("threads_per_row", block)
        require_at_most(choice, "blocks", self._rows, f"there are {self._rows} rows")
        require_blocks(choice, "min_blocks", block, self.target.threads_per_multiprocessor)

    def _shapes(self, vec: int) -> list[_Shape]:
        """The shapes of blocks that own the rows of the first case and whose registers a multiprocessor has."""
        vectors = -(-hint(self.columns, self.sizes) // vec)
        whole = max(FEWEST_THREADS, next_power_of_two(vectors))
        staged = [each for each in ROW_THREADS if each <= whole] if self._can_stage(vec) else []
        prefetched = [whole] if vectors <= BLOCK_THREADS[0] else BLOCK_THREADS
        ways = [
            *((per_row, 1, STAGES, unpacks) for per_row in staged for unpacks in (True, False)),
            *((per_row, at_once, 1, True) for per_row in prefetched for at_once in ((1, 2) if self.fetched else (1,))),
        ]
        shapes = [self._shape(vectors, vec, *way) for way in ways]
        return [shape for shape in shapes if shape.blocks]

    def _shape(self, vectors: int, vec: int, per_row: int, at_once: int, stages: int, unpacks: bool) -> _Shape:
        chunks = -(-vectors // per_row)
        threads = RowThreads(per_row=per_row, rows=rows_beside(per_row, BLOCK_THREADS[0]))
        registers = self._registers(threads, chunks, vec, at_once, stages, unpacks)
        blocks = min(MOST_BLOCKS, self.target.registers // (-(-registers // 8) * 8 * threads.block))
        staged = self._staged_bytes(threads, chunks, vec, at_once, stages)
        blocks = min(blocks, self.target.shared_bytes // (staged + self._reserved_bytes(threads, at_once, stages)))
        if registers > THREAD_REGISTERS:
            blocks = 0
        return _Shape(threads=threads, chunks=chunks, at_once=at_once, stages=stages, unpacks=unpacks, blocks=blocks)

    def _is_ahead(self, threads: RowThreads, stages: int) -> bool:
        """Whether rows are reduced along a turn before they are stored: with one level of reductions, where the threads
        of a row need barriers to meet, and have them in memory."""
        return stages > 1 and self.levels == 1 and not threads.in_one_warp and self.target.cluster > 1

    def _reserved_bytes(self, threads: RowThreads, at_once: int, stages: int) -> int:
        """Bytes of shared memory for partial results of rows: a place is as large as the largest of them."""
        sizes = [len(self.task.fusion.exprs[index].outputs) for index in self.parts.along]
        parts = len(sizes) * max(sizes, default=0) * at_once * threads.block // WARP
        buffers = EXCHANGE_BUFFERS if self._is_ahead(threads, stages) else 2
        return max(RESERVED_BYTES, RESERVED_BYTES // 2 + buffers * parts * PARTIAL_BYTES)

    def _can_stage(self, vec: int) -> bool:
        """Whether threads can copy all that they fetch to shared memory: words of 4 bytes at least."""
        return bool(self.fetched) and all(vec * self._bytes(fid) >= LEAST_COPY for fid in self.fetched)

    def _registers(self, threads: RowThreads, chunks: int, vec: int, at_once: int, stages: int, unpacks: bool) -> int:
        """What a thread takes: what it keeps for its columns, and what it works with. It keeps accumulators, steady
        values and, unless they wait in shared memory, each input of the rows that it works on and of the next ones.
        Values narrower than a register share one in a vector only."""
        ahead = self._is_ahead(threads, stages)
        steady = sum(max(4, self._bytes(fid)) for fid in self.reduced)
        steady += self._steady_bytes(ahead) if unpacks else sum(map(self._bytes, self.resident))
        fetched = sum(max(4, vec * self._bytes(fid)) for fid in self.fetched) if stages == 1 else 0
        other = AHEAD_REGISTERS if ahead and unpacks and self._is_light else OTHER_REGISTERS
        return other + -(-chunks * (vec * steady + 2 * at_once * fetched) // 4)

    def _steady_bytes(self, ahead: bool) -> int:
        """What a thread keeps of steady inputs for each column: most often their product, but where registers are
        counted closely each of them."""
        kept = [max(4, self._bytes(fid)) for fid in self.resident]
        return sum(kept) if ahead else max(kept, default=0)

    @property
    def _is_light(self) -> bool:
        """Whether rows are walked with few registers: there are no outer indices, two inputs at most, and no ops of
        many instructions."""
        has_lambdas = any(self.task.fusion.exprs[index].combine for index in self.task.exprs)
        is_costly = has_lambdas or bool(costly_values(self.task, self.domain, self.parts.columns))
        return not self.parts.outer and len(self.fetched) <= 2 and not is_costly

    def memory(self, vec: int) -> tuple[VariantSpec, ...]:
        """Accumulators in shared memory or, where that is too small, in scratch: rows that registers cannot own. The
        next row still waits in registers if it can. None where the vectors that an update takes are too many."""
        most = self.target.registers // MEMORY_THREADS - OTHER_REGISTERS
        updates = vec * sum(max(4, self._bytes(fid)) for fid in self.reduced) // 4
        if updates > most:
            return ()
        vector = vector_guards(self.task, self.domain, len(self.domain.axes) - 1, vec, self.parts.finished)
        guard = (fits_int32(self.columns), *vector)
        way = f"shared_vec{vec}_int32"
        shape = _memory_shape(MEMORY_THREADS)
        choice = decide(way, self._propose(shape), self.tuned, self._check_memory)
        chunks = self._chunks(choice.threads_per_row, vec)
        rows = 2 * chunks * sum(max(4, vec * self._bytes(fid)) for fid in self.fetched) // 4
        is_fetched = rows + updates <= most
        heuristics = self._heuristics(
            choice,
            chunks=chunks if is_fetched else 0,
            storage="shared",
            fetched=self.fetched if is_fetched else (),
            resident=(),
        )
        shared_bytes = product([sum(map(self._bytes, self.reduced)), self.columns])
        fits: list[Formula] = [("le", shared_bytes, self.target.shared_bytes - RESERVED_BYTES)]
        if is_fetched:
            fits.append(("le", self.columns, chunks * vec * choice.threads_per_row))
        return (
            self._variant(way, (*guard, *fits), vec, "int32_t", heuristics, choice, shared_bytes),
            self.scratch(vec, vector),
        )

    def scratch(self, vec: int, guard: tuple[Formula, ...]) -> VariantSpec:
        """Accumulators in memory; every sweep reads its inputs again. The fallback for everything."""
        per_row = min(MEMORY_THREADS, max(WARP, next_power_of_two(hint(self.columns, self.sizes) // (8 * vec))))
        shape = _memory_shape(per_row)
        way = f"scratch_{f'vec{vec}' if vec > 1 else 'scalar'}_int64"
        choice = decide(way, self._propose(shape), self.tuned, self._check_memory)
        heuristics = self._heuristics(choice, chunks=0, storage="scratch", fetched=(), resident=())
        return self._variant(way, guard, vec, "int64_t", heuristics, choice)

    @property
    def _rows(self) -> int:
        """The rows of the first case."""
        return hint(axis_product(self.domain, self.parts.rows), self.sizes)

    def _bytes(self, fid: int) -> int:
        """Bytes of an element."""
        return self.task.fusion.value(fid).dtype.bytes

    def _propose(self, shape: _Shape) -> InnerOuterChoice:
        """Blocks enough to fill the GPU once, each with a few rows at least."""
        blocks = self.target.multiprocessors * shape.blocks
        return InnerOuterChoice(
            threads_per_row=shape.threads.per_row,
            rows_per_block=shape.threads.rows,
            at_once=shape.at_once,
            stages=shape.stages,
            unpacks=shape.unpacks,
            blocks=max(1, min(blocks, self._rows // (ROWS_PER_BLOCK * shape.threads.rows))),
            min_blocks=shape.blocks,
        )

    def _heuristics(
        self,
        choice: InnerOuterChoice,
        *,
        chunks: int,
        storage: str,
        fetched: tuple[int, ...],
        resident: tuple[int, ...],
        packed: tuple[int, ...] = (),
    ) -> InnerOuterHeuristics:
        return InnerOuterHeuristics(
            threads=choice.threads,
            storage=storage,
            chunks=chunks,
            at_once=choice.at_once,
            stages=choice.stages,
            ahead=self._is_ahead(choice.threads, choice.stages),
            blocks=choice.blocks,
            fetched=fetched,
            resident=resident,
            packed=packed,
            min_blocks=choice.min_blocks,
        )

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
        kernel = KernelSpec(
            template="inner_outer_persistent",
            task=self.task,
            domain=self.domain,
            parameters=kernel_parameters(
                self.task, self.domain, partial_parameters(self.task, self.reduced, const=False)
            ),
            index=index,
            vec=vec,
            heuristics=heuristics,
        )
        launch = LaunchSpec(
            kernel=kernel,
            grid=(heuristics.blocks, 1, 1),
            block=(heuristics.threads.per_row, heuristics.threads.rows, 1),
            shared_bytes=shared_bytes,
        )
        finisher = Finisher(
            task=self.task, target=self.target, domain=self.domain, reduced=self.reduced, index="int64_t"
        )
        finish = finisher.launch([self._group(own, heuristics) for own in self.parts.finishes.values()])
        scratch = tuple(
            product([*self._partials(self.parts.kept[index], heuristics), self.columns, value.dtype.bytes])
            for index in self.parts.accumulated
            for value in map(self.task.fusion.value, self.task.fusion.exprs[index].outputs)
        )
        decided = decision(way, choice, self.tuned)
        return VariantSpec(name=name or way, guard=guard, launches=(launch, finish), scratch=scratch, decision=decided)

    def _partials(self, kept: Axes, heuristics: InnerOuterHeuristics) -> tuple[Formula, Formula]:
        """``(partial results of each column, what the columns are kept for)``, both in points."""
        if not kept:
            return heuristics.blocks, 1
        between = [axis for axis in self.parts.outer if axis not in kept]
        parts = most_parts(heuristics.blocks, axis_product(self.domain, self.parts.outer))
        return product([parts, axis_product(self.domain, between)]), axis_product(self.domain, kept)

    def _group(self, indices: Sequence[int], heuristics: InnerOuterHeuristics) -> FinishGroup:
        """How the partial results of the reductions ``indices`` are combined, which keep the same axes and are all
        scaled ones or none."""
        kept = self.parts.kept[indices[0]]
        scaled = [(index, self.parts.scaled[index]) for index in indices if index in self.parts.scaled]
        by_block = not kept and not scaled
        outer = () if by_block else self.parts.outer
        across = tuple(axis for axis in outer if axis not in kept)
        parts = most_parts(heuristics.blocks, axis_product(self.domain, outer)) if outer else heuristics.blocks
        return FinishGroup(
            splits=heuristics.blocks,
            reductions=tuple(indices),
            kept=(*kept, *self.parts.columns),
            partials=hint(product([parts, axis_product(self.domain, across)]), self.sizes),
            results=hint(axis_product(self.domain, (*kept, *self.parts.columns)), self.sizes),
            across=across,
            outer=outer,
            depth=self.parts.depth if outer else (),
            scaled=tuple((index, self._result(each.source), each.factor) for index, each in scaled),
        )

    def _result(self, index: int) -> int:
        return self.task.fusion.exprs[index].outputs[0]


def _memory_shape(per_row: int) -> _Shape:
    """One row a block, whose accumulators are in memory."""
    threads, blocks = RowThreads(per_row=per_row, rows=1), MEMORY_THREADS // per_row
    return _Shape(threads=threads, chunks=0, at_once=1, stages=1, unpacks=True, blocks=blocks)


def most_parts(blocks: int, outers: Formula) -> Formula:
    """As partition.cuh has it where there are rows enough: blocks that have rows of one of ``outers`` indices, at
    most."""
    return total([("floor_div", blocks, ("max", outers, 1)), 2])
