"""Sums down columns of rows that a mask counts: what is one element a row comes with the row's vectors."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusebuild.pipeline import plan_recipe
from fusebuild.target.table import TARGETS
from support.small_recipes import recipe_of, text_of

torch = pytest.importorskip("torch")

from fusebuild.runtime.loader import load  # noqa: E402
from support.host_artifacts import compile_for_host  # noqa: E402

TEXT = text_of(
    {"x": "bfloat16[B, S, D]", "mask": "bool[B, S]"},
    "y = sum(x * broadcast(cast(mask, float), [False, False, True]), dims=[1])",
    {"y": "float"},
    name="masked",
    cases="B: 2, S: 64, D: 64",
)


def source(way: str) -> str:
    """The kernel that a ``way`` begins with on sm_90."""
    planned = plan_recipe(recipe_of(TEXT), [TARGETS["sm_90"]])
    (segment,) = planned.plan.targets[0].segments
    (variant,) = (each for each in segment.variants if each.name == way)
    return planned.kernels["sm_90"][variant.launches[0].kernel].source


@pytest.mark.parametrize("way", ["vec8_int32", "realigned_vec8_int32", "scalar_int64"])
def test_a_rows_mask_is_loaded_before_the_first_row_is_taken(way: str) -> None:
    loads, takes = source(way).split("fb::Vec<__nv_bfloat16, kVec> v0 =")
    assert "bool c1[kUnroll];" in loads
    assert "const bool t1 = c1[u];" in takes
    assert "T1[" not in takes


@pytest.mark.parametrize("sizes", [(1, 1, 8), (2, 67, 64), (3, 300, 24), (3, 29, 37), (1, 2500, 72)])
def test_masked_sums_are_right_by_every_kernel(tmp_path: Path, sizes: tuple[int, int, int]) -> None:
    plan = load(compile_for_host(tmp_path, {"masked": TEXT}) / "masked.fuse", target="host")
    batches, rows, _ = sizes
    x, mask = torch.randn(sizes).bfloat16(), torch.rand(batches, rows) < 0.5
    wanted = (x.double() * mask.unsqueeze(2)).sum(1)
    for index in plan.variants_for(x, mask)[0]:
        torch.testing.assert_close(plan(x, mask, variant=index).double(), wanted, rtol=1e-5, atol=1e-4)
