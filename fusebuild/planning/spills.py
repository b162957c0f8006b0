"""Kernels that spill registers are planned again: threads get more registers, or hold less, until nothing spills.

How many registers a kernel takes only its compiler knows. So all is compiled first, and for each way to run a segment
whose kernels spill, :meth:`Choice.eased` says what to try, one choice after another. The first that does not spill is
taken; where all do, the way is left out, and the variants behind it take its sizes. One that nothing stands in for
keeps the choice that spills least. What was taken is written into the plan: it can be made again without a compiler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

from fusebuild.artifact.file import open_artifact
from fusebuild.artifact.plan import EasedChoice
from fusebuild.build.objects import BuildResult
from fusebuild.errors import KnobError, SpillError
from fusebuild.kernels.common.choice import Decision, Knobs, Tuned
from fusebuild.kernels.common.spec import Scheduler, VariantSpec
from fusebuild.kernels.common.specialization import hinted_sizes, named_sizes, specialized_prefix
from fusebuild.planning.eased import ChoiceKey, Eased, EasedScheduler, choice_key, eased_by_key, eased_in
from fusebuild.planning.tuned import choices_for
from fusebuild.segmentation import Segment
from fusebuild.target.table import Target, find_target

if TYPE_CHECKING:
    from pathlib import Path

    from fusebuild.build.toolchain import Toolchain
    from fusebuild.planning.planned import PlannedRecipe
    from fusebuild.segmentation import SegmentedFusion

MOST_TRIED = 12
"""Choices that are compiled for one way, at most."""

logger = logging.getLogger(__name__)

Replan: TypeAlias = "Callable[[PlannedRecipe, Eased], PlannedRecipe]"
Compile: TypeAlias = "Callable[[Sequence[PlannedRecipe]], BuildResult]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """One way to run ``segment`` at ``sizes``: what its ``scheduler`` makes of it now."""

    target: Target
    segment: Segment
    scheduler: Scheduler
    sizes: Mapping[str, int]
    tuned: Tuned
    spec: VariantSpec
    decision: Decision

    @property
    def key(self) -> ChoiceKey:
        return choice_key(self.segment.fusion, self.sizes)

    @property
    def place(self) -> tuple[object, ...]:
        """What no two of a recipe share."""
        return self.target.name, self.key, self.decision.way

    def candidates(self) -> Iterator[Knobs]:
        """What :meth:`Choice.eased` says, less what no kernel can be made of and what makes the same kernels as another
        one."""
        way, seen = self.decision.way, [self.spec.launches]
        for choice in self.decision.choice.eased():
            given = {**self.tuned, way: choice.knobs}
            try:
                specs = self.scheduler.schedule(self.segment.fusion.whole(), self.target, self.sizes, given)
            except KnobError:
                continue
            own = next((spec for spec in specs if spec.decision is not None and spec.decision.way == way), None)
            if own is not None and own.launches not in seen:
                seen.append(own.launches)
                yield choice.knobs


@dataclass(slots=True, kw_only=True)
class _Search:
    """What was tried for one ``way``: ``candidates`` in order, and the bytes that the family's own choice spilled and
    then each of them. ``taken`` are the knobs at hand: None for the family's own, none where the way is left out."""

    way: _Way
    candidates: Sequence[Knobs]
    spilled: list[int]
    taken: Knobs | None = None

    def step(self, spilled: int) -> bool:
        """Take the next candidate after the one at hand, which spilled so many bytes; False where nothing is left."""
        if len(self.spilled) > len(self.candidates):
            return False
        self.spilled.append(spilled)
        before, tried = self.taken, len(self.spilled)
        self.taken = self.candidates[tried - 1] if tried <= len(self.candidates) else self._last_resort()
        return self.taken != before

    def _last_resort(self) -> Knobs | None:
        """What is done where all candidates spill: others take the sizes of this way; where none can, the choice that
        spills least is good enough."""
        if self.way.spec.guard:
            return {}
        best = self.spilled.index(min(self.spilled))
        return self.candidates[best - 1] if best else None

    def choice(self, knobs: Knobs) -> EasedChoice:
        """``knobs`` as the plan says them."""
        return EasedChoice(
            segment=self.way.segment.id,
            bucket=dict(self.way.key[1]),
            way=self.way.decision.way,
            knobs=dict(knobs),
            spilled=self.spilled[0],
        )


