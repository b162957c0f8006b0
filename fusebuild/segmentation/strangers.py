"""Exprs that tensors of one element alone connect, if anything does: a norm over all tensors, or a coefficient for all.

Nothing that is large is shared between them, so that it makes no difference to memory whether one kernel computes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr
from fusebuild.ops.table import Kind, op_of


def has_strangers(fusion: Fusion, exprs: Iterable[int]) -> bool:
    """Whether two of the parts that ``exprs`` fall into have the same ops, elementwise ones and reductions to one
    element alone."""
    steps = [fusion.exprs[index] for index in sorted(exprs)]
    large = [expr for expr in steps if not _is_small(fusion, expr)]
    if len(large) < 2 or not all(_is_flat(fusion, expr) for expr in large):
        return False
    ops = [tuple(expr.op for expr in part) for part in _parts(fusion, large)]
    return len({*ops}) < len(ops)


def small_parts(fusion: Fusion, exprs: Sequence[int]) -> list[tuple[int, ...]]:
    """``exprs``, ascending, in parts: neighbours that compute nothing but one element after as many reductions are one
    part, any other expr is one by itself. No part waits for itself: from one element to many and back leads one more
    reduction."""
    depth, part = dict[int, int](), dict[int, list[int]]()
    for index in exprs:
        expr = fusion.exprs[index]
        above = [each for fid in expr.inputs if (each := fusion.definition(fid)) in depth]
        depth[index] = max((depth[each] for each in above if each is not None), default=0)
        depth[index] += op_of(expr).kind is Kind.REDUCTION
        part[index] = [index]
        if not _is_small(fusion, expr):
            continue
        for other in above:
            if other is None or depth[other] != depth[index] or not _is_small(fusion, fusion.exprs[other]):
                continue
            if part[other] is not part[index]:
                part[other] += part[index]
                for each in part[index]:
                    part[each] = part[other]
    return [tuple(sorted(members)) for members in {id(each): each for each in part.values()}.values()]


def _parts(fusion: Fusion, steps: Sequence[Expr]) -> list[list[Expr]]:
    """``steps`` in parts that no large tensor connects."""
    at: dict[int, list[int]] = {}
    own = [[fid for fid in (*expr.inputs, *expr.outputs) if _is_large(fusion, fid)] for expr in steps]
    for place, fids in enumerate(own):
        for fid in fids:
            at.setdefault(fid, []).append(place)
    parts, left = list[list[Expr]](), dict.fromkeys(range(len(steps)))
    while left:
        first = next(iter(left))
        reached, waiting = {first}, [first]
        while waiting:
            new = {place for fid in own[waiting.pop()] for place in at.pop(fid, ())} - reached
            reached |= new
            waiting += new
        parts.append([steps[place] for place in sorted(reached)])
        for place in reached:
            del left[place]
    return parts


def _is_flat(fusion: Fusion, expr: Expr) -> bool:
    """Whether it computes element by element, or reduces to one element."""
    kind = op_of(expr).kind
    return kind is Kind.POINTWISE or (kind is Kind.REDUCTION and not _is_large(fusion, expr.outputs[0]))


def _is_small(fusion: Fusion, expr: Expr) -> bool:
    """Whether it neither reads nor makes anything but tensors of one element and scalars."""
    return not any(_is_large(fusion, fid) for fid in (*expr.inputs, *expr.outputs))


def _is_large(fusion: Fusion, fid: int) -> bool:
    value = fusion.value(fid)
    return value.is_tensor and value.tensor.numel != 1
