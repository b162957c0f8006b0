"""Let no scatter read, as updates or index, the tensor that it writes to, nor write to one of unknown strides.

A kernel reads what is scattered into at the places of updates alone. What else is read of it, and one whose strides
only a call knows, is copied before.
"""

from __future__ import annotations

from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.table import Kind, op_of
from fusebuild.passes.rewriting import Rewriter


def scattered_apart(fusion: Fusion) -> Fusion:
    """``fusion`` with copies of such operands."""
    if not any(op_of(expr).kind is Kind.SCATTER for expr in fusion.exprs):
        return fusion
    rewriter = Rewriter(fusion)
    for expr in rewriter.exprs():
        operands = _apart(rewriter, expr) if op_of(expr).kind is Kind.SCATTER else rewriter.operands(expr)
        if tuple(operand.fid for operand in operands) == expr.inputs:
            rewriter.keep(expr)
        else:
            rewriter.emit(expr.op, operands, result=expr.outputs[0], **dict(expr.attributes))
    return rewriter.finish()


def _apart(rewriter: Rewriter, scatter: Expr) -> list[Value]:
    """What ``scatter`` reads, those operands copied that have to be."""
    base, *others = rewriter.operands(scatter)
    others = [_copy(rewriter, each) if each.fid == base.fid else each for each in others]
    return [_copy(rewriter, base) if None in base.tensor.strides else base, *others]


def _copy(rewriter: Rewriter, value: Value) -> Value:
    return rewriter.emit("contiguous", [value], name=f"{value.name}_contiguous")
