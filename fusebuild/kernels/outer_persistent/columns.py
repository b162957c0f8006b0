"""Where blocks add up columns of their elements before those of a channel meet, and what they have room for then.

Each thread has a vector of every so many runs of neighbours, in which the same columns lie at the same places. What its
columns have of their channels it looks up once so, where else each vector, or each element, is asked of which it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, simplified, total
from fusebuild.kernels.outer_persistent.room import BLOCKS_WANTED, FEW, MANY, ODD_RUN, RUN, SOME, Room

FEW_RUN = 8
"""Neighbours in memory that a block takes, where a channel of few elements has fewer: more blocks are faster than whole
sectors, which L2 has."""
WIDE_COLUMNS = 4
"""Vectors of columns that are neighbours in blocks of many elements, if they have room: two sectors of narrow ones."""

ROWS = (384, 1024)
"""From how many rows on, and up to how many, columns of some elements are added up first that begin anywhere in a
vector. With fewer a thread has one or two vectors, and the longer code takes longer to begin than it gains; with more a
block has no room for eight columns. (H200, batchnorm_train of 593 x 741 elements: 11.4 -> 8.3 us, of 24 x 3648 3.7,
by columns 5.0.)"""
MANY_ROWS, WHOLE_ROWS = (120, 832), (768, 832)
"""The same of many elements, and of those whose rows are whole vectors. (H200, batchnorm_train of 126 x 31761 elements
by three kernels 15.0 us, by columns 13.0, of 333 x 60001 49.8, 49.1, of 832 x 12352 28.4, 26.8.)"""
MOST_OF_MANY = 2**25
"""Elements of the largest ones that were measured."""
SHORT, OUTER, IMAGES = (8, 32), (32, 128), 2**22
"""Pixels of a channel that are no whole vectors, outer indices, and elements that are fewer than those of images whose
columns are added up first. (H200, batchnorm_train_nchw of 43 x 10560 x 22 elements: 46.5 -> 22.7 us; of 3 x 1707 x 123
6.5, by columns 8.2, of 39 x 1334 x 103 19.0, 21.6, of 14 x 361 x 7 3.8, 7.7.)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsRoom(Room):
    """The same of blocks whose threads may add up columns first: each has the same ones of several runs. They begin at
    all places of a vector where runs do, and some threads shall have each of those."""

    @property
    def _columns_least(self) -> Formula:
        """The neighbours that a block takes at least where it adds up columns."""
        many, edge = self.are_more(SOME), self.count if self.inner == 1 else self.inner
        more_of_odd = product([ODD_RUN - RUN, many, self._is_odd(edge)])
        return total([FEW_RUN, product([RUN - FEW_RUN, many]), more_of_odd])

    @property
    def adds_columns(self) -> Formula:
        """Whether blocks do so."""
        of_some = product([self.are_more(FEW), self._is_odd(self.count), _is_from(self.outer, ROWS)])
        of_rows: Formula = ("max", of_some, product([self.are_more(MANY), self._are_rows_of_many]))
        if self.inner == 1:
            return of_rows
        of_short = product([self._is_odd(self.inner), _is_from(self.inner, SHORT), _is_from(self.outer, OUTER)])
        return ("max", product([("eq", self.inner, 1), of_rows]), product([self.are_more(IMAGES), of_short]))

    @property
    def _are_rows_of_many(self) -> Formula:
        """Whether rows are as few as those of many elements that are added up first."""
        of_odd = product([self._is_odd(self.count), _is_from(self.outer, MANY_ROWS)])
        return ("max", of_odd, _is_from(self.outer, WHOLE_ROWS))

    def _is_odd(self, number: Formula) -> Formula:
        """Whether runs of so many neighbours, side by side, begin anywhere in a vector."""
        return ("lt", 0, ("mod", number, self.vec))

    def guard(self) -> tuple[Formula, ...]:
        has_room, *few = Room.guard(self)
        more = product([self._are_rows_of_many, ("sub", 1, self.are_more(MOST_OF_MANY))])
        return (has_room, *(("max", each, more) for each in few))

    def channels(self, threads: int) -> Formula:
        adds = self.adds_columns
        others = product([("sub", 1, adds), Room.channels(self, threads)])
        return simplified(total([product([adds, self._columns_channels(threads)]), others]))

    def _columns_channels(self, threads: int) -> Formula:
        """Where blocks add up columns: as few as leave every multiprocessor its blocks, but so many that their elements
        are neighbours in memory, and no more than have room, and a thread each. Columns are whole vectors, if they can.
        Of more than all blocks together have room for, each time as many follow."""
        room = self._channels_with_room(threads)
        blocks: Formula = ("mul", BLOCKS_WANTED, MULTIPROCESSORS)
        times: Formula = ("ceil_div", self.count, product([blocks, room]))
        filling: Formula = ("ceil_div", self.count, product([blocks, ("max", 1, times)]))
        run: Formula = ("min", ("ceil_div", self._columns_least, ("max", 1, self.inner)), ("max", 1, self.count))
        wanted: Formula = ("max", filling, run)
        if self.inner == 1:
            unit = total([self.vec, product([(WIDE_COLUMNS - 1) * self.vec, self.are_more(SOME)])])
            wanted = product([unit, ("ceil_div", wanted, unit)])
        return simplified(("max", 1, ("min", room, wanted)))

    def _channels_with_room(self, threads: int) -> Formula:
        """Those that have room, and a thread each; of columns at a time no more than have a thread for each vector of
        so many runs that they begin at all places of a vector."""
        is_odd = self._is_odd(product([self.count, self.inner]))
        beside: Formula = 2 * (self.vec - 1)
        if self.inner == 1:
            beside = product([beside, is_odd])
        kinds: Formula = ("min", ("max", 1, self.outer), total([1, product([self.vec - 1, is_odd])]))
        most: Formula = (
            "min",
            ("floor_div", self.most, ("max", 1, self.outer)),
            product([self.vec, ("floor_div", threads, kinds)]),
        )
        room: Formula = ("floor_div", ("sub", most, beside), ("max", 1, self.inner))
        if self.inner == 1:
            room = ("max", product([self.vec, ("floor_div", room, self.vec)]), ("min", room, self.vec))
        return ("max", 1, ("min", room, threads))


def _is_from(number: Formula, bounds: tuple[int, int]) -> Formula:
    """Whether it is from the first of ``bounds`` up to the second."""
    least, most = bounds
    return product([("ge", number, least), ("le", number, most)])
