"""The view of pointwise kernels, and the walk over elements that transposing kernels share with them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType

from fusebuild.ir.values import Expr
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body, Coordinates, Group
from fusebuild.kernels.common.view import KernelView, Sweep, join, make_view, with_nearest
from fusebuild.kernels.pointwise.flat import is_flat
from fusebuild.kernels.pointwise.narrow import NarrowBody
from fusebuild.kernels.pointwise.repeated import repeated_along
from fusebuild.ops.table import Kind, op_of

CLAMPED = (
    "const Index own = first + u * kThreads;",
    "const Index i = own < total ? own : total - 1;  // no load waits for a test",
)
"""The element of a thread whose neighbours have those beside it."""

NOTHING_TILED: Mapping[int, str] = MappingProxyType({})


def pointwise(spec: KernelSpec) -> KernelView:
    is_narrow = spec.index == "int32_t" and not spec.is_shifted
    is_clamped = is_narrow and spec.vec == 1
    group = Group(name="i", axes=tuple(range(len(spec.domain.axes))))
    body = NarrowBody(spec, [group]) if is_narrow else Body(spec, flat="i")
    sweep = shifted_elements(body, group) if spec.is_shifted else elements(body, [group])
    exprs = body.closure(spec.task.outputs)
    if is_clamped:
        clamped = Sweep(load_coordinates=CLAMPED, coordinates=CLAMPED)
        sweep = join(clamped, guarded(sweep, "own < total"))
    if is_narrow:
        sweep = sweep.without_idle_coordinates()
    return make_view(body, exprs, sweeps=(sweep,), extents={"total": body.size(group.axes)}, clamped=is_clamped)


def elements(
    body: Body, groups: Sequence[Group], tiled: Mapping[int, str] = NOTHING_TILED, known: Collection[int] = ()
) -> Sweep:
    """The walk over vectors of neighbouring elements: everything of a vector is loaded before any of it is computed.

    Tensors ``tiled`` are found in, and left in, tiles of shared memory that other lines fill and empty, where an
    element of each has a name. Values ``known`` are there before the walk.
    """
    spec, outputs = body.spec, body.task.outputs
    inner = spec.domain.inner
    sources = sources_of(body, body.closure(outputs, known), groups, known)
    exprs = body.closure(outputs, [*sources.loaded, *known])
    reads = [fid for fid in body.reads(outputs, [*sources.loaded, *known]) if fid not in tiled]
    moving = [fid for fid in reads if inner in spec.domain.accesses[fid].axes]
    vectors = [fid for fid in moving if body.is_vector(fid)] if spec.vec > 1 else reads
    written = [fid for fid in outputs if fid not in tiled]
    single = [fid for fid in written if spec.vec > 1 and inner not in spec.domain.accesses[fid].axes]
    stored = [fid for fid in written if fid not in single]
    strided = [fid for fid in (*moving, *stored) if body.is_by_element(fid)]
    hoisted, element = body.split(exprs, [inner]) if spec.vec > 1 else ((), body.of_tensors(exprs))
    unloaded = [fid for fid in (*reads, *written) if fid not in vectors]
    coordinate, once = body.along(*groups), {fid: _if_first(body, fid, body.within(*groups)) for fid in written}
    return Sweep(
        load_coordinates=coordinate_lines(
            body, groups, [*vectors, *sources.reads], [*sources.early, *body.closure(sources.positions, known)]
        ),
        coordinates=coordinate_lines(body, groups, unloaded, exprs, repeated_along(spec.domain, written)),
        arrays=(
            *(f"fb::Packed<{body.c_type(fid)}, kVec> p{fid}[kUnroll];" for fid in vectors),
            *(f"fb::Packed<{body.c_type(fid)}, kVec> q{fid}[kUnroll];" for fid in sources.own),
        ),
        loads=(
            *(f"p{fid}[u] = fb::load_packed<kVec>(T{fid} + {body.offset(fid, groups)});" for fid in vectors),
            *sources.position_lines(),
            *(f"q{fid}[u] = {sources.load(fid)};" for fid in sources.own),
        ),
        vector=(
            *(f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::unpack(p{fid}[u]);" for fid in vectors),
            *(f"const fb::Vec<{body.c_type(fid)}, kVec> x{fid} = fb::unpack(q{fid}[u]);" for fid in sources.own),
            *(body.scalar_load(fid, f"T{fid}[{body.offset(fid, groups)}]") for fid in reads
              if fid not in (*moving, *vectors)),
            *(body.statement(expr, coordinate) for expr in hoisted),
            *(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid};" for fid in stored if fid not in strided),
        ),
        element=(
            *(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in vectors),
            *(f"const {body.c_type(fid)} t{fid} = x{sources.along.get(fid, fid)}[k];" for fid in sources.loaded),
            *(f"const {body.c_type(fid)} t{fid} = {place};" for fid, place in tiled.items() if fid not in outputs),
            *(body.strided_load(fid, groups) for fid in moving if fid in strided),
            *(body.statement(expr, coordinate) for expr in element),
            *(f"{tiled[fid]} = {body.own_operand(fid)};" for fid in outputs if fid in tiled),
            *(body.element_store(fid, fid in strided, groups) for fid in stored),
        ),
        stores=(
            *(f"{once[fid]}fb::store(T{fid} + {body.offset(fid, groups)}, v{fid});"
              for fid in stored if fid not in strided),
            *(f"{once[fid]}T{fid}[{body.offset(fid, groups)}] = {body.own_operand(fid)};" for fid in single),
        ),
    )  # fmt: skip


def _if_first(body: Body, fid: int, coordinate: Coordinates, *given: str) -> str:
    """The test that one thread passes of those which have output ``fid``, the first along the axes that it lacks, where
    what is ``given`` holds, too; nothing where there is no test to be made."""
    tests = [*given, *(f"{coordinate(axis)} == 0" for axis in sorted(repeated_along(body.domain, [fid])))]
    return f"if ({' && '.join(tests)}) " if tests else ""


def guarded(sweep: Sweep, condition: str) -> Sweep:
    """``sweep``, which stores where the ``condition`` holds."""
    return replace(sweep, stores=tuple(f"if ({condition}) {store}" for store in sweep.stores))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moved:
    """How shifted vectors of flat tensors move: the functions of the device header, and what those are told."""

    array: str
    load: str
    store: str
    how: str
    unpacked: str = ""


_UP_TO_THE_END = _Moved(array="Packed", load="load_packed_up_to", store="store_up_to", how="total - i")
"""The last one has what there is of it."""
_ALL_OR_ONE = _Moved(
    array="AllOrOne", load="load_all_or_one", store="store_all_or_one", how="alone", unpacked=", alone"
)
"""Each element beside the whole ones is another thread's (:mod:`fusebuild.kernels.pointwise.flat`)."""


