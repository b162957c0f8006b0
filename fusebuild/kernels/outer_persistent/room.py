"""What blocks that have whole channels have room for, in vectors of shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, simplified, total
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import counts

LEAST_RUN, SHORT_RUN = 16, 2
"""Neighbours in memory that a block takes, where a channel has fewer: a sector of narrow elements, or a part of it
where elements are few, so that L2 has them, and a channel has many of those."""
FEW = 2**18
"""Those few."""
MOST_THIN = 256
"""Outer indices whose elements are less than a vector, at most: around each a block has two."""
BLOCKS_WANTED = 2
"""Blocks of each multiprocessor that channels are shared out to."""


def is_flat(planner: Planner) -> bool:
    """Whether tensors lie as such blocks read them: each has all elements of the domain, or one a channel."""
    task, domain = planner.task, planner.domain
    inputs, kept = [fid for fid in domain.flat if fid not in task.outputs], {*domain.kept}
    lie_so = all(fid in domain.flat or {*access.axes} <= kept for fid, access in domain.accesses.items())
    return bool(inputs) and lie_so and not counts(task) and not domain.sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a block has room for: ``most`` elements of each tensor, in vectors of ``vec``."""

    planner: Planner
    vec: int
    most: int

    @property
    def outer(self) -> Formula:
        domain = self.planner.domain
        return domain.points(domain.every[: domain.kept[0]])

    @property
    def inner(self) -> Formula:
        """The elements of a channel that are neighbours in memory."""
        domain = self.planner.domain
        return domain.points(domain.every[domain.kept[-1] + 1 :])

    @property
    def count(self) -> Formula:
        return self.planner.domain.points(self.planner.domain.kept)

    def vectors(self, length: Formula, begins: Sequence[Formula]) -> Formula:
        """Those around a run of so many elements, where each begins at a sum of multiples of what it ``begins`` at."""
        is_odd: Formula = ("lt", 0, total([("mod", each, self.vec) for each in begins]))
        return ("floor_div", total([length, self.vec - 1, product([self.vec - 1, is_odd])]), self.vec)

    def guard(self) -> tuple[Formula, ...]:
        """What holds where a sector's channels have room, or fewer where elements are few, and vectors are no more than
        single elements would be, or soon read."""
        least: Formula = total([SHORT_RUN, product([LEAST_RUN - SHORT_RUN, self._are_many])])
        run = least if self.inner == 1 else ("max", least, self.inner)
        vectors = self.vectors(run, [self.count] if self.inner == 1 else [1])
        thin = product([self.outer, ("lt", product([self.count, self.inner]), self.vec)])
        return (
            ("le", simplified(product([self.vec, self.outer, vectors])), self.most),
            ("le", thin, MOST_THIN),
        )

    @property
    def _are_many(self) -> Formula:
        return ("lt", FEW, self.planner.domain.points(self.planner.domain.every))

    def channels(self, threads: int) -> Formula:
        """The channels of a block: as few as leave every multiprocessor its blocks, but so many that their elements are
        neighbours in memory, and no more than have room, and a thread each. Columns are whole vectors, if they can."""
        beside: Formula = 2 * (self.vec - 1)
        filling: Formula = ("ceil_div", self.count, ("mul", BLOCKS_WANTED, MULTIPROCESSORS))
        run: Formula = ("min", ("ceil_div", LEAST_RUN, ("max", 1, self.inner)), ("max", 1, self.count))
        wanted: Formula = ("max", filling, run)
        if self.inner == 1:
            beside = product([beside, ("lt", 0, ("mod", self.count, self.vec))])
            wanted = product([self.vec, ("ceil_div", wanted, self.vec)])
        room: Formula = ("sub", ("floor_div", self.most, ("max", 1, self.outer)), beside)
        room = ("floor_div", room, ("max", 1, self.inner))
        if self.inner == 1:
            room = ("max", product([self.vec, ("floor_div", room, self.vec)]), ("min", room, self.vec))
        return simplified(("max", 1, ("min", room, threads, wanted)))
