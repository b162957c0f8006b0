"""What ``fusebuild doctor`` says: each part of the toolchain and the runtime, what was found, and what to do about it.

Nothing here raises for what it finds, and nothing heavy is imported: torch and tvm_ffi are looked up, not loaded.
"""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from fusebuild.build import toolchain as tools
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A device that the driver shows."""

    name: str
    compute_capability: str


def diagnose(
    *,
    nvcc: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    site_packages: Sequence[Path] | None = None,
) -> tuple[DoctorFinding, ...]:
    """Look at everything that compiling and running need; errors first come where they are found, none is raised."""
    environ = os.environ if environ is None else environ
    findings = list(_nvcc_findings(nvcc, environ, site_packages))
    findings.append(_cxx_finding(environ))
    findings.append(_ninja_finding(environ))
    findings.append(_probe_finding("device compile", "sm_90", nvcc, environ, site_packages))
    findings.append(_probe_finding("host compile", "host", nvcc, environ, site_packages))
    findings.append(_data_finding())
    findings += _driver_findings(next((f.found for f in findings if f.name == "nvcc" and f.status == "ok"), ""))
    findings.append(_package_finding("apache-tvm-ffi", "warn", "needed to run artifacts"))
    findings.append(_package_finding("torch", "ok", "optional: only verify, bench and tune need it"))
    findings.append(_runtime_finding())
    findings.append(_cache_finding(environ))
    return tuple(findings)


def _nvcc_findings(
    nvcc: str | os.PathLike[str] | None, environ: Mapping[str, str], site_packages: Sequence[Path] | None
) -> Iterator[DoctorFinding]:
    candidates = tools.nvcc_candidates(nvcc, environ, site_packages)
    try:
        chosen = tools.choose_nvcc(candidates)
        assert chosen is not None
    except ToolchainError as error:
        yield _error("nvcc", error)
        return
    for candidate in candidates:
        if candidate is chosen:
            why = "chosen: the first that exists"
        else:
            why = "exists, but an earlier one was chosen" if candidate.exists else "does not exist"
        named_in_vain = not candidate.exists and candidate.source in ("CUDA_HOME", "CUDA_PATH")
        advice = f"unset {candidate.source}, or point it at a toolkit" if named_in_vain else ""
        yield _finding(
            name=f"nvcc from {candidate.source}",
            status="warn" if named_in_vain else "ok",
            found=f"{one_line(candidate.path)}: {why}",
            advice=advice,
        )
    try:
        cuda = tools.inspect_nvcc(chosen.path, tools.find_cxx(environ).path, environ)
    except ToolchainError as error:
        yield _error("nvcc", error)
        return
    headers = tools.header_parts(cuda.include)
    for part in (cuda.nvcc, cuda.ptxas, cuda.cicc, *headers):
        missing = part.problem or (f"{one_line(part.path)} is missing or unreadable" if not part.version else "")
        found = missing or f"{part.version} at {one_line(part.path)}"
        yield _finding(
            name=part.name, status="error" if missing else "ok", found=found, advice=tools.FIX if missing else ""
        )
    for problem in tools.problems(cuda):
        yield _error("toolkit", ToolchainError(problem))


def _cxx_finding(environ: Mapping[str, str]) -> DoctorFinding:
    cxx = tools.find_cxx(environ)
    if cxx.problem:
        return _error("g++", ToolchainError(cxx.problem))
    return _finding(name="g++", status="ok", found=f"{cxx.version} at {one_line(cxx.path)}")


def _ninja_finding(environ: Mapping[str, str]) -> DoctorFinding:
    try:
        path = tools.find_ninja(environ)
        version = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=60).stdout.strip()
    except ToolchainError as error:
        return _error("ninja", error)
    except (OSError, subprocess.TimeoutExpired) as error:
        return _finding(name="ninja", status="error", found=f"{one_line(path)}: {error}", advice="pip install ninja")
    return _finding(name="ninja", status="ok", found=f"{version} at {one_line(path)}")


def _probe_finding(
    name: str,
    target: str,
    nvcc: str | os.PathLike[str] | None,
    environ: Mapping[str, str],
    site_packages: Sequence[Path] | None,
) -> DoctorFinding:
    try:
        toolchain = tools.find_toolchain([TARGETS[target]], nvcc=nvcc, environ=environ, site_packages=site_packages)
    except (FusebuildError, OSError) as error:
        return _error(name, error)
    architectures = [known for known, row in TARGETS.items() if toolchain.compiles_for(row)]
    can = f"{target} compiles" if target == "host" else f"{target} compiles; can also: {', '.join(architectures)}"
    return _finding(name=name, status="ok", found=can)


def _data_finding() -> DoctorFinding:
    try:
        return _finding(name="templates", status="ok", found=one_line(data_root()))
    except ToolchainError as error:
        return _error("templates", error)


def _driver_findings(nvcc: str) -> Iterator[DoctorFinding]:
    """The driver and its devices, through libcuda itself. No GPU is no error: nothing but running needs one."""
    try:
        version, gpus = _ask_driver()
    except OSError as error:
        yield _finding(name="driver", status="ok", found=f"no NVIDIA driver here ({error}); compiling needs none")
        return
    release = f"{version // 1000}.{version % 1000 // 10}"
    too_old = nvcc[:1].isdigit() and version // 1000 < int(nvcc.partition(".")[0])
    yield _finding(
        name="driver",
        status="warn" if too_old else "ok",
        found=f"supports CUDA {release}",
        advice=f"cubins made by nvcc {nvcc.partition(' ')[0]} need a newer driver" if too_old else "",
    )
    for index, gpu in enumerate(gpus):
        architecture = f"sm_{gpu.compute_capability.replace('.', '')}"
        known = architecture in TARGETS
        yield _finding(
            name=f"GPU {index}",
            status="ok" if known else "warn",
            found=f"{gpu.name}, compute capability {gpu.compute_capability}",
            advice="" if known else f"fusebuild has no target {architecture}",
        )


def _ask_driver() -> tuple[int, tuple[Gpu, ...]]:
    """The CUDA version the driver supports (13000 for 13.0) and its devices. Raises ``OSError`` where there is none."""
    cuda = ctypes.CDLL("libcuda.so.1")
    version, count = ctypes.c_int(), ctypes.c_int()
    if cuda.cuDriverGetVersion(ctypes.byref(version)) or cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count)):
        raise OSError("libcuda.so.1 does not start")
    gpus = []
    for index in range(count.value):
        device, name, number = ctypes.c_int(), ctypes.create_string_buffer(256), ctypes.c_int()
        if cuda.cuDeviceGet(ctypes.byref(device), index) or cuda.cuDeviceGetName(name, len(name), device):
            continue
        numbers = []
        for attribute in (_COMPUTE_CAPABILITY_MAJOR, _COMPUTE_CAPABILITY_MINOR):
            cuda.cuDeviceGetAttribute(ctypes.byref(number), attribute, device)
            numbers.append(number.value)
        gpus.append(Gpu(name=name.value.decode("utf-8", "replace"), compute_capability=f"{numbers[0]}.{numbers[1]}"))
    return version.value, tuple(gpus)


def _package_finding(package: str, missing: Status, why: str) -> DoctorFinding:
    try:
        return _finding(name=package, status="ok", found=importlib.metadata.version(package))
    except importlib.metadata.PackageNotFoundError:
        return _finding(name=package, status=missing, found=f"not installed ({why})", advice=f"pip install {package}")


def _runtime_finding() -> DoctorFinding:
    """The native executor, in the package's folder or (editable installs) in site-packages."""
    installed = Path(sysconfig.get_path("platlib"), "fusebuild")
    folders = dict.fromkeys([Path(__file__).resolve().parent.parent / "runtime", installed / "runtime"])
    libraries = [path for folder in folders if folder.is_dir() for path in sorted(folder.rglob("*.so"))]
    if libraries:
        return _finding(name="native runtime", status="ok", found=one_line(libraries[0]))
    where = " or ".join(map(one_line, folders))
    return _finding(
        name="native runtime", status="warn", found=f"no library in {where}", advice="pip install fusebuild again"
    )


def _cache_finding(environ: Mapping[str, str]) -> DoctorFinding:
    folder = cache_dir(environ)
    existing = next(parent for parent in (folder, *folder.absolute().parents) if os.path.exists(parent))
    if existing.is_dir() and os.access(existing, os.W_OK | os.X_OK):
        return _finding(name="cache", status="ok", found=one_line(folder))
    advice = "builds are only slower; FUSEBUILD_CACHE_DIR names another folder"
    return _finding(name="cache", status="warn", found=f"{one_line(folder)} cannot be written", advice=advice)


def _finding(name: str, status: Status, found: str, advice: str = "") -> DoctorFinding:
    return DoctorFinding(name=name, status=status, found=found, advice=advice)


def _error(name: str, error: Exception) -> DoctorFinding:
    """An error whose message may end in a hint: what to do."""
    found, _, advice = str(error).partition("\n  hint: ")
    return _finding(name=name, status="error", found=found, advice=advice)
