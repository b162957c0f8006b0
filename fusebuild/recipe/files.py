"""The files that hold recipes and artifacts, as paths name them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fusebuild.errors import UsageError, one_line

MAX_BYTES = 1 << 20
"""The largest recipe."""


def recipe_files(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The recipes that ``paths`` name, once each: files, or folders whose ``*.yaml`` are taken in the order of names,
    but hidden ones: editors keep locks and copies in such.

    Raises :class:`UsageError` for a folder that holds none.
    """
    files: dict[str, Path] = {}
    for path in paths:
        found = _recipes_in(path) if os.path.isdir(path) else [path]
        if not found:
            raise UsageError(f"{one_line(path)} holds no *.yaml recipe")
        for file in found:
            files.setdefault(os.path.realpath(file), file)
    return tuple(files.values())


def artifact_files(paths: Sequence[Path]) -> list[Path]:
    """The artifacts that ``paths`` name: files, or folders whose ``*.fuse`` are taken in the order of names.

    Raises :class:`UsageError` where there is none.
    """
    artifacts = [file for path in paths for file in (sorted(path.glob("*.fuse")) if path.is_dir() else [path])]
    if not artifacts:
        raise UsageError(f"{one_line(paths[0])} holds no *.fuse artifact")
    return artifacts


def _recipes_in(folder: Path) -> list[Path]:
    named = sorted(folder.glob("*.yaml"))
    return [path for path in named if not path.name.startswith(".") and not os.path.isdir(path)]


def tuned_path(recipe: Path) -> Path:
    """``softmax.tuned.json`` for ``softmax.yaml``: where choices that were measured for a recipe lie."""
    return recipe.with_suffix(".tuned.json")
