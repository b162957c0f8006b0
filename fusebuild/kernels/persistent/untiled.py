"""Short rows that are too few for tiles, taken from global memory without one.

A tile has to come before a thread can begin and to be whole before it can leave, and a block's threads have many of its
elements. Where a device has threads enough for all elements, or nearly, that is most of what a call takes: such rows
have as many threads as run in a turn or two, up to a warp, which load all that they need at once and store it.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, difference, product, total
from fusebuild.kernels.common.rows import WARP

REGISTERS = 48
"""Registers of the elements that a thread loads at once."""

MOST_HELD = 16
"""Elements of a row that a thread has at most."""

THREADS_WANTED = 1024
"""Threads of a multiprocessor up to which rows are few: with as many, none has too many elements."""

FEW_HELD = 2
"""Elements of a row that a thread may have where all threads run at once; else rows have twice as many threads, which
run in two turns. (H100, groupnorm of 58368 rows of 10 elements, in one turn and in two: 7.5 and 5.2 us.)"""

MOST_EACH = 6
"""Elements that each of ``THREADS_WANTED`` would have, up to which rows are few: what they store themselves is parts of
sectors, each of which takes as long as a whole one. (H100, softmax_backward of 56576 rows of 18 elements, without tiles
and with them: 7.9 and 5.1 us; but groupnorm of 26880 rows of 64 channels, which have pieces of their own, 16.8 and
22.7.)"""

MOST_ROWS = 512
"""Rows for each multiprocessor up to which they are few. (H100, layernorm of one column, without tiles and with them:
52224 rows 2.6 and 4.1 us, 138368 3.9 and 3.7, 603776 9.2 and 6.8.)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Untiled:
    """``rows`` of so many ``columns``, ``least`` or more, of which a thread holds up to ``most`` elements, in blocks of
    ``threads``. A multiprocessor runs so many ``blocks``. Rows are few up to ``most_each`` elements for each of
    ``THREADS_WANTED``."""

    rows: Formula
    columns: Formula
    least: int
    most: int
    most_each: int
    threads: int
    blocks: int

    @property
    def _are_few(self) -> Formula:
        """1 where rows are too few for tiles and a warp holds one, else 0."""
        few_rows: Formula = ("le", self.rows, product([MOST_ROWS, MULTIPROCESSORS]))
        long: list[Formula] = [("le", self.least, self.columns)] if self.least > 1 else []
        wanted = product([THREADS_WANTED, MULTIPROCESSORS])
        held: Formula = ("ceil_div", product([self.rows, self.columns]), wanted)
        most_each = min(self.most_each, self.most)
        return product([few_rows, *long, ("le", self.columns, WARP * self.most), ("le", held, most_each)])

    @property
    def _threads(self) -> Formula:
        """The threads of a row, a power of two up to a warp: as many as have an element and run at once, or in two
        turns where they have more, but so many that none has too many elements."""
        room = product([self.threads * self.blocks, MULTIPROCESSORS])

        def doubled(power: int) -> Formula:
            turns = total([1, ("lt", FEW_HELD << power, self.columns)])
            fits: Formula = ("le", product([2 << power, self.rows]), product([room, turns]))
            runs = product([fits, ("lt", 1 << power, self.columns)])
            return product([1 << power, ("max", runs, ("lt", self.most << power, self.columns))])

        return total([1, *map(doubled, range(WARP.bit_length() - 1))])

    @property
    def threads_of_row(self) -> Formula:
        """The same, or 0 where rows are in tiles."""
        return product([self._are_few, self._threads])

    def grid(self, tiles: Formula) -> Formula:
        """The blocks, where there are so many ``tiles`` if rows are in those."""
        blocks: Formula = ("ceil_div", product([self.rows, self._threads]), self.threads)
        few = self._are_few
        return total([product([few, blocks]), product([difference(1, few), tiles])])