def shifted_elements(body: Body, group: Group) -> Sweep:
    """The walk over vectors of neighbouring elements that may be of two rows, and of which the last one may be cut off.

    Vectors of flat tensors are loaded before any is computed. What changes along rows alone is loaded around a row's
    end. The rest is read at the coordinates of each element.
    """
    domain, outputs = body.domain, body.task.outputs
    every, inner = tuple(range(len(domain.axes))), domain.inner
    exprs, reads = body.closure(outputs), body.reads(outputs)
    dense = {*domain.flat}
    flat = [fid for fid in reads if fid in dense]
    rings = [fid for fid in reads if domain.accesses[fid].axes == (inner,) and body.is_vector(fid) and inner > 0]
    steady = [fid for fid in reads if not domain.accesses[fid].axes]
    single = [fid for fid in reads if fid not in (*flat, *rings, *steady)]
    wide = [fid for fid in outputs if fid in dense]
    strided = [fid for fid in outputs if fid not in wide]
    element = Group(name="at", axes=group.axes) if group.axes == (inner,) else group
    read = body.coordinate_axes(exprs)
    counted = body.needs_coordinates([*single, *strided], element) | read | repeated_along(domain, outputs)
    walked = {axis for axis in every if axis >= min(counted)} if counted and inner > 0 else set()
    hoisted, moving = body.split(exprs, every)
    value = {fid: body.own_operand(fid) for fid in outputs}
    around = f"i{inner}, Index({body.extents[inner]})"
    own = (
        *(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in (*flat, *rings)),
        *(body.scalar_load(fid, f"T{fid}[{body.offset(fid, [element])}]") for fid in single),
        *(body.statement(expr, body.within(element)) for expr in moving),
        *(f"v{fid}[k] = {value[fid]};" for fid in wide),
        *(
            f"{_if_first(body, fid, body.within(element), 'i + k < total')}"
            f"T{fid}[{body.offset(fid, [element])}] = {value[fid]};"
            for fid in strided
        ),
    )
    moved = _ALL_OR_ONE if is_flat(body.task, domain) else _UP_TO_THE_END
    return Sweep(
        arrays=tuple(f"fb::{moved.array}<{body.c_type(fid)}, kVec> p{fid}[kUnroll];" for fid in flat),
        loads=tuple(f"p{fid}[u] = fb::{moved.load}<kVec>(T{fid} + i, {moved.how});" for fid in flat),
        coordinates=body.coordinates(group, walked | ({inner} if rings else set()), walked),
        vector=(
            *(f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::unpack(p{fid}[u]{moved.unpacked});"
              for fid in flat),
            *(f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::load_around<kVec>(T{fid}, {around});"
              for fid in rings),
            *(body.scalar_load(fid, f"T{fid}[0]") for fid in steady),
            *(body.statement(expr) for expr in hoisted),
            *(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid};" for fid in wide),
        ),
        element=(*with_nearest(own, "i", "total"), *_count_on(body, walked)),
        stores=tuple(f"fb::{moved.store}(T{fid} + i, v{fid}, {moved.how});" for fid in wide),
    )  # fmt: skip


