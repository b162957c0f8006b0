"""Freshness: does each artifact hold what its recipe, templates, flags and toolchain would give now?

Nothing is compiled."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fusebuild.artifact import Artifact, open_artifact
from fusebuild.build import BuildDir
from fusebuild.errors import ArtifactError, ToolchainError
from fusebuild.pipeline import PlannedRecipe, plan_recipe, read_recipes, source_digests, tuned_beside
from fusebuild.plan import encode
from fusebuild.recipe import Recipe
from fusebuild.segmentation import Search
from fusebuild.target import Target, find_target
from fusebuild.toolchain import Toolchain, find_toolchain

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """One recipe's verdict: ``differences`` is empty when its artifact is fresh."""

    recipe: str
    artifact: Path
    differences: tuple[str, ...]


def check_recipes(
    paths: Sequence[Path], out: Path, *, targets: Sequence[Target] | None = None, nvcc: str | None = None
) -> tuple[Freshness, ...]:
    """Compare the artifact of every recipe below ``paths`` in ``out`` with what would be built now.

    ``targets`` defaults to those that each artifact holds. Where no toolchain is found its version is not compared.
    Raises :class:`RecipeError` for recipes that cannot be read and :class:`TunedError` for what lies beside them.
    """
    build_dir = BuildDir(root=out)
    toolchain = _Toolchains(nvcc=nvcc)
    verdicts = []
    for recipe in read_recipes(paths):
        path = build_dir.artifact(recipe.fusion.name)
        differences = _differences(recipe, path, targets, toolchain)
        verdicts.append(Freshness(recipe=recipe.path, artifact=path, differences=differences))
    return tuple(verdicts)


def _differences(
    recipe: Recipe, path: Path, targets: Sequence[Target] | None, toolchains: _Toolchains
) -> tuple[str, ...]:
    if not path.exists():
        return (f"{path} is missing",)
    try:
        artifact = open_artifact(path)
    except ArtifactError as error:
        return (f"artifact is not whole: {error}",)
    if targets and (names := {target.name for target in targets} ^ {*artifact.targets}):
        return (f"targets differ: {', '.join(sorted(names))}",)
    held = tuple(find_target(name) for name in artifact.targets)
    search: Search = "exact" if artifact.manifest.sources.get("segmentation") == "exact" else "heuristic"
    toolchain = toolchains.find(held)
    planned = plan_recipe(recipe, held, search=search, tuned=tuned_beside(recipe), toolchain=toolchain)
    return (
        *source_differences(artifact, planned, held, toolchain),
        *_plan_differences(artifact, planned),
    )


class _Toolchains:
    """The toolchain for each set of targets, looked for once."""

    def __init__(self, *, nvcc: str | None) -> None:
        self._nvcc = nvcc
        self._found: dict[tuple[Target, ...], Toolchain | None] = {}

    def find(self, targets: tuple[Target, ...]) -> Toolchain | None:
        """The toolchain, or None, with a warning, where there is none."""
        if targets not in self._found:
            try:
                self._found[targets] = find_toolchain(targets, nvcc=self._nvcc)
            except ToolchainError as error:
                logger.warning("compiler versions are not compared: %s", error)
                self._found[targets] = None
        return self._found[targets]


def source_differences(
    artifact: Artifact, planned: PlannedRecipe, targets: Sequence[Target], toolchain: Toolchain | None
) -> tuple[str, ...]:
    """What ``artifact`` was made from that is not the same now; without a toolchain, whatever compiled it."""
    now = source_digests(planned, targets, toolchain)
    then = dict(artifact.manifest.sources)
    if toolchain is None:
        then = {name: digest for name, digest in then.items() if not name.startswith("toolchain of ")}
    return tuple(f"{name} changed" for name in sorted({*now, *then}) if now.get(name) != then.get(name))


def _plan_differences(artifact: Artifact, planned: PlannedRecipe) -> tuple[str, ...]:
    differences = []
    if artifact.member("plan.json") != encode(planned.plan):
        differences.append("plan changed")
    kernels = {name: kernel for by_name in planned.kernels.values() for name, kernel in by_name.items()}
    for name, kernel in sorted(kernels.items()):
        member = f"kernels/{name}.cu"
        if member not in artifact.members or artifact.kernel_text(name) != kernel.text:
            differences.append(f"kernel {name} changed")
    return tuple(differences)
