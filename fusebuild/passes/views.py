"""Views of views become one view, views that change nothing go, and a reduction over dims of size 1 is a squeeze.

A chain of ``broadcast`` and ``squeeze`` only inserts and removes dims of constant size 1, which cannot be told apart,
so the shapes at its two ends say all there is to know about it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.indexing import permutation_of
from fusebuild.ops.table import op_of
from fusebuild.passes.rewriting import Link, Rewriter

_LONGEST_CHAIN = 4
"""How far a chain of views is followed back; joined chains are at most two long."""


def views(fusion: Fusion) -> Fusion:
    """``fusion`` with the fewest views. A ``set`` stays only where it defines an output, and nothing reads it."""
    rewriter = Rewriter(fusion)
    for expr in rewriter.exprs():
        if expr.op in ("broadcast", "squeeze") or (expr.op == "reshape" and _is_of_ones(rewriter, expr)):
            _rewrite_reshape(rewriter, expr)
        elif expr.op == "permute":
            _rewrite_permute(rewriter, expr)
        elif expr.op == "expand":
            _rewrite_expand(rewriter, expr)
        elif op_of(expr).is_fold and not expr.attribute("keepdim"):
            _rewrite_reduction(rewriter, expr)
        elif expr.op == "set":
            rewriter.replace(expr.outputs[0], rewriter.operands(expr)[0])
        else:
            rewriter.keep(expr)
    return rewriter.finish()


def _is_of_ones(rewriter: Rewriter, reshape: Expr) -> bool:
    """Whether ``reshape`` only adds or removes dims of size 1."""
    (operand,), (result,) = rewriter.operands(reshape), reshape.outputs
    return view_between(operand.tensor.shape, rewriter.value(result).tensor.shape) is not None


def _rewrite_reshape(rewriter: Rewriter, expr: Expr) -> None:
    (operand,) = rewriter.operands(expr)
    shape = rewriter.value(expr.outputs[0]).tensor.shape
    chain = _reshape_chain(rewriter, operand)
    if (same := next((value for value in chain if value.tensor.shape == shape), None)) is not None:
        rewriter.replace(expr.outputs[0], same)
        return
    for source in reversed(chain if expr.op == "reshape" else chain[1:]):
        if _emit_reshape(rewriter, source, shape, expr):
            return
    rewriter.keep(expr)


def _reshape_chain(rewriter: Rewriter, value: Value) -> list[Value]:
    """``value`` and what it is a chain of broadcasts and squeezes of, nearest first."""
    chain = [value]
    while len(chain) < _LONGEST_CHAIN:
        definition = rewriter.definition(chain[-1])
        if definition is None or definition.op not in ("broadcast", "squeeze"):
            break
        chain.append(rewriter.operands(definition)[0])
    return chain


def _emit_reshape(rewriter: Rewriter, source: Value, shape: Sequence[Formula], expr: Expr) -> bool:
    """Define the result of ``expr`` as one view of ``source``, when one view is enough."""
    view = view_between(source.tensor.shape, shape)
    if view is not None:
        rewriter.emit(view.op, [source], result=expr.outputs[0], **view.named)
    return view is not None


def view_between(old: Sequence[Formula], new: Sequence[Formula]) -> Link | None:
    """The ``broadcast`` or ``squeeze`` that makes ``new`` of ``old`` by adding or removing dims of size 1; None where
    neither does."""
    if (added := _extra_ones(old, new)) is not None:
        return Link(op="broadcast", named={"is_broadcast_dim": tuple(at in added for at in range(len(new)))})
    if (removed := _extra_ones(new, old)) is not None:
        return Link(op="squeeze", named={"dims": removed})
    return None


def _extra_ones(short: Sequence[Formula], long: Sequence[Formula]) -> tuple[int, ...] | None:
    """Positions in ``long`` of dims of size 1 that ``short`` lacks; None when it is not ``short`` plus such dims."""
    extra: list[int] = []
    matched = 0
    for position, extent in enumerate(long):
        if matched < len(short) and short[matched] == extent:
            matched += 1
        elif extent == 1:
            extra.append(position)
        else:
            return None
    return tuple(extra) if matched == len(short) else None


def _rewrite_permute(rewriter: Rewriter, expr: Expr) -> None:
    (operand,) = rewriter.operands(expr)
    order = permutation_of(dict(expr.attributes), operand.tensor.rank)
    definition = rewriter.definition(operand)
    if definition is not None and definition.op == "permute":
        before = permutation_of(dict(definition.attributes), len(order))
        order, operand = tuple(before[dim] for dim in order), rewriter.operands(definition)[0]
    if order == tuple(range(len(order))):
        rewriter.replace(expr.outputs[0], operand)
    else:
        rewriter.emit("permute", [operand], result=expr.outputs[0], permutation=order)


def _rewrite_expand(rewriter: Rewriter, expr: Expr) -> None:
    (operand,) = rewriter.operands(expr)
    shape = rewriter.value(expr.outputs[0]).tensor.shape
    definition = rewriter.definition(operand)
    source = rewriter.operands(definition)[0] if definition is not None and definition.op == "expand" else operand
    if source.tensor.shape == shape:
        rewriter.replace(expr.outputs[0], source)
    elif source is operand:
        rewriter.keep(expr)
    else:
        rewriter.emit("expand", [source], result=expr.outputs[0], shape=shape)


def _rewrite_reduction(rewriter: Rewriter, expr: Expr) -> None:
    """A reduction whose dims all have size 1 is the element itself, in the dtype of the result."""
    (operand,) = rewriter.operands(expr)
    if any(operand.tensor.shape[dim] != 1 for dim in expr.dims):
        rewriter.keep(expr)
        return
    result = rewriter.value(expr.outputs[0])
    operand = rewriter.cast(operand, result.dtype, name=f"{result.name}_cast")
    _rewrite_reshape(rewriter, replace(expr, op="squeeze", inputs=(operand.fid,), attributes=(("dims", expr.dims),)))
