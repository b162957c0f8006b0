"""Kernels as text in, objects out: every output path, the generated ``build.ninja``, and running ninja.

Python decides everything, ninja only compiles. An object is named by the digest of all that it is made from, so equal
kernels of many recipes are compiled once and a stale object cannot be mistaken for a fresh one. Headers are copied into
the build directory: what is compiled is then what was digested, and no path that nvcc sees needs quoting, wherever the
build directory lies (nvcc passes file names through ``sh``). It does the same with that directory's own name, so one
that a shell would take for commands is refused.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from fusebuild import elf
from fusebuild.disk_space import lack_of_room, temporary_folder
from fusebuild.errors import CompileError, UsageError
from fusebuild.kernel_resources import KernelResources, resources_of
from fusebuild.resources import include_dir, ninja_template
from fusebuild.target import Target
from fusebuild.toolchain import Toolchain, compiler_environment

logger = logging.getLogger(__name__)

KERNEL_HEADER = "fusebuild/kernel.cuh"
"""What every kernel includes, and before anything else."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]*[A-Za-z0-9_-]")
_STATUS = "fusebuild %f/%t "
_STATUS_LINE = re.compile(r"fusebuild (\d+)/(\d+) (header )?")
_FAILED_LINE = re.compile(r"FAILED: (?:\[code=\d+\] )?(\S+)")
_SHOWN_LINES = 40
_WORTH_A_HEADER = 4
"""Kernels for the CPU to each compiler that runs at a time for which the header is read once, before any of them. (Two
are as fast without.)"""

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
class BuildDir:
    """Every path that a build writes."""

    root: Path

    def __post_init__(self) -> None:
        if "\0" in str(self.root):
            raise UsageError(f"{str(self.root)!r} names no folder: there is a NUL in it")

    def artifact(self, fusion: str) -> Path:
        """``<root>/<fusion>.fuse``; raises :class:`UsageError` for a name that is more than a name."""
        if not _PLAIN_NAME.fullmatch(fusion):
            raise UsageError(f"'{fusion}' cannot name a file: only letters, digits, '_', '.' and '-' can")
        return self.root / f"{fusion}.fuse"

    @property
    def state(self) -> Path:
        """The folder in which ninja runs; all paths in ``build.ninja`` are relative to it."""
        return self.root / ".fusebuild"

    @property
    def include(self) -> Path:
        """The copy of the headers that kernels are compiled with."""
        return self.state / "include"

    @property
    def precompiled(self) -> Path:
        """The headers as the host's compiler keeps them, a folder for each target, while ninja runs."""
        return self.state / "precompiled"

    @property
    def ninja_file(self) -> Path:
        return self.state / "build.ninja"

    @property
    def compile_commands(self) -> Path:
        return self.state / "compile_commands.json"

    @property
    def record(self) -> Path:
        """What was built here, and from what: see :mod:`fusebuild.build_record`."""
        return self.state / "record.json"

    @property
    def lock(self) -> Path:
        """Held while a build writes here."""
        return self.state / "lock"

    @property
    def kernels(self) -> Path:
        """The kernels' texts."""
        return self.state / "kernels"

    def kernel(self, name: str) -> Path:
        return self.kernels / f"{name}.cu"

    def object(self, target: Target, name: str) -> Path:
        """The object called ``name`` (see :func:`object_name`) for ``target``."""
        return self.state / target.name / f"{name}.{'so' if target.is_host else 'cubin'}"

    def log(self, target: Target, name: str) -> Path:
        """What the compiler said while it made that object."""
        path = self.object(target, name)
        return path.with_name(f"{path.name}.log")


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """The device header's files by path below the include folder, and one hex digest of all."""

    files: Mapping[str, bytes]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """``objects`` has the path of every object asked for, all whole. ``resources`` has what ptxas said of the cubins.

    ``compiled`` counts objects that were compiled now (in a dry run: that would be), ``total`` all.
    """

    objects: Mapping[Key, Path]
    resources: Mapping[Key, KernelResources]
    compiled: int
    total: int
    seconds: float

    @property
    def spills(self) -> dict[Key, int]:
        """Bytes spilled, for the objects that spill."""
        return {key: used.spills for key, used in self.resources.items() if used.spills}


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


