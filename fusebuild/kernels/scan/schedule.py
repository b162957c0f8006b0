"""Scans, and reductions that combine strictly in the order of indices.

The domain is ``kept x scanned x kept``. **Rows** (nothing kept inside): one block, or one warp where rows are short,
walks a row, tile by tile; each thread holds neighbouring elements, and the state of everything before the tile is
carried along. **Columns** (something kept inside): each thread owns a vector of columns and walks the scanned axis, so
that accesses are as wide as in any other kernel. Elementwise work before and after runs in the same pass. What a whole
row combines to is known at its end only, so nothing in the row can use it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fusebuild.ir.formula import Formula, ceil_div, product
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import Choice, decide
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.planner import Planner, Width
from fusebuild.kernels.common.rows import (
    MAX_THREADS,
    WARP,
    check_outputs,
    own_loops,
    vector_of_states,
    walked_loops,
)
from fusebuild.kernels.common.spec import VariantSpec, indices_of, try_domain
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.ops.table import Kind, op_of

ROW_THREADS = 256
"""Threads that share a row."""

SHORT_TILES = 4
"""Tiles of a warp up to which a row is its alone: it waits for no other."""

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
    _check_order(task, domain)
    reduced = domain.reduced
    if reduced != tuple(range(reduced[0], reduced[-1] + 1)):
        raise UnfitError("the scanned dims are not neighbours")
    check_outputs(task, domain, domain.kept, domain.every)


def variants(planner: Planner) -> list[VariantSpec]:
    domain = planner.domain
    vec = vector_of_states(planner.task, planner.vector_width(domain.inner))
    widths = planner.widths(vec, planner.vector_guards(domain.inner, vec))
    if not domain.axes[domain.inner].reduced:
        return [_columns(planner, width) for width in widths]
    *small, last = widths
    return [*(make(planner, width) for width in small for make in (_short_rows, _rows)), _rows(planner, last)]


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
    """Raise :class:`UnfitError` unless all that is reduced or scanned is so in order, over the same loops, across the
    whole domain."""
    reduced = frozenset(loop for loop, info in enumerate(domain.domain.loops) if info.reduced)
    if not ordered(task):
        raise UnfitError("there is no scan")
    for expr in task.steps:
        if (kind := op_of(expr).kind) in (Kind.ORDER, Kind.SCATTER):
            fid = expr.outputs[0]
            raise UnfitError(f"{task.fusion.value(fid).name} is a {OTHERS[kind]}", fid)
    for index in sorted((*indices_of(task, Kind.REDUCTION), *indices_of(task, Kind.SCAN))):
        expr = task.fusion.exprs[index]
        fid = expr.outputs[0]
        name = task.fusion.value(fid).name
        if not expr.is_ordered:
            raise UnfitError(f"{name} is a reduction in any order", fid)
        if walked_loops(task, domain, expr) != reduced:
            raise UnfitError(f"{name} runs over other dims than the rest of the task", fid)
        if not domain.kept_loops <= own_loops(domain, expr):
            raise UnfitError(f"the task iterates over dims that {name} does not have", fid)


def _check_order(task: Task, domain: AxisDomain) -> None:
    """Raise :class:`UnfitError` unless one pass over a row knows everything in time: no scan reads another's result,
    and nothing that changes along the row needs what the row as a whole gives."""
    scanned: set[int] = set()
    totals: set[int] = set()
    reduced = {*domain.reduced}
    for expr in task.steps:
        kind, name = op_of(expr).kind, task.fusion.value(expr.outputs[0]).name
        after_scan, after_total = not scanned.isdisjoint(expr.inputs), not totals.isdisjoint(expr.inputs)
        if kind in (Kind.REDUCTION, Kind.SCAN) and (after_scan or after_total):
            raise UnfitError(f"{name} needs the result of another scan", expr.outputs[0])
        if after_total and any(_changes_along(task, domain, fid, reduced) for fid in expr.outputs):
            raise UnfitError(f"{name} needs the end of a row at its start", expr.outputs[0])
        if kind is Kind.SCAN or after_scan:
            scanned.update(expr.outputs)
        if kind is Kind.REDUCTION or after_total:
            totals.update(expr.outputs)


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
