"""The views of transposing kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, make_view, with_nearest
from fusebuild.kernels.pointwise.view import elements
from fusebuild.kernels.transpose.schedule import TransposeHeuristics

SQUARE_ELEMENT = "tile{}[fb::tile_index<kTile, kVec>(column{}, row)]"
"""What one element of a tensor's tile is called at the current row and column."""


def transpose(spec: KernelSpec) -> KernelView:
    """Squares, whose rows and columns are whole vectors."""
    body, groups = Body(spec), _groups(spec)
    read, written = _tiled(body)
    beside = " + k" if spec.vec > 1 else ""
    turned = Sweep(
        arrays=tuple(f"fb::Packed<{body.c_type(fid)}, kVec> w{fid}[kUnroll];" for fid in read),
        loads=tuple(f"w{fid}[u] = fb::load_packed_wide<kVec>(T{fid} + {body.offset(fid, groups)});" for fid in read),
        stores=tuple(f"fb::store_tile<kTile, kVec>(tile{fid}, column, row, w{fid}[u]);" for fid in read),
    )
    returned = Sweep(
        stores=tuple(
            f"fb::store_packed(T{fid} + {body.offset(fid, groups)}, "
            f"fb::load_tile<kTile, kVec>(tile{fid}, column, row));"
            for fid in written
        )
    )
    own = elements(body, groups, {fid: SQUARE_ELEMENT.format(fid, beside) for fid in (*read, *written)})
    return make_view(
        body, body.closure(spec.task.outputs),
        setup=(*_squares(body, groups), *_coordinates(body, groups)),
        bases=_arrays(body, (*read, *written), "kTile * kTile"),
        sweeps=(turned, own, returned),
        extents=_extents(body),
    )  # fmt: skip


def transpose_shifted(spec: KernelSpec) -> KernelView:
    """Tiles whose rows begin where memory is aligned."""
    body, groups = Body(spec), _groups(spec)
    read, _ = _tiled(body)
    offsets = {fid: f"Index({body.offset(fid, groups)})" for fid in read}
    sizes = {fid: f"Index({body.size(spec.domain.accesses[fid].axes)})" for fid in read}
    turned = Sweep(
        arrays=tuple(f"fb::WordsAround<{body.c_type(fid)}, kVec> w{fid}[kWalks];" for fid in read),
        loads=tuple(f"w{fid}[u] = fb::load_words_around<kVec>(T{fid}, {offsets[fid]}, {sizes[fid]});" for fid in read),
        stores=tuple(
            f"fb::store_tile<kTile, kVec>(tile{fid}, column + kAlign, row, fb::cut_around(w{fid}[u], {offsets[fid]}));"
            for fid in read
        ),
    )
    start = body.base(spec.task.outputs[0], groups[:-1], [spec.domain.inner])
    return make_view(
        body, body.closure(spec.task.outputs),
        setup=(*_shifted_tiles(body, groups), *_coordinates(body, groups)),
        bases=_arrays(body, read, "(kTile + kAlign) * kTile"),
        sweeps=(turned, _shifted_elements(body, groups, read)),
        extents=_extents(body) | {"total": body.size(spec.domain.every), "start": start},
    )  # fmt: skip


