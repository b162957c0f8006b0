"""Rows that are no multiples of a vector, shared out by where they begin in one: as ``alike.cuh`` has it.

Tensors of rows side by side begin aligned, so the first element of a row lies in one of a few places of an aligned
vector, and as many **kinds** of rows there are. A block, or a cluster, has rows of one kind at a time: a thread's
vectors, which lie where memory is aligned, have the same columns of each of them, and nothing is moved over. What it
adds up of a kind is a **part** of the result. (H100, layernorm's backward pass, shares of a copy's bandwidth: 595 x
119817 0.10 with accumulators in memory, 0.67 so; 2345 x 5847 0.39 where each row is realigned in registers, 0.64 so.)
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


def parts_of(walkers: Formula, columns: Formula, vec: int, rows: Formula) -> Formula:
    """The parts that so many blocks, or clusters, leave: one each where they have one of the ``rows``, or are a multiple
    of the kinds; else one more for each kind after the first."""
    kinds = kinds_of(columns, vec)
    are_shared: list[Formula] = [("gt", rows, walkers), ("gt", ("mod", walkers, kinds), 0)]
    return total([walkers, product([*are_shared, total([kinds, -1])])])


def of_one_kind(blocks: Formula, vec: int, rows: Formula) -> Formula:
    """So many ``blocks``, or up to ``vec`` less, that each has ``rows`` of one kind, however many kinds there are; all
    of them where they are fewer, or have hardly more than a row each."""
    are_enough: list[Formula] = [("ge", blocks, vec), ("ge", rows, product([2, blocks]))]
    return ("sub", blocks, product([*are_enough, ("mod", blocks, vec)]))


def of_few_kinds(clusters: Formula, columns: Formula, vec: int, rows: Formula) -> Formula:
    """So many ``clusters``, or a few less, that each has ``rows`` of one kind where none has more to do then: to go on
    with another kind takes as long as a row."""
    kinds = kinds_of(columns, vec)
    fewer: Formula = ("sub", clusters, ("mod", clusters, kinds))
    turns: list[Formula] = [
        ("ceil_div", rows, ("max", 1, fewer)), ("ceil_div", total([rows, kinds, -1]), clusters),
    ]  # fmt: skip
    are_as_fast: list[Formula] = [("gt", rows, clusters), ("ge", clusters, kinds), ("le", *turns)]
    return ("sub", clusters, product([*are_as_fast, ("mod", clusters, kinds)]))
