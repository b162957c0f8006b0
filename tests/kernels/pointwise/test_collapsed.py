"""Tensors that hold axes in different orders, of which some calls have one point each: what is taken, what runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.pointwise.collapsed import CopyPlanner, copy_planner
from fusebuild.runtime.loader import load
from fusebuild.target.table import TARGETS
from support.host_artifacts import chosen, compile_for_host
from support.small_recipes import text_of, whole

TURNED = {"x": "bfloat16[B, S, H, D]"}, "y = permute(x, [0, 2, 1, 3])", {"y": "bfloat16"}


def copies(task: Task) -> CopyPlanner | None:
    return copy_planner(Planner(task=task, target=TARGETS["sm_90"], sizes={}, tuned={}))


def test_one_axis_has_all_points() -> None:
    found = copies(whole(*TURNED))
    assert found is not None
    assert found.guard == (("le", ("min", "H", "S"), 1),)
    (axis,) = found.domain.axes
    assert axis.extent == ("mul", "B", "H", "S", "D")
    assert {*found.domain.flat} == {*found.domain.accesses}


def test_every_pair_that_changed_places_has_to_have_one_point() -> None:
    found = copies(whole({"x": "half[A, B, C]"}, "y = permute(x, [2, 1, 0])", {"y": "half"}))
    assert found is not None
    assert found.guard == (("le", ("max", ("min", "C", "B"), ("min", "C", "A"), ("min", "B", "A")), 1),)


@pytest.mark.parametrize(
    ("inputs", "body"),
    [
        ({"x": "half[M, N]", "z": "half[M, N]"}, "y = x + z"),  # all in one order
        ({"x": "half[B, S, H, D]", "r": "half[H]"},
         "y = permute(x, [0, 2, 1, 3]) + broadcast(r, [True, False, True, True])"),  # not all have every axis
        ({"x": "half[B, S, H, 8]"}, "y = permute(x, [0, 2, 1, 3])"),  # an extent is no symbol
        ({"x": "half[B, S, H, D]"}, "y = permute(x, [0, 2, 1, 3]) * iota(D)"),  # elements are counted
    ],
)  # fmt: skip
def test_tasks_whose_axes_stay_as_they_are(inputs: dict[str, str], body: str) -> None:
    assert copies(whole(inputs, body, {"y": "half"})) is None


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {"turned": text_of(*TURNED, name="turned")}
    return compile_for_host(tmp_path_factory.mktemp("collapsed"), texts)


@pytest.mark.parametrize(
    ("shape", "variant"),
    [
        ((7, 3, 1, 5), "copy_vec8_int32"),
        ((7, 3, 1, 1), "copy_vec8_int32"),
        ((8, 1, 3, 7), "copy_vec8_int32"),
        ((5, 1, 1, 16), "copy_vec8_int32"),
        ((2, 3, 4, 5), "scalar_int32"),
        ((2, 3, 4, 8), "vec8_int32"),
        ((0, 1, 4, 8), "copy_vec8_int32"),
        ((2, 0, 1, 8), "copy_vec8_int32"),
        ((0, 3, 4, 8), "vec8_int32"),
    ],
)
def test_calls_that_copy(artifacts: Path, shape: tuple[int, ...], variant: str) -> None:
    plan, x = load(artifacts / "turned.fuse", target="host"), torch.randn(shape).bfloat16()
    assert chosen(plan, x) == variant
    assert torch.equal(plan(x), x.permute(0, 2, 1, 3))
