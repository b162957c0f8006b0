"""Give each place of a coordinate a value of its own, so that no kernel has to walk one loop with two dims.

``iota(S)`` as a row and as a column is one value in two places: a causal mask of ``[S, S]`` compares it with itself. As
one value it would have to be in memory for one of them. What follows from coordinates and scalars alone costs nothing
to compute again, so every view that places it elsewhere gets a copy of what it is computed from.
"""

from __future__ import annotations

from collections.abc import Hashable

from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.table import Kind, op_of
from fusebuild.passes.rewriting import Rewriter


def own_coordinates(fusion: Fusion) -> Fusion:
    """``fusion`` where no value that follows from coordinates alone is read in two places."""
    counted = _counted(fusion)
    if not counted:
        return fusion
    rewriter = Rewriter(fusion)
    copies: dict[tuple[int, Hashable], Value] = {}
    first = {fid: _first_place(fusion, fid) for fid in counted}
    for expr in rewriter.exprs():
        source = expr.inputs[0] if expr.inputs else -1
        place = _place(fusion, source, expr) if source in counted else None
        if place is None or place == first[source]:
            rewriter.keep(expr)
            continue
        key = source, place
        if key not in copies:
            copies[key] = _copy(rewriter, source, counted)
        rewriter.emit(expr.op, [copies[key]], result=expr.outputs[0], **dict(expr.attributes))
    return rewriter.finish()


def _counted(fusion: Fusion) -> set[int]:
    """The tensors that follow from coordinates and scalars alone, element by element."""
    counted: set[int] = set()
    for expr in fusion.exprs:
        tensors = [fid for fid in expr.inputs if fusion.value(fid).is_tensor]
        is_made = expr.op == "iota" or (
            op_of(expr).kind is Kind.POINTWISE and op_of(expr).of_elements and bool(tensors) and counted >= {*tensors}
        )
        if is_made and fusion.value(expr.outputs[0]).is_tensor:
            counted.update(expr.outputs)
    return counted


def _place(fusion: Fusion, fid: int, reader: Expr) -> Hashable:
    """Where ``reader`` has the dims of ``fid``, counted from the last: equal for readers that have them alike."""
    if reader.op == "broadcast":
        mask = reader.attribute("is_broadcast_dim")
        return tuple(len(mask) - 1 - at for at, is_new in enumerate(mask) if not is_new)
    if reader.op == "permute":
        return reader.attributes
    return _own_place(fusion, fid)


def _own_place(fusion: Fusion, fid: int) -> Hashable:
    """The place of dims that stay where they are."""
    return tuple(reversed(range(fusion.value(fid).tensor.rank)))


def _first_place(fusion: Fusion, fid: int) -> Hashable:
    """The place in which ``fid`` itself stays: where it is read or given as it is, or where its first reader has it."""
    own, places = _own_place(fusion, fid), [_place(fusion, fid, fusion.exprs[index]) for index in fusion.uses(fid)]
    return own if own in places or fusion.is_output(fid) else next(iter(places), own)


def _copy(rewriter: Rewriter, fid: int, counted: set[int]) -> Value:
    """Another value equal to ``fid``, with one equal to each that it is computed from. Without recursion: fusions are
    deep."""
    made: dict[int, Value] = {}
    for index in rewriter.fusion.exprs_above([fid]):
        expr = rewriter.fusion.exprs[index]
        if expr.outputs[0] not in counted:
            continue
        operands = [made.get(operand) or rewriter.value(operand) for operand in expr.inputs]
        name = rewriter.value(expr.outputs[0]).name
        made[expr.outputs[0]] = rewriter.emit(
            expr.op, operands, name=name, location=expr.location, **dict(expr.attributes)
        )
    return made[fid]
