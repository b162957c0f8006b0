"""Compiling no more than has changed. Where nothing has, no recipe is parsed and nothing is planned: the modules that
do so are not even imported."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

from msgspec import Meta

from fusebuild.build.checksums import write_checksums
from fusebuild.build.objects import BuildDir, Key
from fusebuild.build.record import (
    BuiltRecipe,
    FoundRecord,
    find_record,
    fusebuild_digest,
    made_from,
    recorded,
    untouched,
)
from fusebuild.build.toolchain import find_toolchain
from fusebuild.errors import one_line
from fusebuild.recipe.files import recipe_files
from fusebuild.system.failure import ReportedDiagnostic
from fusebuild.target.table import Target

if TYPE_CHECKING:
    from fusebuild.pipeline import BuiltArtifact, Progress
    from fusebuild.segmentation import Search


logger = logging.getLogger(__name__)


class CompiledArtifact(TypedDict):
    """An artifact; ``written`` says that its bytes are others than before."""

    fusion: str
    recipe: str
    path: str
    written: bool


class Spill(TypedDict):
    """A kernel whose registers did not suffice: in a recipe that allows it, or where no choice was without."""

    target: str
    kernel: str
    bytes: Annotated[int, Meta(description="stored and loaded")]


class CompileReport(TypedDict):
    """``fusebuild compile --json``"""

    artifacts: list[CompiledArtifact]
    compiled: Annotated[int, Meta(description="objects that a compiler made")]
    total: Annotated[int, Meta(description="objects that the artifacts have in all, equal ones counted once")]
    seconds: float
    spills: list[Spill]
    diagnostics: Annotated[list[ReportedDiagnostic], Meta(description="of recipes that --keep-going passed over")]


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRecipe:
    """One recipe's artifact, with all that it holds compiled. ``written`` is False where it was up to date; ``spills``
    are bytes of registers, by target and kernel."""

    recipe: str
    fusion: str
    artifact: Path
    written: bool
    kernels: Mapping[str, Sequence[str]]
    spills: Mapping[Key, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compilation:
    """Every recipe of a compile, in order; how many objects were compiled, and in which time."""

    recipes: tuple[CompiledRecipe, ...]
    compiled: int
    seconds: float

    def as_json(self, passed_over: Sequence[ReportedDiagnostic] = ()) -> CompileReport:
        """The same as JSON has it, with what is wrong with recipes that were ``passed_over``."""
        return {
            "artifacts": [
                {"fusion": each.fusion, "recipe": each.recipe, "path": str(each.artifact), "written": each.written}
                for each in self.recipes
            ],
            "compiled": self.compiled,
            "total": self.total,
            "seconds": self.seconds,
            "diagnostics": list(passed_over),
            "spills": [
                {"target": target, "kernel": kernel, "bytes": spilled}
                for (target, kernel), spilled in sorted(self.spills.items())
            ],
        }

    @property
    def total(self) -> int:
        """How many objects the artifacts hold, equal ones counted once."""
        return len(
            {(target, name) for each in self.recipes for target, names in each.kernels.items() for name in names}
        )

    @property
    def spills(self) -> dict[Key, int]:
        """The bytes that each object spills which does."""
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
    """:func:`fusebuild.pipeline.compile_recipes` for the recipes below ``paths`` whose artifact in ``out`` is not what
    it would write; for all of them with ``dump``. The folder is locked before anything is read. Raises what that
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

        taken = {each.fusion: file for file, each in fresh.items()}
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
    """Those of ``files`` whose artifact is what a compile would write."""
    found = find_record(build_dir)
    if found.problem:
        logger.log(logging.WARNING if found.is_damaged else logging.INFO, "everything is planned again: %s", found)
    known = recorded(files, found.record)
    whole = untouched(known, build_dir)
    now = made_from(targets, find_toolchain(targets, nvcc=nvcc), fusebuild_digest()) if whole else {}
    fresh = {}
    for file in files:
        built = known.get(file)
        if built is None:
            reason = _why_unknown(found, build_dir)
        elif file not in whole:
            reason = f"{one_line(build_dir.artifact(built.fusion))} is missing, or not as it was built"
        else:
            reason = _what_changed(built, targets, search, now)
        logger.info("%s: %s", file, f"it is compiled: {reason}" if reason else "its artifact is up to date")
        if built is not None and not reason:
            fresh[file] = _recorded(file, built, build_dir)
    return fresh


def _why_unknown(found: FoundRecord, build_dir: BuildDir) -> str:
    """Why a recipe is compiled that the record that was ``found`` does not tell of."""
    if found.problem:
        return f"it is not known what was compiled in {one_line(build_dir.root)} before"
    if not found.record.recipes:
        return f"nothing was compiled in {one_line(build_dir.root)} before"
    return f"it is not what was compiled in {one_line(build_dir.root)} before"


def _what_changed(built: BuiltRecipe, targets: Sequence[Target], search: Search, now: Mapping[str, str]) -> str:
    """Why what was ``built`` from a recipe as it is would be made otherwise now; empty where it would not."""
    names = tuple(target.name for target in targets)
    if built.targets != names:
        return f"it was for {', '.join(built.targets)}, not for {', '.join(names)}"
    if built.search != search:
        return f"its cuts were {built.search}, not {search}"
    changed = [name for name in sorted({*built.made_from, *now}) if built.made_from.get(name) != now.get(name)]
    return f"{', '.join(changed)} changed" if changed else ""


def _recorded(file: Path, built: BuiltRecipe, build_dir: BuildDir) -> CompiledRecipe:
    return CompiledRecipe(
        recipe=file.as_posix(),
        fusion=built.fusion,
        artifact=build_dir.artifact(built.fusion),
        written=False,
        kernels=built.kernels,
        spills={(target, name): spilled for target, own in built.spills.items() for name, spilled in own.items()},
    )


def _compiled(built: BuiltArtifact, spills: Mapping[Key, int]) -> CompiledRecipe:
    kernels = {target: sorted(by_name) for target, by_name in built.planned.kernels.items()}
    own = {(target, name) for target, names in kernels.items() for name in names}
    return CompiledRecipe(
        recipe=built.planned.recipe.path,
        fusion=built.planned.plan.fusion,
        artifact=built.path,
        written=built.written,
        kernels=kernels,
        spills={key: spilled for key, spilled in spills.items() if key in own},
    )
