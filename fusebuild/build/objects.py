"""Kernels as text in, objects out: what has to be compiled, running ninja, and whether each object is whole.

Python decides everything, ninja only compiles. An object is named by the digest of all that it is made from, so equal
kernels of many recipes are compiled once and a stale object cannot be mistaken for a fresh one. What the store has
(:mod:`fusebuild.build.object_store`) is taken from there. The rest is compiled in a private folder
(:mod:`fusebuild.build.work_folder`), read once, looked at, put into the store, and is in memory from then on: what is
packed are the bytes that were found whole. The folder that the user named gets texts alone, for people and their tools.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from fusebuild.artifact.kernel_resources import KernelResources
from fusebuild.build.build_dir import BuildDir, write_if_changed
from fusebuild.build.compiler import compiler_environment
from fusebuild.build.digest import digest_of
from fusebuild.build.job import Failure, Headers, Job, KernelSource, Key, read_headers
from fusebuild.build.ninja import (
    STATUS,
    STATUS_LINE,
    compile_arguments,
    compiler_flags,
    failures_in,
    ninja_text,
)
from fusebuild.build.object_store import CompiledObject, ObjectStore, user_store
from fusebuild.build.precompiled import headers_to_make
from fusebuild.build.toolchain import Toolchain
from fusebuild.build.work_folder import WorkFolder, work_folder
from fusebuild.errors import CompileError, UsageError, counted, one_line
from fusebuild.system.disk_space import lack_of_room
from fusebuild.system.processes import processors
from fusebuild.target.table import Target

Progress: TypeAlias = Callable[[int, int], None]
"""What is told of a piece of work: how much is done, and how much there was to do."""

logger = logging.getLogger(__name__)


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


class BuildError(CompileError):
    """Some kernels could not be compiled; all others were. ``failures`` says which, in the order asked for, ``cause``
    what is behind all of them: one is then enough to show."""

    def __init__(self, failures: Sequence[Failure], cause: str = "") -> None:
        self.failures = tuple(failures)
        others = len(self.failures) - 1
        more = [f"… and {counted(others, 'more kernel')}"] if others else []
        said = [cause, str(self.failures[0]), *more] if cause else map(str, self.failures)
        super().__init__("\n".join(said))


def object_name(kernel: KernelSource, target: Target, toolchain: Toolchain, headers: Headers | None = None) -> str:
    """``<kernel name>-<digest>``, the digest of everything that ``kernel``'s object for ``target`` is made from: text,
    headers (read now, unless given), the compiler's command and flags, and the tools' versions."""
    headers = headers or read_headers()
    made_from = [kernel.text, headers.digest, compiler_flags(target), toolchain.digest_for(target)]
    return f"{kernel.name}-{digest_of(made_from)[:32]}"


def build(
    requests: Sequence[tuple[Target, KernelSource]],
    build_dir: BuildDir,
    toolchain: Toolchain,
    *,
    jobs: int | None = None,
    on_progress: Progress | None = None,
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
                logger.debug("%s", shlex.join(compile_arguments(job, toolchain)))
            if missing:
                found |= _make(missing, toolchain, headers, store, jobs or processors(), on_progress)
                store.prune(store.limit)
    whole = [job for job in planned if job.key in found]
    return BuildResult(
        objects={job.key: found[job.key].data for job in whole},
        resources={job.key: used for job in whole if (used := job.resources(found[job.key])) is not None},
        compiled=compiled,
        total=len(planned),
        seconds=time.monotonic() - started,
    )


def _plan(requests: Sequence[tuple[Target, KernelSource]], toolchain: Toolchain, headers: Headers) -> list[Job]:
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
        Job(kernel=kernel, target=target, name=object_name(kernel, target, toolchain, headers))
        for _, (target, kernel) in sorted(wanted.items(), key=lambda item: (in_order.index(item[0][0]), item[0][1]))
    ]


def _stored(planned: Sequence[Job], store: ObjectStore) -> dict[Key, CompiledObject]:
    """Those objects of ``planned`` that ``store`` has."""
    return {job.key: found for job in planned if (found := store.get(job.stored_name))}


def _write_for_people(planned: Sequence[Job], build_dir: BuildDir, toolchain: Toolchain, headers: Headers) -> None:
    """The kernels' texts, their headers and how they are compiled."""
    for folder in (build_dir.state, build_dir.state / "kernels"):
        for path in folder.glob(".*.tmp"):
            path.unlink()  # of a build that was killed: nobody else writes here
    _write_texts(planned, build_dir.state, headers)
    place = os.path.abspath(build_dir.state)
    commands = [
        {"directory": place, "file": job.input, "output": job.output, "arguments": compile_arguments(job, toolchain)}
        for job in planned
    ]
    write_if_changed(build_dir.compile_commands, json.dumps(commands, indent=2) + "\n")


