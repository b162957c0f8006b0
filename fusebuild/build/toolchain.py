"""The compilers: which nvcc, whether its parts fit each other, and a proof by one cached probe compile.

nvcc is looked for in this order: ``--nvcc``, ``FUSEBUILD_NVCC``, ``CUDA_HOME`` and ``CUDA_PATH``, this interpreter's
``site-packages/nvidia/cu13``, ``PATH``. The first that exists is used; when it turns out broken that is an error, not a
reason to try the next, so that the same environment always means the same compiler. Where an nvcc's toolkit lies is
asked of nvcc itself (``--dryrun``), never derived from its path: what is on ``PATH`` may be a wrapper.

The host target needs only a C++ compiler and CUDA's headers.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import platform
import re
import shlex
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fusebuild.artifact import elf
from fusebuild.errors import NoRoomError, ToolchainError, one_line
from fusebuild.system.disk_space import TEMPORARY_FOLDERS, is_plain, lack_of_room, temporary_folder
from fusebuild.system.resources import cache_dir
from fusebuild.target.table import Target

FIX = "pip install 'cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==13.0.*'"
"""The one set of pip packages whose parts are known to fit: a bare nvidia-cuda-nvcc pulls parts of other releases."""

logger = logging.getLogger(__name__)

_HEADERS = {
    "cuda_runtime.h": "nvidia-cuda-runtime",
    "cuda_bf16.h": "nvidia-cuda-runtime",
    "crt/host_config.h": "nvidia-cuda-crt",
    "nv/target": "nvidia-cuda-cccl",
}
"""Headers that every kernel includes, directly or not, and the pip package that has each."""

_IGNORED_VARIABLES = (
    "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX",
    "LD_RUN_PATH", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES",
)  # fmt: skip
"""Environment variables that would change objects without changing the digests that name them."""

_FOR_A_SHELL = re.compile(r'["$`\\\n]')
"""Characters that a shell interprets even between double quotes. nvcc puts names between those."""

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
class Part:
    """A tool or a set of headers. ``version`` is ``13.0.88``; ``banner`` all that it says of its version, without
    paths, so that equal tools on two machines give equal banners. Both are empty when the part is missing or does not
    run; ``problem`` then says so."""

    name: str
    path: Path
    version: str = ""
    banner: str = ""
    problem: str = ""

    @property
    def release(self) -> str:
        """Major and minor: ``13.0``."""
        return ".".join(self.version.split(".")[:2])


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One place where nvcc was looked for. ``demanded`` places must have it; the others are passed over."""

    source: str
    path: Path
    exists: bool
    demanded: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CudaToolkit:
    """What an nvcc says of itself and what lies where it says. Whether the parts fit each other is for
    :func:`problems` to say."""

    nvcc: Part
    ptxas: Part
    cicc: Part
    include: Path
    libdevice: Path
    architectures: tuple[str, ...]


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

    @property
    def digest(self) -> str:
        """Hex digest of all version banners: equal for equal tools, wherever they are installed."""
        return _digest([(part.name, part.banner) for part in self.parts])

    def digest_for(self, target: Target) -> str:
        """Hex digest of the versions that an object for ``target`` depends on."""
        if not target.is_host:
            return self.digest
        used = [(part.name, part.banner) for part in self._used(target)]
        return _digest([*used, ("machine", platform.machine())])

    def compiles_for(self, target: Target) -> bool:
        """Whether nvcc has the architecture of ``target``. Of those that end in ``a`` or ``f`` it names only the plain
        one."""
        return f"sm_{target.compute_capability}" in self.architectures

    def _used(self, target: Target) -> list[Part]:
        return [part for part in self.parts if not target.is_host or part.name in ("g++", "cudart", "cccl")]

    @property
    def identity(self) -> str:
        """Hex digest of versions, paths, sizes and times: changes when a tool is swapped at the same path."""
        return _digest([(part.name, f"{part.banner} {_stamp(part.path)}") for part in self.parts])


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
    device_targets = [target for target in targets if not target.is_host]
    for probed in (device_targets[:1], [target for target in targets if target.is_host][:1]):
        for target in probed:
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
    chosen = choose_nvcc(candidates, needed=bool(device_targets))
    cuda = _inspect_chosen(chosen, cxx, environ, needed=bool(device_targets))
    include = cuda.include if cuda else find_headers(environ, site_packages)
    if missing := missing_headers(include):
        raise ToolchainError("\n".join(missing))
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


