"""What ``fusebuild doctor`` says: each part of the toolchain and the runtime, what was found, and what to do about it.

Nothing here raises for what it finds, and nothing heavy is imported: torch and tvm_ffi are looked up, not loaded.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import subprocess
import sysconfig
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fusebuild.build.compiler import find_cxx, telling_of_room
from fusebuild.build.cuda_toolkit import FIX, choose_nvcc, header_parts, inspect_nvcc, nvcc_candidates, problems
from fusebuild.build.toolchain import find_ninja, find_toolchain
from fusebuild.errors import FusebuildError, ToolchainError, one_line
from fusebuild.system.resources import cache_dir, data_root
from fusebuild.target.table import TARGETS

Status = Literal["ok", "warn", "error"]

_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR = 75, 76  # CUdevice_attribute


class DoctorFinding(msgspec.Struct, frozen=True, kw_only=True):
    """``fusebuild doctor --json``: one part of the toolchain or the runtime"""

    name: str
    status: Status
    found: str
    advice: Annotated[str, Meta(description="empty when there is nothing to do")]


def diagnose(
    *,
    nvcc: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    site_packages: Sequence[Path] | None = None,
) -> tuple[DoctorFinding, ...]:
    """Look at everything that compiling and running need; errors first come where they are found, none is raised."""
    environ = os.environ if environ is None else environ

    def compiles(target: str) -> str:
        found = find_toolchain([TARGETS[target]], nvcc=nvcc, environ=environ, site_packages=site_packages)
        can = ", ".join(name for name, each in TARGETS.items() if found.compiles_for(each))
        return f"{target} compiles" if target == "host" else f"{target} compiles; can also: {can}"

    toolkit = list(_nvcc_findings(nvcc, environ, site_packages))
    return (
        *toolkit,
        _tried("g++", partial(_cxx, environ)),
        _tried("ninja", partial(_ninja, environ)),
        _tried("device compile", partial(compiles, "sm_90")),
        _tried("host compile", partial(compiles, "host")),
        _tried("templates", lambda: one_line(data_root())),
        *_driver_findings(next((each.found for each in toolkit if (each.name, each.status) == ("nvcc", "ok")), "")),
        _package_finding("apache-tvm-ffi", "warn", "needed to run artifacts"),
        _package_finding("torch", "ok", "optional: only verify, bench and tune need it"),
        _runtime_finding(),
        _cache_finding(environ),
    )


def _finding(name: str, status: Status, found: str, advice: str = "") -> DoctorFinding:
    return DoctorFinding(name=name, status=status, found=found, advice=advice)


def _error(name: str, error: Exception) -> DoctorFinding:
    """An error whose message may end in a hint: what to do."""
    found, _, advice = str(error).partition("\n  hint: ")
    return _finding(name, "error", found, advice)


def _tried(name: str, look: Callable[[], str]) -> DoctorFinding:
    """What ``look`` finds, or the error that it raises."""
    try:
        return _finding(name, "ok", look())
    except (FusebuildError, OSError) as error:
        return _error(name, error)


def _nvcc_findings(
    nvcc: str | os.PathLike[str] | None, environ: Mapping[str, str], site_packages: Sequence[Path] | None
) -> Iterator[DoctorFinding]:
    """Every place where an nvcc may be, and the parts of the toolkit of the one that is chosen."""
    try:
        candidates = nvcc_candidates(nvcc, environ, site_packages)
        chosen = choose_nvcc(candidates)
        assert chosen is not None
        for candidate in candidates:
            why = "exists, but an earlier one was chosen" if candidate.exists else "does not exist"
            why = "chosen: the first that exists" if candidate is chosen else why
            named_in_vain = not candidate.exists and candidate.source in ("CUDA_HOME", "CUDA_PATH")
            advice = f"unset {candidate.source}, or point it at a toolkit" if named_in_vain else ""
            status: Status = "warn" if named_in_vain else "ok"
            yield _finding(f"nvcc from {candidate.source}", status, f"{one_line(candidate.path)}: {why}", advice)
        with telling_of_room(environ):
            cuda = inspect_nvcc(chosen.path, find_cxx(environ).path, environ)
    except ToolchainError as error:
        yield _error("nvcc", error)
        return
    for part in (cuda.nvcc, cuda.ptxas, cuda.cicc, *header_parts(cuda.include)):
        if missing := part.problem or ("" if part.version else f"{one_line(part.path)} is missing or unreadable"):
            yield _finding(part.name, "error", missing, FIX)
        else:
            yield _finding(part.name, "ok", f"{part.version} at {one_line(part.path)}")
    for problem in problems(cuda):
        yield _error("toolkit", ToolchainError(problem))


def _cxx(environ: Mapping[str, str]) -> str:
    cxx = find_cxx(environ)
    if cxx.problem:
        raise ToolchainError(cxx.problem)
    return f"{cxx.version} at {one_line(cxx.path)}"


def _ninja(environ: Mapping[str, str]) -> str:
    path = find_ninja(environ)
    try:
        version = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{one_line(path)}: {error}\n  hint: pip install ninja") from None
    return f"{version} at {one_line(path)}"


def _driver_findings(nvcc: str) -> Iterator[DoctorFinding]:
    """The driver and its devices, through libcuda itself. No GPU is no error: nothing but running needs one."""
    try:
        version, gpus = _ask_driver()
    except OSError as error:
        yield _finding("driver", "ok", f"no NVIDIA driver here ({error}); compiling needs none")
        return
    too_old = nvcc[:1].isdigit() and version // 1000 < int(nvcc.partition(".")[0])
    advice = f"cubins made by nvcc {nvcc.partition(' ')[0]} need a newer driver" if too_old else ""
    found = f"supports CUDA {version // 1000}.{version % 1000 // 10}"
    yield _finding("driver", "warn" if too_old else "ok", found, advice)
    for index, (name, major, minor) in enumerate(gpus):
        known = (architecture := f"sm_{major}{minor}") in TARGETS
        advice = "" if known else f"fusebuild has no target {architecture}"
        found = f"{name}, compute capability {major}.{minor}"
        yield _finding(f"GPU {index}", "ok" if known else "warn", found, advice)


def _ask_driver() -> tuple[int, list[tuple[str, int, int]]]:
    """The CUDA version that the driver supports (13000 for 13.0), and the name and compute capability (major, minor) of
    each of its devices. Raises ``OSError`` where there is no driver."""
    cuda = ctypes.CDLL("libcuda.so.1")
    version, count = ctypes.c_int(), ctypes.c_int()
    if cuda.cuDriverGetVersion(ctypes.byref(version)) or cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        raise OSError("libcuda.so.1 does not start")
    gpus = []
    for index in range(count.value):
        device, name = ctypes.c_int(), ctypes.create_string_buffer(256)
        if cuda.cuDeviceGet(ctypes.byref(device), index) or cuda.cuDeviceGetName(name, len(name), device):
            continue
        major, minor = ctypes.c_int(), ctypes.c_int()
        cuda.cuDeviceGetAttribute(ctypes.byref(major), _COMPUTE_CAPABILITY_MAJOR, device)
        cuda.cuDeviceGetAttribute(ctypes.byref(minor), _COMPUTE_CAPABILITY_MINOR, device)
        gpus.append((name.value.decode("utf-8", "replace"), major.value, minor.value))
    return version.value, gpus


def _package_finding(package: str, missing: Status, why: str) -> DoctorFinding:
    try:
        return _finding(package, "ok", importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return _finding(package, missing, f"not installed ({why})", f"pip install {package}")


def _runtime_finding() -> DoctorFinding:
    """The native executor, in the package's folder or (editable installs) in site-packages."""
    installed = Path(sysconfig.get_path("platlib"), "fusebuild")
    folders = dict.fromkeys([Path(__file__).resolve().parent.parent / "runtime", installed / "runtime"])
    libraries = [path for folder in folders if folder.is_dir() for path in sorted(folder.rglob("*.so"))]
    if libraries:
        return _finding("native runtime", "ok", one_line(libraries[0]))
    where = " or ".join(map(one_line, folders))
    return _finding("native runtime", "warn", f"no library in {where}", "pip install fusebuild again")


def _cache_finding(environ: Mapping[str, str]) -> DoctorFinding:
    folder = cache_dir(environ)
    existing = next(parent for parent in (folder, *folder.absolute().parents) if os.path.exists(parent))
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return _finding("cache", "ok", one_line(folder))
    advice = "builds are only slower; FUSEBUILD_CACHE_DIR names another folder"
    return _finding("cache", "warn", f"{one_line(folder)} cannot be written", advice)
