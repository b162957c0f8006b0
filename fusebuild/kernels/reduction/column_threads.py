"""How threads and blocks share the columns of an outer reduction: formulas, evaluated at the call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, ceil_div, product, simplified, total
from fusebuild.kernels.reduction.choices import OuterChoice
from fusebuild.kernels.reduction.sharing import TURNS_ALONE, splits_of, turns_of
from fusebuild.kernels.reduction.together import BLOCKS, CLUSTERS, MOST_ELEMENTS, Shares, either

LINE = 8
"""Vectors side by side that are whole lines of memory."""
CLUSTER_COLUMNS, NARROW_LINE = 64, 16
"""Elements side by side that a cluster has at most, and at least."""
FEW_BESIDE = 4
"""Elements side by side below which a block leaves most of each sector to others, or one vector: a cluster is faster
then. (H100, 2026-11-27: column_sum of 2049 x 100 4.5 -> 2.9 us, of 896 x 1024 4.7 -> 3.5; but of 400 x 600, by blocks
of 8 columns, 2.2 -> 2.7.)"""
CLUSTER_TURNS = 3
"""Turns in which a cluster reads its columns, at most: with more it takes longer than many blocks and a second
kernel."""
NARROW_TURNS = 2
"""Turns in which a block reads all rows of single columns, at most, where no other shares them."""
MOST_FOLDED = 64
"""Columns from which on vectors that begin anywhere read little beside them."""
FEWEST_ROWS = 4
"""Rows that a thread reads before others of its block share its columns, where elements are few."""
WIDE = 64
"""Columns for each of the blocks that run at a time above which all threads of a block lie side by side, where elements
are few: none waits for another one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """What threads own of an outer reduction: so many ``vectors`` of ``vec`` elements each, over ``rows``, which have
    so many ``elements`` in all. There are ``columns`` for each of ``outers`` indices. Where they ``are_left``, a second
    kernel finishes them in any case."""

    vectors: Formula
    vec: int
    rows: Formula
    elements: Formula
    columns: Formula
    outers: Formula
    are_left: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread(Shares):
    """Those of columns: each block has ``beside`` threads side by side."""

    beside: Formula

    def or_clusters(self, choice: OuterChoice, own: Columns, widest: int) -> Spread:
        """This, or what leaves no second kernel to be run where several blocks share columns, and reads whole sectors
        where a block has little of each: clusters, each of which has ``widest`` threads side by side or fewer, so that
        they fill the GPU."""
        turn, narrow = choice.threads * choice.unroll, min(widest, max(1, NARROW_LINE // own.vec))
        wider = (product([side // 2, ("ge", own.vectors, side * CLUSTERS)]) for side in _doubled(2 * narrow, widest))
        beside = simplified(("max", 1, ("min", own.vectors, total([narrow, *wider]))))
        clusters: Formula = ("ceil_div", own.vectors, beside)
        is_good = product([
            ("gt", own.rows, turn // max(2, FEW_BESIDE // own.vec)),
            ("le", product([own.rows, beside]), CLUSTER_TURNS * BLOCKS * turn),
            ("gt", own.elements, TURNS_ALONE * turn * own.vec),
            ("le", own.elements, MOST_ELEMENTS),
            ("le", clusters, CLUSTERS * choice.blocks),
        ])  # fmt: skip
        return Spread(
            blocks=either(is_good, clusters, self.blocks),
            beside=either(is_good, beside, self.beside),
            splits=self.splits,
            are_clustered=is_good,
        )


Spreading: TypeAlias = Callable[[OuterChoice, Columns], Spread]


def spread(choice: OuterChoice, own: Columns) -> Spread:
    """That of any columns."""
    side, is_many = choice.threads // choice.block_y, _is_many(choice, own)
    blocks: Formula = ("ceil_div", own.vectors, _widest(choice, is_many, own))
    tiles, largest = ceil_div(own.vectors, side), ceil_div(own.vectors, choice.threads)
    turn = product([choice.threads * choice.unroll * own.vec, ("max", 1, tiles)])
    turns = ("ceil_div", own.elements, turn) if own.are_left else turns_of(own.elements, turn)
    return Spread(
        blocks=blocks,
        beside=("ceil_div", own.vectors, ("max", 1, blocks)),
        splits=splits_of(tiles, largest, product([is_many, turns]), choice.blocks),
    )


def spread_folded(choice: OuterChoice, own: Columns) -> Spread:
    """That of rows of which some are one: blocks have the vectors of all columns, and of as many outer indices as are
    no more than threads for which others of the block have the same columns."""
    side = choice.threads // choice.block_y
    fitting: Formula = ("max", 1, ("floor_div", side, ("max", 1, own.columns)))
    blocks = simplified(("ceil_div", own.outers, fitting)) if own.outers != 1 else 1
    tiles = product([blocks, ceil_div(own.columns, MOST_FOLDED)])
    turn = product([choice.threads * choice.unroll * own.vec, ("max", 1, tiles)])
    return Spread(
        blocks=blocks,
        beside=product([own.columns, simplified(("ceil_div", own.outers, ("max", 1, blocks)))]),
        splits=splits_of(tiles, tiles, ("ceil_div", own.elements, turn), choice.blocks),
    )


def spread_few(choice: OuterChoice, own: Columns) -> Spread:
    """That of few elements, single columns of so few rows that a block reads all in a turn or two. A power of two of
    threads lie side by side, so that those of a warp meet by shuffles: as many as leave a thread FEWEST_ROWS where rows
    are few, those of a sector or more of memory up to as many rows as a block then reads at once."""
    turn = choice.threads * choice.unroll
    at_once = [(side, turn // side) for side in _powers_of_two(2, 32)]
    few = [(side, FEWEST_ROWS * choice.threads // side) for side in _powers_of_two(64, choice.threads)]
    sides = (product([side // 2, ("le", own.rows, most)]) for side, most in (*at_once, *few))
    are_many: Formula = ("gt", own.vectors, product([WIDE * choice.blocks, MULTIPROCESSORS]))
    beside = simplified(("max", total([1, *sides]), product([choice.threads, are_many])))
    alone = NARROW_TURNS * turn
    blocks: Formula = ("ceil_div", own.vectors, beside)
    return Spread(blocks=blocks, beside=beside, splits=simplified(("max", 1, ceil_div(own.rows, alone))))


def _powers_of_two(first: int, last: int) -> list[int]:
    """Those from ``first`` to ``last``."""
    return [1 << shift for shift in range(first.bit_length() - 1, last.bit_length())]


def _doubled(first: int, most: int) -> list[int]:
    """``first``, twice that and so on, up to ``most``."""
    return [first << shift for shift in range(max(0, (most // first).bit_length()))] if first <= most else []


def _narrow(choice: OuterChoice, rows: Formula, turns: int = 1) -> Formula:
    """The vectors of columns of which a block reads all ``rows`` in so many turns, at most."""
    turn = choice.threads * choice.unroll
    return ("max", 1, ("min", choice.threads // choice.block_y, ("floor_div", turns * turn, ("max", 1, rows))))


def _is_many(choice: OuterChoice, own: Columns) -> Formula:
    """Whether narrow blocks could not read all rows in few turns, or would not fit the GPU at a time: those that do it
    in one, or in more of lines of memory."""
    turn, side = choice.threads * choice.unroll, choice.threads // choice.block_y
    alone, narrow = (1 if own.vec > 1 else NARROW_TURNS) * turn, _narrow(choice, own.rows)
    if own.vec > 1 and side > LINE:
        in_lines: Formula = ("le", own.rows, TURNS_ALONE * turn // LINE)
        narrow = ("max", narrow, product([in_lines, _narrow(choice, own.rows, TURNS_ALONE)]))
    room = product([choice.blocks, MULTIPROCESSORS, narrow])
    return ("max", ("gt", own.rows, alone), ("gt", own.vectors, room))


def _widest(choice: OuterChoice, is_many: Formula, own: Columns) -> Formula:
    """The threads of a block that own neighbouring vectors, at most. Unless there ``is_many`` of rows or columns, so
    few that the block's other threads read all rows in one turn, which spares the kernel that finishes; more where
    columns are so many that blocks would not fit the GPU at a time, and the last ones would run with few others."""
    most, wide = choice.threads // choice.block_y, ("ceil_div", own.vectors, ("mul", choice.blocks, MULTIPROCESSORS))
    return simplified(("min", choice.threads, ("max", _narrow(choice, own.rows), ("mul", most, is_many), wide)))
