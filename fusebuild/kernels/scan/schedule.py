"""Scans, and reductions that combine strictly in the order of indices.

The domain is ``kept x scanned x kept``. **Rows** (nothing kept inside): one block, or one warp where rows are short,
walks a row, tile by tile; each thread holds neighbouring elements, and the state of everything before the tile is
carried along. **Columns** (something kept inside): each thread owns a vector of columns and walks the scanned axis, so
that accesses are as wide as in any other kernel. Elementwise work before and after runs in the same pass, and so do
reductions of the scanned axis, of what is scanned or of what scans give.

What a whole row combines to is known at its end only. A block that needs it in the row **walks** the row again: what it
read the first time is in a cache. It does so once, makes no scan twice, and only where rows are known to be short: what
takes more is as fast in two kernels. (H200, running shares of a row's sum, us in two kernels and in one: 16384 x 2048
82 and 73, 3773 x 5232 57 and 46, 4096 x 16384 159 and 253. The sum of what a scan keeps, which divides that, 4096 x
8192: 129 and 237, where the scan is made twice.) Columns are walked once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fusebuild.ir.formula import Formula, ceil_div, product
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import Choice, decide
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.lambdas import folded
from fusebuild.kernels.common.planner import Planner, Width
from fusebuild.kernels.common.rows import (
    MAX_THREADS,
    WARP,
    check_outputs,
    check_running,
    inputs_of,
    levels,
    own_loops,
    vector_of_states,
    walked_loops,
)
from fusebuild.kernels.common.spec import VariantSpec, indices_of, reductions, try_domain
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.ops.table import Kind, op_of

ROW_THREADS = 256
"""Threads that share a row."""

SHORT_TILES = 4
"""Tiles of a warp up to which a row is its alone: it waits for no other."""

LONG_BYTES = 16 * 1024
"""Bytes of the inputs of a row that is walked again, at most: eight blocks have as much as a multiprocessor's cache
holds."""

MOST_WALKS = 2
"""How often a row is walked, at most."""

COLUMN_THREADS = 64
"""Threads of a block that have columns: so few that a multiprocessor, which holds 32 blocks, is full with them, and few
columns are on many multiprocessors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanHeuristics(Choice):
    """``threads`` of a block: they share a row, or each has columns of its own. The sizes of the first case play no
    part."""

    FEWER = ("threads",)

    threads: int


def check(task: Task) -> None:
    domain = try_domain(task)
    _check_scans(task, domain)
    reduced = domain.reduced
    if reduced != tuple(range(reduced[0], reduced[-1] + 1)):
        raise UnfitError("the scanned dims are not neighbours")
    _check_order(task, domain)
    _check_company(task, domain)
    check_outputs(task, domain, domain.kept, domain.every)
    _check_walks(task, domain)


def variants(planner: Planner) -> list[VariantSpec]:
    domain = planner.domain
    vec = vector_of_states(planner.task, planner.vector_width(domain.inner))
    widths = planner.widths(vec, planner.vector_guards(domain.inner, vec))
    if not domain.axes[domain.inner].reduced:
        return [_columns(planner, width) for width in widths]
    *small, last = widths
    return [*(make(planner, width) for width in small for make in (_short_rows, _rows)), _rows(planner, last)]


def walks(task: Task, domain: AxisDomain) -> int:
    """How often a row is walked: the last time for its outputs, and once before for each level of reductions that they
    or other reductions need."""
    level = levels(task)
    wide = [level.get(fid, 0) for fid in task.outputs if has_rows(domain, fid)]
    return 1 + max([*wide, *(level[fid] - 1 for fid in folded(task, reductions(task)))], default=0)


OTHERS = {Kind.ORDER: "sort", Kind.SCATTER: "scatter"}
"""What families of their own do, by what people call it."""


def ordered(task: Task) -> tuple[int, ...]:
    """Indices of the task's scans and of its reductions in order."""
    return tuple(
        index
        for index, expr in zip(task.exprs, task.steps, strict=True)
        if op_of(expr).kind in (Kind.SCAN, Kind.REDUCTION) and expr.is_ordered
    )


