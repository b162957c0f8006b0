"""``fusebuild verify``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from fusebuild.cli.options import PATHS, SEED, require_one_source, sizes_given
from fusebuild.cli.output import Answer, is_quiet, print_text, say, wants_json
from fusebuild.cli.streams import printable
from fusebuild.cli.verb import Verb
from fusebuild.errors import NothingVerifiedError, VerificationError, one_line
from fusebuild.recipe.files import artifact_files

if TYPE_CHECKING:
    from fusebuild.oracle.verification import Verdict, VerifiedCase


@click.command(cls=Verb, report="list[fusebuild.oracle.verification:VerifiedCase]")
@PATHS
@click.option("--target", help="'host' runs on the CPU (default: the current CUDA device).")
@click.option("--case", "cases", multiple=True, metavar="SIZES", callback=sizes_given,
              help="Sizes to run instead of the recipes' own, such as M=1024,N=4096; may be repeated.")  # fmt: skip
@click.option("--sweep", metavar="N", type=click.IntRange(min=1),
              help="Run N sizes of each recipe, drawn with --seed: without --max-elements those that bench "
              "--sweep measures.")  # fmt: skip
@click.option("--max-elements", metavar="K", type=click.IntRange(min=0),
              help="Skip cases with a larger tensor; --sweep draws only such as fit.")  # fmt: skip
@SEED
@click.option("--runs", default=1, show_default=True, type=click.IntRange(min=1),
              help="Run everything so many times; all have to give the same bits.")  # fmt: skip
def verify(
    paths: Sequence[Path],
    target: str | None,
    cases: tuple[dict[str, int], ...],
    sweep: int | None,
    max_elements: int | None,
    seed: int,
    runs: int,
) -> Answer:
    """Run the artifacts in PATHS (files or folders) against the fp64 oracle, every case and variant. Needs torch.

    The sizes are those of the recipe's cases. With --sweep they are drawn; a recipe that leaves no size free runs its
    own. With --max-elements the largest tensor of a drawn case has from a 64th of K elements to all of them.
    """
    from fusebuild.oracle.verification import VerifyOptions, verify_or_skip

    require_one_source(sweep, cases)
    options = VerifyOptions(cases=cases, sweep=sweep or 0, max_elements=max_elements, seed=seed, runs=runs)
    rows: list[VerifiedCase] = []
    unverified: list[NothingVerifiedError] = []
    for artifact in artifact_files(paths):
        try:
            for found in verify_or_skip(artifact, target=target, options=options):
                rows.append(found.reported())
                if not wants_json() and (not rows[-1].ok or not is_quiet()):
                    print_text(f"{one_line(_line(found))}\n")
        except NothingVerifiedError as error:
            unverified.append(error)
    states = Counter(row.state for row in rows)
    for each in unverified:
        click.echo(printable(f"error: {each}"), err=True)
    skipped = f", {states['skipped']} skipped" if states["skipped"] else ""
    failed = VerificationError.exit_code if states["failed"] else 0
    return Answer(
        report=rows,
        tell=lambda: say(f"{states['passed']} passed, {states['failed']} failed{skipped}"),
        exit_code=failed or (NothingVerifiedError.exit_code if unverified else 0),
    )


def compared(error: float, bound: float) -> str:
    """Both with two digits, or with as many as tell them apart."""
    digits = next((each for each in range(1, 16) if f"{error:.{each}e}" != f"{bound:.{each}e}"), 1)
    return f"error {error:8.{digits}e} (bound {bound:.{digits}e})"


def _line(verdict: Verdict) -> str:
    """The fusion, the sizes and what was found, in columns."""
    sizes = " ".join(f"{name}={size}" for name, size in verdict.case.items())
    head = f"{verdict.fusion:30} {sizes:28}"
    if verdict.skipped_elements:
        return f"{head} skipped      a tensor has {verdict.skipped_elements:,} elements"
    if verdict.layout == "plan":
        return f"{head} {verdict.layout:12} FAIL  {verdict.problem}"
    way = f"variant {verdict.variant}" if verdict.variant is not None else verdict.layout
    numbers = compared(verdict.error, verdict.bound)
    end = f"  {verdict.problem}" if verdict.problem else ""
    return f"{head} {way:12} {numbers}  {'ok' if verdict.ok else 'FAIL'}{end}"
