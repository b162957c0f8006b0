"""The view of kernels whose threads write updates to the places that the index names."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusebuild.ir.values import Expr
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.view import KernelView, make_view
from fusebuild.kernels.pointwise.view import elements, guarded
from fusebuild.kernels.scatter.places import along, head, named_place
from fusebuild.kernels.scatter.schedule import Naming, Scatter, ScatterHeuristics


class _Updates(Body):
    """Statements of a kernel over updates. With ``last``, one that is not the last of its place is not written."""

    def __init__(self, spec: KernelSpec, last: Scatter | None) -> None:
        super().__init__(spec)
        self.last = last

    def is_by_element(self, fid: int) -> bool:
        """So are updates whose neighbours go to places of their own."""
        position = self.domain.accesses[fid].position
        if position is None:
            return super().is_by_element(fid)
        is_single = self.spec.vec == 1 or self.domain.inner in self.axes_of(position.index)
        return is_single or super().is_by_element(fid)

    def coordinate_axes(self, exprs: Iterable[Expr]) -> set[int]:
        exprs = tuple(exprs)
        is_asked = self.last is not None and self.last.expr in exprs
        return super().coordinate_axes(exprs) | ({*self.last.named} if is_asked and self.last is not None else set())

    def is_last(self, group: Group) -> str:
        """Whether the update at hand is the last one of its place; nothing where it is the only one."""
        if self.last is None:
            return ""
        coordinate = self.along(group)
        place = head(self, self.last, coordinate, named_place(self, self.last))
        return f"heads[{place}] == {along(self.last, coordinate)}"

    def element_store(self, fid: int, strided: bool, groups: Sequence[Group], vector: str = "v") -> str:
        store, asked = super().element_store(fid, strided, groups, vector), self.is_last(groups[0])
        return f"if ({asked}) {store}" if strided and asked else store


def scatter_updates(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, ScatterHeuristics)
    body = _Updates(spec, Scatter.of(spec.task) if heuristics.naming is Naming.LAST else None)
    group = Group(name="i", axes=spec.domain.every)
    sweep, asked = elements(body, [group]), body.is_last(group)
    sweep = (guarded(sweep, asked) if asked else sweep).without_idle_coordinates()
    exprs = body.closure(spec.task.outputs)
    return make_view(body, exprs, sweeps=(sweep,), extents={"total": body.size(group.axes)})
