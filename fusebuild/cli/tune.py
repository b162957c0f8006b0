"""``fusebuild tune``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import click

from fusebuild.build.objects import Progress
from fusebuild.cli.options import JOBS, NVCC, OUT, PATHS, SEED, require_one_source, sizes_given, targets_named
from fusebuild.cli.output import Answer, print_text, progress, say
from fusebuild.cli.verb import Verb
from fusebuild.errors import UsageError, VerificationError, one_line
from fusebuild.target.table import Target


@click.command(cls=Verb, report="fusebuild.tuning.report:TuneReport | fusebuild.tuning.choice_report:ChoiceReport")
@PATHS
@OUT
@click.option("--arch", "targets", callback=targets_named,
              help="'host' tunes for the CPU (default: the current CUDA device's own).")  # fmt: skip
@click.option("--case", "cases", multiple=True, metavar="SIZES", callback=sizes_given,
              help="Sizes to measure at instead of those that kernels are planned for, within a factor of two of them, "
                   "such as M=1024,N=4096; may be repeated.")  # fmt: skip
@click.option("--budget", default=16, show_default=True, type=click.IntRange(1, 16),
              help="Neighbours to try for each kernel.")  # fmt: skip
@click.option("--sweep", metavar="N", type=click.IntRange(min=1),
              help="Tune nothing: time every variant that may run at N sizes of each recipe, drawn with --seed, and "
                   "name those where the executor takes another one than the fastest.")  # fmt: skip
@JOBS
@SEED
@NVCC
def tune(
    paths: Sequence[Path],
    out: Path,
    targets: tuple[Target, ...] | None,
    cases: tuple[dict[str, int], ...],
    budget: int,
    sweep: int | None,
    jobs: int | None,
    seed: int,
    nvcc: str | None,
) -> Answer:
    """Measure the kernels of the recipes in PATHS beside others that differ in one knob, and keep what wins.

    Needs a compiler, torch, and the device to tune for in one machine. What is faster by more than 2 % every time it is
    measured goes into NAME.tuned.json beside the recipe, where compile finds it. With --sweep nothing is tuned: it
    shows where the sizes of a call choose another variant than the fastest.
    """
    if targets is not None and len(targets) != 1:
        raise UsageError("tune is for one target at a time")
    require_one_source(sweep, cases)
    with progress("tuning") as on_progress:
        common = _Common(target=targets[0] if targets else None, out=out, jobs=jobs, nvcc=nvcc, seed=seed,
                         on_progress=on_progress)  # fmt: skip
        return _swept(paths, sweep, common) if sweep else _tuned(paths, cases, budget, common)


class _Common(TypedDict):
    """What tuning and sweeping are asked alike."""

    target: Target | None
    out: Path
    jobs: int | None
    nvcc: str | None
    seed: int
    on_progress: Progress | None


def _tuned(paths: Sequence[Path], cases: Sequence[dict[str, int]], budget: int, common: _Common) -> Answer:
    """Files beside the recipes."""
    from fusebuild.tuning.tune import tune_recipes

    report = tune_recipes(paths, cases=cases, budget=budget, **common)

    def tell() -> None:
        print_text(report.as_text())
        for path in report.written:
            say(f"{one_line(path)}  {'written' if path.exists() else 'removed: the heuristics are the best'}")

    return Answer(report=report, tell=tell)


def _swept(paths: Sequence[Path], count: int, common: _Common) -> Answer:
    """How good the choices of the executor are."""
    from fusebuild.tuning.choices import sweep_choices

    report = sweep_choices(paths, count=count, **common)
    failed = VerificationError.exit_code if report.wrong else 0
    return Answer(report=report, tell=lambda: print_text(report.as_text()), exit_code=failed)
