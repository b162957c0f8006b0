"""Views of sorts: what is computed for each element of a row, and what for each result of it."""

from __future__ import annotations

from collections.abc import Sequence

from fusebuild.ir.values import Expr
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, is_named, make_view
from fusebuild.kernels.order.shape import OrderShape, shape_of


class _Parts:
    """The lines of a kernel: once a row, at each of its elements ``col``, and at each of its results ``rank``."""

    def __init__(self, spec: KernelSpec) -> None:
        self.body = body = Body(spec, interleaved=True)
        self.shape: OrderShape = shape_of(spec.task)
        shape, (self.operand,) = self.shape, self.shape.expr.inputs
        self.row = Group(name="row", axes=shape.rows, index="int64_t")
        self.column = Group(name="col", axes=(shape.sorted,), index="int")
        self.rank = Group(name="rank", axes=() if shape.results is None else (shape.results,), index="int")
        self.made = shape.expr.outputs
        self.before = body.closure([self.operand, *shape.early])
        self.after = body.closure(shape.late, self.made)
        self.exprs = (*self.before, *(expr for expr in self.after if expr not in self.before))
        reads = {*body.reads([self.operand, *shape.early]), *body.reads(shape.late, self.made)}
        self.of_row = [fid for fid in sorted(reads) if not self._changes(fid)]

    def _changes(self, fid: int) -> bool:
        """Whether the value ``fid`` differs within a row, or follows from what a sort makes of it."""
        moving = {self.shape.sorted, self.shape.results}
        return bool(self.body.axes_of(fid) & moving) or self.body.depends_on(fid, self.made)

    def setup(self) -> Lines:
        """What is one value a row, with the coordinates of the row."""
        body, row = self.body, self.row
        tensors = [*body.memory_inputs(), *body.task.outputs]
        needed = body.needs_coordinates(tensors, row) | (body.coordinate_axes(self.exprs) & {*row.axes})
        loads = (body.scalar_load(fid, body.element(fid, [row])) for fid in self.of_row)
        still = [expr for expr in body.of_tensors(self.exprs) if not self._changes(expr.outputs[0])]
        return (
            *body.coordinates(row, needed),
            *loads,
            *(body.statement(expr, body.within(row)) for expr in still),
        )

    def at_elements(self) -> Sweep:
        targets = [self.operand, *self.shape.early]
        return Sweep(
            element=self._computed(self.before, self.body.reads(targets), self.column),
            stores=self._stores(self.shape.early, self.column),
        )

    def at_results(self) -> Sweep:
        reads = self.body.reads(self.shape.late, self.made)
        lines = self._computed(self.after, reads, self.rank)
        stores = self._stores(self.shape.late, self.rank)
        values = tuple(
            f"const {self.body.c_type(fid)} t{fid} = Order::{part}(entry);{self._comment(fid)}"
            for fid, part in zip(self.made, ("element", "place"), strict=True)
            if is_named(f"t{fid}", (*lines, *stores))
        )
        return Sweep(element=(*values, *lines), stores=stores)

    def _comment(self, fid: int) -> str:
        return self.body.comment(self.body.value(fid), self.shape.expr)

    def _computed(self, exprs: Sequence[Expr], reads: Sequence[int], group: Group) -> Lines:
        """The loads of ``reads`` and the statements of ``exprs``, as far as they differ within a row."""
        body, groups = self.body, [self.row, group]
        loads = (fid for fid in reads if fid not in self.of_row)
        moving = [expr for expr in body.of_tensors(exprs) if self._changes(expr.outputs[0])]
        return (
            *(body.scalar_load(fid, f"T{fid}[{body.offset(fid, groups)}]") for fid in loads),
            *(body.statement(expr, body.within(*groups)) for expr in moving),
        )

    def _stores(self, fids: Sequence[int], group: Group) -> Lines:
        places = {fid: self.body.offset(fid, [self.row, group]) for fid in fids}
        return tuple(f"T{fid}[{places[fid]}] = {self.body.own_operand(fid)};" for fid in fids)

    def view(self) -> KernelView:
        body, shape = self.body, self.shape
        return make_view(
            body,
            self.exprs,
            setup=self.setup(),
            sweeps=(self.at_elements(), self.at_results()),
            extents={
                "rows": body.size(shape.rows),
                "columns": body.size([shape.sorted]),
                "element": body.c_type(self.operand),
                "descending": str(shape.is_descending).lower(),
                "value": body.own_operand(self.operand),
            },
        )


def order_view(spec: KernelSpec) -> KernelView:
    """What each of the templates is filled with."""
    return _Parts(spec).view()
