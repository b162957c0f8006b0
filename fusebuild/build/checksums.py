"""SHA256SUMS: the digests of a folder's artifacts, as ``sha256sum --check`` reads and signing tools sign them.

A line has the digest of what compile made, not of the file that lies there now: an artifact that somebody else put
there gets no line, and the line of one that was changed since stays, so that ``sha256sum --check`` fails. Lines come
from the compile that writes the file, then from the record of earlier ones, and, where there is no record, as after a
clone, from the file as it was."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from fusebuild.build.build_dir import BuildDir
from fusebuild.build.record import read_record
from fusebuild.system.regular_file import file_bytes

NAME = "SHA256SUMS"

_LINE = re.compile(r"(?P<sha256>[0-9a-f]{64})  (?P<name>[A-Za-z0-9_.-]+\.fuse)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundChecksums:
    """The digest of each artifact that the file lists; ``problem`` says why it lists none that can be read."""

    digests: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""


def find_checksums(build_dir: BuildDir) -> FoundChecksums | None:
    """The digests in SHA256SUMS of ``build_dir``; None where there is no such file."""
    try:
        text = file_bytes(build_dir.root / NAME).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        return FoundChecksums(problem=f"{NAME} cannot be read: {error.strerror}")
    digests = {match["name"]: match["sha256"] for line in text.splitlines() if (match := _LINE.fullmatch(line))}
    return FoundChecksums(digests=digests, problem="" if digests else f"{NAME} has no line of an artifact")


def write_checksums(build_dir: BuildDir, made: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write the file where its text changes. ``made`` are the digests of artifacts that were made just now, by name of
    the file; the caller holds the lock of ``build_dir``. Raises :class:`ArtifactWriteError`."""
    recorded = {f"{each.fusion}.fuse": each.sha256 for each in read_record(build_dir).recipes.values()}
    found = find_checksums(build_dir) or FoundChecksums()
    digests = {**found.digests, **recorded, **made}
    there = {path.name for path in build_dir.root.glob("*.fuse")}
    text = "".join(f"{digests[name]}  {name}\n" for name in sorted(digests.keys() & there))
    build_dir.store(build_dir.root / NAME, text.encode())