class BuildError(CompileError):
    """Some kernels could not be compiled; all others were. ``failures`` says which, in the order asked for, ``hint``
    what may be behind all of them."""

    def __init__(self, failures: Sequence[Failure], hint: str = "") -> None:
        self.failures = tuple(failures)
        super().__init__("\n".join([*map(str, self.failures), *([f"  hint: {hint}"] if hint else [])]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One edge of ``build.ninja``. ``precompiled`` says that it waits for its target's header to be."""

    kernel: KernelSource
    target: Target
    output: Path
    log: Path
    precompiled: bool = False
    key: Key = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (self.target.name, self.kernel.name))

    @property
    def rule(self) -> str:
        return "host" if self.target.is_host else "cubin"

    @property
    def edge_output(self) -> str:
        """The output as ``build.ninja`` names it."""
        return f"{self.target.name}/{self.output.name}"

    @property
    def edge_input(self) -> str:
        return f"kernels/{self.kernel.name}.cu"

    @property
    def edge(self) -> str:
        """Its lines in ``build.ninja``."""
        waits = f" || {_header_output(self.target)}" if self.precompiled else ""
        return _edge(self.edge_output, f"{self.rule} {self.edge_input}{waits}", self.target)

    def problem(self) -> str:
        """Why the object that is there cannot be used; empty when it can."""
        data = self.output.read_bytes()
        reason = elf.problem(data, cuda=not self.target.is_host, symbol=self.kernel.name)
        if reason or self.target.is_host:
            return reason
        if name := elf.path_dependent_symbol(data):
            return f"its device function {name} was not inlined, so its bytes depend on the directory"
        return ""

    def resources(self) -> KernelResources | None:
        """What ptxas said of it, or what it says itself; None for a host object, and where nobody knows."""
        if self.target.is_host or not self.log.is_file():
            return None
        return resources_of(self.log.read_text(encoding="utf-8", errors="replace"), self.output.read_bytes())

    def discard(self) -> None:
        self.output.unlink(missing_ok=True)
        self.log.unlink(missing_ok=True)


def read_headers() -> Headers:
    """The device header as it is now."""
    root = include_dir()
    paths = sorted(path for path in root.rglob("*") if path.is_file())
    files = {path.relative_to(root).as_posix(): path.read_bytes() for path in paths}
    names_and_digests = [(name, hashlib.sha256(data).hexdigest()) for name, data in files.items()]
    return Headers(files=files, digest=_digest(names_and_digests))


def compiler_flags(target: Target) -> str:
    """The compiler's command for ``target`` and the target's own flags: all that decides how a text is compiled."""
    rule = _rule_command(ninja_template(), "host" if target.is_host else "cubin")
    return " ".join([rule, *target.compiler_flags])


def object_name(kernel: KernelSource, target: Target, toolchain: Toolchain, headers: Headers | None = None) -> str:
    """``<kernel name>-<digest>``, the digest of everything that ``kernel``'s object for ``target`` is made from: text,
    headers (read now, unless given), the compiler's command and flags, and the tools' versions."""
    headers = headers or read_headers()
    made_from = [kernel.text, headers.digest, compiler_flags(target), toolchain.digest_for(target)]
    return f"{kernel.name}-{_digest(made_from)[:16]}"


def write_if_changed(path: Path, data: str | bytes) -> bool:
    """Write ``data`` unless ``path`` holds it already; True when it was written."""
    data = data.encode() if isinstance(data, str) else data
    if path.is_file() and path.read_bytes() == data:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error  # a full disk is said of no file
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return True


def build(
    requests: Sequence[tuple[Target, KernelSource]],
    build_dir: BuildDir,
    toolchain: Toolchain,
    *,
    jobs: int | None = None,
    on_progress: Callable[[int, int], None] | None = None,
    dry_run: bool = False,
) -> BuildResult:
    """Compile each of ``requests``, a kernel for a target, at most ``jobs`` at a time (default: one for each CPU).

    ``on_progress`` gets (done, to do) after each compilation. A dry run writes nothing. Builds in one directory wait
    for each other. Raises :class:`BuildError` when kernels do not compile, after the others have, and
    :class:`CompileError` when nothing can be compiled at all, and :class:`UsageError` for kernels for GPUs in a
    directory whose name a shell does not leave alone.
    """
    started = time.monotonic()
    if any(not target.is_host for target, _ in requests):
        _check_name(build_dir)
    headers = read_headers()
    planned = _plan(requests, build_dir, toolchain, headers)
    compiled = 0
    try:
        if dry_run:
            compiled = sum(not _is_whole(job) for job in planned)
        elif planned:
            with locked(build_dir.lock):
                jobs = jobs or _available_cpus()
                if toolchain.has_gcc:
                    planned = _with_headers(planned, jobs)
                _write_inputs(planned, build_dir, toolchain, headers)
                compiled = _make(planned, build_dir, toolchain, jobs, on_progress)
        resources = {job.key: used for job in planned if (used := job.resources()) is not None}
    except OSError as error:
        raise CompileError(f"cannot build in {build_dir.root}: {error.strerror} ({error.filename})") from error
    return BuildResult(
        objects={job.key: job.output for job in planned},
        resources=resources,
        compiled=compiled,
        total=len(planned),
        seconds=time.monotonic() - started,
    )


def _check_name(build_dir: BuildDir) -> None:
    place = os.path.realpath(build_dir.state)  # what getcwd() says there
    if re.search(r"`|\$[({]", place):  # in place of $NAME the shell puts a text, which nvcc makes nothing of
        reason = "nvcc would give that name to a shell, which takes a part for a command"
        raise UsageError(f"cannot build for GPUs in {place}: {reason}")


def _plan(
    requests: Sequence[tuple[Target, KernelSource]], build_dir: BuildDir, toolchain: Toolchain, headers: Headers
) -> list[_Job]:
    by_name: dict[str, KernelSource] = {}
    wanted: dict[Key, tuple[Target, KernelSource]] = {}
    for target, kernel in requests:
        if by_name.setdefault(kernel.name, kernel) != kernel:
            raise UsageError(f"two different kernels are called {kernel.name}")
        if not target.is_host and toolchain.nvcc is None:
            raise UsageError(f"this toolchain has no nvcc, which {target.name} needs")
        wanted[target.name, kernel.name] = (target, kernel)
    in_order = list(dict.fromkeys(target.name for target, _ in requests))
    planned = []
    for _, (target, kernel) in sorted(wanted.items(), key=lambda item: (in_order.index(item[0][0]), item[0][1])):
        name = object_name(kernel, target, toolchain, headers)
        output, log = build_dir.object(target, name), build_dir.log(target, name)
        planned.append(_Job(kernel=kernel, target=target, output=output, log=log))
    return planned


def _with_headers(planned: Sequence[_Job], jobs: int) -> list[_Job]:
    """``planned``, waiting for precompiled headers where those are worth it."""
    missing = Counter(job.target.name for job in planned if job.target.is_host and not job.output.exists())
    return [replace(job, precompiled=missing[job.target.name] >= _WORTH_A_HEADER * jobs) for job in planned]


def _is_whole(job: _Job) -> bool:
    return job.output.is_file() and not job.problem() and (job.target.is_host or job.log.is_file())


def _write_inputs(planned: Sequence[_Job], build_dir: BuildDir, toolchain: Toolchain, headers: Headers) -> None:
    for name, data in headers.files.items():
        write_if_changed(build_dir.include / name, data)
    for path in build_dir.include.rglob("*"):
        if path.is_file() and path.relative_to(build_dir.include).as_posix() not in headers.files:
            path.unlink()  # a header that is gone must not be found
    for folder in (build_dir.state, build_dir.kernels):
        for path in folder.glob(".*.tmp"):
            path.unlink()  # of a build that was killed: nobody else writes here
    for job in planned:
        write_if_changed(build_dir.kernel(job.kernel.name), job.kernel.text)
        job.output.parent.mkdir(exist_ok=True)
    template = ninja_template()
    variables = {
        "nvcc": shlex.quote(str(toolchain.nvcc or "nvcc")),
        "cxx": shlex.quote(str(toolchain.cxx)),
        "cuda_include": shlex.quote(str(toolchain.cuda_include)),
        "header_deps": "-fpch-deps" if toolchain.has_gcc else "",
    }
    write_if_changed(build_dir.ninja_file, ninja_text(template, variables, planned))
    commands = [_compile_command(job, template, variables, build_dir) for job in planned]
    write_if_changed(build_dir.compile_commands, json.dumps(commands, indent=2) + "\n")


def ninja_text(template: str, variables: Mapping[str, str], planned: Sequence[_Job]) -> str:
    """``build.ninja``: the template with its ``@words@`` replaced, and one edge for each of ``planned``."""

    def value(match: re.Match[str]) -> str:
        return _ninja_escape(variables[match[1]])

    headers = [
        _edge(_header_output(target), f"header include/{KERNEL_HEADER}", target) for target in _precompiled_for(planned)
    ]
    rules = re.sub(r"(?<= = )@(\w+)@$", value, template, flags=re.MULTILINE)
    return "\n".join([rules, *headers, *(job.edge for job in planned)])


def _edge(output: str, inputs: str, target: Target) -> str:
    """One edge of ``build.ninja``; ``inputs`` are its rule and what follows that."""
    variables = "".join(f"  {name} = {_ninja_escape(value)}\n" for name, value in _variables(target).items())
    return f"build {output}: {inputs}\n{variables}"


def _variables(target: Target) -> Mapping[str, str]:
    """What a rule's command asks its edges for."""
    return {"flags": shlex.join(target.compiler_flags), "target": target.name}


def _precompiled_for(planned: Sequence[_Job]) -> tuple[Target, ...]:
    """The targets whose headers are precompiled."""
    return tuple({job.target.name: job.target for job in planned if job.precompiled}.values())


def _header_output(target: Target) -> str:
    """The precompiled header of ``target`` as ``build.ninja`` names it: g++ looks for it beside the header, in each
    folder that it looks for that in."""
    return f"precompiled/{target.name}/{KERNEL_HEADER}.gch"


def _compile_command(job: _Job, template: str, variables: Mapping[str, str], build_dir: BuildDir) -> dict[str, object]:
    """One entry of ``compile_commands.json``: the rule's command without its redirection."""
    words = {**variables, **_variables(job.target), "in": job.edge_input, "out": job.edge_output}
    command = _rule_command(template, job.rule).partition(" > ")[0]
    command = re.sub(r"\$(\w+)", lambda match: words[match[1]], command)
    return {
        "directory": os.path.abspath(build_dir.state),
        "file": job.edge_input,
        "output": job.edge_output,
        "arguments": shlex.split(command),
    }


def _rule_command(template: str, rule: str) -> str:
    """The command of ``rule``, its lines joined as ninja joins them, with the values of the template's variables."""
    joined = re.sub(r"\$\n *", "", template)
    values = dict(re.findall(r"^(\w+) = ([^@].*)$", joined, re.MULTILINE))
    match = re.search(rf"^rule {rule}\n(?:  .*\n)*?  command = (.*)$", joined, re.MULTILINE)
    if match is None:
        raise CompileError(f"build.ninja.in has no rule {rule}")
    return re.sub(r"\$(\w+)", lambda word: values.get(word[1], word[0]), match[1])


def _make(
    planned: Sequence[_Job],
    build_dir: BuildDir,
    toolchain: Toolchain,
    jobs: int,
    on_progress: Callable[[int, int], None] | None,
) -> int:
    """Run ninja until every object is whole; the number of objects that were compiled.

    An object that ninja takes for finished can still be broken: nvcc on a full disk exits 0 and leaves half a cubin.
    Such a one is made once more; if that is no better, it is a failure.
    """
    for job in planned:
        if job.output.exists() and not _is_whole(job):
            job.discard()
    compiled, full = 0, ""
    for attempt in (1, 2):
        finished, failures = _run_ninja(planned, build_dir, toolchain, jobs, on_progress)
        compiled += finished - len(failures)
        failed = {(failure.target, failure.kernel) for failure in failures}
        broken = [(job, job.problem()) for job in planned if job.key not in failed and job.output.is_file()]
        broken = [(job, reason) for job, reason in broken if reason]
        full = _lack_of_room(build_dir)  # now: discarding makes room
        for job, _ in broken:
            job.discard()
            compiled -= 1
        if failures or not broken or attempt == 2:
            failures += [
                Failure(kernel=job.kernel.name, target=job.target.name, output=f"the object is unusable: {reason}")
                for job, reason in broken
            ]
            break
        logger.warning("compiling again: %s: %s", broken[0][0].edge_output, broken[0][1])
    if failures:
        order = {job.key: index for index, job in enumerate(planned)}
        in_order = sorted(failures, key=lambda failure: order[failure.target, failure.kernel])
        raise BuildError(in_order, full)
    return compiled


def _lack_of_room(build_dir: BuildDir) -> str:
    folders = (build_dir.state, temporary_folder(compiler_environment(os.environ)))
    return next(filter(None, map(lack_of_room, folders)), "")


def _run_ninja(
    planned: Sequence[_Job],
    build_dir: BuildDir,
    toolchain: Toolchain,
    jobs: int,
    on_progress: Callable[[int, int], None] | None,
) -> tuple[int, list[Failure]]:
    """One run of ninja: how many compilations ended, and those that failed. Raises :class:`CompileError` when ninja
    itself fails."""
    _remove(build_dir.precompiled)  # half of a header may be left of a build that was killed
    command = [str(toolchain.ninja), "-f", build_dir.ninja_file.name, "-j", str(jobs), "-k", "0"]
    environment = compiler_environment(os.environ) | {"NINJA_STATUS": _STATUS, "CLICOLOR_FORCE": "0"}
    process = subprocess.Popen(
        command,
        cwd=build_dir.state,
        env=environment,
        close_fds=False,  # where this process is killed alone, they hold the lock until they are done
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        errors="replace",
    )
    assert process.stdout is not None
    lines, done, headers = [], 0, 0
    most_headers = len(_precompiled_for(planned))
    try:
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if match := _STATUS_LINE.match(line):
                headers += bool(match[3])
                done = int(match[1]) - headers
                if on_progress and not match[3]:
                    on_progress(done, int(match[2]) - most_headers)
        status = process.wait()
    except BaseException:
        process.terminate()  # ninja then stops its compilers and removes what they had half written
        process.wait()
        raise
    finally:
        _remove(build_dir.precompiled)
    failures = _failures(lines, planned)
    if status and not failures:
        raise CompileError(f"ninja failed in {build_dir.state}:\n" + "\n".join(lines))
    return done, failures


def _remove(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)


def _failures(lines: Sequence[str], planned: Sequence[_Job]) -> list[Failure]:
    """The blocks of ninja's output that begin with ``FAILED:``: a line with the command, then what it printed."""
    jobs = {job.edge_output: job for job in planned}
    failures: list[Failure] = []
    starts = [index for index, line in enumerate(lines) if _failed_job(line, jobs)]
    for start in starts:
        job = _failed_job(lines[start], jobs)
        assert job is not None
        output: list[str] = []
        for line in lines[start + 2 :]:
            if _STATUS_LINE.match(line) or line.startswith("ninja: "):
                break
            output.append(line)
        failures.append(
            Failure(kernel=job.kernel.name, target=job.target.name, output="\n".join(output), command=lines[start + 1])
        )
    return failures


def _failed_job(line: str, jobs: Mapping[str, _Job]) -> _Job | None:
    match = _FAILED_LINE.match(line)
    return jobs.get(match[1]) if match else None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock at ``path``; the system drops it if this process dies, and the compilers that it started."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        os.set_inheritable(file.fileno(), True)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("waiting for another build in %s", path.parent)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _ninja_escape(text: str) -> str:
    if "\n" in text:
        raise UsageError(f"a path with a line break cannot be built with: {text!r}")
    return text.replace("$", "$$")


def _available_cpus() -> int:
    return len(os.sched_getaffinity(0))


def _digest(items: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()
