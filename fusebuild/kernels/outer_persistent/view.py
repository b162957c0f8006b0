"""The view of outer_persistent, whose blocks have whole channels: fusebuild.kernels.outer_persistent.whole says why.

``tile0`` is what a block has of tensor 0 in shared memory: the aligned vectors around the runs of all outer indices,
one after another. ``of_channel4`` are the values 4 of its channels, the first one after those of a vector that begins
before its run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fusebuild.kernels.common.batches import Batch
from fusebuild.kernels.common.lambdas import foldings
from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, accumulate, accumulators, join, make_view
from fusebuild.kernels.outer_persistent.channels import Channels

IN_BLOCK = "fb::reduce_row_of<kThreads, {turn}>(width, {});"
"""How accumulators of a channel's threads meet."""


def outer_persistent(spec: KernelSpec) -> KernelView:
    channels, place = Channels.of(Body(spec)), place_of_channel
    body, extents = channels.body, extents_around(channels)
    of_one = () if extents["inner"] == "1" else (_of_one_channel(channels),)
    return make_view(
        body, channels.exprs,
        setup=setup_of_channel(channels),
        sweeps=(copied(channels), *_statistics(channels), *of_one, _elements(channels, extents["inner"])),
        epilogue=replace(
            results_of_channel(channels),
            arrays=tuple(
                f"FUSEBUILD_SHARED({body.c_type(fid)}, of_channel{fid}, {place('kThreads + kVec')});"
                for fid in channels.shared
            ),
            joint_stores=tuple(f"of_channel{fid}[{place('slot')}] = {body.variable(fid)};" for fid in channels.shared),
        ),
        extents=extents,
    )  # fmt: skip


def place_of_channel(slot: str) -> str:
    """Where a block has a value of its channel number ``slot``."""
    return f"fb::place_of_channel<kVec>({slot})"


def _channel(body: Body) -> Group:
    """The current channel."""
    return Group(name="channel", axes=body.domain.kept)


def extents_around(channels: Channels) -> dict[str, str]:
    """How many channels there are, and elements outside and inside of them."""
    body, kept = channels.body, channels.body.domain.kept
    return {
        "outer": body.size(body.domain.every[: kept[0]]),
        "channels": body.size(kept),
        "inner": body.size(body.domain.every[kept[-1] + 1 :]),
    }


def setup_of_channel(channels: Channels) -> Lines:
    """The coordinates of a channel, and what is one element of it, loaded before anything waits."""
    body, channel = channels.body, _channel(channels.body)
    needed = body.needs_coordinates([*channels.loaded, *channels.of_channels], channel)
    address = "fb::unpack(fb::load_packed_ahead<1>(T{} + {}))[0]"
    loads = (body.scalar_load(fid, address.format(fid, body.offset(fid, [channel]))) for fid in channels.loaded)
    return (*body.coordinates(channel, needed), *loads)


def results_of_channel(channels: Channels) -> Sweep:
    """What follows from a channel's reductions, and the stores of what is one element of it."""
    body, channel = channels.body, _channel(channels.body)
    return Sweep(
        results=(*accumulate(body, reductions(body.task)).results, *map(body.statement, channels.own)),
        stores=tuple(
            f"T{fid}[{body.offset(fid, [channel])}] = {body.own_operand(fid)};" for fid in channels.of_channels
        ),
    )


def copied(channels: Channels) -> Sweep:
    """How the block's vectors come to lie in shared memory."""
    body, fids = channels.body, channels.read
    return Sweep(
        arrays=tuple(tiles(body, fids)),
        loads=tuple(
            f"fb::copy_up_to<kVec>(reinterpret_cast<fb::Packed<{body.c_type(fid)}, kVec>*>(tile{fid} + vector * kVec), "
            f"T{fid} + place.at, total - place.at);"
            for fid in fids
        ),
    )


def tiles(body: Body, fids: Iterable[int], address: str = "fb::dynamic_shared<{}>()") -> Iterator[str]:
    """The addresses of what lies in shared memory of each tensor, the widest first, so that each begins aligned; the
    first at ``address``, a format of its type."""
    for fid in sorted(fids, key=lambda fid: -body.value(fid).dtype.bytes):
        c_type = body.c_type(fid)
        yield f"{c_type}* tile{fid} = {address.format(c_type)};"
        address = f"reinterpret_cast<{{}}*>(tile{fid} + vectors * kVec)"


def _statistics(channels: Channels) -> tuple[Sweep, ...]:
    """What a thread does with its elements of one channel: those of a vector, which ``loads`` take, or those at
    ``places``."""
    body, taken = channels.body, channels.gathered_from
    return tuple(
        replace(
            sweep,
            loads=tuple(vector_of_tile(body, fid, "begin + column") for fid in taken),
            load_coordinates=tuple(body.scalar_load(fid, f"v{fid}[k]") for fid in taken),
            coordinates=tuple(body.scalar_load(fid, f"tile{fid}[places[k]]") for fid in taken),
        )
        for sweep in gathering(channels, IN_BLOCK)
    )


