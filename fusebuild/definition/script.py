"""Scripts into recipes: what ``fusebuild import`` does.

A script that was written for nvFuser's Python frontend is run, in a process of its own, over the recorder of
:class:`~fusebuild.definition.FusionDefinition`: nothing is computed, and neither nvFuser nor torch nor a GPU is needed.
It is run, not read: its code is executed with the rights of whoever imports it.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fusebuild.errors import Diagnostic, RecipeError, SourceLocation, UsageError, one_line
from fusebuild.recipe.recipe import parse_recipe

_CHILD = "from fusebuild.definition.script_process import main; main()"
_log = logging.getLogger("fusebuild")


class ImportedRecipe(msgspec.Struct, frozen=True, kw_only=True):
    """``fusebuild import --json``: one definition; ``path`` is null where nothing was written"""

    fusion: str
    line: Annotated[int, Meta(description="of the script")]
    path: Path | None
    recipe: Annotated[str, Meta(description="the recipe's text")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedDefinition:
    """One definition of a script: the name and the text of its recipe, and where the script makes it."""

    name: str
    text: str
    location: SourceLocation


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptReport:
    """What the process reports of a script: ``diagnostics`` where it gives no definitions, and a ``warning`` where it
    stopped early."""

    definitions: tuple[ImportedDefinition, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    warning: str = ""


def import_script(path: Path, *, timeout: float = 60.0) -> tuple[ImportedDefinition, ...]:
    """Run the script at ``path`` for at most ``timeout`` seconds; gives its definitions in the order of their making.

    Raises :class:`RecipeError` located in the script for what it does wrong and for a script that records nothing, and
    :class:`UsageError` when its process does not come to an end.
    """
    if not path.is_file():
        raise UsageError(f"cannot read {one_line(path)}: it is no file")
    report = _run(path, timeout)
    if report.diagnostics:
        raise RecipeError(report.diagnostics)
    if report.warning:
        _log.warning("%s", report.warning)
    for each in report.definitions:
        parse_recipe(each.text, f"{each.name}.yaml")
    return report.definitions


WriteMode = Literal["x", "w"]
"""How a recipe's file is opened: ``x`` refuses one that is there, ``w`` overwrites it."""


def written(
    definitions: Sequence[ImportedDefinition], script: Path, out: Path | None, *, mode: WriteMode = "x"
) -> tuple[Path | None, ...]:
    """Write the recipes of ``definitions``: the only one to the file ``out``, or each to ``NAME.yaml`` in the folder
    ``out``, which is made where it is not there (a name that ends in ``.yaml`` or ``.yml`` is a file's).

    Gives the path of each; without ``out`` there are none, and there may be only one definition. Raises
    :class:`UsageError` for several definitions without a folder, for a file that is there with other text unless
    ``mode`` overwrites it, and when a file cannot be written.
    """
    is_folder = out is not None and (out.is_dir() or out.suffix not in (".yaml", ".yml"))
    if len(definitions) > 1 and not is_folder:
        names = ", ".join(each.name for each in definitions)
        raise UsageError(f"{one_line(script)} records {len(definitions)} definitions ({names}): name a folder with -o")
    if out is None:
        return (None,) * len(definitions)
    paths = tuple(out / f"{each.name}.yaml" if is_folder else out for each in definitions)
    try:
        paths[0].parent.mkdir(parents=True, exist_ok=True)
        if mode == "x":
            _refuse_others(definitions, paths)
        for each, path in zip(definitions, paths, strict=True):
            path.write_text(each.text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write {one_line(error.filename)}: {error.strerror}") from None
    return paths


def _refuse_others(definitions: Sequence[ImportedDefinition], paths: Sequence[Path]) -> None:
    """Raise for files that hold something else, before any is written."""
    others = [
        one_line(path)
        for each, path in zip(definitions, paths, strict=True)
        if path.exists() and (not path.is_file() or path.read_bytes() != each.text.encode())
    ]
    if others:
        raise UsageError(f"{', '.join(others)} would be overwritten\n  hint: --force overwrites")


def _run(path: Path, timeout: float) -> ScriptReport:
    """What the process reports."""
    with tempfile.TemporaryDirectory(prefix="fusebuild-import-") as folder:
        report = Path(folder) / "report.json"
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", _CHILD, str(path), str(report)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            text=True,
            errors="replace",
        )
        try:
            said, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # with all that the script started
            process.communicate()
            raise UsageError(f"{one_line(path)}: the script did not end within {timeout:g} s") from None
        for line in said.splitlines():
            _log.info("%s: %s", one_line(path.name), line)
        if not report.exists():
            last = said.strip().splitlines()[-1:] or ["it said nothing"]
            raise UsageError(f"{one_line(path)}: its process ended with status {process.returncode} ({last[0]})")
        return msgspec.convert(json.loads(report.read_text(encoding="utf-8")), ScriptReport)
