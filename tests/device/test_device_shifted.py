"""Vectors of the device header that lie where memory is aligned, in tensors of just their size."""

from __future__ import annotations

import pytest
import torch

from support.device_harness import DTYPES, library, sample

WIDTHS = {"bool": 8, "half": 8, "bfloat16": 8, "float": 8, "int32": 4, "int64": 8, "double": 2}
"""Elements of a vector of tests/device/shifted.cu, by dtype."""


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 9, 17, 33])
@pytest.mark.parametrize("dtype", WIDTHS)
def test_rows_of_any_length_are_copied_and_nothing_else(dtype: str, columns: int) -> None:
    for rows in (1, 2, 5, 33):
        x = sample(DTYPES[dtype], rows * columns)
        out = torch.zeros_like(x)
        library("shifted").run(f"copy_row_{dtype}", (-(-rows // 32),), (32,), x, out, rows, columns)
        assert torch.equal(out, x)


@pytest.mark.parametrize("name", ["copy_all", "copy_each"])
@pytest.mark.parametrize("dtype", WIDTHS)
def test_of_the_last_vector_what_there_is_is_copied(dtype: str, name: str) -> None:
    for count in range(1, 3 * WIDTHS[dtype] + 1):
        x = sample(DTYPES[dtype], count)
        out = torch.zeros_like(x)
        library("shifted").run(f"{name}_{dtype}", (1,), (32,), x, out, count)
        assert torch.equal(out, x)


@pytest.mark.parametrize("misaligned", [0, 1, 3])
@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9, 31, 100])
@pytest.mark.parametrize("dtype", WIDTHS)
def test_windows_of_a_row_begin_anywhere(dtype: str, columns: int, misaligned: int) -> None:
    width = WIDTHS[dtype]
    row = sample(DTYPES[dtype], columns + misaligned)[misaligned:]
    places = columns + width - 1
    beside = torch.zeros(places, width, dtype=row.dtype)
    around = torch.zeros(columns, width, dtype=row.dtype)
    library("shifted").run(f"windows_{dtype}", (-(-places // 32),), (32,), row, beside, around, columns)
    first = torch.arange(places)[:, None] - (width - 1) + torch.arange(width)
    assert torch.equal(beside, row[first.clamp(0, columns - 1)])
    assert torch.equal(around, row[(torch.arange(columns)[:, None] + torch.arange(width)) % columns])


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 31, 64, 100])
@pytest.mark.parametrize("dtype", WIDTHS)
def test_what_a_tensor_lacks_around_a_place_is_zero(dtype: str, count: int) -> None:
    width = WIDTHS[dtype]
    places = count + 6 * width
    x = sample(DTYPES[dtype], count)
    narrow, wide = (torch.ones(places, width, dtype=x.dtype) for _ in range(2))
    library("shifted").run(f"near_{dtype}", (-(-places // 32),), (32,), x, narrow, wide, count, places)
    padded = torch.cat([x.new_zeros(3 * width), x, x.new_zeros(4 * width)])
    expected = padded[torch.arange(places)[:, None] + torch.arange(width)]
    assert torch.equal(narrow, expected)
    assert torch.equal(wide, expected)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("dtype", WIDTHS)
def test_runs_of_equal_elements_begin_again(dtype: str, count: int) -> None:
    width = WIDTHS[dtype]
    x = sample(DTYPES[dtype], count)
    for run in (1, 2, 3, width - 1, width, width + 1, 43):
        places = 3 * count * run
        out = torch.zeros(places, width, dtype=x.dtype)
        library("shifted").run(f"runs_{dtype}", (-(-places // 32),), (32,), x, out, count, run, places)
        assert torch.equal(out, x[(torch.arange(places)[:, None] + torch.arange(width)) // run % count])


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 9, 17, 33, 300])
@pytest.mark.parametrize("dtype", WIDTHS)
def test_vectors_and_edges_are_a_whole_row_and_nothing_else(dtype: str, columns: int) -> None:
    for first in range(2 * WIDTHS[dtype]):
        x = sample(DTYPES[dtype], first + columns)
        out = torch.zeros_like(x)
        library("shifted").run(f"copy_edges_{dtype}", (-(-columns // 32),), (32,), x, out, first, columns)
        assert torch.equal(out[first:], x[first:])
        assert not out[:first].any()


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 300])
@pytest.mark.parametrize("dtype", WIDTHS)
def test_what_begins_aligned_is_cut_for_a_row_that_begins_anywhere(dtype: str, columns: int) -> None:
    for first in range(2 * WIDTHS[dtype]):
        row = sample(DTYPES[dtype], columns)
        out = torch.zeros(first + columns, dtype=row.dtype)
        library("shifted").run(f"cut_edges_{dtype}", (-(-columns // 32),), (32,), row, out, first, columns)
        assert torch.equal(out[first:], row)
        assert not out[:first].any()


@pytest.mark.parametrize("columns", [1, 7, 8, 15, 16, 17, 23, 24, 25, 33, 300])
@pytest.mark.parametrize("dtype", WIDTHS)
def test_what_begins_anywhere_is_cut_for_a_row_that_does_too(dtype: str, columns: int) -> None:
    """Of a tensor that ends with the row, nothing is read beyond it."""
    for own in range(2 * WIDTHS[dtype]):
        tensor = sample(DTYPES[dtype], own + columns)
        for first in range(WIDTHS[dtype]):
            out = torch.zeros(first + columns, dtype=tensor.dtype)
            blocks = (-(-columns // 32),)
            library("shifted").run(f"cut_anywhere_{dtype}", blocks, (32,), tensor, out, own, first, columns)
            assert torch.equal(out[first:], tensor[own:])
            assert not out[:first].any()
