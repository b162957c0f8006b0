"""The options and arguments that several verbs have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from fusebuild.errors import UsageError
from fusebuild.target.table import TARGETS, Target, find_target

PATHS = click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
OUT = click.option("-o", "--out", default="build", show_default=True, type=click.Path(path_type=Path, file_okay=False),
                   help="Folder of the artifacts.")  # fmt: skip
NVCC = click.option("--nvcc", metavar="FILE", help="The nvcc to use (default: see 'fusebuild doctor').")
SEGMENTATION = click.option("--segmentation", "search", type=click.Choice(["heuristic", "exact"]),
                            help="How cuts are found; exact is for small fusions (default: heuristic).")  # fmt: skip
JOBS = click.option("-j", "--jobs", type=click.IntRange(min=1),
                    help="Compilers at a time (default: one for each CPU).")  # fmt: skip
SEED = click.option("--seed", default=0, show_default=True, type=click.IntRange(0, 2**63 - 1),
                    help="Seed of the random inputs.")  # fmt: skip


def targets_named(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[Target, ...] | None:
    """The targets named by ``sm_90,host``."""
    if value is None:
        return None
    try:
        named = {find_target(name.strip()).name for name in value.split(",")}
        return tuple(target for name, target in TARGETS.items() if name in named)
    except UsageError as error:
        raise click.BadParameter(str(error)) from error


def sizes_given(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> tuple[dict[str, int], ...]:
    """The cases written ``M=1024,N=4096``."""
    cases = []
    for value in values:
        pairs = [piece.partition("=") for piece in value.split(",")]
        sizes = {name.strip(): int(size) for name, _, size in pairs if size.strip().isdecimal() and name.strip()}
        if len(sizes) < len(pairs):
            raise click.BadParameter(f"'{value}' is not written like M=1024,N=4096")
        cases.append(sizes)
    return tuple(cases)


def case_given(context: click.Context, parameter: click.Parameter, value: str | None) -> dict[str, int] | None:
    """The one case written ``M=1024,N=4096``."""
    return None if value is None else sizes_given(context, parameter, [value])[0]


def require_one_source(sweep: int | None, cases: Sequence[Mapping[str, int]]) -> None:
    """Raise :class:`UsageError` where sizes are given and to be drawn, too."""
    if sweep and cases:
        raise UsageError("--sweep draws the sizes, so --case has no place beside it")
