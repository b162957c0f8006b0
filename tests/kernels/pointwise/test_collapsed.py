"""Tensors that hold axes in different orders, of which some calls have one point each: what is taken, what runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import any_domain
from fusebuild.kernels.pointwise.collapsed import Collapse
from fusebuild.runtime.loader import load
from support.host_artifacts import chosen, compile_for_host
from support.small_recipes import text_of, whole

TURNED = {"x": "bfloat16[B, S, H, D]"}, "y = permute(x, [0, 2, 1, 3])", {"y": "bfloat16"}


def collapse(task: Task) -> Collapse | None:
    return Collapse.of(task, any_domain(task))


def test_the_innermost_axis_has_all_points() -> None:
    found = collapse(whole(*TURNED))
    assert found is not None
    is_copy, is_none = ("le", ("min", "H", "S"), 1), ("gt", ("min", "H", "S"), 1)
    assert found.sizes == {
        **{name: ("max", is_copy, ("mul", name, is_none)) for name in "BHS"},
        "D": ("mul", "D", ("max", is_none, ("mul", is_copy, "B", "H", "S"))),
    }
    assert found.formula(("lt", ("mul", "B", "H", "S", "D"), 5)) == ("lt", ("mul", "B", "H", "S", "D"), 5)


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
    assert collapse(whole(inputs, body, {"y": "half"})) is None


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {"turned": text_of(*TURNED, name="turned")}
    return compile_for_host(tmp_path_factory.mktemp("collapsed"), texts)


@pytest.mark.parametrize(
    ("shape", "variant"),
    [
        ((7, 3, 1, 5), "strips_vec8_int32"),
        ((7, 3, 1, 1), "scalar_int32"),  # fewer elements than a long row has
        ((8, 1, 3, 7), "vec8_int32"),
        ((5, 1, 1, 16), "vec8_int32"),
        ((2, 3, 4, 5), "scalar_int32"),
        ((2, 3, 4, 8), "vec8_int32"),
        ((0, 1, 4, 8), "vec8_int32"),
        ((2, 0, 1, 8), "vec8_int32"),
    ],
)
def test_calls_that_copy(artifacts: Path, shape: tuple[int, ...], variant: str) -> None:
    plan, x = load(artifacts / "turned.fuse", target="host"), torch.randn(shape).bfloat16()
    assert chosen(plan, x) == variant
    assert torch.equal(plan(x), x.permute(0, 2, 1, 3))
