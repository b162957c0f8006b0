"""Kernels that spill registers are planned again: threads get more registers, or hold less, until nothing spills.

How many registers a kernel takes only its compiler knows. So all is compiled first, and for each way to run a segment
whose kernels spill, :meth:`Choice.eased` says what to try, one choice after another. The first that does not spill is
taken; where all do, the way is left out, and the variants behind it take its sizes. One that nothing stands in for
keeps the choice that spills least. What was taken is written into the plan: it can be made again without a compiler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from fusebuild.artifact.file import open_artifact
from fusebuild.artifact.plan import EasedChoice
from fusebuild.artifact.plan_check import kernels_of
from fusebuild.build.objects import BuildResult
from fusebuild.build.toolchain import Toolchain
from fusebuild.errors import KnobError, SpillError
from fusebuild.kernels.common.choice import Decision, Knobs, Tuned
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.common.specialization import specialized_prefix
from fusebuild.planning.eased import Eased, eased_by_key, eased_in, scheduled
from fusebuild.planning.planned import PlannedRecipe, replanned
from fusebuild.planning.tuned import Point, choices_at, choices_for, points_at
from fusebuild.target.table import Target, find_target

MOST_TRIED = 12
"""Choices that are compiled for one way, at most."""

logger = logging.getLogger(__name__)

Compile: TypeAlias = Callable[[Sequence[PlannedRecipe]], BuildResult]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """One way to run a segment at the sizes of ``point``: what its family makes of it now, with what was ``tuned``."""

    target: Target
    point: Point
    tuned: Tuned
    spec: VariantSpec
    decision: Decision

    @property
    def place(self) -> tuple[object, ...]:
        """What no two of a recipe share."""
        return self.target.name, self.point.key, self.decision.way

    def candidates(self) -> Iterator[Knobs]:
        """What :meth:`Choice.eased` says, less what no kernel can be made of and what makes the same kernels as another
        one."""
        way, seen = self.decision.way, [self.spec.launches]
        for choice in self.decision.choice.eased():
            try:
                specs = self.point.variants(self.target, {**self.tuned, way: choice.knobs})
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
            segment=self.way.point.segment.id,
            bucket=dict(self.way.point.key[1]),
            way=self.way.decision.way,
            knobs=dict(knobs),
            spilled=self.spilled[0],
        )


@dataclass(slots=True, kw_only=True)
class _Easing:
    """One recipe whose kernels spill, as it is ``planned`` at the moment."""

    planned: PlannedRecipe
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
        targets = {target.name: target for target in self.planned.targets}
        found: dict[tuple[object, ...], tuple[_Way, int]] = {}
        for target, segment, variant, spilled in _spilling_variants(self.planned, objects):
            way = next((way for name, way in self._ways(targets[target], segment) if name == variant), None)
            if way is not None:
                found.setdefault(way.place, (way, spilled))
        return list(found.values())

    def _ways(self, target: Target, segment_id: int) -> Iterator[tuple[str, _Way]]:
        """The ways to run a segment, by the name of its variant: at the sizes of the first case, then at those that the
        recipe names."""
        segmented = self.planned.segmented[target.name]
        segment = segmented.segments[segment_id]
        eased = eased_by_key(eased_in(self.planned.plan).get(target.name, ()), segmented)
        choices = choices_for(self.planned.tuned, segmented, target, self.toolchain)
        for point in points_at(segment):
            tuned = choices_at(choices, segment.scheduled, point.sizes)
            prefix = f"{specialized_prefix(point.named)}_" if point.named else ""
            for spec in scheduled(segment, target, point.sizes, tuned, eased):
                if spec.decision is not None:
                    way = _Way(target=target, point=point, tuned=tuned, spec=spec, decision=spec.decision)
                    yield f"{prefix}{spec.name}", way


def without_spills(
    planned: Sequence[PlannedRecipe], objects: BuildResult, toolchain: Toolchain, compile_all: Compile
) -> tuple[list[PlannedRecipe], BuildResult]:
    """``planned``, compiled to ``objects``, with other choices for what spills, and the objects of that.

    Recipes that allow spills stay as they are. ``compile_all`` makes the objects of some. Equal recipes give equal
    plans: nothing but the compiler decides.
    """
    result = list(planned)
    spilling = {
        index: _Easing(planned=each, toolchain=toolchain)
        for index, each in enumerate(planned)
        if not each.recipe.allow_spills and _spilling_variants(each, objects)
    }
    if not spilling:
        return result, objects
    compiled, seconds, latest = objects.compiled, objects.seconds, objects
    at_work = list(spilling.values())
    while at_work := [each for each in at_work if each.step(latest)]:
        for each in at_work:
            each.planned = replanned(each.planned, each.eased, toolchain)
        latest = compile_all([each.planned for each in at_work])
        compiled, seconds = compiled + latest.compiled, seconds + latest.seconds
    for index, easing in spilling.items():
        result[index] = easing.planned
        _tell(easing.planned)
    whole = compile_all(result)
    return result, replace(whole, compiled=min(compiled, whole.total), seconds=seconds + whole.seconds)


def tell_unknown(planned: Sequence[PlannedRecipe], objects: BuildResult) -> None:
    """Warn of kernels of which neither the compiler nor the object says whether they spill."""
    for each in planned:
        for target, kernel in each.object_keys:
            if not find_target(target).is_host and (target, kernel) not in objects.resources:
                logger.warning("%s", _unknown_text(each.plan.fusion, target, kernel))


def require_known_spills(artifacts: Sequence[Path]) -> None:
    """Raise :class:`SpillError` for kernels of ``artifacts`` of which it is not known whether they spill."""
    unknown = [
        _unknown_text(artifact.plan.fusion, target.target, kernel)
        for artifact in map(open_artifact, artifacts)
        for target in artifact.plan.targets
        for kernel in kernels_of(target)
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
