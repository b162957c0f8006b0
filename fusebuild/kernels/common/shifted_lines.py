"""Lines of row kernels whose vectors lie where memory is aligned: fusebuild.kernels.common.shifted says why.

``shift`` columns before the row its first vector begins; bit ``k`` of ``inside`` says that element ``k`` of a vector is
the row's; ``at`` is the element's column, or the nearest one that the row has.
"""

from __future__ import annotations

from collections.abc import Iterable

from fusebuild.kernels.common.shifted import flat_fids
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.view import Lines, is_named

INSIDE = "const unsigned inside = fb::inside_of<kVec>(col, columns);  // bit k: column col + k is of this row"


def row_shift(body: Body, row: Group, reads: Iterable[int]) -> Lines:
    """Where the vectors of the row begin, and how far the flat tensors among ``reads`` may be read."""
    if not body.spec.is_shifted:
        return ()
    shift = "const Index shift = fb::shift_of<kVec>(row * columns);  // columns of earlier rows in its first vector"
    left = f"({body.size(row.axes)} - row) * columns"
    if not row.axes:
        shift, left = "constexpr Index shift = 0;", "columns"
    readable = f"const Index readable = fb::readable_of<kVec>(columns, {left});"
    return (shift, readable) if {*reads} & {*flat_fids(body.domain)} else (shift,)


def nearest_column(column: Group) -> Group:
    """The group of the columns ``column``, indexed by an element's own column."""
    return Group(name="at", axes=column.axes)


def with_nearest(lines: Lines, col: str, columns: str) -> Lines:
    """``lines`` of element ``k`` of the vector at ``col``, with ``at`` declared before them where they name it."""
    nearest = f"const Index at = fb::nearest_column<Index>({col} + k, {columns});"
    return (nearest, *lines) if is_named("at", lines) else lines


def if_inside(body: Body, lines: Lines) -> Lines:
    """``lines`` of one element, which are for those of the row alone."""
    return tuple(f"if (fb::is_inside(inside, k)) {line}" for line in lines) if body.spec.is_shifted else lines


def row_vector(body: Body, fid: int, column: Group, *, packed: bool = False) -> str:
    """The expression that loads the current vector of input ``fid`` from its row ``r<fid>``."""
    address = f"r{fid} + {body.offset(fid, [column])}"
    if not body.spec.is_shifted:
        return f"fb::load{'_packed' if packed else ''}<kVec>({address})"
    if fid in flat_fids(body.domain):
        return f"fb::load{'_packed' if packed else ''}_up_to<kVec>({address}, readable - col)"
    beside = f"fb::load_beside<kVec>(r{fid}, col, columns)"
    return f"fb::pack({beside})" if packed else beside
