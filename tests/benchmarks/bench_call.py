"""What a call costs the host: plans of 1, 2 and 8 segments beside eager torch, torch.compile and a CUDA graph's replay.

``PYTHONPATH=tests python -m benchmarks.bench_call build FOLDER`` compiles the plans, where there is a compiler and no
GPU has to be. ``PYTHONPATH=tests python -m benchmarks.bench_call measure FOLDER`` times them where there is a GPU. Each
segment is one kernel on small tensors: a cumulative sum, which no scheduler joins with the next. Each time is the
median over batches of calls that nobody waits for, short enough for the launch queue. It also times
:func:`fusebuild.load` of the largest plan and its first run, once the CUDA context exists, and the same of
torch.compile. ``--json FILE`` keeps the report.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import fusebuild

T = TypeVar("T")

SEGMENTS = (1, 2, 8)
SIZE = 64
BATCHES = 101
QUEUE = 500
"""Launches that are enqueued at most before the device is waited for: about half of what the queue holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCost:
    """Microseconds of host time of one call: of a plan of so many ``segments``, with memory that it allocates and
    ``out=``, of its rivals, and of the least that torch could do: ``replay`` of a CUDA graph that captured the plan,
    and ``allocate_replay``, the same after ``torch.empty_like``."""

    segments: int
    plan: float
    plan_out: float
    eager: float
    compiled: float
    replay: float
    allocate_replay: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCost:
    """Milliseconds that a process with torch and a CUDA context takes to load its first plan, which imports what is
    needed for that, to load the largest one, and to run it for the first time; those of torch.compile's first run."""

    first_load: float
    load: float
    first_run: float
    compiled_first_run: float


def recipe(segments: int) -> str:
    """A chain of cumulative sums."""
    sums, last = [], "a"
    for index in range(segments):
        sums.append(f"  y{index} = cumsum({last} * b + c, dim=1)\n")
        last = f"y{index}"
    inputs = "".join(f"  {name}: float[M, N]\n" for name in "abc")
    case = f"cases:\n  - {{M: {SIZE}, N: {SIZE}}}\n"
    return f"fusion: chain{segments}\ninputs:\n{inputs}body: |\n{''.join(sums)}outputs:\n  {last}: float\n{case}"


def chain(segments: int, a: Any, b: Any, c: Any) -> Any:
    """The same in torch."""
    for _ in range(segments):
        a = (a * b + c).cumsum(1)
    return a


def build_plans(folder: Path, target: str) -> None:
    """Compile the plans into ``folder``."""
    recipes = folder / "recipes"
    recipes.mkdir(parents=True, exist_ok=True)
    for segments in SEGMENTS:
        (recipes / f"chain{segments}.yaml").write_text(recipe(segments))
    command = [
        sys.executable,
        "-m",
        "fusebuild.cli",
        "-q",
        "compile",
        str(recipes),
        "--arch",
        target,
        "-o",
        str(folder),
    ]
    subprocess.run(command, check=True)


def microseconds(call: Callable[[], object], launches: int, wait: Callable[[], None]) -> float:
    """Host time of one ``call`` of so many ``launches``, in steady state."""
    count = QUEUE // launches
    taken = []
    for _ in range(BATCHES):
        start = time.perf_counter()
        for _ in range(count):
            call()
        taken.append((time.perf_counter() - start) / count * 1e6)
        wait()
    return statistics.median(taken[BATCHES // 10 :])


def call_cost(folder: Path, segments: int) -> CallCost:
    """The cost of calls of one plan, whose results are right. torch.compile comes last: once a process has called it,
    every call of a Python function there takes longer."""
    import torch

    plan = fusebuild.load(folder / f"chain{segments}.fuse")
    a, b, c = (torch.rand(SIZE, SIZE, device="cuda") / SIZE for _ in range(3))
    out, wait = torch.empty_like(a), torch.cuda.synchronize

    def eager(a: Any, b: Any, c: Any) -> Any:
        return chain(segments, a, b, c)

    torch.testing.assert_close(plan(a, b, c), eager(a, b, c))
    torch.testing.assert_close(plan(a, b, c, out=out), eager(a, b, c))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        plan(a, b, c, out=out)

    def allocate_replay() -> Any:
        made = torch.empty_like(a)
        graph.replay()
        return made

    compiled = torch.compile(eager)
    return CallCost(
        segments=segments,
        plan=microseconds(lambda: plan(a, b, c), segments, wait),
        plan_out=microseconds(lambda: plan(a, b, c, out=out), segments, wait),
        replay=microseconds(graph.replay, segments, wait),
        allocate_replay=microseconds(allocate_replay, segments, wait),
        eager=microseconds(lambda: eager(a, b, c), 3 * segments, wait),
        compiled=microseconds(lambda: compiled(a, b, c), 2 * segments, wait),
    )


def in_a_process_of_its_own(measure: Callable[[Path, int], T], folder: Path, segments: int) -> T:
    """What ``measure`` gives in a process that has done nothing else."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, folder, segments).result()


def start_cost(folder: Path, segments: int) -> StartCost:
    """The cost of a start of a plan in this process, which has loaded none yet."""
    import torch

    a, b, c = (torch.rand(SIZE, SIZE, device="cuda") / SIZE for _ in range(3))
    torch.cuda.synchronize()

    def milliseconds(work: Callable[[], Any]) -> tuple[float, Any]:
        start = time.perf_counter()
        made = work()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e3, made

    first_load, _ = milliseconds(lambda: fusebuild.load(folder / f"chain{SEGMENTS[0]}.fuse"))
    loading, plan = milliseconds(lambda: fusebuild.load(folder / f"chain{segments}.fuse"))
    first_run, _ = milliseconds(lambda: plan(a, b, c))
    compiled = torch.compile(lambda a, b, c: chain(segments, a, b, c))
    compiled_first_run, _ = milliseconds(lambda: compiled(a, b, c))
    return StartCost(first_load=first_load, load=loading, first_run=first_run, compiled_first_run=compiled_first_run)


def table(costs: Sequence[CallCost], start: StartCost) -> str:
    """The report for people."""
    lines = ["segments   plan   out=   eager   torch.compile   graph replay   and empty_like   (us a call)"]
    for each in costs:
        ours = f"{each.segments:8} {each.plan:6.2f} {each.plan_out:6.2f}"
        lines.append(f"{ours} {each.eager:7.2f} {each.compiled:15.2f} {each.replay:14.2f} {each.allocate_replay:16.2f}")
    lines.append(
        f"first load {start.first_load:.2f} ms, load {start.load:.2f}, first run {start.first_run:.2f}, "
        f"torch.compile {start.compiled_first_run:.0f}"
    )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure what a call costs the host.")
    parser.add_argument("action", choices=["build", "measure"])
    parser.add_argument("folder", type=Path, help="where the plans are")
    parser.add_argument("--target", default="sm_90", help="what to build for (default: sm_90)")
    parser.add_argument("--json", type=Path, help="write the report here")
    given = parser.parse_args(arguments)
    if given.action == "build":
        build_plans(given.folder, given.target)
        return
    start = in_a_process_of_its_own(start_cost, given.folder, SEGMENTS[-1])
    costs = [in_a_process_of_its_own(call_cost, given.folder, segments) for segments in SEGMENTS]
    print(table(costs, start))
    if given.json:
        given.json.write_text(json.dumps({"start": asdict(start), "calls": [asdict(each) for each in costs]}, indent=2))


if __name__ == "__main__":
    main()
