"""NAME.fuse: one file that holds a fusion's plan, its recipe, its kernels as text and as objects for some targets.

The file is a stored zip with one spelling (:mod:`fusebuild.artifact.stored_zip`), so equal contents are equal bytes:

    manifest.json         format, fusion, toolchain, what the contents were made from, sha256 and size of each member,
                          registers, shared memory and spills of each cubin
    plan.json             what the executor runs (:mod:`fusebuild.artifact.plan`)
    recipe.yaml           the recipe, as it was read
    included.json         the text of each file that the recipe includes, by its path; not there where it includes none
    kernels/<name>.cu     each kernel's rendered text
    <target>/<name>.cubin (or .so for a host target) the same kernel, compiled

:func:`open_artifact` checks everything before anything is used; whatever is wrong is one :class:`ArtifactError`.
Nothing of a file is executed by opening it. This module is part of the runtime: it imports no compiler and no YAML.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec

from fusebuild.artifact import elf, plan_check, stored_zip
from fusebuild.artifact.architecture import architecture_of
from fusebuild.artifact.kernel_resources import KernelResources
from fusebuild.artifact.plan import FORMAT_VERSION, Plan, TargetPlan, Versioned, decode, encode
from fusebuild.artifact.stored_zip import ArchiveError
from fusebuild.errors import ArtifactError, ArtifactWriteError, UsageError, one_line

Content = TypeVar("Content")

MANIFEST, PLAN, RECIPE, INCLUDED = "manifest.json", "plan.json", "recipe.yaml", "included.json"

_SHA256 = re.compile(r"[0-9A-Fa-f]{64}")
_UNREADABLE = (msgspec.MsgspecError, RecursionError, OverflowError, ValueError)
"""What msgspec raises for JSON that is malformed, too deep, out of range, or not UTF-8."""


class MemberRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What the manifest says of another member: sha256 in hex, size in bytes, and what a cubin takes of the chip where
    ptxas told."""

    sha256: str
    size: int
    resources: KernelResources | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``toolchain`` maps each tool to its version; ``sources`` maps whatever the contents were made from (the recipe,
    templates, headers, flags) to a digest, so that ``fusebuild check`` can compare without compiling."""

    format: int
    fusion: str
    digest: str
    toolchain: dict[str, str]
    sources: dict[str, str]
    members: dict[str, MemberRecord]


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """An opened and validated artifact; the whole file is in memory."""

    path: Path
    manifest: Manifest
    plan: Plan
    members: Mapping[str, bytes]

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets that it holds objects for, in the plan's order."""
        return tuple(target.target for target in self.plan.targets)

    @property
    def toolchain(self) -> Mapping[str, str]:
        """The version of each tool that made it."""
        return self.manifest.toolchain

    def member(self, name: str) -> bytes:
        """The bytes of member ``name``; raises :class:`ArtifactError` when there is none."""
        if name not in self.members:
            raise ArtifactError(str(self.path), "it is missing", name)
        return self.members[name]

    @property
    def included(self) -> dict[str, str]:
        """The texts of what the recipe includes, by path."""
        return _decode_included(self.members[INCLUDED]) if INCLUDED in self.members else {}

    def object_bytes(self, target: str, kernel: str) -> bytes:
        """The object of ``kernel`` for ``target``; raises :class:`ArtifactError` when there is none."""
        return self.member(object_member(target, kernel))

    def resources(self, target: str, kernel: str) -> KernelResources | None:
        """What the object of ``kernel`` for ``target`` takes of the chip; None for one of the host, and where nobody
        said so. Raises :class:`ArtifactError` when there is no such object."""
        return self._object(target, kernel).resources

    def object_digest(self, target: str, kernel: str) -> str:
        """The sha256, in hex, of the object of ``kernel`` for ``target``; raises :class:`ArtifactError` when there is
        none."""
        return self._object(target, kernel).sha256

    def _object(self, target: str, kernel: str) -> MemberRecord:
        self.object_bytes(target, kernel)
        return self.manifest.members[object_member(target, kernel)]

    def kernel_text(self, kernel: str) -> str:
        """The rendered text of ``kernel``; raises :class:`ArtifactError` when there is none."""
        return self.member(kernel_member(kernel)).decode("utf-8")

    def require_target(self, name: str) -> TargetPlan:
        """The plan for target ``name``; raises :class:`ArtifactError` naming what it holds instead."""
        target = self.plan.target(name)
        if target is None:
            raise ArtifactError(str(self.path), f"it holds no code for {name}, only for {', '.join(self.targets)}")
        return target


