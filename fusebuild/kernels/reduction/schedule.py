"""Reductions without broadcasting back: inner, outer and full, several over the same axes in one pass.

The domain is ``kept x reduced x kept``. **Inner** (nothing kept inside): threads share a row, whose reduced axes one
linear index walks; kept ones may stand between them. **Outer** (something kept inside): each thread owns a vector of
columns and walks the reduced axis, then a block combines its rows. When the kept part alone cannot fill the GPU, the
reduced axis is split over ``splits`` blocks whose partial results a second kernel combines in a fixed order, so that
results are bitwise equal from run to run. Blocks take what they share in turns: at any time they read what lies side by
side, and what they read last, the end of the tensor, is what a kernel finds in L2 that reads it again backwards. The
epilogue on the reduced domain runs in whichever kernel holds the final values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from fusebuild.ir.formula import Formula, ceil_div, product
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import (
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
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.finish import Finisher, FinishGroup, partial_dtype, partial_parameters
from fusebuild.kernels.common.registers import Registers
from fusebuild.kernels.common.rows import (
    MAX_THREADS,
    RowChoice,
    RowThreads,
    blocks_wanted,
    check_outputs,
    check_reductions,
    check_rows,
    check_running,
    has_lambdas,
    kept_axes,
    levels,
    next_power_of_two,
    reduced_axes,
    row_threads,
    vector_of_states,
)
from fusebuild.kernels.common.shifted import has_odd_rows, shifted_guards
from fusebuild.kernels.common.spec import (
    INDEX_HEADROOM,
    KernelParameter,
    KernelSpec,
    LaunchSpec,
    Rejection,
    VariantSpec,
    VectorLayout,
    axis_product,
    fits_int32,
    hint,
    kernel_parameters,
    reductions,
    rejection,
    tensor_parameters,
    try_domain,
    usable,
    vector_guards,
    vector_width,
    widths,
)
from fusebuild.ops.table import op_of
from fusebuild.target.table import Target

BLOCKS_PER_MULTIPROCESSOR = 4
MOST_THREADS = 256
"""Threads of a row at most: several blocks share a multiprocessor then, and while one combines its threads' results,
others read."""
MAX_SPLITS = 1024
COLUMN_THREADS = 256
"""Threads of a block that combines columns of states: reduce.cuh's kColumnStorageBytes hold their partial ones."""
MOST_UNROLL = 16
"""Rows that a thread may load before it uses the first."""
RUNNING_SUMS = 3
"""Numbers that a thread keeps of each column while it reads moments."""
COLUMNS = Registers(base=32)
"""Registers of such a thread beside its running sums and the rows that it loads."""
LEAST_BLOCKS = 2
"""Blocks of a multiprocessor at least: while one combines its threads' results, the other reads."""
BYTES_IN_FLIGHT = 64 * 1024
"""What the threads of a multiprocessor shall load at once while they keep running sums, which take registers of more
of them: between two loads such a thread has much to do."""
SHIFTED_UNROLL = 4
"""Shifted vectors that a thread of an inner reduction loads before it uses the first, as its template has them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerChoice(RowChoice):
    """``splits`` blocks share each row."""

    splits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterChoice(Choice):
    """What :class:`OuterHeuristics` says; a multiprocessor shall have the registers of ``min_blocks``."""

    FEWER = ("unroll", "block_y")

    block_x: int
    block_y: int
    unroll: int
    splits: int
    min_blocks: int

    def stepped(self, knob: str, value: int) -> Self:
        """A wider block is a lower one."""
        changed = replace(self, **{knob: value})
        if knob == "block_x":
            changed = replace(changed, block_y=max(1, self.block_x * self.block_y // value))
        if knob == "min_blocks":
            return changed
        threads = self.block_x * self.block_y, changed.block_x * changed.block_y
        return replace(changed, min_blocks=fewer_blocks(self.min_blocks, *threads))


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerHeuristics:
    """``splits`` blocks share each row; 1 means that the kernel writes results and not partials."""

    threads: RowThreads
    splits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterHeuristics:
    """A block is ``block_x`` column vectors by ``block_y`` rows; a thread loads ``unroll`` rows before it uses one."""

    block_x: int
    block_y: int
    unroll: int
    splits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionScheduler:
    name: str = "reduction"

    def accepts(self, task: Task, target: Target) -> Rejection | None:
        domain = try_domain(self.name, task)
        if isinstance(domain, Rejection):
            return domain
        if rejected := check_reductions(self.name, task, domain):
            return rejected
        level = levels(task)
        for index in reductions(task):
            fid = task.fusion.exprs[index].outputs[0]
            if level[fid] > 1:
                name = task.fusion.value(fid).name
                return rejection(self.name, task, f"{name} needs the result of another reduction", fid)
        reduced = reduced_axes(domain)
        is_inner = bool(domain.axes) and domain.axes[-1].reduced
        if reduced and not is_inner and reduced != tuple(range(reduced[0], reduced[-1] + 1)):
            return rejection(self.name, task, "the reduced dims are not neighbours")
        return check_outputs(self.name, task, domain, kept_axes(domain))

    def schedule(
        self, task: Task, target: Target, sizes: Mapping[str, int], tuned: Tuned = NOT_TUNED
    ) -> tuple[VariantSpec, ...]:
        domain = try_domain(self.name, task)
        assert isinstance(domain, AxisDomain)
        inner = len(domain.axes) - 1
        is_inner = domain.axes[inner].reduced
        vec = vector_width(task, domain, inner)
        vec = vec if is_inner else vector_of_states(task, vec)
        planner = _Planner(task=task, target=target, domain=domain, sizes=sizes, tuned=tuned)
        make = planner.inner if is_inner else planner.outer
        variants = [make(*way) for way in widths(domain, vec, vector_guards(task, domain, inner, vec))]
        columns = axis_product(domain, reduced_axes(domain))
        is_plain = check_running(self.name, task) is None and len(reduced_axes(domain)) == 1
        if is_inner and is_plain and has_odd_rows(task, domain, vec, columns):
            name, guard = f"shifted_vec{vec}_int32", (fits_int32(columns), *shifted_guards(task, domain, vec))
            variants[1] = planner.inner(name, guard, vec, "int32_t", VectorLayout.SHIFTED)
        return usable(variants)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Planner:
    """One task on one target, for which variants are made."""

    task: Task
    target: Target
    domain: AxisDomain
    sizes: Mapping[str, int]
    tuned: Tuned

    def inner(
        self, way: str, guard: tuple[Formula, ...], vec: int, index: str, vectors: VectorLayout = VectorLayout.ALIGNED
    ) -> VariantSpec:
        rows = axis_product(self.domain, kept_axes(self.domain))
        columns = hint(axis_product(self.domain, reduced_axes(self.domain)), self.sizes)
        check = partial(self._check_inner, vectors=max(1, columns // vec))
        choice = decide(way, self._propose_inner(rows, columns, vec), self.tuned, check)
        threads, splits = choice.threads, choice.splits
        heuristics = InnerHeuristics(threads=threads, splits=splits)
        kernel = _kernel("reduction_inner", self.task, self.domain, vec, index, heuristics, splits)
        kernel = replace(kernel, vectors=vectors, min_blocks=choice.min_blocks)
        launch = LaunchSpec(kernel=kernel, grid=(threads.grid(rows), splits, 1), block=(threads.block, 1, 1))
        turn = threads.per_row * vec * (SHIFTED_UNROLL if kernel.is_shifted else 1)
        guard = _with_turns(guard, axis_product(self.domain, reduced_axes(self.domain)), index, splits * turn)
        variant = self._with_finish(launch, way, guard, rows, splits)
        return replace(variant, decision=decision(way, choice, self.tuned))

    def _propose_inner(self, rows: Formula, columns: int, vec: int) -> InnerChoice:
        threads = row_threads(columns, vec, 8, MOST_THREADS)
        splits = _splits(self.target, hint(threads.grid(rows), self.sizes), columns // (MOST_THREADS * vec * 4))
        if splits > 1:
            threads = RowThreads(per_row=MOST_THREADS, rows=1)
        return InnerChoice(
            threads_per_row=threads.per_row,
            rows_per_block=threads.rows,
            min_blocks=blocks_wanted(threads),
            splits=splits,
        )

    def _check_inner(self, choice: InnerChoice, *, vectors: int) -> None:
        check_rows(choice, self.target)
        most = min(MAX_SPLITS, vectors)
        require_at_most(choice, "splits", most, f"a row of {vectors} vectors is for {most} blocks at most")
        require(choice.splits == 1 or choice.rows_per_block == 1, "splits", "blocks that share a row have no other")

    def outer(self, way: str, guard: tuple[Formula, ...], vec: int, index: str) -> VariantSpec:
        reduced = reduced_axes(self.domain)
        outside = axis_product(self.domain, [axis for axis in kept_axes(self.domain) if axis < reduced[0]])
        inside = axis_product(self.domain, [axis for axis in kept_axes(self.domain) if axis > reduced[-1]])
        depth = hint(axis_product(self.domain, reduced), self.sizes)
        proposal = self._propose_outer(outside, inside, depth, vec)
        choice = decide(way, proposal, self.tuned, partial(self._check_outer, depth=depth))
        block_x, block_y, splits = choice.block_x, choice.block_y, choice.splits
        heuristics = OuterHeuristics(block_x=block_x, block_y=block_y, unroll=choice.unroll, splits=splits)
        kernel = _kernel("reduction_outer", self.task, self.domain, vec, index, heuristics, splits)
        tiles = ceil_div(inside, block_x * vec)
        launch = LaunchSpec(
            kernel=replace(kernel, min_blocks=choice.min_blocks),
            grid=(product([tiles, outside]), splits, 1),
            block=(block_x, block_y, 1),
        )
        length, turn = axis_product(self.domain, reduced), choice.unroll * block_y
        guard = _with_turns(guard, length, index, splits * turn)
        variant = self._with_finish(launch, way, guard, product([outside, inside]), splits)
        return replace(variant, decision=decision(way, choice, self.tuned))

    def _with_finish(
        self, launch: LaunchSpec, name: str, guard: tuple[Formula, ...], kept: Formula, splits: int
    ) -> VariantSpec:
        """The variant of ``launch``, and of the kernel that combines its partial results where there are some."""
        if splits == 1:
            return VariantSpec(name=name, guard=guard, launches=(launch,))
        reduced = reduced_values(self.task)
        finisher = Finisher(
            task=self.task, target=self.target, domain=self.domain, reduced=reduced, index=launch.kernel.index
        )
        finish = finisher.launch(
            [
                FinishGroup(
                    splits=splits,
                    reductions=reductions(self.task),
                    kept=kept_axes(self.domain),
                    partials=splits,
                    results=hint(kept, self.sizes),
                    is_last=True,
                )
            ]
        )
        scratch = tuple(product([splits, partial_dtype(self.task, fid).bytes, kept]) for fid in reduced)
        return VariantSpec(name=f"{name}_split{splits}", guard=guard, launches=(launch, finish), scratch=scratch)

    def _propose_outer(self, outside: Formula, inside: Formula, depth: int, vec: int) -> OuterChoice:
        block_x = min(32, next_power_of_two(-(-hint(inside, self.sizes) // vec)))
        block_y, unroll = 256 // block_x, 4 if vec > 1 else 2
        blocks = hint(ceil_div(inside, block_x * vec), self.sizes) * hint(outside, self.sizes)
        threads, room = block_x * block_y, None
        if self._running:
            is_idle = vec > 1 and self._in_flight(threads, vec, unroll) < BYTES_IN_FLIGHT
            if is_idle and self._resident(threads, vec, 2 * unroll) >= LEAST_BLOCKS:
                unroll *= 2
            room = self.target.multiprocessors * self._resident(threads, vec, unroll)
        splits = _splits(self.target, blocks, depth // (block_y * 8), room)
        return OuterChoice(block_x=block_x, block_y=block_y, unroll=unroll, splits=splits, min_blocks=LEAST_BLOCKS)

    @property
    def _running(self) -> list[int]:
        """The reductions that threads keep running sums of columns for."""
        return [index for index in reductions(self.task) if op_of(self.task.fusion.exprs[index]).running]

    def _in_flight(self, threads: int, vec: int, unroll: int) -> int:
        """Bytes that the blocks of a multiprocessor load at once."""
        return self._resident(threads, vec, unroll) * threads * self._loaded(vec, unroll)

    def _resident(self, threads: int, vec: int, unroll: int) -> int:
        """The blocks that a multiprocessor has registers for where threads keep running sums: more would run after the
        others, and alone. Other blocks have room."""
        fusion = self.task.fusion
        outputs = [fusion.exprs[index].outputs[0] for index in self._running]
        kept = sum(RUNNING_SUMS * vec * fusion.value(fid).dtype.bytes for fid in outputs)
        registers = COLUMNS.base + (self._loaded(vec, unroll) + kept) // 4
        return min(BLOCKS_PER_MULTIPROCESSOR, self.target.registers // (threads * registers))

    def _loaded(self, vec: int, unroll: int) -> int:
        """Bytes that a thread loads before it uses the first."""
        read = [fid for fid in self.domain.accesses if fid not in self.task.outputs and self._is_reduced(fid)]
        return sum(unroll * vec * self.task.fusion.value(fid).dtype.bytes for fid in read)

    def _is_reduced(self, fid: int) -> bool:
        return not {*reduced_axes(self.domain)}.isdisjoint(self.domain.accesses[fid].axes)

    def _check_outer(self, choice: OuterChoice, *, depth: int) -> None:
        threads = choice.block_x * choice.block_y
        require_power_of_two(choice, "block_x", 1, MAX_THREADS)
        require_power_of_two(choice, "block_y", 1, MAX_THREADS)
        require_block("block_y", threads, most_column_threads(self.task))
        require_power_of_two(choice, "unroll", 1, MOST_UNROLL)
        most = min(MAX_SPLITS, depth)
        require_at_most(choice, "splits", most, f"{depth} rows are for {most} blocks at most")
        require_blocks(choice, "min_blocks", threads, self.target.threads_per_multiprocessor)


def most_column_threads(task: Task) -> int:
    """Threads of a block whose partial results of columns have room where they meet: states of lambdas take more."""
    return COLUMN_THREADS if has_lambdas(task) else MAX_THREADS


def _splits(target: Target, blocks: int, most: int, room: int | None = None) -> int:
    """How many blocks share one reduction, so that the GPU is full; at most ``most``, and as there is ``room`` for."""
    wanted = -(-target.multiprocessors * BLOCKS_PER_MULTIPROCESSOR // blocks)
    if room is not None:
        wanted = min(wanted, room // blocks)
    return max(1, min(wanted, most, MAX_SPLITS))


def _with_turns(guard: tuple[Formula, ...], length: Formula, index: str, step: int) -> tuple[Formula, ...]:
    """``guard`` for a loop that goes up to ``length`` by ``step``, over what other blocks take: its last step must not
    leave a 32-bit index."""
    if index != "int32_t" or step <= 2**31 - INDEX_HEADROOM:
        return guard
    return (*(each for each in guard if each != fits_int32(length)), ("lt", length, 2**31 - step))


def _kernel(
    template: str, task: Task, domain: AxisDomain, vec: int, index: str, heuristics: object, splits: int
) -> KernelSpec:
    """A reducing kernel. With splits it writes partials and not outputs."""
    tensors, partials = tensor_parameters(task, domain), list[KernelParameter]()
    if splits > 1:
        outputs = {f"T{fid}" for fid in task.outputs}
        tensors = [parameter for parameter in tensors if parameter.name not in outputs]
        partials = partial_parameters(task, reduced_values(task), const=False)
    return KernelSpec(
        template=template,
        task=task,
        domain=domain,
        parameters=kernel_parameters(task, domain, partials, tensors),
        index=index,
        vec=vec,
        heuristics=heuristics,
    )


def reduced_values(task: Task) -> tuple[int, ...]:
    """The results of all reductions; a generalized one has several."""
    return tuple(fid for index in reductions(task) for fid in task.fusion.exprs[index].outputs)
