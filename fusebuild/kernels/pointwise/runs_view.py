"""The view of pointwise kernels whose threads have runs of neighbouring elements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import COORDINATE, Body, Group
from fusebuild.kernels.common.view import (
    KernelView,
    Lines,
    Sweep,
    is_named,
    join,
    lines_named,
    make_view,
    statements_in,
)
from fusebuild.kernels.pointwise.narrow import NarrowBody
from fusebuild.kernels.pointwise.view import Sources, elements, sources_of


def pointwise_runs(spec: KernelSpec) -> KernelView:
    """The view of threads that find once where the elements of their runs lie, and load once what all runs read."""
    domain, outputs = spec.domain, spec.task.outputs
    group = Group(name="i", axes=domain.every)
    alone = NarrowBody(spec, [group])
    flat = [fid for fid in alone.reads(outputs) if fid in domain.flat]
    others = [fid for fid in alone.reads(outputs) if fid not in flat]
    named = sources_of(alone, alone.closure(outputs), [group], ()).reads
    steady = [fid for fid in others if 0 not in domain.accesses[fid].axes and fid not in named]
    moving = [fid for fid in others if fid not in steady]
    first, placed = _RunBody(spec, group), _RunBody(spec, group, moving)
    found = sources_of(placed, placed.closure(outputs), [group], steady)
    by_row = _found_by_row(placed, found, steady)
    body = _RunBody(spec, group, moving, by_row)
    known = [*steady, *(found.positions if by_row else ())]
    vectors = {fid: f"v{fid}[u * kVec + k]" for fid in (*flat, *outputs)}
    run = join(_taken(body, steady), _without_coordinates(elements(body, [group], vectors, known)))
    rows = _rows(placed, group, found, by_row)
    kept = join(_loaded(first, group, steady), _placed(first, group, moving))
    carried, needed = _axes_named(body, [run, rows]), _axes_named(body, [run, rows, kept])
    if by_row:
        needed = [*needed, domain.inner]
    counted = range(min(needed), len(domain.axes)) if needed else range(0)
    coordinates = tuple(f"const Index i{axis} = c{axis}[u]{' + gone' if axis == 0 else ''};" for axis in carried)
    later = ("bool later[kUnroll];  // whether an access is of the next row",) if by_row else ()
    return make_view(
        body, body.closure(outputs),
        bases=first.coordinates(replace(group, name="place"), counted, counted),
        sweeps=(
            join(kept, Sweep(
                arrays=(*(f"Index c{axis}[kUnroll];" for axis in carried), *later),
                loads=(
                    *(f"c{axis}[u] = i{axis};" for axis in carried),
                    *((f"later[u] = {COORDINATE.format(domain.inner)} < u * kVec;",) if later else ()),
                    *_count_on(body, counted),
                ),
            )),
            _vectors(body, flat),
            replace(rows, coordinates=lines_named(coordinates, rows.loads)) if by_row else rows,
            replace(
                run,
                coordinates=lines_named(coordinates, statements_in(run)),
                row=tuple(line for fid in moving for line in body.advance(fid)),
            ),
            elements(alone, [group]).without_idle_coordinates(),
        ),
        extents={"total": body.size(group.axes)},
    )  # fmt: skip


class _RunBody(NarrowBody):
    """Statements about one access of a run. Where it is of the tensors ``placed`` was found before the first run."""

    def __init__(self, spec: KernelSpec, group: Group, placed: Iterable[int] = (), by_row: Iterable[int] = ()) -> None:
        super().__init__(spec, [group])
        self._placed, self._by_row = frozenset(placed), frozenset(by_row)

    def elsewhere(self, fid: int, coordinate: Callable[[int], str]) -> str:
        if fid not in self._by_row:
            return super().elsewhere(fid, coordinate)
        return f"(later[u] ? r{fid}[1] : r{fid}[0]) + u * kVec"

    def offset(self, fid: int, groups: Sequence[Group]) -> str:
        return f"o{fid}[u]" if fid in self._placed else super().offset(fid, groups)

    def _horner(self, group: Group, axes: Sequence[int]) -> str:
        """As in :class:`Body`: what is left of an index is not counted on."""
        return Body._horner(self, group, axes)

    def advance(self, fid: int) -> Lines:
        """The line that takes the address of tensor ``fid`` on to the next run, where that lies elsewhere."""
        access = self.domain.accesses[fid]
        return (f"T{fid} += {self._term(access, 0, 'int64_t(batches)')};",) if 0 in access.axes else ()


def _without_coordinates(sweep: Sweep) -> Sweep:
    return replace(sweep, load_coordinates=(), coordinates=())


def _found_by_row(body: _RunBody, found: Sources, steady: Sequence[int]) -> list[int]:
    """What an index that nothing else is computed from says where to read: a run is of two rows of that at most."""
    exprs = body.closure(body.task.outputs, [*found.loaded, *steady])
    read = body.roots(exprs, body.task.outputs)
    if any(body.root(fid) in read for fid in found.positions):
        return []
    return [fid for fid in found.own if body.domain.sources[fid].position is not None]


def _loaded(body: _RunBody, group: Group, steady: Sequence[int]) -> Sweep:
    """The loads of what is ``steady``, which all runs read."""
    return Sweep(
        arrays=tuple(f"fb::Packed<{body.c_type(fid)}, kVec> p{fid}[kUnroll];" for fid in steady),
        loads=tuple(f"p{fid}[u] = fb::load_packed<kVec>(T{fid} + {body.offset(fid, [group])});" for fid in steady),
    )


def _taken(body: _RunBody, steady: Sequence[int]) -> Sweep:
    """What was loaded so, where it is computed with."""
    return Sweep(
        vector=tuple(f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::unpack(p{fid}[u]);" for fid in steady),
        element=tuple(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in steady),
    )


def _placed(body: _RunBody, group: Group, moving: Sequence[int]) -> Sweep:
    """Where each access to tensors ``moving`` is in a thread's first run."""

    def is_near(fid: int) -> bool:
        return body.domain.has_no_gaps(body.domain.accesses[fid])

    return Sweep(
        arrays=tuple(f"{'Index' if is_near(fid) else 'int64_t'} o{fid}[kUnroll];" for fid in moving),
        loads=tuple(
            line
            for fid in moving
            for line in (
                f"o{fid}[u] = {body.offset(fid, [group])};",
                f"fb::forget_origin(o{fid}[u]);  // or it is computed for each run",
            )
        ),
    )


