"""The canonical form of a recorded Fusion: what equal definitions have in common, and its digest.

Names, locations, the gaps between fids, the names of symbols and what no output needs do not matter. Ops, attributes,
constants, dtypes, shapes, layouts, outputs, aliases and the order of all of them do. Values keep their order, so that
whatever goes by fids (the segments' own numbering, ties between cuts) comes out the same for every spelling.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace

from fusebuild.ir.formula import substitute, symbols
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.text import print_fusion
from fusebuild.ir.types import VectorType
from fusebuild.ir.verify import verify
from fusebuild.passes.dead_code import dead_code

CANONICAL_NAME = "definition"
"""What the canonical form of every definition is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Canonical:
    """``fusion`` is the canonical form, its values numbered from 0 and its inputs as a recipe orders them: tensors
    first. ``fids`` leads from its fids to those of the Fusion it was made from."""

    fusion: Fusion
    digest: str
    fids: Mapping[int, int]

    def translate(self, origin: Fusion, fid: int) -> int:
        """``fid``, of the canonical form after passes, as a fid of ``origin``; what passes made is numbered after all
        that was recorded, there as here."""
        return self.fids[fid] if fid in self.fids else origin.next_fid + fid - self.fusion.next_fid


def canonical(fusion: Fusion) -> Canonical:
    """The canonical form of ``fusion``, as recorded or as a segment; locations are kept, for messages."""
    assert not fusion.facts, "definitions promise nothing about sizes"
    assert not fusion.cases, "definitions name no sizes to be tried"
    live = dead_code(fusion)
    fids = dict(enumerate(sorted(fid for fid, value in live.values.items() if not isinstance(value.type, VectorType))))
    numbers = {own: number for number, own in fids.items()}
    names = _symbol_names(live)
    values = {
        number: replace(value.substituted(names), fid=number, name=f"{'t' if value.is_tensor else 's'}{number}")
        for number, own in fids.items()
        for value in [live.value(own)]
    }
    inputs = sorted(live.inputs, key=lambda fid: not live.value(fid).is_tensor)
    made = Fusion(
        name=CANONICAL_NAME,
        values=values,
        exprs=tuple(expr.renumbered(numbers).substituted(names) for expr in live.exprs),
        inputs=tuple(numbers[fid] for fid in inputs),
        outputs=tuple(
            replace(output.renumbered(numbers), name=values[numbers[output.fid]].name) for output in live.outputs
        ),
        relations=tuple(substitute(relation, names) for relation in live.relations),
        recorded=len(values),
        given=tuple(names[symbol] for symbol in live.given if symbol in names),
        lambdas=dict(live.lambdas),
    )
    known = f"{print_fusion(made)}{made.given}{made.relations or ''}"
    return Canonical(fusion=verify(made), digest=hashlib.sha256(known.encode()).hexdigest(), fids=fids)


def _symbol_names(fusion: Fusion) -> dict[str, str]:
    """``i0``, ``i1``, … for every symbol: in order of the inputs' dims, then of the values and attributes that have
    it."""
    formulas: list[object] = [binding.extent for binding in fusion.extents]
    formulas += [extent for value in fusion.values.values() if value.is_tensor for extent in value.tensor.shape]
    for expr in fusion.exprs:
        for _, attribute in expr.attributes:
            formulas += attribute if isinstance(attribute, tuple) else [attribute]
    known = {*fusion.given} | {symbol for binding in fusion.extents for symbol in symbols(binding.extent)}
    found = [symbol for formula in formulas if isinstance(formula, str | tuple) for symbol in symbols(formula)]
    return {symbol: f"i{number}" for number, symbol in enumerate(s for s in dict.fromkeys(found) if s in known)}
