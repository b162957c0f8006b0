"""Compiling only the recipes whose artifacts are stale. Where none is, no recipe is parsed and nothing is planned: the
modules that do so are not even imported."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from fusebuild.build.build_dir import BuildDir
from fusebuild.build.checksums import write_checksums
from fusebuild.build.job import Key
from fusebuild.build.record import BuiltRecipe, FoundRecord, find_record, recorded, untouched
from fusebuild.build.toolchain import find_toolchain
from fusebuild.errors import one_line
from fusebuild.freshness.origins import Origins
from fusebuild.freshness.verdict import Stale
from fusebuild.recipe.files import recipe_files
from fusebuild.system.failure import ReportedDiagnostic
from fusebuild.target.table import Target

if TYPE_CHECKING:
    from fusebuild.build.objects import Progress
    from fusebuild.pipeline import BuiltArtifact
    from fusebuild.segmentation import Search


logger = logging.getLogger(__name__)


class CompiledArtifact(msgspec.Struct, frozen=True, kw_only=True):
    """An artifact; ``written`` says that its bytes are others than before."""

    fusion: str
    recipe: str
    path: Path
    written: bool


class Spill(msgspec.Struct, frozen=True, kw_only=True):
    """A kernel whose registers did not suffice: in a recipe that allows it, or where no choice was without."""

    target: str
    kernel: str
    bytes: Annotated[int, Meta(description="stored and loaded")]


class CompileReport(msgspec.Struct, frozen=True, kw_only=True):
    """``fusebuild compile --json``"""

    artifacts: tuple[CompiledArtifact, ...]
    compiled: Annotated[int, Meta(description="objects that a compiler made")]
    total: Annotated[int, Meta(description="objects that the artifacts have in all, equal ones counted once")]
    seconds: float
    diagnostics: Annotated[tuple[ReportedDiagnostic, ...], Meta(description="of recipes that --keep-going passed over")]
    spills: tuple[Spill, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRecipe:
    """One recipe's artifact, with all that it holds compiled: the names of its kernels by target, and the bytes that
    some of them spill, by target and kernel."""

    artifact: CompiledArtifact
    kernels: Mapping[str, Sequence[str]]
    spills: Mapping[Key, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """Every recipe of a compile, in order; how many objects were compiled, and in how many seconds."""

    recipes: tuple[CompiledRecipe, ...]
    compiled: int
    seconds: float

    def report(self, passed_over: Sequence[ReportedDiagnostic]) -> CompileReport:
        """What ``compile --json`` prints, with what is wrong with recipes that were ``passed_over``."""
        return CompileReport(
            artifacts=tuple(each.artifact for each in self.recipes),
            compiled=self.compiled,
            total=self.total,
            seconds=self.seconds,
            diagnostics=tuple(passed_over),
            spills=tuple(
                Spill(target=target, kernel=kernel, bytes=spilled)
                for (target, kernel), spilled in sorted(self.spills.items())
            ),
        )

    @property
    def total(self) -> int:
        """How many objects the artifacts hold, equal ones counted once."""
        return len(
            {(target, name) for each in self.recipes for target, names in each.kernels.items() for name in names}
        )

    @property
    def spills(self) -> dict[Key, int]:
        """The bytes of registers that objects spill, for those that spill any."""
        return {key: spilled for each in self.recipes for key, spilled in each.spills.items()}


def compile_changed(
    paths: Sequence[Path],
    targets: Sequence[Target],
    out: Path,
    *,
    nvcc: str | None = None,
    jobs: int | None = None,
    dump: Path | None = None,
    on_progress: Progress | None = None,
    dry_run: bool = False,
    search: Search = "heuristic",
) -> Compilation:
    """Compile the recipes below ``paths`` whose artifact in ``out`` is stale by the folder's record, and all of them
    with ``dump``. The folder is locked before anything is read. Raises what :func:`fusebuild.pipeline.compile_recipes`
    raises."""
    build_dir = BuildDir(root=out)
    with nullcontext() if dry_run else build_dir.locked():
        files = recipe_files(paths)
        fresh = {} if dump else _fresh(files, targets, build_dir, nvcc, search)
        stale = [file for file in files if file not in fresh]
        if not stale:
            if not dry_run:
                write_checksums(build_dir)
            return Compilation(recipes=tuple(fresh[file] for file in files), compiled=0, seconds=0.0)

        from fusebuild.pipeline import compile_recipes

        taken = {each.artifact.fusion: file for file, each in fresh.items()}
        report = compile_recipes(stale, targets, out, nvcc=nvcc, jobs=jobs, dump=dump, on_progress=on_progress,
                                 dry_run=dry_run, search=search, taken=taken)  # fmt: skip
    spills = report.build.spills
    built = {file: _compiled(each, spills) for file, each in zip(stale, report.artifacts, strict=True)}
    return Compilation(
        recipes=tuple((fresh | built)[file] for file in files),
        compiled=report.build.compiled,
        seconds=report.build.seconds,
    )


def _fresh(
    files: Sequence[Path], targets: Sequence[Target], build_dir: BuildDir, nvcc: str | None, search: Search
) -> dict[Path, CompiledRecipe]:
    """The recipes among ``files`` whose artifact is, by the record, what a compile would write."""
    found = find_record(build_dir)
    if found.problem:
        logger.log(logging.WARNING if found.is_damaged else logging.INFO, "everything is planned again: %s", found)
    known = recorded(files, found.record)
    whole = untouched(known, build_dir)
    origins = Origins(lambda targets: find_toolchain(targets, nvcc=nvcc))
    fresh = {}
    for file in files:
        built = known.get(file)
        if built is None:
            why: tuple[str, ...] = (_why_unknown(found, build_dir),)
        elif file not in whole:
            path = build_dir.artifact(built.fusion)
            why = (Stale.OTHER_ARTIFACT() if os.path.exists(path) else Stale.MISSING(one_line(path)),)
        else:
            why = origins.why_stale(file, built, targets, search)
        logger.info("%s: %s", file, f"it is compiled: {', '.join(why)}" if why else "as it was built, by the record")
        if built is not None and not why:
            fresh[file] = _recorded(file, built, build_dir)
    return fresh


def _why_unknown(found: FoundRecord, build_dir: BuildDir) -> str:
    """Why a recipe is compiled that the record that was ``found`` does not tell of."""
    folder = one_line(build_dir.root)
    if found.problem:
        return Stale.RECORD_UNREADABLE(folder)
    return Stale.NOT_BUILT(folder) if found.record.recipes else Stale.NOTHING_BUILT(folder)


def _recorded(file: Path, built: BuiltRecipe, build_dir: BuildDir) -> CompiledRecipe:
    path = build_dir.artifact(built.fusion)
    return CompiledRecipe(
        artifact=CompiledArtifact(fusion=built.fusion, recipe=file.as_posix(), path=path, written=False),
        kernels=built.kernels,
        spills={(target, name): spilled for target, own in built.spills.items() for name, spilled in own.items()},
    )


def _compiled(built: BuiltArtifact, spills: Mapping[Key, int]) -> CompiledRecipe:
    planned = built.planned
    return CompiledRecipe(
        artifact=CompiledArtifact(
            fusion=planned.plan.fusion, recipe=planned.recipe.path, path=built.path, written=built.written
        ),
        kernels={target: sorted(by_name) for target, by_name in planned.kernels.items()},
        spills={key: spills[key] for key in planned.object_keys if key in spills},
    )
