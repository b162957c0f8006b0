"""Channels of few elements: a block has some of its own, and reads them once.

A block copies what it has of each tensor to shared memory: for each outer index a run of neighbours in memory. Then
threads share out its channels, a power of two for each, and combine what they find of one; what follows from that for
a channel is computed once and left in shared memory, where all threads read it as they walk the elements again. One
launch does what takes three else, and each of those takes longer to start than to read a megabyte.

Elements are read and stored one by one, which takes about 35 instructions each: where they are many, that is no faster
than to read them twice by vectors, but for channels of so few that most of what moves is one element a channel.
"""

from __future__ import annotations

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
from fusebuild.target.table import Target

TILE_BYTES = 32 * 1024
"""What a block has of its channels in shared memory."""
BESIDE_BYTES = 12 * 1024
"""What it has there of values of a channel, at most."""
THREADS = 512
UNROLL = 8
"""Elements that a thread loads before it puts the first into shared memory."""
BATCH = 4
"""Elements of a channel that a thread takes at a time."""
LEAST_RUN, SHORT_RUN = 16, 2
"""Neighbours in memory that a block takes, where a channel has fewer: a sector of narrow elements, or a part of it
where elements are few, so that L2 has them, and a channel has many of those."""
FEW = 2**18
"""Those few."""
BLOCK_OF_FEW = 2**12
"""What a block has of few elements, at most: with more of them one block takes longer than three launches. (H100,
batchnorm_train_nchw of 8 x 1 x 2048 elements: 12.8 us by one block, 7.3 by three kernels; batchnorm_train of 1792 x 23
by blocks of 7168 elements 7.1, by three kernels 5.7, of 1000 x 16 by blocks of 4000 5.1, by three kernels 5.4.)"""
BLOCKS_WANTED = 2
"""Blocks of each multiprocessor that channels are shared out to."""
RESIDENT_BLOCKS = 3
"""Blocks whose registers a multiprocessor shall have: while those of one wait, others compute."""
MOST_ELEMENTS = 2**21
"""Elements of a tensor beyond which channels shall have few."""
FEW_IN_CHANNEL, FEW_IN_COLUMN = 16, 8
"""Elements of those; fewer where channels are columns, of which vectors are read as well. (H100, batchnorm_train of 16
x 500000 elements: 30 us, by three kernels 27; batchnorm_train_nchw of 16 x 262144 x 1: 20, by three kernels 38.)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeHeuristics:
    """Blocks of ``threads``, each of which loads ``unroll`` elements before it uses the first, and combines a ``batch``
    of them at a time; a block has so many ``elements`` of each tensor, at most."""

    threads: int
    unroll: int
    batch: int
    elements: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeChoice(Choice):
    """Blocks of ``threads``; a multiprocessor shall have the registers of ``min_blocks``."""

    FEWER = ("unroll", "threads")

    threads: int
    unroll: int
    min_blocks: int


def whole_variants(planner: Planner) -> list[VariantSpec]:
    """The variant for such channels; none where tensors lie otherwise than it reads them. Raises :class:`KnobError` for
    a choice that no kernel can be made with."""
    task, domain, way = planner.task, planner.domain, "whole_int32"
    inputs = [fid for fid in domain.flat if fid not in task.outputs]
    kept = {*domain.kept}
    lie_so = all(fid in domain.flat or {*access.axes} <= kept for fid, access in domain.accesses.items())
    if not inputs or not lie_so or counts(task) or domain.sources:
        return []
    choice = decide(way, _proposal(), planner.tuned, partial(_check, target=planner.target))
    most = TILE_BYTES // planner.bytes_of(inputs)
    beside = _beside(planner, most, choice.threads)
    kernel = planner.kernel(
        "outer_persistent",
        WholeHeuristics(threads=choice.threads, unroll=choice.unroll, batch=BATCH, elements=most),
        vec=BATCH,
        vectors=VectorLayout.SHIFTED,
        parameters=(
            *kernel_parameters(task, domain),
            call_parameter("block_channels", beside, "channels of a block, neighbours in memory"),
        ),
        min_blocks=choice.min_blocks,
        sizes=KnownSizes(help=False),
    )
    if choice.threads * _bytes_beside(kernel) > BESIDE_BYTES:
        return []
    grid: Formula = ("ceil_div", domain.points(domain.kept), beside)
    return [planner.variant(way, choice, _guard(planner, most), kernel, simplified(grid), (choice.threads, 1, 1))]


def _proposal() -> WholeChoice:
    return WholeChoice(threads=THREADS, unroll=UNROLL, min_blocks=RESIDENT_BLOCKS)


def _beside(planner: Planner, most: int, threads: int) -> Formula:
    """The channels of a block: as few as leave every multiprocessor its blocks, but so many that their elements are
    neighbours in memory, and no more than have room, and a thread each."""
    domain = planner.domain
    own, inner, count = domain.points(domain.reduced), _inside(planner), domain.points(domain.kept)
    room: Formula = ("max", 1, ("floor_div", most, ("max", 1, own)))
    filling: Formula = ("ceil_div", count, ("mul", BLOCKS_WANTED, MULTIPROCESSORS))
    share: Formula = ("max", 1, ("floor_div", _room(planner, most), ("max", 1, own)))
    run: Formula = ("min", ("ceil_div", LEAST_RUN, ("max", 1, inner)), share, ("max", 1, count))
    wanted: Formula = ("max", filling, run)
    return simplified(("min", room, threads, wanted))


def _guard(planner: Planner, most: int) -> tuple[Formula, ...]:
    """What holds where a sector's channels have room in a block, and a channel has some elements, but not so many that
    kernels which read twice are faster."""
    domain = planner.domain
    points, own = domain.points(domain.every), domain.points(domain.reduced)
    outer = domain.points(domain.every[: domain.kept[0]])
    run = product([outer, ("max", _run(planner), _inside(planner))])
    in_channel = FEW_IN_CHANNEL if domain.inner in domain.reduced else FEW_IN_COLUMN
    many = product([points, ("lt", in_channel, own)])
    return (
        fits_int32(points),
        ("lt", 0, own),
        ("le", simplified(run), simplified(_room(planner, most))),
        ("le", many, MOST_ELEMENTS),
    )


def _run(planner: Planner) -> Formula:
    """The neighbours in memory that a block takes at least."""
    return total([SHORT_RUN, product([LEAST_RUN - SHORT_RUN, _are_many(planner)])])


def _room(planner: Planner, most: int) -> Formula:
    """The elements that a block takes at most."""
    of_few = min(BLOCK_OF_FEW, most)
    return total([of_few, product([most - of_few, _are_many(planner)])])


def _are_many(planner: Planner) -> Formula:
    return ("lt", FEW, planner.domain.points(planner.domain.every))


def _inside(planner: Planner) -> Formula:
    """The elements of a channel that are neighbours in memory."""
    return planner.domain.points(planner.domain.every[planner.domain.kept[-1] + 1 :])


def _bytes_beside(kernel: KernelSpec) -> int:
    """The bytes of one channel's values in shared memory."""
    body = Body(kernel)
    return sum(body.value(fid).dtype.bytes for fid in Channels.of(body).shared)


def _check(choice: WholeChoice, *, target: Target) -> None:
    choice.require_power_of_two("threads", WARP, MAX_THREADS)
    choice.require_block("threads", choice.threads, THREADS)
    choice.require_power_of_two("unroll", 1, 2 * UNROLL)
    choice.require_blocks("min_blocks", choice.threads, target.threads_per_multiprocessor)
