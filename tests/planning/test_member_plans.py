"""Plans of segments that are members of a group: one kernel, each member's own arguments, memory for all at once."""

from __future__ import annotations

import functools

import msgspec
import pytest

from fusebuild.artifact.kernel_text import read
from fusebuild.artifact.plan import ExtentArg, FormulaArg, PlanSegment, TensorArg, WorkspaceArg, decode, encode
from fusebuild.artifact.plan_check import argument_sizes, validate_plan
from fusebuild.pipeline import plan_recipe
from fusebuild.planning.planned import PlannedRecipe
from support.many_tensors import SM_90, clip_text, decay_text
from support.small_recipes import recipe_of, text_of

SHAPES = ["M", "M, N", "7", "3, 5, 11", "K"]


@functools.cache
def planned(text: str) -> PlannedRecipe:
    return plan_recipe(recipe_of(text), [SM_90])


def segments(text: str) -> tuple[PlanSegment, ...]:
    return planned(text).plan.targets[0].segments


def test_all_members_have_the_same_kernels_and_one_group() -> None:
    found = segments(decay_text(SHAPES))
    assert [each.group for each in found] == [0] * 5
    kernels = {tuple(launch.kernel for variant in each.variants for launch in variant.launches) for each in found}
    assert len(kernels) == 1
    launches = [launch for each in found for variant in each.variants for launch in variant.launches]
    assert {launch.members for launch in launches} == {5}


def test_each_is_given_its_own_tensor_and_size() -> None:
    plan = planned(decay_text(SHAPES)).plan
    last = [each.variants[-1].launches[0].args for each in plan.targets[0].segments]
    assert [args[0] for args in last] == [TensorArg(fid) for fid in plan.inputs[:5]]
    assert [args[-1] for args in last] == [
        ExtentArg(-1), FormulaArg(("mul", "M", "N")), FormulaArg(7), FormulaArg(165), ExtentArg(-8),
    ]  # fmt: skip


def test_a_size_that_is_known_decides_a_guard() -> None:
    guards = [each.variants[0].guard for each in segments(decay_text(SHAPES))]
    assert ("lt", "M", 2146435072) in guards[0]
    assert all(guard[0] == "aligned" for guard in guards[2])


def test_few_elements_take_what_many_do() -> None:
    alone = [each.name for each in segments(decay_text(["M"]))[0].variants]
    beside = [each.name for each in segments(decay_text(["M", "N"]))[0].variants]
    assert alone[0].startswith("few_")
    assert beside == alone[1:]


def test_reductions_have_no_clusters_and_scratch_of_their_own() -> None:
    plan = planned(clip_text(["M", "N", "K"])).plan
    reducing = [each for each in plan.targets[0].segments if each.group == 0]
    launches = [launch for each in reducing for variant in each.variants for launch in variant.launches]
    assert len(reducing) > 1
    assert all(launch.cluster is msgspec.UNSET and launch.grid[1:] == (1, 1) for launch in launches)
    slots = [{arg.slot for variant in each.variants for launch in variant.launches for arg in launch.args
              if isinstance(arg, WorkspaceArg)} for each in reducing]  # fmt: skip
    assert all(slots)
    assert sum(map(len, slots)) == len(set[int]().union(*slots))


def test_memory_lives_while_any_member_runs() -> None:
    body = "a = segment_set(exp(x))\nb = segment_set(exp(y))\nc = exp(a)\nd = exp(b)"
    plan = planned(text_of({"x": "float[M]", "y": "float[N]"}, body, {"c": "float", "d": "float"})).plan
    assert [each.group for each in plan.targets[0].segments] == [0, 0, 2, 2]
    assert [(slot.first, slot.last) for slot in plan.targets[0].workspace] == [(0, 3)] * 2


@pytest.mark.parametrize("text", [decay_text(SHAPES), clip_text(["M", "N, K", "3", "1"])])
def test_plans_are_well_formed_and_survive_json(text: str) -> None:
    plan = planned(text).plan
    assert validate_plan(plan) is None
    assert decode(encode(plan)) == decode(encode(decode(encode(plan))))
    assert encode(decode(encode(plan))) == encode(plan)


def test_a_kernel_takes_one_parameter_for_all() -> None:
    plan = planned(decay_text(SHAPES)).plan
    sizes = argument_sizes(plan, plan.targets[0])
    args = {len(launch.args) for each in plan.targets[0].segments for v in each.variants for launch in v.launches}
    assert len(args) == 1
    assert {*sizes.values()} == {((5 * 8 * (args.pop() + 1),),)}


def test_the_text_of_a_kernel_tells_its_members() -> None:
    kernels = planned(decay_text(SHAPES)).kernels["sm_90"]
    for name, kernel in kernels.items():
        head = read(kernel.text, name)
        assert head is not None
        assert head.members == 5
        assert [each.name for each in head.parameters][-1] == "n0"


def test_a_recipe_without_groups_says_nothing_of_them() -> None:
    data = encode(planned(decay_text(["M, N"])).plan)
    assert b"members" not in data
    assert b"group" not in data