def kernel_member(kernel: str) -> str:
    """The member that holds the text of ``kernel``."""
    return f"kernels/{kernel}.cu"


def object_member(target: str, kernel: str) -> str:
    """The member that holds the object of ``kernel`` for ``target``."""
    return f"{target}/{kernel}.{'so' if target.startswith('host') else 'cubin'}"


def write_artifact(
    path: Path,
    *,
    plan: Plan,
    recipe: bytes,
    kernels: Mapping[str, str],
    objects: Mapping[tuple[str, str], bytes],
    toolchain: Mapping[str, str],
    sources: Mapping[str, str],
    resources: Mapping[tuple[str, str], KernelResources] | None = None,
) -> bool:
    """:func:`encode_artifact`, then :func:`store_artifact`."""
    data = encode_artifact(path, plan=plan, recipe=recipe, kernels=kernels, objects=objects,
                           toolchain=toolchain, sources=sources, resources=resources)  # fmt: skip
    return store_artifact(path, data)


def encode_artifact(
    path: Path,
    *,
    plan: Plan,
    recipe: bytes,
    kernels: Mapping[str, str],
    objects: Mapping[tuple[str, str], bytes],
    toolchain: Mapping[str, str],
    sources: Mapping[str, str],
    resources: Mapping[tuple[str, str], KernelResources] | None = None,
    included: Mapping[str, str] | None = None,
) -> bytes:
    """The bytes of the artifact; ``path`` is what messages call it.

    ``kernels`` maps names to texts, ``objects`` maps (target, kernel) to ELF bytes; both must be exactly what ``plan``
    launches. ``resources`` says what the cubins among the objects take of the chip. Raises :class:`ArtifactError` for
    contents that :func:`open_artifact` would refuse.
    """
    members = {PLAN: encode(plan), RECIPE: recipe} | ({INCLUDED: _encode_included(included)} if included else {})
    members |= {kernel_member(name): text.encode() for name, text in kernels.items()}
    members |= {object_member(target, kernel): data for (target, kernel), data in objects.items()}
    used = {object_member(*key): each for key, each in (resources or {}).items()}
    manifest = Manifest(
        format=FORMAT_VERSION,
        fusion=plan.fusion,
        digest=plan.digest,
        toolchain=dict(toolchain),
        sources=dict(sources),
        members={name: _record(data, used.get(name)) for name, data in members.items()},
    )
    members[MANIFEST] = _encode_manifest(manifest)
    with _named(path):
        _validate(members)
        return stored_zip.encode(members)


def store_artifact(path: Path, data: bytes) -> bool:
    """Write the bytes of an artifact; False when the file holds exactly these already and was left alone. The file
    appears whole or not at all. Raises :class:`ArtifactWriteError` for a path that cannot be written."""
    try:
        return _replace(path, data)
    except OSError as error:
        raise ArtifactWriteError(str(path), f"it cannot be written: {error.strerror}") from error


def is_artifact(path: Path) -> bool:
    """Whether ``path`` is an artifact by its name or, whatever it is called, by what it begins with."""
    if path.suffix == ".fuse":
        return True
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            return file.read(len(stored_zip.MAGIC)) == stored_zip.MAGIC
    except (OSError, ValueError):
        return False  # reading it as what it is called says why


