"""Freshness: does each artifact hold what its recipe, templates, flags and toolchain would give now?

Nothing is compiled, and nothing is planned of what the directory's record shows to be as it was built."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fusebuild.build import BuildDir
from fusebuild.build_record import BuiltRecipe, fusebuild_digest, made_from, recorded
from fusebuild.errors import ToolchainError
from fusebuild.recipe_files import recipe_files, tuned_path
from fusebuild.target import Target, find_target
from fusebuild.toolchain import Toolchain, find_toolchain

if TYPE_CHECKING:
    from fusebuild.segmentation import Search

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """One recipe's verdict: ``differences`` is empty when its artifact is fresh."""

    recipe: str
    artifact: Path
    differences: tuple[str, ...]


def check_recipes(
    paths: Sequence[Path],
    out: Path,
    *,
    targets: Sequence[Target] | None = None,
    search: Search | None = None,
    nvcc: str | None = None,
) -> tuple[Freshness, ...]:
    """Compare the artifact of every recipe below ``paths`` in ``out`` with what would be built now.

    ``targets`` default to those that each artifact holds, ``search`` to how its cuts were found. Where no toolchain is
    found its version is not compared. Raises :class:`RecipeError` for recipes that cannot be read and
    :class:`TunedError` for what lies beside them.
    """
    build_dir, toolchains = BuildDir(root=out), _Toolchains(nvcc=nvcc)
    files = recipe_files(paths)
    wanted = targets and {target.name for target in targets}
    known = {
        file: built
        for file, built in recorded(files, build_dir).items()
        if wanted in (None, {*built.targets}) and search in (None, built.search)
    }
    fresh = {file: build_dir.artifact(built.fusion) for file, built in _as_built(known, toolchains).items()}
    verdicts = {file: Freshness(recipe=file.as_posix(), artifact=path, differences=()) for file, path in fresh.items()}
    doubtful = [file for file in files if file not in fresh]
    if doubtful:
        taken = {path.stem: file for file, path in fresh.items()}
        verdicts |= zip(doubtful, _compared(doubtful, taken, build_dir, targets, search, toolchains), strict=True)
    return tuple(verdicts[file] for file in files)


def _as_built(known: Mapping[Path, BuiltRecipe], toolchains: _Toolchains) -> dict[Path, BuiltRecipe]:
    """Those of ``known`` that were made from what there is now. Without a toolchain, of those whose choices depend on
    one nothing is said."""
    fusebuild = fusebuild_digest() if known else ""
    found = {}
    for file, built in known.items():
        if built.made_from.get("fusebuild") != fusebuild:
            continue
        held = tuple(find_target(name) for name in built.targets)
        toolchain = toolchains.find(held)
        if toolchain is None and tuned_path(file).is_file():
            continue
        now = made_from(held, toolchain, fusebuild)
        if now.items() <= built.made_from.items():
            found[file] = built
    return found


def _compared(
    files: Sequence[Path],
    taken: Mapping[str, Path],
    build_dir: BuildDir,
    targets: Sequence[Target] | None,
    search: Search | None,
    toolchains: _Toolchains,
) -> list[Freshness]:
    """The verdicts on ``files``, each planned and compared with its artifact."""
    from fusebuild.differences import differences_of_all
    from fusebuild.pipeline import read_recipes

    recipes = [(recipe, build_dir.artifact(recipe.fusion.name)) for recipe in read_recipes(files, taken)]
    differences = differences_of_all(recipes, targets, search, toolchains.find)
    return [
        Freshness(recipe=recipe.path, artifact=path, differences=own)
        for (recipe, path), own in zip(recipes, differences, strict=True)
    ]


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
