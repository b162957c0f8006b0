"""Sorts in primitives: one whose rows have a single element is a copy, and ``argsort`` is the second part of a sort."""

from __future__ import annotations

from collections.abc import Callable

from fusebuild.ir.dtype import DType
from fusebuild.ir.values import Expr, Value
from fusebuild.passes.rewriting import Rewriter


def _sort(rewriter: Rewriter, expr: Expr) -> None:
    (x,) = rewriter.operands(expr)
    if x.tensor.shape[expr.attribute("dim")] != 1:
        rewriter.keep(expr)
        return
    values, indices = expr.outputs
    rewriter.emit("set", [x], result=values)
    _zeros(rewriter, indices)


def _argsort(rewriter: Rewriter, expr: Expr) -> None:
    (x,), (indices,) = rewriter.operands(expr), expr.outputs
    if x.tensor.shape[expr.attribute("dim")] == 1:
        _zeros(rewriter, indices)
        return
    names = [f"{rewriter.value(indices).name}_values", ""]
    rewriter.emit_all("sort", [x], dict(expr.attributes), names=names, results=[None, indices])


def _zeros(rewriter: Rewriter, fid: int) -> Value:
    """The indices ``fid``, all of which are 0."""
    zero, shape = rewriter.constant(0, name="zero"), rewriter.value(fid).tensor.shape
    return rewriter.emit("full", [zero], result=fid, shape=shape, dtype=DType.INT64)


ORDERING: dict[str, Callable[[Rewriter, Expr], None]] = {
    "sort": _sort,
    "topk": _sort,
    "argsort": _argsort,
}
"""How each op of :data:`fusebuild.ops.ordering.ORDERING` is written in primitives."""
