"""Channels of more elements than a block holds: those of a cluster of blocks, which read them once.

Each block copies as many of the aligned vectors around a channel's runs to shared memory as the others, and each thread
combines those that it has copied itself: nobody waits but where the results of all blocks meet. A thread has what
follows from those for its channel, and stores what is made of its vectors.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.formula import Formula, ceil_div, product, simplified
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import (
    KnownSizes,
    VariantSpec,
    VectorLayout,
    call_parameter,
    fits_int32,
    kernel_parameters,
)
from fusebuild.kernels.outer_persistent.room import Room, bytes_of_inputs, decided, is_flat
from fusebuild.kernels.pointwise.narrow import reciprocal_of

RESIDENT_BLOCKS = 3
"""Blocks whose registers a multiprocessor shall have: while those of one wait, others compute."""
SHORT = 2**17
"""Elements of a channel that are read soon even where clusters are few."""
MANY = 16
"""Clusters that fill a GPU."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusteredHeuristics:
    """Blocks of ``threads``, of which a ``cluster`` has a channel."""

    threads: int
    cluster: int


def clustered_variants(planner: Planner) -> list[VariantSpec]:
    """The variant for such channels; none where there are no clusters, or a channel's elements are no neighbours.
    Raises :class:`KnobError` for a choice that no kernel can be made with."""
    task, domain, cluster, way = planner.task, planner.domain, planner.target.cluster, "clustered_int32"
    vec = planner.vector_width(domain.inner)
    if cluster == 1 or domain.inner not in domain.reduced or vec == 1 or not is_flat(planner):
        return []
    choice, room = decided(planner, way, RESIDENT_BLOCKS), Room(planner=planner, vec=vec)
    run_vectors = simplified(room.vectors(room.inner, [room.inner]))
    kernel = planner.kernel(
        "outer_clustered",
        ClusteredHeuristics(threads=choice.threads, cluster=cluster),
        vec=vec,
        vectors=VectorLayout.SHIFTED,
        parameters=(
            *kernel_parameters(task, domain),
            call_parameter("run_vectors", run_vectors, "around a channel's elements of one outer index"),
            call_parameter("run_reciprocal", reciprocal_of(run_vectors), "reciprocal of run_vectors"),
        ),
        min_blocks=choice.min_blocks,
        sizes=KnownSizes(help=False),
    )
    elements = product([vec, room.outer, run_vectors])
    few: Formula = ("max", ("le", elements, SHORT), ("ge", room.count, MANY))
    guard = (
        fits_int32(domain.points(domain.every)),
        ("lt", 0, room.outer),
        ("ge", room.inner, vec),
        ("le", elements, cluster * room.most),
        few,
        *planner.aligned(domain.flat, vec),
    )
    share = ceil_div(product([room.outer, run_vectors]), cluster)
    shared = product([vec * bytes_of_inputs(planner), share])
    grid, block = product([cluster, room.count]), (choice.threads, 1, 1)
    return [planner.variant(way, choice, guard, kernel, grid, block, shared_bytes=simplified(shared))]
