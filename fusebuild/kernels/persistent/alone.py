"""Rows of one element, of which a thread has several to itself: nothing is shared, so that no tile is needed.

What is one element a row, and what groups of rows share, is read and written from registers by threads that lie side
by side, as the rows do. A thread loads what all of its rows need before it computes the first, and finds the
coordinates of the first alone by division (stepping.cuh).
"""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, difference, product, total

MOST_ROWS = 8
"""Rows that a thread loads at once, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """``rows`` of so many ``columns``, which are alone where those are one; ``threads`` of a block have up to ``most``
    rows each, or none at all, and a multiprocessor runs so many ``blocks``."""

    rows: Formula
    columns: Formula
    most: int
    threads: int
    blocks: int

    def rows_of_block(self, others: Formula) -> Formula:
        """The rows of a block, which has as many ``others`` where those are not alone: each thread has one, and more
        where more than all multiprocessors have threads for."""
        if not self.most:
            return others
        is_alone: Formula = ("le", self.columns, 1)
        at_a_time = product([self.threads * self.blocks, MULTIPROCESSORS])
        each: Formula = ("max", 1, ("min", self.most, ("floor_div", self.rows, at_a_time)))
        return total([product([self.threads, is_alone, each]), product([difference(1, is_alone), others])])
