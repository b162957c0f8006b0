"""Channels that blocks have one each, and those of more elements than a block holds: a cluster of blocks has one.

A block copies the aligned vectors around a channel's runs to shared memory, or as many of them as others of its
cluster, and each thread combines those that it has copied itself: nobody waits but where all results meet. A thread has
what follows from those for its channel, and stores what is made of its vectors. One kernel does so for blocks alone and
for clusters. How many threads its blocks have follows from the sizes: few where channels are many, so that some blocks
compute while others wait for memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from fusebuild.ir.formula import Formula, ceil_div, product, simplified
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import (
    KernelSpec,
    KnownSizes,
    VariantSpec,
    VectorLayout,
    call_parameter,
    fits_int32,
    formula_parameter,
    kernel_parameters,
)
from fusebuild.kernels.outer_persistent.room import FEW, RUN, ChannelsChoice, Room, bytes_of_inputs, decided, is_flat
from fusebuild.kernels.pointwise.narrow import reciprocal_of

RESIDENT_BLOCKS = 3
"""Blocks with the most threads whose registers a multiprocessor shall have."""
LADDER = (64, 128, 256)
"""Threads of blocks that have less than the most."""
THREADS_AT_A_TIME = 3 * 2**15
"""Threads up to which a GPU has one for each vector: with more of them some wait for others to be done. (H200,
batchnorm_train_nchw of 277 channels of 420 vectors: 7.1 us with 512 threads, 5.8 with 256, 6.0 with 128; of 47 of 184
4.2, 3.7, 4.4; of 256 of 105 5.8, 4.7, 4.4.)"""
VECTORS = 16
"""Vectors of a thread, up to which blocks have few of them where channels are many. (H200, batchnorm_train_nchw of
12883 channels of 1114 vectors: 164 us with 256 threads, 154 with 128, 185 with 64.)"""
SHORT, FEW_CHANNELS = 32, 1024
"""Vectors of a channel that are too few for a block, where channels are not as few."""
FEW_RUN = 4
"""Neighbours in memory, at least, of a tensor of few elements."""
LONG_PIECES = 64
"""Neighbours of a channel in memory from which on a cluster has it: shorter ones are but a few vectors each. (H200,
batchnorm_train_nchw of 2112 x 896 x 12: 203 us by clusters, 50 in two kernels; of 6153 x 71 x 31 82 and 41.)"""
SOON = 2**17
"""Elements of a channel that are read soon even where clusters are few."""
MANY = 16
"""Clusters that fill a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AloneHeuristics:
    """A channel has a block of up to so many ``threads``, or a ``cluster`` of such."""

    threads: int
    cluster: int


def alone_variants(planner: Planner) -> tuple[list[VariantSpec], list[VariantSpec]]:
    """The variants for blocks, those with the most threads first, and for clusters; none where a channel's elements are
    no neighbours, or there are no clusters. Raises :class:`KnobError` for a choice that no kernel can be made with."""
    domain, vec = planner.domain, planner.vector_width(planner.domain.inner)
    if domain.inner not in domain.reduced or vec == 1 or not is_flat(planner):
        return [], []
    room = Room(planner=planner, vec=vec)
    choice = decided(planner, "alone_int32", RESIDENT_BLOCKS)
    alone = planner.variant("alone_int32", choice, (), _kernel(room, choice), room.count, (choice.threads, 1, 1))
    return [*_alone(room, alone, choice.threads)], [*_clustered(room, alone)]


def _kernel(room: Room, choice: ChannelsChoice) -> KernelSpec:
    planner, cluster = room.planner, room.planner.target.cluster
    run_vectors = simplified(room.vectors(room.inner, [room.inner]))
    clusters = (formula_parameter("cluster", 1, "blocks that share a channel and run together"),)
    return planner.kernel(
        "outer_alone",
        AloneHeuristics(threads=choice.threads, cluster=cluster),
        vec=room.vec,
        vectors=VectorLayout.SHIFTED,
        parameters=(
            *kernel_parameters(planner.task, planner.domain),
            call_parameter("run_vectors", run_vectors, "around a channel's elements of one outer index"),
            call_parameter("run_reciprocal", reciprocal_of(run_vectors), "reciprocal of run_vectors"),
            *(clusters if cluster > 1 else ()),
        ),
        min_blocks=choice.min_blocks,
        sizes=KnownSizes(help=False),
    )


def _vectors(room: Room) -> Formula:
    """Those around all runs of a channel."""
    return simplified(product([room.outer, room.vectors(room.inner, [room.inner])]))


def _alone(room: Room, alone: VariantSpec, most: int) -> Iterator[VariantSpec]:
    """``alone``, with the ``most`` threads, and with less."""
    planner, vectors = room.planner, _vectors(room)
    points = planner.domain.points(planner.domain.every)
    less_of_few = product([RUN - FEW_RUN, ("le", points, FEW)])
    (launch,) = alone.launches
    shared = simplified(product([room.vec * bytes_of_inputs(planner), vectors]))
    for threads, suits in _suiting(vectors, room.count, most).items():
        guard = (
            fits_int32(points),
            ("lt", 0, room.outer),
            ("le", simplified(product([room.vec, vectors])), room.most_of_block),
            ("ge", room.inner, simplified(("sub", room.least, less_of_few))),
            suits,
            *planner.aligned(planner.domain.flat, room.vec),
        )
        own = replace(launch, block=(threads, 1, 1), shared_bytes=shared)
        variant = replace(alone, guard=guard, launches=(own,))
        yield variant if threads == most else replace(variant, name=f"alone{threads}_int32", decision=None)


def _suiting(vectors: Formula, channels: Formula, most: int) -> dict[int, Formula]:
    """By threads, from the ``most`` on: whether a block of so many suits channels of so many ``vectors``, if one of
    more does not. All have a vector, and all blocks run at a time, or less threads would have more vectors than they
    shall; those with the fewest take all but short channels."""
    *more, fewest = most, *(each for each in reversed(LADDER) if each < most)
    suiting: dict[int, Formula] = {}
    for threads in more:
        run_at_a_time: Formula = ("le", channels, THREADS_AT_A_TIME // threads)
        has_one_each: Formula = ("min", ("lt", threads // 2, vectors), run_at_a_time)
        suiting[threads] = simplified(("max", has_one_each, ("lt", VECTORS * threads // 2, vectors)))
    suiting[fewest] = ("max", ("ge", vectors, SHORT), ("le", channels, FEW_CHANNELS))
    return suiting


def _clustered(room: Room, alone: VariantSpec) -> Iterator[VariantSpec]:
    planner, cluster = room.planner, room.planner.target.cluster
    if cluster == 1:
        return
    (launch,) = alone.launches
    *others, own = launch.kernel.parameters
    parameters = (*others, formula_parameter(own.name, cluster, own.comment))
    vectors = _vectors(room)
    elements = product([room.vec, vectors])
    few: Formula = ("max", ("le", elements, SOON), ("ge", room.count, MANY))
    guard = (
        fits_int32(planner.domain.points(planner.domain.every)),
        ("lt", 0, room.outer),
        ("ge", room.inner, LONG_PIECES),
        ("le", elements, cluster * room.most),
        few,
        *planner.aligned(planner.domain.flat, room.vec),
    )
    shared = product([room.vec * bytes_of_inputs(planner), ceil_div(vectors, cluster)])
    together = replace(
        launch,
        kernel=replace(launch.kernel, parameters=parameters),
        grid=(room.count, cluster, 1),
        cluster=cluster,
        shared_bytes=simplified(shared),
    )
    yield replace(alone, name="clustered_int32", guard=guard, launches=(together,), decision=None)