def _rows(body: _RunBody, group: Group, found: Sources, by_row: Sequence[int]) -> Sweep:
    """Where the rows lie that an index finds ``by_row``: that of a run's first access and that of its last one."""
    coordinate = body.within(group)
    return Sweep(
        arrays=tuple(f"const {body.c_type(fid)}* r{fid}[2];" for fid in by_row),
        loads=(
            *found.position_lines(),
            *(f"r{fid}[which] = {body.elsewhere(fid, coordinate)} - u * kVec;" for fid in by_row),
        )
        if by_row
        else (),
    )


def _vectors(body: Body, flat: Sequence[int]) -> Sweep:
    """The vectors of a run, where tensors lie as the domain does."""
    outputs = body.task.outputs
    return Sweep(
        loads=tuple(f"const fb::Vec<{body.c_type(fid)}, kRun> v{fid} = fb::load<kRun>(T{fid} + run);" for fid in flat),
        vector=tuple(f"fb::Vec<{body.c_type(fid)}, kRun> v{fid};" for fid in outputs),
        stores=tuple(f"fb::store(T{fid} + run, v{fid});" for fid in outputs),
    )


def _axes_named(body: Body, sweeps: Sequence[Sweep]) -> list[int]:
    """The axes whose coordinates ``sweeps`` name."""
    return [axis for axis in body.domain.every if is_named(COORDINATE.format(axis), statements_in(tuple(sweeps)))]


def _count_on(body: NarrowBody, counted: Sequence[int]) -> Lines:
    """The line that takes the coordinates on axes ``counted`` from an access to the next one."""
    step = "kVec"
    for axis in sorted(counted, reverse=True):
        name = COORDINATE.format(axis)
        step = f"fb::count_on({name}, {step}, {body.extents[axis]})" if axis else f"{name} += {step}"
    return (f"{step};",) if counted else ()
