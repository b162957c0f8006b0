"""``index_copy``, ``index_put``, ``index_add`` and ``index_put_accumulate``, written in ``scatter`` and
``scatter_add``, and these two in the form that kernels take: updates that are a tensor, and a sum that is rounded once.
"""

from __future__ import annotations

from collections.abc import Callable

from fusebuild.ir.formula import product
from fusebuild.ir.values import Attribute, Expr, Value
from fusebuild.ops.type_rules import promote
from fusebuild.passes.rewriting import Rewriter

_OF_ROWS = {"index_copy": "scatter", "index_put": "scatter",
            "index_add": "scatter_add", "index_put_accumulate": "scatter_add"}  # fmt: skip


def _rows(rewriter: Rewriter, expr: Expr) -> None:
    """An index for each element of the updates, all alike that share one along the dim."""
    (base, index, src), named = rewriter.operands(expr), dict(expr.attributes)
    dim = named.pop("dim", 0)
    if index.tensor.rank != 1:
        count = product(index.tensor.shape)
        index = rewriter.emit("reshape", [index], name=f"{index.name}_flat", shape=(count,))
        if src.is_tensor:
            shape = (count, *base.tensor.shape[1:])
            src = rewriter.emit("reshape", [src], name=f"{src.name}_rows", shape=shape)
    shape = (*base.tensor.shape[:dim], index.tensor.shape[0], *base.tensor.shape[dim + 1 :])
    mask = tuple(other != dim for other in range(base.tensor.rank))
    if any(mask):
        index = rewriter.emit("broadcast", [index], name=f"{index.name}_broadcast", is_broadcast_dim=mask)
        index = rewriter.emit("expand", [index], name=f"{index.name}_expand", shape=shape)
    _write(rewriter, _OF_ROWS[expr.op], [base, index, src], expr, {"dim": dim, **named})


def _scatter(rewriter: Rewriter, expr: Expr) -> None:
    _write(rewriter, expr.op, rewriter.operands(expr), expr, dict(expr.attributes))


def _write(rewriter: Rewriter, op: str, operands: list[Value], expr: Expr, named: dict[str, Attribute]) -> None:
    """Record ``op`` for ``expr``. Where the result has strides known only at run time, a copy is stored there."""
    base, index, src = operands
    result = rewriter.value(expr.outputs[0])
    dtype = base.dtype
    if op == "scatter_add":
        named, dtype = {**named, "dtype": result.dtype}, promote([base.type, src.type])
        base = _before_widening(rewriter, base, src)
    if not src.is_tensor:
        src = rewriter.emit("full", [src], name=f"{src.name}_full", shape=index.tensor.shape, dtype=dtype)
    if _has_known_strides(rewriter, result):
        rewriter.emit(op, [base, index, src], result=result.fid, **named)
        return
    written = rewriter.emit(op, [base, index, src], name=f"{result.name}_written", **named)
    rewriter.emit("segment_set", [written], result=result.fid)


def _has_known_strides(rewriter: Rewriter, result: Value) -> bool:
    """Whether the strides are known now with which ``result`` is stored: not where it overwrites an input without."""
    output = rewriter.fusion.output(result.fid)
    return output is None or output.alias is None or None not in rewriter.value(output.alias).tensor.strides


def _before_widening(rewriter: Rewriter, base: Value, src: Value) -> Value:
    """What ``base`` is a widened copy of, where updates are added to that in the same dtype."""
    definition = rewriter.definition(base)
    if definition is None or definition.op != "cast":
        return base
    (source,) = rewriter.operands(definition)
    is_same = base.dtype.holds(source.dtype) and promote([source.type, src.type]) is promote([base.type, src.type])
    return source if is_same else base


def rounded_sum(rewriter: Rewriter, expr: Expr) -> bool:
    """Record the cast ``expr`` of a sum that nothing else reads as that sum, rounded once more; False for another cast.
    The sum itself, which nothing reads any more, is left to others to remove."""
    (source,) = rewriter.operands(expr)
    added, uses = rewriter.definition(source), rewriter.fusion.uses(expr.inputs[0])
    if added is None or added.op != "scatter_add" or rewriter.is_output(source.fid) or len(uses) != 1:
        return False
    operands = rewriter.operands(added)
    if promote([operands[0].type, operands[2].type]) is not source.dtype:
        return False
    named = {**dict(added.attributes), "dtype": expr.attribute("dtype")}
    rewriter.emit("scatter_add", operands, result=expr.outputs[0], location=added.location, **named)
    return True


SCATTERING: dict[str, Callable[[Rewriter, Expr], None]] = {
    "scatter": _scatter,
    "scatter_add": _scatter,
    **dict.fromkeys(_OF_ROWS, _rows),
}
"""How each of these ops is written in primitives."""
