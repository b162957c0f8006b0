"""Running a definition: its recipe compiled once into a folder of its own, then called through the executor.

The folder is named by the digest of the recipe's text, so equal definitions share what was compiled, in this process
and across processes. It holds a usual artifact: ``fusebuild inspect`` and ``fusebuild verify`` take it. An artifact
there is used as it is when all it was made from is the same now; only else is a compiler looked for.
"""

from __future__ import annotations

import hashlib
import os
import threading
from pathlib import Path
from typing import Any

from fusebuild.artifact import open_artifact
from fusebuild.build import BuildDir, build
from fusebuild.errors import ArtifactError, UsageError
from fusebuild.pipeline import PlannedRecipe, kernel_requests, pack, plan_recipe, source_digests
from fusebuild.recipe import parse_recipe
from fusebuild.runtime.loader import LoadedPlan, best_target, load
from fusebuild.target import TARGETS, Target, find_target
from fusebuild.toolchain import cache_dir, find_toolchain

_lock = threading.Lock()
_loaded: dict[tuple[str, str, str], LoadedPlan] = {}
RECIPE = "definition.yaml"
"""What messages and kernels call the recipe of a definition."""


def target_for(device: Any) -> Target:
    """The target for tensors on ``device``, a torch device: the host for CPUs and for None.

    Raises :class:`UsageError` for a GPU that no target runs on.
    """
    if device is None or device.type == "cpu":
        return find_target("host")
    import torch

    major, minor = torch.cuda.get_device_capability(device)
    name = best_target(list(TARGETS), 10 * major + minor)
    if name is None:
        raise UsageError(f"no target runs on a device of compute capability {major}.{minor}")
    return find_target(name)


def cache_folder(recipe: str, target: Target) -> Path:
    """Where the artifact of ``recipe`` for ``target`` lies."""
    digest = hashlib.sha256(recipe.encode()).hexdigest()
    return cache_dir(os.environ) / "definitions" / digest[:32] / target.name


def loaded(recipe: str, target: Target) -> LoadedPlan:
    """``recipe`` ready to run on ``target``, compiled where nobody has yet.

    Raises what :func:`fusebuild.pipeline.compile_recipes` and :func:`fusebuild.load` do.
    """
    folder = cache_folder(recipe, target)
    key = (recipe, target.name, str(folder))
    with _lock:
        if key not in _loaded:
            _loaded[key] = load(_compiled(recipe, target, folder), target=target.name)
        return _loaded[key]


def _compiled(text: str, target: Target, folder: Path) -> Path:
    recipe = parse_recipe(text, RECIPE)
    planned = plan_recipe(recipe, [target])
    build_dir = BuildDir(root=folder)
    path = build_dir.artifact(planned.plan.fusion)
    if _is_fresh(path, planned, target):
        return path
    toolchain = find_toolchain([target])
    objects = build(kernel_requests([planned], [target]), build_dir, toolchain)
    return pack(planned, [target], build_dir, toolchain, objects).path


def _is_fresh(path: Path, planned: PlannedRecipe, target: Target) -> bool:
    """Whether the artifact at ``path`` was made from what there is now, its compiler left out of account."""
    if not path.exists():
        return False
    try:
        artifact = open_artifact(path)
    except ArtifactError:
        return False  # written anew
    now = source_digests(planned, [target], None)
    then = {name: digest for name, digest in artifact.manifest.sources.items() if not name.startswith("toolchain of ")}
    return now == then and artifact.plan == planned.plan
