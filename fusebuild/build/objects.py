"""Kernels as text in, objects out: every output path, the generated ``build.ninja``, and running ninja.

Python decides everything, ninja only compiles. An object is named by the digest of all that it is made from, so equal
kernels of many recipes are compiled once and a stale object cannot be mistaken for a fresh one. What the store has
(:mod:`fusebuild.build.object_store`) is taken from there. The rest is compiled in a private folder
(:mod:`fusebuild.build.work_folder`), read once, looked at, put into the store, and is in memory from then on: what is
packed are the bytes that were found whole. The folder that the user named gets texts alone, for people and their tools.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import shlex
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from fusebuild.artifact import elf
from fusebuild.artifact.kernel_resources import KernelResources, resources_of
from fusebuild.build.object_store import CompiledObject, ObjectStore, user_store
from fusebuild.build.toolchain import Toolchain, compiler_environment
from fusebuild.build.work_folder import WorkFolder, work_folder
from fusebuild.errors import CompileError, UsageError, counted, one_line
from fusebuild.system.disk_space import lack_of_room
from fusebuild.system.folder_lock import locked
from fusebuild.system.resources import include_dir, ninja_template
from fusebuild.target.table import Target

logger = logging.getLogger(__name__)

KERNEL_HEADER = "fusebuild/kernel.cuh"
"""What every kernel includes, and before anything else."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.-]*[A-Za-z0-9_-]")
_STATUS = "fusebuild %f/%t "
_STATUS_LINE = re.compile(r"fusebuild (\d+)/(\d+) ")
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
        """The folder of all that is no artifact."""
        return self.root / ".fusebuild"

    @property
    def compile_commands(self) -> Path:
        """How each kernel of the last build is compiled, as editors read it; paths in it are relative to its folder."""
        return self.state / "compile_commands.json"

    @property
    def record(self) -> Path:
        """What was built here, and from what: see :mod:`fusebuild.build.record`."""
        return self.state / "record.json"

    @property
    def lock(self) -> Path:
        """Held while a compile reads, builds and writes here."""
        return self.state / "lock"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold :attr:`lock`, which the caller may hold already. Raises :class:`CompileError` where none can be made."""
        with ExitStack() as held:
            with self.explained():
                held.enter_context(locked(self.lock))
            yield

    @contextmanager
    def explained(self) -> Iterator[None]:
        """An :class:`OSError` is a :class:`CompileError` that says what could not be done here."""
        try:
            yield
        except OSError as error:
            place = one_line(self.root)
            raise CompileError(f"cannot build in {place}: {error.strerror} ({one_line(error.filename)})") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Headers:
    """The device header's files by path below the include folder, and one hex digest of all."""

    files: Mapping[str, bytes]
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildResult:
    """``objects`` has the bytes of every object asked for, all whole. ``resources`` has what ptxas said of the cubins.

    ``compiled`` counts objects that were compiled now (in a dry run: that would be, and has no bytes), ``total`` all.
    """

    objects: Mapping[Key, bytes]
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
    """Some kernels could not be compiled; all others were. ``failures`` says which, in the order asked for, ``cause``
    what is behind all of them: one is then enough to show."""

    def __init__(self, failures: Sequence[Failure], cause: str = "") -> None:
        self.failures = tuple(failures)
        others = len(self.failures) - 1
        more = [f"… and {counted(others, 'more kernel')}"] if others else []
        said = [cause, str(self.failures[0]), *more] if cause else map(str, self.failures)
        super().__init__("\n".join(said))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """One object to make. ``name`` is that of :func:`object_name`."""

    kernel: KernelSource
    target: Target
    name: str
    key: Key = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "key", (self.target.name, self.kernel.name))

    @property
    def stored_name(self) -> str:
        """What the store calls it."""
        return f"{self.target.name}/{self.name}"

    @property
    def rule(self) -> str:
        return "host" if self.target.is_host else "cubin"

    @property
    def output(self) -> str:
        """The object as ``build.ninja`` names it."""
        return f"{self.stored_name}.{'so' if self.target.is_host else 'cubin'}"

    @property
    def input(self) -> str:
        return f"kernels/{self.kernel.name}.cu"

    def problem(self, data: bytes) -> str:
        """Why ``data`` cannot be used for it; empty when it can."""
        reason = elf.problem(data, cuda=not self.target.is_host, symbol=self.kernel.name)
        if reason or self.target.is_host:
            return reason
        if name := elf.path_dependent_symbol(data):
            return f"its device function {name} was not inlined, so its bytes depend on the directory"
        return ""

    def resources(self, compiled: CompiledObject) -> KernelResources | None:
        """What ptxas said of it, or what it says itself; None for a host object, and where nobody knows."""
        return None if self.target.is_host else resources_of(compiled.log, compiled.data)


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
    return f"{kernel.name}-{_digest(made_from)[:32]}"


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
    store: ObjectStore | None = None,
) -> BuildResult:
    """Compile each of ``requests``, a kernel for a target, that ``store`` (default: the user's) does not have, at most
    ``jobs`` at a time (default: one for each CPU).

    ``on_progress`` gets (done, to do) after each compilation. A dry run writes nothing. Builds in one directory wait
    for each other. Raises :class:`BuildError` when kernels do not compile, after the others have, and
    :class:`CompileError` when nothing can be compiled at all.
    """
    started = time.monotonic()
    headers = read_headers()
    planned = _plan(requests, toolchain, headers)
    store = store or user_store(os.environ)
    if dry_run or not planned:
        found = _stored(planned, store)
        compiled = len(planned) - len(found)
    else:
        with build_dir.locked(), build_dir.explained():
            _write_for_people(planned, build_dir, toolchain, headers)
            found = _stored(planned, store)
            missing = [job for job in planned if job.key not in found]
            compiled = len(missing)
            logger.info("%d of %s are in %s", len(found), counted(len(planned), "object"), store.root)
            for job in missing:
                logger.debug("%s", shlex.join(_compile_arguments(job, toolchain)))
            if missing:
                found |= _make(missing, toolchain, headers, store, jobs or _available_cpus(), on_progress)
                store.prune(store.limit)
    whole = [job for job in planned if job.key in found]
    return BuildResult(
        objects={job.key: found[job.key].data for job in whole},
        resources={job.key: used for job in whole if (used := job.resources(found[job.key])) is not None},
        compiled=compiled,
        total=len(planned),
        seconds=time.monotonic() - started,
    )


