"""The device header as g++ has read it once for many kernels: reading it as text takes more than half of g++'s time for
a kernel (0.17 of 0.33 s on a machine with 2 cores). Objects are the same with it and without it.

A build of many kernels makes one for each target that is a CPU and keeps it in the store of objects, where later
builds, however small, find it. GCC looks by itself whether a precompiled header fits its version and the flags of a
command; where it does not, or where there is none, the text is read.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fusebuild.build.build_dir import write_whole
from fusebuild.build.digest import digest_of
from fusebuild.build.job import Headers, Job
from fusebuild.build.ninja import header_flags, header_output
from fusebuild.build.object_store import ObjectStore
from fusebuild.build.toolchain import Toolchain
from fusebuild.target.table import Target

_WORTH_MAKING = 4
"""With at least so many kernels for the CPU to each compiler that runs at a time, the device header is precompiled.
(With two, compiling is as fast without.)"""

_LARGEST_PART = 16
"""A precompiled header (35 MB) is kept where it takes at most one part in so many of what the store may hold: builds
use it so often that it would be the last to be removed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecompiledHeader:
    """The device header for ``target``. ``digest`` is that of all that it is made from."""

    target: Target
    digest: str

    def taken(self, store: ObjectStore, work: Path) -> bool:
        """Whether ``store`` has it, as it was put there. Compilers in the work folder then find it, by a link: it is
        too large to be copied for every build."""
        with suppress(OSError):  # then compilers read the text
            for kept in _folder(store).glob(f"{self.target.name}-{self.digest}-*.gch"):
                if kept.name == self._name(kept.read_bytes()):
                    os.utime(kept)  # it was used now
                    place = work / header_output(self.target)
                    place.parent.mkdir(parents=True)
                    place.symlink_to(os.path.abspath(kept))
                    return True
                kept.unlink()
        return False

    def keep(self, store: ObjectStore, work: Path) -> None:
        """Put the one that was made in the work folder, if it was, into ``store``."""
        with suppress(OSError):  # then later builds read the text
            data = (work / header_output(self.target)).read_bytes()
            if len(data) * _LARGEST_PART <= store.limit:
                write_whole(_folder(store) / self._name(data), data)

    def _name(self, data: bytes) -> str:
        """The name of its file where it is ``data``: one that is damaged has another name than it should have."""
        return f"{self.target.name}-{self.digest}-{hashlib.sha256(data).hexdigest()[:32]}.gch"


def _folder(store: ObjectStore) -> Path:
    return store.root / "precompiled"


def headers_to_make(
    jobs: Sequence[Job], toolchain: Toolchain, headers: Headers, store: ObjectStore, work: Path, at_once: int
) -> list[PrecompiledHeader]:
    """The headers that ``jobs`` are compiled sooner with, ``at_once`` of them at a time, and that ``store`` does not
    have: one for a target that is a CPU, of which there are jobs enough, where the compiler is GCC. Those that it has
    are then in the work folder."""
    if not toolchain.has_gcc:
        return []
    to_make = []
    for target, number in Counter(job.target for job in jobs if job.target.is_host).items():
        header = PrecompiledHeader(target=target, digest=_digest(target, toolchain, headers))
        if not header.taken(store, work) and number >= _WORTH_MAKING * at_once:
            to_make.append(header)
    return to_make


def _digest(target: Target, toolchain: Toolchain, headers: Headers) -> str:
    return digest_of([headers.digest, header_flags(target), toolchain.digest_for(target)])[:32]
