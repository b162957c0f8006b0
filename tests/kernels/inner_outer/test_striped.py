"""Odd rows of samples: which kernels take them, and that these are compiled as they are planned."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusebuild.kernels.common.specialization import taken_variant
from fusebuild.kernels.inner_outer import FAMILY
from fusebuild.kernels.inner_outer.striped import RUNGS
from fusebuild.pipeline import plan_recipe, read_recipes
from fusebuild.target.table import TARGETS
from support.device_harness import compile_kernels
from support.places import ROOT
from support.small_recipes import whole

SM_90 = TARGETS["sm_90"]
INPUTS = {"x": "bfloat16[B, S, D]", "g": "bfloat16[B, S, D]", "c": "bfloat16[B, 1, D]"}
BODY = "y = g * c - mean(g * x, dims=[2], keepdim=True)\na = sum(g * x, dims=[1])\nb = sum(g, dims=[1])"
TASK = whole(INPUTS, BODY, {"y": "bfloat16", "a": "float", "b": "float"})


@pytest.mark.parametrize(
    "columns", [257, *(most + beyond for most in RUNGS[:-1] for beyond in (-1, 1)), 131071, 131072]
)
def test_odd_rows_and_long_ones_are_striped(columns: int) -> None:
    found = FAMILY.schedule(TASK, SM_90, {})
    taken = taken_variant(found, TASK.fusion, {"B": 3, "S": 53, "D": columns})
    rung = next(most for most in RUNGS if columns <= most)
    assert taken.name == f"striped{rung}_vec8_int32"


def test_longer_ones_accumulate_in_scratch() -> None:
    found = FAMILY.schedule(TASK, SM_90, {})
    assert taken_variant(found, TASK.fusion, {"B": 3, "S": 53, "D": 131073}).name.startswith("scratch")


def test_no_kernel_of_theirs_spills(tmp_path: Path) -> None:
    """Those that do are left out when a recipe is compiled, and their rows accumulate in scratch."""
    planned = plan_recipe(read_recipes([ROOT / "recipes" / "adaln_backward.yaml"])[0], [SM_90])
    striped = [kernel for kernel in planned.kernels["sm_90"].values() if "fb::copy_around" in kernel.source]
    assert len(striped) == len(RUNGS)
    for kernel in striped:
        source = tmp_path / f"{kernel.name}.cu"
        source.write_text(kernel.source)
        assert " 0 bytes spill stores" in compile_kernels(source, source.with_suffix(".cubin"), SM_90)
