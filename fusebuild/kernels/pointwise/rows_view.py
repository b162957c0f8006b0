"""The view of pointwise kernels whose threads keep columns and walk rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body, Group, in_brackets
from fusebuild.kernels.common.steady import steady_of
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, is_named, join, make_view, walking_block
from fusebuild.kernels.pointwise.narrow import NarrowBody
from fusebuild.kernels.pointwise.rows import PointwiseRowsHeuristics, steady_fids
from fusebuild.kernels.pointwise.view import coordinate_lines, elements, sources_of


def pointwise_rows(spec: KernelSpec) -> KernelView:
    """The view of tiles of columns and rows."""
    return _walking(spec, tiles)


def pointwise_walks(spec: KernelSpec) -> KernelView:
    """The view of threads that have an element of rows each."""
    return _walking(spec, _walks)


def _walking(spec: KernelSpec, places: Callable[[NarrowBody, Sequence[int], str], Lines]) -> KernelView:
    """The view where ``places`` says what a thread has."""
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
        loads=(
            *(body.scalar_load(fid, f"T{fid}[{body.offset(fid, around)}]") for fid in single),
            *(
                f"const fb::Packed<{body.c_type(fid)}, kVec> p{fid} = "
                f"fb::load_packed<kVec>(T{fid} + {body.offset(fid, around)});"
                for fid in repeated
            ),
        ),
        vector=(
            *(f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::unpack(p{fid});" for fid in repeated),
            *(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid};" for fid in made),
        ),
        element=(
            *(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in repeated if fid in used),
            *(body.statement(expr, coordinate) for expr in (*counted, *steady.exprs)),
            *(f"v{fid}[k] = t{fid};" for fid in made),
        ),
    )
    needed = body.roots(body.closure(outputs, steady.kept), outputs)
    taken = (f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in steady.kept if fid in needed)
    known = (*steady.kept, *single)
    ahead = sources_of(body, body.closure(outputs, known), every, known).reads
    positions = Sweep(
        arrays=tuple(f"{body.c_type(fid)} j{fid}[kUnroll];" for fid in ahead),
        loads=tuple(f"j{fid}[u] = T{fid}[{body.offset(fid, every)}];" for fid in ahead),
    )
    own = elements(body, every, known=(*known, *ahead))
    own = join(_found(body, ahead, own), Sweep(element=tuple(taken)), own)
    return make_view(
        body, exprs,
        setup=places(body, before.axes, walking_block(spec)),
        bases=coordinate_lines(body, around, [*body.reads(outputs), *outputs], exprs),
        sweeps=(kept, positions, own),
        extents={"rows": body.size([walked]), "columns": body.size(column.axes)}
        | ({"before": body.size(before.axes)} if before.axes else {}),
    )  # fmt: skip


def _found(body: Body, ahead: Iterable[int], own: Sweep) -> Sweep:
    """The elements of tensors that were loaded ``ahead``, as far as the ``own`` statements of a row name them. What is
    computed with them stays beside them: those of a later row are loaded before."""
    used = [fid for fid in ahead if is_named(f"t{fid}", (*own.vector, *own.element))]
    taken = [fid for fid in ahead if fid in used or is_named(f"t{fid}", own.loads)]
    return Sweep(
        arrays=tuple(f"{body.c_type(fid)} s{fid}[kUnroll];" for fid in used),
        loads=(
            *(f"const {body.c_type(fid)} t{fid} = j{fid}[u];" for fid in taken),
            *(f"s{fid}[u] = t{fid};" for fid in used),
        ),
        vector=tuple(f"const {body.c_type(fid)} t{fid} = s{fid}[u];" for fid in used),
    )


def tiles(body: Body, before: Sequence[int], block: str) -> Lines:
    """Which tile the ``block`` owns, and which vector of columns and line of rows of it the thread has, where axes
    ``before`` come before the rows."""
    heuristics = body.spec.heuristics
    assert isinstance(heuristics, PointwiseRowsHeuristics)
    column_lines = (
        "const int across = int(column_shift), down = int(row_shift);",
        "const int lane = fb::thread_x() & ((1 << across) - 1), line = fb::thread_x() >> across;",
        f"const fb::Divided tile = fb::divided({block}, Index(column_tiles), column_tiles_reciprocal);",
        "const Index row_tile = tile.quotient, i = ((tile.remainder << across) + lane) * kVec;",
        "const Index step = 1 << down, tile_rows = step * Index(each);",
    )
    row_lines = (
        "const Index first_row = tile_row + (line & (step - 1)), next_tile = tile_row + tile_rows;",
        "const Index end = next_tile < rows ? next_tile : rows;",
    )
    if not before:
        return (*column_lines, "const Index tile_row = row_tile * tile_rows;", *row_lines)
    return (
        *column_lines,
        "const fb::Divided matrix = fb::divided(row_tile, Index(row_tiles), row_tiles_reciprocal);",
        "const Index tile_row = matrix.remainder * tile_rows;",
        f"const int outwards = {heuristics.threads.bit_length() - 1} - across - down;",
        "const Index before = (matrix.quotient << outwards) + (line >> down);",
        *row_lines,
    )


def _walks(body: Body, before: Sequence[int], block: str) -> Lines:
    """Which element of rows the thread has, and which rows it walks, where axes ``before`` come before the rows."""
    others = "columns" if not before else f"{body.size(before)} * columns"
    first = f"{in_brackets(block)} * kThreads"
    own = (
        "constexpr Index step = 1;",
        f"const Index others = {others};",
        f"const fb::Divided own = fb::divided({first} + fb::thread_x(), others, others_reciprocal);",
        "const Index first_row = own.quotient * Index(each), next = first_row + Index(each);",
        "const Index end = next < rows ? next : rows;",
    )
    if not before:
        return (*own, "const Index i = own.remainder;")
    return (
        *own,
        "const fb::Divided place = fb::divided(own.remainder, columns, columns_reciprocal);",
        "const Index before = place.quotient, i = place.remainder;",
    )