def _write_texts(planned: Sequence[Job], folder: Path, headers: Headers) -> None:
    include = folder / "include"
    for name, data in headers.files.items():
        write_if_changed(include / name, data)
    for path in include.rglob("*"):
        if path.is_file() and path.relative_to(include).as_posix() not in headers.files:
            path.unlink()  # a header that is gone must not be found
    for job in planned:
        write_if_changed(folder / job.input, job.kernel.text)


def _make(
    missing: Sequence[Job],
    toolchain: Toolchain,
    headers: Headers,
    store: ObjectStore,
    jobs: int,
    on_progress: Progress | None,
) -> dict[Key, CompiledObject]:
    """Compile all of ``missing``, each put into ``store`` once it is found whole."""
    with work_folder(os.environ) as work:
        to_make = headers_to_make(missing, toolchain, headers, store, work.path, jobs)
        _write_texts(missing, work.path, headers)
        for folder in {job.target.name for job in missing}:
            (work.path / folder).mkdir()
        write_if_changed(
            work.path / "build.ninja", ninja_text(toolchain, missing, [header.target for header in to_make])
        )
        run = _Run(work=work, toolchain=toolchain, store=store, jobs=jobs, headers=len(to_make),
                   missing={job.output: job for job in missing}, on_progress=on_progress)  # fmt: skip
        made = run.make()
        for header in to_make:
            header.keep(store, work.path)
        return made


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """What is compiled in one folder: ``missing`` by output, ``headers`` precompiled before, ``made`` so far."""

    work: WorkFolder
    toolchain: Toolchain
    store: ObjectStore
    jobs: int
    headers: int
    missing: Mapping[str, Job]
    on_progress: Progress | None
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

    def _take(self, job: Job) -> str:
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
            job.failure(f"the object is unusable: {reason or 'it is missing'}")
            for job, reason in reasons
            if job.key not in self.made
        ]

    def _run_ninja(self) -> list[Failure]:
        """One run of ninja: the compilations that failed. Raises :class:`CompileError` when ninja itself fails."""
        command = [str(self.toolchain.ninja), "-j", str(self.jobs), "-k", "0"]
        environment = compiler_environment(os.environ) | {
            "NINJA_STATUS": STATUS,
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
        failures = failures_in(lines, self.missing)
        if status and not failures:
            place = one_line(self.work.path)
            said = [f"ninja failed in {place}:", *(line for line in lines if not STATUS_LINE.match(line))]
            cause = lack_of_room(self.work.path, "\n".join(said))
            raise CompileError("\n".join([cause, *said] if cause else said))
        return failures

    def _follow(self, line: str) -> None:
        """Take what ninja says is finished: should this process be killed, it is not lost."""
        match = STATUS_LINE.match(line)
        job = self.missing.get(line.rpartition(" ")[2]) if match else None
        if match is None or job is None:
            return
        self._take(job)
        if self.on_progress:
            self.on_progress(int(match[1]) - self.headers, int(match[2]) - self.headers)