@dataclass(slots=True, kw_only=True)
class _Easing:
    """One recipe whose kernels spill, as it is ``planned`` at the moment."""

    planned: PlannedRecipe
    targets: Mapping[str, Target]
    toolchain: Toolchain
    searches: dict[tuple[object, ...], _Search] = field(default_factory=dict)

    def step(self, objects: BuildResult) -> bool:
        """Choose anew for whatever spills; False where nothing is left to choose."""
        steps = []
        for way, spilled in self._spilling(objects):
            if way.place not in self.searches:
                candidates = tuple(islice(way.candidates(), MOST_TRIED))
                self.searches[way.place] = _Search(way=way, candidates=candidates, spilled=[])
            steps.append(self.searches[way.place].step(spilled))
        return any(steps)

    @property
    def eased(self) -> Eased:
        """All that was chosen so far, by target."""
        by_target: dict[str, list[EasedChoice]] = {}
        for search in self.searches.values():
            if search.taken is not None:
                by_target.setdefault(search.way.target.name, []).append(search.choice(search.taken))
        return {target: tuple(sorted(own, key=_order)) for target, own in by_target.items()}

    def _spilling(self, objects: BuildResult) -> list[tuple[_Way, int]]:
        """The ways that spill and could be others, once each, with bytes."""
        found: dict[tuple[object, ...], tuple[_Way, int]] = {}
        for target, segment, variant, spilled in _spilling_variants(self.planned, objects):
            way = next((way for name, way in self._ways(target, segment) if name == variant), None)
            if way is not None:
                found.setdefault(way.place, (way, spilled))
        return list(found.values())

    def _ways(self, target_name: str, segment_id: int) -> Iterator[tuple[str, _Way]]:
        """The ways to run a segment, by the name of its variant: at the sizes of the first case, then at those that the
        recipe names."""
        target, segmented = self.targets[target_name], self.planned.segmented[target_name]
        segment = segmented.segments[segment_id]
        own = segment.family
        eased = eased_by_key(eased_in(self.planned.plan).get(target_name, ()), segmented)
        scheduler = EasedScheduler(scheduler=own, eased=eased)
        choices = choices_for(self.planned.tuned, segmented, target, self.toolchain)
        for prefix, sizes in _points(segmented, segment):
            tuned = choices(segment.fusion, sizes)
            for spec in scheduler.schedule(segment.fusion.whole(), target, sizes, tuned):
                if spec.decision is not None:
                    way = _Way(target=target, segment=segment, scheduler=own, sizes=sizes, tuned=tuned, spec=spec,
                               decision=spec.decision)  # fmt: skip
                    yield f"{prefix}{spec.name}", way


def _points(segmented: SegmentedFusion, segment: Segment) -> Iterator[tuple[str, Mapping[str, int]]]:
    """What the names of variants begin with, and the sizes that they are planned for."""
    yield "", segmented.fusion.cases[0] if segmented.fusion.cases else {}
    for named in named_sizes(segment.fusion):
        yield f"{specialized_prefix(named)}_", hinted_sizes(segment.fusion, named)


def without_spills(
    planned: Sequence[PlannedRecipe],
    objects: BuildResult,
    targets: Sequence[Target],
    toolchain: Toolchain,
    *,
    replan: Replan,
    compile_all: Compile,
) -> tuple[list[PlannedRecipe], BuildResult]:
    """``planned``, compiled to ``objects``, with other choices for what spills, and the objects of that.

    Recipes that allow spills stay as they are. ``replan`` plans one again with such choices; ``compile_all`` makes the
    objects of some. Equal recipes give equal plans: nothing but the compiler decides.
    """
    result = list(planned)
    spilling = [
        (index, _Easing(planned=each, targets={target.name: target for target in targets}, toolchain=toolchain))
        for index, each in enumerate(planned)
        if not each.recipe.allow_spills and _spilling_variants(each, objects)
    ]
    if not spilling:
        return result, objects
    compiled, seconds, latest = objects.compiled, objects.seconds, objects
    at_work = [each for _, each in spilling]
    while at_work := [each for each in at_work if each.step(latest)]:
        for each in at_work:
            each.planned = replan(each.planned, each.eased)
        latest = compile_all([each.planned for each in at_work])
        compiled, seconds = compiled + latest.compiled, seconds + latest.seconds
    for index, easing in spilling:
        result[index] = easing.planned
        _tell(easing.planned)
    whole = compile_all(result)
    return result, replace(whole, compiled=min(compiled, whole.total), seconds=seconds + whole.seconds)


def tell_unknown(planned: Sequence[PlannedRecipe], objects: BuildResult) -> None:
    """Warn of kernels of which neither the compiler nor the object says whether they spill."""
    for each in planned:
        for target, by_name in each.kernels.items():
            for name in sorted(by_name):
                if not find_target(target).is_host and (target, name) not in objects.resources:
                    logger.warning("%s", _unknown_text(each.plan.fusion, target, name))


def require_known_spills(artifacts: Sequence[Path]) -> None:
    """Raise :class:`SpillError` for kernels of ``artifacts`` of which it is not known whether they spill."""
    unknown = []
    for path in artifacts:
        artifact = open_artifact(path)
        for target in artifact.plan.targets:
            kernels = {launch.kernel for each in target.segments for own in each.variants for launch in own.launches}
            unknown += [
                _unknown_text(artifact.plan.fusion, target.target, kernel)
                for kernel in sorted(kernels)
                if not find_target(target.target).is_host and artifact.resources(target.target, kernel) is None
            ]
    if unknown:
        raise SpillError("\n".join(unknown))


def _unknown_text(fusion: str, target: str, kernel: str) -> str:
    return f"{fusion}: kernel {kernel} for {target}: whether it spills registers is not known: ptxas did not say so"


def _tell(planned: PlannedRecipe) -> None:
    """Say what became of each way that spilled."""
    for target, eased in sorted(eased_in(planned.plan).items()):
        for each in eased:
            knobs = " ".join(f"{knob}={int(value)}" for knob, value in each.knobs.items())
            now = f"it is planned with {knobs}" if knobs else "it is left out, and other variants take its sizes"
            logger.warning("%s: segment %d for %s: %s spilled %d bytes of registers: %s",
                           planned.recipe.path, each.segment, target, each.way, each.spilled, now)  # fmt: skip


def _order(choice: EasedChoice) -> tuple[object, ...]:
    return choice.segment, choice.way, sorted(choice.bucket.items())


def _spilling_variants(planned: PlannedRecipe, objects: BuildResult) -> list[tuple[str, int, str, int]]:
    """Target, segment, variant and bytes of all that spills."""
    bytes_of = objects.spills
    found = [
        (target.target, segment.id, variant.name,
         sum(bytes_of.get((target.target, each.kernel), 0) for each in variant.launches))
        for target in planned.plan.targets
        for segment in target.segments
        for variant in segment.variants
    ]  # fmt: skip
    return [each for each in found if each[-1]]
