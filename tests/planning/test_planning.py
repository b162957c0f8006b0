"""Plans: the golden plan of every recipe we ship, and what a plan promises whoever runs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusebuild.artifact.plan import (
    ExtentArg,
    FormulaArg,
    ScalarArg,
    StrideArg,
    TensorArg,
    WorkspaceArg,
    as_formula,
    decode,
    encode,
)
from fusebuild.artifact.plan_check import validate_plan
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.pipeline import plan_recipe
from fusebuild.planning.assembly import fusion_digest
from fusebuild.planning.planned import PlannedRecipe
from fusebuild.recipe.recipe import load_recipe
from fusebuild.target.table import TARGETS
from support.golden import Golden
from support.places import GOLDEN, RECIPES
from support.small_recipes import SUM_THEN_ADD, planned_file, recipe_of, text_of

SM_90, HOST = TARGETS["sm_90"], TARGETS["host"]
PLANS = GOLDEN / "plans"


def plan_text(text: str) -> PlannedRecipe:
    return plan_recipe(recipe_of(text), [SM_90])


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
class TestRecipes:
    def test_golden(self, path: Path, golden: Golden) -> None:
        golden(PLANS / f"{path.stem}.json", encode(planned_file(path).plan).decode())

    def test_plans_are_whole_and_survive_json(self, path: Path) -> None:
        plan = plan_recipe(load_recipe(path), list(TARGETS.values())).plan
        assert encode(decode(encode(plan))) == encode(plan)
        assert validate_plan(decode(encode(plan))) is None

    def test_every_launch_has_its_kernel_and_as_many_arguments_as_parameters(self, path: Path) -> None:
        planned = planned_file(path)
        kernels = planned.kernels["sm_90"]
        launched = set()
        for each in planned.plan.targets[0].segments:
            for launch in (launch for variant in each.variants for launch in variant.launches):
                launched.add(launch.kernel)
                assert len(launch.args) == len(kernels[launch.kernel].parameters)
                assert f"{launch.kernel}(" in kernels[launch.kernel].source
        assert launched == {*kernels}


class TestArguments:
    def test_sizes_that_are_dims_are_named_by_negative_fids(self) -> None:
        planned = plan_text(text_of({"x": "float[M, N]", "b": "float[N]"}, "y = x + b", {"y": "float"}))
        launch = planned.plan.targets[0].segments[0].variants[-1].launches[0]
        assert launch.args == (TensorArg(fid=0), TensorArg(fid=1), TensorArg(fid=2), ExtentArg(fid=-1),
                               ExtentArg(fid=-2))  # fmt: skip

    def test_sizes_of_merged_axes_are_formulas(self) -> None:
        planned = plan_text(text_of({"x": "float[M, N]"}, "y = -x", {"y": "float"}))
        launch = planned.plan.targets[0].segments[0].variants[-1].launches[0]
        assert launch.args[-1] == FormulaArg(formula=("mul", "M", "N"))

    def test_scalars_strides_and_workspace(self) -> None:
        layout = '{dtype: "bfloat16[M, N]", contiguity: [false, true]}'
        text = text_of({"x": layout}, "y = sum(x * eps, dims=[0])", {"y": "float"}, scalars={"eps": "{dtype: double}"},
                       cases="M: 32768, N: 4096")  # fmt: skip
        variants = plan_text(text).plan.targets[0].segments[0].variants
        first, finish = next(variant for variant in variants if len(variant.launches) == 2).launches
        kinds = {TensorArg, WorkspaceArg, ScalarArg, ExtentArg, StrideArg, FormulaArg}
        assert {type(arg) for arg in first.args} == kinds
        assert StrideArg(fid=0, dim=0) in first.args
        assert ScalarArg(fid=1) in first.args
        assert WorkspaceArg(slot=0) in finish.args
        assert (first.overlaps, finish.overlaps) == (True, True)

    def test_segments_speak_in_original_fids(self) -> None:
        second = plan_text(SUM_THEN_ADD).plan.targets[0].segments[1]
        assert second.variants[0].guard == (("aligned", 1, 16), ("aligned", 3, 16))
        assert [arg.fid for arg in second.variants[0].launches[0].args if isinstance(arg, TensorArg)] == [1, 2, 3]


class TestPlan:
    def test_values_are_named_as_the_recipe_names_its_outputs(self) -> None:
        planned = plan_text(text_of({"x": "bfloat16[M]"}, "y = x + 1.0", {"y": "bfloat16"}))
        assert [(value.fid, value.name, value.dtype) for value in planned.plan.values][1][1:] == ("y", "bfloat16")

    def test_an_aliasing_output_has_the_layout_of_its_target(self) -> None:
        layout = '{dtype: "float[M, N]", contiguity: [false, true]}'
        plan = plan_text(text_of({"x": layout}, "y = x + 1.0", {"y": "{dtype: float, alias: x}"})).plan
        (output,) = plan.outputs
        assert output.alias == 0
        assert plan.value(output.fid).strides == (None, 1)

    def test_constant_extents_have_negative_fids_too(self) -> None:
        plan = plan_text(SUM_THEN_ADD).plan
        assert [(e.fid, e.input, e.dim, e.extent) for e in plan.extents] == [
            (-1, 0, 0, 2), (-2, 0, 1, 32), (-3, 1, 0, 2), (-4, 1, 1, 128),
        ]  # fmt: skip

    def test_scratch_slots_hold_what_the_greediest_variant_needs(self) -> None:
        text = text_of({"x": "bfloat16[M, N]"}, "y = sum(x, dims=[0])", {"y": "float"}, cases="M: 32768, N: 4096")
        (target,) = plan_text(text).plan.targets
        (slot,) = target.workspace
        sizes = {"M": 32768, "N": 4096, MULTIPROCESSORS: 132}
        assert evaluate(as_formula(slot.bytes), sizes) == 33 * 4 * 4096

    def test_targets_are_planned_apart(self) -> None:
        plan = plan_recipe(recipe_of(SUM_THEN_ADD), [SM_90, HOST]).plan
        assert [target.target for target in plan.targets] == ["sm_90", "host"]
        assert plan.target("sm_80") is None

    def test_the_digest_names_what_is_computed(self) -> None:
        fusion = recipe_of(SUM_THEN_ADD).fusion
        documented = recipe_of(SUM_THEN_ADD.replace("inputs:", "doc: Words.\ninputs:", 1)).fusion
        other = recipe_of(SUM_THEN_ADD.replace("t1 + t2", "t1 - t2")).fusion
        assert fusion_digest(documented) == fusion_digest(fusion)
        assert fusion_digest(other) != fusion_digest(fusion)
