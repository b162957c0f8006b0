"""The private folder that compilers run in. It lies in the temporary folder, its name means nothing to a shell, and it
is removed when the build ends.

nvcc gives the names of files and of the folder that it runs in to a shell. Here all of them are fusebuild's own, so no
name that a user chose is among them, whatever shells make of it. What a build leaves that was killed is removed by the
next one.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fusebuild.system.disk_space import temporary_folder
from fusebuild.system.folder_lock import is_at

_PREFIX, _LOCK = "fusebuild-work-", "lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkFolder:
    """``temporary`` is where compilers keep files between their steps; ``lock`` is an open file that says, as long as
    a process has it, that somebody works here."""

    path: Path
    lock: int

    @property
    def temporary(self) -> Path:
        return self.path / "tmp"


@contextmanager
def work_folder(environ: Mapping[str, str]) -> Iterator[WorkFolder]:
    """A new work folder, which is removed in the end. Raises :class:`OSError` where none can be made."""
    parent = temporary_folder(environ)
    _remove_abandoned(parent)
    work = _made(parent)
    try:
        work.temporary.mkdir()
        yield work
    finally:
        shutil.rmtree(work.path, ignore_errors=True)
        os.close(work.lock)


def _made(parent: Path) -> WorkFolder:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        with suppress(FileNotFoundError):  # another build took it for abandoned before it was locked
            lock = _lock_file(folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
            if is_at(lock, folder / _LOCK):
                return WorkFolder(path=folder, lock=lock)
            os.close(lock)  # that build had made this lock, and has removed it


def _remove_abandoned(parent: Path) -> None:
    """Remove what killed builds left. A folder that has no lock yet gets one: the build that made it was killed before
    it could, or is just about to, and makes another folder then."""
    for folder in parent.glob(f"{_PREFIX}*"):
        with suppress(OSError):  # somebody else's, or somebody works there
            lock = _lock_file(folder)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


def _lock_file(folder: Path) -> int:
    """The lock of ``folder``, open and not yet locked."""
    return os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
