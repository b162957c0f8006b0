"""The view of outer_clustered: fusebuild.kernels.outer_persistent.clustered says why. ``tile0`` is what a block has of
tensor 0 in shared memory: so many of the aligned vectors around the runs of its channel."""

from __future__ import annotations

from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.view import KernelView, Sweep, accumulate, make_view
from fusebuild.kernels.outer_persistent.channels import Channels
from fusebuild.kernels.outer_persistent.view import along_vectors, copied, elements_of_one, gathering, loads_of_channel


def outer_clustered(spec: KernelSpec) -> KernelView:
    body, kept = Body(spec), spec.domain.kept
    channels, channel = Channels.of(body), Group(name="channel", axes=kept)
    needed = body.needs_coordinates([*channels.loaded, *channels.of_channels], channel)
    statistics = gathering(channels, "fb::reduce_row_in_cluster<kThreads, kCluster>(phase, {});")
    return make_view(
        body, channels.exprs,
        setup=(*body.coordinates(channel, needed), *loads_of_channel(body, channels.loaded, channel)),
        sweeps=(copied(channels), *along_vectors(channels, statistics), elements_of_one(channels)),
        epilogue=Sweep(
            results=(*accumulate(body, reductions(spec.task)).results, *map(body.statement, channels.own)),
            stores=tuple(
                f"T{fid}[{body.offset(fid, [channel])}] = {body.own_operand(fid)};" for fid in channels.of_channels
            ),
        ),
        extents={
            "outer": body.size(spec.domain.every[: kept[0]]),
            "channels": body.size(kept),
            "inner": body.size(spec.domain.every[kept[-1] + 1 :]),
        },
    )  # fmt: skip
