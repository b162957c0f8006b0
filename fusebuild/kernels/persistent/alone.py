"""Rows of one element, of which a thread has several to itself: nothing is shared, so that no tile is needed.

Where rows are many, a thread has several, and loads what all of them need before it computes the first; coordinates of
the first alone are found by division (stepping.cuh). Where all that changes along rows lies side by side, a thread has
neighbouring rows, which are read and written by vectors. (H200, softmax_backward of 5720955 rows 15.1 -> 11.7 us; but
instancenorm, whose channels have weights of their own, 6.0 and 7.0 of 1142784 rows.)
"""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, difference, product, total

MOST_ROWS = 8
"""Rows that a thread has where they are many."""

TURNS = 2
"""Times as many rows as there are threads up to which each has one: as many threads have loads on their way then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """``rows`` of so many ``columns``, which are alone where those are one; ``threads`` of a block have one row each,
    or ``most`` where rows are many, or none at all; a multiprocessor runs so many ``blocks``."""

    rows: Formula
    columns: Formula
    most: int
    threads: int
    blocks: int

    @property
    def _are_alone(self) -> Formula:
        """1 where threads have rows of their own, else 0."""
        return ("le", self.columns, 1)

    @property
    def rows_of_thread(self) -> Formula:
        """The rows that a thread has to itself, or 0."""
        are_many: Formula = ("lt", product([TURNS * self.threads * self.blocks, MULTIPROCESSORS]), self.rows)
        return product([self._are_alone, total([1, product([self.most - 1, are_many])])])

    def rows_of_block(self, others: Formula) -> Formula:
        """The rows of a block, which has as many ``others`` where those are not alone."""
        if not self.most:
            return others
        own = product([self.threads, self.rows_of_thread])
        return total([own, product([difference(1, self._are_alone), others])])
