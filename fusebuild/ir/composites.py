"""Composites, the patterns that an author named: how they stay attached to a Fusion while passes rewrite its exprs.

A composite holds fids alone (:class:`~fusebuild.ir.values.Composite`), and results keep their fids. A pass may let
readers of a value read an equal value instead, one of the same call or of another; it may drop a value; and it may let
an expr read what its operand was computed from. Here the inputs and outputs of each composite follow. The exprs between
them are then those of the composite, some of which it may share with other calls.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Composite


def with_composites(fusion: Fusion, composites: Sequence[Composite]) -> Fusion:
    """``fusion`` with those of ``composites`` that compute something in it.

    A ``parent`` is an index of ``composites``. Where it computes nothing, or not all that its child does, the nearest
    parent of its own that does takes its place.
    """
    kept: list[Composite] = []
    covered: list[frozenset[int]] = []
    place: dict[int, int] = {}
    for index, composite in enumerate(composites):
        task = fusion.composite_task(composite)
        if task is None:
            continue
        exprs = frozenset(task.exprs)
        parent = composite.parent
        while parent is not None and not (parent in place and exprs <= covered[place[parent]]):
            parent = composites[parent].parent
        place[index] = len(kept)
        kept.append(replace(composite, parent=None if parent is None else place[parent]))
        covered.append(exprs)
    return replace(fusion, composites=tuple(kept))


def carry_composites(old: Fusion, new: Fusion, replaced: Mapping[int, int] | None = None) -> Fusion:
    """``new``, which a pass made of ``old``, with what is left of the composites of ``old``.

    ``replaced`` leads from each value that the pass replaced to the one that its readers read instead. A composite is
    gone when its results are, or when another call computes them.
    """
    if not old.composites:
        return new
    return with_composites(new, [_carried(old, new, replaced or {}, composite) for composite in old.composites])


def _carried(old: Fusion, new: Fusion, replaced: Mapping[int, int], composite: Composite) -> Composite:
    task = old.composite_task(composite)
    assert task is not None, "a verified Fusion has no composite without exprs"
    own = {fid for expr in task.steps for fid in expr.outputs}
    equal = {replaced.get(fid, fid) for fid in own}
    inputs = dict.fromkeys(fid for given in composite.inputs if (fid := replaced.get(given, given)) in new.values)
    now = [fid if new.definition(fid) is not None else replaced.get(fid, fid) for fid in composite.outputs]
    outputs = tuple(
        dict.fromkeys(fid for fid in now if (fid in own or fid not in old.values) and new.definition(fid) is not None)
    )
    reached, _ = _between(new, inputs, outputs, lambda fid: fid in own or fid in equal or fid not in old.values)
    made = {fid for fid in reached if fid not in old.values}
    inside = own | _computed_from(new, inputs, own, reached - own, made)
    _, further_up = _between(new, inputs, outputs, inside.__contains__)
    return replace(composite, inputs=(*inputs, *sorted(further_up)), outputs=outputs)


def _between(
    fusion: Fusion, inputs: Collection[int], outputs: Iterable[int], is_inside: Callable[[int], bool]
) -> tuple[set[int], set[int]]:
    """The results that ``outputs`` need and that are inside, and the values beyond ``inputs`` that those read."""
    inside, outside = set[int](), set[int]()
    waiting = [*outputs]
    while waiting:
        fid = waiting.pop()
        if fid in inside or fid in inputs or fusion.value(fid).is_constant:
            continue
        expr = fusion.expr_of(fid)
        if expr is None or not is_inside(fid):
            outside.add(fid)
        else:
            inside.add(fid)
            waiting += expr.inputs
    return inside, outside


def _computed_from(
    fusion: Fusion, inputs: Collection[int], own: Collection[int], doubtful: Iterable[int], made: Collection[int]
) -> set[int]:
    """The values among ``doubtful`` that the call computes itself. Doubtful are values of other calls that it now reads
    in place of its ``own``, and values that the pass ``made``. A value counts as the call's when all its operands are
    ``inputs`` or values of the call, or when the pass made it and no input is computed from it."""
    above = _Above(fusion, inputs)
    found: set[int] = set()
    for index, fid in sorted((index, fid) for fid in doubtful if (index := fusion.definition(fid)) is not None):
        operands = [operand for operand in fusion.exprs[index].inputs if not fusion.value(operand).is_constant]
        is_of_inputs = all(operand in inputs or operand in own or operand in found for operand in operands)
        if is_of_inputs or (fid in made and fid not in above):
            found.add(fid)
    return found


class _Above:
    """The values that ``fids`` are computed from, themselves included."""

    def __init__(self, fusion: Fusion, fids: Iterable[int]) -> None:
        self._fusion, self._fids = fusion, tuple(fids)
        self._last = max((index for fid in self._fids if (index := fusion.definition(fid)) is not None), default=-1)
        self._found: set[int] = set()

    def __contains__(self, fid: int) -> bool:
        index = self._fusion.definition(fid)
        if index is not None and index > self._last:
            return False  # defined after all of them: no need to look
        if not self._found:
            above = [self._fusion.exprs[index] for index in self._fusion.exprs_above(self._fids)]
            self._found.update(self._fids, *(expr.inputs for expr in above))
        return fid in self._found
