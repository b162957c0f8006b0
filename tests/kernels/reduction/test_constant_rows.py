"""Reductions over as many elements as the recipe says: no launch of theirs has a grid without blocks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fusebuild.artifact.plan_check import validate_plan
from fusebuild.oracle.verification import verify_artifact
from fusebuild.pipeline import plan_recipe
from fusebuild.target.table import TARGETS
from support.host_artifacts import compile_for_host
from support.small_recipes import recipe_of, text_of

assert torch  # what verifies needs it


def text(shape: str, call: str, cases: str = "") -> str:
    return text_of({"x": f"bfloat16[{shape}]"}, f"y = {call}", {"y": "float"}, cases=cases)


@pytest.mark.parametrize("call", ["sum(x, dims=[0])", "max(x, dims=[0])", "var(x, dims=[0])", "logsumexp(x, dims=[0])"])
@pytest.mark.parametrize("shape", ["4, M", "128, M", "5000, M", "7, 5000, M", "4, 128", "4", "5000", "1000000"])
def test_plans_of_constant_rows_are_valid(shape: str, call: str) -> None:
    recipe = recipe_of(text(shape, call, "M: 3000" if "M" in shape else ""))
    assert validate_plan(plan_recipe(recipe, [TARGETS["sm_90"], TARGETS["host"]]).plan) is None


def test_constant_rows_are_summed(tmp_path: Path) -> None:
    folder = compile_for_host(tmp_path, {"test": text("4, M", "sum(x, dims=[0])", "M: 1001")})
    verdicts = list(verify_artifact(folder / "test.fuse", target="host"))
    assert len(verdicts) > 3
    assert [verdict for verdict in verdicts if not verdict.ok] == []
