"""What torch.compile has to compile is compiled ahead, by several processes at once, into torch's caches on disk; the
process that measures finds it there.

``python -m fusebuild.bench.ahead DEVICE SEED`` reads jobs from stdin, one JSON object a line. It compiles, but runs
nothing: which of its kernels is the fastest torch finds out when it first runs them, and asked on a GPU that others
use at the same time it would keep a wrong answer.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from fusebuild.bench.contenders import reason, reference_module
from fusebuild.bench.device import Device
from fusebuild.oracle.verification import read_recipe, recipe_inputs

logger = logging.getLogger(__name__)


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A case of the artifact at ``path``, whose reference is to be compiled."""

    path: str
    case: dict[str, int]


class _CompiledError(Exception):
    """Raised where what was compiled would run."""


def compile_ahead(jobs: Sequence[Job], processes: int, seed: int, device: Device) -> None:
    """Compile what eager torch would run for ``jobs``, on inputs of ``seed``, by as many ``processes``. Whatever fails
    is left to the process that measures, which says why."""
    shares = [share for index in range(processes) if (share := jobs[index::processes])]
    logger.info("torch.compile: %d cases, %d processes", len(jobs), len(shares))
    command = [sys.executable, "-m", "fusebuild.bench.ahead", device.torch_name, str(seed)]
    environment = {**os.environ, "TORCHINDUCTOR_COMPILE_THREADS": "1"}  # the processes are enough
    running: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for index, share in enumerate(shares):
                running.append(_started(command, share, Path(folder, str(index)), environment))
            ended = [process.wait() for process in running]
        finally:
            for process in running:
                process.kill()
                process.wait()
    for share, code in zip(shares, ended, strict=True):
        if code:
            logger.info("torch.compile: a process that was to compile %d cases ended with %d", len(share), code)


def _started(
    command: Sequence[str], share: Sequence[Job], file: Path, environment: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    """``command``, which reads the jobs of its ``share`` from ``file``."""
    file.write_bytes(b"".join(msgspec.json.encode(job) + b"\n" for job in share))
    quiet = subprocess.DEVNULL
    with file.open("rb") as jobs:
        return subprocess.Popen(command, stdin=jobs, stdout=quiet, stderr=quiet, env=environment)


def compile_jobs(jobs: Iterable[bytes], device: str, seed: int) -> list[str]:
    """Compile each of ``jobs``, lines of JSON, for torch's ``device``; the reasons of those that could not be."""
    import torch

    compiler, cuda = cast("Any", torch.compiler), cast("Any", torch.cuda)
    failed = []
    for line in jobs:
        job = msgspec.json.decode(line, type=Job)
        recipe = read_recipe(Path(job.path))
        try:
            form: Callable[..., Any] = torch.compile(
                reference_module(recipe).forward, backend=compiled_only, dynamic=False
            )
            form(*recipe_inputs(recipe, job.case, seed=seed, device=device))
        except _CompiledError:
            pass
        except Exception as error:  # whatever torch raises; the process that measures says so
            failed.append(f"{recipe.fusion.name} {job.case}: {reason(error)}")
        compiler.reset()
        cuda.empty_cache()  # other processes need the memory
    return failed


def compiled_only(graph: Any, examples: Sequence[Any]) -> Callable[..., Any]:
    """A backend of torch.compile: its own one, and then an end where the result would run."""
    from torch._dynamo import lookup_backend

    lookup_backend("inductor")(graph, [*examples])

    def run(*inputs: Any) -> Any:
        raise _CompiledError

    return run


if __name__ == "__main__":
    compile_jobs(sys.stdin.buffer, sys.argv[1], int(sys.argv[2]))