def open_artifact(path: str | os.PathLike[str], *, sha256: str | None = None) -> Artifact:
    """Read and validate the artifact at ``path``, whose bytes have to have the digest ``sha256`` where one is given (64
    hexadecimal digits). The file is read once: what has that digest is what is used.

    Raises :class:`ArtifactError` naming the file, the member at fault and the reason, and :class:`UsageError` for a
    ``sha256`` that is none.
    """
    path = Path(path)
    if path.suffix in (".yaml", ".yml") and not is_artifact(path):
        command = f"fusebuild compile {shlex.quote(str(path))}"
        raise ArtifactError(str(path), f"it is a recipe, not an artifact: compile it\n  hint: {command}")
    if sha256 is not None and not _SHA256.fullmatch(sha256):
        raise UsageError(f"{sha256!r} is no sha256: expected 64 hexadecimal digits")
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ArtifactError(str(path), "it is not a file")
        if path.stat().st_size > stored_zip.MAX_BYTES:
            raise ArtifactError(str(path), f"it is larger than {stored_zip.MAX_BYTES} bytes")
        data = path.read_bytes()
    except OSError as error:
        raise ArtifactError(str(path), f"it cannot be read: {error.strerror}") from error
    except ValueError as error:  # a path with a NUL in it
        raise ArtifactError(str(path), f"it cannot be read: {error}") from error
    if sha256 is not None and (found := hashlib.sha256(data).hexdigest()) != sha256.lower():
        raise ArtifactError(str(path), f"its sha256 is {found}, expected {sha256.lower()}")
    return decode_artifact(data, path)


def decode_artifact(data: bytes, path: Path) -> Artifact:
    """Validate ``data``, the bytes of the artifact at ``path``.

    Raises :class:`ArtifactError`, and nothing else, naming the file, the member at fault and the reason.
    """
    with _named(path):
        members = stored_zip.decode(data)
        manifest, plan = _validate(members)
    return Artifact(path=path, manifest=manifest, plan=plan, members=members)


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """A :class:`ArchiveError` inside is an :class:`ArtifactError` of ``path``."""
    try:
        yield
    except ArchiveError as error:
        raise ArtifactError(str(path), error.reason, error.member) from None


def _record(data: bytes, resources: KernelResources | None = None) -> MemberRecord:
    return MemberRecord(sha256=hashlib.sha256(data).hexdigest(), size=len(data), resources=resources)


def _encode_manifest(manifest: Manifest) -> bytes:
    return msgspec.json.format(msgspec.json.encode(manifest, order="deterministic"), indent=2) + b"\n"


def _replace(path: Path, data: bytes) -> bool:
    with suppress(FileNotFoundError):
        if stat.S_ISREG(path.stat().st_mode) and path.read_bytes() == data:
            return False
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return True


def _validate(members: Mapping[str, bytes]) -> tuple[Manifest, Plan]:
    """Check ``members`` against the manifest and the plan among them."""
    for name in members:
        parts = name.split("/")
        if len(parts) > 2 or not all(plan_check.PLAIN_NAME.fullmatch(part) and part.strip(".") for part in parts):
            raise ArchiveError("it is no name for a member", name)
    for name in (MANIFEST, PLAN):
        if name not in members:
            raise ArchiveError("it is missing", name)
    _check_format(members[MANIFEST])
    manifest = _decoded(members, MANIFEST, partial(msgspec.json.decode, type=Manifest), _encode_manifest)
    _check_digests(members, manifest)
    plan = _decoded(members, PLAN, decode, encode)
    if problem := plan_check.validate_plan(plan):
        raise ArchiveError(one_line(problem), PLAN)
    if (plan.fusion, plan.digest) != (manifest.fusion, manifest.digest):
        raise ArchiveError("it describes another fusion than the manifest", PLAN)
    _check_contents(members, plan)
    return manifest, plan


def _check_format(data: bytes) -> None:
    """A newer format may have other fields, so this looks at nothing else."""
    try:
        found = msgspec.json.decode(data, type=Versioned).format
    except _UNREADABLE as error:
        raise ArchiveError(f"it cannot be decoded: {error}", MANIFEST) from None
    if found > FORMAT_VERSION:
        raise ArchiveError(f"made by a newer fusebuild: format {found}, this runtime reads {FORMAT_VERSION}")
    if found != FORMAT_VERSION:
        raise ArchiveError(f"it has format {found}, this runtime reads {FORMAT_VERSION}")


