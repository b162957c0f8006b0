"""The view of pointwise kernels whose threads keep columns and walk rows."""

from __future__ import annotations

from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.steady import steady_of
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, join, make_view, walking_block
from fusebuild.kernels.pointwise.narrow import NarrowBody
from fusebuild.kernels.pointwise.rows import PointwiseRowsHeuristics, steady_fids
from fusebuild.kernels.pointwise.view import coordinate_lines, elements, guarded


def pointwise_rows(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, PointwiseRowsHeuristics)
    walked, inner = heuristics.walked, spec.domain.inner
    before = Group(name="before", axes=tuple(range(walked)))
    column = Group(name="i", axes=tuple(range(walked + 1, inner + 1)))
    row = Group(name="row", axes=(walked,))
    every = [*([before] if before.axes else []), row, column]
    body = NarrowBody(spec, every)
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
    own = guarded(elements(body, every, known=(*steady.kept, *single)), "own < end")
    return make_view(
        body, exprs,
        setup=_tiles(body, before, walking_block(spec)),
        bases=coordinate_lines(body, around, [*body.reads(outputs), *outputs], exprs),
        sweeps=(kept, join(Sweep(element=tuple(taken)), own)),
        extents={"rows": body.size([walked]), "columns": body.size(column.axes)}
        | ({"before": body.size(before.axes)} if before.axes else {}),
    )  # fmt: skip


def _tiles(body: Body, before: Group, block: str) -> Lines:
    """Which tile the ``block`` owns, and which vector of columns and line of rows of it the thread has."""
    heuristics = body.spec.heuristics
    assert isinstance(heuristics, PointwiseRowsHeuristics)
    column_lines = (
        "const int across = int(column_shift), down = int(row_shift), tile_down = int(row_shift + each_shift);",
        "const int lane = fb::thread_x() & ((1 << across) - 1), line = fb::thread_x() >> across;",
        "const Index column_tiles = ((columns + kVec - 1) / kVec + (1 << across) - 1) >> across;",
        f"const Index tile = {block}, row_tile = tile / column_tiles;",
        "const Index i = (((tile - row_tile * column_tiles) << across) + lane) * kVec;",
    )
    if not before.axes:
        return (*column_lines, "const Index first_row = row_tile << tile_down;")
    return (
        *column_lines,
        "const Index row_tiles = (rows + (1 << tile_down) - 1) >> tile_down, before_tile = row_tile / row_tiles;",
        "const Index first_row = (row_tile - before_tile * row_tiles) << tile_down;",
        f"const int outwards = {heuristics.threads.bit_length() - 1} - across - down;",
        "const Index before = (before_tile << outwards) + (line >> down);",
    )
