"""The view of pointwise kernels whose threads have elements of one column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import COORDINATE, Group, in_brackets
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, is_named, make_view
from fusebuild.kernels.pointwise.columns import ROW_STEP
from fusebuild.kernels.pointwise.narrow import NarrowBody
from fusebuild.kernels.pointwise.view import elements, guarded

ROW = (
    "const Index behind = left - u * Index(step);",
    "const Index row = rows - (behind > 0 ? behind : 1);  // no load waits for a test",
)
"""The row of an element of a thread, the last one where the thread has no more."""
BESIDE = "{}_beside"
"""How kernels call what lies as the domain does, from where the first point of that is."""


def pointwise_columns(spec: KernelSpec) -> KernelView:
    """The view of threads that find where their first row is by division, and count on from it to the next one, where
    nothing but loads asks for it; else they divide for each row."""
    inner = spec.domain.inner
    row, column = Group(name="row", axes=tuple(range(inner))), Group(name="i", axes=(inner,))
    body = _ColumnBody(spec, [row, column])
    exprs = body.closure(spec.task.outputs)
    sweep = elements(body, [row, column]).without_idle_coordinates()
    counted = _counted(row, sweep)
    if counted:
        sweep = replace(sweep, load_coordinates=(), loads=(*sweep.loads, _count_on(body, counted)))
    if is_named("row", (*sweep.load_coordinates, *sweep.loads)):
        sweep = replace(sweep, row=ROW)
    sweep = guarded(replace(sweep, coordinates=(*ROW, *sweep.coordinates)), "behind > 0")
    return make_view(
        body, exprs,
        bases=(*body.coordinates(replace(row, name="first_row"), counted, counted), *body.beginnings(column)),
        sweeps=(sweep,),
        extents={"rows": body.size(row.axes), "columns": body.size(column.axes)},
    )  # fmt: skip


class _ColumnBody(NarrowBody):
    """Statements of a kernel that finds once where what is read begins, if it lies as the domain does."""

    def elsewhere(self, fid: int, coordinate: Callable[[int], str]) -> str:
        access = self.domain.sources[fid]
        if not self.domain.lies_as_the_domain(access):
            return super().elsewhere(fid, coordinate)
        return f"{BESIDE.format(access.pointer)} + {in_brackets(self.place)}"

    def beginnings(self, column: Group) -> Lines:
        """Where that is."""
        coordinate = self.within(column)
        joined = {self.goes_on(fid) for fid in self.domain.sources}
        near = (access for access in self.domain.sources.values() if self.domain.lies_as_the_domain(access))
        return tuple(
            line
            for access in near
            if access.fid not in joined
            for name in [BESIDE.format(access.pointer)]
            for line in (
                f"const {self.c_type(access.tensor)}* {name} = {access.pointer} + "
                f"{self.beside(access.fid, coordinate)};",
                f"fb::forget_origin({name});  // or it is computed for each element",
            )
        )


def _counted(row: Group, sweep: Sweep) -> range:
    """The axes along which the coordinates of a ``row`` are counted on: the innermost ones, down from the first one
    that loads name; none where that is the outermost one, where they name a quotient, or where a coordinate is named
    later on."""
    named = [axis for axis in row.axes if is_named(COORDINATE.format(axis), sweep.loads)]
    divides = sweep.coordinates or "_over_" in " ".join(sweep.loads)
    return range(named[0], len(row.axes)) if named and named[0] > 0 and not divides else range(0)


def _count_on(body: NarrowBody, axes: Sequence[int]) -> str:
    """The line that takes the coordinates on ``axes`` to the next row."""
    carried, line = "", ""
    for axis in reversed(axes):
        step = f"Index({ROW_STEP.format(axis)}){carried}"
        line = f"fb::count_on({COORDINATE.format(axis)}, {step}, {body.extents[axis]})"
        carried = f" + {line}"
    return f"{line};"