def _plan(requests: Sequence[tuple[Target, KernelSource]], toolchain: Toolchain, headers: Headers) -> list[_Job]:
    by_name: dict[str, KernelSource] = {}
    wanted: dict[Key, tuple[Target, KernelSource]] = {}
    for target, kernel in requests:
        if by_name.setdefault(kernel.name, kernel) != kernel:
            raise UsageError(f"two different kernels are called {kernel.name}")
        if not target.is_host and toolchain.nvcc is None:
            raise UsageError(f"this toolchain has no nvcc, which {target.name} needs")
        wanted[target.name, kernel.name] = (target, kernel)
    in_order = list(dict.fromkeys(target.name for target, _ in requests))
    return [
        _Job(kernel=kernel, target=target, name=object_name(kernel, target, toolchain, headers))
        for _, (target, kernel) in sorted(wanted.items(), key=lambda item: (in_order.index(item[0][0]), item[0][1]))
    ]


def _stored(planned: Sequence[_Job], store: ObjectStore) -> dict[Key, CompiledObject]:
    """Those objects of ``planned`` that ``store`` has."""
    return {job.key: found for job in planned if (found := store.get(job.stored_name))}


def _write_for_people(planned: Sequence[_Job], build_dir: BuildDir, toolchain: Toolchain, headers: Headers) -> None:
    """The kernels' texts, their headers and how they are compiled."""
    for folder in (build_dir.state, build_dir.state / "kernels"):
        for path in folder.glob(".*.tmp"):
            path.unlink()  # of a build that was killed: nobody else writes here
    _write_texts(planned, build_dir.state, headers)
    commands = [_compile_command(job, toolchain, build_dir) for job in planned]
    write_if_changed(build_dir.compile_commands, json.dumps(commands, indent=2) + "\n")


def _write_texts(planned: Sequence[_Job], folder: Path, headers: Headers) -> None:
    include = folder / "include"
    for name, data in headers.files.items():
        write_if_changed(include / name, data)
    for path in include.rglob("*"):
        if path.is_file() and path.relative_to(include).as_posix() not in headers.files:
            path.unlink()  # a header that is gone must not be found
    for job in planned:
        write_if_changed(folder / job.input, job.kernel.text)


def _variables(toolchain: Toolchain) -> dict[str, str]:
    """What the template's ``@words@`` are."""
    return {
        "nvcc": shlex.quote(str(toolchain.nvcc or "nvcc")),
        "cxx": shlex.quote(str(toolchain.cxx)),
        "cuda_include": shlex.quote(str(toolchain.cuda_include)),
    }


