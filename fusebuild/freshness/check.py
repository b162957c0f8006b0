"""Freshness: does each artifact hold what its recipe, templates, flags and toolchain would give now?

Nothing is compiled, and nothing is planned of what the directory's record shows to be as it was built. Machine code is
compared with what that record says of it; where it says nothing, neither does a verdict. Where there is a SHA256SUMS it
has to list each artifact with its digest. What compiling would give is for
:mod:`fusebuild.freshness.rebuild` to say."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fusebuild.artifact.file import open_artifact
from fusebuild.build.build_dir import BuildDir
from fusebuild.build.checksums import NAME as CHECKSUMS
from fusebuild.build.checksums import FoundChecksums, find_checksums
from fusebuild.build.cuda_toolkit import Candidate, choose_nvcc, nvcc_candidates
from fusebuild.build.record import BuiltRecipe, FoundRecord, find_record, recorded, untouched
from fusebuild.build.toolchain import Toolchain, unproven_toolchain
from fusebuild.errors import ToolchainError
from fusebuild.freshness.origins import Origins
from fusebuild.freshness.verdict import CheckedRecipe, MachineCode, Stale, verdict
from fusebuild.recipe.files import recipe_files
from fusebuild.target.table import Target, find_target

if TYPE_CHECKING:
    from fusebuild.segmentation import Search

logger = logging.getLogger(__name__)


def check_recipes(
    paths: Sequence[Path],
    out: Path,
    *,
    targets: Sequence[Target] | None = None,
    search: Search | None = None,
    nvcc: str | None = None,
) -> tuple[CheckedRecipe, ...]:
    """Compare the artifact of every recipe below ``paths`` in ``out`` with what would be built now.

    ``targets`` default to those that each artifact holds, ``search`` to how its cuts were found. Where no toolchain is
    found its version is not compared. Raises :class:`RecipeError` for recipes that cannot be read, :class:`TunedError`
    for what lies beside them and :class:`ToolchainError` for an nvcc that somebody names and that is not there.
    """
    candidates = nvcc_candidates(nvcc, os.environ)
    choose_nvcc(candidates, needed=False)  # one that somebody names is there
    build_dir, origins = BuildDir(root=out), Origins(lambda held: _toolchain(held, candidates))
    files, found = recipe_files(paths), find_record(build_dir)
    if found.problem:
        logger.warning("machine code is not compared with what was recorded: %s", found)
    known = recorded(files, found.record)
    whole = untouched(known, build_dir)
    current = {file: built for file, built in known.items() if _is_current(file, built, targets, search, origins)}
    fresh = {file: build_dir.artifact(whole[file].fusion) for file in current if file in whole}
    for file in files:
        logger.info(
            "%s: %s", file, "as it was built, by the record" if file in fresh else "compared with what it gives"
        )
    verdicts = {file: verdict(file.as_posix(), artifact) for file, artifact in fresh.items()}
    doubtful = [file for file in files if file not in fresh]
    if doubtful:
        taken = {path.stem: file for file, path in fresh.items()}
        for file, each in zip(doubtful, _compared(doubtful, taken, build_dir, targets, search, origins), strict=True):
            verdicts[file] = _compared_with_record(each, current.get(file))
    if checksums := find_checksums(build_dir):
        verdicts = {file: _compared_with_checksums(each, whole.get(file), checksums) for file, each in verdicts.items()}
    return tuple(_with_machine_code(verdicts[file], found, is_whole=file in whole) for file in files)


def orphans(paths: Sequence[Path], out: Path, verdicts: Sequence[CheckedRecipe]) -> tuple[Path, ...]:
    """The artifacts in ``out`` that are of none of the recipes that ``verdicts`` are of; none where ``paths`` name no
    folder, since then there may be other recipes."""
    if not any(path.is_dir() for path in paths):
        return ()
    known = {each.artifact.name for each in verdicts}
    return tuple(sorted(path for path in out.glob("*.fuse") if path.name not in known))


def _is_current(
    recipe: Path, built: BuiltRecipe, targets: Sequence[Target] | None, search: Search | None, origins: Origins
) -> bool:
    """Whether ``recipe`` would now give what was ``built`` from it. The order of ``targets`` does not matter."""
    if targets is None or {target.name for target in targets} == {*built.targets}:
        targets = [find_target(name) for name in built.targets]
    return not origins.why_stale(recipe, built, targets, search or built.search)


def _compared(
    files: Sequence[Path],
    taken: Mapping[str, Path],
    build_dir: BuildDir,
    targets: Sequence[Target] | None,
    search: Search | None,
    origins: Origins,
) -> list[CheckedRecipe]:
    """The verdicts on ``files``, each planned and compared with its artifact."""
    from fusebuild.freshness.differences import differences_of_all
    from fusebuild.pipeline import read_recipes

    recipes = [(recipe, build_dir.artifact(recipe.fusion.name)) for recipe in read_recipes(files, taken)]
    differences = differences_of_all(recipes, targets, search, origins.toolchain)
    return [verdict(recipe.path, path, *own) for (recipe, path), own in zip(recipes, differences, strict=True)]


def _compared_with_record(found: CheckedRecipe, built: BuiltRecipe | None) -> CheckedRecipe:
    """The verdict on an artifact whose texts are fresh, where it is not the one that was ``built`` from them."""
    if built is None or not found.fresh:
        return found
    members = open_artifact(found.artifact).manifest.members
    changed = [
        Stale.OTHER_OBJECT(name)
        for name, digest in built.objects.items()
        if name not in members or members[name].sha256 != digest
    ]
    return found.stale(*(changed or [Stale.OTHER_ARTIFACT()]))


def _compared_with_checksums(
    found: CheckedRecipe, built: BuiltRecipe | None, checksums: FoundChecksums
) -> CheckedRecipe:
    """The verdict on a fresh artifact, once its digest is compared with the one that it is listed with. Where the
    artifact is as it was ``built``, the record has its digest."""
    if not found.fresh:
        return found
    listed = checksums.digests.get(found.artifact.name)
    if listed is None:
        return found.stale(checksums.problem or Stale.UNLISTED(CHECKSUMS))
    own = built.sha256 if built else hashlib.sha256(found.artifact.read_bytes()).hexdigest()
    return found if listed == own else found.stale(Stale.OTHER_DIGEST(CHECKSUMS))


def _with_machine_code(found: CheckedRecipe, record: FoundRecord, *, is_whole: bool) -> CheckedRecipe:
    """``found`` with what machine code was compared with; ``is_whole`` says that the artifact is as ``record`` has
    it."""
    if is_whole and found.fresh:
        return replace(found, machine_code=MachineCode.AS_RECORDED)
    if record.is_damaged:
        return replace(found, machine_code=MachineCode.RECORD_DAMAGED)
    return replace(found, machine_code=MachineCode.RECORD_UNREADABLE) if record.problem else found


def _toolchain(targets: Sequence[Target], candidates: Sequence[Candidate]) -> Toolchain | None:
    """The toolchain for ``targets``, or None, with a warning, where there is none."""
    try:
        return unproven_toolchain(targets, candidates)
    except ToolchainError as error:
        logger.warning("compiler versions are not compared: %s", error)
        return None