def gathering(channels: Channels, reduce: str) -> tuple[Sweep, ...]:
    """How those elements of a batch are combined that are ``inside``, in one walk, or in two where they are moments.
    ``reduce`` is how accumulators meet, a format of those and of which ``turn`` of the kernel that is."""
    body, gathered, moments = channels.body, channels.gathered, channels.moments
    sweep = join(
        Sweep(
            row=tuple(map(body.statement, channels.early)),
            accumulators=tuple(each.declaration() for each in foldings(body, gathered.plain)),
            element=tuple(map(body.statement, channels.before)),
            accumulate=accumulate(body, gathered.singly).accumulate,
            reduce=reduce.format(accumulators(body, gathered.indices), turn=0),
        ),
        gathered.along_rows(),
    )
    sweep = replace(sweep, accumulate=tuple(f"if (fb::is_inside(inside, k)) {line}" for line in sweep.accumulate))
    return (sweep,) if moments is None else _of_moments(moments, sweep, reduce)


def _of_moments(moments: Batch, sweep: Sweep, reduce: str) -> tuple[Sweep, Sweep]:
    """A walk that adds up elements, and one that adds up squares around their mean."""
    folding, elements = moments.folding, moments.gathered
    fid, c_type, count = folding.expr.outputs[0], moments.c_type, "outer * inner"
    around, added = f"around{fid}", f"around{fid}.add({elements}, inside);"

    def met(turn: int, *parts: str) -> str:
        return reduce.format(", ".join(f"fb::accumulator<fb::Sum>({around}.{part})" for part in parts), turn=turn)

    return (
        replace(
            sweep,
            accumulators=(f"fb::AroundMean<{c_type}> {around};", f"fb::Vec<{c_type}, kVec> {elements}{{}};"),
            vector=(),
            stores=(f"{around}.gather({elements}, inside);",),
            merged=(),
            reduce=met(0, "sum", "sizes"),
            results=(f"{around}.settle({count});",),
        ),
        replace(
            sweep,
            row=(),
            accumulators=(),
            vector=(),
            stores=(added,),
            batched=(added,),
            merged=(),
            reduce=met(1, "beside", "squares"),
            results=(f"const auto {folding.accumulator} = {around}.state({count});",),
        ),
    )


def along_vectors(channels: Channels, statistics: Iterable[Sweep]) -> Iterator[Sweep]:
    """These of a channel's vectors."""
    body, taken = channels.body, channels.gathered_from
    loads = tuple(vector_of_tile(body, fid, "vector * kVec") for fid in taken)
    elements = tuple(body.scalar_load(fid, f"v{fid}[k]") for fid in taken)
    return (replace(each, loads=loads, element=(*elements, *each.element)) for each in statistics)


def elements_of_one(channels: Channels) -> Sweep:
    """What is computed of each element of the only channel."""
    body = channels.body
    taken = channels.taken(channels.after, channels.others)
    return Sweep(
        loads=tuple(vector_of_tile(body, fid, "vector * kVec") for fid in taken),
        vector=tuple(f"fb::Vec<{body.c_type(fid)}, kVec> o{fid};" for fid in channels.others),
        element=(
            *(body.scalar_load(fid, f"v{fid}[k]") for fid in taken),
            *map(body.statement, channels.after),
            *(f"o{fid}[k] = {body.own_operand(fid)};" for fid in channels.others),
        ),
        stores=tuple(f"fb::store_inside(T{fid} + place.at, o{fid}, inside);" for fid in channels.others),
    )


_BESIDE = "const fb::OfChannels<kVec> beside(place.column, inner, inner_reciprocal);"
"""The line that finds of which channels the elements of a vector are."""


def _of_one_channel(channels: Channels) -> Sweep:
    """What is computed of each element of a vector that has those of one channel; others are left out."""
    body, shared, sweep = channels.body, channels.shared, elements_of_one(channels)
    values = tuple(body.scalar_load(fid, f"beside.of_one(of_channel{fid})") for fid in shared)
    return replace(sweep, loads=(_BESIDE, "if (!beside.is_one(own)) continue;", *values, *sweep.loads))


def _elements(channels: Channels, inner: str) -> Sweep:
    """What is computed of each element of a vector that has those of several channels."""
    body, shared, sweep = channels.body, channels.shared, elements_of_one(channels)
    own = _of_columns(body, shared) if inner == "1" else _of_pieces(body, shared)
    values = tuple(body.scalar_load(fid, f"v{fid}[k]") for fid in shared)
    return replace(sweep, loads=(*sweep.loads, *own), element=(*values, *sweep.element))


def _of_columns(body: Body, fids: Sequence[int]) -> Lines:
    """What neighbouring channels have, of which each element of a vector is one's."""
    return tuple(
        f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::of_columns<kVec>(of_channel{fid}, place.column);"
        for fid in fids
    )


def _of_pieces(body: Body, fids: Sequence[int]) -> Lines:
    """What the channels have of which a vector has elements."""
    if not fids:
        return ()
    return (
        _BESIDE,
        *(f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = beside.of(of_channel{fid});" for fid in fids),
    )


def vector_of_tile(body: Body, fid: int, at: str) -> str:
    """The line that takes a vector from shared memory."""
    return (
        f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::unpack(fb::load_shared_packed<kVec>(tile{fid} + {at}));"
    )