def ninja_text(
    template: str, variables: Mapping[str, str], planned: Sequence[_Job], with_headers: Sequence[Target] = ()
) -> str:
    """``build.ninja``: the template with its ``@words@`` replaced, and one edge for each of ``planned``; those for a
    target of ``with_headers`` wait for its precompiled header."""

    def value(match: re.Match[str]) -> str:
        return _ninja_escape(variables[match[1]])

    rules = re.sub(r"(?<= = )@(\w+)@$", value, template, flags=re.MULTILINE)
    headers = [_edge(_header_output(each), f"header include/{KERNEL_HEADER}", each) for each in with_headers]
    edges = []
    for job in planned:
        waits = f" || {_header_output(job.target)}" if job.target in with_headers else ""
        edges.append(_edge(job.output, f"{job.rule} {job.input}{waits}", job.target))
    return "\n".join([rules, *headers, *edges])


def _edge(output: str, inputs: str, target: Target) -> str:
    """One edge of ``build.ninja``; ``inputs`` are its rule and what follows that."""
    variables = "".join(f"  {name} = {_ninja_escape(value)}\n" for name, value in _edge_variables(target).items())
    return f"build {output}: {inputs}\n{variables}"


def _edge_variables(target: Target) -> Mapping[str, str]:
    """What a rule's command asks its edges for."""
    return {"flags": shlex.join(target.compiler_flags), "target": target.name}


def _worth_a_header(planned: Sequence[_Job], toolchain: Toolchain, jobs: int) -> tuple[Target, ...]:
    """The targets whose headers are to be precompiled."""
    if not toolchain.has_gcc:
        return ()
    targets = {job.target.name: job.target for job in planned if job.target.is_host}
    kernels = Counter(job.target.name for job in planned)
    return tuple(target for name, target in targets.items() if kernels[name] >= _WORTH_A_HEADER * jobs)


def _header_output(target: Target) -> str:
    """The precompiled header of ``target`` as ``build.ninja`` names it: g++ looks for it beside the header, in each
    folder that it looks for that in."""
    return f"precompiled/{target.name}/{KERNEL_HEADER}.gch"


def _compile_command(job: _Job, toolchain: Toolchain, build_dir: BuildDir) -> dict[str, object]:
    """One entry of ``compile_commands.json``."""
    return {
        "directory": os.path.abspath(build_dir.state),
        "file": job.input,
        "output": job.output,
        "arguments": _compile_arguments(job, toolchain),
    }


def _compile_arguments(job: _Job, toolchain: Toolchain) -> list[str]:
    """The rule's command without its redirection."""
    words = {**_variables(toolchain), **_edge_variables(job.target), "in": job.input, "out": job.output}
    command = _rule_command(ninja_template(), job.rule).partition(" > ")[0]
    return shlex.split(re.sub(r"\$(\w+)", lambda match: words[match[1]], command))


def _rule_command(template: str, rule: str) -> str:
    """The command of ``rule``, its lines joined as ninja joins them, with the values of the template's variables."""
    joined = re.sub(r"\$\n *", "", template)
    values = dict(re.findall(r"^(\w+) = ([^@].*)$", joined, re.MULTILINE))
    match = re.search(rf"^rule {rule}\n(?:  .*\n)*?  command = (.*)$", joined, re.MULTILINE)
    if match is None:
        raise CompileError(f"build.ninja.in has no rule {rule}")
    return re.sub(r"\$(\w+)", lambda word: values.get(word[1], word[0]), match[1])


