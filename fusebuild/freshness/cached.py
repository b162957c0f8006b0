"""Artifacts in the user's cache. One that is fresh is used as it is, and no compiler is looked for. One that is missing
or stale is compiled."""

from __future__ import annotations

import logging
import os
from functools import partial
from pathlib import Path

from fusebuild.artifact.file import open_artifact
from fusebuild.artifact.plan import without_reasons
from fusebuild.build.build_dir import BuildDir
from fusebuild.build.toolchain import find_toolchain
from fusebuild.errors import ArtifactError, KnobError, one_line
from fusebuild.freshness.differences import source_differences
from fusebuild.pipeline import compile_planned, pack
from fusebuild.planning.eased import eased_in
from fusebuild.planning.planned import PlannedRecipe, replanned
from fusebuild.planning.spills import tell_unknown, without_spills
from fusebuild.system.resources import cache_dir
from fusebuild.target.table import Target

logger = logging.getLogger(__name__)


def cache_folder(kind: str, digest: str, target: Target) -> Path:
    """The folder of the artifact for ``target`` of the recipe or definition (the ``kind``) that has this ``digest``."""
    return cache_dir(os.environ) / kind / digest[:32] / target.name


def cached_artifact(planned: PlannedRecipe, target: Target, folder: Path) -> Path:
    """The artifact of ``planned`` for ``target`` in ``folder``, compiled there if it has to be. Raises what
    :func:`fusebuild.pipeline.compile_recipes` raises once a recipe is planned."""
    build_dir = BuildDir(root=folder)
    path = build_dir.artifact(planned.plan.fusion)
    if _is_fresh(path, planned):
        return path
    toolchain = find_toolchain([target])
    compile_all = partial(compile_planned, build_dir=build_dir, toolchain=toolchain)
    with build_dir.locked():
        if _is_fresh(path, planned):
            return path  # another process made it meanwhile
        (planned,), objects = without_spills([planned], compile_all([planned]), toolchain, compile_all)
        tell_unknown([planned], objects)
        origin = one_line(Path(planned.recipe.path).name)
        for (_, kernel), spilled in sorted(objects.spills.items()):
            logger.warning("kernel %s of %s for %s spills %d bytes of registers", kernel, origin, target.name, spilled)
        return pack(planned, build_dir, toolchain, objects).path


def _is_fresh(path: Path, planned: PlannedRecipe) -> bool:
    """Whether the artifact at ``path`` was made from the sources that there are now. Neither the compiler counts nor
    the file and the lines where the fusion was written."""
    if not os.path.exists(path):  # Path's own raises where it cannot look
        return False
    try:
        artifact = open_artifact(path)
        if eased := eased_in(artifact.plan):
            planned = replanned(planned, eased, None)
    except (ArtifactError, KnobError):
        return False  # written anew
    if source_differences(artifact, planned, None):
        return False
    return without_reasons(artifact.plan) == without_reasons(planned.plan)
