"""Bytes of an artifact, opened as ``open_artifact`` opens a file and loaded for the CPU without its objects, and how to
change them into others.

A change works on one member, most often on a value of the plan. The manifest is made to fit what was changed, and the
plan gets its kernels, or nothing would ever get past the digests.
"""

from __future__ import annotations

import copy
import hashlib
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from fusebuild.artifact import plan_check, stored_zip
from fusebuild.artifact.file import (
    MANIFEST,
    PLAN,
    RECIPE,
    Artifact,
    Manifest,
    decode_artifact,
    kernel_member,
    object_member,
)
from fusebuild.artifact.plan import Plan, decode, encode
from fusebuild.errors import ArtifactError
from fusebuild.ir.formula import OPERATORS
from fusebuild.runtime.loader import load_artifact
from support.tiny_elf import CUDA, X86_64, tiny_elf

MAX_LENGTH = 16384
SUFFIX = ".fuse"

Members: TypeAlias = "dict[str, bytes]"

_NUMBERS = (0, 1, -1, 2, 3, 4, 7, 8, 16, 63, 64, 65, 1024, 1025, 2**31 - 1, 2**31, 2**32, -(2**31), 2**62, 2**63 - 1,
            2**63, -(2**63), -(2**63) - 1, 2**64, 10**30, 0.5, 1e308, 1e999, -0.0)  # fmt: skip
_TEXTS = ("", "M", "N", "x", "tensor", "scalar", "float", "double", "half", "bfloat16", "int64", "int32", "bool",
          "host", "host-asan", "sm_90", "sm_90a", "aligned", "extent", "formula", "stride", "workspace", "matmul",
          "linear", "../x", "a/b", "\0", "é", "\ud800", "x" * 300, *OPERATORS)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class WithoutObjects:
    """An artifact as the loader sees it, whose objects are empty: what an object says is never run."""

    path: Path
    plan: Plan

    def object_bytes(self, target: str, kernel: str) -> bytes:
        return b""


def read(data: bytes) -> bool:
    """Whether ``data`` is an artifact. What it raises is a bug: what is none, or cannot be loaded, is an
    ``ArtifactError``."""
    try:
        artifact = decode_artifact(data, Path("fuzzed.fuse"))
    except ArtifactError as error:
        if not error.reason:
            raise
        return False
    for name in artifact.targets:
        if name.startswith("host"):
            _load(artifact, name)
    return True


def _load(artifact: Artifact, target: str) -> None:
    try:
        load_artifact(WithoutObjects(path=artifact.path, plan=artifact.plan), target=target)
    except ArtifactError as error:
        if not error.reason:
            raise


def hurry() -> None:
    """Leave torch out, which ``tvm_ffi`` would import, and have the executor ready before the first input comes."""
    sys.modules["torch"] = None  # type: ignore[assignment]
    seed = Path(__file__).resolve().parent / "corpus" / "artifacts" / "broadcast.fuse"
    assert read(seed.read_bytes())


def sealed(members: Members) -> bytes:
    """The archive of ``members``, whose manifest knows them and the plan's fusion; as it is where it cannot be read."""
    members = dict(members)
    try:
        manifest, plan = _parsed(members[MANIFEST]), _parsed(members[PLAN])
        others = sorted(members.keys() - {MANIFEST})
        known = {name: (manifest["members"].get(name) or {}).get("resources") for name in others}
        records = {name: {"sha256": hashlib.sha256(members[name]).hexdigest(), "size": len(members[name])}
                   | ({"resources": used} if used else {}) for name, used in known.items()}  # fmt: skip
        manifest |= {"fusion": plan["fusion"], "digest": plan["digest"], "members": records}
        members[MANIFEST] = _canonical(manifest)
    except (ValueError, KeyError, TypeError, AttributeError):
        return stored_zip.encode(members)
    return stored_zip.encode(members)


def _canonical(tree: Any) -> bytes:
    """The manifest ``tree`` as it is spelled; any other tree in any spelling."""
    text = _spelled(tree)
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except (ValueError, RecursionError):
        return text
    return msgspec.json.format(msgspec.json.encode(manifest, order="deterministic"), indent=2) + b"\n"


def with_kernels(members: Members) -> Members:
    """``members`` with the plan in canonical form and a text and an object for each kernel that it launches; what has
    no plan as it is."""
    try:
        plan = decode(members[PLAN])
        kept = {MANIFEST: members[MANIFEST], PLAN: encode(plan), RECIPE: members[RECIPE]}
    except (KeyError, ValueError, RecursionError):
        return members
    for target in plan.targets:
        machine = X86_64 if target.target.startswith("host") else CUDA
        for kernel in plan_check.kernels_of(target):
            text, code = kernel_member(kernel), object_member(target.target, kernel)
            kept[text] = members.get(text, b"")
            kept[code] = members.get(code) or tiny_elf(machine, kernel.encode("ascii", "replace").decode())
    return kept if all(name.isascii() for name in kept) else members


