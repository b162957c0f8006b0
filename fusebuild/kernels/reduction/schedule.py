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

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from fusebuild.ir.formula import Formula, ceil_div, product
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import Choice, decide, fewer_blocks
from fusebuild.kernels.common.finish import Finisher, FinishGroup, partial_dtype, partial_parameters
from fusebuild.kernels.common.lambdas import folded
from fusebuild.kernels.common.planner import Planner, Width
from fusebuild.kernels.common.registers import Registers
from fusebuild.kernels.common.rows import (
    MAX_THREADS,
    RowChoice,
    RowThreads,
    blocks_wanted,
    check_outputs,
    check_reductions,
    check_rows,
    has_lambdas,
    levels,
    next_power_of_two,
    row_threads,
    running_sums,
    vector_of_states,
)
from fusebuild.kernels.common.spec import (
    INDEX_HEADROOM,
    KernelParameter,
    KernelSpec,
    VariantSpec,
    VectorLayout,
    fits_int32,
    hint,
    kernel_parameters,
    reductions,
    tensor_parameters,
    try_domain,
)
from fusebuild.kernels.common.unfit import UnfitError
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
class OuterChoice(OuterHeuristics, Choice):
    """What :class:`OuterHeuristics` says; a multiprocessor shall have the registers of ``min_blocks``."""

    FEWER = ("unroll", "block_y")

    min_blocks: int

    @property
    def threads(self) -> int:
        return self.block_x * self.block_y

    def stepped(self, knob: str, value: int) -> Self:
        """A wider block is a lower one."""
        changed = replace(self, **{knob: value})
        if knob == "block_x":
            changed = replace(changed, block_y=max(1, self.threads // value))
        if knob == "min_blocks":
            return changed
        return replace(changed, min_blocks=fewer_blocks(self.min_blocks, self.threads, changed.threads))


def check(task: Task) -> None:
    domain = try_domain(task)
    check_reductions(task, domain)
    level = levels(task)
    for fid in folded(task, reductions(task)):
        if level[fid] > 1:
            raise UnfitError(f"{task.fusion.value(fid).name} needs the result of another reduction", fid)
    reduced = domain.reduced
    is_inner = bool(domain.axes) and domain.axes[-1].reduced
    if reduced and not is_inner and reduced != tuple(range(reduced[0], reduced[-1] + 1)):
        raise UnfitError("the reduced dims are not neighbours")
    check_outputs(task, domain, domain.kept)


def variants(planner: Planner) -> list[VariantSpec]:
    task, domain, inner = planner.task, planner.domain, planner.domain.inner
    is_inner, vec = domain.axes[inner].reduced, planner.vector_width(inner)
    vec = vec if is_inner else vector_of_states(task, vec)
    make = _inner if is_inner else _outer
    found = [make(planner, way) for way in planner.widths(vec, planner.vector_guards(inner, vec))]
    columns = domain.points(domain.reduced)
    is_plain = not running_sums(task) and len(domain.reduced) == 1
    if is_inner and is_plain and planner.has_odd_rows(vec, columns):
        odd = (f"shifted_vec{vec}_int32", planner.shifted_guard(vec, columns), vec, "int32_t")
        found[1] = _inner(planner, odd, VectorLayout.SHIFTED)
    return found


def _inner(planner: Planner, width: Width, vectors: VectorLayout = VectorLayout.ALIGNED) -> VariantSpec:
    way, _, vec, _ = width
    columns = planner.expected(planner.domain.reduced)
    own_check = partial(_check_inner, target=planner.target, vectors=max(1, columns // vec))
    choice = decide(way, _propose_inner(planner, columns, vec), planner.tuned, own_check)
    threads, is_shifted = choice.threads, vectors is VectorLayout.SHIFTED
    heuristics = InnerHeuristics(threads=threads, splits=choice.splits)
    kernel = _kernel(planner, width, choice, "reduction_inner", heuristics, vectors)
    grid, turn = threads.grid(planner.domain.points(planner.domain.kept)), threads.per_row * vec
    turn *= SHIFTED_UNROLL if is_shifted else 1
    return _variant(planner, width, choice, kernel, grid, (threads.block, 1, 1), turn)


def _propose_inner(planner: Planner, columns: int, vec: int) -> InnerChoice:
    threads = row_threads(columns, vec, 8, MOST_THREADS)
    blocks = hint(threads.grid(planner.domain.points(planner.domain.kept)), planner.sizes)
    splits = _splits(planner.target, blocks, columns // (MOST_THREADS * vec * 4))
    if splits > 1:
        threads = RowThreads(per_row=MOST_THREADS, rows=1)
    return InnerChoice(
        threads_per_row=threads.per_row, rows_per_block=threads.rows, min_blocks=blocks_wanted(threads), splits=splits
    )


def _check_inner(choice: InnerChoice, *, target: Target, vectors: int) -> None:
    check_rows(choice, target)
    most = min(MAX_SPLITS, vectors)
    choice.require_at_most("splits", most, f"a row of {vectors} vectors is for {most} blocks at most")
    message = "blocks that share a row have no other"
    choice.require(choice.splits == 1 or choice.rows_per_block == 1, "splits", message)


def _outer(planner: Planner, width: Width) -> VariantSpec:
    way, _, vec, _ = width
    domain = planner.domain
    first, last = domain.reduced[0], domain.reduced[-1]
    outside, inside = domain.points(range(first)), domain.points(domain.every[last + 1 :])
    depth = planner.expected(domain.reduced)
    own_check = partial(_check_outer, task=planner.task, target=planner.target, depth=depth)
    choice = decide(way, _propose_outer(planner, outside, inside, depth, vec), planner.tuned, own_check)
    heuristics = OuterHeuristics(
        block_x=choice.block_x, block_y=choice.block_y, unroll=choice.unroll, splits=choice.splits
    )
    kernel = _kernel(planner, width, choice, "reduction_outer", heuristics)
    tiles, block = product([ceil_div(inside, choice.block_x * vec), outside]), (choice.block_x, choice.block_y, 1)
    return _variant(planner, width, choice, kernel, tiles, block, choice.unroll * choice.block_y)


def _propose_outer(planner: Planner, outside: Formula, inside: Formula, depth: int, vec: int) -> OuterChoice:
    target, sizes = planner.target, planner.sizes
    block_x = min(32, next_power_of_two(-(-hint(inside, sizes) // vec)))
    block_y, unroll = 256 // block_x, 4 if vec > 1 else 2
    blocks = hint(ceil_div(inside, block_x * vec), sizes) * hint(outside, sizes)
    threads, room = block_x * block_y, None
    if running_sums(planner.task):
        resident = partial(_resident, planner, threads, vec)
        in_flight = resident(unroll) * threads * _loaded(planner, vec, unroll)
        if vec > 1 and in_flight < BYTES_IN_FLIGHT and resident(2 * unroll) >= LEAST_BLOCKS:
            unroll *= 2
        room = target.multiprocessors * resident(unroll)
    splits = _splits(target, blocks, depth // (block_y * 8), room)
    return OuterChoice(block_x=block_x, block_y=block_y, unroll=unroll, splits=splits, min_blocks=LEAST_BLOCKS)


def _resident(planner: Planner, threads: int, vec: int, unroll: int) -> int:
    """The blocks that a multiprocessor has registers for where threads keep running sums of columns: more would run
    after the others, and alone. Other blocks have room."""
    outputs = [planner.task.fusion.exprs[index].outputs[0] for index in running_sums(planner.task)]
    kept = RUNNING_SUMS * vec * planner.bytes_of(outputs)
    registers = COLUMNS.base + (_loaded(planner, vec, unroll) + kept) // 4
    return min(BLOCKS_PER_MULTIPROCESSOR, planner.target.registers // (threads * registers))


def _loaded(planner: Planner, vec: int, unroll: int) -> int:
    """Bytes that a thread loads before it uses the first."""
    accesses, reduced = planner.domain.accesses.values(), {*planner.domain.reduced}
    reduced_along = [access.fid for access in accesses if not reduced.isdisjoint(access.axes)]
    return unroll * vec * planner.bytes_of(fid for fid in reduced_along if fid not in planner.task.outputs)


def _check_outer(choice: OuterChoice, *, task: Task, target: Target, depth: int) -> None:
    choice.require_power_of_two("block_x", 1, MAX_THREADS)
    choice.require_power_of_two("block_y", 1, MAX_THREADS)
    choice.require_block("block_y", choice.threads, most_column_threads(task))
    choice.require_power_of_two("unroll", 1, MOST_UNROLL)
    most = min(MAX_SPLITS, depth)
    choice.require_at_most("splits", most, f"{depth} rows are for {most} blocks at most")
    choice.require_blocks("min_blocks", choice.threads, target.threads_per_multiprocessor)


def _kernel(
    planner: Planner,
    width: Width,
    choice: InnerChoice | OuterChoice,
    template: str,
    heuristics: object,
    vectors: VectorLayout = VectorLayout.ALIGNED,
) -> KernelSpec:
    """A reducing kernel. With several splits it writes partials and not outputs."""
    _, _, vec, index = width
    task, domain = planner.task, planner.domain
    tensors, partials = tensor_parameters(task, domain), list[KernelParameter]()
    if choice.splits > 1:
        outputs = {f"T{fid}" for fid in task.outputs}
        tensors = [parameter for parameter in tensors if parameter.name not in outputs]
        partials = partial_parameters(task, folded(task, reductions(task)), const=False)
    parameters = kernel_parameters(task, domain, partials, tensors)
    return planner.kernel(
        template, heuristics, vec=vec, index=index, parameters=parameters, vectors=vectors, min_blocks=choice.min_blocks
    )


def _variant(
    planner: Planner,
    width: Width,
    choice: InnerChoice | OuterChoice,
    kernel: KernelSpec,
    grid: Formula,
    block: tuple[int, int, int],
    turn: int,
) -> VariantSpec:
    """The variant of ``kernel``, whose splits take ``turn`` elements of what they share at a time, and of the kernel
    that combines its partial results where there are several splits."""
    way, guard, _, index = width
    task, domain, splits = planner.task, planner.domain, choice.splits
    guard = _with_turns(guard, domain.points(domain.reduced), index, splits * turn)
    variant = planner.variant(way, choice, guard, kernel, grid, block)
    if splits == 1:
        return variant
    (launch,), reduced = variant.launches, folded(task, reductions(task))
    group = FinishGroup(
        reductions=reductions(task),
        kept=domain.kept,
        partials=splits,
        results=planner.expected(domain.kept),
        is_last=True,
    )
    kept, finisher = domain.points(domain.kept), Finisher.of(planner, reduced=reduced, index=index, splits=splits)
    return replace(
        variant,
        name=f"{way}_split{splits}",
        launches=(replace(launch, grid=(grid, splits, 1)), finisher.launch([group])),
        scratch=tuple(product([splits, partial_dtype(task, fid).bytes, kept]) for fid in reduced),
    )


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
