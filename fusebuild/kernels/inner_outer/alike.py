"""Rows that are no multiples of a vector, shared out by where they begin in one: as ``alike.cuh`` has it.

Tensors of rows side by side begin aligned, so the first element of a row lies in one of a few places of an aligned
vector, and as many **kinds** of rows there are. A block, or a cluster, has rows of one kind at a time: a thread's
vectors, which lie where memory is aligned, have the same columns of each of them, and nothing is moved over. What it
adds up of a kind is a **part** of the result. Where blocks, or clusters, are a multiple of the kinds, each has rows of
one kind anyway, and neighbours walk neighbouring rows. (H100, layernorm's backward pass, shares of a copy's bandwidth:
595 x 119817 0.10 with accumulators in memory, 0.67 so; 2345 x 5847 0.39 where each row is realigned in registers, 0.64
so.)
"""

from __future__ import annotations

from fusebuild.ir.formula import Formula, product, total

RUNGS = (256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 131072)
"""Elements of the longest rows of a kernel of its own: up to a vector less, since the first vector may begin before the
row does. (H100, layernorm's backward pass, 5003 x 4099: 0.61 of a copy's bandwidth by that of 8192, 0.45 where two
blocks share a row.)"""
RUNGS_ALONE = (12288,)
"""One more where no blocks share rows."""
BESIDE = 8
"""Registers more, where blocks share rows, for what vectors have of the rows beside. (With none, and what adds up to
128 registers, ptxas 13.0 spills 96 bytes of layernorm's backward pass.)"""


def kinds_of(columns: Formula, vec: int) -> Formula:
    """How many kinds there are of rows of so many ``columns``: ``vec`` by their greatest common divisor, twice as many
    for each power of two that divides ``vec`` alone."""
    powers = range(vec.bit_length() - 1)
    doubled: list[Formula] = [product([2**power, ("gt", ("mod", columns, vec >> power), 0)]) for power in powers]
    return total([1, *doubled])


def parts_of(walkers: Formula, columns: Formula, vec: int, has_several: Formula) -> Formula:
    """The parts that so many blocks, or clusters, leave: one each where they are a multiple of the kinds, or none
    ``has_several`` rows; else one more for each kind after the first."""
    kinds = kinds_of(columns, vec)
    return total([walkers, product([has_several, ("gt", ("mod", walkers, kinds), 0), total([kinds, -1])])])


def of_one_kind(blocks: Formula, vec: int, rows: Formula) -> Formula:
    """So many ``blocks``, or up to ``vec`` less, that each has ``rows`` of one kind, however many kinds there are; all
    of them where they are fewer, or have hardly more than a row each."""
    are_enough: list[Formula] = [("ge", blocks, vec), ("ge", rows, product([2, blocks]))]
    return ("sub", blocks, product([*are_enough, ("mod", blocks, vec)]))


def of_few_kinds(clusters: Formula, vec: int, rows: Formula) -> Formula:
    """So many ``clusters``, which are all that run at a time, or up to ``vec`` less: a multiple of the kinds, however
    many there are, where none has more to do then. To go on with another kind takes as long as a row."""
    over: Formula = ("mod", clusters, vec)
    even, uneven = ("max", 1, ("sub", clusters, over)), total([rows, vec - 1])
    are_as_fast: Formula = ("le", ("ceil_div", rows, even), ("ceil_div", uneven, clusters))
    are_enough: list[Formula] = [("gt", rows, clusters), ("ge", clusters, vec)]
    return ("sub", clusters, product([*are_enough, are_as_fast, over]))
