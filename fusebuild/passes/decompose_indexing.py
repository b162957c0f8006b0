"""``cat``, ``triu``, ``tril``, ``index_select``, ``embedding`` and ``gather``, written in ``place``, ``take`` and
comparisons of coordinates."""

from __future__ import annotations

from collections.abc import Callable

from fusebuild.ir.formula import Formula, total
from fusebuild.ir.values import Expr, Value
from fusebuild.passes.coordinates import coordinate, number
from fusebuild.passes.rewriting import Rewriter

_TAKES = {"index_select": "take", "embedding": "take", "gather": "take_along_axis"}


def _take(rewriter: Rewriter, expr: Expr) -> None:
    named = {"dim": dict(expr.attributes).get("dim", 0)}
    rewriter.emit(_TAKES[expr.op], rewriter.operands(expr), named, result=expr.outputs[0], location=expr.location)


def _cat(rewriter: Rewriter, expr: Expr) -> None:
    """Each operand, put in its place in the result, where the coordinate is in that place."""
    operands, (fid,) = rewriter.operands(expr), expr.outputs
    dtype, dim = rewriter.value(fid).dtype, expr.attribute("dim")
    assert isinstance(dim, int)
    extents = [operand.tensor.shape[dim] for operand in operands]
    ends = [total(extents[: index + 1]) for index in range(len(operands))]
    parts: list[Value] = []
    for index, operand in enumerate(operands):
        if operand.dtype is not dtype:
            named = {"dtype": dtype}
            operand = rewriter.emit("cast", [operand], named, name=f"{operand.name}_cast", location=expr.location)
        before, after = total(extents[:index]), total(extents[index + 1 :])
        parts.append(_placed(rewriter, expr, operand, dim, before, after))
    result = parts[-1]
    for index in reversed(range(len(parts) - 1)):
        inside = _before(rewriter, expr, result, dim, ends[index])
        is_last = index == 0
        result = rewriter.emit(
            "where", [inside, parts[index], result],
            name="" if is_last else f"{rewriter.value(fid).name}_tail", location=expr.location,
        )  # fmt: skip
        if result.dtype is not dtype:
            result = rewriter.emit("cast", [result], {"dtype": dtype}, location=expr.location)
    rewriter.replace(fid, result, location=expr.location)


def _placed(rewriter: Rewriter, expr: Expr, operand: Value, dim: int, before: Formula, after: Formula) -> Value:
    if before == 0 and after == 0:
        return operand
    inner_dims = operand.tensor.rank - 1 - dim
    widths = (*(0,) * (2 * inner_dims), before, after)
    name = f"{operand.name}_placed"
    return rewriter.emit("place", [operand], {"pad_widths": widths}, name=name, location=expr.location)


def _before(rewriter: Rewriter, expr: Expr, like: Value, dim: int, end: Formula) -> Value:
    """Where the coordinate on ``dim`` of the tensor ``like`` is below ``end``."""
    place = coordinate(rewriter, like.tensor.shape, dim, location=expr.location)
    bound = number(rewriter, end, location=expr.location)
    return rewriter.emit("lt", [place, bound], location=expr.location)


def _triangle(rewriter: Rewriter, expr: Expr) -> None:
    """The operand where the column is not before (not after) the diagonal, 0 elsewhere."""
    (operand,), (fid,) = rewriter.operands(expr), expr.outputs
    shape, rank = operand.tensor.shape, operand.tensor.rank
    row, column = (coordinate(rewriter, shape, dim, location=expr.location) for dim in (rank - 2, rank - 1))
    diagonal = rewriter.constant(int(str(expr.attribute("diagonal"))), location=expr.location)
    shifted = rewriter.emit("add", [row, diagonal], location=expr.location)
    test = "ge" if expr.op == "triu" else "le"
    kept = rewriter.emit(test, [column, shifted], location=expr.location)
    zero = rewriter.constant(0, dtype=operand.dtype, location=expr.location)
    result = rewriter.emit("where", [kept, operand, zero], location=expr.location)
    if result.dtype is not operand.dtype:
        result = rewriter.emit("cast", [result], {"dtype": operand.dtype}, location=expr.location)
    rewriter.replace(fid, result, location=expr.location)


INDEXING: dict[str, Callable[[Rewriter, Expr], None]] = {
    "cat": _cat,
    "triu": _triangle,
    "tril": _triangle,
    **dict.fromkeys(_TAKES, _take),
}
"""How each of these composites is written in primitives."""
