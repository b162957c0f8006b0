"""Which axes of a task are rows, which one is sorted, and what is computed on either side of the sort."""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.fusion import Task
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.rows import check_output
from fusebuild.kernels.common.spec import indices_of, try_domain
from fusebuild.kernels.common.storage import operands
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.ops.table import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderShape:
    """The expr that orders, and the axes of its task: all of the ``rows``, the one that is ``sorted``, and that along
    which results lie: the same one for a sort, None where each row has one result. Of the outputs, those ``early`` are
    computed from the elements of a row where they stand, those ``late`` from its results."""

    expr: Expr
    rows: tuple[int, ...]
    sorted: int
    results: int | None
    early: tuple[int, ...]
    late: tuple[int, ...]

    @property
    def kept(self) -> int | None:
        """How many results a row has; None where it has all."""
        return int(self.expr.attribute("k")) if self.expr.op == "topk" else None

    @property
    def is_descending(self) -> bool:
        """Whether the greatest comes first."""
        return bool(self.expr.attribute("largest" if self.expr.op == "topk" else "descending"))


def shape_of(task: Task) -> OrderShape:
    """The shape of ``task``; raises :class:`UnfitError` where no kernel of this family computes it."""
    _check_kinds(task)
    domain = try_domain(task)
    (index,) = indices_of(task, Kind.ORDER)
    expr = task.fusion.exprs[index]
    axes = domain.dims_of(expr.outputs[0])
    results = axes[expr.attribute("dim")]
    (sorted_,) = domain.reduced
    rows = tuple(axis for axis in domain.every if axis not in (sorted_, results))
    after = _computed_from(task, expr)
    shape = OrderShape(
        expr=expr,
        rows=rows,
        sorted=sorted_,
        results=results,
        early=tuple(fid for fid in task.outputs if fid not in after),
        late=tuple(fid for fid in task.outputs if fid in after),
    )
    _check_outputs(task, domain, shape)
    _check_overwritten(task, shape, after)
    return shape


def _check_kinds(task: Task) -> None:
    """Raise :class:`UnfitError` unless there is one sort and nothing that combines elements."""
    for kind in (Kind.REDUCTION, Kind.SCAN, Kind.SCATTER):
        for index in indices_of(task, kind):
            fid = task.fusion.exprs[index].outputs[0]
            raise UnfitError(f"{task.fusion.value(fid).name} is a {kind.value}", fid)
    found = indices_of(task, Kind.ORDER)
    if not found:
        raise UnfitError("there is no sort")
    for index in found[1:]:
        fid = task.fusion.exprs[index].outputs[0]
        raise UnfitError(f"{task.fusion.value(fid).name} is another sort", fid)


def _computed_from(task: Task, order: Expr) -> frozenset[int]:
    """The values of ``task`` that the results of ``order`` are needed for, with these."""
    found = {*order.outputs}
    for expr in task.steps:
        if not found.isdisjoint(expr.inputs):
            found.update(expr.outputs)
    return frozenset(found)


def _check_outputs(task: Task, domain: AxisDomain, shape: OrderShape) -> None:
    """Raise :class:`UnfitError` unless outputs have an element for each of a row, or for each result of it."""
    of_results = {*shape.rows} if shape.results is None else {*shape.rows, shape.results}
    for fid in shape.early:
        check_output(task, domain, fid, tuple(sorted({*shape.rows, shape.sorted})))
    for fid in shape.late:
        check_output(task, domain, fid, tuple(sorted(of_results)))


def _check_overwritten(task: Task, shape: OrderShape, after: frozenset[int]) -> None:
    """Raise :class:`UnfitError` where what is computed from results reads an input that is overwritten before."""
    needed = set(after)
    for expr in reversed(task.steps):
        if expr is not shape.expr and not needed.isdisjoint(expr.outputs):
            needed.update(operands(expr))
    for fid in shape.early:
        output = task.fusion.output(fid)
        if output is not None and output.alias in needed:
            name = task.fusion.value(output.alias).name
            raise UnfitError(f"{name} is overwritten by {output.name} before all of it is read", fid)
