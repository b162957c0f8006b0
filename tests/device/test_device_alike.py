"""How the device header shares out rows that begin alike, what it copies of them, and how warps store them.

``test_device_header.py`` runs this file again under AddressSanitizer and UBSan, and on a GPU.
"""

from __future__ import annotations

from itertools import pairwise
from math import gcd

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from fusebuild.ir.formula import evaluate
from fusebuild.kernels.inner_outer.alike import kinds_of, of_few_kinds, of_one_kind, parts_of
from support.device_harness import DTYPES, library, sample

VECTOR = 8
WIDTHS = {"bool": 8, "half": 8, "bfloat16": 8, "float": 8, "int32": 4, "int64": 8, "double": 2}
"""Elements of a vector of tests/device/alike.cu, by dtype."""


def shared_out(rows: int, columns: int, walkers: int) -> tuple[list[int], list[list[int]]]:
    """The first part of each walker and of one more; first, last, shift and step of each part."""
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
    """Of which each walker leaves one where walkers are a multiple of the kinds."""
    kinds = VECTOR // gcd(VECTOR, columns) if rows > walkers else 1
    is_even = walkers % kinds == 0
    firsts, parts = shared_out(rows, columns, walkers)
    assert (firsts[0], firsts[-1]) == (0, walkers if is_even else walkers + kinds - 1)
    assert all(before < after for before, after in pairwise(firsts))
    assert all(first == -1 for first, *_ in parts[firsts[-1] :])
    step = walkers if is_even else kinds
    found = [[*range(first, last, step)] for first, last, _, _ in parts[: firsts[-1]]]
    assert sorted(row for own in found for row in own) == [*range(rows)]
    for own, (_, _, shift, told) in zip(found, parts, strict=False):
        assert told == step
        assert {row * columns % VECTOR for row in own} <= {shift}
    of_walkers = [[own for own in found[begin:end] if own] for begin, end in pairwise(firsts)]
    counts = [sum(map(len, each)) for each in of_walkers]
    assert max(counts) <= -(-(rows + (0 if is_even else kinds - 1)) // walkers)


@given(clusters=st.integers(1, 150), rows=st.integers(0, 400))
@example(clusters=30, rows=425)
@example(clusters=66, rows=200)
@example(clusters=66, rows=66)
def test_clusters_are_a_multiple_of_all_kinds_where_none_has_more_to_do(clusters: int, rows: int) -> None:
    found, even = evaluate(of_few_kinds("C", VECTOR, "M"), {"C": clusters, "M": rows}), clusters - clusters % VECTOR
    are_as_fast = rows > clusters and even > 0 and -(-rows // even) <= -(-(rows + VECTOR - 1) // clusters)
    assert found == (even if are_as_fast else clusters)


@given(walkers=st.integers(1, 150), columns=st.integers(1, 40), rows=st.integers(0, 400))
def test_the_parts_that_the_plan_counts_are_those_of_the_kernel(walkers: int, columns: int, rows: int) -> None:
    firsts, _ = shared_out(rows, columns, walkers)
    assert evaluate(parts_of("C", "N", VECTOR, ("gt", "M", "C")), {"C": walkers, "N": columns, "M": rows}) == firsts[-1]


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


@settings(max_examples=60, deadline=None)
@given(columns=st.integers(0, 505), shift=st.integers(0, VECTOR - 1), offset=st.integers(0, 3))
@example(columns=505, shift=7, offset=1)
@example(columns=1, shift=7, offset=3)
def test_warps_store_every_column_and_nothing_beside_the_row(columns: int, shift: int, offset: int) -> None:
    row, out = torch.rand(columns), torch.full((600,), -2.0)
    library("alike").run("store_row", (1,), (64,), out[offset:], row, columns, shift)
    assert torch.equal(out[offset : offset + columns], row)
    assert (out[:offset] == -2.0).all()
    assert (out[offset + columns :] == -2.0).all()


@given(columns=st.integers(1, 10_000), vec=st.sampled_from([1, 2, 4, 8]))
def test_the_kinds_that_the_plan_counts_are_those_of_the_kernel(columns: int, vec: int) -> None:
    assert evaluate(kinds_of("N", vec), {"N": columns}) == vec // gcd(vec, columns)


@given(blocks=st.integers(1, 2000), vec=st.sampled_from([1, 2, 4, 8]), rows=st.integers(0, 5000))
@example(blocks=17, vec=8, rows=65)
@example(blocks=17, vec=8, rows=33)
def test_blocks_with_several_rows_are_a_multiple_of_all_kinds_unless_they_are_fewer(
    blocks: int, vec: int, rows: int
) -> None:
    found = evaluate(of_one_kind("B", vec, "M"), {"B": blocks, "M": rows})
    assert found == (blocks if blocks < vec or rows < 2 * blocks else blocks - blocks % vec)
