"""Scans, and reductions that combine strictly in the order of indices.

The domain is ``kept x scanned x kept``. **Rows** (nothing kept inside): one block walks a row, tile by tile; each
thread holds neighbouring elements, and the state of everything before the tile is carried along. **Columns** (something
kept inside): each thread owns a vector of columns and walks the scanned axis, so that accesses are as wide as in any
other kernel. Elementwise work before and after runs in the same pass. What a whole row combines to is known at its end
only, so nothing in the row can use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusebuild.ir.formula import Formula, ceil_div, product
from fusebuild.ir.fusion import Task
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.choice import NOT_TUNED, Choice, Tuned, decide, decision, require_power_of_two
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.rows import (
    MAX_THREADS,
    WARP,
    check_outputs,
    kept_axes,
    next_power_of_two,
    own_loops,
    reduced_axes,
    vector_of_states,
    walked_loops,
)
from fusebuild.kernels.common.spec import (
    KernelSpec,
    LaunchSpec,
    Rejection,
    VariantSpec,
    axis_product,
    hint,
    kernel_parameters,
    rejection,
    try_domain,
    usable,
    vector_guards,
    vector_width,
    widths,
)
from fusebuild.ops.table import Kind, op_of
from fusebuild.target.table import Target

MAX_ROW_THREADS = 256
COLUMN_THREADS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanHeuristics(Choice):
    """``threads`` of a block: they share a row, or each has columns of its own."""

    FEWER = ("threads",)

    threads: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanScheduler:
    name: str = "scan"

    def accepts(self, task: Task, target: Target) -> Rejection | None:
        domain = try_domain(self.name, task)
        if isinstance(domain, Rejection):
            return domain
        if rejected := _check_scans(self.name, task, domain) or _check_order(self.name, task, domain):
            return rejected
        kept, reduced = kept_axes(domain), reduced_axes(domain)
        if reduced != tuple(range(reduced[0], reduced[-1] + 1)):
            return rejection(self.name, task, "the scanned dims are not neighbours")
        return check_outputs(self.name, task, domain, kept, tuple(range(len(domain.axes))))

    def schedule(
        self, task: Task, target: Target, sizes: Mapping[str, int], tuned: Tuned = NOT_TUNED
    ) -> tuple[VariantSpec, ...]:
        domain = try_domain(self.name, task)
        assert isinstance(domain, AxisDomain)
        inner = len(domain.axes) - 1
        vec = vector_of_states(task, vector_width(task, domain, inner))
        is_row = domain.axes[inner].reduced
        propose, make = (_row_threads, _rows) if is_row else (_column_threads, _columns)
        variants = []
        for name, guard, width, index in widths(domain, vec, vector_guards(task, domain, inner, vec)):
            choice = decide(name, propose(domain, width, sizes), tuned, _check)
            launch = make(task, domain, width, index, choice)
            decided = decision(name, choice, tuned)
            variants.append(VariantSpec(name=name, guard=guard, launches=(launch,), decision=decided))
        return usable(variants)


def ordered(task: Task) -> tuple[int, ...]:
    """Indices of the task's scans and of its reductions in order."""
    return tuple(
        index
        for index in task.exprs
        if op_of(expr := task.fusion.exprs[index]).kind in (Kind.SCAN, Kind.REDUCTION) and expr.is_ordered
    )


def _check_scans(scheduler: str, task: Task, domain: AxisDomain) -> Rejection | None:
    """None when all that is reduced or scanned is so in order, over the same loops, across the whole domain."""
    reduced = frozenset(loop for loop, info in enumerate(domain.domain.loops) if info.reduced)
    kept = {loop for axis in domain.axes if not axis.reduced for loop in axis.loops}
    if not ordered(task):
        return rejection(scheduler, task, "there is no scan")
    for expr in _reducing(task):
        fid = expr.outputs[0]
        name = task.fusion.value(fid).name
        if not expr.is_ordered:
            return rejection(scheduler, task, f"{name} is a reduction in any order", fid)
        if walked_loops(task, domain, expr) != reduced:
            return rejection(scheduler, task, f"{name} runs over other dims than the rest of the task", fid)
        if not kept <= own_loops(task, domain, expr):
            return rejection(scheduler, task, f"the task iterates over dims that {name} does not have", fid)
    return None


