"""Choices that took the place of others whose kernels had spilled registers: what a plan says of them, as families of
kernels see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TypeAlias

from fusebuild.artifact.plan import EasedChoice, Plan
from fusebuild.ir.fusion import Fusion, Task
from fusebuild.kernels.common.choice import NOT_TUNED, Tuned
from fusebuild.kernels.common.spec import Rejection, Scheduler, VariantSpec
from fusebuild.planning.tuned import bucket_of, segment_digest
from fusebuild.segmentation import SegmentedFusion
from fusebuild.target.table import Target

ChoiceKey: TypeAlias = "tuple[str, tuple[tuple[str, int], ...]]"
"""The digest of a segment, and a bucket of sizes."""

ChoicesByKey: TypeAlias = Mapping[ChoiceKey, Tuned]
"""Knobs by way; a way without any is left out."""

Eased: TypeAlias = Mapping[str, Sequence[EasedChoice]]
"""What plans say, by target."""

NOT_EASED: Eased = MappingProxyType({})
"""No choices at all."""


def choice_key(fusion: Fusion, sizes: Mapping[str, int]) -> ChoiceKey:
    """The key of the segment ``fusion`` at ``sizes``."""
    return segment_digest(fusion), tuple(bucket_of(fusion, sizes).items())


def eased_by_key(eased: Sequence[EasedChoice], segmented: SegmentedFusion) -> ChoicesByKey:
    """``eased`` by what it holds for. What is about a segment that ``segmented`` does not have holds for nothing."""
    by_key: dict[ChoiceKey, dict[str, Mapping[str, int]]] = {}
    for each in eased:
        if 0 <= each.segment < len(segmented.segments):
            digest = segment_digest(segmented.segments[each.segment].fusion)
            by_key.setdefault((digest, tuple(sorted(each.bucket.items()))), {})[each.way] = each.knobs
    return by_key


def eased_in(plan: Plan) -> dict[str, tuple[EasedChoice, ...]]:
    """The eased choices of ``plan``, by target."""
    return {target.target: target.eased for target in plan.targets if isinstance(target.eased, tuple)}


@dataclass(frozen=True, slots=True, kw_only=True)
class EasedScheduler:
    """``scheduler`` where some of its choices are ``eased``: these are taken before tuned ones."""

    scheduler: Scheduler
    eased: ChoicesByKey

    @property
    def name(self) -> str:
        return self.scheduler.name

    def accepts(self, task: Task, target: Target) -> Rejection | None:
        return self.scheduler.accepts(task, target)

    def schedule(
        self, task: Task, target: Target, sizes: Mapping[str, int], tuned: Tuned = NOT_TUNED
    ) -> tuple[VariantSpec, ...]:
        if not self.eased:
            return self.scheduler.schedule(task, target, sizes, tuned)
        eased = self.eased.get(choice_key(task.fusion, sizes), NOT_TUNED)
        given = {**tuned, **{way: knobs for way, knobs in eased.items() if knobs}}
        variants = self.scheduler.schedule(task, target, sizes, given)
        return tuple(_marked(variant, eased) for variant in variants if not _is_left_out(variant, eased))


def _is_left_out(variant: VariantSpec, eased: Tuned) -> bool:
    """Whether others run instead of ``variant``, which they can as it has a guard."""
    return bool(variant.guard) and variant.decision is not None and eased.get(variant.decision.way) == {}


def _marked(variant: VariantSpec, eased: Tuned) -> VariantSpec:
    if variant.decision is None or not eased.get(variant.decision.way):
        return variant
    return replace(variant, decision=replace(variant.decision, tuned=False, eased=True))
