"""What the user's cache holds, and pruning it: ``fusebuild cache``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, TypedDict

from msgspec import Meta

from fusebuild.build.object_store import Usage, parse_size, usage, user_store
from fusebuild.errors import one_line
from fusebuild.system.resources import cache_dir


class CacheFolder(TypedDict):
    """A part of the cache."""

    name: str
    files: int
    bytes: int


class CacheReport(TypedDict):
    """``fusebuild cache --json``"""

    folder: str
    limit: Annotated[int, Meta(description="bytes of compiled objects that a build leaves at most")]
    folders: list[CacheFolder]
    removed: Annotated[CacheFolder | None, Meta(description="objects that were pruned; null without --prune")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheContents:
    """``held`` says what each folder of the cache holds, ``limit`` how many bytes of objects a build leaves, and
    ``removed`` what was pruned, where that was asked for."""

    folder: Path
    limit: int
    held: Mapping[str, Usage]
    removed: Usage | None

    def as_json(self) -> CacheReport:
        """The same as JSON has it."""
        return {
            "folder": str(self.folder),
            "limit": self.limit,
            "folders": [_json(name, each) for name, each in self.held.items()],
            "removed": None if self.removed is None else _json("objects", self.removed),
        }

    def as_text(self) -> str:
        """The same for people."""
        removed = self.removed
        return "\n".join(
            [
                *([f"removed {removed.files} objects, {removed.bytes:,} bytes"] if removed else []),
                f"{one_line(self.folder)}: at most {self.limit:,} bytes of objects",
                *(f"  {name:12} {each.files:6} files {each.bytes:16,} bytes" for name, each in self.held.items()),
            ]
        )


def cache_report(environ: Mapping[str, str], prune: str | None) -> CacheContents:
    """What there is, after objects were removed until at most ``prune`` bytes of them are left (``500M``, or nothing
    for the limit). Raises :class:`UsageError` for what is no size."""
    store = user_store(environ)
    removed = None if prune is None else store.prune(parse_size(prune) if prune else store.limit)
    folder = cache_dir(environ)
    return CacheContents(folder=folder, limit=store.limit, held=_held(folder), removed=removed)


def _held(folder: Path) -> dict[str, Usage]:
    try:
        kinds = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:
        return {}
    return {kind.name: usage(kind) for kind in kinds}


def _json(name: str, held: Usage) -> CacheFolder:
    return {"name": name, "files": held.files, "bytes": held.bytes}
