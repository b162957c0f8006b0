"""What blocks have room for that add up columns of their elements before those of a channel meet."""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, simplified, total
from fusebuild.kernels.outer_persistent.room import BLOCKS_WANTED, ODD_RUN, RUN, SOME, Room

FEW_RUN = 8
"""Neighbours in memory that a block takes, where a channel of few elements has fewer: more blocks are faster than whole
sectors, which L2 has."""
WIDE_COLUMNS = 4
"""Vectors of columns that are neighbours in blocks of many elements, if they have room: two sectors of narrow ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsRoom(Room):
    """The same of blocks whose threads have each the same columns of several runs. Those columns begin at all places of
    a vector where runs do, and some threads shall have each of them."""

    TEMPLATE = "outer_columns"

    @property
    def least(self) -> Formula:
        edge = self.count if self.inner == 1 else self.inner
        are_odd: Formula = ("lt", 0, ("mod", edge, self.vec))
        many = self.are_more(SOME)
        return total([FEW_RUN, product([RUN - FEW_RUN, many]), product([ODD_RUN - RUN, many, are_odd])])

    def guard(self) -> tuple[Formula, ...]:
        run = self.least if self.inner == 1 else ("max", self.least, self.inner)
        vectors = self.vectors(run, [self.count if self.inner == 1 else self.inner])
        return (("le", simplified(product([self.vec, self.outer, vectors])), self.most),)

    def channels(self, threads: int) -> Formula:
        """The channels of a block: as few as leave every multiprocessor its blocks, but so many that their elements are
        neighbours in memory, and no more than have room, and a thread each. Columns are whole vectors, if they can. Of
        more than all blocks together have room for, each time as many follow."""
        room = self._channels_with_room(threads)
        blocks: Formula = ("mul", BLOCKS_WANTED, MULTIPROCESSORS)
        times: Formula = ("ceil_div", self.count, product([blocks, room]))
        filling: Formula = ("ceil_div", self.count, product([blocks, ("max", 1, times)]))
        run: Formula = ("min", ("ceil_div", self.least, ("max", 1, self.inner)), ("max", 1, self.count))
        wanted: Formula = ("max", filling, run)
        if self.inner == 1:
            unit = total([self.vec, product([(WIDE_COLUMNS - 1) * self.vec, self.are_more(SOME)])])
            wanted = product([unit, ("ceil_div", wanted, unit)])
        return simplified(("max", 1, ("min", room, wanted)))

    def _channels_with_room(self, threads: int) -> Formula:
        """Those that have room, and a thread each; of columns at a time no more than have a thread for each vector of
        so many runs that they begin at all places of a vector."""
        is_odd: Formula = ("lt", 0, ("mod", product([self.count, self.inner]), self.vec))
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
