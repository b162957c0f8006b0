"""Room on the disks that compilers write to. Where it lacks they fail, some with no word of why: nvcc even exits 0 and
leaves half an object."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from fusebuild.errors import ToolchainError, one_line

TEMPORARY_FOLDERS = ("TMPDIR", "TMP", "TEMP")
"""Variables that name where compilers keep files between their steps."""

_ROOM_TO_COMPILE = 2**20
_NO_SPACE = "No space left on device"
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9_./+-]*")


def is_plain(path: str) -> bool:
    """Whether ``path`` is absolute and means nothing but itself to any shell."""
    return _PLAIN_PATH.fullmatch(path) is not None


def temporary_folder(environ: Mapping[str, str]) -> Path:
    """Where compilers run and keep files between their steps: the first folder that ``environ`` names, can be written
    to, and has a plain name; else ``/tmp``. (Python's own ``tempfile`` passes over a full one; compilers do not.)

    Raises :class:`ToolchainError` where even that has another name.
    """
    named = [environ[name] for name in TEMPORARY_FOLDERS if environ.get(name)]
    for folder in map(os.path.realpath, [*named, "/tmp"]):
        if is_plain(folder) and os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK):
            return Path(folder)
    wanted = "one that can be written to and whose name has only letters, digits and _ . + -"
    raise ToolchainError(f"compilers have no folder to run in: neither TMPDIR nor /tmp is {wanted}")


def lack_of_room(folder: Path, said: str = "") -> str:
    """A sentence when the disk of ``folder``, which exists, has no room, or compilers that wrote there ``said`` that it
    had none; else empty."""
    free = shutil.disk_usage(folder).free
    if free < _ROOM_TO_COMPILE:
        return f"only {free} bytes are free in {one_line(folder)}"
    return f"compilers had no room in {one_line(folder)}, where {free} bytes are free now" if _NO_SPACE in said else ""
