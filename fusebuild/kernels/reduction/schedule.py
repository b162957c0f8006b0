"""Reductions without broadcasting back: inner, outer and full, several over the same axes in one pass.

The domain is ``kept x reduced x kept``. **Inner** (nothing kept inside): threads share a row, whose reduced axes one
linear index walks; kept ones may stand between them. **Outer** (something kept inside): each thread owns a vector of
columns and walks the reduced axis, then a block combines its rows. The kernels of a variant serve all sizes: how many
threads share a row or own columns side by side, and how many blocks share a reduction, are arguments, formulas of the
sizes and of the device's multiprocessors.

When the kept part alone cannot fill the GPU, the reduced axis is split over blocks whose partial results a second
kernel combines in a fixed order, so that results are bitwise equal from run to run on one device. Blocks take what they
share in turns: at any time they read what lies side by side, and what they read last, the end of the tensor, is what a
kernel finds in L2 that reads it again backwards. The epilogue on the reduced domain runs in whichever kernel holds the
final values: where a call has one split, the first writes them and the second is not launched.

Rows of a number of columns that no vector divides begin between vectors. An inner reduction shifts its vectors for each
row. In an outer one as many rows as a vector has elements are one row of whole vectors: each vector owns a piece of it,
and leaves a partial result of each column for each of these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, ceil_div, product, simplified, total
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import Choice, decide, fewer_blocks
from fusebuild.kernels.common.finish import NARROWEST, Finisher, FinishGroup, partial_dtype, partial_parameters
from fusebuild.kernels.common.lambdas import combined, folded
from fusebuild.kernels.common.planner import Planner, Width
from fusebuild.kernels.common.registers import Registers
from fusebuild.kernels.common.rows import (
    MAX_THREADS,
    WARP,
    check_outputs,
    check_reductions,
    has_lambdas,
    levels,
    running_sums,
    vector_of_states,
)
from fusebuild.kernels.common.spec import (
    KernelParameter,
    KernelSpec,
    KnownSizes,
    VariantSpec,
    VectorLayout,
    call_parameter,
    fits_int32,
    kernel_parameters,
    reductions,
    try_domain,
)
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.target.table import Target

BLOCKS_PER_MULTIPROCESSOR = 4
WAVES = 4
"""Turns of all multiprocessors that blocks shall take which do not fit one: the last may have few."""
ROW_THREADS, ROW_BLOCKS = 128, 8
"""The same of inner reductions: a row of many vectors has a block of its own."""
THREADS = 256
"""Threads of a block: several blocks share a multiprocessor, and while one combines its threads' results, others
read."""
COLUMN_THREADS = 256
"""Threads of a block that combines columns of states, at most: reduce_shaped.cuh keeps one of each in shared memory."""
LADDER = (3, 8, 16, 64, 128, 256, 512)
"""Vectors of a row above which two threads share it, four, eight and so on. Up to 32 need no barrier to meet. Those of
short rows have few vectors, so that those of a warp read what lies side by side; those of long rows have about eight,
since to combine their results takes time."""
SHORTEST = 2
"""Elements of vectors that are no longer than the rows which they are for. Of longer ones most would be left out: a row
of fewer than half as many is read one by one."""
LEAST_TURNS = 2
"""Turns that a block which shares a reduction shall take, at least: what it leaves has to be worth a second kernel."""
MOST_UNROLL = 16
"""Vectors that a thread may load before it uses the first."""
FEW_ROWS = 64
"""Rows below which a thread reads all of them, where columns fill the GPU."""
LEAST_ROWS = 512
"""Rows of columns that no vector divides which are worth a partial result for each row of a vector's length."""
RUNNING_SUMS = 3
"""Numbers that a thread keeps of each column while it reads moments."""
COLUMNS = Registers(base=32)
"""Registers of such a thread beside its running sums and the rows that it loads."""
LEAST_BLOCKS = 2
"""Blocks of a multiprocessor at least: while one combines its threads' results, the other reads."""
BYTES_IN_FLIGHT = 64 * 1024
"""What the threads of a multiprocessor shall load at once while they keep running sums, which take registers of more
of them: between two loads such a thread has much to do."""
LONGEST = 2**30
"""Elements to reduce below which 32-bit indices reach far enough beyond the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerHeuristics:
    """A thread of a block of ``threads`` loads ``unroll`` vectors before it uses one; blocks may share rows where there
    ``is_split``, else none ever does."""

    threads: int
    unroll: int
    is_split: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerChoice(Choice):
    """Blocks of ``threads``, each of which loads ``unroll`` vectors before it uses one. Where rows are few, so many
    share them that each multiprocessor has ``blocks``; it shall have the registers of ``min_blocks``."""

    FEWER = ("unroll", "threads")

    threads: int
    unroll: int
    blocks: int
    min_blocks: int

    def stepped(self, knob: str, value: int) -> Self:
        """A multiprocessor has the registers of as many threads as before."""
        changed = replace(self, **{knob: value})
        if knob == "min_blocks":
            return changed
        return replace(changed, min_blocks=fewer_blocks(self.min_blocks, self.threads, changed.threads))


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterHeuristics:
    """A thread of a block of ``threads`` loads ``unroll`` rows before it uses one; blocks may share columns where there
    ``is_split``, else none ever does. Of its threads ``widest`` lie side by side at most."""

    threads: int
    unroll: int
    widest: int
    is_split: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterChoice(InnerChoice):
    """As :class:`InnerChoice` for columns. ``block_y`` threads of a block share columns, or more where there are not
    columns enough for the others."""

    FEWER = ("unroll", "threads")

    block_y: int


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
    reduced, vec = domain.points(domain.reduced), planner.vector_width(inner)
    if domain.axes[inner].reduced:
        found = [_inner(planner, way) for way in planner.widths(vec, planner.vector_guards(inner, vec))]
        is_plain = not running_sums(task) and len(domain.reduced) == 1
        if is_plain and planner.has_odd_rows(vec, reduced):
            long: tuple[Formula, ...] = (("ge", reduced, vec // 2),) if vec > SHORTEST else ()
            odd = (f"shifted_vec{vec}_int32", (*planner.shifted_guard(vec, reduced), *long), vec, "int32_t")
            found[1] = _inner(planner, odd, VectorLayout.SHIFTED)
        return found
    vec = vector_of_states(task, vec)
    ways = planner.widths(vec, planner.vector_guards(inner, vec))
    found = [_outer(planner, way) for way in ways]
    if not running_sums(task) and planner.has_odd_rows(vec, _inside(planner)) and _reads_flat_alone(planner, found[-1]):
        few: Formula = ("lt", domain.points(domain.every), LONGEST)
        many: tuple[Formula, ...] = (few, *planner.aligned(domain.flat, vec), ("ge", reduced, LEAST_ROWS))
        found.insert(1, _outer(planner, (f"folded_vec{vec}_int32", many, vec, "int32_t"), VectorLayout.SHIFTED))
    if vec > 1:
        found.insert(0, _wide(planner, ways[0]))
    return found


def _inside(planner: Planner) -> Formula:
    """The columns of an outer reduction."""
    domain = planner.domain
    return domain.points(domain.every[domain.reduced[-1] + 1 :])


def _reads_flat_alone(planner: Planner, variant: VariantSpec) -> bool:
    """Whether the elements that ``variant`` combines come from flat tensors, wherever they are in them."""
    body = Body(variant.launches[0].kernel)
    operands = combined(body, reductions(planner.task))
    flat = {*planner.domain.flat}
    return {*body.reads(operands)} <= flat and not body.coordinate_axes(body.closure(operands))


def _inner(planner: Planner, width: Width, vectors: VectorLayout = VectorLayout.ALIGNED) -> VariantSpec:
    way, _, vec, _ = width
    domain = planner.domain
    rows, columns = domain.points(domain.kept), domain.points(domain.reduced)
    proposal = InnerChoice(threads=ROW_THREADS, unroll=4, blocks=ROW_BLOCKS, min_blocks=4)
    choice = decide(way, proposal, planner.tuned, partial(_check, task=planner.task, target=planner.target))
    per_row = _per_row(columns, vec, choice.threads)
    grid = simplified(("ceil_div", product([rows, per_row]), choice.threads))
    turn = choice.threads * choice.unroll * vec
    splits = _splits(rows, ("floor_div", columns, LEAST_TURNS * turn), choice.blocks)
    heuristics = InnerHeuristics(threads=choice.threads, unroll=choice.unroll, is_split=splits != 1)
    own = (call_parameter("row_shift", _row_shift(columns, vec, choice.threads), "of the threads that share a row"),)
    kernel = _kernel(planner, width, choice, "reduction_inner", heuristics, vectors, splits, own)
    return _variant(planner, width, choice, kernel, (grid, splits, 1))


def _per_row(columns: Formula, vec: int, most: int) -> Formula:
    """The threads that share a row, by its length: a power of two."""
    rungs = [("mul", 2 << rung, ("gt", columns, vectors * vec)) for rung, vectors in _rungs(most)]
    return simplified(("max", 1, *rungs))


def _row_shift(columns: Formula, vec: int, most: int) -> Formula:
    """The power of two that :func:`_per_row` is."""
    return simplified(total([("gt", columns, vectors * vec) for _, vectors in _rungs(most)]))


def _rungs(most: int) -> list[tuple[int, int]]:
    """The rungs of LADDER that a block of ``most`` threads has, by number."""
    return [(rung, vectors) for rung, vectors in enumerate(LADDER) if 2 << rung <= most]


def _outer(planner: Planner, width: Width, vectors: VectorLayout = VectorLayout.ALIGNED) -> VariantSpec:
    """Where many rows are for ``block_y`` threads or more."""
    way, _, vec, _ = width
    domain = planner.domain
    check = partial(_check, task=planner.task, target=planner.target)
    choice = decide(way, _propose_outer(planner, vec), planner.tuned, check)
    is_folded, widest = vectors is VectorLayout.SHIFTED, choice.threads // choice.block_y
    tiles = ceil_div(domain.points(domain.kept), widest * (1 if is_folded else vec))
    turn = choice.threads * choice.unroll * vec
    most: Formula = ("floor_div", domain.points(domain.every), product([LEAST_TURNS * turn, ("max", 1, tiles)]))
    splits = _splits(tiles, most, choice.blocks)
    heuristics = OuterHeuristics(
        threads=choice.threads, unroll=choice.unroll, widest=widest, is_split=is_folded or splits != 1
    )
    kernel = _kernel(planner, width, choice, "reduction_outer", heuristics, vectors, splits)
    return _variant(planner, width, choice, kernel, (tiles, splits, 1))


def _wide(planner: Planner, width: Width) -> VariantSpec:
    """Where rows are so few and columns so many that each thread reads its own columns, and no other does."""
    way, guard, vec, index = width
    domain, way, proposal = planner.domain, f"wide_{way}", _propose_outer(planner, vec)
    check = partial(_check, task=planner.task, target=planner.target)
    unroll = proposal.unroll if has_lambdas(planner.task) or running_sums(planner.task) else 2 * proposal.unroll
    choice = decide(way, replace(proposal, block_y=1, unroll=unroll), planner.tuned, check)
    kept, widest = domain.points(domain.kept), choice.threads // choice.block_y
    many: Formula = ("ge", kept, widest * vec * planner.target.multiprocessors)
    few: tuple[Formula, ...] = (("lt", domain.points(domain.reduced), FEW_ROWS), many)
    width = (way, (*guard, *few), vec, index)
    heuristics = OuterHeuristics(threads=choice.threads, unroll=choice.unroll, widest=widest, is_split=False)
    kernel = _kernel(planner, width, choice, "reduction_outer", heuristics, VectorLayout.ALIGNED, 1)
    return _variant(planner, width, choice, kernel, (ceil_div(kept, widest * vec), 1, 1))


def _propose_outer(planner: Planner, vec: int) -> OuterChoice:
    unroll, blocks, block_y = (4, BLOCKS_PER_MULTIPROCESSOR, 8) if vec > 1 else (16, BLOCKS_PER_MULTIPROCESSOR, 1)
    if running_sums(planner.task):
        resident = partial(_resident, planner, THREADS, vec)
        in_flight = resident(unroll) * THREADS * _loaded(planner, vec, unroll)
        if vec > 1 and in_flight < BYTES_IN_FLIGHT and resident(2 * unroll) >= LEAST_BLOCKS:
            unroll *= 2
        blocks = resident(unroll)
    return OuterChoice(threads=THREADS, unroll=unroll, blocks=blocks, block_y=block_y, min_blocks=LEAST_BLOCKS)


def _resident(planner: Planner, threads: int, vec: int, unroll: int) -> int:
    """The blocks that a multiprocessor has registers for where threads keep running sums of columns: more would run
    after the others, and alone. Other blocks have room."""
    outputs = [planner.task.fusion.exprs[index].outputs[0] for index in running_sums(planner.task)]
    kept = RUNNING_SUMS * vec * planner.bytes_of(outputs)
    registers = COLUMNS.base + (_loaded(planner, vec, unroll) + kept) // 4
    return max(1, min(BLOCKS_PER_MULTIPROCESSOR, planner.target.registers // (threads * registers)))


def _loaded(planner: Planner, vec: int, unroll: int) -> int:
    """Bytes that a thread loads before it uses the first."""
    accesses, reduced = planner.domain.accesses.values(), {*planner.domain.reduced}
    reduced_along = [access.fid for access in accesses if not reduced.isdisjoint(access.axes)]
    return unroll * vec * planner.bytes_of(fid for fid in reduced_along if fid not in planner.task.outputs)


def _check(choice: InnerChoice, *, task: Task, target: Target) -> None:
    most = most_column_threads(task) if isinstance(choice, OuterChoice) else MAX_THREADS
    choice.require_power_of_two("threads", WARP, MAX_THREADS)
    choice.require_block("threads", choice.threads, most)
    choice.require_power_of_two("unroll", 1, MOST_UNROLL)
    choice.require_blocks("blocks", choice.threads, target.threads_per_multiprocessor)
    choice.require_blocks("min_blocks", choice.threads, target.threads_per_multiprocessor)
    if isinstance(choice, OuterChoice):
        choice.require_power_of_two("block_y", 1, choice.threads)


def _kernel(
    planner: Planner,
    width: Width,
    choice: InnerChoice,
    template: str,
    heuristics: InnerHeuristics | OuterHeuristics,
    vectors: VectorLayout,
    splits: Formula,
    own: Sequence[KernelParameter] = (),
) -> KernelSpec:
    """A reducing kernel, which has parameters of its ``own``. With several splits it writes partials and not
    outputs."""
    _, _, vec, index = width
    task, domain = planner.task, planner.domain
    partials = list[KernelParameter]()
    if heuristics.is_split:
        partials = partial_parameters(task, folded(task, reductions(task)), const=False)
        own = (*own, call_parameter("splits", splits, "blocks that share a reduction"))
    parameters = (*kernel_parameters(task, domain, partials), *own)
    return planner.kernel(
        template, heuristics, vec=vec, index=index, parameters=parameters, vectors=vectors,
        min_blocks=choice.min_blocks, sizes=KnownSizes(help=False),
    )  # fmt: skip


def _variant(
    planner: Planner, width: Width, choice: InnerChoice, kernel: KernelSpec, grid: tuple[Formula, Formula, Formula]
) -> VariantSpec:
    """The variant of ``kernel``, and of the one that combines its partial results where there may be several splits.
    Threads step over what other blocks take, at most half of all: their last step must not leave a 32-bit index."""
    way, guard, vec, index = width
    task, domain, heuristics = planner.task, planner.domain, kernel.heuristics
    assert isinstance(heuristics, InnerHeuristics | OuterHeuristics)
    if heuristics.is_split and index == "int32_t":
        length = domain.points(domain.reduced)
        guard = (*(each for each in guard if each != fits_int32(length)), ("lt", length, LONGEST))
    variant = planner.variant(way, choice, dict.fromkeys(guard), kernel, grid[0], (choice.threads, 1, 1))
    if not heuristics.is_split:
        return variant
    (launch,), reduced = variant.launches, folded(task, reductions(task))
    is_folded = kernel.is_shifted and isinstance(heuristics, OuterHeuristics)
    partials = product([vec, grid[1]]) if is_folded else grid[1]
    narrowest = NARROWEST // vec if is_folded and vec < NARROWEST else 1 if is_folded else NARROWEST
    group = FinishGroup(reductions=reductions(task), kept=domain.kept, is_last=True)
    finisher = Finisher.of(planner, reduced=reduced, index="int64_t", splits=partials)
    finish, kept = finisher.launch_at_call(group, narrowest), domain.points(domain.kept)
    return replace(
        variant,
        launches=(replace(launch, grid=grid), finish),
        scratch=tuple(product([partials, partial_dtype(task, fid).bytes, kept]) for fid in reduced),
    )


def most_column_threads(task: Task) -> int:
    """Threads of a block whose partial results of columns have room where they meet: states of lambdas take more."""
    return COLUMN_THREADS if has_lambdas(task) else MAX_THREADS


def _splits(tiles: Formula, most: Formula, blocks: int) -> Formula:
    """How many blocks share one of ``tiles``, at most ``most``: so many that each multiprocessor has ``blocks``. Where
    the tiles alone are more, the last ones would run with few others, so that each is shared."""
    most = simplified(most)
    if isinstance(most, int) and most <= 1:
        return 1
    room: Formula = ("mul", blocks, MULTIPROCESSORS)
    wanted: Formula = ("max", ("floor_div", room, ("max", 1, tiles)), ("mul", WAVES, ("gt", tiles, room)))
    return simplified(("max", 1, ("min", most, wanted)))
