"""Channels of few elements: a block has some of its own, and reads them once.

A block copies what it has of each tensor to shared memory: for each outer index a run of neighbours in memory, by the
aligned vectors around it. Then threads share out its channels, a power of two for each, and combine what they find of
one: by vectors where a channel has some, else element by element, or by columns that were added up before
(:mod:`fusebuild.kernels.outer_persistent.columns`). What follows from that for a channel is computed once and left in
shared memory, where all threads read it as they walk the vectors again. One launch does what takes three else, and each
of those takes longer to start than to read a megabyte.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.formula import Formula, product, simplified, total
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import (
    KnownSizes,
    VariantSpec,
    VectorLayout,
    call_parameter,
    fits_int32,
    kernel_parameters,
)
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.outer_persistent.channels import Channels
from fusebuild.kernels.outer_persistent.columns import ColumnsRoom
from fusebuild.kernels.outer_persistent.room import Room, bytes_of_inputs, decided, is_flat
from fusebuild.kernels.pointwise.narrow import reciprocal_of

LEAST_THREADS = 64
"""Those that have a thread for each vector of a short channel's runs, at all places of a vector where they begin."""
CENTERS = 2
"""Numbers of moments for each thread that there is room for where columns are added up, beside those of its vector."""
BESIDE_BYTES = 12 * 1024
"""What a block has of values of its channels in shared memory, at most."""
RESIDENT_BLOCKS = 2
"""Blocks whose registers a multiprocessor shall have: while those of one wait, others compute."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeHeuristics:
    """Blocks of ``threads``; one has so many ``elements`` of each tensor in shared memory, at most."""

    threads: int
    elements: int


def whole_variants(planner: Planner) -> list[VariantSpec]:
    """The variant for such channels; none where tensors lie otherwise than it reads them. Raises :class:`KnobError` for
    a choice that no kernel can be made with."""
    task, domain, way = planner.task, planner.domain, "whole_int32"
    vec = planner.vector_width(domain.inner)
    if vec == 1 or not is_flat(planner):
        return []
    choice = decided(planner, way, RESIDENT_BLOCKS)
    computed = Channels.of(Body(planner.kernel("outer_persistent", choice, vec=vec, vectors=VectorLayout.SHIFTED)))
    if choice.threads * _bytes_beside(computed) > BESIDE_BYTES:
        return []
    has_columns = computed.has_columns and choice.threads >= LEAST_THREADS
    room = (ColumnsRoom if has_columns else Room)(planner=planner, vec=vec)
    channels = room.channels(choice.threads)
    run = product([channels, room.inner])
    run_vectors = simplified(room.vectors(run, [run, product([room.count, room.inner])]))
    piece_vectors = simplified(room.vectors(room.inner, [room.inner]))
    ends = simplified(("sub", channels, 1))
    kernel = planner.kernel(
        "outer_persistent",
        WholeHeuristics(threads=choice.threads, elements=room.most),
        vec=vec,
        vectors=VectorLayout.SHIFTED,
        parameters=(
            *kernel_parameters(task, domain),
            call_parameter("adds_columns", room.adds_columns, "1 where columns are added up first"),
            call_parameter("block_channels", channels, "channels of a block, neighbours in memory"),
            call_parameter("run_vectors", run_vectors, "around its elements of one outer index"),
            call_parameter("run_reciprocal", reciprocal_of(run_vectors), "reciprocal of run_vectors"),
            call_parameter("piece_vectors", piece_vectors, "around those of one channel"),
            call_parameter("piece_reciprocal", reciprocal_of(piece_vectors), "reciprocal of piece_vectors"),
            call_parameter("inner_reciprocal", reciprocal_of(room.inner), "reciprocal of inner"),
            call_parameter("run_ends", ends, "channels that end within a run, at most"),
            call_parameter("ends_reciprocal", reciprocal_of(ends), "reciprocal of run_ends"),
        ),
        min_blocks=choice.min_blocks,
        sizes=KnownSizes(help=False),
    )
    points, own = domain.points(domain.every), domain.points(domain.reduced)
    guard = (fits_int32(points), ("lt", 0, own), *room.guard(), *planner.aligned(domain.flat, vec))
    grid: Formula = ("ceil_div", room.count, channels)
    shared = total(
        [
            product([room.outer, run_vectors, vec * bytes_of_inputs(planner)]),
            product([room.adds_columns, choice.threads * (vec + CENTERS) * computed.moments_bytes]),
        ]
    )
    block = (choice.threads, 1, 1)
    return [planner.variant(way, choice, guard, kernel, simplified(grid), block, shared_bytes=simplified(shared))]


def _bytes_beside(channels: Channels) -> int:
    """The bytes of one channel's values in shared memory."""
    return sum(channels.body.value(fid).dtype.bytes for fid in channels.shared)
