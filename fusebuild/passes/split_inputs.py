"""Which inputs are to be read in finer dims from the start, since a later split of dims cannot move up to them.

``reshape(normalize(x), [T, G, 128])`` cannot be ``normalize(reshape(x, …))``: the reduction runs over the whole row.
But the reduction can run over ``G`` and ``128`` as well as over their product, so where ``x`` is read as
``[T, G, 128]`` from the start, all of it walks the same loops and one kernel computes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.indexing import permutation_of, reshape_groups
from fusebuild.ops.table import Kind, op_of
from fusebuild.passes.strided import reads_as, strides_say

Parts = tuple[tuple[Formula, ...], ...]
"""For each dim of a tensor the finer dims that make it up."""


def split_inputs(fusion: Fusion) -> dict[int, Parts]:
    """For each input that is to be read in finer dims, by its fid, those dims."""
    wanted: dict[tuple[int, int], set[tuple[Formula, ...]]] = {}
    reduced = _follow_from_reductions(fusion)
    for expr in fusion.exprs:
        if expr.op != "reshape" or (expr.inputs[0] not in reduced and _moves_up(fusion, expr)):
            continue
        for dim, factors in _splits(fusion, expr):
            for place in _places_above(fusion, expr.inputs[0], dim) or ():
                wanted.setdefault(place, set()).add(factors)
    return {
        fid: parts
        for fid in fusion.inputs
        if (parts := _parts(fusion.value(fid), wanted)) is not None
        and strides_say(fusion.value(fid).tensor, [extent for part in parts for extent in part], fusion.algebra)
    }


def _follow_from_reductions(fusion: Fusion) -> set[int]:
    """The values that some reduction is needed for: what they are computed from walks the loops of that, too."""
    found: set[int] = set()
    for expr in fusion.exprs:
        if op_of(expr).kind is Kind.REDUCTION or not found.isdisjoint(expr.inputs):
            found.update(expr.outputs)
    return found


def _moves_up(fusion: Fusion, reshape: Expr) -> bool:
    """Whether ``reshape`` can move up to what is in memory."""
    source, result = fusion.value(reshape.inputs[0]), fusion.value(reshape.outputs[0])
    return reads_as(_Recorded(fusion), source, result.tensor.shape, fusion.algebra)


@dataclass(frozen=True, slots=True)
class _Recorded:
    """What defines the values of ``fusion``."""

    fusion: Fusion

    def definition(self, value: Value) -> Expr | None:
        return self.fusion.expr_of(value.fid)

    def operands(self, expr: Expr) -> list[Value]:
        return [self.fusion.value(fid) for fid in expr.inputs]


def _splits(fusion: Fusion, reshape: Expr) -> Iterator[tuple[int, tuple[Formula, ...]]]:
    """The dims of what ``reshape`` reads that it splits, and into which."""
    old, new = (fusion.value(fid).tensor.shape for fid in (reshape.inputs[0], reshape.outputs[0]))
    for old_run, new_run in reshape_groups(old, new, fusion.algebra) or ():
        if len(old_run) == 1 and len(new_run) > 1:
            yield old_run.start, new[new_run.start : new_run.stop]


def _places_above(fusion: Fusion, fid: int, dim: int) -> set[tuple[int, int]] | None:
    """The dims of inputs, as pairs of fid and dim, that ``dim`` of the value ``fid`` is; None where it is also one of
    something that cannot be had in finer dims."""
    waiting, seen = [(fid, dim)], {(fid, dim)}
    found: set[tuple[int, int]] = set()
    while waiting:
        place = waiting.pop()
        expr = fusion.expr_of(place[0])
        if expr is None:
            found.add(place)
            continue
        above = _operand_places(fusion, expr, place[1])
        if above is None:
            return None
        waiting += [each for each in above if each not in seen]
        seen.update(above)
    return found


def _operand_places(fusion: Fusion, expr: Expr, dim: int) -> list[tuple[int, int]] | None:
    """The dims of the operands of ``expr`` that ``dim`` of its result is; None for an op that needs its dims whole."""
    op, tensors = op_of(expr), [fid for fid in expr.inputs if fusion.value(fid).is_tensor]
    extent = fusion.value(expr.outputs[0]).tensor.shape[dim]
    if not op.of_elements:
        return None
    if op.is_elementwise:
        shapes = {fid: fusion.value(fid).tensor.shape for fid in tensors}
        return [(fid, dim) for fid, shape in shapes.items() if shape[dim : dim + 1] == (extent,)]
    if op.kind is Kind.REDUCTION or expr.op == "squeeze":
        rank = fusion.value(tensors[0]).tensor.rank
        kept = [own for own in range(rank) if own not in expr.dims]
        return [(fid, kept[dim]) for fid in tensors]
    match expr.op:
        case "broadcast":
            mask = expr.attribute("is_broadcast_dim")
            return [] if mask[dim] else [(tensors[0], dim - sum(mask[:dim]))]
        case "permute":
            rank = fusion.value(tensors[0]).tensor.rank
            return [(tensors[0], permutation_of(dict(expr.attributes), rank)[dim])]
        case "full":
            return []
    return None


def _parts(value: Value, wanted: dict[tuple[int, int], set[tuple[Formula, ...]]]) -> Parts | None:
    """The finer dims of an input; None where nobody wants any, and where they are wanted in several ways."""
    if not value.is_tensor:
        return None
    ways = [wanted.get((value.fid, dim), {(extent,)}) for dim, extent in enumerate(value.tensor.shape)]
    if all(len(each) == 1 for each in ways) and any((value.fid, dim) in wanted for dim in range(value.tensor.rank)):
        return tuple(next(iter(each)) for each in ways)
    return None
