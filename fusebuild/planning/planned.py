"""A recipe that is planned: all that a compiler, an artifact and a report need of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusebuild.artifact.plan import Plan
from fusebuild.ir.fusion import Fusion
from fusebuild.kernels.render import Kernel
from fusebuild.planning.tuned import TunedKernels
from fusebuild.recipe.recipe import Recipe
from fusebuild.segmentation import Search, SegmentedFusion


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedRecipe:
    """A recipe taken as far as no compiler is needed. ``kernels`` maps target to name to kernel; ``search`` is how
    the cuts were found; ``tuned`` what replaced choices of heuristics."""

    recipe: Recipe
    fusion: Fusion
    segmented: Mapping[str, SegmentedFusion]
    plan: Plan
    kernels: Mapping[str, Mapping[str, Kernel]]
    search: Search = "heuristic"
    tuned: TunedKernels | None = None