def _check_scans(task: Task, domain: AxisDomain) -> None:
    """Raise :class:`UnfitError` unless something is scanned or reduced in order, and all that is scanned or reduced is
    so over the same loops, across the whole domain."""
    reduced = frozenset(loop for loop, info in enumerate(domain.domain.loops) if info.reduced)
    if not ordered(task):
        raise UnfitError("there is no scan")
    for expr in task.steps:
        if (kind := op_of(expr).kind) in (Kind.ORDER, Kind.SCATTER):
            fid = expr.outputs[0]
            raise UnfitError(f"{task.fusion.value(fid).name} is a {OTHERS[kind]}", fid)
    check_running(task)
    for index in sorted((*reductions(task), *indices_of(task, Kind.SCAN))):
        expr = task.fusion.exprs[index]
        fid = expr.outputs[0]
        name = task.fusion.value(fid).name
        if walked_loops(task, domain, expr) != reduced:
            raise UnfitError(f"{name} runs over other dims than the rest of the task", fid)
        if not domain.kept_loops <= own_loops(domain, expr):
            raise UnfitError(f"the task iterates over dims that {name} does not have", fid)


def _check_order(task: Task, domain: AxisDomain) -> None:
    """Raise :class:`UnfitError` unless each walk over a row knows everything in time: nothing that is combined in order
    reads another's result, and nothing that changes along a column needs what the column as a whole gives."""
    scanned: set[int] = set()
    totals: set[int] = set()
    reduced, is_rows = {*domain.reduced}, domain.axes[domain.inner].reduced
    for expr in task.steps:
        kind, name = op_of(expr).kind, task.fusion.value(expr.outputs[0]).name
        after_scan, after_total = not scanned.isdisjoint(expr.inputs), not totals.isdisjoint(expr.inputs)
        if after_scan and expr.is_ordered and kind in (Kind.REDUCTION, Kind.SCAN):
            raise UnfitError(f"{name} needs the result of another scan", expr.outputs[0])
        is_wide = kind is Kind.REDUCTION or any(_changes_along(task, domain, fid, reduced) for fid in expr.outputs)
        if after_total and is_wide and not is_rows:
            raise UnfitError(f"{name} needs the end of a column at its start", expr.outputs[0])
        if kind is Kind.SCAN or (after_scan and kind is not Kind.REDUCTION):
            scanned.update(expr.outputs)
        if kind is Kind.REDUCTION or after_total:
            totals.update(expr.outputs)


def _check_company(task: Task, domain: AxisDomain) -> None:
    """Raise :class:`UnfitError` for a reduction in any order that other kernels had better have, which keep rows on
    chip: one that no scan is needed for and whose result meets none, unless it needs no walk of its own and reads what
    is scanned."""
    after = _after_scans(task)
    before = _before(task, after)
    read = inputs_of(task)
    scanned = {fid for index in ordered(task) for operand in task.fusion.exprs[index].inputs for fid in read[operand]}
    again = _needed_again(task, domain)
    for index in reductions(task):
        expr = task.fusion.exprs[index]
        fid = expr.outputs[0]
        if expr.is_ordered or fid in after or fid in before:
            continue
        if fid in again or scanned.isdisjoint(read[fid]):
            raise UnfitError(f"{task.fusion.value(fid).name} has nothing to do with what is scanned", fid)


