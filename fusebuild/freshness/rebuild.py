"""The whole proof of freshness: everything is compiled again, and each byte of each artifact is compared.

Builds are reproducible, wherever they run. So an artifact that was made from the same sources by the same compilers
equals the one that is compiled into a scratch folder here, byte for byte. Objects are not taken from the user's store:
compared with themselves they would prove nothing.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from fusebuild.artifact.file import decode_artifact, open_artifact
from fusebuild.build.object_store import ObjectStore
from fusebuild.build.objects import Progress
from fusebuild.build.toolchain import find_toolchain
from fusebuild.freshness.check import check_recipes
from fusebuild.freshness.differences import made_for
from fusebuild.freshness.verdict import CheckedRecipe, MachineCode, Stale
from fusebuild.pipeline import compile_recipes
from fusebuild.recipe.files import recipe_files
from fusebuild.system.disk_space import temporary_folder
from fusebuild.target.table import Target

if TYPE_CHECKING:
    from fusebuild.segmentation import Search


def rebuild_recipes(
    paths: Sequence[Path],
    out: Path,
    *,
    targets: Sequence[Target] | None = None,
    search: Search | None = None,
    nvcc: str | None = None,
    jobs: int | None = None,
    on_progress: Progress | None = None,
) -> tuple[CheckedRecipe, ...]:
    """The verdicts of :func:`~fusebuild.freshness.check.check_recipes`, with every fresh artifact compiled again: it is
    stale where that gives other bytes.

    Raises what ``check_recipes`` and :func:`~fusebuild.pipeline.compile_recipes` raise, :class:`ToolchainError` among
    it.
    """
    if targets is not None:
        find_toolchain(targets, nvcc=nvcc)
    verdicts = dict(zip(recipe_files(paths),
                        check_recipes(paths, out, targets=targets, search=search, nvcc=nvcc), strict=True))  # fmt: skip
    groups: dict[tuple[tuple[Target, ...], Search], list[Path]] = {}
    for file, verdict in verdicts.items():
        if verdict.fresh:
            held, own = made_for(open_artifact(verdict.artifact))
            groups.setdefault((tuple(targets or held), search or own), []).append(file)
    with tempfile.TemporaryDirectory(prefix="fusebuild-rebuild-", dir=temporary_folder(os.environ)) as folder:
        store = ObjectStore(root=Path(folder, "objects"))
        for number, ((wanted, way), files) in enumerate(groups.items()):
            scratch = Path(folder, str(number))
            compile_recipes(files, wanted, scratch, nvcc=nvcc, jobs=jobs, on_progress=on_progress,
                            search=way, store=store)  # fmt: skip
            verdicts |= {file: _compared(verdicts[file], scratch) for file in files}
    return tuple(verdicts.values())


def _compared(verdict: CheckedRecipe, scratch: Path) -> CheckedRecipe:
    """``verdict``, once the artifact is compared with the one that was built in ``scratch``."""
    rebuilt = replace(verdict, machine_code=MachineCode.AS_REBUILT)
    data, wanted = verdict.artifact.read_bytes(), (scratch / verdict.artifact.name).read_bytes()
    if data == wanted:
        return rebuilt
    found = decode_artifact(data, verdict.artifact).members
    made = decode_artifact(wanted, verdict.artifact).members
    differing = [name for name in sorted({*found, *made}) if found.get(name) != made.get(name)]
    return rebuilt.stale(*map(Stale.OTHER_WHEN_REBUILT, differing))
