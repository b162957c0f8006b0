"""The walk: recipes in, artifacts out. Every stage is a pure function from one frozen value to the next.

::

    recipes/*.yaml -> Fusion -> passes -> SegmentedFusion -> Plan and kernels -> objects -> NAME.fuse
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from fusebuild import __version__
from fusebuild.artifact.file import encode_artifact, object_member
from fusebuild.artifact.plan_check import kernels_of
from fusebuild.build.build_dir import BuildDir
from fusebuild.build.checksums import write_checksums
from fusebuild.build.job import KernelSource, read_headers
from fusebuild.build.ninja import compiler_flags
from fusebuild.build.object_store import ObjectStore
from fusebuild.build.objects import BuildResult, Progress, build
from fusebuild.build.record import (
    BuiltRecipe,
    artifact_digest,
    extend_record,
    fusebuild_digest,
    made_from,
    source_digest,
    way_to,
)
from fusebuild.build.toolchain import Toolchain, find_toolchain
from fusebuild.errors import (
    Diagnostic,
    ExpectationError,
    LocatedError,
    RecipeError,
    UsageError,
    counted,
    one_line,
)
from fusebuild.kernels.render import template_digests
from fusebuild.passes import run_passes
from fusebuild.planning.dump import Dump
from fusebuild.planning.eased import NOT_EASED, Eased
from fusebuild.planning.expectation import complaints
from fusebuild.planning.planned import PlannedRecipe, plan_segmented
from fusebuild.planning.spills import tell_unknown, without_spills
from fusebuild.planning.tuned import TunedKernels, read_tuned
from fusebuild.recipe.files import recipe_files, tuned_path
from fusebuild.recipe.recipe import Recipe, load_recipe
from fusebuild.segmentation import Search, segment
from fusebuild.system.processes import mapped, processors
from fusebuild.target.table import Target

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltArtifact:
    """One artifact of a compile. ``written`` is False when the file was up to date, ``digest`` and ``sha256`` are those
    of its bytes (empty where nothing was built)."""

    planned: PlannedRecipe
    path: Path
    written: bool
    digest: str = ""
    sha256: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompiledRecipes:
    """The artifacts that :func:`compile_recipes` made, in the order of the recipes, and the objects in them."""

    artifacts: tuple[BuiltArtifact, ...]
    build: BuildResult


def compile_recipes(
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
    taken: Mapping[str, Path] = MappingProxyType({}),
    store: ObjectStore | None = None,
) -> CompiledRecipes:
    """The whole walk for every recipe below ``paths``: one artifact each in ``out``, holding code for all ``targets``.

    Kernels that were tuned are those of :func:`tuned_beside` each recipe. A dry run plans and counts but writes
    nothing; all else holds the lock of ``out`` from before recipes are read until what was made is recorded. ``taken``
    are names of fusions that other recipes define, ``store`` is where objects are kept (default: in the user's cache).
    Raises :class:`RecipeError`, :class:`TunedError`, :class:`ScheduleError`, :class:`ExpectationError`,
    :class:`ToolchainError`, :class:`CompileError` and :class:`UsageError`.
    """
    build_dir = BuildDir(root=out)
    with nullcontext() if dry_run else build_dir.locked():  # what is read first is recorded first
        recipes = read_recipes(paths, taken)
        tuned = [tuned_beside(recipe) for recipe in recipes]
        toolchain = find_toolchain(targets, nvcc=nvcc)
        origins = made_from(targets, toolchain, fusebuild_digest())  # before anything is made: files may change
        plan = partial(_plan_tuned, targets=targets, dump=dump, search=search, toolchain=toolchain)
        planned = mapped(plan, list(zip(recipes, tuned, strict=True)), processes=jobs or processors())
        require_expected(planned)
        compile_all = partial(compile_planned, build_dir=build_dir, toolchain=toolchain, jobs=jobs, store=store)
        objects = compile_all(planned, on_progress=on_progress, dry_run=dry_run)
        if dry_run:
            artifacts = [
                BuiltArtifact(planned=each, path=build_dir.artifact(each.plan.fusion), written=False)
                for each in planned
            ]
        else:
            planned, objects = without_spills(planned, objects, toolchain, compile_all)
            for each in planned:
                Dump.of(each.recipe, dump).plan(each.plan, each.kernels)  # other choices may have been taken
            tell_unknown(planned, objects)
            artifacts = [pack(each, build_dir, toolchain, objects) for each in planned]
            extend_record(build_dir, dict(_recorded(each, origins, objects) for each in artifacts))
            write_checksums(build_dir, {each.path.name: each.sha256 for each in artifacts})
    return CompiledRecipes(artifacts=tuple(artifacts), build=objects)


def read_recipes(paths: Sequence[Path], taken: Mapping[str, Path] = MappingProxyType({})) -> tuple[Recipe, ...]:
    """The recipes that ``paths`` name: files, or folders whose ``*.yaml`` are taken; ``taken`` names are not theirs to
    define. Errors are raised all at once."""
    recipes: list[Recipe] = []
    diagnostics: list[Diagnostic] = []
    for file in recipe_files(paths):
        try:
            recipes.append(load_recipe(file))
        except LocatedError as error:
            diagnostics += error.diagnostics
    if diagnostics:
        raise RecipeError(diagnostics)
    seen = {name: path.as_posix() for name, path in taken.items()}
    for recipe in recipes:
        if first := seen.get(recipe.fusion.name):
            raise UsageError(f"{one_line(first)} and {one_line(recipe.path)} both define fusion '{recipe.fusion.name}'")
        seen[recipe.fusion.name] = recipe.path
    return tuple(recipes)


def tuned_beside(recipe: Recipe) -> TunedKernels | None:
    """What was tuned for ``recipe``, from the file beside its own. Raises :class:`TunedError`."""
    return read_tuned(tuned_path(Path(recipe.path)), recipe.fusion.name)


def plan_recipe(
    recipe: Recipe,
    targets: Sequence[Target],
    dump: Path | None = None,
    search: Search = "heuristic",
    *,
    tuned: TunedKernels | None = None,
    toolchain: Toolchain | None = None,
    eased: Eased = NOT_EASED,
) -> PlannedRecipe:
    """Passes, segmentation, schedules and rendered kernels of one recipe for each of ``targets``. ``tuned`` choices are
    taken where ``toolchain``, if it is known, is the one that they were measured with, and ``eased`` ones before them.
    Raises :class:`KnobError` for an eased one that no kernel can be made with."""
    record = Dump.of(recipe, dump)
    record.fusion("00-recipe", recipe.fusion)
    fusion = run_passes(recipe.fusion, record.after_pass)
    segmented = {target.name: segment(fusion, target, search) for target in targets}
    planned = plan_segmented(recipe, fusion, segmented, targets,
                             search=search, tuned=tuned, toolchain=toolchain, eased=eased)  # fmt: skip
    record.plan(planned.plan, planned.kernels)
    for target in planned.plan.targets:
        parts = counted(len(target.segments), "segment"), counted(len(planned.kernels[target.target]), "kernel")
        logger.info("%s: planned for %s: %s", one_line(recipe.path), target.target, ", ".join(parts))
    return planned


def _plan_tuned(given: tuple[Recipe, TunedKernels | None], **options: Any) -> PlannedRecipe:
    recipe, tuned = given
    return plan_recipe(recipe, tuned=tuned, **options)


def compile_planned(
    planned: Sequence[PlannedRecipe],
    *,
    build_dir: BuildDir,
    toolchain: Toolchain,
    jobs: int | None = None,
    on_progress: Progress | None = None,
    dry_run: bool = False,
    store: ObjectStore | None = None,
) -> BuildResult:
    """The objects of ``planned``, compiled where they have to be."""
    return build(kernel_requests(planned), build_dir, toolchain,
                 jobs=jobs, on_progress=on_progress, dry_run=dry_run, store=store)  # fmt: skip


def require_expected(planned: Sequence[PlannedRecipe]) -> None:
    """Raises :class:`ExpectationError` where plans have more segments or move more bytes than their recipes expect."""
    diagnostics = [each for one in planned for each in complaints(one.recipe, one.plan.targets)]
    if diagnostics:
        raise ExpectationError(diagnostics)


def kernel_requests(planned: Sequence[PlannedRecipe]) -> tuple[tuple[Target, KernelSource], ...]:
    """Every object that the planned recipes need, once each, in a fixed order."""
    requests = {
        (target.name, name): (target, KernelSource(name=name, text=kernel.source))
        for each in planned
        for target in each.targets
        for name, kernel in each.kernels[target.name].items()
    }
    return tuple(requests[key] for key in sorted(requests))


def pack(planned: PlannedRecipe, build_dir: BuildDir, toolchain: Toolchain, objects: BuildResult) -> BuiltArtifact:
    """Write the artifact of one planned recipe; the caller holds the lock of ``build_dir``."""
    path = build_dir.artifact(planned.plan.fusion)
    data = encode_artifact(
        path,
        plan=planned.plan,
        recipe=planned.recipe.text.encode(),
        included=planned.recipe.included,
        kernels={name: kernel.text for kernels in planned.kernels.values() for name, kernel in kernels.items()},
        objects={key: objects.objects[key] for key in planned.object_keys},
        toolchain=toolchain.versions_for(planned.targets),
        sources=source_digests(planned, toolchain),
        resources={key: objects.resources[key] for key in planned.object_keys if key in objects.resources},
    )
    written = build_dir.store(path, data)
    logger.info("%s: %s", path, "written" if written else "it holds this already")
    return BuiltArtifact(
        planned=planned,
        path=path,
        written=written,
        digest=artifact_digest(data),
        sha256=hashlib.sha256(data).hexdigest(),
    )


def _recorded(built: BuiltArtifact, origins: Mapping[str, str], objects: BuildResult) -> tuple[str, BuiltRecipe]:
    """What the record of the directory says of one artifact, and of which sources."""
    planned = built.planned
    recipe, tuned = planned.recipe, planned.tuned
    key = source_digest(Path(recipe.path).name, recipe.text.encode(), tuned.text.encode() if tuned else None)
    spills: dict[str, dict[str, int]] = {}
    for target, name in planned.object_keys:
        if spilled := objects.spills.get((target, name)):
            spills.setdefault(target, {})[name] = spilled
    return key, BuiltRecipe(
        fusion=planned.plan.fusion,
        recipe=way_to(Path(recipe.path), BuildDir(root=built.path.parent)),
        targets=tuple(planned.kernels),
        search=planned.search,
        made_from=dict(origins),
        included={path: hashlib.sha256(text.encode()).hexdigest() for path, text in recipe.included.items()},
        artifact=built.digest,
        sha256=built.sha256,
        kernels={target: sorted(by_name) for target, by_name in planned.kernels.items()},
        objects={object_member(*key): hashlib.sha256(objects.objects[key]).hexdigest() for key in planned.object_keys},
        spills=spills,
    )


def source_digests(planned: PlannedRecipe, toolchain: Toolchain | None) -> dict[str, str]:
    """What an artifact was made from, by name: what ``fusebuild check`` compares.

    Without a toolchain its entry is left out.
    """
    templates = {kernel.rsplit("_", 1)[0] for target in planned.plan.targets for kernel in kernels_of(target)}
    sources = {
        "fusebuild": __version__,
        "recipe": hashlib.sha256(planned.recipe.text.encode()).hexdigest(),
        "device header": read_headers().digest,
    }
    for path, text in planned.recipe.included.items():
        sources[f"included {path}"] = hashlib.sha256(text.encode()).hexdigest()
    sources |= {f"template {name}": digest for name, digest in template_digests(templates).items()}
    for target in planned.targets:
        sources[f"flags of {target.name}"] = hashlib.sha256(compiler_flags(target).encode()).hexdigest()
        if toolchain is not None:
            sources[f"toolchain of {target.name}"] = toolchain.digest_for(target)
    if planned.search != "heuristic":
        sources["segmentation"] = planned.search
    if planned.tuned is not None:
        sources["tuned kernels"] = planned.tuned.digest
    return dict(sorted(sources.items()))
