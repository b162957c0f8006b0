"""A compiler: what it says of itself, and how it is run, whatever its environment and its disk are like."""

from __future__ import annotations

import logging
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fusebuild.errors import NoRoomError, ToolchainError, one_line
from fusebuild.system.disk_space import TEMPORARY_FOLDERS, is_plain, lack_of_room, temporary_folder

logger = logging.getLogger(__name__)

_IGNORED_VARIABLES = (
    "NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "GCC_EXEC_PREFIX",
    "LD_RUN_PATH", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES",
)  # fmt: skip
"""Environment variables that would change objects without changing the digests that name them."""


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
        version = answer([path, "-dumpfullversion", "-dumpversion"], environ).strip()
        banner = answer([path, "--version"], environ).partition("\n")[0].partition(" ")[2]
    except ToolchainError as error:
        return Part(name="g++", path=Path(path), problem=str(error))
    return Part(name="g++", path=Path(path), version=version, banner=banner)


def _links_cpp(compiler: str, environ: Mapping[str, str]) -> bool:
    """Whether ``compiler`` is one for C++ and not, like gcc, one for C that reads C++ too."""
    libraries = re.findall(
        r"(?<=[\s\"])-l([\w+]+)", answer([compiler, "-###", "-shared", "-x", "c++", "/dev/null"], environ)
    )
    return "c" not in libraries or not {"stdc++", "c++"}.isdisjoint(libraries)


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


def answer(command: Sequence[str | Path], environ: Mapping[str, str], folder: str = "/") -> str:
    """What ``command`` prints, on either stream; raises :class:`ToolchainError` when it cannot be started. It does not
    run in the present folder, whose name nvcc might give to a shell."""
    return run(command, environ, folder).stdout


def run(command: Sequence[str | Path], environ: Mapping[str, str], folder: str) -> subprocess.CompletedProcess[str]:
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


@contextmanager
def telling_of_room(environ: Mapping[str, str]) -> Iterator[None]:
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
