"""Room on the disks that compilers write to. Where it lacks they fail, some with no word of why: nvcc even exits 0 and
leaves half an object."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

TEMPORARY_FOLDERS = ("TMPDIR", "TMP", "TEMP")
"""Variables that name where compilers keep files between their steps."""

_ROOM_TO_COMPILE = 2**20


def temporary_folder(environ: Mapping[str, str]) -> Path:
    """Where compilers keep files between their steps: the first that exists of those that ``environ`` names. (Python's
    own ``tempfile`` passes over a full one; compilers do not.)"""
    named = [environ[name] for name in TEMPORARY_FOLDERS if environ.get(name)]
    return next((Path(folder) for folder in named if os.path.isdir(folder)), Path("/tmp"))


def lack_of_room(folder: Path) -> str:
    """A sentence when the disk of ``folder``, which exists, has no room; else empty."""
    free = shutil.disk_usage(folder).free
    return f"only {free} bytes are free in {folder}" if free < _ROOM_TO_COMPILE else ""
