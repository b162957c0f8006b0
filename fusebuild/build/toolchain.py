"""The toolchain: what a compile uses for its targets, found, checked, and proven by one cached probe compile.

The host target needs only a C++ compiler and CUDA's headers.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import shlex
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fusebuild.artifact import elf
from fusebuild.build.build_dir import write_if_changed
from fusebuild.build.compiler import Part, find_cxx, run, telling_of_room
from fusebuild.build.cuda_toolkit import (
    Candidate,
    CudaToolkit,
    choose_nvcc,
    find_headers,
    header_parts,
    inspect_nvcc,
    nvcc_candidates,
    problems,
)
from fusebuild.build.digest import digest_of
from fusebuild.errors import NoRoomError, ToolchainError, one_line
from fusebuild.system.disk_space import temporary_folder
from fusebuild.system.resources import cache_dir
from fusebuild.target.table import Target

logger = logging.getLogger(__name__)

_DEVICE_PROBE = r"""
#include <cuda_bf16.h>
extern "C" __global__ void fusebuild_probe(__nv_bfloat16* y, const __nv_bfloat16* x, float scale) {
  __shared__ float sums[32];
  float t = __bfloat162float(x[blockIdx.x * blockDim.x + threadIdx.x]);
  for (int lane = 16; lane > 0; lane /= 2) t += __shfl_xor_sync(0xffffffffu, t, lane);
  if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = t;
  __syncthreads();
  y[blockIdx.x * blockDim.x + threadIdx.x] = __float2bfloat16(sums[0] * rsqrtf(scale));
}
"""

_HOST_PROBE = r"""
#include <cuda_bf16.h>
extern "C" float fusebuild_probe(float x) { return __bfloat162float(__float2bfloat16(x)); }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolchain:
    """Compilers that were found and fit each other; those of :func:`find_toolchain` have compiled the probe.

    ``parts`` holds nvcc, ptxas and cicc (unless only host targets were asked for and there is no nvcc), the host
    compiler as ``g++``, and CUDA's headers as ``cudart`` and ``cccl``.
    """

    nvcc: Path | None
    cxx: Path
    ninja: Path
    cuda_include: Path
    architectures: tuple[str, ...]
    parts: tuple[Part, ...]

    @property
    def versions(self) -> dict[str, str]:
        """Version by part, for messages."""
        return {part.name: part.version for part in self.parts}

    def versions_for(self, targets: Iterable[Target]) -> dict[str, str]:
        """Version by part, for manifests: of the parts that objects for ``targets`` depend on."""
        names = {part.name for target in targets for part in self._used(target)}
        return {part.name: part.version for part in self.parts if part.name in names}

    @property
    def has_gcc(self) -> bool:
        """Whether the host compiler is GCC, which says after its name whose package it is, and not one like it."""
        return any(part.name == "g++" and part.banner.startswith("(") for part in self.parts)

    def digest_for(self, target: Target) -> str:
        """Hex digest of the version banners that an object for ``target`` depends on: equal for equal tools, wherever
        they are installed."""
        used = [(part.name, part.banner) for part in self._used(target)]
        return digest_of([*used, ("machine", platform.machine())] if target.is_host else used)

    def compiles_for(self, target: Target) -> bool:
        """Whether nvcc has the architecture of ``target``. Of those that end in ``a`` or ``f`` it names only the plain
        one."""
        return f"sm_{target.compute_capability}" in self.architectures

    def _used(self, target: Target) -> list[Part]:
        return [part for part in self.parts if not target.is_host or part.name in ("g++", "cudart", "cccl")]

    @property
    def identity(self) -> str:
        """Hex digest of versions, paths, sizes and times: changes when a tool is swapped at the same path."""
        return digest_of([(part.name, f"{part.banner} {_stamp(part.path)}") for part in self.parts])


def find_toolchain(
    targets: Sequence[Target],
    *,
    nvcc: str | os.PathLike[str] | None = None,
    environ: Mapping[str, str] | None = None,
    site_packages: Sequence[Path] | None = None,
) -> Toolchain:
    """The toolchain for ``targets``, found, checked and proven.

    ``environ`` and ``site_packages`` default to this process's. Raises :class:`ToolchainError` naming the part that is
    missing or does not fit, what was found, and the command that mends it.
    """
    environ = os.environ if environ is None else environ
    candidates = nvcc_candidates(nvcc, environ, site_packages)
    toolchain = unproven_toolchain(targets, candidates, environ=environ, site_packages=site_packages)
    for of_host in (False, True):
        for target in [target for target in targets if target.is_host is of_host][:1]:
            probe(toolchain, target, environ)
    return toolchain


