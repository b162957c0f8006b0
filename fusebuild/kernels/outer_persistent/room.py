"""What blocks that have whole channels are chosen to be, and have room for, in vectors of shared memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, simplified, total
from fusebuild.kernels.common.choice import Choice, decide
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.rows import MAX_THREADS, WARP
from fusebuild.kernels.common.spec import counts
from fusebuild.target.table import Target

TILE_BYTES = 64 * 1024
"""What a block has of its channels in shared memory: one of two or three on a multiprocessor."""
THREADS = 512
"""Threads of a block."""

RUN, ODD_RUN = 16, 64
"""Neighbours in memory that a block takes, where a channel has fewer: a sector of narrow elements; more where they
begin anywhere in a vector, as each of those that are no whole vector is stored alone."""
FEW, SOME, MANY = 2**18, 2**20, 2**21
"""Those few, so many that single stores are no matter, and so many columns that they are read twice."""
BLOCK_OF_FEW = 2**13
"""What a block has of them, at most: with more one block takes longer than three launches. (H100, batchnorm_train_nchw
of 8 x 1 x 2048 elements: 7.7 us by one block, 7.2 by three kernels; of 201 x 1 x 117 11.7, 9.6; batchnorm_train of 1500
x 33 by blocks of 7 columns 13.4, before by 2 6.4.)"""
FEW_IN_COLUMN = 8
"""Elements of columns that are taken whatever their number. (H100, batchnorm_train of 26 x 53888 elements, which are
not so many: 8.3 us, by columns 11.2; before values of channels lay in different banks, of 333 x 60001 81 where columns
take 59, of 30 x 500000 90 and 46.)"""
BLOCKS_WANTED = 2
"""Blocks of each multiprocessor that channels are shared out to."""


def is_flat(planner: Planner) -> bool:
    """Whether tensors lie as such blocks read them: each has all elements of the domain, or one a channel."""
    task, domain = planner.task, planner.domain
    inputs, kept = [fid for fid in domain.flat if fid not in task.outputs], {*domain.kept}
    lie_so = all(fid in domain.flat or {*access.axes} <= kept for fid, access in domain.accesses.items())
    return bool(inputs) and lie_so and not counts(task) and not domain.sources


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelsChoice(Choice):
    """Blocks of ``threads``; a multiprocessor shall have the registers of ``min_blocks``."""

    FEWER = ("threads",)

    threads: int
    min_blocks: int


def decided(planner: Planner, way: str, resident: int) -> ChannelsChoice:
    """What blocks of the kernel ``way`` are, of which ``resident`` ones are proposed for a multiprocessor, or as many
    as it has threads for. Raises :class:`KnobError` for a choice that no kernel can be made with."""
    fitting = min(resident, planner.target.threads_per_multiprocessor // THREADS)
    proposal = ChannelsChoice(threads=THREADS, min_blocks=fitting)
    return decide(way, proposal, planner.tuned, partial(_check, target=planner.target))


def _check(choice: ChannelsChoice, *, target: Target) -> None:
    choice.require_power_of_two("threads", WARP, MAX_THREADS)
    choice.require_block("threads", choice.threads, THREADS)
    choice.require_blocks("min_blocks", choice.threads, target.threads_per_multiprocessor)


def bytes_of_inputs(planner: Planner) -> int:
    """The bytes of an element of each tensor that a block reads into shared memory."""
    return planner.bytes_of([fid for fid in planner.domain.flat if fid not in planner.task.outputs])


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a block has room for, in vectors of ``vec``."""

    planner: Planner
    vec: int

    @property
    def most(self) -> int:
        """The elements of each tensor, at most."""
        return TILE_BYTES // bytes_of_inputs(self.planner)

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

    @property
    def least(self) -> Formula:
        """The neighbours that a block takes at least."""
        edge = self.count if self.inner == 1 else self.inner
        are_odd: Formula = ("lt", 0, ("mod", edge, self.vec))
        return total([RUN, product([ODD_RUN - RUN, self.are_more(SOME), are_odd])])

    def are_more(self, elements: int) -> Formula:
        return ("lt", elements, self.planner.domain.points(self.planner.domain.every))

    @property
    def most_of_block(self) -> Formula:
        """The elements of each tensor, at most, in a block of few or of many."""
        more = product([max(0, self.most - BLOCK_OF_FEW), self.are_more(FEW)])
        return simplified(total([min(self.most, BLOCK_OF_FEW), more]))

    def guard(self) -> tuple[Formula, ...]:
        """What holds where the neighbours that a block shall take have room, and no columns are so many that it is
        faster to read them twice, by vectors of columns."""
        run = self.least if self.inner == 1 else ("max", self.least, self.inner)
        vectors = self.vectors(run, [self.count if self.inner == 1 else self.inner])
        has_room: Formula = ("le", simplified(product([self.vec, self.outer, vectors])), self.most_of_block)
        if self.inner != 1:
            return (has_room,)
        return (has_room, ("le", product([self.are_more(MANY), self.outer]), FEW_IN_COLUMN))

    @property
    def adds_columns(self) -> Formula:
        """Whether blocks add up columns of elements before those of a channel meet."""
        return 0

    def channels(self, threads: int) -> Formula:
        """The channels of a block: as few as leave every multiprocessor its blocks, but so many that their elements are
        neighbours in memory, and no more than have room, and a thread each. Columns are whole vectors, if they can."""
        beside: Formula = 2 * (self.vec - 1)
        filling: Formula = ("ceil_div", self.count, ("mul", BLOCKS_WANTED, MULTIPROCESSORS))
        run: Formula = ("min", ("ceil_div", self.least, ("max", 1, self.inner)), ("max", 1, self.count))
        wanted: Formula = ("max", filling, run)
        if self.inner == 1:
            beside = product([beside, ("lt", 0, ("mod", self.count, self.vec))])
            wanted = product([self.vec, ("ceil_div", wanted, self.vec)])
        room: Formula = ("sub", ("floor_div", self.most, ("max", 1, self.outer)), beside)
        room = ("floor_div", room, ("max", 1, self.inner))
        if self.inner == 1:
            room = ("max", product([self.vec, ("floor_div", room, self.vec)]), ("min", room, self.vec))
        return simplified(("max", 1, ("min", room, threads, wanted)))