def _count_on(body: Body, walked: Collection[int]) -> tuple[str, ...]:
    """The line that takes the coordinates ``walked`` to the next element; those of the last one stay."""
    text = ""
    for axis in sorted(walked):
        outer = f" {text}" if text else ""
        wrapped = f"if (++i{axis} == Index({body.extents[axis]})) {{ i{axis} = 0;{outer} }}"
        text = f"++i{axis};" if axis == 0 else wrapped
    return (f"if (i + k + 1 < total) {{ {text} }}",) if text else ()


def coordinate_lines(
    body: Body, groups: Sequence[Group], accessed: Collection[int], exprs: Sequence[Expr], also: Set[int] = frozenset()
) -> tuple[str, ...]:
    """Lines that take the groups' indices apart as far as the accesses and index ops among ``exprs`` need it, and on
    the axes ``also``."""
    read = body.coordinate_axes(exprs) | also
    return tuple(
        line
        for group in groups
        for line in body.coordinates(group, body.needs_coordinates(accessed, group) | (read & {*group.axes}))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """The index ops ``early`` read whole vectors, with the inputs and before anything is computed but the positions
    where they read, as far as those are not ``known``."""

    body: Body
    groups: tuple[Group, ...]
    early: tuple[Expr, ...]
    known: frozenset[int]

    @property
    def loaded(self) -> tuple[int, ...]:
        return tuple(expr.outputs[0] for expr in self.early)

    @property
    def along(self) -> Mapping[int, int]:
        """The ops whose vectors come in the place of another one's, by which that is."""
        found = ((self.body.goes_on(fid), fid) for fid in self.loaded)
        return {later: earlier for later, earlier in found if later in self.loaded and later is not None}

    @property
    def own(self) -> tuple[int, ...]:
        """The ops whose vectors are loaded in places of their own."""
        return tuple(fid for fid in self.loaded if fid not in self.along)

    @property
    def positions(self) -> tuple[int, ...]:
        """The values that say where they read."""
        found = (self.body.domain.sources[fid].position for fid in self.loaded)
        return tuple(dict.fromkeys(position.index for position in found if position is not None))

    @property
    def reads(self) -> tuple[int, ...]:
        """The tensors that tell the positions."""
        return self.body.reads(self.positions, self.known)

    def position_lines(self) -> tuple[str, ...]:
        """The lines that find the positions."""
        body, coordinate = self.body, self.body.within(*self.groups)
        exprs = body.of_tensors(body.closure(self.positions, self.known))
        return (
            *(body.scalar_load(fid, f"T{fid}[{body.offset(fid, self.groups)}]") for fid in self.reads),
            *(body.statement(expr, coordinate) for expr in exprs),
        )

    def load(self, fid: int) -> str:
        """The vector that the index op with the result ``fid`` reads, or the one that goes on where that ends."""
        coordinate = self.body.within(*self.groups)
        load = f"fb::load_packed<kVec>({self.body.elsewhere(fid, coordinate)})"
        if fid in self.along.values():
            return load
        return self.body.bounded(fid, coordinate, load, f"fb::pack(fb::splat<kVec>({self.body.fill(fid)}))")


def sources_of(body: Body, exprs: Sequence[Expr], groups: Sequence[Group], known: Collection[int]) -> Sources:
    inner = body.domain.inner
    early = list[Expr]()
    for expr in exprs:
        access = body.domain.sources.get(expr.outputs[0])
        if op_of(expr).kind is not Kind.INDEX or access is None or body.domain.unit_stride(access, inner) is None:
            continue
        if access.position is None or inner not in body.axes_of(access.position.index):
            early.append(expr)
    return Sources(body=body, groups=tuple(groups), early=tuple(early), known=frozenset(known))