def _decoded(
    members: Mapping[str, bytes], name: str, decode: Callable[[bytes], Content], encode: Callable[[Content], bytes]
) -> Content:
    """What the member ``name`` says, in its one spelling: no reader must be able to read something else in it."""
    try:
        found = decode(members[name])
        canonical = encode(found)
    except _UNREADABLE as error:
        raise ArchiveError(f"it cannot be decoded: {error}", name) from None
    if canonical != members[name]:
        raise ArchiveError("it is not in canonical form", name)
    return found


def _check_digests(members: Mapping[str, bytes], manifest: Manifest) -> None:
    for name in sorted(manifest.members.keys() - members.keys()):
        raise ArchiveError("it is missing", name)
    for name in sorted(members.keys() - manifest.members.keys() - {MANIFEST}):
        raise ArchiveError("the manifest does not know it", name)
    for name, record in manifest.members.items():
        if name == MANIFEST or _record(members[name], record.resources) != record:
            raise ArchiveError("its sha256 or size is not what the manifest says", name)
        if record.resources is not None and not name.endswith(".cubin"):
            raise ArchiveError("it is no cubin, and has resources of one", name)


def _object_problem(data: bytes, target: str, kernel: str, given: Sequence[tuple[int, ...]]) -> str:
    """Why ``data`` is no whole object of ``kernel`` for ``target`` that can be launched with arguments of so many bytes
    each, the lists of ``given``; empty where it is one. A host object is asked for its parameters when it is loaded."""
    if target.startswith("host"):
        return elf.problem(data, cuda=False, symbol=kernel)
    if problem := elf.problem(data, cuda=True, symbol=kernel):
        return problem
    found, expected = elf.compute_capability(data), architecture_of(target)
    if found is not None and (expected is None or found != expected.capability):
        return f"it is compiled for sm_{found}, expected {target}"
    taken = elf.parameter_sizes(data, kernel)  # the driver reads as many arguments as a kernel has parameters
    wrong = next((sizes for sizes in given if taken is not None and sizes != taken), None)
    if taken is None or wrong is None:
        return ""
    return f"it takes parameters of {_show_sizes(taken)} bytes, and the plan gives it {_show_sizes(wrong)}"


def _show_sizes(sizes: Sequence[int]) -> str:
    return f"[{', '.join(map(str, sizes))}]"


def _check_contents(members: Mapping[str, bytes], plan: Plan) -> None:
    """Exactly the members that the plan needs, and objects that are whole."""
    from fusebuild.artifact import kernel_text  # its patterns take 2 ms, and a compile with nothing to do opens no file

    sizes = {target.target: plan_check.argument_sizes(plan, target) for target in plan.targets}
    needed = {MANIFEST, PLAN, RECIPE} | ({INCLUDED} & members.keys())
    needed |= {kernel_member(kernel) for own in sizes.values() for kernel in own}
    needed |= {object_member(target, kernel) for target, own in sizes.items() for kernel in own}
    for name in sorted(needed - members.keys()):
        raise ArchiveError("it is missing", name)
    for name in sorted(members.keys() - needed):
        raise ArchiveError("the plan does not use it", name)
    for target, own in sizes.items():
        for kernel, given in sorted(own.items()):
            member = object_member(target, kernel)
            if reason := _object_problem(members[member], target, kernel, given):
                raise ArchiveError(reason, member)
    _text(RECIPE, members)
    if INCLUDED in members:
        _decoded(members, INCLUDED, _decode_included, _encode_included)
    texts = {kernel: _text(kernel_member(kernel), members) for own in sizes.values() for kernel in sorted(own)}
    if (wrong := kernel_text.misused(plan, texts)) is not None:
        raise ArchiveError(wrong.problem, kernel_member(wrong.name))


def _encode_included(included: Mapping[str, str]) -> bytes:
    return msgspec.json.encode(dict(included), order="deterministic")


def _decode_included(data: bytes) -> dict[str, str]:
    return msgspec.json.decode(data, type=dict[str, str])


def _text(name: str, members: Mapping[str, bytes]) -> str:
    try:
        return members[name].decode("utf-8")
    except UnicodeDecodeError:
        raise ArchiveError("it is not UTF-8 text", name) from None
