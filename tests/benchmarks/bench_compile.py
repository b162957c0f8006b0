"""What fusebuild adds to the compiler: ``fusebuild compile`` from nothing, beside bare nvcc on the same kernels.

``PYTHONPATH=tests python -m benchmarks.bench_compile [RECIPES …]`` measures both in turn, ``--rounds`` times each,
``--jobs`` compilers at a time, with the same flags. Every round of fusebuild starts with an empty folder and an empty
cache. Bare nvcc gets the rendered files, and writes no report of ptxas. The wall time is what users wait for; the
seconds of CPU say the same where other programs run too. ``--json FILE`` keeps the report.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from fusebuild.build.build_dir import BuildDir
from fusebuild.build.compiler import compiler_environment
from fusebuild.target.table import TARGETS
from support.places import ROOT

OURS_ALONE = {"-Xptxas": 1}
"""Options that only fusebuild needs, and how many words follow each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seconds:
    """One compile of everything: seconds that it took, and seconds of CPU of all its processes."""

    wall: float
    cpu: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Measurements in the order they were taken, and fusebuild's medians over bare nvcc's."""

    target: str
    recipes: tuple[str, ...]
    kernels: int
    jobs: int
    fusebuild: tuple[Seconds, ...]
    nvcc: tuple[Seconds, ...]
    wall_ratio: float
    cpu_ratio: float


def bare_arguments(arguments: Sequence[str], output: Path) -> list[str]:
    """The compiler's command in ``compile_commands.json`` without what only fusebuild needs, writing to ``output``."""
    words = iter(arguments)
    bare = []
    for word in words:
        if word in OURS_ALONE:
            for _ in range(OURS_ALONE[word]):
                next(words)
        elif word == "-o":
            next(words)
            bare += ["-o", str(output)]
        else:
            bare.append(word)
    return bare


def compile_by_fusebuild(recipes: Sequence[Path], target: str, jobs: int, out: Path) -> None:
    command = [str(Path(sys.executable).with_name("fusebuild")), "-q", "compile", *map(str, recipes), "--arch", target]
    environment = os.environ | {"FUSEBUILD_CACHE_DIR": str(out / "cache")}
    subprocess.run([*command, "-j", str(jobs), "-o", str(out / "build")], cwd=ROOT, env=environment, check=True)


def compile_by_nvcc(compiled: BuildDir, jobs: int, out: Path) -> None:
    """Every kernel that a build in ``compiled`` compiled, in the same order."""
    environment = compiler_environment(os.environ)

    def run(entry: dict[str, object]) -> None:
        arguments, output = entry["arguments"], str(entry["output"])
        assert isinstance(arguments, list)
        command = bare_arguments(arguments, out / output.replace("/", "_"))
        subprocess.run(command, cwd=compiled.state, env=environment, check=True)

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        list(pool.map(run, json.loads(compiled.compile_commands.read_text())))


def timed(work: Callable[[], None]) -> Seconds:
    def cpu() -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
        return sum(each.ru_utime + each.ru_stime for each in used)

    wall, before = time.monotonic(), cpu()
    work()
    return Seconds(wall=time.monotonic() - wall, cpu=cpu() - before)


def measure(recipes: Sequence[Path], target: str, jobs: int, rounds: int) -> Report:
    """Both ways in turn, ``rounds`` times."""
    ours, bare, kernels = [], [], 0
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder)
            ours.append(timed(lambda out=out: compile_by_fusebuild(recipes, target, jobs, out)))
            compiled = BuildDir(root=out / "build")
            kernels = len(json.loads(compiled.compile_commands.read_text()))
            bare.append(timed(lambda out=out, compiled=compiled: compile_by_nvcc(compiled, jobs, out)))
        print(f"round {number + 1}: fusebuild {ours[-1].wall:.1f} s, nvcc {bare[-1].wall:.1f} s", file=sys.stderr)
    return Report(
        target=target,
        recipes=tuple(path.as_posix() for path in recipes),
        kernels=kernels,
        jobs=jobs,
        fusebuild=tuple(ours),
        nvcc=tuple(bare),
        wall_ratio=statistics.median(each.wall for each in ours) / statistics.median(each.wall for each in bare),
        cpu_ratio=statistics.median(each.cpu for each in ours) / statistics.median(each.cpu for each in bare),
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare fusebuild compile with bare nvcc on the same kernels.")
    parser.add_argument("recipes", nargs="*", type=Path, default=[Path("recipes")], help="recipes (default: recipes)")
    parser.add_argument("--target", default="sm_90", choices=[name for name in TARGETS if not TARGETS[name].is_host])
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="compilers at a time")
    parser.add_argument("--rounds", type=int, default=3, help="times that each is measured (default: 3)")
    parser.add_argument("--json", type=Path, help="write the report here")
    given = parser.parse_args(arguments)
    made = measure(given.recipes, given.target, given.jobs, given.rounds)
    print(f"{made.kernels} kernels for {made.target}, {made.jobs} compilers at a time: fusebuild takes")
    print(f"{made.wall_ratio:.3f} times the wall time of bare nvcc, {made.cpu_ratio:.3f} times its CPU time")
    if given.json:
        given.json.write_text(json.dumps(asdict(made), indent=2) + "\n")


if __name__ == "__main__":
    main()
