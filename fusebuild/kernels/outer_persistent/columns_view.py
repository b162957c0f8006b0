"""The view of outer_persistent, whose blocks may add up columns of their elements before those of a channel meet:
fusebuild.kernels.outer_persistent.columns says where. ``columns`` of the kernel says which vectors are a thread's."""

from __future__ import annotations

from dataclasses import replace

from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.common.view import KernelView, Sweep, join
from fusebuild.kernels.outer_persistent.channels import Channels
from fusebuild.kernels.outer_persistent.view import (
    copied,
    elements_of_one,
    outer_persistent,
    place_of_channel,
    tiles,
    vector_of_tile,
)


def outer_persistent_by_columns(spec: KernelSpec) -> KernelView:
    """That view, with these sweeps where a task can have columns."""
    channels, view = Channels.of(Body(spec)), outer_persistent(spec)
    if not channels.has_columns:
        return view
    return replace(view, columns=(_copied(channels), *_moments(channels), _elements(channels)))


def _copied(channels: Channels) -> Sweep:
    """How vectors come to lie in shared memory, after what threads have of columns and the means of channels."""
    moments = channels.moments
    assert moments is not None
    fid, c_type = moments.folding.expr.outputs[0], moments.c_type
    address = f"reinterpret_cast<{{}}*>(center{fid} + 2 * kThreads)"
    return replace(
        copied(channels),
        arrays=(
            f"{c_type}* places{fid} = fb::dynamic_shared<{c_type}>();",
            f"{c_type}* center{fid} = places{fid} + kThreads * kVec;",
            *tiles(channels.body, channels.read, address),
        ),
    )


def _moments(channels: Channels) -> tuple[Sweep, Sweep]:
    """A walk that adds up elements, and one that adds up what they are beside their mean, and its square."""
    body, moments = channels.body, channels.moments
    assert moments is not None
    folding, c_type, taken = moments.folding, moments.c_type, channels.gathered_from
    fid, count = folding.expr.outputs[0], "outer * inner"
    around, sums, places, center = (f"{name}{fid}" for name in ("around", "moments", "places", "center"))
    walk = join(Sweep(element=tuple(map(body.statement, channels.before))), channels.gathered.along_rows())
    walk = replace(
        walk,
        accumulators=(),
        merged=(),
        loads=tuple(vector_of_tile(body, fid, "vector * kVec") for fid in taken),
        vector=(f"fb::Vec<{c_type}, kVec> {moments.gathered};",),
        element=(*(body.scalar_load(fid, f"v{fid}[k]") for fid in taken), *walk.element),
    )

    def meeting(name: str) -> str:
        return f"columns.meet_{name}({places}, {sums}, slot, lane, width, {around});"

    def met(*parts: str) -> str:
        sums = ", ".join(f"fb::accumulator<fb::Sum>({around}.{part})" for part in parts)
        return f"fb::reduce_row_of<kThreads>(width, {sums});"

    return (
        replace(
            walk,
            accumulators=(f"fb::AroundMean<{c_type}> {around};", f"fb::ColumnMoments<{c_type}, kVec> {sums};"),
            stores=(f"{sums}.gather({moments.gathered});",),
            merged=(meeting("sums"),),
            reduce=met("sum", "sizes"),
            results=(
                f"{around}.settle({count});",
                f"if (active && lane == 0) {center}[{place_of_channel('slot')}] = {around}.mean;",
                "fb::sync_block();",
                f"{sums}.center = columns.of({center});",
            ),
        ),
        replace(
            walk,
            stores=(f"{sums}.add({moments.gathered});",),
            merged=(meeting("squares"),),
            reduce=met("beside", "squares"),
            results=(f"const auto {folding.accumulator} = {around}.state({count});",),
        ),
    )


def _elements(channels: Channels) -> Sweep:
    """What is computed of each element, of what its column has of its channel."""
    body, shared, sweep = channels.body, channels.shared, elements_of_one(channels)
    own = (f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = columns.of(of_channel{fid});" for fid in shared)
    stores = (line.replace("fb::store_inside", "fb::store_side") for line in sweep.stores)
    return replace(
        sweep,
        row=tuple(own),
        stores=tuple(stores),
        element=(*(body.scalar_load(fid, f"v{fid}[k]") for fid in shared), *sweep.element),
    )
