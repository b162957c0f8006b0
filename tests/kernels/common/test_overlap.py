"""Kernels that begin while the one before them ends: which do, and what they may not read as constant."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from fusebuild.artifact.plan import ExtentArg, Launch, PlanOutput, PlanSegment, TargetPlan, TensorArg
from fusebuild.artifact.plan_check import validate_plan
from fusebuild.kernels.common.overlap import RunsBeside, runs_beside
from fusebuild.kernels.families import family_of
from fusebuild.pipeline import plan_recipe
from fusebuild.target.table import TARGETS
from support import runtime_plans as plans
from support.places import FUSIONS, RECIPES, ROOT
from support.sampled import sampled
from support.small_recipes import planned_file, recipe_of, text_of

SM_90 = TARGETS["sm_90"]
FOLLOWS = RunsBeside(follows=True)
STARTS_NEXT = RunsBeside(starts_next_early=True)
BOTH = RunsBeside(follows=True, starts_next_early=True)
NEITHER = RunsBeside()


@pytest.mark.parametrize(
    ("schedulers", "expected"),
    [
        ((), []),
        (("pointwise",), [NEITHER]),
        (("reduction", "pointwise"), [STARTS_NEXT, FOLLOWS]),
        (("pointwise", "transpose", "reduction"), [STARTS_NEXT, FOLLOWS, FOLLOWS]),
        (("reduction", "transpose", "pointwise"), [STARTS_NEXT, BOTH, FOLLOWS]),
        (("reduction", "inner_outer_persistent"), [NEITHER, FOLLOWS]),
        (("reduction", "alias", "pointwise"), [STARTS_NEXT, NEITHER, FOLLOWS]),
        (("alias", "pointwise"), [NEITHER, NEITHER]),
        (("reduction", "library", "pointwise"), [NEITHER, NEITHER, NEITHER]),
        (("reduction", "alias", "library", "alias", "pointwise"), [NEITHER] * 5),
    ],
)
def test_what_runs_around_a_segment(schedulers: tuple[str, ...], expected: list[RunsBeside]) -> None:
    assert runs_beside([family_of(name) for name in schedulers]) == expected


def launches(segment: PlanSegment) -> list[Launch]:
    return [launch for variant in segment.variants for launch in variant.launches]


def overwritten(outputs: tuple[PlanOutput, ...], fids: tuple[int, ...]) -> set[int]:
    return {output.alias for output in outputs if output.fid in fids and output.alias is not None}


@pytest.mark.parametrize("path", sampled([*RECIPES, *FUSIONS], 8), ids=lambda path: path.stem)
class TestEveryPlan:
    def test_all_launches_overlap_but_the_first_and_those_after_a_library(self, path: Path) -> None:
        target: TargetPlan = planned_file(path).plan.targets[0]
        follows = False
        for segment in target.segments:
            for variant in segment.variants:
                found = [launch.overlaps is True for launch in variant.launches]
                # The sweeps of one kernel, which does not wait, begin one after the other.
                waits = not any(launch.kernel.startswith("inner_split") for launch in variant.launches)
                assert found == [follows, *[waits] * len(found)][: len(found)]
            follows = segment.scheduler != "library" and (follows or bool(launches(segment)))

    def test_what_kernels_before_write_is_not_read_as_constant(self, path: Path) -> None:
        planned = planned_file(path)
        written = set[int]()
        for segment in planned.plan.targets[0].segments:
            for launch in launches(segment):
                parameters = planned.kernels["sm_90"][launch.kernel].parameters
                for parameter, arg in zip(parameters, launch.args, strict=True):
                    is_constant = parameter.declaration.startswith("const ") and "__restrict__" in parameter.declaration
                    if launch.overlaps is True and isinstance(arg, TensorArg) and arg.fid in written:
                        assert not is_constant, f"{launch.kernel}: {parameter.declaration}"
            written |= {*segment.outputs, *overwritten(planned.plan.outputs, segment.outputs)}


def test_inputs_of_a_plan_are_constant_after_a_kernel_too() -> None:
    """Unless a segment before overwrites them."""
    text = text_of({"x": "float[M, N]", "w": "float[N]"}, "y = (x - sum(x, dims=[0])) * w", {"y": "float"},
                   cases="M: 65536, N: 4096")  # fmt: skip
    planned = plan_recipe(recipe_of(text), [SM_90])
    last = planned.plan.targets[0].segments[-1]
    parameters = planned.kernels["sm_90"][last.variants[0].launches[0].kernel].parameters
    pointers = [parameter for parameter in parameters if parameter.pointer is not None]
    declared = {parameter.comment.partition(":")[0]: parameter.declaration for parameter in pointers}
    assert [" __restrict__ " in declared[name] for name in ("x", "w", "y")] == [True, True, True]
    (between,) = (name for name in declared if name not in ("x", "w", "y"))
    assert declared[between].startswith("const float* T")


def test_a_launch_may_overlap_the_segment_before_it() -> None:
    values = [plans.tensor(fid, name, ["M"]) for fid, name in enumerate("xyz")]
    first = plans.segment(0, [0], [1], plans.launch("twice", TensorArg(1), TensorArg(0), ExtentArg(-1)))
    second = plans.launch("twice", TensorArg(2), TensorArg(1), ExtentArg(-1), overlaps=True)
    outputs = [PlanOutput(fid=1, name="y"), PlanOutput(fid=2, name="z")]
    segments = [first, plans.segment(1, [1], [2], second)]
    assert validate_plan(plans.plan("two", values, [0], outputs, segments)) is None


def test_a_launch_may_not_overlap_a_call_of_a_library() -> None:
    plan = planned_file(ROOT / "recipes" / "mlp.yaml").plan
    product, activation, *others = plan.targets[0].segments
    first = activation.variants[0]
    early = replace(first, launches=tuple(replace(launch, overlaps=True) for launch in first.launches))
    segments = (product, replace(activation, variants=(early, *activation.variants[1:])), *others)
    wrong = replace(plan, targets=(replace(plan.targets[0], segments=segments),))
    assert validate_plan(plan) is None
    where = f"sm_90: segment 1: variant {first.name}: {first.launches[0].kernel}"
    assert validate_plan(wrong) == f"{where}: it overlaps the launch before it, and there is none"
