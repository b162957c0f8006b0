"""Recipes of one matrix product each, their plans, and how far the runtime's product is from the oracle's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fusebuild.artifact.plan import LibraryCall, Plan
from fusebuild.artifact.plan_check import validate_plan
from fusebuild.ir.fusion import Fusion
from fusebuild.oracle.bounds import Comparison, compare
from fusebuild.oracle.reference import evaluate_fp64, random_inputs
from fusebuild.passes import run_passes
from fusebuild.pipeline import plan_recipe
from fusebuild.runtime.loader import LoadedPlan, load_artifact
from fusebuild.target.table import TARGETS, Target
from support.runtime_plans import HandMadeArtifact
from support.small_recipes import recipe_of, text_of

SM_90, HOST = TARGETS["sm_90"], TARGETS["host"]
DTYPES = ("double", "float", "half", "bfloat16")


def recipe_text(inputs: Mapping[str, str], body: str, dtype: str = "float", **more: Any) -> str:
    """One product ``y`` of ``inputs``, given by their shapes."""
    return text_of({name: f"{dtype}[{shape}]" for name, shape in inputs.items()}, f"y = {body}", {"y": dtype}, **more)


def fusion_of(text: str) -> Fusion:
    return run_passes(recipe_of(text).fusion)


def plan_of(text: str, target: Target = SM_90) -> Plan:
    return plan_recipe(recipe_of(text), [target]).plan


def call_of(text: str) -> LibraryCall:
    (segment,) = plan_of(text).targets[0].segments
    assert isinstance(segment.call, LibraryCall)
    return segment.call


def loaded(text: str, target: str = "host") -> LoadedPlan:
    """A plan of library calls alone, which needs no compiler."""
    plan = plan_of(text, TARGETS[target])
    assert validate_plan(plan) is None
    return load_artifact(HandMadeArtifact(path=Path("test.fuse"), plan=plan, objects={}), target=target)


def compared(text: str, sizes: Mapping[str, int], device: str, target: str) -> Comparison:
    """How far the runtime's product, one call, is from the oracle's."""
    import torch

    fusion = recipe_of(text).fusion
    inputs = random_inputs(fusion, sizes, seed=7, device=device)
    (want,) = evaluate_fp64(fusion, inputs)
    output = fusion.value(fusion.output_fids[0])
    poisoned = torch.full(want.shape, float("nan"), dtype=inputs[0].dtype, device=device)  # type: ignore[union-attr]
    plan = loaded(text, target)
    assert len(plan.plan.targets[0].segments) == 1
    got = plan(*inputs, out=poisoned)
    assert got is poisoned
    return compare(got, want, output.dtype)


def device_target() -> str:
    """The target of the current GPU."""
    import torch

    major, minor = torch.cuda.get_device_capability()
    return f"sm_{major}{minor}"
