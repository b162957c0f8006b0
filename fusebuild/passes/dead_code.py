"""Drop exprs that no output needs. Inputs stay: they are the signature."""

from __future__ import annotations

from fusebuild.ir.composites import carry_composites
from fusebuild.ir.fusion import Fusion


def dead_code(fusion: Fusion) -> Fusion:
    """``fusion`` with only the exprs that some output depends on."""
    needed = [fusion.exprs[index] for index in fusion.exprs_above(fusion.output_fids)]
    return carry_composites(fusion, fusion.with_exprs(needed))
