"""The least sizes that the ops of a Fusion need: there is something to read or write along dims that an index tensor
goes into, and ``topk`` finds as many elements as it gives."""

from __future__ import annotations

from dataclasses import replace

from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr, ExtentFact
from fusebuild.ops.table import Kind, op_of


def kept_facts(fusion: Fusion) -> tuple[ExtentFact, ...]:
    """What holds of symbols at every call of ``fusion``: what its recipe promises, and what its ops need."""
    least: dict[str, int] = {}
    for expr in fusion.exprs:
        size, needed = _needed(fusion, expr)
        if isinstance(size, str):
            least[size] = max(needed, least.get(size, 0))
    promised = {symbol: ExtentFact(symbol=symbol) for symbol in least} | {fact.symbol: fact for fact in fusion.facts}
    return tuple(replace(fact, min=max(fact.min, least.get(fact.symbol, 0))) for fact in promised.values())


def _needed(fusion: Fusion, expr: Expr) -> tuple[Formula, int]:
    """The size of the dim of which ``expr`` takes or writes elements by number, and how many it needs; 0 and 0 for
    others."""
    op, named = op_of(expr), dict(expr.attributes)
    picks = op.kind in (Kind.INDEX, Kind.SCATTER) and op.picks
    needed = 1 if picks else named.get("k", 0) if op.kind is Kind.ORDER else 0
    if not needed:
        return 0, 0
    dim = expr.attribute("dim")
    assert isinstance(dim, int)
    assert isinstance(needed, int)
    return fusion.value(expr.inputs[0]).tensor.shape[dim], needed