def _inspect_chosen(
    chosen: Candidate | None, cxx: Part, environ: Mapping[str, str], *, needed: bool
) -> CudaToolkit | None:
    """The chosen toolkit if it is coherent; a broken one is an error only where it is ``needed``."""
    if chosen is None:
        return None
    try:
        with _telling_of_room(environ):
            cuda = inspect_nvcc(chosen.path, cxx.path, environ)
            if found := problems(cuda):
                raise ToolchainError("\n".join(found))
    except ToolchainError as error:
        if needed or isinstance(error, NoRoomError):
            raise
        logger.info("not used for host targets: %s", error)
        return None
    return cuda


def nvcc_candidates(
    nvcc: str | os.PathLike[str] | None, environ: Mapping[str, str], site_packages: Sequence[Path] | None = None
) -> tuple[Candidate, ...]:
    """Every place where nvcc is looked for, in order; places that the environment does not name are left out."""
    found: list[Candidate] = []

    def add(source: str, path: str | os.PathLike[str], *, demanded: bool = False) -> None:
        absolute = Path(os.path.abspath(path))
        usable = absolute.is_file() and os.access(absolute, os.X_OK)
        found.append(Candidate(source=source, path=absolute, exists=usable, demanded=demanded))

    if nvcc is not None:
        add("--nvcc", nvcc, demanded=True)
    if environ.get("FUSEBUILD_NVCC"):
        add("FUSEBUILD_NVCC", environ["FUSEBUILD_NVCC"], demanded=True)
    for variable in ("CUDA_HOME", "CUDA_PATH"):
        if environ.get(variable):
            add(variable, Path(environ[variable], "bin", "nvcc"))
    for folder in _site_packages(site_packages):
        add("site-packages", folder / "nvidia" / "cu13" / "bin" / "nvcc")
    if on_path := shutil.which("nvcc", path=environ.get("PATH", "")):
        add("PATH", on_path)
    return tuple(found)


def choose_nvcc(candidates: Sequence[Candidate], *, needed: bool = True) -> Candidate | None:
    """The first candidate that exists.

    Raises :class:`ToolchainError` when one that was demanded does not exist, or when none exists and one is ``needed``.
    """
    for candidate in candidates:
        if candidate.exists:
            return candidate
        if candidate.demanded:
            raise ToolchainError(f"{candidate.source} names {one_line(candidate.path)}, which is no executable file")
    if needed:
        tried = "".join(f"\n  {candidate.source}: {one_line(candidate.path)}" for candidate in candidates)
        raise ToolchainError(f"no nvcc found{'; tried' + tried if tried else ''}\n  hint: {FIX}")
    return None


def inspect_nvcc(nvcc: Path, cxx: Path, environ: Mapping[str, str]) -> CudaToolkit:
    """Ask ``nvcc`` for its version, its parts and its headers.

    Raises :class:`ToolchainError` when it does not run or does not answer as nvcc does.
    """
    if _FOR_A_SHELL.search(str(cxx)):
        reason = "nvcc cannot be told to use it: it would give its name to a shell, which takes a part for a command"
        raise ToolchainError(f"the host compiler is {one_line(cxx)}: {reason}")
    with _telling_of_room(environ):
        return _answers_of_nvcc(nvcc, cxx, environ)


