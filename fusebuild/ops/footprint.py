"""How many bytes of its inputs a Fusion reads: all of them once, but for inputs that index ops read parts of."""

from __future__ import annotations

from collections.abc import Iterable

from fusebuild.ir.formula import Formula, product, total
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr
from fusebuild.ops.table import op_of


def read_bytes(fusion: Fusion, fid: int) -> Formula:
    """Bytes of the input ``fid`` that ``fusion`` reads: its distinct elements once, or no more than index ops take of
    it where nothing else reads it."""
    whole = fusion.value(fid).tensor.nbytes
    taken = None if fusion.is_output(fid) else taken_bytes(fusion, fid, fusion.uses(fid))
    return whole if taken is None else ("min", whole, taken)


def taken_bytes(fusion: Fusion, fid: int, exprs: Iterable[int]) -> Formula | None:
    """Bytes that those of ``exprs`` which read ``fid`` take of it, each for itself; None where there are none, or where
    one is no index op that takes parts."""
    readers = [fusion.exprs[index] for index in exprs if fid in fusion.exprs[index].inputs]
    if not readers or not all(_takes_part(expr, fid) for expr in readers):
        return None
    parts = [fusion.value(expr.outputs[0]).tensor for expr in readers]
    return total([product([part.dtype.bytes, *part.shape]) for part in parts])


def is_taken_from(fusion: Fusion, fid: int) -> bool:
    """Whether some expr takes parts of ``fid``: others may still read all of it."""
    return any(_takes_part(fusion.exprs[index], fid) for index in fusion.uses(fid))


def _takes_part(expr: Expr, fid: int) -> bool:
    return op_of(expr).reads_part and expr.inputs[0] == fid and fid not in expr.inputs[1:]