def _shifted_elements(body: Body, groups: Sequence[Group], tiled: Sequence[int]) -> Sweep:
    """The walk over shifted vectors of rows: vectors of tensors that are dense over the domain are loaded before any is
    computed, what else lies along rows is cut out of the words around it."""
    domain, outputs = body.domain, body.task.outputs
    inner, own_groups = domain.inner, [*groups[:-1], replace(groups[-1], name="at")]
    reads = [fid for fid in body.reads(outputs) if fid not in tiled]
    flat = [fid for fid in reads if fid in {*domain.flat}]
    steady = [fid for fid in reads if inner not in domain.accesses[fid].axes]
    beside = [fid for fid in reads if fid not in (*flat, *steady)]
    hoisted, moving = body.split(body.closure(outputs), [inner])
    row = {fid: f"T{fid} + {body.base(fid, groups[:-1], [inner])}" for fid in beside}
    own = (
        *(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in (*flat, *beside)),
        *(f"const {body.c_type(fid)} t{fid} = z{fid}[k];" for fid in tiled),
        *(body.statement(expr, body.within(*own_groups)) for expr in moving),
        *(f"v{fid}[k] = {body.own_operand(fid)};" for fid in outputs),
    )
    return Sweep(
        arrays=tuple(f"fb::Packed<{body.c_type(fid)}, kVec> p{fid}[kUnroll];" for fid in flat),
        loads=tuple(f"p{fid}[u] = fb::load_packed_up_to<kVec>(T{fid} + first, total - first);" for fid in flat),
        vector=(
            *(f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::unpack(p{fid}[u]);" for fid in flat),
            *(f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::load_beside<kVec>({row[fid]}, i, columns);"
              for fid in beside),
            *(f"const fb::TileColumn<{body.c_type(fid)}, kTile, kVec> z{fid}"
              f"(tile{fid}, i - first_column + kAlign, row);" for fid in tiled),
            *(body.scalar_load(fid, f"T{fid}[{body.offset(fid, groups)}]") for fid in steady),
            *(body.statement(expr, body.within(*groups)) for expr in hoisted),
            *(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid};" for fid in outputs),
        ),
        element=with_nearest(own, "i", "columns"),
        stores=tuple(f"fb::store_inside(T{fid} + first, v{fid}, inside);" for fid in outputs),
    )  # fmt: skip


def _groups(spec: KernelSpec) -> list[Group]:
    """The axes before the one across, that one, those between them, and the innermost."""
    heuristics, inner = spec.heuristics, spec.domain.inner
    assert isinstance(heuristics, TransposeHeuristics)
    across = heuristics.across
    groups = [
        Group(name="before", axes=tuple(range(across))),
        Group(name="o", axes=(across,)),
        Group(name="between", axes=tuple(range(across + 1, inner))),
        Group(name="i", axes=(inner,)),
    ]
    return [group for group in groups if group.axes]


def _tiled(body: Body) -> tuple[list[int], list[int]]:
    """The inputs and the outputs that go through tiles."""
    heuristics, outputs = body.spec.heuristics, body.task.outputs
    assert isinstance(heuristics, TransposeHeuristics)
    read = [fid for fid in body.reads(outputs) if fid in heuristics.tiled]
    return read, [fid for fid in outputs if fid in heuristics.tiled]


def _extents(body: Body) -> dict[str, str]:
    heuristics = body.spec.heuristics
    assert isinstance(heuristics, TransposeHeuristics)
    return {"rows": body.size([heuristics.across]), "columns": body.size([body.domain.inner])}


def _arrays(body: Body, tiled: Iterable[int], elements: str) -> Lines:
    """The tiles, each of so many ``elements``."""
    return tuple(f"FUSEBUILD_SHARED({body.c_type(fid)}, tile{fid}, {elements});" for fid in tiled)


def _coordinates(body: Body, groups: Sequence[Group]) -> Lines:
    every = {axis for group in groups for axis in group.axes}
    return tuple(line for group in groups for line in body.coordinates(group, every))


def _squares(body: Body, groups: Sequence[Group]) -> Lines:
    """Which square, and of which matrix, the block owns."""
    return (
        "const int across = kTileBits * 2 - int(row_bits), down = kTileBits * 2 - int(column_bits);",
        TILE,
        "const Index first_column = Index(tile.remainder) << across;",
        *_below(body, groups, "const Index first_row = Index({}) << down;"),
    )


def _shifted_tiles(body: Body, groups: Sequence[Group]) -> Lines:
    """The tile of the block, and its matrix, where rows may begin up to ``kAlign`` columns before a tile."""
    return (
        TILE,
        *_below(body, groups, "const fb::TilePlace own({}, tile.remainder, int(row_tiles), int(column_tiles));"),
        "const Index first_column = own.column * kTile;",
        "const Index first_row = own.row * kTile;",
    )


TILE = "const fb::Divided tile = fb::divided(fb::block_x(), int32_t(column_tiles), column_tiles_reciprocal);"
"""The line that finds a block's place beside others of its row of tiles, and which row that is of those of all
matrices."""


def _below(body: Body, groups: Sequence[Group], row: str) -> Lines:
    """The line ``row``, a format of which row of tiles a block's is in its matrix, and which matrix that is."""
    if not _batch(groups):
        return (row.format("tile.quotient"),)
    return (
        "const fb::Divided above = fb::divided(tile.quotient, int32_t(row_tiles), row_tiles_reciprocal);",
        row.format("above.remainder"),
        *_matrix(body, groups, "above.quotient"),
    )


def _batch(groups: Sequence[Group]) -> list[Group]:
    return [group for group in groups if group.name in ("before", "between")]


def _matrix(body: Body, groups: Sequence[Group], matrix: str) -> Lines:
    """The coordinates of the matrix with the number ``matrix``; none where there is one matrix."""
    batch = _batch(groups)
    if len(batch) < 2:
        return tuple(f"const Index {group.name} = {matrix};" for group in batch)
    size = body.size(batch[1].axes)
    return (
        f"const Index matrix = {matrix};",
        f"const Index between = matrix % Index({size});",
        f"const Index before = matrix / Index({size});",
    )