def _check_walks(task: Task, domain: AxisDomain) -> None:
    """Raise :class:`UnfitError` where a row would have to be walked too often, or again though it may be long, or some
    of its scans made twice."""
    count, level = walks(task, domain), levels(task)
    if count > MOST_WALKS:
        raise UnfitError(f"rows would be walked {count} times", task.outputs[0])
    row_bytes = sum(task.fusion.value(fid).dtype.bytes for fid in task.inputs if has_rows(domain, fid))
    if count > 1 and not task.fusion.algebra.at_most(domain.points(domain.reduced), LONG_BYTES // max(row_bytes, 1)):
        raise UnfitError("rows may be too long to be walked again", task.outputs[0])
    for index in indices_of(task, Kind.SCAN):
        (result, *_) = task.fusion.exprs[index].outputs
        following, ends = {*task.fusion.exprs[index].outputs}, set[int]()
        for expr in task.steps:
            if following.isdisjoint(expr.inputs):
                continue
            if op_of(expr).kind is Kind.REDUCTION:
                ends.add(level[expr.outputs[0]] - 1)
            else:
                following.update(expr.outputs)
        ends |= {count - 1} if following.intersection(task.outputs) else set()
        if len(ends) > 1:
            raise UnfitError(f"{task.fusion.value(result).name} would be scanned twice", result)


def has_rows(domain: AxisDomain, fid: int) -> bool:
    """Whether ``fid`` is a tensor that changes along rows."""
    return fid in domain.accesses and not {*domain.reduced}.isdisjoint(domain.accesses[fid].axes)


def _after_scans(task: Task) -> set[int]:
    """The values that what is combined in order is needed for."""
    found: set[int] = set()
    for expr in task.steps:
        is_combined = expr.is_ordered and op_of(expr).kind in (Kind.REDUCTION, Kind.SCAN)
        if is_combined or not found.isdisjoint(expr.inputs):
            found.update(expr.outputs)
    return found


def _before(task: Task, after: set[int]) -> set[int]:
    """The values that are needed for some of ``after``."""
    found: set[int] = set()
    for expr in reversed(task.steps):
        if not found.isdisjoint(expr.outputs) or not after.isdisjoint(expr.outputs):
            found.update(expr.inputs)
    return found


def _needed_again(task: Task, domain: AxisDomain) -> set[int]:
    """The values that something is computed from which changes along the row and needs a reduction."""
    level, reduced, found = levels(task), {*domain.reduced}, set[int]()
    for expr in reversed(task.steps):
        is_late = any(level[fid] and _changes_along(task, domain, fid, reduced) for fid in expr.outputs)
        if is_late or not found.isdisjoint(expr.outputs):
            found.update(expr.inputs)
    return found


def _changes_along(task: Task, domain: AxisDomain, fid: int, axes: set[int]) -> bool:
    value = task.fusion.value(fid)
    return value.is_tensor and bool(domain.axes_of(fid, value.tensor) & axes)


def _short_rows(planner: Planner, width: Width) -> VariantSpec:
    """One warp a row."""
    name, guard, vec, index = width
    domain = planner.domain
    is_short: Formula = ("le", domain.points(domain.reduced), SHORT_TILES * WARP * vec)
    short = (f"short_{name}", (*guard, is_short), vec, index)
    return _variant(planner, short, "scan", WARP, lambda _: domain.points(domain.kept))


def _rows(planner: Planner, width: Width) -> VariantSpec:
    """One block a row."""
    domain = planner.domain
    return _variant(planner, width, "scan", ROW_THREADS, lambda _: domain.points(domain.kept))


def _columns(planner: Planner, width: Width) -> VariantSpec:
    """One vector of columns a thread, those of the next outer index behind those of one."""
    domain, vec = planner.domain, width[2]
    first, last = domain.reduced[0], domain.reduced[-1]
    vectors = product([ceil_div(domain.points(domain.every[last + 1 :]), vec), domain.points(range(first))])
    return _variant(planner, width, "scan_outer", COLUMN_THREADS, lambda threads: ceil_div(vectors, threads))


def _variant(
    planner: Planner, width: Width, template: str, threads: int, grid: Callable[[int], Formula]
) -> VariantSpec:
    """The variant whose blocks have so many ``threads``, and of which there is a ``grid``."""
    name, guard, vec, index = width
    choice = decide(name, ScanHeuristics(threads=threads), planner.tuned, _check)
    kernel = planner.kernel(template, choice, vec=vec, index=index)
    return planner.variant(name, choice, guard, kernel, grid(choice.threads), (choice.threads, 1, 1))


def _check(choice: ScanHeuristics) -> None:
    """Raise :class:`KnobError` for blocks that cannot be."""
    choice.require_power_of_two("threads", WARP, MAX_THREADS)
