"""Freshness: does each artifact hold what its recipe, templates, flags and toolchain would give now?

Nothing is compiled, and nothing is planned of what the directory's record shows to be as it was built. Machine code is
compared with what that record says of it; where it says nothing, neither does a verdict. Where there is a SHA256SUMS it
has to list each artifact with its digest. What compiling would give is for
:mod:`fusebuild.freshness.rebuild` to say."""

from __future__ import annotations

import hashlib
import logging
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias, TypedDict

from msgspec import Meta

from fusebuild.artifact.file import open_artifact
from fusebuild.build.checksums import NAME as CHECKSUMS
from fusebuild.build.checksums import FoundChecksums, find_checksums
from fusebuild.build.objects import BuildDir
from fusebuild.build.record import (
    BuiltRecipe,
    FoundRecord,
    find_record,
    fusebuild_digest,
    made_from,
    recorded,
    untouched,
)
from fusebuild.build.toolchain import Toolchain, choose_nvcc, nvcc_candidates, unproven_toolchain
from fusebuild.errors import ToolchainError
from fusebuild.recipe.files import recipe_files, tuned_path
from fusebuild.target.table import Target, find_target

if TYPE_CHECKING:
    from fusebuild.segmentation import Search

logger = logging.getLogger(__name__)


MachineCode: TypeAlias = Literal[
    "as recorded", "as rebuilt", "not compared", "not compared: the record is damaged",
    "not compared: the record cannot be read",
]  # fmt: skip
"""What an artifact's objects were compared with: the digests that the build recorded beside it, or objects that were
compiled for it now."""
_NOT_COMPARED = "not compared"


