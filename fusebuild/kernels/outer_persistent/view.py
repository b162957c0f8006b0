"""The view of outer_persistent, whose blocks have whole channels: fusebuild.kernels.outer_persistent.whole says why.

``tile0`` is what a block has of tensor 0 in shared memory, the runs of all outer indices one after another; element
``place`` of it is that of channel ``slot`` of the block's. ``of_channel4`` are the values 4 of its channels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fusebuild.ir.values import Expr
from fusebuild.kernels.common.lambdas import foldings
from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, accumulate, accumulators, join, make_view
from fusebuild.kernels.outer_persistent.channels import Channels


def outer_persistent(spec: KernelSpec) -> KernelView:
    body, kept = Body(spec), spec.domain.kept
    channels, channel = Channels.of(body), Group(name="channel", axes=kept)
    needed = body.needs_coordinates([*channels.loaded, *channels.of_channels], channel)
    return make_view(
        body, channels.exprs,
        setup=(*body.coordinates(channel, needed), *_loads(body, channels.loaded, channel)),
        sweeps=(_copy(channels), _statistics(channels), _elements(channels)),
        epilogue=Sweep(
            arrays=tuple(
                f"FUSEBUILD_SHARED({body.c_type(fid)}, of_channel{fid}, kThreads);" for fid in channels.shared
            ),
            results=(*accumulate(body, reductions(spec.task)).results, *map(body.statement, channels.own)),
            stores=(
                *(f"T{fid}[{body.offset(fid, [channel])}] = {body.own_operand(fid)};" for fid in channels.of_channels),
                *(f"of_channel{fid}[slot] = {body.variable(fid)};" for fid in channels.shared),
            ),
        ),
        extents={
            "outer": body.size(spec.domain.every[: kept[0]]),
            "channels": body.size(kept),
            "inner": body.size(spec.domain.every[kept[-1] + 1 :]),
        },
    )  # fmt: skip


def _loads(body: Body, fids: Iterable[int], channel: Group) -> Lines:
    """What is one element a channel, loaded before anything waits."""
    return tuple(body.scalar_load(fid, f"T{fid}[{body.offset(fid, [channel])}]") for fid in fids)


def _copy(channels: Channels) -> Sweep:
    """How the block's elements come to lie in shared memory: some ``loads`` at once, then as many ``stores``."""
    body, fids = channels.body, channels.read
    return Sweep(
        arrays=tuple(f"FUSEBUILD_SHARED({body.c_type(fid)}, tile{fid}, kMost);" for fid in fids),
        vector=tuple(f"{body.c_type(fid)} p{fid}[kUnroll];" for fid in fids),
        loads=tuple(f"p{fid}[u] = T{fid}[at];" for fid in fids),
        stores=tuple(f"tile{fid}[place] = p{fid}[u];" for fid in fids),
    )


def _statistics(channels: Channels) -> Sweep:
    """What a thread does with its elements of one channel."""
    body, gathered, indices = channels.body, channels.gathered, reductions(channels.body.task)
    taken = _taken(channels, channels.before, gathered.targets())
    sweep = join(
        Sweep(
            row=tuple(map(body.statement, channels.early)),
            accumulators=tuple(each.declaration() for each in foldings(body, gathered.plain)),
            element=(*taken, *map(body.statement, channels.before)),
            accumulate=accumulate(body, gathered.singly).accumulate,
            reduce=f"fb::reduce_row_of<kThreads>(width, {accumulators(body, indices)});",
        ),
        gathered.along_rows(),
    )
    return replace(sweep, accumulate=tuple(f"if (fb::is_inside(inside, k)) {line}" for line in sweep.accumulate))


def _elements(channels: Channels) -> Sweep:
    """What is computed of each element when its channel is known."""
    body = channels.body
    return Sweep(
        element=(
            *_taken(channels, channels.after, channels.others),
            *(body.scalar_load(fid, f"of_channel{fid}[slot]") for fid in channels.shared),
            *map(body.statement, channels.after),
        ),
        stores=tuple(f"T{fid}[at] = {body.own_operand(fid)};" for fid in channels.others),
    )


def _taken(channels: Channels, exprs: Iterable[Expr], targets: Iterable[int]) -> Lines:
    """The elements that ``exprs`` and ``targets`` read, from shared memory."""
    body = channels.body
    roots = body.roots(exprs, targets)
    return tuple(body.scalar_load(fid, f"tile{fid}[place]") for fid in channels.read if fid in roots)
