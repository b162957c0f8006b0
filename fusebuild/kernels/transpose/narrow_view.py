"""The view of transposing kernels whose blocks have all columns of their rows."""

from __future__ import annotations

from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, is_named, make_view
from fusebuild.kernels.transpose.narrow import NarrowHeuristics, tile_elements

STEP = "if (++at.remainder == columns) { at.remainder = 0; ++at.quotient; }"
"""To the next element of a vector, which may be of the next row."""


def transpose_narrow(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, NarrowHeuristics)
    body = Body(spec)
    outputs, across, inner = spec.task.outputs, Group(name="o", axes=(0,)), Group(name="i", axes=(1,))
    exprs = body.closure(outputs)
    tiled = [fid for fid in body.reads(outputs) if fid in heuristics.tiled]
    elements = tile_elements(heuristics.threads * heuristics.unroll, spec.vec)
    offsets = {fid: f"Index({body.offset(fid, [across, inner])})" for fid in tiled}
    turned = Sweep(
        arrays=tuple(f"fb::WordsAround<{body.c_type(fid)}, kVec> w{fid}[kUnroll];" for fid in tiled),
        loads=tuple(f"w{fid}[u] = fb::load_words_around<kVec>(T{fid}, {offsets[fid]}, total);" for fid in tiled),
        stores=tuple(
            f"fb::store_shared(tile{fid} + fb::column_place<kVec>(i, pitch) + row, "
            f"fb::unpack(fb::cut_around(w{fid}[u], {offsets[fid]})));"
            for fid in tiled
        ),
    )
    return make_view(
        body, exprs,
        bases=tuple(f"FUSEBUILD_SHARED({body.c_type(fid)}, tile{fid}, {elements});" for fid in tiled),
        sweeps=(turned, _by_rows(body, [across, inner], tiled)),
        extents={"rows": body.size([0]), "columns": body.size([1])},
    )  # fmt: skip


def _by_rows(body: Body, groups: list[Group], tiled: list[int]) -> Sweep:
    """The walk over the vectors that are stored. What is dense over the domain is loaded before any is computed."""
    domain, outputs = body.domain, body.task.outputs
    reads = [fid for fid in body.reads(outputs) if fid not in tiled]
    flat = [fid for fid in reads if fid in {*domain.flat}]
    hoisted, moving = body.split(body.closure(outputs), range(len(domain.axes)))
    single: Lines = tuple(
        body.scalar_load(fid, f"T{fid}[{body.offset(fid, groups)}]") for fid in reads if fid not in flat
    )
    statements: Lines = tuple(body.statement(expr, body.within(*groups)) for expr in moving)
    return Sweep(
        arrays=tuple(f"fb::Packed<{body.c_type(fid)}, kVec> p{fid}[kUnroll];" for fid in flat),
        loads=tuple(f"p{fid}[u] = fb::load_packed_up_to<kVec>(T{fid} + first, total - first);" for fid in flat),
        vector=(
            *(f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::unpack(p{fid}[u]);" for fid in flat),
            *(body.statement(expr) for expr in hoisted),
            *(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid};" for fid in outputs),
        ),
        element=(
            *_coordinates((*single, *statements)),
            *(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in flat),
            *(f"const {body.c_type(fid)} t{fid} = tile{fid}[fb::column_place<kVec>(at.remainder, pitch) + at.quotient];"
              for fid in tiled),
            *single,
            *statements,
            *(f"v{fid}[k] = {body.own_operand(fid)};" for fid in outputs),
            STEP,
        ),
        stores=tuple(f"fb::store_up_to<kVec>(T{fid} + first, v{fid}, total - first);" for fid in outputs),
    )  # fmt: skip


def _coordinates(lines: Lines) -> Lines:
    """Those of an element that ``lines`` name."""
    places = {"o": "first_row + at.quotient", "i": "at.remainder"}
    return tuple(f"const Index {name} = {place};" for name, place in places.items() if is_named(name, lines))