def _answers_of_nvcc(nvcc: Path, cxx: Path, environ: Mapping[str, str]) -> CudaToolkit:
    version_text = _output([nvcc, "--version"], environ)
    version = _cuda_version(version_text)
    dryrun = _output([nvcc, "-ccbin", cxx, "--dryrun", "-cubin", "probe.cu"], environ)
    settings = dict(re.findall(r"^#\$ (\w+)=(.*)$", dryrun, re.MULTILINE))
    if not version or "TOP" not in settings:
        raise ToolchainError(f"{one_line(nvcc)} does not answer as nvcc does:\n{(version_text + dryrun).strip()}")
    if _FOR_A_SHELL.search(settings["TOP"]):
        reason = "it would give the name of that folder to a shell, which takes a part for a command"
        raise ToolchainError(f"nvcc cannot be used from {settings['TOP']}: {reason}")
    architectures = tuple(re.findall(r"^sm_\w+$", _output([nvcc, "--list-gpu-code"], environ), re.MULTILINE))
    ptxas = shutil.which("ptxas", path=settings.get("PATH", "")) or os.path.join(settings["TOP"], "bin", "ptxas")
    cicc = Path(settings.get("CICC_PATH", os.path.join(settings["TOP"], "nvvm", "bin")), "cicc")
    libdevice = settings.get("NVVMIR_LIBRARY_DIR", os.path.join(settings["TOP"], "nvvm", "libdevice"))
    return CudaToolkit(
        nvcc=Part(name="nvcc", path=nvcc, version=version, banner=version_text.strip()),
        ptxas=_inspect_ptxas(Path(os.path.normpath(ptxas)), environ),
        cicc=_inspect_cicc(Path(os.path.normpath(cicc)), architectures, environ),
        include=_include_dir(settings),
        libdevice=Path(os.path.normpath(libdevice)),
        architectures=architectures,
    )


def problems(cuda: CudaToolkit) -> tuple[str, ...]:
    """Why the parts of ``cuda`` cannot work together, each with what mends it; empty when they can."""
    label = f"nvcc {cuda.nvcc.version} ({one_line(cuda.nvcc.path)})"
    found = [f"{label} lacks a working {part.name}: {part.problem}" for part in (cuda.ptxas, cuda.cicc) if part.problem]
    if not (cuda.libdevice / "libdevice.10.bc").is_file():
        found.append(f"{label} lacks libdevice.10.bc in {one_line(cuda.libdevice)} (pip package nvidia-nvvm)")
    found += missing_headers(cuda.include, label, hint=False)
    for part in (cuda.ptxas, cuda.cicc, *header_parts(cuda.include)[:1]):
        if part.version and part.release != cuda.nvcc.release:
            found.append(f"{label} and {part.name} {part.version} ({one_line(part.path)}) do not fit each other")
    return tuple(f"{problem}\n  hint: {FIX}" for problem in found)


def missing_headers(include: Path, label: str = "the CUDA headers", *, hint: bool = True) -> list[str]:
    """One sentence for each header that kernels need and ``include`` lacks."""
    return [
        f"{label}: {one_line(include)} lacks {header} (pip package {package})" + (f"\n  hint: {FIX}" if hint else "")
        for header, package in _HEADERS.items()
        if not any((folder / header).is_file() for folder in (include, include / "cccl"))
    ]


def header_parts(include: Path) -> tuple[Part, Part]:
    """CUDA's runtime headers and its C++ library, with the versions that they define."""
    api = include / "cuda_runtime_api.h"
    cudart = _defined_number(api, "CUDART_VERSION")
    version_headers = (folder / "cuda" / "std" / "__cccl" / "version.h" for folder in (include / "cccl", include))
    library = next((header for header in version_headers if header.is_file()), include / "nv" / "target")
    cccl = _defined_number(library, "CCCL_VERSION")
    cudart_version = f"{cudart // 1000}.{cudart % 1000 // 10}" if cudart else ""
    cccl_version = f"{cccl // 1000000}.{cccl // 1000 % 1000}.{cccl % 1000}" if cccl else ""
    return (
        Part(name="cudart", path=api, version=cudart_version, banner=cudart_version),
        Part(name="cccl", path=library, version=cccl_version, banner=cccl_version),
    )


def find_headers(environ: Mapping[str, str], site_packages: Sequence[Path] | None = None) -> Path:
    """The folder of CUDA's headers where there is no nvcc to ask: that of the first toolkit, in the order in which nvcc
    is looked for. Raises :class:`ToolchainError` where there is none."""
    roots = [Path(os.path.abspath(environ[name])) for name in ("CUDA_HOME", "CUDA_PATH") if environ.get(name)]
    roots += [folder / "nvidia" / "cu13" for folder in _site_packages(site_packages)]
    for root in roots:
        if (root / "include" / "cuda_runtime.h").is_file():
            return root / "include"
    fix = "pip install 'cuda-toolkit[crt,cudart,cccl]==13.0.*'"
    raise ToolchainError(f"no CUDA headers found, which the host target needs too\n  hint: {fix}")


