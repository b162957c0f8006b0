"""Rows of the device header of any length, of which a thread has the same columns in each."""

from __future__ import annotations

import pytest
import torch

from support.device_harness import DTYPES, library, sample

DTYPE_NAMES = ("bool", "half", "bfloat16", "float", "int32", "int64", "double")


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 9, 15, 17, 33, 255, 256, 257, 300, 1025])
@pytest.mark.parametrize("dtype", DTYPE_NAMES)
def test_rows_are_copied_and_nothing_else(dtype: str, columns: int) -> None:
    for rows in (1, 2, 5, 9):
        x = sample(DTYPES[dtype], rows * columns)
        out = torch.zeros_like(x)
        library("realigned").run(f"copy_{dtype}", (rows,), (64,), x, out, rows, columns)
        assert torch.equal(out, x)


@pytest.mark.parametrize("columns", [0, 1, 7, 8, 9, 31, 40])
def test_columns_that_a_row_has(columns: int) -> None:
    out = torch.zeros(32, dtype=torch.int64)
    library("realigned").run("insides", (1,), (32,), out, columns)
    assert out.tolist() == [sum(1 << k for k in range(8) if col + k < columns) for col in range(32)]
