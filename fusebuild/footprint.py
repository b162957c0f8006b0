"""How many bytes of its inputs a Fusion reads: all of them once, but for inputs that index ops read parts of."""

from __future__ import annotations

from fusebuild.formula import Formula, product, total
from fusebuild.ir import Fusion

_READ_PARTS = frozenset({"slice", "take", "index_select", "embedding", "take_along_axis", "gather"})


def read_bytes(fusion: Fusion, fid: int) -> Formula:
    """Bytes of the input ``fid`` that ``fusion`` reads: its distinct elements once, or no more than index ops take of
    it where nothing else reads it."""
    whole = fusion.value(fid).tensor
    readers = [fusion.exprs[index] for index in fusion.uses(fid)]
    if not readers or fusion.is_output(fid):
        return whole.nbytes
    if not all(expr.op in _READ_PARTS and expr.inputs[0] == fid and fid not in expr.inputs[1:] for expr in readers):
        return whole.nbytes
    parts = [fusion.value(expr.outputs[0]).tensor for expr in readers]
    return ("min", whole.nbytes, total([product([part.dtype.bytes, *part.shape]) for part in parts]))
