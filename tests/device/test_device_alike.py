"""How the device header shares out rows that begin alike, and what it copies of them.

``test_device_header.py`` runs this file again under AddressSanitizer and UBSan, and on a GPU.
"""

from __future__ import annotations

from itertools import pairwise
from math import gcd

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.device_harness import DTYPES, library, sample

VECTOR = 8
WIDTHS = {"bool": 8, "half": 8, "bfloat16": 8, "float": 8, "int32": 4, "int64": 8, "double": 2}
"""Elements of a vector of tests/device/alike.cu, by dtype."""


def shared_out(rows: int, columns: int, walkers: int) -> tuple[list[int], list[list[int]]]:
    """The first part of each walker and of one more; first, last, shift and kinds of each part."""
    firsts, parts = torch.full((walkers + 1,), -1), torch.full((walkers + VECTOR, 4), -1)
    library("alike").run("share_out", (walkers // 32 + 1,), (32,), firsts, parts, rows, columns, walkers)
    return firsts.tolist(), parts.tolist()


@settings(max_examples=300, deadline=None)
@given(rows=st.integers(0, 400), columns=st.integers(1, 40), walkers=st.integers(1, 150))
@example(rows=0, columns=257, walkers=9)
@example(rows=1, columns=257, walkers=1)
@example(rows=5, columns=257, walkers=132)
@example(rows=2347, columns=2931, walkers=264)
@example(rows=75, columns=33815, walkers=15)
@example(rows=9, columns=64, walkers=4)
def test_each_row_is_in_one_part_of_those_that_begin_alike(rows: int, columns: int, walkers: int) -> None:
    kinds = VECTOR // gcd(VECTOR, columns)
    firsts, parts = shared_out(rows, columns, walkers)
    assert (firsts[0], firsts[-1]) == (0, walkers + kinds - 1)
    assert all(before < after for before, after in pairwise(firsts))
    assert all(first == -1 for first, *_ in parts[firsts[-1] :])
    found = [[*range(first, last, kinds)] for first, last, _, _ in parts[: firsts[-1]]]
    assert sorted(row for own in found for row in own) == [*range(rows)]
    for own, (_, _, shift, told) in zip(found, parts, strict=False):
        assert told == kinds
        assert {row * columns % VECTOR for row in own} <= {shift}
    counts = [sum(len(own) for own in found[begin:end]) for begin, end in pairwise(firsts)]
    assert max(counts) - min(counts) <= 1
    if walkers % kinds == 0:
        assert all(sum(1 for own in found[begin:end] if own) <= 1 for begin, end in pairwise(firsts))


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 9, 17, 33])
@pytest.mark.parametrize("dtype", list(WIDTHS))
def test_what_lies_beyond_the_tensor_is_zero_and_not_read(dtype: str, columns: int) -> None:
    for rows in (1, 2, 5, 33):
        x = sample(DTYPES[dtype], rows * columns)
        out, beyond = torch.zeros_like(x), torch.zeros(rows, dtype=torch.int64)
        arguments = (x, out, beyond, rows, columns)
        library("alike").run(f"copy_row_{dtype}", (-(-rows // 32),), (32,), *arguments, shared_bytes=32 * 64)
        assert torch.equal(out, x)
        assert not beyond.any()
