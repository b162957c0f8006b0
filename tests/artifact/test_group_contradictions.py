"""Plans whose segments run side by side, and that contradict themselves about it, are refused."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from fusebuild.artifact import kernel_text
from fusebuild.artifact.plan import Launch, Plan, PlanSegment
from fusebuild.artifact.plan_check import validate_plan
from fusebuild.pipeline import plan_recipe
from fusebuild.planning.planned import PlannedRecipe
from support.changed_plans import with_target
from support.many_tensors import SM_90, decay_text
from support.small_recipes import recipe_of, text_of

SHAPES = ["M", "M, N", "7"]
WAITING = text_of(
    {"x": "float[M]", "y": "float[N]"},
    "a = segment_set(exp(x))\nb = segment_set(exp(y))\nc = exp(a)\nd = exp(b)",
    {"c": "float", "d": "float"},
)


@functools.cache
def planned(text: str) -> PlannedRecipe:
    return plan_recipe(recipe_of(text), [SM_90])


def with_segments(plan: Plan, change: Callable[[PlanSegment], PlanSegment]) -> Plan:
    return with_target(plan, segments=tuple(map(change, plan.targets[0].segments)))


def with_launches(plan: Plan, change: Callable[[Launch], Launch]) -> Plan:
    def changed(segment: PlanSegment) -> PlanSegment:
        variants = [
            msgspec.structs.replace(each, launches=tuple(map(change, each.launches))) for each in segment.variants
        ]
        return msgspec.structs.replace(segment, variants=tuple(variants))

    return with_segments(plan, changed)


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([0, 0, msgspec.UNSET], "side by side, and its segment is in no group"),
        ([0, msgspec.UNSET, 0], "segment 2 is in group 0, and the segment before it is not"),
        ([1, 1, 1], "segment 0 is in group 1, and the segment before it is not"),
        ([0, 0, 7], "segment 2 is in group 7, and the segment before it is not"),
        ([0, -1, 0], "segment 1 is in group -1, and the segment before it is not"),
    ],
)
def test_groups_that_are_none(groups: list[Any], words: str) -> None:
    plan = with_segments(
        planned(decay_text(SHAPES)).plan, lambda each: msgspec.structs.replace(each, group=groups[each.id])
    )
    assert words in (validate_plan(plan) or "")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"members": 0}, "a table of 0 launches, expected 1 to "),
        ({"members": -3}, "a table of -3 launches, expected 1 to "),
        ({"members": 2000}, "a table of 2000 launches, expected 1 to "),
        ({"grid": (1, 2, 1)}, "launches in a table are rows of blocks with as much shared memory"),
        ({"grid": (1, 1, "M")}, "launches in a table are rows of blocks with as much shared memory"),
        ({"cluster": 2}, "launches in a table are rows of blocks with as much shared memory"),
        ({"shared_bytes": "M"}, "launches in a table are rows of blocks with as much shared memory"),
    ],
)
def test_launches_that_no_table_holds(changes: dict[str, Any], words: str) -> None:
    plan = with_launches(planned(decay_text(SHAPES)).plan, lambda each: msgspec.structs.replace(each, **changes))
    assert words in (validate_plan(plan) or "")


def test_members_that_wait_for_each_other() -> None:
    plan = with_segments(planned(WAITING).plan, lambda each: msgspec.structs.replace(each, group=0))
    assert "is of a segment of its own group, none of which waits for another" in (validate_plan(plan) or "")


@pytest.mark.parametrize("life", [(0, 2), (1, 3)])
def test_memory_that_goes_while_members_run(life: tuple[int, int]) -> None:
    plan = planned(WAITING).plan
    slots = [msgspec.structs.replace(each, first=life[0], last=life[1]) for each in plan.targets[0].workspace]
    found = validate_plan(with_target(plan, workspace=tuple(slots))) or ""
    assert "workspace slot ends" in found or "outside its workspace slot's life" in found


@pytest.mark.parametrize("members", [2, 4, msgspec.UNSET])
def test_a_table_of_another_size_than_the_kernel_takes(members: Any) -> None:
    recipe = planned(decay_text(SHAPES))
    texts = {name: kernel.text for name, kernel in recipe.kernels["sm_90"].items()}
    assert kernel_text.misused(recipe.plan, texts) is None
    plan = with_launches(recipe.plan, lambda each: msgspec.structs.replace(each, members=members))
    wrong = kernel_text.misused(plan, texts)
    assert wrong is not None
    given = 0 if members is msgspec.UNSET else members
    assert wrong.problem.endswith(f"a table of {given} launches, where the kernel takes 3")