class Mutator:
    """Makes artifacts of artifacts."""

    def __init__(self) -> None:
        self._changes: Sequence[Callable[[random.Random, Members], bytes]] = (
            *[self._change_plan] * 16,
            *[self._change_manifest] * 2,
            *[self._change_bytes] * 2,
            self._change_names,
            self._damage,
        )

    def mutate(self, data: bytes, chance: random.Random) -> bytes:
        """Another artifact, much like ``data``."""
        try:
            members = stored_zip.decode(data)
        except stored_zip.ArchiveError:
            return _flipped(data, chance)
        return chance.choice(self._changes)(chance, members)

    def cross(self, first: bytes, second: bytes, chance: random.Random) -> bytes:
        """A part of the second artifact's plan in the place of one like it in the first's."""
        try:
            members, others = stored_zip.decode(first), stored_zip.decode(second)
            tree, donor = _parsed(members[PLAN]), _parsed(others[PLAN])
        except (stored_zip.ArchiveError, KeyError, ValueError, RecursionError):
            return self.mutate(first, chance)
        holder, key = _place(tree, chance)
        holder[key] = _like_key(donor, key, chance)
        return self._with_plan(members, tree)

    def _change_plan(self, chance: random.Random, members: Members) -> bytes:
        try:
            tree = _parsed(members[PLAN])
        except (KeyError, ValueError, RecursionError):
            return self._damage(chance, members)
        for _ in range(chance.choice((1, 1, 1, 2))):
            if tree:
                _change_tree(tree, chance)
        if chance.random() < 0.05:
            members[PLAN] = _spelled(tree)
            return sealed(members)
        return self._with_plan(members, tree)

    def _with_plan(self, members: Members, tree: Any) -> bytes:
        members[PLAN] = _spelled(tree)
        return sealed(with_kernels(members))

    def _change_manifest(self, chance: random.Random, members: Members) -> bytes:
        try:
            tree = _parsed(members[MANIFEST])
        except (KeyError, ValueError, RecursionError):
            return self._damage(chance, members)
        _change_tree(tree, chance)
        members[MANIFEST] = _canonical(tree)
        return stored_zip.encode(members)

    def _change_bytes(self, chance: random.Random, members: Members) -> bytes:
        name = chance.choice([*members] or [MANIFEST])
        members[name] = _flipped(members.get(name, b""), chance)
        return sealed(members)

    def _change_names(self, chance: random.Random, members: Members) -> bytes:
        name = chance.choice([*members] or [RECIPE])
        other = chance.choice(("x", "kernels/x.cu", "host/x.so", "a/b/c", "../x", "..", "", PLAN, RECIPE, name + "/"))
        body = members.get(name, b"") if chance.random() < 0.5 else members.pop(name, b"")
        members[other] = body
        return sealed(members) if chance.random() < 0.7 else stored_zip.encode(members)

    def _damage(self, chance: random.Random, members: Members) -> bytes:
        return _flipped(stored_zip.encode(members), chance)


def _flipped(data: bytes, chance: random.Random) -> bytes:
    """``data`` with a few bytes changed, gone, or more of them."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        place, size = chance.randrange(len(changed) + 1), chance.choice((1, 2, 4, 8))
        kind = chance.random()
        if kind < 0.5:
            changed[place : place + size] = chance.choice((0, 1, 255, chance.getrandbits(8))).to_bytes(1, "big") * size
        elif kind < 0.7:
            changed[place : place + size] = chance.getrandbits(size * 8).to_bytes(size, "little")
        elif kind < 0.85:
            del changed[place : place + chance.choice((1, 8, 64))]
        else:
            changed[place:place] = bytes(changed[place : place + 16]) or b"\0"
    return bytes(changed)


def _parsed(data: bytes) -> dict[str, Any]:
    """The object that the JSON ``data`` says; raises ``ValueError`` where it says none, or one with nothing in it."""
    tree = msgspec.json.decode(data, type=dict[str, Any])
    if not tree:
        raise ValueError("nothing to change")
    return tree


def _spelled(tree: Any) -> bytes:
    try:
        return msgspec.json.encode(tree)
    except (OverflowError, ValueError):  # numbers of more than 64 bits, halves of surrogate pairs
        return json.dumps(tree).encode()


def _place(tree: dict[str, Any], chance: random.Random) -> tuple[Any, Any]:
    """A list or mapping somewhere in ``tree``, and one of its keys; most often where the kernels are launched."""
    holder: Any = tree
    key: Any = "targets" if "targets" in tree and chance.random() < 0.6 else chance.choice([*tree])
    while isinstance(child := holder[key], dict | list) and child and chance.random() > 0.06:
        holder, key = child, chance.choice([*child] if isinstance(child, dict) else range(len(child)))
    return holder, key


def _like_key(tree: dict[str, Any], key: Any, chance: random.Random) -> Any:
    """What ``key`` stands for somewhere in ``tree``, or something else where it is not soon found."""
    for _ in range(6):
        holder, found = _place(tree, chance)
        if found == key:
            break
    return copy.deepcopy(holder[found])


def _change_tree(tree: dict[str, Any], chance: random.Random) -> None:
    """One value of ``tree`` is another, or gone, or there twice."""
    holder, key = _place(tree, chance)
    value, kind = holder[key], chance.random()
    if kind < 0.45:
        holder[key] = _like(value, tree, chance)
    elif kind < 0.75:
        holder[key] = _like_key(tree, key, chance)
    elif kind < 0.83:
        del holder[key]
    elif kind < 0.92 and isinstance(holder, list):
        holder.insert(chance.randrange(len(holder) + 1), copy.deepcopy(value))
    elif kind < 0.97 and isinstance(value, int | str) and isinstance(key, int):
        holder[key] = [chance.choice([*OPERATORS, "aligned"]), value, chance.choice(_NUMBERS)]
    else:
        holder[key] = chance.choice((None, True, False, [], {}, "", 0, [value], {str(key): 1}))


def _like(value: Any, tree: dict[str, Any], chance: random.Random) -> Any:
    """Another value of the same type, from the plan or from the edges of its range."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return chance.choice((*_NUMBERS, value + 1, value - 1))
    if isinstance(value, str):
        return chance.choice(_TEXTS)
    if isinstance(value, list) and chance.random() < 0.7:
        return chance.sample(value, len(value))
    deep = value
    for _ in range(chance.choice((1, 2, 70))):
        deep = [deep] if isinstance(deep, list) else {"a": deep}
    return deep
