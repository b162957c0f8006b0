"""Make places once for each dim that they are laid along, where they were made once for several.

``iota(S) <= broadcast(iota(S), [False, True])`` compares columns with rows. Of the two equal ``iota`` one is left after
:func:`common_subexpressions`, as there is where the author gave it a name. One loop would then walk both dims of the
result, and no kernel has such a loop: the places would go through memory. Making them again costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping

from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.table import Kind, op_of
from fusebuild.passes.rewriting import Rewriter

_LAST = 0
"""The dim that a tensor without a broadcast is laid along, counted from the last one."""


def separate_places(fusion: Fusion) -> Fusion:
    """``fusion`` where what follows from places alone is read along one dim, counted from the last."""
    places = _places(fusion)
    dims = _dims_along(fusion, places)
    if all(len(own) == 1 for own in dims.values()):
        return fusion
    rewriter = Rewriter(fusion)
    copies: dict[tuple[int, int], Value] = {}

    def operands(expr: Expr, dim: int) -> list[Value]:
        return [copies.get((fid, dim)) or rewriter.value(fid) for fid in expr.inputs]

    for expr in rewriter.exprs():
        (fid, *_) = expr.outputs
        own = dims.get(fid, ()) if fid in places else ()
        first = own[0] if own else _dim_along(expr)
        if any((read, first) in copies for read in expr.inputs):
            rewriter.emit_all(expr.op, operands(expr, first), dict(expr.attributes), names=(), results=expr.outputs)
        else:
            rewriter.keep(expr)
        for dim in own[1:]:
            name = fusion.value(fid).name
            copies[fid, dim] = rewriter.emit(expr.op, operands(expr, dim), name=name, **dict(expr.attributes))
    return rewriter.finish()


def _places(fusion: Fusion) -> frozenset[int]:
    """The vectors of ``fusion`` that follow from ``iota`` and numbers by pointwise ops."""
    found: set[int] = set()
    for expr in fusion.exprs:
        tensors = [fid for fid in expr.inputs if fusion.value(fid).is_tensor]
        follows = op_of(expr).kind is Kind.POINTWISE and tensors and found.issuperset(tensors)
        if expr.op == "iota" or (follows and not op_of(expr).is_boundary and len(expr.outputs) == 1):
            found.update(expr.outputs)
    return frozenset(found)


def _dims_along(fusion: Fusion, places: frozenset[int]) -> Mapping[int, tuple[int, ...]]:
    """For each of ``places`` the dims that readers lay it along, each once, the last reader's first."""
    found: dict[int, dict[int, None]] = {fid: {_LAST: None} for fid in fusion.output_fids if fid in places}
    for expr in reversed(fusion.exprs):
        (fid, *_) = expr.outputs
        along = tuple(found.get(fid, ())) if fid in places else (_dim_along(expr),)
        for read in expr.inputs:
            if read in places:
                found.setdefault(read, {}).update(dict.fromkeys(along))
    return {fid: tuple(own) for fid, own in found.items()}


def _dim_along(expr: Expr) -> int:
    """The dim of its result, counted from the last, that ``expr`` lays the last dim of its operand along."""
    if expr.op != "broadcast":
        return _LAST
    mask = expr.attribute("is_broadcast_dim")
    return next((dim for dim, is_new in enumerate(reversed(mask)) if not is_new), _LAST)
