"""The demo: every recipe compiled for several targets and run on the CPU against the oracle, with one table at the end.

``python -m fusebuild.cli.demo recipes`` does what ``fusebuild compile`` and ``fusebuild verify --target host`` do, and
adds up. A second run compiles nothing and runs nothing again: rows without a fault are kept beside the artifacts. A row
holds for the bytes of its artifact, for fusebuild's own files and for the limit on elements that it was made with.
"""

from __future__ import annotations

import hashlib
import math
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from fusebuild.artifact.file import open_artifact
from fusebuild.build.build_dir import BuildDir, write_if_changed
from fusebuild.build.record import artifact_digest, fusebuild_digest
from fusebuild.cli.main import main
from fusebuild.errors import NothingVerifiedError
from fusebuild.freshness.incremental import CompiledRecipe, compile_changed
from fusebuild.recipe.inside import recipe_in
from fusebuild.report.aligned import aligned
from fusebuild.runtime.loader import library_path
from fusebuild.target.table import find_target

HOST = "host"


class CaseRun(msgspec.Struct, frozen=True, kw_only=True):
    """One way of one case on the CPU; ``error`` is infinite where something else was wrong."""

    case: dict[str, int]
    error: float
    bound: float
    ok: bool


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One recipe: what was built, by target, and what running it on the CPU said."""

    fusion: str
    segments: dict[str, int]
    objects: dict[str, int]
    kernels: int
    cases: int
    runs: tuple[CaseRun, ...]

    @property
    def ran(self) -> int:
        """The cases small enough to run."""
        return len({tuple(run.case.items()) for run in self.runs})

    @property
    def worst(self) -> CaseRun:
        """The run nearest to failing, or failed."""
        return max(self.runs, key=lambda run: (not run.ok, run.error / (run.bound or math.inf)))

    @property
    def ok(self) -> bool:
        return bool(self.runs) and all(run.ok for run in self.runs)


def summarize(compiled: CompiledRecipe, max_elements: int) -> Row:
    """Run the artifact's small cases on the CPU: every variant, aligned and misaligned."""
    artifact = open_artifact(compiled.artifact.path)
    return Row(
        fusion=artifact.plan.fusion,
        segments={target.target: len(target.segments) for target in artifact.plan.targets},
        objects={target: len(names) for target, names in compiled.kernels.items()},
        kernels=len({name for names in compiled.kernels.values() for name in names}),
        cases=len(recipe_in(artifact).fusion.cases),
        runs=_runs(artifact.path, max_elements),
    )


def _runs(path: Path, max_elements: int) -> tuple[CaseRun, ...]:
    """What running the artifact said: nothing where no case is small enough, which its row shows as a failure."""
    from fusebuild.oracle.verification import VerifyOptions, verify_artifact  # torch, which a second run does without

    try:
        return tuple(
            CaseRun(case=dict(verdict.case), error=verdict.error, bound=verdict.bound, ok=verdict.ok)
            for verdict in verify_artifact(path, target=HOST, options=VerifyOptions(max_elements=max_elements))
        )
    except NothingVerifiedError:
        return ()


def rows_of(recipes: Sequence[CompiledRecipe], build_dir: BuildDir, max_elements: int) -> list[Row]:
    """A row of each recipe. Those of the run before stand where all that they follow from is the same; they are kept
    where they are all right, since what is wrong is looked at again."""
    kept = build_dir.state / "demo.json"
    executor = hashlib.sha256(library_path().read_bytes()).hexdigest()
    made_with = f"{fusebuild_digest()} {executor} {max_elements}"
    keys = [f"{made_with} {artifact_digest(each.artifact.path.read_bytes())}" for each in recipes]
    known = _known(kept)
    rows = [known.get(key) or summarize(each, max_elements) for key, each in zip(keys, recipes, strict=True)]
    write_if_changed(kept, msgspec.json.encode({key: row for key, row in zip(keys, rows, strict=True) if row.ok}))
    return rows


def _known(kept: Path) -> dict[str, Row]:
    """The rows in the file ``kept``: none where it cannot be read."""
    try:
        return msgspec.json.decode(kept.read_bytes(), type=dict[str, Row])
    except (OSError, msgspec.MsgspecError):
        return {}


def table(rows: Sequence[Row]) -> str:
    """The rows as text, one line each. ``runs`` counts every variant and alignment of every case that ran."""
    targets = list(rows[0].objects)
    head = ["recipe", "segments", "kernels", *targets, "cases", "runs", "worst error", "bound", "ok"]
    return "\n".join(aligned([head, *(_cells(row, targets) for row in rows)], names=[0]))


def _cells(row: Row, targets: Sequence[str]) -> list[str]:
    worst = [f"{row.worst.error:.1e}", f"{row.worst.bound:.1e}"] if row.runs else ["-", "-"]
    return [
        row.fusion,
        "/".join(map(str, sorted(set(row.segments.values())))),
        str(row.kernels),
        *(str(row.objects[target]) for target in targets),
        f"{row.ran} of {row.cases}",
        str(len(row.runs)),
        *worst,
        "ok" if row.ok else "FAIL",
    ]


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("recipes", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--out", default="build", show_default=True, type=click.Path(path_type=Path, file_okay=False))
@click.option("--arch", default="sm_90,host", show_default=True, help="Targets; host is added.")
@click.option("--max-elements", default=1_000_000, show_default=True, help="Skip cases with a larger tensor.")
def demo(recipes: tuple[Path, ...], out: Path, arch: str, max_elements: int) -> None:
    """Compile RECIPES, run their small cases on the CPU against the oracle, and print a table; exit 1 if one fails."""
    names = dict.fromkeys([*arch.split(","), HOST])
    targets = [find_target(name) for name in names]
    click.echo(f"compiling for {', '.join(names)}")
    compilation = compile_changed(recipes, targets, out)
    click.echo(f"compiled {compilation.compiled} of {compilation.total} objects in {compilation.seconds:.1f} s")
    click.echo(f"running every case of at most {max_elements:,} elements on {HOST}, against the fp64 oracle\n")
    rows = rows_of(compilation.recipes, BuildDir(root=out), max_elements)
    click.echo(table(rows))
    if not all(row.ok for row in rows):
        sys.exit(1)


if __name__ == "__main__":
    main(demo)