class CheckedRecipe(TypedDict):
    """``fusebuild check --json`` and ``fusebuild compile --frozen --json``: one recipe"""

    recipe: str
    artifact: str
    fresh: bool
    why: Annotated[list[str], Meta(description="what differs; empty when it is fresh")]
    machine_code: Annotated[
        MachineCode,
        Meta(description="what it was compared with: the digests recorded beside the build, or code compiled now"),
    ]
    orphaned: Annotated[bool, Meta(description="an artifact in the folder that no recipe is for; recipe is empty")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Freshness:
    """One recipe's verdict: ``differences`` is empty when its artifact is fresh, as far as it was compared."""

    recipe: str
    artifact: Path
    differences: tuple[str, ...]
    machine_code: MachineCode = "not compared"

    def as_json(self) -> CheckedRecipe:
        """The same as JSON has it."""
        return {
            "recipe": self.recipe,
            "artifact": str(self.artifact),
            "fresh": not self.differences,
            "why": list(self.differences),
            "machine_code": self.machine_code,
            "orphaned": False,
        }


def check_recipes(
    paths: Sequence[Path],
    out: Path,
    *,
    targets: Sequence[Target] | None = None,
    search: Search | None = None,
    nvcc: str | None = None,
) -> tuple[Freshness, ...]:
    """Compare the artifact of every recipe below ``paths`` in ``out`` with what would be built now.

    ``targets`` default to those that each artifact holds, ``search`` to how its cuts were found. Where no toolchain is
    found its version is not compared. Raises :class:`RecipeError` for recipes that cannot be read, :class:`TunedError`
    for what lies beside them and :class:`ToolchainError` for an nvcc that somebody names and that is not there.
    """
    choose_nvcc(nvcc_candidates(nvcc, os.environ), needed=False)  # one that is asked for is there
    build_dir, toolchains = BuildDir(root=out), _Toolchains(nvcc=nvcc)
    files = recipe_files(paths)
    wanted = targets and {target.name for target in targets}
    found = find_record(build_dir)
    if found.problem:
        logger.warning("machine code is not compared with what was recorded: %s", found)
    known = {
        file: built
        for file, built in recorded(files, found.record).items()
        if wanted in (None, {*built.targets}) and search in (None, built.search)
    }
    whole = untouched(known, build_dir)
    current = _as_built(known, toolchains)
    fresh = {file: build_dir.artifact(built.fusion) for file, built in whole.items() if file in current}
    verdicts = {file: Freshness(recipe=file.as_posix(), artifact=path, differences=()) for file, path in fresh.items()}
    doubtful = [file for file in files if file not in fresh]
    for file in files:
        logger.info(
            "%s: %s", file, "as it was built, by the record" if file in fresh else "compared with what it gives"
        )
    if doubtful:
        taken = {path.stem: file for file, path in fresh.items()}
        compared = _compared(doubtful, taken, build_dir, targets, search, toolchains)
        verdicts |= {
            file: verdict
            if verdict.differences or file not in current
            else _compared_with_record(verdict, current[file])
            for file, verdict in zip(doubtful, compared, strict=True)
        }
    if checksums := find_checksums(build_dir):
        verdicts |= {
            file: _compared_with_checksums(verdict, whole.get(file), checksums) for file, verdict in verdicts.items()
        }
    return tuple(_with_machine_code(verdicts[file], found, is_whole=file in whole) for file in files)


def orphans(paths: Sequence[Path], out: Path, verdicts: Sequence[Freshness]) -> tuple[Path, ...]:
    """The artifacts in ``out`` that are of none of the recipes that ``verdicts`` are of; none where ``paths`` name no
    folder, since then there may be other recipes."""
    if not any(path.is_dir() for path in paths):
        return ()
    known = {verdict.artifact.name for verdict in verdicts}
    return tuple(sorted(path for path in out.glob("*.fuse") if path.name not in known))


def orphans_json(paths: Sequence[Path]) -> list[CheckedRecipe]:
    """Orphans as JSON has them, among verdicts."""
    return [
        {
            "recipe": "",
            "artifact": str(path),
            "fresh": False,
            "why": ["no recipe of that name"],
            "machine_code": "not compared",
            "orphaned": True,
        }
        for path in paths
    ]


def summary(verdicts: Sequence[Freshness]) -> str:
    """How many are fresh, and of how many of those nothing is known of their machine code."""
    fresh = [verdict for verdict in verdicts if not verdict.differences]
    unknown = Counter(verdict.machine_code for verdict in fresh if verdict.machine_code.startswith(_NOT_COMPARED))
    said = [f"{len(fresh)} fresh, {len(verdicts) - len(fresh)} stale"]
    for how, number in unknown.items():
        why = how.removeprefix(_NOT_COMPARED) or ": no record of a build here"
        said.append(f"machine code of {number} {_NOT_COMPARED}{why}")
    return "; ".join(said)


def _with_machine_code(verdict: Freshness, found: FoundRecord, *, is_whole: bool) -> Freshness:
    """``verdict`` beside the record that was ``found``; ``is_whole`` says that the artifact is the one in it."""
    if is_whole and not verdict.differences:
        return replace(verdict, machine_code="as recorded")
    if found.is_damaged:
        return replace(verdict, machine_code="not compared: the record is damaged")
    return replace(verdict, machine_code="not compared: the record cannot be read") if found.problem else verdict


def _compared_with_record(verdict: Freshness, built: BuiltRecipe) -> Freshness:
    """The verdict on an artifact whose texts are fresh, and which is not the one that was ``built`` from them."""
    members = open_artifact(verdict.artifact).manifest.members
    changed = [
        f"{name} is not what was compiled here"
        for name, digest in built.objects.items()
        if name not in members or members[name].sha256 != digest
    ]
    return replace(verdict, differences=tuple(changed or ["it is not the artifact that was built here"]))


def _compared_with_checksums(verdict: Freshness, built: BuiltRecipe | None, checksums: FoundChecksums) -> Freshness:
    """``verdict``, once the digest of its artifact, which is as ``built`` where that is known, is compared with the one
    that it is listed with."""
    if verdict.differences:
        return verdict
    listed = checksums.digests.get(verdict.artifact.name)
    if listed is None:
        return replace(verdict, differences=(checksums.problem or f"{CHECKSUMS} does not list it",))
    found = built.sha256 if built else hashlib.sha256(verdict.artifact.read_bytes()).hexdigest()
    return verdict if listed == found else replace(verdict, differences=(f"{CHECKSUMS} has another digest",))


def _as_built(known: Mapping[Path, BuiltRecipe], toolchains: _Toolchains) -> dict[Path, BuiltRecipe]:
    """Those of ``known`` that were made from what there is now. Without a toolchain, of those whose choices depend on
    one nothing is said."""
    fusebuild = fusebuild_digest() if known else ""
    found = {}
    for file, built in known.items():
        if built.made_from.get("fusebuild") != fusebuild:
            continue
        held = tuple(find_target(name) for name in built.targets)
        toolchain = toolchains.find(held)
        if toolchain is None and tuned_path(file).is_file():
            continue
        now = made_from(held, toolchain, fusebuild)
        if now.items() <= built.made_from.items():
            found[file] = built
    return found


def _compared(
    files: Sequence[Path],
    taken: Mapping[str, Path],
    build_dir: BuildDir,
    targets: Sequence[Target] | None,
    search: Search | None,
    toolchains: _Toolchains,
) -> list[Freshness]:
    """The verdicts on ``files``, each planned and compared with its artifact."""
    from fusebuild.freshness.differences import differences_of_all
    from fusebuild.pipeline import read_recipes

    recipes = [(recipe, build_dir.artifact(recipe.fusion.name)) for recipe in read_recipes(files, taken)]
    differences = differences_of_all(recipes, targets, search, toolchains.find)
    return [
        Freshness(recipe=recipe.path, artifact=path, differences=own)
        for (recipe, path), own in zip(recipes, differences, strict=True)
    ]


class _Toolchains:
    """The toolchain for each set of targets, looked for once."""

    def __init__(self, *, nvcc: str | None) -> None:
        self._nvcc = nvcc
        self._found: dict[tuple[Target, ...], Toolchain | None] = {}

    def find(self, targets: tuple[Target, ...]) -> Toolchain | None:
        """The toolchain, or None, with a warning, where there is none."""
        if targets not in self._found:
            try:
                self._found[targets] = unproven_toolchain(targets, nvcc=self._nvcc)
            except ToolchainError as error:
                logger.warning("compiler versions are not compared: %s", error)
                self._found[targets] = None
        return self._found[targets]
