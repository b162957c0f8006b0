"""Views of the kernels that leave in scratch which updates go to which place."""

from __future__ import annotations

from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.view import KernelView, Sweep, lines_named, make_view
from fusebuild.kernels.scatter.places import along, head, named_place, number
from fusebuild.kernels.scatter.schedule import Naming, Scatter, ScatterHeuristics


def scatter_clear(spec: KernelSpec) -> KernelView:
    """No update in any place."""
    return make_view(Body(spec), ())


def scatter_list(spec: KernelSpec) -> KernelView:
    """A thread for each element of the index, which leaves its own number in the place that it names."""
    heuristics = spec.heuristics
    assert isinstance(heuristics, ScatterHeuristics)
    body, scatter = Body(spec), Scatter.of(spec.task)
    index, group = scatter.expr.inputs[1], Group(name="i", axes=scatter.named)
    exprs, coordinate = body.closure([index]), body.within(group)
    own = f"Index({along(scatter, coordinate)})"
    left = {
        Naming.NOTHING: "heads[place] = -1;",
        Naming.LAST: f"fb::raise_to(heads + place, {own});",
        Naming.LIST: f"following[{number(body, scatter, coordinate)}] = fb::exchange(heads + place, {own});",
    }
    lines = (
        *(body.scalar_load(fid, body.element(fid, [group])) for fid in body.reads([index])),
        *(body.statement(expr, coordinate) for expr in body.of_tensors(exprs)),
        f"const int64_t place = {head(body, scatter, coordinate, named_place(body, scatter))};",
        left[heuristics.naming],
    )
    setup = lines_named(body.coordinates(group, group.axes), lines)
    sweep = Sweep(coordinates=setup, stores=lines)
    return make_view(body, exprs, sweeps=(sweep,), extents={"total": body.size(group.axes)})
