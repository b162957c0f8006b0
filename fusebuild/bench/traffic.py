"""DRAM bytes that the kernels of one call move, counted by the GPU: NVIDIA's ``ncu`` runs the artifact once.

``python -m fusebuild.bench.traffic ARTIFACT CASE SEED``, which ncu is given to run, makes one call between the
profiler's start and stop; CASE is a JSON object of sizes.
ncu empties the caches before each kernel, so what one segment left in L2 for the next counts as read again; and what a
kernel leaves in L2 when it ends is not counted as written.
"""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusebuild.errors import FusebuildError
from fusebuild.oracle.verification import read_recipe, recipe_inputs
from fusebuild.runtime.loader import load

READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
_UNITS = {"byte": 1, "Kbyte": 10**3, "Mbyte": 10**6, "Gbyte": 10**9, "Tbyte": 10**12}
_COLUMNS = ("Metric Name", "Metric Unit", "Metric Value")
TIMEOUT = 300.0
WARM_UP = 3
"""Calls before the one that is counted: they load kernels and fill the allocator."""


class TrafficError(FusebuildError):
    """ncu is not there, did not run, or said something else than expected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Bytes between the device's memory and its L2 cache, summed over ``kernels`` kernels."""

    bytes_read: int
    bytes_written: int
    kernels: int


def measured_traffic(artifact: Path, case: Mapping[str, int], seed: int) -> Traffic:
    """What one call of ``artifact`` on inputs of the sizes in ``case`` moves. Raises :class:`TrafficError`."""
    ncu = shutil.which("ncu")
    if ncu is None:
        raise TrafficError("ncu is not on PATH")
    command = [
        ncu, "--clock-control", "none", "--target-processes", "all", "--profile-from-start", "off", "--csv",
        "--metrics", f"{READ},{WRITTEN}",
        sys.executable, "-m", "fusebuild.bench.traffic", str(artifact), json.dumps(dict(case)), str(seed),
    ]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TrafficError(f"{artifact.name}: ncu could not be run: {error}") from None
    if done.returncode:
        raise TrafficError(f"{artifact.name}: ncu ended with {done.returncode}: {_complaint(done.stdout, done.stderr)}")
    return parse_traffic(done.stdout, artifact.name)


def _complaint(stdout: str, stderr: str) -> str:
    """The line that says what went wrong: ncu's own, else the last one."""
    lines = [line.strip() for line in (*stderr.splitlines(), *stdout.splitlines()) if line.strip()]
    own = [line for line in lines if line.startswith("==ERROR==")]
    return own[0] if own else lines[-1] if lines else "it said nothing"


def parse_traffic(text: str, name: str) -> Traffic:
    """What ncu printed with ``--csv``, with its own messages before and between, for the artifact called ``name``.

    Raises :class:`TrafficError` naming the line that is not understood.
    """
    lines = text.splitlines()
    start = next((index for index, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        raise TrafficError(f"{name}: ncu printed no table: {_complaint(text, '')}")
    table = [(number, line) for number, line in enumerate(lines[start:], start + 1) if line.startswith('"')]
    header, *rows = csv.reader(line for _, line in table)
    if absent := [column for column in _COLUMNS if column not in header]:
        raise TrafficError(f"{name}: ncu's table has no column '{absent[0]}'")
    places = [header.index(column) for column in _COLUMNS]
    sums, kernels = {READ: 0.0, WRITTEN: 0.0}, {READ: 0, WRITTEN: 0}
    for (number, _), row in zip(table[1:], rows, strict=True):
        if len(row) != len(header):
            raise TrafficError(f"{name}: line {number} of ncu's output has {len(row)} columns, not {len(header)}")
        metric, unit, value = (row[place] for place in places)
        if metric in sums:
            sums[metric] += _bytes(value, unit, f"{name}: line {number} of ncu's output")
            kernels[metric] += 1
    if not kernels[READ] or kernels[READ] != kernels[WRITTEN]:
        raise TrafficError(f"{name}: ncu counted reads of {kernels[READ]} kernels and writes of {kernels[WRITTEN]}")
    return Traffic(bytes_read=round(sums[READ]), bytes_written=round(sums[WRITTEN]), kernels=kernels[READ])


def _bytes(value: str, unit: str, where: str) -> float:
    if unit not in _UNITS:
        raise TrafficError(f"{where}: unknown unit '{unit}'")
    try:
        return float(value.replace(",", "")) * _UNITS[unit]
    except ValueError:
        raise TrafficError(f"{where}: '{value}' is no number") from None


def profiled_call(artifact: str, case: str, seed: str, target: str | None = None) -> None:
    """Call the artifact on random inputs of the sizes in ``case``, while ncu counts; ``target`` as for :func:`load`."""
    import torch

    path = Path(artifact)
    plan, recipe = load(path, target=target), read_recipe(path)
    device = "cpu" if plan.target.startswith("host") else "cuda"
    inputs = recipe_inputs(recipe, json.loads(case), seed=int(seed), device=device)
    cuda: Any = torch.cuda
    for _ in range(WARM_UP):
        plan(*inputs)
    cuda.synchronize()
    cuda.profiler.start()
    results = plan(*inputs)
    cuda.synchronize()
    cuda.profiler.stop()
    del results


if __name__ == "__main__":
    profiled_call(*sys.argv[1:])
