"""What is said of an artifact: whether it is fresh, why it is stale, and what its machine code was compared with.

These are the only words for it. ``check``, ``compile``, ``compile --frozen`` and ``check --rebuild`` all use them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum, StrEnum
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace


class Stale(Enum):
    """Why an artifact is stale, or has to be compiled. Each value is the sentence, with places for names."""

    MISSING = "{} is missing"
    DAMAGED = "artifact is not whole: {}"
    TARGETS = "targets differ: {}"
    CHANGED = "{} changed"
    """Something that the artifact was made from, by name, or something that its recipe gives: the plan, or a kernel."""
    EASED = "a choice that was made when registers ran out is none now: {}"
    OTHER_ARTIFACT = "it is not the artifact that was built here"
    OTHER_OBJECT = "{} is not what was compiled here"
    OTHER_WHEN_REBUILT = "{} is not what compile makes"
    UNLISTED = "{} does not list it"
    OTHER_DIGEST = "{} has another digest"
    NO_RECIPE = "no recipe of that name"
    NOTHING_BUILT = "nothing was compiled in {} before"
    NOT_BUILT = "it is not what was compiled in {} before"
    RECORD_UNREADABLE = "it is not known what was compiled in {} before"
    COMPILER_UNKNOWN = "which compiler its tuned kernels hold for is not known"

    def __call__(self, *names: object) -> str:
        """The sentence about ``names``."""
        return self.value.format(*names)


class MachineCode(StrEnum):
    """What an artifact's objects were compared with: the digests that the build recorded beside it, or objects that
    were compiled for it now."""

    AS_RECORDED = "as recorded"
    AS_REBUILT = "as rebuilt"
    NOT_COMPARED = "not compared"
    RECORD_DAMAGED = "not compared: the record is damaged"
    RECORD_UNREADABLE = "not compared: the record cannot be read"


class CheckedRecipe(Struct, frozen=True, kw_only=True):
    """``fusebuild check --json`` and ``fusebuild compile --frozen --json``: one recipe"""

    recipe: str
    artifact: Path
    fresh: bool
    why: Annotated[tuple[str, ...], Meta(description="what differs; empty when it is fresh")]
    machine_code: Annotated[
        MachineCode,
        Meta(description="what it was compared with: the digests recorded beside the build, or code compiled now"),
    ]
    orphaned: Annotated[bool, Meta(description="an artifact in the folder that no recipe is for; recipe is empty")]

    def stale(self, *why: str) -> CheckedRecipe:
        """The verdict on the same artifact once it is found stale, or still this one where there is no reason."""
        return replace(self, fresh=False, why=why) if why else self


def verdict(recipe: str, artifact: Path, *why: str) -> CheckedRecipe:
    """The verdict on the artifact of ``recipe``, which is stale where there is a reason. Its machine code was not
    compared yet."""
    return CheckedRecipe(
        recipe=recipe,
        artifact=artifact,
        fresh=not why,
        why=why,
        machine_code=MachineCode.NOT_COMPARED,
        orphaned=False,
    )


def orphan(artifact: Path) -> CheckedRecipe:
    """The verdict on an artifact that no recipe is for."""
    return replace(verdict("", artifact, Stale.NO_RECIPE()), orphaned=True)


def summary(verdicts: Sequence[CheckedRecipe]) -> str:
    """How many are fresh, and of how many of those nothing is known of their machine code."""
    fresh = [each for each in verdicts if each.fresh]
    unknown = Counter(each.machine_code for each in fresh if each.machine_code.startswith(MachineCode.NOT_COMPARED))
    said = [f"{len(fresh)} fresh, {len(verdicts) - len(fresh)} stale"]
    for how, number in unknown.items():
        why = how.removeprefix(MachineCode.NOT_COMPARED) or ": no record of a build here"
        said.append(f"machine code of {number} {MachineCode.NOT_COMPARED}{why}")
    return "; ".join(said)
