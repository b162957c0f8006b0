"""One order of a Fusion's exprs that does not depend on how its author ordered independent statements.

The search breaks ties by position, so it works on this order: the same computation then has the same cut, whichever of
two independent lines was written first. The order is the post-order of a walk from the outputs through the operands;
it keeps producers next to their consumers, which keeps the search local too.
"""

from __future__ import annotations

from dataclasses import replace

from fusebuild.ir.fusion import Fusion


def canonical_order(fusion: Fusion) -> tuple[int, ...]:
    """The indices of the exprs that outputs depend on, each after those it reads from."""
    order: list[int] = []
    done: set[int] = set()
    waiting = [(index, False) for fid in reversed(fusion.output_fids) if (index := fusion.definition(fid)) is not None]
    while waiting:
        index, is_ready = waiting.pop()
        if is_ready:
            order.append(index)
        elif index not in done:
            done.add(index)
            waiting.append((index, True))
            sources = (fusion.definition(fid) for fid in reversed(fusion.exprs[index].inputs))
            waiting += [(source, False) for source in sources if source is not None and source not in done]
    return tuple(order)


def reordered(fusion: Fusion, order: tuple[int, ...]) -> Fusion:
    """``fusion`` with the exprs in ``order`` and fids numbered as they come up, inputs first."""
    number = {fid: position for position, fid in enumerate(fusion.inputs)}
    exprs = [fusion.exprs[index] for index in order]
    for expr in exprs:
        for fid in (*expr.inputs, *expr.outputs):
            number.setdefault(fid, len(number))
    for fid in fusion.output_fids:
        number.setdefault(fid, len(number))
    return replace(
        fusion,
        values={new: replace(fusion.value(old), fid=new) for old, new in number.items()},
        exprs=tuple(expr.renumbered(number) for expr in exprs),
        inputs=tuple(number[fid] for fid in fusion.inputs),
        outputs=tuple(output.renumbered(number) for output in fusion.outputs),
        recorded=len(number),
    )
