"""Short rows that a block has in shared memory, side by side as in global memory, and how many of them."""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.formula import Formula, product, total

TILE_BYTES = 16 * 1024
"""What a block has of short rows in shared memory."""
TILE_TURNS, MOST_TURNS = 4, 8
"""Rows that each of its threads takes one after another, at most: enough to read while others combine. Of narrow rows
it takes more: a block has so little to do with one that to begin is most of it."""
TILE_BATCH = 4
"""Elements of such a row that a thread takes at a time."""
NARROW = 7
"""Elements of the longest row that a thread takes as a whole, in straight lines for each length: to find out which
elements of a batch are the row's would be most of its work."""
LONGEST_TILED = 256
"""Elements of the longest of such rows, where each has one of
:data:`fusebuild.kernels.reduction.row_threads.TILE_PLACES`: in longer ones vectors have little beside the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Short rows that a block has in shared memory, side by side as in global memory: so many ``elements`` of each
    tensor, of so many ``rows`` at most. Threads take a ``batch`` of neighbouring elements at a time, and rows of up to
    ``narrow`` ones as a whole, in a batch of ``least`` elements or more."""

    elements: int
    rows: int
    batch: int
    narrow: int
    least: int


def rows_of_thread(rows: Formula, columns: Formula, places: int, at_a_time: Formula) -> Formula:
    """How many of ``rows`` of so many ``columns`` a thread takes one after another, where it has so many ``places`` and
    so many threads run ``at_a_time``. Where blocks do not all run at a time, they are some times as many as do, or the
    last ones would leave most multiprocessors idle."""
    turns = total([TILE_TURNS, product([MOST_TURNS - TILE_TURNS, ("le", columns, NARROW)])])
    most: Formula = ("max", 1, ("min", turns, ("floor_div", places, ("max", 1, columns))))
    times: Formula = ("max", 1, ("ceil_div", rows, product([at_a_time, most])))
    even: Formula = ("ceil_div", rows, product([at_a_time, times]))
    return ("max", 1, ("min", most, ("floor_div", rows, at_a_time), even))
