"""What the recipes in ``tests/fewest`` are today, and what ``gaps.toml`` beside them says that they are."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fusebuild.errors import LocatedError
from fusebuild.ir.formula import show
from fusebuild.planning.expectation import excess, hbm_bytes
from support.places import TESTS
from support.small_recipes import planned_file

GAPS = TESTS / "fewest" / "gaps.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """What a recipe is: the ``segments`` and ``bytes`` of its plan, or why it is refused. ``is_kept`` says that it is
    what it expects to be."""

    segments: int = 0
    bytes: str = ""
    refusal: str = ""
    is_kept: bool = False

    def as_declared(self) -> dict[str, Any]:
        """The state as ``gaps.toml`` has it."""
        return {"refusal": self.refusal} if self.refusal else {"segments": self.segments, "bytes": self.bytes}


def state_of(path: Path) -> State:
    """The recipe at ``path`` as it is today, planned for sm_90."""
    try:
        planned = planned_file(path)
    except LocatedError as error:
        return State(refusal=error.diagnostics[0].message)
    (target,) = planned.plan.targets
    expected, cases = planned.recipe.expected, planned.recipe.fusion.cases
    return State(
        segments=len(target.segments),
        bytes=show(hbm_bytes(target)),
        is_kept=not excess(expected, target, cases) and len(target.segments) == expected.segments,
    )


@functools.cache
def worklist() -> tuple[Mapping[str, str], Mapping[str, Mapping[str, Any]]]:
    """The capabilities that are lacking, by name, and the gap of each recipe that has one."""
    found = tomllib.loads(GAPS.read_text(encoding="utf-8"))
    return found["capabilities"], found["gaps"]