def unproven_toolchain(
    targets: Sequence[Target],
    candidates: Sequence[Candidate],
    *,
    environ: Mapping[str, str] | None = None,
    site_packages: Sequence[Path] | None = None,
) -> Toolchain:
    """:func:`find_toolchain` without the proof, for a caller who wants to know versions and compiles nothing. The nvcc
    is one of ``candidates``, those of :func:`nvcc_candidates`."""
    environ = os.environ if environ is None else environ
    device_targets = [target for target in targets if not target.is_host]
    cxx = find_cxx(environ)
    if cxx.problem:
        raise ToolchainError(cxx.problem)
    cuda = _chosen_toolkit(candidates, cxx, environ, needed=bool(device_targets))
    include = cuda.include if cuda else find_headers(environ, site_packages)
    toolchain = Toolchain(
        nvcc=cuda.nvcc.path if cuda else None,
        cxx=cxx.path,
        ninja=find_ninja(environ),
        cuda_include=include,
        architectures=cuda.architectures if cuda else (),
        parts=(*((cuda.nvcc, cuda.ptxas, cuda.cicc) if cuda else ()), cxx, *header_parts(include)),
    )
    for target in device_targets:
        if not toolchain.compiles_for(target):
            label = f"nvcc {toolchain.versions['nvcc']} ({one_line(toolchain.nvcc)})"
            known = ", ".join(toolchain.architectures)
            raise ToolchainError(f"{label} does not compile for {target.name}, only for {known}")
    logger.info(
        "compilers: %s", ", ".join(f"{part.name} {part.version} ({one_line(part.path)})" for part in toolchain.parts)
    )
    return toolchain


def _chosen_toolkit(
    candidates: Sequence[Candidate], cxx: Part, environ: Mapping[str, str], *, needed: bool
) -> CudaToolkit | None:
    """That of the first of ``candidates`` if it is coherent; a broken one is an error only where it is ``needed``."""
    chosen = choose_nvcc(candidates, needed=needed)
    if chosen is None:
        return None
    try:
        with telling_of_room(environ):
            cuda = inspect_nvcc(chosen.path, cxx.path, environ)
            if found := problems(cuda):
                raise ToolchainError("\n".join(found))
    except ToolchainError as error:
        if needed or isinstance(error, NoRoomError):
            raise
        logger.info("not used for host targets: %s", error)
        return None
    return cuda


def find_ninja(environ: Mapping[str, str]) -> Path:
    """The ``ninja`` package's binary, else the one on ``PATH``. Raises :class:`ToolchainError` for none."""
    folders = [environ.get("PATH", "")]
    try:
        import ninja
    except ImportError:
        logger.debug("the ninja package is not installed")
    else:
        folders.insert(0, ninja.BIN_DIR)
    path = next(filter(None, (shutil.which("ninja", path=folder) for folder in folders)), None)
    if path is None:
        raise ToolchainError("ninja is missing\n  hint: pip install ninja")
    return Path(os.path.abspath(path))


def probe(toolchain: Toolchain, target: Target, environ: Mapping[str, str]) -> None:
    """Compile a small kernel for ``target``, once for each identity of the toolchain.

    A success is remembered in the cache; a cache that cannot be written only makes the next build slower. Raises
    :class:`ToolchainError` with the command and the compiler's output.
    """
    text = _HOST_PROBE if target.is_host else _DEVICE_PROBE
    key = digest_of([("toolchain", toolchain.identity), (target.name, " ".join(target.compiler_flags)), ("text", text)])
    record = cache_dir(environ) / "probes" / f"{key}.json"
    if os.path.isfile(record):  # Path's own raises where a folder above it cannot be searched
        return
    with telling_of_room(environ):
        _compile_probe(toolchain, target, environ, text)
    try:
        write_if_changed(record, json.dumps(toolchain.versions, indent=2, sort_keys=True) + "\n")
    except OSError as error:
        logger.debug("the probe's result is not cached: %s", error)


def _compile_probe(toolchain: Toolchain, target: Target, environ: Mapping[str, str], text: str) -> None:
    with tempfile.TemporaryDirectory(prefix="fusebuild-probe-", dir=temporary_folder(environ)) as folder:
        source, output = Path(folder, "probe.cu"), Path(folder, "probe.out")
        source.write_text(text, encoding="utf-8")
        command: list[str | Path]
        if target.is_host:
            command = [toolchain.cxx, "-x", "c++", "-std=c++17", "-fPIC", "-shared", "-isystem", toolchain.cuda_include]
        else:
            assert toolchain.nvcc is not None
            command = [toolchain.nvcc, "-ccbin", toolchain.cxx, "-std=c++17", "-O3", "-cubin"]
        command += [*target.compiler_flags, "-o", output.name, source.name]
        result = run(command, environ, folder)
        data = output.read_bytes() if output.is_file() else b""
    reason = elf.problem(data, cuda=not target.is_host, symbol="fusebuild_probe") if result.returncode == 0 else ""
    if result.returncode or reason:
        said = (result.stdout + reason).strip()
        raise ToolchainError(f"the probe does not compile for {target.name}:\n{shlex.join(map(str, command))}\n{said}")


def _stamp(path: Path) -> str:
    """The path, size and time of the file at ``path``: other ones when it is swapped for another file."""
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"
