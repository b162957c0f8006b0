"""Compute each thing once: equal exprs and equal constants are shared."""

from __future__ import annotations

import struct
from collections.abc import Hashable

from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.table import op_of
from fusebuild.passes.rewriting import Rewriter


def common_subexpressions(fusion: Fusion) -> Fusion:
    """``fusion`` where an expr equal to an earlier one is gone and its readers read the earlier result.

    Operands of commutative ops compare in any order; constants compare by dtype and bits, so -0.0 is not 0.0. A
    ``segment_set`` is never shared, because its author asked for that very cut, nor is a ``set`` that defines an
    output. An output that repeats an earlier value becomes a ``set`` of it.
    """
    rewriter = Rewriter(fusion)
    _share_constants(rewriter)
    first: dict[Hashable, Expr] = {}
    for expr in rewriter.exprs():
        if op_of(expr).is_boundary or (expr.op == "set" and rewriter.is_output(expr.outputs[0])):
            rewriter.keep(expr)
            continue
        key = _key(rewriter, expr)
        if (earlier := first.get(key)) is None:
            first[key] = rewriter.keep(expr)
            continue
        for fid, shared in zip(expr.outputs, earlier.outputs, strict=True):
            rewriter.replace(fid, rewriter.value(shared))
    return rewriter.finish()


def _key(rewriter: Rewriter, expr: Expr) -> Hashable:
    operands = [operand.fid for operand in rewriter.operands(expr)]
    if op_of(expr).is_commutative:
        operands.sort()
    return expr.op, tuple(operands), expr.attributes


def _share_constants(rewriter: Rewriter) -> None:
    first: dict[Hashable, Value] = {}
    for value in rewriter.fusion.values.values():
        if value.is_constant and not isinstance(value.literal, tuple):
            shared = first.setdefault(_bits(value), value)
            if shared is not value:
                rewriter.replace(value.fid, shared)


def _bits(value: Value) -> Hashable:
    literal = value.literal
    return value.dtype, struct.pack("<d", literal) if isinstance(literal, float) else literal
