"""Many tensors that the same is done to, as an optimizer does: what is done to each is a **part** of a fusion.

Parts are strangers to each other: tensors of one element alone connect them, such as a norm over all or a coefficient
for all, if anything does. One kernel for several strangers would have each thread hold elements of all of them; as
tasks of their own they share a launch, too (:mod:`fusebuild.segmentation.members`). A few are left as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import TensorType
from fusebuild.ir.values import Expr
from fusebuild.ops.table import Kind, op_of

MANY = 5
"""Parts that are alike, at least, to be told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Strangers:
    """For the exprs of parts of which there are many alike, the kind of the part and its number."""

    part: Mapping[int, tuple[int, int]]

    def are_in(self, exprs: Iterable[int]) -> bool:
        """Whether ``exprs`` are of several parts of one kind."""
        seen: dict[int, int] = {}
        found = (self.part[index] for index in exprs if index in self.part)
        return any(seen.setdefault(kind, number) != number for kind, number in found)


def strangers_in(fusion: Fusion) -> Strangers:
    """Those of ``fusion``, whose exprs must be primitive."""
    large = [index for index, expr in enumerate(fusion.exprs) if not _is_small(fusion, expr)]
    alike: dict[object, list[list[int]]] = {}
    for part in _parts(fusion, large):
        steps = [fusion.exprs[index] for index in part]
        if _is_flat(fusion, steps):
            alike.setdefault(tuple(sorted(_said(fusion, expr) for expr in steps)), []).append(part)
    many = [parts for parts in alike.values() if len(parts) >= MANY]
    return Strangers(
        part={
            index: (kind, number)
            for kind, parts in enumerate(many)
            for number, part in enumerate(parts)
            for index in part
        }
    )


def small_parts(fusion: Fusion, exprs: Sequence[int]) -> list[tuple[int, ...]]:
    """``exprs``, ascending, in pieces: neighbours that compute nothing but one element after as many reductions are one
    piece, any other expr is one by itself. No piece waits for itself: from one element to many and back leads one more
    reduction."""
    depth, piece = dict[int, int](), dict[int, list[int]]()
    for index in exprs:
        expr = fusion.exprs[index]
        above = [each for fid in expr.inputs if (each := fusion.definition(fid)) is not None and each in depth]
        depth[index] = max((depth[each] for each in above), default=0) + (op_of(expr).kind is Kind.REDUCTION)
        piece[index] = [index]
        for other in above if _is_small(fusion, expr) else ():
            if depth[other] == depth[index] and _is_small(fusion, fusion.exprs[other]):
                _join(piece, other, index)
    return [tuple(sorted(members)) for members in {id(each): each for each in piece.values()}.values()]


def _join(piece: dict[int, list[int]], a: int, b: int) -> None:
    """Make the pieces of ``a`` and ``b`` one, the smaller a part of the larger."""
    few, many = sorted((piece[a], piece[b]), key=len)
    if few is many:
        return
    many += few
    for each in few:
        piece[each] = many


def _parts(fusion: Fusion, exprs: Sequence[int]) -> list[list[int]]:
    """``exprs`` in parts that no large tensor connects, each ascending."""
    at: dict[int, list[int]] = {}
    for index in exprs:
        for fid in _large(fusion, fusion.exprs[index]):
            at.setdefault(fid, []).append(index)
    parts, seen = list[list[int]](), set[int]()
    for first in exprs:
        if first in seen:
            continue
        reached, waiting = {first}, [first]
        while waiting:
            new = {each for fid in _large(fusion, fusion.exprs[waiting.pop()]) for each in at.pop(fid, ())} - reached
            reached |= new
            waiting += new
        seen |= reached
        parts.append(sorted(reached))
    return parts


def _said(fusion: Fusion, expr: Expr) -> str:
    """What two exprs have in common that do the same to tensors of any shapes, wherever they stand in the Fusion."""
    known = [(name, each) for name, each in expr.attributes if not isinstance(each, tuple)]
    operands = [(fusion.value(fid).dtype, fusion.value(fid).literal) for fid in expr.inputs]
    return repr((expr.op, known, operands, [fusion.value(fid).dtype for fid in expr.outputs]))


def _is_flat(fusion: Fusion, steps: Iterable[Expr]) -> bool:
    """Whether ``steps`` compute element by element, or reduce to one element, on dense tensors of one shape."""
    shapes = set[object]()
    for expr in steps:
        kind = op_of(expr).kind
        is_whole = (
            kind is Kind.REDUCTION and not expr.combine and not any(_is_large(fusion, fid) for fid in expr.outputs)
        )
        if kind is not Kind.POINTWISE and not is_whole:
            return False
        for fid in _large(fusion, expr):
            type_ = fusion.value(fid).type
            if not isinstance(type_, TensorType) or not type_.is_plain:
                return False
            shapes.add(type_.shape)
    return len(shapes) == 1


def _is_small(fusion: Fusion, expr: Expr) -> bool:
    """Whether it neither reads nor makes anything but tensors of one element and scalars."""
    return not _large(fusion, expr)


def _large(fusion: Fusion, expr: Expr) -> list[int]:
    return [fid for fid in (*expr.inputs, *expr.outputs) if _is_large(fusion, fid)]


def _is_large(fusion: Fusion, fid: int) -> bool:
    value = fusion.value(fid)
    return value.is_tensor and value.tensor.numel != 1
