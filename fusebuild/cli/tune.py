"""``fusebuild tune``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from fusebuild.cli.options import JOBS, NVCC, OUT, PATHS, SEED, sizes_given, targets_named
from fusebuild.cli.output import Answer, print_text, progress, say
from fusebuild.cli.verb import Verb
from fusebuild.errors import UsageError, one_line
from fusebuild.target.table import Target


@click.command(cls=Verb, report="fusebuild.tuning.report:TuneReport")
@PATHS
@OUT
@click.option("--arch", "targets", callback=targets_named,
              help="'host' tunes for the CPU (default: the current CUDA device's own).")  # fmt: skip
@click.option("--case", "cases", multiple=True, metavar="SIZES", callback=sizes_given,
              help="Sizes to measure at instead of those that kernels are planned for, within a factor of two of them, "
                   "such as M=1024,N=4096; may be repeated.")  # fmt: skip
@click.option("--budget", default=16, show_default=True, type=click.IntRange(1, 16),
              help="Neighbours to try for each kernel.")  # fmt: skip
@JOBS
@SEED
@NVCC
def tune(
    paths: Sequence[Path],
    out: Path,
    targets: tuple[Target, ...] | None,
    cases: tuple[dict[str, int], ...],
    budget: int,
    jobs: int | None,
    seed: int,
    nvcc: str | None,
) -> Answer:
    """Measure the kernels of the recipes in PATHS beside others that differ in one knob, and keep what wins.

    Needs a compiler, torch, and the device to tune for in one machine. What is faster by more than 2 % every time it is
    measured goes into NAME.tuned.json beside the recipe, where compile finds it.
    """
    from fusebuild.tuning.tune import tune_recipes

    if targets is not None and len(targets) != 1:
        raise UsageError("tune is for one target at a time")
    with progress("tuning") as on_progress:
        report = tune_recipes(paths, targets[0] if targets else None, cases=cases, budget=budget, out=out, jobs=jobs,
                              nvcc=nvcc, seed=seed, on_progress=on_progress)  # fmt: skip

    def tell() -> None:
        print_text(report.as_text())
        for path in report.written:
            say(f"{one_line(path)}  {'written' if path.exists() else 'removed: the heuristics are the best'}")

    return Answer(report=report, tell=tell)
