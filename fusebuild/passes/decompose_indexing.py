"""``cat``, ``triu``, ``tril``, ``index_select``, ``embedding`` and ``gather``, written in ``place``, ``take`` and
comparisons of coordinates."""

from __future__ import annotations

from collections.abc import Callable

from fusebuild.ir.formula import Formula, total
from fusebuild.ir.values import Expr, Value
from fusebuild.passes.rewriting import Rewriter

_TAKES = {"index_select": "take", "embedding": "take", "gather": "take_along_axis"}


def _take(rewriter: Rewriter, expr: Expr) -> None:
    dim = dict(expr.attributes).get("dim", 0)
    rewriter.emit(_TAKES[expr.op], rewriter.operands(expr), result=expr.outputs[0], dim=dim)


def _cat(rewriter: Rewriter, expr: Expr) -> None:
    """Each operand, put in its place in the result, where the coordinate is in that place."""
    operands, (fid,) = rewriter.operands(expr), expr.outputs
    dtype, dim = rewriter.value(fid).dtype, expr.attribute("dim")
    extents = [operand.tensor.shape[dim] for operand in operands]
    parts: list[Value] = []
    for index, operand in enumerate(operands):
        part = rewriter.cast(operand, dtype, name=f"{operand.name}_cast")
        parts.append(_placed(rewriter, part, dim, total(extents[:index]), total(extents[index + 1 :])))
    result = parts[-1]
    for index in reversed(range(len(parts) - 1)):
        place = rewriter.coordinate(result.tensor.shape, dim)
        inside = rewriter.emit("lt", [place, rewriter.number(total(extents[: index + 1]))])
        name = f"{rewriter.value(fid).name}_tail" if index else ""
        result = rewriter.cast(rewriter.emit("where", [inside, parts[index], result], name=name), dtype)
    rewriter.replace(fid, result)


def _placed(rewriter: Rewriter, operand: Value, dim: int, before: Formula, after: Formula) -> Value:
    if before == 0 and after == 0:
        return operand
    inner_dims = operand.tensor.rank - 1 - dim
    widths = (*(0,) * (2 * inner_dims), before, after)
    return rewriter.emit("place", [operand], name=f"{operand.name}_placed", pad_widths=widths)


def _triangle(rewriter: Rewriter, expr: Expr) -> None:
    """The operand where the column is not before (not after) the diagonal, 0 elsewhere."""
    (operand,) = rewriter.operands(expr)
    shape, rank = operand.tensor.shape, operand.tensor.rank
    row, column = rewriter.coordinate(shape, rank - 2), rewriter.coordinate(shape, rank - 1)
    shifted = rewriter.emit("add", [row, rewriter.constant(expr.attribute("diagonal"))])
    kept = rewriter.emit("ge" if expr.op == "triu" else "le", [column, shifted])
    zero = rewriter.constant(0, dtype=operand.dtype)
    result = rewriter.emit("where", [kept, operand, zero])
    rewriter.replace(expr.outputs[0], rewriter.cast(result, operand.dtype))


INDEXING: dict[str, Callable[[Rewriter, Expr], None]] = {
    "cat": _cat,
    "triu": _triangle,
    "tril": _triangle,
    **dict.fromkeys(_TAKES, _take),
}
"""How each of these composites is written in primitives."""
