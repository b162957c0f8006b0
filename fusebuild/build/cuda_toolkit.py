"""CUDA's toolkit: which nvcc, whether its parts fit each other, and where CUDA's headers are.

nvcc is looked for in this order: ``--nvcc``, ``FUSEBUILD_NVCC``, ``CUDA_HOME`` and ``CUDA_PATH``, this interpreter's
``site-packages/nvidia/cu13``, ``PATH``. The first that exists is used; when it turns out broken that is an error, not a
reason to try the next, so that the same environment always means the same compiler. Where an nvcc's toolkit lies is
asked of nvcc itself (``--dryrun``), never derived from its path: what is on ``PATH`` may be a wrapper.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fusebuild.build.compiler import Part, answer
from fusebuild.errors import ToolchainError, one_line
from fusebuild.system.disk_space import temporary_folder

FIX = "pip install 'cuda-toolkit[nvcc,nvvm,crt,cudart,cccl]==13.0.*'"
"""The one set of pip packages whose parts are known to fit: a bare nvidia-cuda-nvcc pulls parts of other releases."""

_HEADERS = {
    "cuda_runtime.h": "nvidia-cuda-runtime",
    "cuda_bf16.h": "nvidia-cuda-runtime",
    "crt/host_config.h": "nvidia-cuda-crt",
    "nv/target": "nvidia-cuda-cccl",
}
"""Headers that every kernel includes, directly or not, and the pip package that has each."""

_FOR_A_SHELL = re.compile(r'["$`\\\n]')
"""Characters that a shell interprets even between double quotes. nvcc puts names between those."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One place where nvcc is looked for."""

    source: str
    path: Path

    @property
    def exists(self) -> bool:
        return self.path.is_file() and os.access(self.path, os.X_OK)

    @property
    def is_demanded(self) -> bool:
        """Whether nvcc must be here: other places without it are passed over."""
        return self.source in ("--nvcc", "FUSEBUILD_NVCC")


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


def nvcc_candidates(
    nvcc: str | os.PathLike[str] | None, environ: Mapping[str, str], site_packages: Sequence[Path] | None = None
) -> tuple[Candidate, ...]:
    """Every place where nvcc is looked for, in order; places that the environment does not name are left out."""
    places: list[tuple[str, str | os.PathLike[str] | None]] = [
        ("--nvcc", nvcc),
        ("FUSEBUILD_NVCC", environ.get("FUSEBUILD_NVCC") or None),
        *((source, root / "bin" / "nvcc") for source, root in _toolkit_folders(environ, site_packages)),
        ("PATH", shutil.which("nvcc", path=environ.get("PATH", ""))),
    ]
    return tuple(
        Candidate(source=source, path=Path(os.path.abspath(path))) for source, path in places if path is not None
    )


def _toolkit_folders(environ: Mapping[str, str], site_packages: Sequence[Path] | None) -> list[tuple[str, Path]]:
    """Where a toolkit may lie, by what names the folder, in the order in which nvcc is looked for."""
    named = [(name, Path(os.path.abspath(environ[name]))) for name in ("CUDA_HOME", "CUDA_PATH") if environ.get(name)]
    installed = [Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")]
    folders = dict.fromkeys(installed if site_packages is None else site_packages)
    return [*named, *(("site-packages", folder / "nvidia" / "cu13") for folder in folders)]


def choose_nvcc(candidates: Sequence[Candidate], *, needed: bool = True) -> Candidate | None:
    """The first candidate that exists.

    Raises :class:`ToolchainError` when one that was demanded does not exist, or when none exists and one is ``needed``.
    """
    for candidate in candidates:
        if candidate.exists:
            return candidate
        if candidate.is_demanded:
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
    version_text = answer([nvcc, "--version"], environ)
    version = _cuda_version(version_text)
    dryrun = answer([nvcc, "-ccbin", cxx, "--dryrun", "-cubin", "probe.cu"], environ)
    settings = dict(re.findall(r"^#\$ (\w+)=(.*)$", dryrun, re.MULTILINE))
    if not version or "TOP" not in settings:
        raise ToolchainError(f"{one_line(nvcc)} does not answer as nvcc does:\n{(version_text + dryrun).strip()}")
    if _FOR_A_SHELL.search(settings["TOP"]):
        reason = "it would give the name of that folder to a shell, which takes a part for a command"
        raise ToolchainError(f"nvcc cannot be used from {settings['TOP']}: {reason}")
    architectures = tuple(re.findall(r"^sm_\w+$", answer([nvcc, "--list-gpu-code"], environ), re.MULTILINE))
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
    found += _missing_headers(cuda.include, label)
    for part in (cuda.ptxas, cuda.cicc, *header_parts(cuda.include)[:1]):
        if part.version and part.release != cuda.nvcc.release:
            found.append(f"{label} and {part.name} {part.version} ({one_line(part.path)}) do not fit each other")
    return _with_hints(found)


def _with_hints(problems: Sequence[str]) -> tuple[str, ...]:
    return tuple(f"{problem}\n  hint: {FIX}" for problem in problems)


def _missing_headers(include: Path, label: str) -> list[str]:
    """One sentence for each header that kernels need and ``include`` lacks."""
    return [
        f"{label}: {one_line(include)} lacks {header} (pip package {package})"
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
    is looked for. Raises :class:`ToolchainError` where there is none, and for headers that are not in it."""
    folders = (root / "include" for _, root in _toolkit_folders(environ, site_packages))
    include = next((folder for folder in folders if (folder / "cuda_runtime.h").is_file()), None)
    if include is None:
        fix = "pip install 'cuda-toolkit[crt,cudart,cccl]==13.0.*'"
        raise ToolchainError(f"no CUDA headers found, which the host target needs too\n  hint: {fix}")
    if missing := _missing_headers(include, "the CUDA headers"):
        raise ToolchainError("\n".join(_with_hints(missing)))
    return include


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
        text = answer([path, "--version"], environ).strip()
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
            said = answer([path, "-arch", arch, "-m64", source.name, "-o", output.name], environ, folder)
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
