"""``fusebuild verify``."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fusebuild.cli.options import JSON, SEED
from fusebuild.cli.output import is_quiet, print_json, print_text, say
from fusebuild.cli.streams import printable
from fusebuild.cli.verb import Verb
from fusebuild.errors import NothingVerifiedError, VerificationError, one_line
from fusebuild.recipe.files import artifact_files

if TYPE_CHECKING:
    from fusebuild.oracle.verification import Skipped, Verdict, VerifiedCase


def _report() -> Any:
    from fusebuild.oracle.verification import VerifiedCase

    return list[VerifiedCase]


@click.command(cls=Verb, report=_report)
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("--target", help="'host' runs on the CPU (default: the current CUDA device).")
@click.option("--max-elements", default=2**62, type=click.IntRange(min=0), help="Skip cases with a larger tensor.")
@SEED
@click.option("--runs", default=1, show_default=True, type=click.IntRange(min=1),
              help="Run everything so many times; all have to give the same bits.")  # fmt: skip
@JSON
def verify(paths: Sequence[Path], target: str | None, max_elements: int, seed: int, runs: int, as_json: bool) -> None:
    """Run the artifacts in PATHS (files or folders) against the fp64 oracle, every case and variant. Needs torch."""
    from fusebuild.oracle.verification import Limits, Skipped, verify_or_skip

    rows: list[VerifiedCase] = []
    unverified: list[NothingVerifiedError] = []
    for artifact in artifact_files(paths):
        limits = Limits(max_elements=max_elements)
        try:
            for found in verify_or_skip(artifact, target=target, limits=limits, seed=seed, runs=runs):
                row, line = _skipped(found) if isinstance(found, Skipped) else _judged(found)
                rows.append(row)
                if not as_json and (not row["ok"] or not is_quiet()):
                    print_text(f"{one_line(line)}\n")
        except NothingVerifiedError as error:
            unverified.append(error)
    states = Counter(row["state"] for row in rows)
    if as_json:
        print_json(rows)
    else:
        skipped = f", {states['skipped']} skipped" if states["skipped"] else ""
        say(f"{states['passed']} passed, {states['failed']} failed{skipped}")
    for each in unverified:
        click.echo(printable(f"error: {each}"), err=True)
    if states["failed"] or unverified:
        sys.exit(VerificationError.exit_code if states["failed"] else NothingVerifiedError.exit_code)


def _judged(verdict: Verdict) -> tuple[VerifiedCase, str]:
    """A verdict for programs and for people."""
    way = f"variant {verdict.variant}" if verdict.variant is not None else verdict.layout
    state = "ok" if verdict.ok else "FAIL"
    end = f"  {verdict.problem}" if verdict.problem else ""
    row: VerifiedCase = {
        "fusion": verdict.fusion,
        "target": verdict.target,
        "case": dict(verdict.case),
        "variant": verdict.variant,
        "layout": verdict.layout,
        "error": verdict.error if math.isfinite(verdict.error) else None,
        "bound": verdict.bound,
        "ok": verdict.ok,
        "problem": verdict.problem,
        "state": "passed" if verdict.ok else "failed",
    }
    numbers = f"error {verdict.error:8.1e} (bound {verdict.bound:.1e})"
    return row, f"{verdict.fusion:30} {case_text(verdict.case):28} {way:12} {numbers}  {state}{end}"


def _skipped(case: Skipped) -> tuple[VerifiedCase, str]:
    """A case that was skipped, for programs and for people."""
    row: VerifiedCase = {
        "fusion": case.fusion,
        "target": case.target,
        "case": dict(case.case),
        "variant": None,
        "layout": "aligned",
        "error": None,
        "bound": 0.0,
        "ok": True,
        "problem": "",
        "state": "skipped",
    }
    return row, f"{case.fusion:30} {case_text(case.case):28} skipped      a tensor has {case.elements:,} elements"


def case_text(case: Mapping[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in case.items())
