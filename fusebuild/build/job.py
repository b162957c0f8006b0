"""One object to compile: the text of its kernel, its target, the headers that it includes, and whether it is usable."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from fusebuild.artifact import elf
from fusebuild.artifact.kernel_resources import KernelResources, resources_of
from fusebuild.build.digest import digest_of
from fusebuild.build.object_store import CompiledObject
from fusebuild.errors import UsageError
from fusebuild.system.resources import include_dir
from fusebuild.target.table import Target

_SHOWN_LINES = 40

Key = tuple[str, str]
"""(target, kernel): how objects are addressed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSource:
    """One rendered kernel. ``name`` is its entry symbol and file stem, and already carries a digest of ``text``."""

    name: str
    text: str

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[A-Za-z0-9_]+", self.name):
            raise UsageError(f"'{self.name}' is no kernel name: only letters, digits and _ are")


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """The device header's files by path below the include folder, and one hex digest of all."""

    files: Mapping[str, bytes]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """One object that could not be made. ``command`` is empty when a compiler succeeded but its object is unusable."""

    kernel: str
    target: str
    output: str
    command: str = ""

    def __str__(self) -> str:
        lines = self.output.strip().splitlines()
        shown = lines[:_SHOWN_LINES]
        if len(lines) > len(shown):
            shown.append(f"… {len(lines) - len(shown)} more lines")
        return "\n".join([f"kernel {self.kernel} does not compile for {self.target}:", *shown, self.command]).rstrip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One object to make. ``name`` is that of :func:`object_name`."""

    kernel: KernelSource
    target: Target
    name: str
    key: Key = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (self.target.name, self.kernel.name))

    @property
    def stored_name(self) -> str:
        """The name of the object in the store of objects."""
        return f"{self.target.name}/{self.name}"

    @property
    def rule(self) -> str:
        return "host" if self.target.is_host else "cubin"

    @property
    def output(self) -> str:
        """The object as ``build.ninja`` names it."""
        return f"{self.stored_name}.{'so' if self.target.is_host else 'cubin'}"

    @property
    def input(self) -> str:
        return f"kernels/{self.kernel.name}.cu"

    def failure(self, output: str, command: str = "") -> Failure:
        return Failure(kernel=self.kernel.name, target=self.target.name, output=output, command=command)

    def problem(self, data: bytes) -> str:
        """Why ``data`` cannot be used for it; empty when it can."""
        reason = elf.problem(data, cuda=not self.target.is_host, symbol=self.kernel.name)
        if reason or self.target.is_host:
            return reason
        if name := elf.path_dependent_symbol(data):
            return f"its device function {name} was not inlined, so its bytes depend on the directory"
        return ""

    def resources(self, compiled: CompiledObject) -> KernelResources | None:
        """What the kernel takes of the chip, as ptxas or the cubin says; None where neither does, and for a host
        object."""
        return None if self.target.is_host else resources_of(compiled.log, compiled.data)


def read_headers() -> Headers:
    """The device header as it is now."""
    root = include_dir()
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    names_and_digests = [(name, hashlib.sha256(data).hexdigest()) for name, data in files.items()]
    return Headers(files=files, digest=digest_of(names_and_digests))
