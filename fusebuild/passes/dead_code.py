"""Drop exprs that no output needs. Inputs stay: they are the signature."""

from __future__ import annotations

from fusebuild.ir.composites import carry_composites
from fusebuild.ir.fusion import Fusion


def dead_code(fusion: Fusion) -> Fusion:
    """``fusion`` with only the exprs that some output depends on."""
    needed = set(fusion.output_fids)
    kept = []
    for expr in reversed(fusion.exprs):
        if needed.intersection(expr.outputs):
            needed.update(expr.inputs)
            kept.append(expr)
    return carry_composites(fusion, fusion.with_exprs(reversed(kept)))
