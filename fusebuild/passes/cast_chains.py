"""Drop casts that change nothing and join casts through a dtype that loses nothing.

A round trip through a narrower dtype (float to bfloat16 and back) rounds, so it stays: its author may want it.
"""

from __future__ import annotations

from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Value
from fusebuild.passes.rewriting import Rewriter


def cast_chains(fusion: Fusion) -> Fusion:
    """``fusion`` where every cast changes the dtype, and none reads another that only widened."""
    rewriter = Rewriter(fusion)
    for expr in rewriter.exprs():
        if expr.op != "cast":
            rewriter.keep(expr)
            continue
        (operand,) = rewriter.operands(expr)
        dtype = expr.attribute("dtype")
        source = operand if operand.dtype is dtype else _through_widening(rewriter, operand)
        if source is operand and source.dtype is not dtype:
            rewriter.keep(expr)
        else:
            rewriter.replace_cast(expr, source)
    return rewriter.finish()


def _through_widening(rewriter: Rewriter, value: Value) -> Value:
    """The value that ``value`` is a widened copy of; ``value`` itself when it is none."""
    while (definition := rewriter.definition(value)) is not None and definition.op == "cast":
        (source,) = rewriter.operands(definition)
        if not value.dtype.holds(source.dtype):
            break
        value = source
    return value
