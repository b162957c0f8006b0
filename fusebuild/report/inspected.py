"""What ``fusebuild inspect`` looks at: a recipe, planned now, or an artifact as it is."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fusebuild.artifact.file import Artifact, is_artifact, open_artifact
from fusebuild.build.toolchain import Toolchain, find_toolchain
from fusebuild.errors import ToolchainError, UsageError, one_line
from fusebuild.ir.fusion import Fusion
from fusebuild.pipeline import plan_recipe, tuned_beside
from fusebuild.recipe.inside import recipe_in
from fusebuild.recipe.recipe import load_recipe
from fusebuild.report.inspection import Inspection, composites_in, composites_of, resources_in
from fusebuild.target.table import Target, find_target

if TYPE_CHECKING:
    from fusebuild.segmentation import Search

logger = logging.getLogger(__name__)


def inspections_of(
    path: Path, targets: Sequence[Target] | None, search: Search | None
) -> tuple[list[Inspection], Fusion]:
    """What there is to see at ``path``, a target each (default: ``sm_90``, or those of the artifact), and the Fusion as
    the recipe says it.

    Raises what reading and planning a recipe or opening an artifact raises, :class:`ArtifactError` for a target that
    the artifact does not hold, and :class:`UsageError` for a ``search`` in an artifact, which is cut already.
    """
    if is_artifact(path):
        if search is not None:
            raise UsageError(f"{one_line(path)} is cut already; --segmentation is for recipes")
        return _of_artifact(open_artifact(path), targets)
    return _of_recipe(path, targets or (find_target("sm_90"),), search or "heuristic")


def fusion_in(artifact: Artifact) -> Fusion:
    """The Fusion as the recipe in ``artifact`` says it."""
    return recipe_in(artifact).fusion


def _of_artifact(artifact: Artifact, targets: Sequence[Target] | None) -> tuple[list[Inspection], Fusion]:
    names = [target.name for target in targets] if targets else artifact.targets
    fusion = fusion_in(artifact)
    for name in names:
        artifact.require_target(name)
    return [
        Inspection(
            plan=artifact.plan,
            target=name,
            sizes=_sizes(fusion),
            composites=composites_in(artifact, fusion, name),
            resources=resources_in(artifact, name),
        )
        for name in names
    ], fusion


def _of_recipe(path: Path, targets: Sequence[Target], search: Search) -> tuple[list[Inspection], Fusion]:
    recipe = load_recipe(path)
    tuned = tuned_beside(recipe)
    toolchain = None if tuned is None else _toolchain(targets)  # tuned choices hold for one alone
    planned = plan_recipe(recipe, targets, search=search, tuned=tuned, toolchain=toolchain)
    return [
        Inspection(
            plan=planned.plan,
            target=target.name,
            sizes=_sizes(recipe.fusion),
            composites=composites_of(planned.segmented[target.name]),
            resources={},
        )
        for target in targets
    ], recipe.fusion


def _toolchain(targets: Sequence[Target]) -> Toolchain | None:
    """What would compile for ``targets``; None, with a warning, where there is nothing that would."""
    try:
        return find_toolchain(targets)
    except ToolchainError as error:
        logger.warning("what was measured with another compiler is shown, too: %s", error)
        return None


def _sizes(fusion: Fusion) -> dict[str, int] | None:
    return dict(fusion.cases[0]) if fusion.cases else None
