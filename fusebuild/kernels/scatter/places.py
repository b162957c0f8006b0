"""How the kernels of a scatter write where an update goes, and where scratch tells of that place."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fusebuild.ir.dtype import DType
from fusebuild.kernels.common.statements import Body, in_brackets
from fusebuild.kernels.scatter.schedule import Scatter

Coordinate = Callable[[int], str]


def size_text(scatter: Scatter) -> str:
    """The elements of the dim that the index is about."""
    return str(scatter.size) if isinstance(scatter.size, int) else f"{scatter.access.pointer}_size"


def named_place(body: Body, scatter: Scatter) -> str:
    """The element of that dim that the index at hand names."""
    return f"fb::inside({body.operand(scatter.expr.inputs[1], DType.INT64)}, {size_text(scatter)})"


def head(body: Body, scatter: Scatter, coordinate: Coordinate, place: str) -> str:
    """Where scratch tells of the ``place`` at the coordinates along other axes."""
    axes = [axis for axis in scatter.order if axis is None or axis in scatter.along]
    return nested([(place, size_text(scatter)) if axis is None else (coordinate(axis), body.extents[axis])
                   for axis in axes])  # fmt: skip


def number(body: Body, scatter: Scatter, coordinate: Coordinate) -> str:
    """The number of the element of the index at the coordinates."""
    return nested([(coordinate(axis), body.extents[axis]) for axis in scatter.named])


def along(scatter: Scatter, coordinate: Coordinate) -> str:
    """The number of an update among those that may name one place."""
    return "0" if scatter.scattered is None else coordinate(scatter.scattered)


def nested(dims: Sequence[tuple[str, str]]) -> str:
    """The place in row-major order of an element with these ``(coordinate, extent)``, in 64 bits."""
    if not dims:
        return "0"
    text = f"int64_t({dims[0][0]})" if len(dims) > 1 else dims[0][0]
    for coordinate, extent in dims[1:]:
        text = f"{in_brackets(text)} * {extent} + {coordinate}"
    return text
