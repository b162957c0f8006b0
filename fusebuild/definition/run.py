"""Cutting and running definitions, each at most once: equal definitions share what was found out about the first.

A definition is known by the digest of its canonical form (:mod:`fusebuild.definition.canonical`); it gets back the
result in its own fids. What is compiled lies in a folder of that name and so is shared across processes too. The folder
holds a usual artifact (:mod:`fusebuild.freshness.cached`): ``fusebuild inspect`` and ``fusebuild verify`` take it.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from fusebuild.artifact.file import open_artifact
from fusebuild.artifact.plan import Plan, PlanOutput, PlanValue
from fusebuild.definition.canonical import Canonical, canonical
from fusebuild.definition.text import RecipeText, recipe_name
from fusebuild.errors import ScheduleError
from fusebuild.freshness.cached import cache_folder, cached_artifact
from fusebuild.ir.fusion import Fusion
from fusebuild.passes import run_passes
from fusebuild.planning.planned import PlannedRecipe, plan_segmented
from fusebuild.recipe.recipe import Recipe
from fusebuild.runtime.loader import LoadedPlan, load_artifact
from fusebuild.segmentation import SegmentedFusion, segment
from fusebuild.target.device import target_of
from fusebuild.target.table import Target, find_target

Named = TypeVar("Named", PlanValue, PlanOutput)

RECIPE = "definition.yaml"
"""What messages and kernels call the recipe of a definition."""


def target_for(device: Any) -> Target:
    """The target for tensors on ``device``, a torch device: the host for CPUs and for None.

    Raises :class:`UsageError` for a GPU that no target runs on.
    """
    if device is None or device.type == "cpu":
        return find_target("host")
    import torch

    major, minor = torch.cuda.get_device_capability(device)
    return target_of(10 * major + minor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """The segments of a definition. They are shared with equal definitions and speak their fids; ``fids`` leads from
    those to the definition's own."""

    segmented: SegmentedFusion
    fids: Mapping[int, int]


@dataclass(slots=True)
class _Entry:
    """What is known about one canonical form. ``plans`` are by target, cache folder and what messages name: the
    definition and its fids."""

    canonical: Fusion
    lock: threading.RLock = field(default_factory=threading.RLock)
    primitive: Fusion | None = None
    segmented: dict[str, SegmentedFusion] = field(default_factory=dict)
    plans: dict[tuple[str | int, ...], LoadedPlan] = field(default_factory=dict)


class DefinitionCache:
    """Digest to what was found out: the Fusion after passes, its segments by target, its plans ready to run.

    Many threads may ask at once; two that ask for equal definitions wait for one of them to find out.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: dict[str, _Entry] = {}
        self.compilations = 0
        """How many definitions were taken through the passes so far."""

    def clear(self) -> None:
        """Forget everything, as another process begins. What was compiled stays in its folder."""
        with self._lock:
            self._entries.clear()

    def cut(self, fusion: Fusion, target: Target) -> Cut:
        """The segments of ``fusion`` for ``target``. Raises :class:`ScheduleError`, located in ``fusion``'s text."""
        form = canonical(fusion)
        entry = self._entry(form)
        with entry.lock:
            segmented = self._segmented(entry, fusion, target)
            shared = {*form.fids, *segmented.fusion.values}
            return Cut(segmented=segmented, fids={fid: form.translate(fusion, fid) for fid in shared})

    def loaded(self, fusion: Fusion, target: Target) -> LoadedPlan:
        """``fusion`` ready to run on ``target``, compiled where nobody has yet. Its inputs are tensors, then scalars.

        Raises what :func:`fusebuild.pipeline.compile_recipes` and :func:`fusebuild.load` do.
        """
        form = canonical(fusion)
        entry, folder = self._entry(form), cache_folder("definitions", form.digest, target)
        key: tuple[str | int, ...] = (target.name, str(folder), fusion.name, *form.fids.values())
        with entry.lock:
            if key not in entry.plans:
                RecipeText(fusion).require_symbols()
                path = cached_artifact(self._planned(entry, fusion, target), target, folder)
                entry.plans[key] = load_artifact(_Renamed(path, fusion, form), target=target.name)
            return entry.plans[key]

    def _entry(self, form: Canonical) -> _Entry:
        with self._lock:
            return self._entries.setdefault(form.digest, _Entry(canonical=form.fusion))

    def _segmented(self, entry: _Entry, fusion: Fusion, target: Target) -> SegmentedFusion:
        if entry.primitive is None:
            entry.primitive = run_passes(entry.canonical)
            with self._lock:
                self.compilations += 1
        if target.name not in entry.segmented:
            try:
                entry.segmented[target.name] = segment(entry.primitive, target)
            except ScheduleError:
                segment(run_passes(fusion), target)  # raises it with this definition's locations and names
                raise
        return entry.segmented[target.name]

    def _planned(self, entry: _Entry, fusion: Fusion, target: Target) -> PlannedRecipe:
        segmented = self._segmented(entry, fusion, target)
        text = str(RecipeText(entry.canonical))
        recipe = Recipe(path=RECIPE, text=text, fusion=entry.canonical)
        return plan_segmented(recipe, segmented.fusion, {target.name: segmented}, [target])


class _Renamed:
    """An artifact of a canonical form whose messages name the values of one definition, by its own fids."""

    def __init__(self, path: Path, fusion: Fusion, form: Canonical) -> None:
        artifact = open_artifact(path)
        self.path, self.object_bytes, self.toolchain = path, artifact.object_bytes, artifact.toolchain
        names = {shared: recipe_name(fusion.value(own)) for shared, own in form.fids.items()}
        views = [
            view for target in artifact.plan.targets for segment in target.segments for view in segment.views.items()
        ]
        names |= {view: names[viewed] for view, viewed in views if viewed in names}
        self.plan: Plan = msgspec.structs.replace(
            artifact.plan,
            fusion=fusion.name,
            values=tuple(_named(value, names) for value in artifact.plan.values),
            outputs=tuple(_named(output, names) for output in artifact.plan.outputs),
        )


def _named(what: Named, names: Mapping[int, str]) -> Named:
    return msgspec.structs.replace(what, name=names.get(what.fid, what.name))


definitions = DefinitionCache()
"""What this process knows."""