def _reducing(task: Task) -> tuple[Expr, ...]:
    exprs = [task.fusion.exprs[index] for index in task.exprs]
    return tuple(expr for expr in exprs if op_of(expr).kind in (Kind.REDUCTION, Kind.SCAN))


def _check_order(scheduler: str, task: Task, domain: AxisDomain) -> Rejection | None:
    """None when one pass over a row knows everything in time: no scan reads another's result, and nothing that changes
    along the row needs what the row as a whole gives."""
    scanned: set[int] = set()
    totals: set[int] = set()
    reduced = {*reduced_axes(domain)}
    for index in task.exprs:
        expr = task.fusion.exprs[index]
        kind, name = op_of(expr).kind, task.fusion.value(expr.outputs[0]).name
        after_scan, after_total = not scanned.isdisjoint(expr.inputs), not totals.isdisjoint(expr.inputs)
        if kind in (Kind.REDUCTION, Kind.SCAN) and (after_scan or after_total):
            return rejection(scheduler, task, f"{name} needs the result of another scan", expr.outputs[0])
        if after_total and any(_changes_along(task, domain, fid, reduced) for fid in expr.outputs):
            return rejection(scheduler, task, f"{name} needs the end of a row at its start", expr.outputs[0])
        if kind is Kind.SCAN or after_scan:
            scanned.update(expr.outputs)
        if kind is Kind.REDUCTION or after_total:
            totals.update(expr.outputs)
    return None


def _changes_along(task: Task, domain: AxisDomain, fid: int, axes: set[int]) -> bool:
    value = task.fusion.value(fid)
    return value.is_tensor and bool(domain.axes_of(fid, value.tensor) & axes)


def _row_threads(domain: AxisDomain, vec: int, sizes: Mapping[str, int]) -> ScanHeuristics:
    columns = hint(axis_product(domain, reduced_axes(domain)), sizes)
    return ScanHeuristics(threads=min(MAX_ROW_THREADS, max(WARP, next_power_of_two(-(-columns // vec)))))


def _rows(task: Task, domain: AxisDomain, vec: int, index: str, heuristics: ScanHeuristics) -> LaunchSpec:
    """One block a row."""
    rows = axis_product(domain, kept_axes(domain))
    kernel = _kernel("scan", task, domain, vec, index, heuristics)
    return LaunchSpec(kernel=kernel, grid=(rows, 1, 1), block=(heuristics.threads, 1, 1))


def _column_threads(domain: AxisDomain, vec: int, sizes: Mapping[str, int]) -> ScanHeuristics:
    inside = hint(_inside(domain), sizes)
    return ScanHeuristics(threads=min(COLUMN_THREADS, max(WARP, next_power_of_two(-(-inside // vec)))))


def _columns(task: Task, domain: AxisDomain, vec: int, index: str, heuristics: ScanHeuristics) -> LaunchSpec:
    """One vector of columns a thread."""
    reduced = reduced_axes(domain)
    outside = axis_product(domain, [axis for axis in kept_axes(domain) if axis < reduced[0]])
    kernel = _kernel("scan_outer", task, domain, vec, index, heuristics)
    grid = product([ceil_div(_inside(domain), heuristics.threads * vec), outside])
    return LaunchSpec(kernel=kernel, grid=(grid, 1, 1), block=(heuristics.threads, 1, 1))


def _inside(domain: AxisDomain) -> Formula:
    """The number of columns that lie beside each other."""
    last = reduced_axes(domain)[-1]
    return axis_product(domain, [axis for axis in kept_axes(domain) if axis > last])


def _check(choice: ScanHeuristics) -> None:
    """Raise :class:`KnobError` for blocks that cannot be."""
    require_power_of_two(choice, "threads", WARP, MAX_THREADS)


def _kernel(
    template: str, task: Task, domain: AxisDomain, vec: int, index: str, heuristics: ScanHeuristics
) -> KernelSpec:
    return KernelSpec(
        template=template,
        task=task,
        domain=domain,
        parameters=kernel_parameters(task, domain),
        index=index,
        vec=vec,
        heuristics=heuristics,
    )
