"""How many threads share a row of an inner reduction: ladders over its length, evaluated at the call."""

from __future__ import annotations

from collections.abc import Sequence

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, simplified, total
from fusebuild.kernels.reduction.together import BLOCKS, MOST_ELEMENTS

LADDER = (3, 8, 16, 64, 128, 256, 512)
"""Vectors of a row above which two threads share it, four, eight and so on. Up to 32 need no barrier to meet. Those of
short rows have few vectors, so that those of a warp read what lies side by side; those of long rows have about eight,
since to combine their results takes time."""
FEW_ELEMENTS, TIMES_OF_FEW = 2048, 4
"""Elements for each multiprocessor up to which a row has the threads of one that is so many times as long: all vectors
are on their way at once, so that the time is what a thread does with its own, one after another. (H100: welford
of 25 rows of 2781 elements 3.7 -> 3.4 us; of twice as many elements for each, argmax of 1536 x 320 3.2 -> 3.4.)"""
LEAST_ALONE = 1024
"""Rows of one vector for each multiprocessor below which each has a thread that has no other: all run at a time."""
TILE_PLACES, TILE_LADDER = 64, (16, 32, 64, 128)
"""Elements of a row in shared memory above which two threads share it, four and so on, where each has so many places;
where rows are many, as many as there are places for."""
LONGER_OF_MANY = (16, 64, 128)
MANY_ROWS = 16384
"""Rungs that are twice as long for so many rows: to combine what threads have of a row costs the more the more there
are. (On an H100, argmax of 92375 rows of 723 columns: 0.74 of a copy's bandwidth with 16 threads, 0.85 with 8; welford
of 105651 rows of 745: 0.85 and 0.91.)"""
MOST_CLUSTERS, TURNS_OF_BLOCK, TURNS_OF_CLUSTER = 64, 2, 2
"""Rows that have a cluster each, at most, the turns that one block would take, at least, and those of a cluster, at
most: with more rows or turns it takes longer than blocks that leave partial results, with less than one block."""


def are_for_clusters(rows: Formula, columns: Formula, turn: int, longest_of_several: int) -> Formula:
    """Whether clusters shall have ``rows`` of so many ``columns``, of which a block reads so many in a ``turn``: blocks
    that share a row have no other one, so it is longer than those of which one has several."""
    is_long: Formula = ("gt", columns, max(TURNS_OF_BLOCK * turn, longest_of_several))
    is_short: Formula = ("le", columns, BLOCKS * TURNS_OF_CLUSTER * turn)
    few: Formula = ("le", product([rows, columns]), MOST_ELEMENTS)
    return product([("le", rows, MOST_CLUSTERS), is_long, is_short, few])


def scaled_to_few(rows: Formula, columns: Formula) -> Formula:
    """The elements that decide how many threads share a row of ``columns`` by vectors: more where all ``rows`` together
    have few."""
    are_few: Formula = ("le", product([rows, columns]), product([FEW_ELEMENTS, MULTIPROCESSORS]))
    return product([columns, total([1, product([TIMES_OF_FEW - 1, are_few])])])


def per_row(columns: Formula, rungs: Sequence[Formula]) -> Formula:
    """The threads that share a row, by its length: twice as many above each of the ``rungs``."""
    return simplified(("max", 1, *(("mul", 2 << rung, ("gt", columns, each)) for rung, each in enumerate(rungs))))


def row_shift(columns: Formula, rungs: Sequence[Formula]) -> Formula:
    """The power of two that :func:`per_row` is."""
    return simplified(total([("gt", columns, each) for each in rungs]))


def rows_alone(rows: Formula, columns: Formula, vec: int, most: int) -> Formula:
    """How many of ``rows`` a thread has to itself and loads at once, up to ``most``: where a row is one vector, to
    begin with it takes longer than to read it. 0 where rows of so many ``columns`` are longer than that, or few."""
    each: Formula = ("min", most, ("floor_div", rows, product([LEAST_ALONE, MULTIPROCESSORS])))
    return simplified(product([("eq", columns, vec), each]))


def rungs_of_vectors(vec: int, most: int, is_large: Formula) -> list[Formula]:
    """The rungs of LADDER that a block of ``most`` threads has: elements of a row, on some rungs twice as many where
    rows are so many that half of the threads fill the GPU."""
    longer: Formula = ("add", 1, is_large)
    return [
        product([vectors * vec, longer]) if vectors in LONGER_OF_MANY else vectors * vec
        for rung, vectors in enumerate(LADDER)
        if 2 << rung <= most
    ]


def longest_of_several(vec: int, most: int) -> int:
    """The elements of the longest row of which a block of ``most`` threads may have several, where rows are not many:
    the last of those rungs."""
    return max(vectors for rung, vectors in enumerate(LADDER) if 2 << rung <= most) * vec


def rungs_of_tiles(places: int, is_large: Formula) -> list[Formula]:
    """The rungs of TILE_LADDER, where each thread has so many ``places``."""
    longer: Formula = ("add", 1, ("mul", TILE_PLACES // TILE_LADDER[0] - 1, is_large))
    return [product([longest * places // TILE_PLACES, longer]) for longest in TILE_LADDER]
