"""How artifacts differ from what their recipes, templates, flags and toolchain would give now, one name a
difference."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeAlias

from fusebuild.artifact.file import Artifact, open_artifact
from fusebuild.artifact.plan import encode
from fusebuild.build.toolchain import Toolchain
from fusebuild.errors import ArtifactError, KnobError, one_line
from fusebuild.freshness.origins import FindToolchain
from fusebuild.freshness.verdict import Stale
from fusebuild.pipeline import plan_recipe, source_digests, tuned_beside
from fusebuild.planning.eased import eased_in
from fusebuild.planning.planned import PlannedRecipe
from fusebuild.recipe.recipe import Recipe
from fusebuild.segmentation import Search
from fusebuild.system.processes import mapped, processors
from fusebuild.target.table import Target, find_target

Toolchains: TypeAlias = Mapping[tuple[Target, ...], Toolchain | None]
"""The toolchain for each tuple of targets; None where none was found."""


def differences_of_all(
    recipes: Sequence[tuple[Recipe, Path]],
    targets: Sequence[Target] | None,
    search: Search | None,
    find_toolchain: FindToolchain,
) -> list[tuple[str, ...]]:
    """For each of ``recipes`` and the path of its artifact: why the artifact is not what the recipe would give for
    ``targets`` and with cuts found by ``search``; empty when it is. None stands for the targets that the artifact
    holds, and for the search that found its cuts.

    All processors share the work. Raises :class:`TunedError` for what lies beside a recipe.
    """
    held = dict.fromkeys(_held_targets(path) for _, path in recipes)
    toolchains = {targets: find_toolchain(targets) for targets in held if targets}
    compare = partial(_differences, targets=targets, search=search, toolchains=toolchains)
    return mapped(compare, recipes, processes=processors())


def made_for(artifact: Artifact) -> tuple[tuple[Target, ...], Search]:
    """The targets of ``artifact``, and how its cuts were found."""
    targets = tuple(find_target(name) for name in artifact.targets)
    return targets, "exact" if artifact.manifest.sources.get("segmentation") == "exact" else "heuristic"


def _held_targets(path: Path) -> tuple[Target, ...]:
    """The targets that the artifact at ``path`` was compiled for; none where it cannot be read."""
    try:
        return made_for(open_artifact(path))[0]
    except ArtifactError:
        return ()


def _differences(
    pair: tuple[Recipe, Path], *, targets: Sequence[Target] | None, search: Search | None, toolchains: Toolchains
) -> tuple[str, ...]:
    recipe, path = pair
    if not os.path.exists(path):  # Path's own raises where it cannot look
        return (Stale.MISSING(one_line(path)),)
    try:
        artifact = open_artifact(path)
    except ArtifactError as error:
        return (Stale.DAMAGED(error),)
    if targets and (names := {target.name for target in targets} ^ {*artifact.targets}):
        return (Stale.TARGETS(", ".join(sorted(names))),)
    held, own = made_for(artifact)
    toolchain = toolchains.get(held)
    eased = eased_in(artifact.plan)  # what only a compiler finds out
    try:
        planned = plan_recipe(
            recipe, held, search=search or own, tuned=tuned_beside(recipe), toolchain=toolchain, eased=eased
        )
    except KnobError as error:
        return (Stale.EASED(error),)
    return (
        *source_differences(artifact, planned, toolchain),
        *_plan_differences(artifact, planned),
    )


def source_differences(artifact: Artifact, planned: PlannedRecipe, toolchain: Toolchain | None) -> tuple[str, ...]:
    """Why ``artifact`` is stale by the digests of what it was made from. Without a toolchain, the digest of the one
    that compiled it is not compared."""
    now = source_digests(planned, toolchain)
    then = dict(artifact.manifest.sources)
    if toolchain is None:
        then = {name: digest for name, digest in then.items() if not name.startswith("toolchain of ")}
    return tuple(Stale.CHANGED(name) for name in sorted({*now, *then}) if now.get(name) != then.get(name))


def _plan_differences(artifact: Artifact, planned: PlannedRecipe) -> tuple[str, ...]:
    differences = []
    if artifact.member("plan.json") != encode(planned.plan):
        differences.append(Stale.CHANGED("plan"))
    kernels = {name: kernel for by_name in planned.kernels.values() for name, kernel in by_name.items()}
    for name, kernel in sorted(kernels.items()):
        member = f"kernels/{name}.cu"
        if member not in artifact.members or artifact.kernel_text(name) != kernel.text:
            differences.append(Stale.CHANGED(f"kernel {name}"))
    return tuple(differences)
