"""A recipe that is planned: all that a compiler, an artifact and a report need of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fusebuild.artifact.plan import Plan
from fusebuild.build.job import Key
from fusebuild.build.toolchain import Toolchain
from fusebuild.errors import file_name
from fusebuild.ir.fusion import Fusion
from fusebuild.kernels.render import Kernel, with_launches
from fusebuild.planning.assembly import assemble, plan_target
from fusebuild.planning.eased import NOT_EASED, Eased
from fusebuild.planning.tuned import TunedKernels, choices_for
from fusebuild.recipe.recipe import Recipe
from fusebuild.segmentation import Search, SegmentedFusion
from fusebuild.target.table import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRecipe:
    """A recipe taken for ``targets`` as far as no compiler is needed. ``kernels`` maps target to name to kernel;
    ``search`` is how the cuts were found; ``tuned`` what replaced choices of heuristics."""

    recipe: Recipe
    fusion: Fusion
    segmented: Mapping[str, SegmentedFusion]
    targets: tuple[Target, ...]
    plan: Plan
    kernels: Mapping[str, Mapping[str, Kernel]]
    search: Search = "heuristic"
    tuned: TunedKernels | None = None

    @property
    def object_keys(self) -> list[Key]:
        """The objects that its artifact holds: each target with the names of its kernels, sorted."""
        return [(target, name) for target, by_name in self.kernels.items() for name in sorted(by_name)]


def plan_segmented(
    recipe: Recipe,
    fusion: Fusion,
    segmented: Mapping[str, SegmentedFusion],
    targets: Sequence[Target],
    *,
    search: Search = "heuristic",
    tuned: TunedKernels | None = None,
    toolchain: Toolchain | None = None,
    eased: Eased = NOT_EASED,
) -> PlannedRecipe:
    """Schedules and rendered kernels of ``recipe``, whose ``fusion`` went through the passes and was cut for each of
    ``targets``. ``tuned`` choices are taken where ``toolchain``, if it is known, is the one that they were measured
    with, and ``eased`` ones before them. Raises :class:`KnobError` for an eased one that no kernel can be made with."""
    origin = file_name(recipe.path)
    planned = []
    for target in targets:
        own = segmented[target.name]
        choices = choices_for(tuned, own, target, toolchain)
        planned.append(plan_target(own, target, origin, choices, eased.get(target.name, ())))
    plan = assemble(segmented, [each.target for each in planned], recipe.fusion)
    return PlannedRecipe(
        recipe=recipe,
        fusion=fusion,
        segmented=segmented,
        targets=tuple(targets),
        plan=plan,
        kernels={each.target.target: with_launches(each.kernels, plan) for each in planned},
        search=search,
        tuned=tuned,
    )


def replanned(planned: PlannedRecipe, eased: Eased, toolchain: Toolchain | None) -> PlannedRecipe:
    """``planned`` with choices that are ``eased``. Raises :class:`KnobError` for one that no kernel can be made of."""
    return plan_segmented(
        planned.recipe, planned.fusion, planned.segmented, planned.targets,
        search=planned.search, tuned=planned.tuned, toolchain=toolchain, eased=eased,
    )  # fmt: skip
