"""Channels of few elements: a block has some of its own, and reads them once.

A block copies what it has of each tensor to shared memory: for each outer index a run of neighbours in memory, by the
aligned vectors around it. Then threads share out its channels, a power of two for each, and combine what they find of
one: by vectors where a channel has some, else element by element. What follows from that for a channel is computed once
and left in shared memory, where all threads read it as they walk the vectors again. One launch does what takes three
else, and each of those takes longer to start than to read a megabyte.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, simplified, total
from fusebuild.kernels.common.choice import Choice, decide
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.rows import MAX_THREADS, WARP
from fusebuild.kernels.common.spec import (
    KernelSpec,
    KnownSizes,
    VariantSpec,
    VectorLayout,
    call_parameter,
    counts,
    fits_int32,
    kernel_parameters,
)
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.outer_persistent.channels import Channels
from fusebuild.kernels.pointwise.narrow import reciprocal_of
from fusebuild.target.table import Target

TILE_BYTES = 64 * 1024
"""What a block has of its channels in shared memory: one of two or three on a multiprocessor."""
BESIDE_BYTES = 12 * 1024
"""What it has there of values of a channel, at most."""
THREADS = 512
LEAST_RUN, SHORT_RUN = 16, 2
"""Neighbours in memory that a block takes, where a channel has fewer: a sector of narrow elements, or a part of it
where elements are few, so that L2 has them, and a channel has many of those."""
FEW = 2**18
"""Those few."""
BLOCKS_WANTED = 2
"""Blocks of each multiprocessor that channels are shared out to."""
RESIDENT_BLOCKS = 2
"""Blocks whose registers a multiprocessor shall have: while those of one wait, others compute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeHeuristics:
    """Blocks of ``threads``; one has so many ``elements`` of each tensor in shared memory, at most."""

    threads: int
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeChoice(Choice):
    """Blocks of ``threads``; a multiprocessor shall have the registers of ``min_blocks``."""

    FEWER = ("threads",)

    threads: int
    min_blocks: int


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

    def guard(self) -> Formula:
        """What holds where a sector's channels have room, or fewer where elements are few."""
        are_many: Formula = ("lt", FEW, self.planner.domain.points(self.planner.domain.every))
        least: Formula = total([SHORT_RUN, product([LEAST_RUN - SHORT_RUN, are_many])])
        run = least if self.inner == 1 else ("max", least, self.inner)
        begins = [self.count] if self.inner == 1 else [1]
        return ("le", simplified(product([self.vec, self.outer, self.vectors(run, begins)])), self.most)

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


def whole_variants(planner: Planner) -> list[VariantSpec]:
    """The variant for such channels; none where tensors lie otherwise than it reads them. Raises :class:`KnobError` for
    a choice that no kernel can be made with."""
    task, domain, way = planner.task, planner.domain, "whole_int32"
    inputs = [fid for fid in domain.flat if fid not in task.outputs]
    kept = {*domain.kept}
    lie_so = all(fid in domain.flat or {*access.axes} <= kept for fid, access in domain.accesses.items())
    vec = planner.vector_width(domain.inner)
    if not inputs or not lie_so or counts(task) or domain.sources or vec == 1:
        return []
    choice = decide(way, _proposal(), planner.tuned, partial(_check, target=planner.target))
    room = Room(planner=planner, vec=vec, most=TILE_BYTES // planner.bytes_of(inputs))
    channels = room.channels(choice.threads)
    run = product([channels, room.inner])
    run_vectors = simplified(room.vectors(run, [run, product([room.count, room.inner])]))
    piece_vectors = simplified(room.vectors(room.inner, [room.inner]))
    kernel = planner.kernel(
        "outer_persistent",
        WholeHeuristics(threads=choice.threads, elements=room.most),
        vec=vec,
        vectors=VectorLayout.SHIFTED,
        parameters=(
            *kernel_parameters(task, domain),
            call_parameter("block_channels", channels, "channels of a block, neighbours in memory"),
            call_parameter("run_vectors", run_vectors, "around its elements of one outer index"),
            call_parameter("run_reciprocal", reciprocal_of(run_vectors), "reciprocal of run_vectors"),
            call_parameter("piece_vectors", piece_vectors, "around those of one channel"),
            call_parameter("piece_reciprocal", reciprocal_of(piece_vectors), "reciprocal of piece_vectors"),
            call_parameter("inner_reciprocal", reciprocal_of(room.inner), "reciprocal of inner"),
        ),
        min_blocks=choice.min_blocks,
        sizes=KnownSizes(help=False),
    )
    if choice.threads * _bytes_beside(kernel) > BESIDE_BYTES:
        return []
    points, own = domain.points(domain.every), domain.points(domain.reduced)
    guard = (fits_int32(points), ("lt", 0, own), room.guard(), *planner.aligned(domain.flat, vec))
    grid: Formula = ("ceil_div", room.count, channels)
    shared = product([room.outer, run_vectors, vec * planner.bytes_of(inputs)])
    block = (choice.threads, 1, 1)
    return [planner.variant(way, choice, guard, kernel, simplified(grid), block, shared_bytes=simplified(shared))]


def _proposal() -> WholeChoice:
    return WholeChoice(threads=THREADS, min_blocks=RESIDENT_BLOCKS)


def _bytes_beside(kernel: KernelSpec) -> int:
    """The bytes of one channel's values in shared memory."""
    body = Body(kernel)
    return sum(body.value(fid).dtype.bytes for fid in Channels.of(body).shared)


def _check(choice: WholeChoice, *, target: Target) -> None:
    choice.require_power_of_two("threads", WARP, MAX_THREADS)
    choice.require_block("threads", choice.threads, THREADS)
    choice.require_blocks("min_blocks", choice.threads, target.threads_per_multiprocessor)
