"""``fusebuild tune --sweep``: whether guards choose the fastest variant, at sizes that nobody chose.

An artifact has several variants of each kernel, and the sizes of a call decide which one runs (``docs/internals/
sizes.md``). Here every variant whose guard holds runs at the same drawn sizes, and the one that the executor takes is
compared with the fastest. What is too slow then is the guard or the heuristic behind it, which no knob of
:mod:`fusebuild.tuning.tune` would mend.
"""

from __future__ import annotations

import logging
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fusebuild.bench.contenders import input_sets, our_contender, roof_copy, set_count, variants_taken
from fusebuild.bench.device import Device, Run
from fusebuild.bench.faults import Faults, release
from fusebuild.bench.timing import side_by_side
from fusebuild.build.objects import Progress
from fusebuild.errors import VerificationError
from fusebuild.oracle.verification import memory_named, possible_variants, read_recipe, recipe_trial, run_trial
from fusebuild.pipeline import compile_recipes
from fusebuild.recipe.drawn import drawn_cases
from fusebuild.recipe.recipe import Recipe
from fusebuild.recipe.sizes import least_bytes
from fusebuild.runtime.loader import LoadedPlan, load
from fusebuild.target.table import Target
from fusebuild.tuning.choice_report import ChoiceReport, MeasuredChoice
from fusebuild.tuning.place import Place, find_place

logger = logging.getLogger(__name__)

Names = tuple[str, ...]
"""The variant that each segment runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """One drawn case of one artifact, whose variants are timed in turns."""

    path: Path
    recipe: Recipe
    plan: LoadedPlan
    case: Mapping[str, int]
    device: Device
    seed: int

    @property
    def name(self) -> str:
        return f"{self.recipe.fusion.name} {dict(self.case)}"

    def measured(self, lead: Run) -> MeasuredChoice:
        """Raises :class:`VerificationError` where a variant gives wrong results."""
        recipe, device = self.recipe, self.device
        ways = self._ways()
        least = least_bytes(recipe.fusion, self.case)
        sets = input_sets(recipe, self.case, set_count(least, device), self.seed, device)
        timed = {
            names: our_contender(self.plan, recipe.fusion, sets, device, variant=variant).timed
            for names, variant in ways.items()
        }
        times = {
            names: statistics.median(turns) / len(sets.timed)
            for names, turns in side_by_side(timed, lead, device).items()
        }
        taken, best = next(iter(ways)), min(times, key=lambda names: times[names])
        return MeasuredChoice(
            fusion=recipe.fusion.name,
            case=dict(self.case),
            least_bytes=least,
            tried=len(times),
            variants=taken,
            milliseconds=times[taken],
            best_variants=best,
            best_milliseconds=times[best],
        )

    def _ways(self) -> dict[Names, int | None]:
        """What may run at the case, each way once, and the index that forces it; the executor's own choice is the
        first. All give right results."""
        trial = recipe_trial(self.recipe, self.case, self.device.torch_name, self.seed)
        found: dict[Names, int | None] = {}
        for variant in (None, *possible_variants(self.plan, trial.inputs)):
            found.setdefault(variants_taken(self.plan, trial.inputs, variant=variant), variant)
        for names, variant in found.items():
            verdict = run_trial(self.plan, trial, variant=variant).verdict
            if not verdict.ok:
                raise VerificationError(f"{self.name} {', '.join(names)}: {verdict.complaint}")
        self.device.release()
        return found


def sweep_choices(
    paths: Sequence[Path],
    target: Target | None = None,
    *,
    count: int,
    out: Path = Path("build"),
    jobs: int | None = None,
    nvcc: str | None = None,
    seed: int = 0,
    place: Place | None = None,
    on_progress: Progress | None = None,
) -> ChoiceReport:
    """Compile the recipes below ``paths`` into ``out`` and time every variant that may run at each of ``count`` sizes
    of each recipe, drawn with ``seed`` as :func:`~fusebuild.recipe.drawn.drawn_cases` does.

    ``place`` is found for ``target`` where none is given; ``on_progress`` gets (done, to do) after each case. A case
    that cannot be measured, or whose results are wrong, is named in the report, which has the others. Raises what
    :func:`~fusebuild.pipeline.compile_recipes` raises, and :class:`UsageError` where there is no device.
    """
    place = place or find_place(target)
    device = place.device
    work: list[_Work] = []
    for built in compile_recipes(paths, [place.target], out, nvcc=nvcc, jobs=jobs).artifacts:
        recipe, plan = read_recipe(built.path), load(built.path, target=place.target.name)
        work += [
            _Work(path=built.path, recipe=recipe, plan=plan, case=case, device=device, seed=seed)
            for case in drawn_cases(recipe, count, seed)
        ]
    lead, choices, faults = roof_copy(device), list[MeasuredChoice](), Faults()
    for done, each in enumerate(work, start=1):
        logger.info("%s", each.name)
        named = memory_named(each.path, each.recipe.fusion, each.case, device.torch_name, "draw others with --seed")
        with faults.all_kept(each.name), named:
            choices.append(each.measured(lead))
        release(device)
        if on_progress:
            on_progress(done, len(work))
    name, driver = device.description
    return ChoiceReport(
        target=place.target.name, device=name, driver=driver, count=count, seed=seed, choices=tuple(choices),
        wrong=tuple(faults.wrong), too_large=tuple(faults.too_large),
    )  # fmt: skip
