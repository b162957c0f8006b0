"""Which tile of a matrix a block has, and where the columns of a tile lie in shared memory.

``test_device_header.py`` runs this file again under AddressSanitizer and UBSan, and on a GPU.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.device_harness import library

BAND = 8
"""Rows of tiles that are walked together."""


@settings(max_examples=40, deadline=None)
@given(rows=st.integers(1, 40), columns=st.integers(1, 40))
@example(rows=8, columns=1)
@example(rows=9, columns=3)
@example(rows=1, columns=40)
def test_bands_of_rows_follow_each_other_and_in_each_its_columns(rows: int, columns: int) -> None:
    out = torch.full((rows * columns, 2), -1)
    library("tile").run("tile_places", (rows * columns,), (32,), out, rows, columns)
    bands = [range(first, min(first + BAND, rows)) for first in range(0, rows, BAND)]
    assert out.tolist() == [[row, column] for band in bands for column in range(columns) for row in band]


@pytest.mark.parametrize("bits", [1, 2, 3, 7])
def test_vectors_of_columns_lie_apart_and_neighbouring_threads_read_other_banks(bits: int) -> None:
    pitch = (8 << bits) + 8
    out = torch.full((256,), -1)
    library("tile").run("column_places", (1,), (256,), out, pitch)
    places = out.tolist()
    assert all(after - before >= pitch and after % 8 == 0 for before, after in pairwise(places))
    banks = [place // 2 % 32 for place in places[:64:8]]  # threads take every eighth column, two elements a bank
    assert len({*banks}) == 8
