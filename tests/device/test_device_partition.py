"""How the device header shares rows of several outer indices out to blocks.

``test_device_header.py`` runs this file again under AddressSanitizer and UBSan, and on a GPU.
"""

from __future__ import annotations

from itertools import pairwise
from math import gcd

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.device_harness import library


def begins(outers: int, depth: int, blocks: int, kernel: str = "begins") -> list[int]:
    out = torch.full((blocks + 1,), -1)
    library("partition").run(kernel, (blocks // 128 + 1,), (128,), out, outers, depth, blocks)
    return [int(place) for place in out]


def first_blocks(outers: int, depth: int, blocks: int) -> tuple[list[int], int]:
    out, parts = torch.full((outers,), -1), torch.full((1,), -1)
    library("partition").run("first_blocks", (outers // 128 + 1,), (128,), out, parts, outers, depth, blocks)
    return [int(block) for block in out], int(parts)


@settings(max_examples=150, deadline=None)
@given(outers=st.integers(1, 300), depth=st.integers(0, 500), blocks=st.integers(1, 700))
@example(outers=56, depth=1024, blocks=528)
@example(outers=1, depth=0, blocks=9)
@example(outers=4, depth=2, blocks=8)
def test_every_place_has_one_block_and_blocks_have_as_many(outers: int, depth: int, blocks: int) -> None:
    """Or the longest of them has as many more as make parts even, which cost as much as eight places each index, or no
    more than it would have otherwise."""
    places, found = max(depth, 1), begins(outers, depth, blocks)
    assert (found[0], found[-1]) == (0, outers * places)
    sizes = [end - begin for begin, end in pairwise(found)]
    assert min(sizes) >= 0
    is_short = max(sizes) * blocks <= outers * (places + 8) or max(sizes) == -(-outers * places // blocks)
    assert max(sizes) - min(sizes) <= 1 or is_short
    firsts, most = first_blocks(outers, depth, blocks)
    for outer, first in enumerate(firsts):
        place = outer * places
        assert found[first] <= place < found[first + 1]
        last = max(block for block in range(first, blocks) if found[block] < place + places)
        assert last - first + 1 <= most


@pytest.mark.parametrize(
    ("outers", "depth", "blocks", "parts"),
    [
        (45, 1, 15, 1), (217, 19, 264, 1), (100, 64, 99, 2), (15, 64, 132, 8), (56, 1024, 528, 11), (16, 1000, 132, 10),
        (3, 5, 132, 5), (1, 4096, 132, 132), (64, 4096, 132, 4), (1001, 3, 132, 1), (5, 512, 132, 26),
    ],
)  # fmt: skip
def test_parts_are_even_where_that_makes_no_share_much_longer(outers: int, depth: int, blocks: int, parts: int) -> None:
    """Where they are, each index has as many parts as any: nobody says of one that it has no rows."""
    firsts, most = first_blocks(outers, depth, blocks)
    assert most == parts
    ends = begins(outers, depth, blocks)[1:]
    own = {
        sum(ends[first + n] < (outer + 1) * depth for n in range(most - 1)) + 1 for outer, first in enumerate(firsts)
    }
    assert (own == {most}) == (parts != blocks // outers + 2)


@given(outers=st.integers(0, 3000), depth=st.integers(0, 3000), blocks=st.integers(1, 1056))
@example(outers=2**20, depth=2**11 - 1, blocks=1056)
@example(outers=2**31 - 2**20, depth=1, blocks=1056)
@example(outers=3, depth=2**29, blocks=1056)
def test_shares_are_the_same_in_32_bits(outers: int, depth: int, blocks: int) -> None:
    assert begins(outers, depth, blocks, "short_begins") == begins(outers, depth, blocks)


def test_no_outer_index_has_no_parts() -> None:
    assert first_blocks(0, 7, 528) == ([], 0)


def test_places_beyond_32_bits() -> None:
    blocks = 1056
    assert begins(2**20, 2**20, blocks)[-1] == 2**40
    assert first_blocks(2**17, 2**30, blocks)[0][-1] == blocks - 1


@settings(max_examples=150, deadline=None)
@given(outers=st.integers(0, 300), depth=st.integers(0, 50), blocks=st.integers(1, 700))
@example(outers=0, depth=3, blocks=5)
@example(outers=7, depth=0, blocks=9)
@example(outers=45, depth=1, blocks=15)
def test_blocks_with_whole_indices_have_as_many_each(outers: int, depth: int, blocks: int) -> None:
    """Those that there are indices for come first, and each has one at least."""
    out = torch.full((blocks + 3,), -1)
    library("partition").run("whole_begins", (blocks // 128 + 1,), (128,), out, outers, depth, blocks)
    *begins, used, parts = (int(each) for each in out)
    places = max(depth, 1)
    assert (used, parts) == (max(1, min(blocks, outers)), 1)
    assert all(begin % places == 0 for begin in begins)
    indices = [(end - begin) // places for begin, end in pairwise(begins)]
    assert sum(indices) == outers
    assert all(index == 0 for index in indices[used:])
    assert not outers or 1 <= min(indices[:used]) <= max(indices[:used]) <= min(indices[:used]) + 1


def walked(columns: int, rows: int, run: int, walkers: int) -> list[list[int]]:
    """The rows of each walker, ``run`` of which follow each other in a sample."""
    sharing = min(walkers, rows)
    out, counts = torch.full((sharing, rows), -1), torch.full((sharing,), -1)
    library("partition").run("walked", (1,), (128,), out, counts, columns, rows, run, walkers)
    return [[int(row) for row in own[:count]] for own, count in zip(out, counts, strict=True)]


@settings(max_examples=150, deadline=None)
@given(columns=st.integers(1, 40), rows=st.integers(1, 300), walkers=st.integers(1, 90))
@example(columns=8, rows=5, walkers=9)
@example(columns=3, rows=7, walkers=1)
@example(columns=4, rows=90, walkers=90)
def test_walkers_share_all_rows_those_that_begin_alike_after_each_other(columns: int, rows: int, walkers: int) -> None:
    found = walked(columns, rows, 32, walkers)
    assert max(map(len, found)) - min(map(len, found)) <= 1
    period = 8 // gcd(8, columns)
    assert [row for own in found for row in own] == sorted(range(rows), key=lambda row: (row % period, row))


@settings(max_examples=150, deadline=None)
@given(columns=st.integers(1, 40), rows=st.integers(1, 300), run=st.integers(1, 15), walkers=st.integers(1, 128))
@example(columns=3, rows=300, run=5, walkers=90)
@example(columns=3, rows=300, run=5, walkers=30)
@example(columns=3, rows=7, run=1, walkers=9)
def test_walkers_have_neighbouring_rows_at_a_time_where_samples_have_few(
    columns: int, rows: int, run: int, walkers: int
) -> None:
    """Each has rows of one place of a vector, where few walkers are left over by that."""
    found, sharing, period = walked(columns, rows, run, walkers), min(walkers, rows), 8 // gcd(8, columns)
    assert sorted(row for own in found for row in own) == [*range(rows)]
    working = sharing // period * period
    if run >= 2 * period or period == 1 or 16 * (sharing - working) >= sharing:
        return
    assert found == [[*range(first, rows, working)] for first in range(working)] + [[]] * (sharing - working)
