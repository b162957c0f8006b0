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
    rows each, or none at all, and a multiprocessor runs so many ``blocks``. What tiles ``have_all`` of moves faster by
    vectors where rows are more than run at a time. (H100, softmax: 74173 rows 2.6 us in tiles and 2.1 alone, 10646336
    rows 17.8 and 24.4.)"""

    rows: Formula
    columns: Formula
    most: int
    threads: int
    blocks: int
    have_all: bool

    @property
    def _at_a_time(self) -> Formula:
        """The threads that all multiprocessors have."""
        return product([self.threads * self.blocks, MULTIPROCESSORS])

    @property
    def _are_alone(self) -> Formula:
        """1 where threads have rows of their own, else 0."""
        few: list[Formula] = [("le", self.rows, product([self.most, self._at_a_time]))] if self.have_all else []
        return product([("le", self.columns, 1), *few])

    @property
    def rows_of_thread(self) -> Formula:
        """The rows that a thread has to itself, or 0: one, and more where rows are more than all threads."""
        each: Formula = ("max", 1, ("min", self.most, ("floor_div", self.rows, self._at_a_time)))
        return product([self._are_alone, each])

    def rows_of_block(self, others: Formula) -> Formula:
        """The rows of a block, which has as many ``others`` where those are not alone."""
        if not self.most:
            return others
        own = product([self.threads, self.rows_of_thread])
        return total([own, product([difference(1, self._are_alone), others])])
