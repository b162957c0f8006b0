"""The view of pointwise kernels whose threads keep columns and walk rows."""

from __future__ import annotations

from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.steady import steady_of
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, join, make_view, walking_block
from fusebuild.kernels.pointwise.rows import PointwiseRowsHeuristics, steady_fids
from fusebuild.kernels.pointwise.view import coordinate_lines, elements


def pointwise_rows(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, PointwiseRowsHeuristics)
    body, walked, inner = Body(spec), heuristics.walked, spec.domain.inner
    before = Group(name="before", axes=tuple(range(walked)))
    column = Group(name="i", axes=tuple(range(walked + 1, inner + 1)))
    row = Group(name="row", axes=(walked,))
    outputs, around = body.task.outputs, [before, column]
    exprs = body.closure(outputs)
    repeated = steady_fids(spec.task, spec.domain, walked)
    single = [fid for fid in body.reads(outputs) if not {walked, inner} & {*body.domain.accesses[fid].axes}]
    counted = [expr for expr in exprs if expr.op == "iota" and walked not in body.axes_of(expr.outputs[0])]
    resident = (*repeated, *(expr.outputs[0] for expr in counted))
    steady = steady_of(body, exprs, dict.fromkeys(resident, 0), outputs)
    made = [fid for fid in steady.kept if fid not in repeated]
    used = body.roots(steady.exprs, ())
    coordinate = body.along(*around)
    kept = Sweep(
        arrays=tuple(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid};" for fid in made),
        loads=(
            *(body.scalar_load(fid, f"T{fid}[{body.offset(fid, around)}]") for fid in single),
            *(body.vector_load(fid, around) for fid in repeated),
        ),
        element=(
            *(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in repeated if fid in used),
            *(body.statement(expr, coordinate) for expr in (*counted, *steady.exprs)),
            *(f"v{fid}[k] = t{fid};" for fid in made),
        ),
    )
    needed = body.roots(body.closure(outputs, steady.kept), outputs)
    taken = (f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in steady.kept if fid in needed)
    own = elements(body, [*([before] if before.axes else []), row, column], known=(*steady.kept, *single))
    return make_view(
        body, exprs,
        setup=_tiles(before, walking_block(spec)),
        bases=coordinate_lines(body, around, [*body.reads(outputs), *outputs], exprs),
        sweeps=(kept, join(Sweep(element=tuple(taken)), own)),
        extents={"rows": body.size([walked]), "columns": body.size(column.axes)},
    )  # fmt: skip


def _tiles(before: Group, block: str) -> Lines:
    """Which tile the ``block`` owns, and of which matrix of rows and columns."""
    lines = [
        "const Index column_tiles = (columns + kThreadsX * kVec - 1) / (kThreadsX * kVec);",
        f"const Index tile = {block};",
    ]
    row_tile = "tile / column_tiles"
    if before.axes:
        lines += [
            "const Index row_tiles = (rows + kThreadsY * kRows - 1) / (kThreadsY * kRows);",
            "const Index before = tile / column_tiles / row_tiles;",
        ]
        row_tile = "tile / column_tiles % row_tiles"
    return (*lines, f"const Index first_row = {row_tile} * (kThreadsY * kRows);")
