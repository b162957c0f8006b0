"""Choices that took the place of others whose kernels had spilled registers: what a plan says of them, and the variants
that a family makes with them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TypeAlias

from fusebuild.artifact.plan import EasedChoice, Plan
from fusebuild.kernels.common.choice import Tuned
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.planning.tuned import ChoiceKey, ChoicesByKey, choices_at, segment_digest
from fusebuild.segmentation import Segment, SegmentedFusion
from fusebuild.target.table import Target

Eased: TypeAlias = Mapping[str, Sequence[EasedChoice]]
"""What plans say, by target."""

NOT_EASED: Eased = MappingProxyType({})
"""No choices at all."""


def eased_by_key(eased: Sequence[EasedChoice], segmented: SegmentedFusion) -> ChoicesByKey:
    """``eased`` by what it holds for; a way that is left out has no knobs. What is about a segment that ``segmented``
    does not have holds for nothing."""
    by_key: dict[ChoiceKey, dict[str, Mapping[str, int]]] = {}
    for each in eased:
        if 0 <= each.segment < len(segmented.segments):
            digest = segment_digest(segmented.segments[each.segment].scheduled)
            by_key.setdefault((digest, tuple(sorted(each.bucket.items()))), {})[each.way] = each.knobs
    return by_key


def eased_in(plan: Plan) -> dict[str, tuple[EasedChoice, ...]]:
    """The eased choices of ``plan``, by target."""
    return {target.target: target.eased for target in plan.targets if isinstance(target.eased, tuple)}


def scheduled(
    segment: Segment, target: Target, sizes: Mapping[str, int], tuned: Tuned, eased: ChoicesByKey
) -> tuple[VariantSpec, ...]:
    """What the family of ``segment`` makes of it at ``sizes``: choices that are ``eased`` are taken before those that
    are ``tuned``. Raises :class:`KnobError` for one that no kernel can be made with."""
    own = choices_at(eased, segment.scheduled, sizes)
    given = {**tuned, **{way: knobs for way, knobs in own.items() if knobs}}
    variants = segment.variants(target, sizes, given)
    return tuple(_marked(variant, own) for variant in variants if not _is_left_out(variant, own))


def _is_left_out(variant: VariantSpec, eased: Tuned) -> bool:
    """Whether others run instead of ``variant``, which they can as it has a guard."""
    return bool(variant.guard) and variant.decision is not None and eased.get(variant.decision.way) == {}


def _marked(variant: VariantSpec, eased: Tuned) -> VariantSpec:
    if variant.decision is None or not eased.get(variant.decision.way):
        return variant
    return replace(variant, decision=replace(variant.decision, tuned=False, eased=True))
