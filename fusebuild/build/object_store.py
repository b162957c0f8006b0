"""Compiled objects, kept in the user's cache: whatever folder a build writes to, no object is compiled twice.

An object is named by the digest of all that it is made from, so it is never out of date. It lies in one file with what
the compiler said of it, behind a digest of both and of the name: a file that was damaged, cut short or put in another
one's place is found out when it is read, and its object is compiled again. Files appear whole or not at all, and who
reads one holds all of it in memory, so processes need no lock here. A store that cannot be read or written, or that
disappears, only makes builds slower. What was not used for longest goes first when there is more than ``limit`` bytes.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from fusebuild.build.build_dir import write_whole
from fusebuild.errors import UsageError
from fusebuild.system.regular_file import file_bytes
from fusebuild.system.resources import cache_dir

logger = logging.getLogger(__name__)

LIMIT_VARIABLE = "FUSEBUILD_CACHE_BYTES"
DEFAULT_LIMIT = 2 * 2**30
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_SIZE = re.compile(r"(\d{1,15})([KMGT]?)(i?B)?", re.IGNORECASE)
_DIGEST_BYTES = 32


class CompiledObject(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An object that was found whole after it was compiled, and what its compiler said. ``name`` is
    ``<target>/<name>``."""

    name: str
    data: bytes
    log: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Some files, and the bytes that they hold."""

    files: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectStore:
    """The objects below ``root``, at most ``limit`` bytes after each build."""

    root: Path
    limit: int = DEFAULT_LIMIT

    def get(self, name: str) -> CompiledObject | None:
        """The object called ``name``, unless it is not there or not as it was put there."""
        path = self.root / name
        try:
            found = _unsealed(file_bytes(path))
        except OSError:
            return None
        if found is None or found.name != name:
            logger.info("compiled again, because it is damaged: %s", path)
            return None
        with suppress(OSError):
            os.utime(path)  # it was used now
        return found

    def put(self, compiled: CompiledObject) -> None:
        """Keep an object. A store that cannot be written to keeps none, and nothing is raised."""
        try:
            write_whole(self.root / compiled.name, _sealed(compiled))
        except OSError as error:
            logger.debug("an object is not kept: %s", error)

    def prune(self, limit: int) -> Usage:
        """Remove objects, those first that were not used for longest, until at most ``limit`` bytes are left. Gives how
        much was removed."""
        files = sorted(_files_below(self.root), key=lambda file: file[1].st_mtime_ns)
        excess = sum(status.st_size for _, status in files) - limit
        removed = []
        for path, status in files:
            if excess <= 0:
                break
            with suppress(OSError):  # another process removes the same
                path.unlink()
                removed.append(status.st_size)
            excess -= status.st_size
        return Usage(files=len(removed), bytes=sum(removed))


def user_store(environ: Mapping[str, str]) -> ObjectStore:
    """The store in the user's cache. Raises :class:`UsageError` for a limit that is no size."""
    given = environ.get(LIMIT_VARIABLE, "")
    limit = parse_size(given, f"{LIMIT_VARIABLE}: ") if given else DEFAULT_LIMIT
    return ObjectStore(root=cache_dir(environ) / "objects", limit=limit)


def parse_size(text: str, place: str = "") -> int:
    """The bytes that ``500M`` or ``2G`` says (units are powers of 1024). Raises :class:`UsageError`, which begins with
    the ``place``."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{place}'{text}' is no size such as 2G, 500M or 0")
    return int(match[1]) * _UNITS[match[2].upper()]


def usage(folder: Path) -> Usage:
    """How many files there are below ``folder``, and their bytes."""
    sizes = [status.st_size for _, status in _files_below(folder)]
    return Usage(files=len(sizes), bytes=sum(sizes))


def _files_below(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            with suppress(OSError):  # another process removed it
                status = path.lstat()
                if stat.S_ISREG(status.st_mode):
                    yield path, status


def _sealed(compiled: CompiledObject) -> bytes:
    body = msgspec.msgpack.encode(compiled)
    return _digest(body) + body


def _unsealed(sealed: bytes) -> CompiledObject | None:
    body = sealed[_DIGEST_BYTES:]
    if _digest(body) != sealed[:_DIGEST_BYTES]:
        return None
    try:
        return msgspec.msgpack.decode(body, type=CompiledObject)
    except msgspec.DecodeError:  # another fusebuild's
        return None


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=_DIGEST_BYTES).digest()
