"""The view of outer_alone: fusebuild.kernels.outer_persistent.alone says why. ``tile0`` is what a block has of tensor 0
in shared memory: so many of the aligned vectors around the runs of its channel."""

from __future__ import annotations

from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.common.view import KernelView, make_view
from fusebuild.kernels.outer_persistent.alone import AloneHeuristics
from fusebuild.kernels.outer_persistent.channels import Channels
from fusebuild.kernels.outer_persistent.view import (
    along_vectors,
    copied,
    elements_of_one,
    extents_around,
    gathering,
    results_of_channel,
    setup_of_channel,
)

ALONE = "fb::reduce_block_of<kMostThreads, {turn}>(threads, {});"
ALONE_OR_TOGETHER = "fb::reduce_alone_or_together<kMostThreads, kCluster, {turn}>(phase, cluster, {});"
"""How accumulators meet."""


def outer_alone(spec: KernelSpec) -> KernelView:
    heuristics, channels = spec.heuristics, Channels.of(Body(spec))
    assert isinstance(heuristics, AloneHeuristics)
    statistics = gathering(channels, ALONE_OR_TOGETHER if heuristics.cluster > 1 else ALONE)
    return make_view(
        channels.body, channels.exprs,
        setup=setup_of_channel(channels),
        sweeps=(copied(channels), *along_vectors(channels, statistics), elements_of_one(channels)),
        epilogue=results_of_channel(channels),
        extents=extents_around(channels),
    )  # fmt: skip