def _make(
    missing: Sequence[_Job],
    toolchain: Toolchain,
    headers: Headers,
    store: ObjectStore,
    jobs: int,
    on_progress: Callable[[int, int], None] | None,
) -> dict[Key, CompiledObject]:
    """Compile all of ``missing``, each put into ``store`` once it is found whole."""
    with work_folder(os.environ) as work:
        precompiled = _worth_a_header(missing, toolchain, jobs)
        _write_texts(missing, work.path, headers)
        for folder in {job.target.name for job in missing}:
            (work.path / folder).mkdir()
        text = ninja_text(ninja_template(), _variables(toolchain), missing, precompiled)
        write_if_changed(work.path / "build.ninja", text)
        run = _Run(work=work, toolchain=toolchain, store=store, jobs=jobs, headers=len(precompiled),
                   missing={job.output: job for job in missing}, on_progress=on_progress)  # fmt: skip
        return run.make()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What is compiled in one folder: ``missing`` by output, ``headers`` precompiled before, ``made`` so far."""

    work: WorkFolder
    toolchain: Toolchain
    store: ObjectStore
    jobs: int
    headers: int
    missing: Mapping[str, _Job]
    on_progress: Callable[[int, int], None] | None
    made: dict[Key, CompiledObject] = field(default_factory=dict)

    def make(self) -> dict[Key, CompiledObject]:
        """Run ninja until every object is whole.

        An object that ninja takes for finished can still be broken: nvcc on a full disk exits 0 and leaves half a
        cubin. Such a one is made once more; if that is no better, it is a failure.
        """
        failures = self._run_ninja()
        broken = self._broken(failures)
        if broken and not failures:
            logger.warning("compiling again: %s: %s", broken[0].kernel, broken[0].output)
            for job in self.missing.values():
                if job.key not in self.made:
                    (self.work.path / job.output).unlink(missing_ok=True)
            failures = self._run_ninja()
            broken = self._broken(failures)
        if failures or broken:
            order = {job.key: index for index, job in enumerate(self.missing.values())}
            in_order = sorted([*failures, *broken], key=lambda failure: order[failure.target, failure.kernel])
            said = "\n".join(failure.output for failure in in_order)
            raise BuildError(in_order, lack_of_room(self.work.path, said))
        return self.made

    def _take(self, job: _Job) -> str:
        """Read what a compiler left and keep it; else why it cannot be used."""
        output = self.work.path / job.output
        if job.key in self.made or not output.is_file():  # where it is not, the compiler said why
            return ""
        data = output.read_bytes()
        if reason := job.problem(data):
            return reason
        log = output.with_name(f"{output.name}.log").read_text(encoding="utf-8", errors="replace")
        self.made[job.key] = CompiledObject(name=job.stored_name, data=data, log=log)
        self.store.put(self.made[job.key])
        return ""

    def _broken(self, failures: Sequence[Failure]) -> list[Failure]:
        """What cannot be used though its compiler had nothing to say."""
        failed = {(failure.target, failure.kernel) for failure in failures}
        reasons = [(job, self._take(job)) for job in self.missing.values() if job.key not in failed]
        return [
            Failure(
                kernel=job.kernel.name,
                target=job.target.name,
                output=f"the object is unusable: {reason or 'it is missing'}",
            )
            for job, reason in reasons
            if job.key not in self.made
        ]

    def _run_ninja(self) -> list[Failure]:
        """One run of ninja: the compilations that failed. Raises :class:`CompileError` when ninja itself fails."""
        command = [str(self.toolchain.ninja), "-j", str(self.jobs), "-k", "0"]
        environment = compiler_environment(os.environ) | {
            "NINJA_STATUS": _STATUS,
            "CLICOLOR_FORCE": "0",
            "TMPDIR": str(self.work.temporary),
        }
        process = subprocess.Popen(
            command,
            cwd=self.work.path,
            env=environment,
            pass_fds=(self.work.lock,),  # where this process is killed alone, they hold the lock until they are done
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        assert process.stdout is not None
        lines = []
        try:
            for line in process.stdout:
                lines.append(line.rstrip("\n"))
                self._follow(lines[-1])
            status = process.wait()
        except BaseException:
            process.terminate()  # ninja then stops its compilers
            process.wait()
            raise
        failures = _failures(lines, self.missing)
        if status and not failures:
            place = one_line(self.work.path)
            said = [f"ninja failed in {place}:", *(line for line in lines if not _STATUS_LINE.match(line))]
            cause = lack_of_room(self.work.path, "\n".join(said))
            raise CompileError("\n".join([cause, *said] if cause else said))
        return failures

    def _follow(self, line: str) -> None:
        """Take what ninja says is finished: should this process be killed, it is not lost."""
        match = _STATUS_LINE.match(line)
        job = self.missing.get(line.rpartition(" ")[2]) if match else None
        if match is None or job is None:
            return
        self._take(job)
        if self.on_progress:
            self.on_progress(int(match[1]) - self.headers, int(match[2]) - self.headers)


def _failures(lines: Sequence[str], jobs: Mapping[str, _Job]) -> list[Failure]:
    """The blocks of ninja's output that begin with ``FAILED:``: a line with the command, then what it printed."""
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


def _ninja_escape(text: str) -> str:
    if "\n" in text:
        raise UsageError(f"a path with a line break cannot be built with: {text!r}")
    return text.replace("$", "$$")


def _available_cpus() -> int:
    return len(os.sched_getaffinity(0))


def _digest(items: Sequence[object]) -> str:
    return hashlib.sha256(json.dumps(items).encode()).hexdigest()
