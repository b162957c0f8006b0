"""Tensors of more than 2**31 elements: which variants take them, and that no product of theirs is made in 32 bits.

``test_large_gpu.py`` runs some.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from fusebuild.artifact.plan import Variant, as_formula
from fusebuild.ir.formula import evaluate
from fusebuild.pipeline import plan_recipe
from fusebuild.planning.planned import PlannedRecipe
from fusebuild.target.table import TARGETS
from support.places import FUSIONS, RECIPES, ROOT
from support.sampled import sampled
from support.small_recipes import planned_file, recipe_of, text_of

SM_90 = TARGETS["sm_90"]
WIDE = "using Index = int64_t;"
BEYOND = 2**31 + 2**16


def planned_of(name: str) -> PlannedRecipe:
    return planned_file(ROOT / "recipes" / f"{name}.yaml")


def taken(variants: tuple[Variant, ...], sizes: Mapping[str, int]) -> Variant:
    """The variant that aligned tensors of ``sizes`` take."""
    for variant in variants:
        guards = [as_formula(guard) for guard in variant.guard]
        if all(guard[0] == "aligned" or evaluate(guard, sizes) for guard in guards if isinstance(guard, tuple)):
            return variant
    raise AssertionError("no variant is unguarded")


@pytest.mark.parametrize(
    ("name", "small", "large"),
    [
        ("silu_mul", {"M": 8, "N": 2**16}, {"M": 2**15 + 1, "N": 2**16}),
        ("scale_bias_relu", {"M": 8, "N": 2**16}, {"M": 2**15 + 1, "N": 2**16}),
        ("transpose_add", {"M": 8, "N": 2**16}, {"M": 2**16, "N": 2**15 + 8}),
        ("column_sum", {"M": 2**12, "N": 2**9}, {"M": 2**22 + 1, "N": 2**9}),
        ("sum_squares", {"M": 2**10, "N": 2**10}, {"M": 2**15 + 1, "N": 2**16}),
    ],
)
def test_elements_beyond_32_bits_are_counted_in_64(name: str, small: dict[str, int], large: dict[str, int]) -> None:
    planned = planned_of(name)
    (segment,) = planned.plan.targets[0].segments
    for sizes, is_wide in ((small, False), (large, True)):
        launch = taken(segment.variants, sizes).launches[0]
        assert (WIDE in planned.kernels["sm_90"][launch.kernel].text) is is_wide


@pytest.mark.parametrize("name", ["softmax", "layernorm", "rmsnorm", "add_rmsnorm"])
def test_rows_are_counted_in_64_bits_whatever_counts_columns(name: str) -> None:
    """A row has few columns, so that their index stays in 32 bits though the tensor has more elements."""
    planned = planned_of(name)
    (segment,) = planned.plan.targets[0].segments
    (launch,) = taken(segment.variants, {"M": 2**19 + 8, "N": 4104}).launches
    text = planned.kernels["sm_90"][launch.kernel].text
    assert "using Index = int32_t;" in text
    assert re.search(r"const int64_t row = ", text)
    assert not re.search(r"const (int|Index) (row|wanted) = ", text)
    longest = taken(segment.variants, {"M": 1, "N": BEYOND})
    assert all(WIDE in planned.kernels["sm_90"][launch.kernel].text for launch in longest.launches)


def test_a_literal_stride_is_multiplied_in_64_bits() -> None:
    """Images of 256 * 3136 numbers each: 2,700 of them are beyond 32 bits, their sums' columns are not."""
    text = text_of({"x": "bfloat16[M, 256, 3136]"}, "v, m = var_mean(x, dims=[0, 2], correction=0)",
                   {"v": "float", "m": "float"}, cases="M: 8")  # fmt: skip
    planned = plan_recipe(recipe_of(text), [SM_90])
    texts = [kernel.text for kernel in planned.kernels["sm_90"].values() if "x: bfloat16" in kernel.text]
    assert texts
    for kernel in texts:
        assert re.search(r"i\d+ \* int64_t\(802816\)", kernel)


@pytest.mark.parametrize("path", sampled([*RECIPES, *FUSIONS], 8), ids=lambda path: path.stem)
def test_no_split_or_coordinate_meets_a_number_in_32_bits(path: Path) -> None:
    """Where a number stands first in a product of sizes, ``int * 2 * n1`` would be made from the left, in 32 bits."""
    planned = planned_file(path)
    for kernel in planned.kernels["sm_90"].values():
        code = re.sub(r"//.*", "", kernel.text)
        assert not re.search(r"\b(split|group|lane|col|i\d+) \* \d+ \* n\d", code)
        assert not re.search(r"\b(split|group) \* \d{2,}\b", code)
