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
row, or for each of the pieces that kept axes between two reduced ones make of it. In an outer one threads cut their
vectors out of the aligned words around them. Where columns are few, as many rows as a vector has elements are one row
of whole vectors: each vector owns a piece of it, and what a column has in each of these rows meets in shared memory.
Pieces that are short and many are reduced as columns, and those of one result by the kernel that finishes.

Short rows lie side by side in a block's shared memory, wherever they begin, and a thread or a few take one there; of
rows of one element a thread has several. Few elements are reduced down columns by threads that have single ones: what a
thread does with a vector of columns, and a second kernel even more, takes longer than to read them.

Elementwise results of what is reduced are stored in the same sweep (:mod:`fusebuild.kernels.reduction.stores`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from fusebuild.artifact.plan import FormulaArg
from fusebuild.ir.formula import MULTIPROCESSORS, Formula, ceil_div, product, simplified, total
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.finish import (
    FINISH_THREADS,
    NARROWEST,
    Finisher,
    FinishGroup,
    partial_dtype,
    partial_parameters,
)
from fusebuild.kernels.common.lambdas import folded
from fusebuild.kernels.common.planner import Planner, Width
from fusebuild.kernels.common.registers import Registers, resident_blocks
from fusebuild.kernels.common.rows import (
    MAX_THREADS,
    STATIC_BYTES,
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
    formula_parameter,
    kernel_parameters,
    reductions,
    try_domain,
)
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.kernels.reduction import folded_rows
from fusebuild.kernels.reduction.choices import InnerChoice, OuterChoice
from fusebuild.kernels.reduction.column_threads import (
    CLUSTER_COLUMNS,
    MOST_FOLDED,
    NARROW_TURNS,
    Columns,
    Spreading,
    spread,
    spread_few,
    spread_folded,
)
from fusebuild.kernels.reduction.reads import lie_flat, read_along_columns, reads_flat_alone, reads_flat_and_rows
from fusebuild.kernels.reduction.row_threads import (
    MANY_ROWS,
    TILE_PLACES,
    TURNS_OF_BLOCK,
    are_for_clusters,
    longest_of_several,
    per_row,
    row_shift,
    rows_alone,
    rungs_of_tiles,
    rungs_of_vectors,
    scaled_to_few,
)
from fusebuild.kernels.reduction.sharing import splits_of, turns_of
from fusebuild.kernels.reduction.stores import stored_outputs
from fusebuild.kernels.reduction.tiles import (
    LONGEST_TILED,
    Tile,
    of_rows_beside,
    resident_tiles,
    rows_of_thread,
    tile_of,
)
from fusebuild.kernels.reduction.together import BLOCKS, Shares, columns_gathered
from fusebuild.target.table import Target

BLOCKS_PER_MULTIPROCESSOR = 4
ROW_THREADS, ROW_BLOCKS, ROW_UNROLL = 128, 8, 8
"""The same of inner reductions: a row of many vectors has a block of its own. A thread loads so many before it uses the
first."""
MOST_LOADED = 256
"""Bytes that it loads so at most where it also stores: half of its registers."""
THREADS = 256
"""Threads of a block: several blocks share a multiprocessor, and while one combines its threads' results, others
read."""
COLUMN_THREADS = 256
"""Threads of a block that combines columns of states, at most: reduce_shaped.cuh keeps one of each in shared memory."""
SHORTEST = 2
"""Elements of vectors that are no longer than the rows which they are for. Of longer ones most would be left out: a row
of fewer than half as many is read one by one."""
MOST_UNROLL = 16
"""Vectors that a thread may load before it uses the first."""
MOST_BESIDE = 32
"""Columns of one result that a kernel leaves to the one which finishes, at most."""
LEAST_DEPTH = 8
"""Rows below which that costs more than it saves: each column leaves partial results. What it saves are the elements of
vectors beside a piece, which are many where pieces are short, so that it takes as many rows as a piece has elements."""
LEAST_COLUMNS = 64
"""Columns below which rows are too short for vectors."""
MOST_SMALL = 2**18
"""Elements up to which threads read few columns each, and blocks few side by side: to wait for a second kernel, or for
what a thread does with a vector of columns, takes longer than to read parts of sectors."""
MOST_AT_ONCE = 2**20
"""The same of sums of so few rows that a thread loads all of them at once."""
MOST_SINGLE = 2**23
"""The same of moments where vectors of columns begin anywhere."""
MOST_FOLDED_MOMENTS = 16
"""The same of moments, whose partial results take longer to combine."""
LEAST_ROWS = 512
"""Rows of columns that no vector divides which are worth a partial result for each row of a vector's length."""
RUNNING_SUMS = 3
"""Numbers that a thread keeps of each column while it reads moments."""
COLUMNS = Registers(base=32)
"""Registers of such a thread beside its running sums and the rows that it loads."""
LEAST_BLOCKS = 2
"""Blocks of a multiprocessor at least: while one combines its threads' results, the other reads."""
LONGEST = 2**30
"""Elements to reduce below which 32-bit indices reach far enough beyond the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerHeuristics:
    """A thread of a block of ``threads`` loads ``unroll`` vectors before it uses one; blocks may share rows where there
    ``is_split``, else none ever does. Rows ``in_pieces`` lie apart in memory, and each piece is read by the aligned
    vectors around it. Where a call says how many short rows a block has, they are in its ``tile``; such a kernel takes
    rows of one element as they are, up to ``unroll`` of them a thread. Where it ``can_cluster``, blocks that share a
    row combine it themselves if a call has them run together. Outputs that change along rows, if there are some, are
    ``stored`` in the sweep. Where a call says so, a thread has up to so many rows of one vector ``alone``."""

    threads: int
    unroll: int
    is_split: bool
    in_pieces: bool = False
    tile: Tile | None = None
    can_cluster: bool = False
    stored: tuple[int, ...] | None = None
    alone: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterHeuristics:
    """A thread of a block of ``threads`` loads ``unroll`` rows before it uses one; blocks may share columns where there
    ``is_split``, else none ever does. They walk the axes ``walked``, all reduced ones if none are named; where a result
    is that of several columns or rows, the kernel leaves it to another one: it is ``always_split``. Blocks that share
    columns combine them themselves if a call has them run together, where ``widest`` threads of a block lie side by
    side, at most; 0 where it never does."""

    threads: int
    unroll: int
    is_split: bool
    walked: tuple[int, ...] = ()
    always_split: bool = False
    widest: int = 0


def check(task: Task) -> None:
    domain = _domain_of(task)
    check_outputs(task, domain, domain.kept)


def check_storing(task: Task) -> None:
    """The same where what is reduced over has results, too, each of which is stored by the thread that combines it."""
    domain = _domain_of(task)
    check_outputs(task, domain, domain.kept, domain.every)
    level = levels(task)
    for fid in stored_outputs(task, domain):
        if level.get(fid):
            raise UnfitError(f"{task.fusion.value(fid).name} needs the result of a reduction", fid)


def _domain_of(task: Task) -> AxisDomain:
    """The iteration domain of ``task``. Raises :class:`UnfitError` unless its reductions can be made in one pass."""
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
    return domain


def variants(planner: Planner) -> list[VariantSpec]:
    is_inner = planner.domain.axes[planner.domain.inner].reduced
    return _of_rows(planner) if is_inner else _of_columns(planner)


def _of_rows(planner: Planner) -> list[VariantSpec]:
    """Reductions along the innermost axis, the variants for odd rows in the place of the one by single elements."""
    domain, inner = planner.domain, planner.domain.inner
    reduced, vec = domain.points(domain.reduced), planner.vector_width(inner)
    found = [_inner(planner, way) for way in planner.widths(vec, planner.vector_guards(inner, vec))]
    if len(domain.reduced) == 1 and planner.has_odd_rows(vec, reduced):
        long: tuple[Formula, ...] = (("ge", reduced, vec // 2),) if vec > SHORTEST else ()
        odd = (f"shifted_vec{vec}_int32", (*planner.shifted_guard(vec, reduced), *long), vec, "int32_t")
        found[1] = _inner(planner, odd, VectorLayout.SHIFTED)
    has_odd_pieces = _is_interleaved(planner) and planner.has_odd_rows(vec, domain.points([inner]))
    if has_odd_pieces and reads_flat_and_rows(planner, found[-1]):
        short: tuple[Formula, ...] = (fits_int32(domain.points(domain.every)), ("lt", _padded(planner, vec), LONGEST))
        pieces = (f"pieces_vec{vec}_int32", (*short, *planner.aligned(domain.flat, vec)), vec, "int32_t")
        found[1] = _inner(planner, pieces, VectorLayout.SHIFTED)
    return [*_of_inner_columns(planner), *found[:1], *_short(planner, found[-1]), *found[1:]]


def _of_columns(planner: Planner) -> list[VariantSpec]:
    """Reductions along axes before the innermost one, the variants for odd columns in the place of, and before, the one
    by single elements."""
    task, domain, inner = planner.task, planner.domain, planner.domain.inner
    vec, columns = vector_of_states(task, planner.vector_width(inner)), _inside(planner)
    widths = planner.widths(vec, planner.vector_guards(inner, vec))
    found = [_outer(planner, way) for way in widths]
    small = _small(planner, widths[-1], found[-1]) if vec > 1 else []
    if not planner.has_odd_rows(vec, columns):
        return [*small, *found]
    read = read_along_columns(planner, found[-1])
    can_fold = reads_flat_alone(planner, found[-1])
    if lie_flat(planner, found[-1], domain.every[domain.reduced[-1] + 1 :]):
        guard = (fits_int32(domain.points(domain.every)), *planner.aligned([access.fid for access in read], vec))
        found[1] = _outer(planner, (f"realigned_vec{vec}_int32", guard, vec, "int32_t"), VectorLayout.ANYWHERE)
    if running_sums(task):
        few_moments: Formula = ("le", domain.points(domain.every), MOST_SINGLE)
        found.insert(1, replace(found[-1], name=f"single_{found[-1].name}", guard=(few_moments,)))
    begins_whole = not running_sums(task) or domain.reduced[0] == 0  # running sums begin with a thread's first vector
    if begins_whole and can_fold and folded_rows.shared_bytes(planner, vec, THREADS) <= STATIC_BYTES:
        narrow = MOST_FOLDED_MOMENTS if running_sums(task) else MOST_FOLDED
        few: Formula = ("lt", domain.points(domain.every), LONGEST)
        some_columns: tuple[Formula, ...] = (("le", 1, columns), ("lt", columns, narrow))
        shape = (("ge", domain.points(domain.reduced), LEAST_ROWS), *some_columns)
        many = (few, *planner.aligned(domain.flat, vec), *shape)
        way = (f"folded_vec{vec}_int32", many, vec, "int32_t")
        found.insert(-2, _outer(planner, way, VectorLayout.SHIFTED, spreading=spread_folded))
    return [*small, *found]


def _small(planner: Planner, way: Width, last: VariantSpec) -> list[VariantSpec]:
    """Where elements are so few that threads shall have single columns: by the kernel of the ``last`` variant, which is
    that of ``way``. Sums are made so where no two blocks share them."""
    heuristics, domain = last.launches[0].kernel.heuristics, planner.domain
    assert isinstance(heuristics, OuterHeuristics)
    few: tuple[Formula, ...] = (("le", domain.points(domain.every), MOST_SMALL),)
    if running_sums(planner.task):
        return [replace(last, name=f"small_{last.name}", guard=few)]
    rows, alone = domain.points(domain.reduced), NARROW_TURNS * heuristics.threads * heuristics.unroll
    at_once = product([MOST_AT_ONCE - MOST_SMALL, ("le", rows, heuristics.unroll)])
    few = (("le", domain.points(domain.every), total([MOST_SMALL, at_once])), ("le", rows, alone))
    return [replace(_outer(planner, way, spreading=spread_few), name=f"small_{last.name}", guard=few)]


def _inside(planner: Planner, walked: Sequence[int] = ()) -> Formula:
    """The columns of an outer reduction over the axes ``walked``, all reduced ones if none are named."""
    domain = planner.domain
    return domain.points(domain.every[(walked or domain.reduced)[-1] + 1 :])


def _short(planner: Planner, last: VariantSpec) -> list[VariantSpec]:
    """Those for short rows, by the kernel of the ``last`` variant, which serves all sizes."""
    heuristics = last.launches[0].kernel.heuristics
    assert isinstance(heuristics, InnerHeuristics)
    if heuristics.tile is None:
        return []
    return [_tiled(planner, last, heuristics, heuristics.tile)]


def _tiled(planner: Planner, last: VariantSpec, heuristics: InnerHeuristics, tile: Tile) -> VariantSpec:
    """Where a block has short rows in shared memory, and threads have those of one element to themselves. None is so
    long that blocks would share it."""
    (launch, *others), domain = last.launches, planner.domain
    rows, columns = domain.points(domain.kept), domain.points(domain.reduced)
    threads, places = heuristics.threads, tile.elements // heuristics.threads
    rungs = rungs_of_tiles(places, ("ge", rows, MANY_ROWS))
    resident = resident_tiles(planner.target, threads, planner.bytes_of(of_rows_beside(planner)))
    turns = rows_of_thread(rows, columns, places, product([threads * resident, MULTIPROCESSORS]))
    own = {"row_shift": row_shift(columns, rungs), "tile_turns": turns}
    parameters = (
        replace(each, arg=FormulaArg(formula=own[each.name])) if each.name in own else each
        for each in launch.kernel.parameters
    )
    kernel = replace(launch.kernel, parameters=tuple(parameters))
    grid = (("ceil_div", product([rows, per_row(columns, rungs)]), product([threads, turns])), 1, 1)
    alone = TURNS_OF_BLOCK * threads * heuristics.unroll
    short = (("le", 1, columns), ("le", columns, min(LONGEST_TILED * places // TILE_PLACES, alone)))
    launches = (replace(launch, kernel=kernel, grid=grid), *others)
    return replace(last, name="tiled_int64", guard=short, launches=launches)


def _is_interleaved(planner: Planner) -> bool:
    """Whether all that is kept lies between two axes that are reduced."""
    return planner.domain.reduced == (0, planner.domain.inner) and len(planner.domain.every) > 2


def _padded(planner: Planner, vec: int) -> Formula:
    """The elements of all aligned vectors that a row in pieces can have."""
    first, last = (planner.domain.points([axis]) for axis in planner.domain.reduced)
    return product([first, ("mul", vec, ("floor_div", ("add", last, 2 * vec - 2), vec))])


def _of_inner_columns(planner: Planner) -> list[VariantSpec]:
    """Where what is kept lies between two reduced axes, and the last one is short: as many columns as the two inner
    axes have points are reduced over the first axis, and those of one result over the last one by the kernel that
    finishes."""
    task, domain = planner.task, planner.domain
    if has_lambdas(task) or not _is_interleaved(planner):
        return []
    first, last = domain.reduced
    vec = vector_of_states(task, planner.vector_width(last))
    walked = (first,)
    rows, columns, beside = domain.points(walked), _inside(planner, walked), domain.points([last])
    width: Width = (f"columns_vec{vec}_int32", (), vec, "int32_t")
    found = _outer(planner, width, VectorLayout.ANYWHERE, walked)
    read = read_along_columns(planner, found)
    is_flat = lie_flat(planner, found, domain.every[first + 1 :])
    if not (read and is_flat and planner.has_odd_rows(vec, columns)):
        return []
    guard: tuple[Formula, ...] = (
        fits_int32(domain.points(domain.every)),
        *planner.aligned([access.fid for access in read], vec),
        ("le", beside, MOST_BESIDE),
        ("ge", rows, LEAST_DEPTH),
        ("ge", rows, beside),
        ("ge", columns, LEAST_COLUMNS),
    )
    return [replace(found, guard=(*guard, *found.guard))]


def _inner(planner: Planner, width: Width, vectors: VectorLayout = VectorLayout.ALIGNED) -> VariantSpec:
    way, _, vec, index = width
    domain = planner.domain
    in_pieces = vectors is VectorLayout.SHIFTED and len(domain.reduced) > 1
    rows, columns = domain.points(domain.kept), _padded(planner, vec) if in_pieces else domain.points(domain.reduced)
    unroll = _unroll_of_rows(planner, vec)
    proposal = InnerChoice(threads=ROW_THREADS, unroll=unroll, blocks=ROW_BLOCKS, min_blocks=4)
    choice = decide(way, proposal, planner.tuned, partial(_check, task=planner.task, target=planner.target))
    rungs = rungs_of_vectors(vec, choice.threads, ("ge", rows, MANY_ROWS))
    length = scaled_to_few(rows, columns)
    are_rows = vec > 1 and vectors is VectorLayout.ALIGNED and bool(domain.kept) and len(domain.reduced) == 1
    may_be_alone = are_rows and not stored_outputs(planner.task, domain)
    alone = rows_alone(rows, columns, vec, choice.unroll) if may_be_alone else 0
    taken: Formula = choice.threads if alone == 0 else product([choice.threads, ("max", 1, alone)])
    grid = simplified(("ceil_div", product([rows, per_row(length, rungs)]), taken))
    turn = choice.threads * choice.unroll * vec
    shares = Shares(blocks=grid, splits=splits_of(rows, rows, turns_of(columns, turn), choice.blocks))
    if _may_cluster(planner, shares) and not in_pieces and choice.threads <= ROW_THREADS:
        several = longest_of_several(vec, choice.threads)
        shares = replace(shares, are_clustered=are_for_clusters(rows, columns, turn, several))
    heuristics = InnerHeuristics(
        threads=choice.threads, unroll=choice.unroll, is_split=shares.splits != 1, in_pieces=in_pieces,
        can_cluster=shares.can_cluster,
        tile=tile_of(planner, choice.threads) if index == "int64_t" else None,
        stored=stored_outputs(planner.task, domain) or None, alone=choice.unroll if alone != 0 else None,
    )  # fmt: skip
    own = (
        call_parameter("row_shift", row_shift(length, rungs), "of the threads that share a row"),
        formula_parameter("tile_turns", 0, "rows of a tile that a thread takes one after another"),
        *(
            (call_parameter("rows_alone", alone, "rows of one vector that a thread has to itself"),)
            if alone != 0
            else ()
        ),
        *shares.parameters,
    )
    kernel = _kernel(planner, width, choice, "reduction_inner", heuristics, vectors, shares.together, own)
    return _variant(planner, width, choice, kernel, shares)


def _unroll_of_rows(planner: Planner, vec: int) -> int:
    """The vectors that a thread loads before it uses the first. Where it stores some, too, registers have to hold what
    these are made of, and inputs are several."""
    unroll, stores = ROW_UNROLL, bool(stored_outputs(planner.task, planner.domain))
    while stores and unroll > 1 and _loaded(planner, vec, unroll) > MOST_LOADED:
        unroll //= 2
    return unroll


def _outer(
    planner: Planner,
    width: Width,
    vectors: VectorLayout = VectorLayout.ALIGNED,
    walked: tuple[int, ...] = (),
    spreading: Spreading = spread,
) -> VariantSpec:
    """Where many rows are for ``block_y`` threads or more, which walk the axes ``walked``, or all reduced ones."""
    way, _, vec, _ = width
    domain = planner.domain
    check = partial(_check, task=planner.task, target=planner.target)
    choice = decide(way, _propose_outer(planner, vec), planner.tuned, check)
    each: Formula = domain.points(axis for axis in domain.reduced if axis not in walked) if walked else 1
    columns = Columns(
        vectors=_owned(planner, vec, vectors, walked), vec=vec, rows=domain.points(walked or domain.reduced),
        elements=domain.points(domain.every), columns=_inside(planner, walked),
        outers=domain.points(domain.every[: domain.reduced[0]]), are_left=each != 1,
    )  # fmt: skip
    if vectors is VectorLayout.SHIFTED:
        fits = folded_rows.shared_bytes(planner, vec, choice.threads) <= STATIC_BYTES
        choice.require(fits, "threads", f"partial results of {choice.threads} threads have no room in shared memory")
        is_wide = choice.threads >= MOST_FOLDED
        choice.require(is_wide, "threads", f"up to {MOST_FOLDED - 1} columns of folded rows lie side by side")
    found = spreading(choice, columns)
    widest = min(CLUSTER_COLUMNS, columns_gathered(planner.task), choice.threads) // vec
    if widest and _may_cluster(planner, found) and spreading is not spread_folded and each == 1:
        found = found.or_clusters(choice, columns, widest)
    heuristics = OuterHeuristics(
        threads=choice.threads, unroll=choice.unroll, is_split=each != 1 or found.splits != 1,
        walked=walked, always_split=each != 1, widest=widest if found.can_cluster else 0,
    )  # fmt: skip
    own = (call_parameter("block_width", simplified(found.beside), "threads side by side"), *found.parameters)
    kernel = _kernel(planner, width, choice, "reduction_outer", heuristics, vectors, found.together, own)
    return _variant(planner, width, choice, kernel, found, each)


def _may_cluster(planner: Planner, shares: Shares) -> bool:
    """Whether blocks that share a reduction, if some do, may run together. Those of moments may not: to combine their
    states takes longer there than a kernel that finishes. (H100, 2026-11-27, batchnorm_train of 6592 x 256 13.8 -> 15.4
    us.)"""
    return shares.splits != 1 and planner.target.cluster >= BLOCKS and not running_sums(planner.task)


def _owned(planner: Planner, vec: int, vectors: VectorLayout, walked: Sequence[int]) -> Formula:
    """How many vectors threads own: of columns, but where rows are folded of as many rows as a vector has elements."""
    domain, reduced = planner.domain, walked or planner.domain.reduced
    columns = domain.points(axis for axis in domain.every if axis not in reduced)
    if vectors is VectorLayout.SHIFTED:
        return columns
    if vectors is VectorLayout.ALIGNED:
        return ceil_div(columns, vec)
    return product([domain.points(domain.every[: reduced[0]]), ceil_div(_inside(planner, walked), vec)])


def _propose_outer(planner: Planner, vec: int) -> OuterChoice:
    unroll, block_y = (4, 8) if vec > 1 else (16, 1)
    blocks, least = BLOCKS_PER_MULTIPROCESSOR, LEAST_BLOCKS
    if running_sums(planner.task):
        blocks = _resident(planner, THREADS, vec, unroll)
        least = max(least, blocks)
    return OuterChoice(threads=THREADS, unroll=unroll, blocks=blocks, block_y=block_y, min_blocks=least)


def _resident(planner: Planner, threads: int, vec: int, unroll: int) -> int:
    """The blocks that a multiprocessor has registers for where threads keep running sums of columns: more would run
    after the others, and alone. Other blocks have room."""
    outputs = [planner.task.fusion.exprs[index].outputs[0] for index in running_sums(planner.task)]
    kept = RUNNING_SUMS * vec * planner.bytes_of(outputs)
    registers = COLUMNS.base + (_loaded(planner, vec, unroll) + kept) // 4
    return resident_blocks(planner.target, threads, registers, BLOCKS_PER_MULTIPROCESSOR)


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
    planner: Planner,
    width: Width,
    choice: InnerChoice,
    kernel: KernelSpec,
    shares: Shares,
    each: Formula = 1,
) -> VariantSpec:
    """The variant of ``kernel``, and of the one that combines its partial results, ``each`` of a result from a block,
    where several share one and are no cluster. Threads step over what other blocks take: their last step must not leave
    a 32-bit index."""
    way, guard, _, index = width
    task, domain, heuristics = planner.task, planner.domain, kernel.heuristics
    assert isinstance(heuristics, InnerHeuristics | OuterHeuristics)
    if heuristics.is_split and index == "int32_t":
        length = domain.points(domain.reduced)
        guard = (*(test for test in guard if test != fits_int32(length)), ("lt", length, LONGEST))
    variant = planner.variant(way, choice, dict.fromkeys(guard), kernel, shares.grid[0], (choice.threads, 1, 1))
    if not heuristics.is_split:
        return variant
    (launch,), reduced, partials = variant.launches, folded(task, reductions(task)), product([each, shares.splits])
    group = FinishGroup(reductions=reductions(task), kept=domain.kept, is_last=True)
    finisher = Finisher.of(planner, reduced=reduced, index="int64_t", splits=partials)
    narrowest = _results_beside(domain.points(domain.kept), partials, finisher.ahead(group))
    are_left = product([("gt", partials, 1), *((("eq", shares.cluster, 1),) if shares.can_cluster else ())])
    is_always_split = isinstance(heuristics, OuterHeuristics) and heuristics.always_split
    finish = finisher.launch_at_call(group, narrowest, needed=1 if is_always_split else are_left)
    return replace(
        variant,
        launches=(
            replace(launch, grid=shares.grid, cluster=shares.cluster),
            *([finish] if finish.grid[0] != 0 else []),
        ),
        scratch=tuple(
            product([partials, partial_dtype(task, fid).bytes, domain.points(domain.kept)]) for fid in reduced
        ),
    )


def _results_beside(results: Formula, partials: Formula, ahead: int) -> Formula:
    """How many results a block finishes side by side where there are few ``results``: neighbours in a sector, or a
    quarter of those where its threads would have more than ``ahead`` of the ``partials`` of each, which they load at
    once, or where results are no more."""
    has_many: Formula = ("gt", partials, FINISH_THREADS * ahead // NARROWEST)
    return ("sub", NARROWEST, ("mul", NARROWEST * 3 // 4, ("max", has_many, ("lt", results, NARROWEST))))


def most_column_threads(task: Task) -> int:
    """Threads of a block whose partial results of columns have room where they meet: states of lambdas take more."""
    return COLUMN_THREADS if has_lambdas(task) else MAX_THREADS