def find_cxx(environ: Mapping[str, str]) -> Part:
    """The host compiler: ``FUSEBUILD_CXX``, ``CXX``, or ``g++``. A missing one is a part with a problem."""
    source = next((variable for variable in ("FUSEBUILD_CXX", "CXX") if environ.get(variable)), "")
    name = environ[source] if source else "g++"
    path = shutil.which(name, path=environ.get("PATH", ""))
    if path is None:
        said = f"{source} names {one_line(name)}, which is" if source else "g++ is"
        return Part(name="g++", path=Path(name), problem=f"{said} not on PATH\n  hint: install a C++17 compiler")
    path = os.path.abspath(path)
    try:
        if "++" not in os.path.basename(path) and not _links_cpp(path, environ):
            problem = f"{source} names {one_line(name)}, which links nothing of C++'s library"
            fix = f"name the C++ compiler that belongs to it, as in {source}=g++"
            return Part(name="g++", path=Path(path), problem=f"{problem}\n  hint: {fix}")
        version = _output([path, "-dumpfullversion", "-dumpversion"], environ).strip()
        banner = _output([path, "--version"], environ).partition("\n")[0].partition(" ")[2]
    except ToolchainError as error:
        return Part(name="g++", path=Path(path), problem=str(error))
    return Part(name="g++", path=Path(path), version=version, banner=banner)


def _links_cpp(compiler: str, environ: Mapping[str, str]) -> bool:
    """Whether ``compiler`` is one for C++ and not, like gcc, one for C that reads C++ too."""
    libraries = re.findall(
        r"(?<=[\s\"])-l([\w+]+)", _output([compiler, "-###", "-shared", "-x", "c++", "/dev/null"], environ)
    )
    return "c" not in libraries or not {"stdc++", "c++"}.isdisjoint(libraries)


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
    key = _digest([("toolchain", toolchain.identity), (target.name, " ".join(target.compiler_flags)), ("text", text)])
    record = cache_dir(environ) / "probes" / f"{key}.json"
    if os.path.isfile(record):  # Path's own raises where a folder above it cannot be searched
        return
    with _telling_of_room(environ):
        _compile_probe(toolchain, target, environ, text)
    _remember(record, toolchain.versions)


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
        result = _run(command, environ, folder)
        data = output.read_bytes() if output.is_file() else b""
    reason = elf.problem(data, cuda=not target.is_host, symbol="fusebuild_probe") if result.returncode == 0 else ""
    if result.returncode or reason:
        said = (result.stdout + reason).strip()
        raise ToolchainError(f"the probe does not compile for {target.name}:\n{shlex.join(map(str, command))}\n{said}")


@contextmanager
def _telling_of_room(environ: Mapping[str, str]) -> Iterator[None]:
    """An error inside may come from a full disk, which compilers mostly do not say. Where the folder that they write to
    is full, raise :class:`NoRoomError`."""
    try:
        yield
    except NoRoomError:
        raise
    except (ToolchainError, OSError) as error:
        if lack := lack_of_room(temporary_folder(environ), str(error)):
            raise NoRoomError(f"{lack}\n{error}") from error
        if isinstance(error, OSError):
            raise ToolchainError(f"compilers cannot be tried: {error}") from error
        raise


def compiler_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What compilers run with: no variable that adds flags, messages in English, no temporary folder whose name means
    something to the shell that nvcc passes it through (they then take ``/tmp``).

    g++ takes ``PWD`` for the compilation directory that it writes into debug information when it names the working
    directory; this spelling does, everywhere, and so keeps the real one out of the bytes.
    """
    kept = {name: value for name, value in environ.items() if name not in _IGNORED_VARIABLES}
    for name in TEMPORARY_FOLDERS:
        if not is_plain(kept.get(name, "/")):
            del kept[name]
    return kept | {"LC_ALL": "C", "PWD": "/proc/self/cwd"}


def _remember(record: Path, versions: Mapping[str, str]) -> None:
    temporary = record.with_suffix(f".{os.getpid()}.tmp")
    try:
        record.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(json.dumps(versions, indent=2, sort_keys=True) + "\n", encoding="utf-8")
        temporary.replace(record)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        logger.debug("the probe's result is not cached: %s", error)


def _site_packages(given: Sequence[Path] | None) -> Iterator[Path]:
    folders = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")] if given is None else given
    return iter(dict.fromkeys(folders))


def _include_dir(settings: Mapping[str, str]) -> Path:
    """The folder that nvcc takes ``cuda_runtime.h`` from; the toolkit's own where the file is nowhere."""
    words = shlex.split(settings.get("INCLUDES", ""))
    folders = [Path(os.path.normpath(word[2:])) for word in words if word.startswith("-I")]
    default = Path(os.path.normpath(settings["TOP"]), "include")
    return next((folder for folder in (*folders, default) if (folder / "cuda_runtime.h").is_file()), default)


