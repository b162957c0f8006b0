"""What decides now what a recipe becomes, besides the recipe itself, compared with what decided it at a recorded build.

Nothing is parsed or planned for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, cached_property
from pathlib import Path

from fusebuild.build.record import BuiltRecipe, fusebuild_digest, made_from
from fusebuild.build.toolchain import Toolchain
from fusebuild.freshness.verdict import Stale
from fusebuild.recipe.files import tuned_path
from fusebuild.target.table import Target

FindToolchain = Callable[[tuple[Target, ...]], Toolchain | None]
"""The toolchain for some targets; None where there is none and versions are not compared."""


class Origins:
    """fusebuild itself, the flags and the compilers. Each is looked for when it is first needed, and once."""

    def __init__(self, find_toolchain: FindToolchain) -> None:
        self.toolchain: FindToolchain = cache(find_toolchain)

    def why_stale(self, recipe: Path, built: BuiltRecipe, targets: Sequence[Target], search: str) -> tuple[str, ...]:
        """Why what was ``built`` from ``recipe``, which is as it was then, would be made otherwise now for ``targets``
        and with cuts found by ``search``; empty where it would not."""
        names = [target.name for target in targets]
        if [*built.targets] != names:
            return (Stale.TARGETS(", ".join(sorted({*names} ^ {*built.targets})) or "their order"),)
        if built.search != search:
            return (Stale.CHANGED("segmentation"),)
        toolchain = self.toolchain(tuple(targets))
        if toolchain is None and tuned_path(recipe).is_file():
            return (Stale.COMPILER_UNKNOWN(),)
        now = made_from(targets, toolchain, self._fusebuild)
        return tuple(Stale.CHANGED(name) for name in sorted(now) if built.made_from.get(name) != now[name])

    @cached_property
    def _fusebuild(self) -> str:
        return fusebuild_digest()
