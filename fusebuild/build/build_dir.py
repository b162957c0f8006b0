"""The folder that a build writes to: the paths in it, its lock, and writing files that appear whole or not at all."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fusebuild.artifact.file import store_artifact
from fusebuild.errors import CompileError, UsageError, one_line
from fusebuild.system.folder_lock import locked

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]*[A-Za-z0-9_-]")


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildDir:
    """Every path that a build writes."""

    root: Path

    def __post_init__(self) -> None:
        if "\0" in str(self.root):
            raise UsageError(f"{str(self.root)!r} names no folder: there is a NUL in it")

    def artifact(self, fusion: str) -> Path:
        """``<root>/<fusion>.fuse``; raises :class:`UsageError` for a name that is more than a name."""
        if not _PLAIN_NAME.fullmatch(fusion):
            raise UsageError(f"'{fusion}' cannot name a file: only letters, digits, '_', '.' and '-' can")
        return self.root / f"{fusion}.fuse"

    @property
    def state(self) -> Path:
        """The folder of all that is no artifact."""
        return self.root / ".fusebuild"

    @property
    def compile_commands(self) -> Path:
        """How each kernel of the last build is compiled, as editors read it; paths in it are relative to its folder."""
        return self.state / "compile_commands.json"

    @property
    def record(self) -> Path:
        """The record of what was built here, and from what: see :mod:`fusebuild.build.record`."""
        return self.state / "record.json"

    @property
    def lock(self) -> Path:
        """Held while a compile reads, builds and writes here."""
        return self.state / "lock"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold :attr:`lock`, which the caller may hold already. Raises :class:`CompileError` where none can be made."""
        with ExitStack() as held:
            with self.explained():
                held.enter_context(locked(self.lock))
            yield

    @contextmanager
    def explained(self) -> Iterator[None]:
        """An :class:`OSError` is a :class:`CompileError` that says what could not be done here."""
        try:
            yield
        except OSError as error:
            place = one_line(self.root)
            raise CompileError(f"cannot build in {place}: {error.strerror} ({one_line(error.filename)})") from error

    def store(self, path: Path, data: bytes) -> bool:
        """:func:`store_artifact` in here, once what a build left of ``path`` that was killed is removed. The caller
        holds :attr:`lock`, so that nobody else writes here. Raises :class:`ArtifactWriteError`."""
        for half in path.parent.glob(f".{path.name}.*.tmp"):
            with suppress(OSError):  # then nothing can be written either
                half.unlink()
        return store_artifact(path, data)


def write_if_changed(path: Path, data: str | bytes) -> bool:
    """Write ``data`` unless ``path`` holds it already; True when it was written."""
    data = data.encode() if isinstance(data, str) else data
    if path.is_file() and path.read_bytes() == data:
        return False
    write_whole(path, data)
    return True


def write_whole(path: Path, data: bytes) -> None:
    """Write ``data``, whatever ``path`` holds. Readers find the old file or the new one, never a part of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(error.errno, error.strerror, str(path)) from error  # a full disk is said of no file
        raise
