"""Columns of few rows: what a call of some sizes takes, and in how many launches."""

from __future__ import annotations

import pytest

from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.reduction import FAMILY
from fusebuild.target.table import TARGETS
from support.small_recipes import whole

SUM = whole({"x": "bfloat16[M, N]"}, "y = sum(x, dims=[0])", {"y": "float"})


def taken(rows: int, columns: int) -> tuple[VariantSpec, dict[str, int]]:
    """The variant that tensors take which begin aligned, and the sizes of the call."""
    sizes = {"M": rows, "N": columns, MULTIPROCESSORS: 132}
    found = FAMILY.schedule(SUM, TARGETS["sm_90"], sizes)
    return next(
        each for each in found if all(evaluate(test, sizes, lambda fid, size: True) for test in each.guard)
    ), sizes


@pytest.mark.parametrize(
    ("rows", "columns", "is_small"), [(5, 69779, True), (16, 65536, True), (16, 65537, False), (17, 60001, False)]
)
def test_threads_have_single_columns_whose_rows_they_load_at_once(rows: int, columns: int, is_small: bool) -> None:
    variant, _ = taken(rows, columns)
    assert (variant.name == "small_scalar_int64") == is_small


@pytest.mark.parametrize(
    ("rows", "columns", "is_shared"),
    [(111, 38405, False), (128, 2432, False), (384, 8000, False), (385, 20001, True), (600, 20001, True)],
)
def test_one_kernel_takes_lines_of_columns_in_few_turns(rows: int, columns: int, is_shared: bool) -> None:
    variant, sizes = taken(rows, columns)
    blocks, splits, _ = (evaluate(each, sizes) for each in variant.launches[0].grid)
    assert (splits > 1) == is_shared
    assert is_shared or blocks <= 4 * 132


@pytest.mark.parametrize(
    ("rows", "columns", "beside"),
    [
        (1, 100, 256),
        (4, 9000, 256),  # a thread reads a few rows before others share them
        (8, 9000, 128),
        (16, 9000, 64),
        (25, 3099, 32),
        (128, 2000, 32),  # and a block all of them at once
        (129, 2000, 16),
        (1024, 200, 4),
        (6, 67392, 256),  # columns that fill the GPU without
        (15, 17000, 64),
    ],
)
def test_a_power_of_two_of_few_columns_lie_side_by_side(rows: int, columns: int, beside: int) -> None:
    variant, sizes = taken(rows, columns)
    assert variant.name == "small_scalar_int64"
    blocks, splits, _ = (evaluate(each, sizes) for each in variant.launches[0].grid)
    assert (blocks, splits) == (-(-columns // beside), 1)


@pytest.mark.parametrize(("results", "is_folded"), [(1, True), (5, True), (6, False)])
def test_rows_are_folded_where_their_partial_results_have_room(results: int, is_folded: bool) -> None:
    inputs = {f"x{number}": "bfloat16[M, N]" for number in range(results)}
    body = "\n".join(f"y{number} = sum(x{number}, dims=[0])" for number in range(results))
    task = whole(inputs, body, {f"y{number}": "float" for number in range(results)})
    found = FAMILY.schedule(task, TARGETS["sm_90"], {"M": 2**20, "N": 7})
    assert any(each.name == "folded_vec8_int32" for each in found) == is_folded
