"""The files that hold recipes, as paths name them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fusebuild.errors import UsageError

MAX_BYTES = 1 << 20
"""The largest recipe."""


def recipe_files(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The recipes that ``paths`` name, once each: files, or folders whose ``*.yaml`` are taken in the order of names.

    Raises :class:`UsageError` for a folder that holds none.
    """
    files: list[Path] = []
    for path in paths:
        found = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        if not found:
            raise UsageError(f"{path} holds no *.yaml recipe")
        files += found
    return tuple(dict.fromkeys(files))


def tuned_path(recipe: Path) -> Path:
    """``softmax.tuned.json`` for ``softmax.yaml``: where choices that were measured for a recipe lie."""
    return recipe.with_suffix(".tuned.json")
