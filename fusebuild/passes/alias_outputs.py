"""Make every output a value of its own, and let nothing read an input after the output that overwrites it.

An output that aliases input ``x`` is defined after every other reader of ``x``. Where that cannot be, because such a
reader needs the output itself (or two outputs overwrite each other's inputs), or the expr itself reads ``x`` elsewhere
than where it writes, the value moves to a new fid that readers
use, and a ``set`` at the end stores it over ``x``. The segmenter keeps this order with edges of its own.
"""

from __future__ import annotations

import heapq
from dataclasses import replace

from fusebuild.ir.composites import carry_composites
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr, Output, Value
from fusebuild.ops.table import OPS, Kind
from fusebuild.passes.scattered_apart import scattered_apart


def alias_outputs(fusion: Fusion) -> Fusion:
    """``fusion`` with distinct, freshly defined outputs and with its exprs ordered so that aliasing is safe.

    An output keeps its fid, unless it is an input itself or repeats an earlier output: then it is a ``set`` with a new
    fid.
    """
    return _order(_with_distinct_outputs(scattered_apart(fusion)))


def _copy(source: int, result: int, output: Output) -> Expr:
    return Expr(op="set", inputs=(source,), outputs=(result,), location=output.location)


def _with_distinct_outputs(fusion: Fusion) -> Fusion:
    taken = set(fusion.inputs)
    outputs: list[Output] = []
    copies: list[Expr] = []
    new_values: list[Value] = []
    for output in fusion.outputs:
        if output.fid in taken:
            value = _fresh(fusion, output, fusion.next_fid + len(new_values), output.name)
            copies.append(_copy(output.fid, value.fid, output))
            new_values.append(value)
            output = replace(output, fid=value.fid)
        taken.add(output.fid)
        outputs.append(output)
    if not copies:
        return fusion
    values = dict(fusion.values) | {value.fid: value for value in new_values}
    return replace(fusion, values=values, exprs=(*fusion.exprs, *copies), outputs=tuple(outputs))


def _fresh(fusion: Fusion, output: Output, fid: int, name: str) -> Value:
    """A computed value like that of ``output``: row-major, broadcast where it was broadcast."""
    (type_,) = OPS["set"].infer([fusion.value(output.fid).type], {})
    return Value(fid=fid, name=name, type=type_, location=output.location)


class _Orderer:
    """Kahn's algorithm over the exprs, original order first, with an edge from every reader of an aliased input to the
    definition of the output that overwrites it. Where a cycle blocks it, one output of the cycle gets a ``set``."""

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.exprs = list(fusion.exprs)
        self.values = dict(fusion.values)
        self.next_fid = fusion.next_fid
        self.before: list[set[int]] = [
            {index for fid in expr.inputs if (index := fusion.definition(fid)) is not None} for expr in self.exprs
        ]
        self.after: list[set[int]] = [set() for _ in self.exprs]
        for index, earlier in enumerate(self.before):
            for other in earlier:
                self.after[other].add(index)
        self.finished: set[int] = set()
        self.overwriting: dict[int, Output] = {}
        """Definitions of aliased outputs that write straight over their input."""
        self.waits_for: dict[int, set[int]] = {}
        for output in fusion.outputs:
            definition = fusion.definition(output.fid)
            if output.alias is not None and definition is not None:
                if definition in self.overwriting:  # one expr writes over one input at most
                    self._store_later(definition)
                self.overwriting[definition] = output
                readers = set(fusion.uses(output.alias)) - {definition} - self.before[definition]
                self._add_edges(readers, definition)
                self.waits_for[definition] = readers
        for definition, output in list(self.overwriting.items()):
            if _reads_elsewhere(self.exprs[definition], output.alias):
                self._store_later(definition)

    def _add_edges(self, readers: set[int], definition: int) -> None:
        self.before[definition] |= readers
        for reader in readers:
            self.after[reader].add(definition)

    def run(self) -> list[int]:
        """Indices into :attr:`exprs` in their new order."""
        order: list[int] = []
        pending = [len(earlier) for earlier in self.before]
        ready = [index for index, count in enumerate(pending) if not count]
        first_unfinished = 0
        while len(order) < len(self.exprs):
            while ready:
                index = heapq.heappop(ready)
                order.append(index)
                self.finished.add(index)
                for later in self.after[index]:
                    pending[later] -= 1
                    if not pending[later]:
                        heapq.heappush(ready, later)
            while first_unfinished in self.finished:
                first_unfinished += 1
            if first_unfinished < len(self.exprs):
                blocked = self._blocked_output(first_unfinished)
                released = self._store_later(blocked)
                pending[blocked] -= len(released)
                pending.append(len(self.before[-1] - self.finished))
                if not pending[blocked]:
                    heapq.heappush(ready, blocked)
        return order

    def _blocked_output(self, start: int) -> int:
        """The first expr of a cycle that waits for readers of what it overwrites, on a walk back from ``start``."""
        path: dict[int, int] = {}
        current = start
        while current not in path:
            path[current] = len(path)
            current = min(self.before[current] - self.finished)
        cycle = list(path)[path[current] :]
        members = set(cycle)
        return min(index for index in cycle if self.waits_for.get(index, set()) & members)

    def _store_later(self, definition: int) -> set[int]:
        """Give the output defined at ``definition`` a ``set`` at the end.

        Returns the unfinished readers that ``definition`` no longer waits for.
        """
        output, readers = self.overwriting.pop(definition), self.waits_for.pop(definition)
        old = self.values[output.fid]
        computed = replace(old, fid=self.next_fid, name=f"{old.name}_computed")
        self.next_fid += 1
        self.values[computed.fid] = computed
        renamed = {output.fid: computed.fid}
        self.exprs[definition] = _with_fids(self.exprs[definition], renamed, {})
        for reader in self.after[definition]:
            self.exprs[reader] = _with_fids(self.exprs[reader], {}, renamed)
        self.before[definition] -= readers
        for reader in readers:
            self.after[reader].discard(definition)
        store = len(self.exprs)
        self.exprs.append(_copy(computed.fid, output.fid, output))
        self.before.append(set())
        self.after.append(set())
        self._add_edges(readers | {definition}, store)
        return readers - self.finished


def _reads_elsewhere(expr: Expr, fid: int | None) -> bool:
    """Whether ``expr`` reads the tensor ``fid`` at other coordinates than those of its result."""
    if OPS[expr.op].kind is Kind.SCATTER:
        return fid in expr.inputs[1:]
    return expr.inputs[:1] == (fid,) and (OPS[expr.op].kind is Kind.INDEX or expr.op == "permute")


def _with_fids(expr: Expr, outputs: dict[int, int], inputs: dict[int, int]) -> Expr:
    return replace(
        expr,
        inputs=tuple(inputs.get(fid, fid) for fid in expr.inputs),
        outputs=tuple(outputs.get(fid, fid) for fid in expr.outputs),
    )


def _order(fusion: Fusion) -> Fusion:
    if all(output.alias is None for output in fusion.outputs):
        return fusion
    orderer = _Orderer(fusion)
    order = orderer.run()
    ordered = fusion.with_exprs([orderer.exprs[index] for index in order], orderer.values.values())
    return carry_composites(fusion, ordered)
