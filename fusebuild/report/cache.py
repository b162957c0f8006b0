"""What the user's cache holds, and pruning it: ``fusebuild cache``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from fusebuild.build.object_store import Usage, parse_size, usage, user_store
from fusebuild.errors import one_line
from fusebuild.system.resources import cache_dir


class CacheFolder(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the cache."""

    name: str
    files: int
    bytes: int


class CacheReport(msgspec.Struct, frozen=True, kw_only=True):
    """``fusebuild cache --json``"""

    folder: Path
    limit: Annotated[int, Meta(description="bytes of compiled objects that a build leaves at most")]
    folders: tuple[CacheFolder, ...]
    removed: Annotated[CacheFolder | None, Meta(description="objects that were pruned; null without --prune")]

    def as_text(self) -> str:
        """The report for people."""
        removed = self.removed
        return "\n".join(
            [
                *([f"removed {removed.files} objects, {removed.bytes:,} bytes"] if removed else []),
                f"{one_line(self.folder)}: at most {self.limit:,} bytes of objects",
                *(f"  {each.name:12} {each.files:6} files {each.bytes:16,} bytes" for each in self.folders),
            ]
        )


def cache_report(environ: Mapping[str, str], prune: str | None) -> CacheReport:
    """What the cache holds, after objects were removed until at most ``prune`` bytes of them are left (``500M``, or an
    empty text for the limit). Raises :class:`UsageError` for what is no size."""
    store = user_store(environ)
    removed = None if prune is None else store.prune(parse_size(prune) if prune else store.limit)
    folder = cache_dir(environ)
    _, kinds, _ = next(os.walk(folder), ("", [], []))  # a folder for each kind of thing; none where it cannot be read
    return CacheReport(
        folder=folder,
        limit=store.limit,
        folders=tuple(_part(kind, usage(folder / kind)) for kind in sorted(kinds)),
        removed=None if removed is None else _part("objects", removed),
    )


def _part(name: str, held: Usage) -> CacheFolder:
    return CacheFolder(name=name, files=held.files, bytes=held.bytes)
