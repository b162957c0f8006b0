"""The files that hold recipes, what recipes include, and artifacts, as paths name them."""

from __future__ import annotations

import logging
import os
import re
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from fusebuild.errors import UsageError, one_line

logger = logging.getLogger(__name__)

_KEY = re.compile(r"^([a-z]+):", re.MULTILINE)

MAX_BYTES = 1 << 20
"""The largest recipe."""


ReadIncluded: TypeAlias = "Callable[[str], bytes]"
"""The bytes of what a recipe includes by a path. Raises :class:`UnreadableError`."""


class UnreadableError(Exception):
    """A file that a recipe includes cannot be read; the text says why."""


def recipe_files(paths: Sequence[Path]) -> tuple[Path, ...]:
    """The recipes that ``paths`` name, once each: files, or folders whose ``*.yaml`` are taken in the order of names,
    but hidden ones, since editors keep locks and copies in such, and libraries that recipes include.

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
    files = [path for path in named if not path.name.startswith(".") and not os.path.isdir(path)]
    return [path for path in files if not _is_library(path)]


def _is_library(path: Path) -> bool:
    """Whether the file at ``path``, by the keys that begin its lines, is one that recipes include, and no recipe."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        with path.open(encoding="utf-8") as file:
            text = file.read(MAX_BYTES)
    except (OSError, ValueError):
        return False  # reading it as a recipe says what is wrong
    keys = set(_KEY.findall(text))
    is_library = bool(keys & {"composites", "lambdas"}) and not keys & {"fusion", "inputs", "body", "outputs"}
    if is_library:
        logger.info("%s: a library for recipes that include it, and no recipe", one_line(path))
    return is_library


def tuned_path(recipe: Path) -> Path:
    """``softmax.tuned.json`` for ``softmax.yaml``: where choices that were measured for a recipe lie."""
    return recipe.with_suffix(".tuned.json")


def in_folder(folder: Path) -> ReadIncluded:
    """Reads from ``folder``, and not from outside of it, wherever links lead."""

    def read(path: str) -> bytes:
        file = folder / path
        try:
            inside = os.path.realpath(folder)
            if os.path.commonpath([inside, os.path.realpath(file)]) != inside:
                raise UnreadableError("it leads out of the recipe's folder")
            if not stat.S_ISREG(file.stat().st_mode):
                raise UnreadableError("it is no file")
            with file.open("rb") as opened:
                return opened.read(MAX_BYTES + 1)
        except OSError as error:
            raise UnreadableError(error.strerror or str(error)) from None

    return read
