"""How planning grows: passes, segmentation and plan of generated transformer stacks, each in a process of its own.

``PYTHONPATH=tests python -m benchmarks.bench_scale [EXPRS …]`` prints a table: seconds of CPU, peak memory, segments
and kernels.
"""

from __future__ import annotations

import math
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass

from fusebuild.passes import run_passes
from fusebuild.planning.assembly import plan_target
from fusebuild.segmentation import segment
from fusebuild.target.table import TARGETS
from support.transformer_stack import transformer_stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One stack: seconds of CPU for everything from the recorded Fusion to the plan, peak memory in MiB."""

    exprs: int
    seconds: float
    memory: float
    segments: int
    kernels: int


def measure(exprs: int) -> Measurement:
    """Plan a stack of about ``exprs`` exprs."""
    fusion = transformer_stack(exprs)
    start = time.process_time()
    segmented = segment(run_passes(fusion), TARGETS["sm_90"])
    planned = plan_target(segmented, TARGETS["sm_90"], "stack")
    return Measurement(
        exprs=len(fusion.exprs),
        seconds=time.process_time() - start,
        memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        segments=len(segmented.segments),
        kernels=len(planned.kernels),
    )


def table(measured: list[Measurement]) -> str:
    """The measurements as Markdown, with the exponent of the growth from one row to the next."""
    lines = ["| exprs | seconds | growth exponent | MiB | segments | kernels |", "|--:|--:|--:|--:|--:|--:|"]
    for before, now in zip([None, *measured], measured, strict=False):
        growth = "" if before is None else f"{_exponent(before, now):.2f}"
        lines.append(
            f"| {now.exprs:,} | {now.seconds:.1f} | {growth} | {now.memory:.0f} | {now.segments:,} | {now.kernels} |"
        )
    return "\n".join(lines)


def _exponent(before: Measurement, now: Measurement) -> float:
    return math.log(now.seconds / before.seconds) / math.log(now.exprs / before.exprs)


if __name__ == "__main__":
    sizes = [int(argument) for argument in sys.argv[1:]] or [1000, 3000, 10000]
    measured = []
    for size in sizes:
        with ProcessPoolExecutor(max_workers=1) as pool:  # peak memory is a process's own
            measured.append(pool.submit(measure, size).result())
    print(table(measured))
