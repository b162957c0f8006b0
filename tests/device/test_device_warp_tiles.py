"""How the device header shares short rows out to warps.

``test_device_header.py`` runs this file again under AddressSanitizer and UBSan, and on a GPU.
"""

from __future__ import annotations

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.device_harness import library

HELD, WARP = 8, 32


@settings(max_examples=150, deadline=None)
@given(
    outers=st.integers(1, 60),
    depth=st.integers(1, 200),
    columns=st.integers(1, 256),
    parts=st.integers(1, 5),
    warps=st.integers(1, 40),
    room=st.integers(256, 2048),
)
@example(outers=1, depth=12000, columns=7, parts=40, warps=40, room=1024)
@example(outers=60, depth=1, columns=1, parts=1, warps=3, room=300)
def test_every_row_is_in_one_tile_of_whole_turns_that_fit(
    outers: int, depth: int, columns: int, parts: int, warps: int, room: int
) -> None:
    most_rows = room // columns if columns * WARP > HELD * WARP else max(WARP, room // columns)
    most_rows = max(most_rows, WARP * HELD // columns)
    owners, times = (torch.full((outers * depth,), start, dtype=torch.int32) for start in (-1, 0))
    layout = torch.zeros(5, dtype=torch.int32)
    sizes = (outers, depth, columns, parts, warps, most_rows)
    library("warp_tiles").run("shares", (1,), (128,), owners, times, layout, *sizes)
    assert times.tolist() == [1] * (outers * depth)
    piece_outers, tiles, tile_rows, row_shift, team_shift = layout.tolist()
    assert HELD << row_shift >= columns
    assert row_shift == 0 or HELD << (row_shift - 1) < columns
    assert row_shift + team_shift <= 5
    assert tile_rows <= most_rows
    if piece_outers > 1:
        assert (tiles, tile_rows) == (1, piece_outers * depth)
    else:
        assert tiles * tile_rows * parts >= depth
    if parts == 1:
        firsts = owners.view(outers, depth)
        assert all(len({*row.tolist()}) == 1 for row in firsts)


@given(depth=st.integers(1, 500), warps=st.integers(1, 40), tiles=st.integers(1, 4))
@example(depth=2**14, warps=40, tiles=3)
@example(depth=1, warps=40, tiles=1)
def test_every_row_of_one_index_is_in_one_of_the_tiles_that_are_told(depth: int, warps: int, tiles: int) -> None:
    owners, times = (torch.full((depth,), start, dtype=torch.int32) for start in (-1, 0))
    tile_rows = -(-depth // (warps * tiles))
    library("warp_tiles").run("told", (1,), (128,), owners, times, depth, warps, tiles, tile_rows)
    assert times.tolist() == [1] * depth
    assert owners.tolist() == [row // tile_rows % warps for row in range(depth)]
