"""What is one step away from a choice: kernels that a family can make as well."""

from __future__ import annotations

from collections.abc import Mapping

from fusebuild.errors import KnobError
from fusebuild.ir.fusion import Fusion
from fusebuild.kernels.common.family import Family
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.common.specialization import taken_variant
from fusebuild.target.table import Target


def neighbours(
    fusion: Fusion,
    family: Family,
    target: Target,
    sizes: Mapping[str, int],
    variant: VariantSpec,
    *,
    at: Mapping[str, int] | None = None,
) -> tuple[VariantSpec, ...]:
    """The variants of the segment ``fusion``, by ``family`` for ``sizes``, that one step of one knob makes of
    ``variant``, which aligned tensors of the sizes ``at`` take (by default the same); in the order of knobs, more
    before less.

    Left out are choices that the family makes no kernel of, those whose variant such tensors do not take, and those
    that make the same kernels as ``variant`` or as an earlier neighbour.
    """
    if variant.decision is None:
        return ()
    way, task = variant.decision.way, fusion.whole()
    found: list[VariantSpec] = []
    for step in variant.decision.choice.steps():
        try:
            variants = family.schedule(task, target, sizes, {way: step.knobs})
        except KnobError:
            continue
        own = taken_variant(variants, fusion, sizes if at is None else at)
        is_new = all(own.launches != other.launches for other in (variant, *found))
        if own.decision is not None and own.decision.way == way and is_new:
            found.append(own)
    return tuple(found)
