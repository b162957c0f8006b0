"""How many bytes a Fusion reads and writes: its inputs and outputs once, but for inputs that index ops read parts of,
and for those that a scatter overwrites in parts."""

from __future__ import annotations

from collections.abc import Iterable

from fusebuild.ir.formula import Formula, product, total
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr
from fusebuild.ops.table import Kind, op_of


def read_bytes(fusion: Fusion, fid: int) -> Formula:
    """Bytes of the input ``fid`` that ``fusion`` reads: its distinct elements once, or no more than index ops take of
    it where nothing else reads it."""
    whole = fusion.value(fid).tensor.nbytes
    taken = None if fusion.is_output(fid) else taken_bytes(fusion, fid, fusion.uses(fid))
    return whole if taken is None else _at_most(whole, taken)


def written_bytes(fusion: Fusion, fid: int) -> Formula:
    """Bytes of the output ``fid`` that ``fusion`` writes: all of it, or no more than what is scattered into the input
    that it overwrites."""
    whole, expr = fusion.value(fid).tensor.nbytes, fusion.expr_of(fid)
    return whole if expr is None or not is_in_place(fusion, expr) else _at_most(whole, _update_bytes(fusion, expr))


def _at_most(whole: Formula, part: Formula) -> Formula:
    return 0 if part == 0 else ("min", whole, part)


def taken_bytes(fusion: Fusion, fid: int, exprs: Iterable[int]) -> Formula | None:
    """Bytes that those of ``exprs`` which read ``fid`` take of it, each for itself; None where there are none, or where
    one is no index op that takes parts."""
    readers = [fusion.exprs[index] for index in exprs if fid in fusion.exprs[index].inputs]
    if not readers or not all(_takes_part(fusion, expr, fid) for expr in readers):
        return None
    return total([_part_bytes(fusion, expr) for expr in readers])


def is_taken_from(fusion: Fusion, fid: int) -> bool:
    """Whether some expr takes parts of ``fid``: others may still read all of it."""
    return any(_takes_part(fusion, fusion.exprs[index], fid) for index in fusion.uses(fid))


def is_in_place(fusion: Fusion, expr: Expr) -> bool:
    """Whether ``expr`` is a scatter whose result overwrites the tensor that it writes to."""
    output = fusion.output(expr.outputs[0])
    return op_of(expr).kind is Kind.SCATTER and output is not None and output.alias == expr.inputs[0]


def is_set_in_place(fusion: Fusion, expr: Expr) -> bool:
    """Whether ``expr`` is one that reads nothing of that tensor."""
    return expr.op == "scatter" and is_in_place(fusion, expr)


def _takes_part(fusion: Fusion, expr: Expr, fid: int) -> bool:
    is_first = expr.inputs[:1] == (fid,) and fid not in expr.inputs[1:]
    return is_first and (op_of(expr).reads_part or is_in_place(fusion, expr))


def _part_bytes(fusion: Fusion, expr: Expr) -> Formula:
    """Bytes of its first operand that ``expr`` takes."""
    if op_of(expr).kind is Kind.SCATTER:
        return 0 if is_set_in_place(fusion, expr) else _update_bytes(fusion, expr)
    part = fusion.value(expr.outputs[0]).tensor
    return product([part.dtype.bytes, *part.shape])


def _update_bytes(fusion: Fusion, scatter: Expr) -> Formula:
    """Bytes of what ``scatter`` leaves in the places that it writes, if no two are one."""
    return product([fusion.value(scatter.outputs[0]).dtype.bytes, *fusion.value(scatter.inputs[2]).tensor.shape])
