"""What tests of faults share: the command line in a process of its own, compilers that are quick and write slowly,
and small disks."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest

from fusebuild.artifact.file import Artifact, open_artifact
from fusebuild.artifact.kernel_resources import KernelResources
from fusebuild.build.compiler import find_cxx
from fusebuild.build.cuda_toolkit import nvcc_candidates
from fusebuild.cli import main as cli
from fusebuild.kernels import render

Result = TypeVar("Result")

_NEW_USER, _NEW_MOUNTS = 0x10000000, 0x00020000
_READ_ONLY, _REMOUNT, _RECURSIVE, _PRIVATE = 1, 32, 16384, 1 << 18


@dataclass(frozen=True, slots=True)
class Done:
    """What a command left: its exit code and what it printed."""

    code: int
    out: str
    err: str


def fusebuild(*arguments: str | Path) -> Done:
    """``fusebuild ARGUMENTS`` in this process, as :func:`fusebuild.cli.main` ends it."""
    out, err = io.StringIO(), io.StringIO()
    given, sys.argv = sys.argv, ["fusebuild", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
        return Done(0, out.getvalue(), err.getvalue())
    except SystemExit as ended:
        return Done(int(ended.code or 0), out.getvalue(), err.getvalue())
    finally:
        sys.argv = given


def started(call: Callable[[], object]) -> int:
    """The id of a new process that calls ``call`` and ends. It leads a group of its own."""
    if child := os.fork():
        os.setpgid(child, child)  # both do it, so that it is done when either goes on
        return child
    try:
        os.setpgid(0, 0)
        render.environment.cache_clear()  # its cache may lie elsewhere now
        call()
    finally:
        os._exit(0)


def forked(call: Callable[[], Result]) -> Result:
    """What ``call`` returns in a process of its own, which is as this one is now."""
    reading, writing = os.pipe()

    def send() -> None:
        try:
            answer: tuple[bool, Any] = (True, call())
        except BaseException as error:
            answer = (False, repr(error))
        with os.fdopen(writing, "wb") as file:
            pickle.dump(answer, file)

    child = started(send)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        data = file.read()
    os.waitpid(child, 0)
    assert data, "the process died"
    is_well, result = pickle.loads(data)
    assert is_well, result
    return result  # type: ignore[no-any-return]


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mount(source: str, folder: Path, kind: str, flags: int, options: str) -> None:
    where = os.fsencode(folder)
    if _libc().mount(source.encode(), where, kind.encode(), flags, options.encode()):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(folder))


def enter_namespace() -> None:
    """Give this process mounts of its own. Raises :class:`OSError` where the system does not let it."""
    user, group = os.getuid(), os.getgid()
    if _libc().unshare(_NEW_USER | _NEW_MOUNTS):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"0 {user} 1")
    Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    _mount("none", Path("/"), "", _RECURSIVE | _PRIVATE, "")


def mount_disk(folder: Path, size: str) -> None:
    """Mount an empty disk of ``size`` (``64k``) at ``folder``, in a process that has entered a namespace."""
    folder.mkdir(parents=True, exist_ok=True)
    _mount("none", folder, "tmpfs", 0, f"size={size}")


def resize_disk(folder: Path, size: str) -> None:
    _mount("none", folder, "tmpfs", _REMOUNT, f"size={size}")


def protect_disk(folder: Path) -> None:
    """Make the disk at ``folder`` read-only."""
    _mount("none", folder, "tmpfs", _REMOUNT | _READ_ONLY, "")


def require_small_disks(folder: Path) -> None:
    """Skip where a test may not mount anything."""

    def try_it() -> str:
        try:
            enter_namespace()
            mount_disk(folder, "64k")
        except OSError as error:
            return str(error)
        return ""

    if reason := forked(try_it):
        pytest.skip(f"needs a user namespace to mount a small disk in: {reason}")


COMPILER = """#!/bin/sh
case "$*" in *kernels/*) ;; *) exec "{real}" "$@" ;; esac
while [ "$1" != -o ]; do shift; done
made="{made}/${{2%-*}}.${{2##*.}}"
cat "$made.log"
head -c {first} "$made" > "$2"
sleep 0.05
tail -c +{second} "$made" >> "$2"
exit 0
"""
"""In place of a compiler: it takes objects that were made elsewhere, writes them in two parts, and finds nothing wrong
with a disk that is full, as nvcc does not."""


def quick_compilers(folder: Path, made: Path) -> dict[str, str]:
    """Variables that name compilers in ``folder``, whose objects are those of the artifacts in ``made``."""
    nvcc = next(candidate.path for candidate in nvcc_candidates(None, os.environ) if candidate.exists)
    named = {"FUSEBUILD_NVCC": nvcc, "FUSEBUILD_CXX": find_cxx(os.environ).path}
    folder.mkdir(exist_ok=True)
    objects = folder.parent / "ready objects"
    for path in made.glob("*.fuse"):
        _unpack(open_artifact(path), objects)
    for variable, real in named.items():
        path = folder / variable
        path.write_text(COMPILER.format(real=real, made=objects, first=3000, second=3001))
        path.chmod(0o755)
    return {variable: str(folder / variable) for variable in named}


def use_compilers(compilers: Mapping[str, str], patch: pytest.MonkeyPatch) -> None:
    """Make the variables of :func:`quick_compilers` those of this process."""
    for variable, path in compilers.items():
        patch.setenv(variable, path)


def _unpack(artifact: Artifact, folder: Path) -> None:
    """Each object in ``artifact``, and beside it what ptxas said of it."""
    for name, record in artifact.manifest.members.items():
        if name.endswith((".cubin", ".so")):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(artifact.members[name])
            path.with_name(f"{path.name}.log").write_text(_as_log(record.resources))


def _as_log(used: KernelResources | None) -> str:
    if used is None:
        return ""
    spills = f"{used.spill_stores} bytes spill stores, {used.spill_loads} bytes spill loads"
    return f"{used.stack} bytes stack frame, {spills}\nUsed {used.registers} registers, {used.shared} bytes smem\n"
