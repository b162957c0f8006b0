"""The view of transposing kernels."""

from __future__ import annotations

from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, make_view
from fusebuild.kernels.pointwise.view import elements
from fusebuild.kernels.transpose.schedule import TransposeHeuristics


def transpose(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, TransposeHeuristics)
    body, inner = Body(spec), spec.domain.inner
    across, outputs = heuristics.across, spec.task.outputs
    groups = [
        Group(name="before", axes=tuple(range(across))),
        Group(name="o", axes=(across,)),
        Group(name="between", axes=tuple(range(across + 1, inner))),
        Group(name="i", axes=(inner,)),
    ]
    groups = [group for group in groups if group.axes]
    exprs = body.closure(outputs)
    read = [fid for fid in body.reads(outputs) if fid in heuristics.tiled]
    written = [fid for fid in outputs if fid in heuristics.tiled]
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
    own = elements(body, groups, [*read, *written])
    every = {axis for group in groups for axis in group.axes}
    return make_view(
        body, exprs,
        setup=(*_tiles(body, groups), *(line for group in groups for line in body.coordinates(group, every))),
        bases=tuple(f"FUSEBUILD_SHARED({body.c_type(fid)}, tile{fid}, kTile * kTile);" for fid in (*read, *written)),
        sweeps=(turned, own, returned),
        extents={"rows": body.size([across]), "columns": body.size([inner])},
    )  # fmt: skip


def _tiles(body: Body, groups: list[Group]) -> Lines:
    """Which tile, and of which matrix, the block owns."""
    lines = [
        "const Index column_tiles = (columns + kTile - 1) / kTile;",
        "const Index row_tiles = (rows + kTile - 1) / kTile;",
        "const Index tile = fb::block_x();",
        "const Index first_column = tile % column_tiles * kTile;",
        "const Index first_row = tile / column_tiles % row_tiles * kTile;",
    ]
    matrix = "tile / column_tiles / row_tiles"
    names = {group.name: group for group in groups}
    if "between" in names and "before" in names:
        size = body.size(names["between"].axes)
        lines += [
            f"const Index matrix = {matrix};",
            f"const Index between = matrix % Index({size});",
            f"const Index before = matrix / Index({size});",
        ]
    elif "between" in names or "before" in names:
        lines.append(f"const Index {'between' if 'between' in names else 'before'} = {matrix};")
    return tuple(lines)