def _inspect_ptxas(path: Path, environ: Mapping[str, str]) -> Part:
    if not path.is_file():
        return Part(name="ptxas", path=path, problem=f"{one_line(path)} does not exist (pip package nvidia-cuda-nvcc)")
    try:
        text = _output([path, "--version"], environ).strip()
    except ToolchainError as error:
        return Part(name="ptxas", path=path, problem=str(error))
    version = _cuda_version(text)
    return Part(name="ptxas", path=path, version=version, banner=text, problem="" if version else f"it says {text!r}")


def _inspect_cicc(path: Path, architectures: Sequence[str], environ: Mapping[str, str]) -> Part:
    """cicc has no option that prints its version, but it signs the PTX that it writes."""
    if not path.is_file():
        return Part(name="cicc", path=path, problem=f"{one_line(path)} does not exist (pip package nvidia-nvvm)")
    with tempfile.TemporaryDirectory(prefix="fusebuild-cicc-", dir=temporary_folder(environ)) as folder:
        source, output = Path(folder, "version.ii"), Path(folder, "version.ptx")
        source.write_text('extern "C" void f() {}\n', encoding="utf-8")
        arch = "compute_" + (architectures[0] if architectures else "sm_90").removeprefix("sm_")
        try:
            said = _output([path, "-arch", arch, "-m64", source.name, "-o", output.name], environ, folder)
        except ToolchainError as error:
            return Part(name="cicc", path=path, problem=str(error))
        text = output.read_text(encoding="utf-8", errors="replace") if output.is_file() else ""
    banner = "\n".join(re.findall(r"^// (Compiler Build ID.*|Cuda compilation tools.*)$", text, re.MULTILINE))
    version = _cuda_version(banner)
    problem = "" if version else f"{one_line(path)} compiles nothing: {said.strip()}"
    return Part(name="cicc", path=path, version=version, banner=banner, problem=problem)


def _cuda_version(text: str) -> str:
    match = re.search(r"\bV(\d+\.\d+\.\d+)", text)
    return match[1] if match else ""


def _defined_number(header: Path, macro: str) -> int:
    try:
        text = header.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    match = re.search(rf"^\s*#\s*define\s+{macro}\s+(\d+)", text, re.MULTILINE)
    return int(match[1]) if match else 0


def _output(command: Sequence[str | Path], environ: Mapping[str, str], folder: str = "/") -> str:
    """What ``command`` prints, on either stream; raises :class:`ToolchainError` when it cannot be started. It does not
    run in the present folder, whose name nvcc might give to a shell."""
    return _run(command, environ, folder).stdout


def _run(command: Sequence[str | Path], environ: Mapping[str, str], folder: str) -> subprocess.CompletedProcess[str]:
    logger.debug("%s", shlex.join(map(str, command)))
    try:
        return subprocess.run(
            command,
            cwd=folder,
            env=compiler_environment(environ) | {"TMPDIR": str(temporary_folder(environ))},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=120,
        )
    except OSError as error:
        raise ToolchainError(f"{one_line(command[0])} cannot be run: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise ToolchainError(f"{shlex.join(map(str, command))} did not end within 120 seconds") from None


def _stamp(path: Path) -> str:
    """The path, size and time of the file at ``path``: other ones when it is swapped for another file."""
    status = path.stat()
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def _digest(pairs: Sequence[tuple[str, str]]) -> str:
    return hashlib.sha256(json.dumps(pairs).encode()).hexdigest()
