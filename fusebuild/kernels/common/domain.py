"""The canonical iteration domain of a task: which loops its tensors share, merged to as few axes as memory allows.

Dims that must be walked together form one **loop** (nvFuser: an iteration domain in one exact-map group). Loops get one
order that every tensor agrees with. Neighbouring loops merge into one **axis** when every tensor in global memory steps
through them as through one dim. Schedulers then see ``rows x cols`` whatever the rank was.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import TypeAlias

from fusebuild.ir.formula import Formula, product
from fusebuild.ir.fusion import Task
from fusebuild.ir.types import TensorType
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.storage import Position, Storage, bases_read, hidden, operands, scatters
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.ops.indexing import permutation_of
from fusebuild.ops.table import Kind, op_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One loop: its extent, and the reductions, scans and sorts (indices of exprs) that run over it."""

    extent: Formula
    walkers: frozenset[int]

    @property
    def reduced(self) -> bool:
        """Whether some reduction, scan or sort runs over the loop."""
        return bool(self.walkers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Loops in order, and for each tensor value the loop of each of its dims (None where the dim has size 1).

    ``reordered`` are values whose dims come in another order than the loops.
    """

    loops: tuple[Loop, ...]
    dims: dict[int, tuple[int | None, ...]]
    reordered: frozenset[int] = frozenset()

    def varying(self, fid: int, type_: TensorType) -> frozenset[int]:
        """The loops along which the value ``fid`` changes: its dims that are no broadcast."""
        pairs = zip(self.dims[fid], type_.contiguity, strict=True)
        return frozenset(loop for loop, flag in pairs if loop is not None and flag is not None)


class _Loops:
    """Union-find over ``(fid, dim)``."""

    def __init__(self) -> None:
        self._parent: dict[tuple[int, int], tuple[int, int]] = {}

    def find(self, key: tuple[int, int]) -> tuple[int, int]:
        self._parent.setdefault(key, key)
        while self._parent[key] != key:
            self._parent[key] = self._parent[self._parent[key]]
            key = self._parent[key]
        return key

    def join(self, a: tuple[int, int], b: tuple[int, int]) -> None:
        a, b = self.find(a), self.find(b)
        self._parent[max(a, b)] = min(a, b)


def domain_of(task: Task) -> Domain:
    """The iteration domain of ``task``, whose exprs must be primitive (after the ``decompose`` pass).

    Loops come in the order of the first output; tensors that disagree are ``reordered``. Raises :class:`UnfitError`
    when a loop cannot be placed.
    """
    loops, walked = _Loops(), dict[tuple[int, int], set[int]]()
    fids = _tensor_fids(task)
    for index, expr in zip(task.exprs, task.steps, strict=True):
        for a, b in _same_loop(task, expr):
            loops.join(a, b)
        if op_of(expr).kind in (Kind.REDUCTION, Kind.SCAN, Kind.ORDER):
            for key in walked_dims(task, expr):
                walked.setdefault(key, set()).add(index)
    shapes = {fid: task.fusion.value(fid).tensor.shape for fid in fids}
    unwalked = _unwalked(task)
    own_dims = {
        fid: [(dim, extent) for dim, extent in enumerate(shape) if (fid, dim) not in unwalked]
        for fid, shape in shapes.items()
    }
    _join_parallel_loops(own_dims, loops)
    walkers: dict[tuple[int, int], set[int]] = {}
    for key, indices in walked.items():
        walkers.setdefault(loops.find(key), set()).update(indices)
    chains = {fid: [loops.find((fid, dim)) for dim, extent in own if extent != 1 or (fid, dim) in walked]
              for fid, own in own_dims.items()}  # fmt: skip
    order, reordered = _common_order(chains, task.outputs, {*walkers})
    position = {loop: index for index, loop in enumerate(order)}
    extents = {loops.find((fid, dim)): extent for fid, own in own_dims.items() for dim, extent in own}
    return Domain(
        loops=tuple(Loop(extent=extents[loop], walkers=frozenset(walkers.get(loop, ()))) for loop in order),
        dims={
            fid: tuple(
                position.get(loops.find((fid, dim))) if extent != 1 and (fid, dim) not in unwalked else None
                for dim, extent in enumerate(shape)
            )
            for fid, shape in shapes.items()
        },
        reordered=reordered,
    )


def walked_dims(task: Task, expr: Expr) -> tuple[tuple[int, int], ...]:
    """``(fid, dim)`` of the operands' dims that a reduction, scan or sort runs over; of size 1 only where all are."""
    dims = expr.dims if op_of(expr).kind is Kind.REDUCTION else (expr.attribute("dim"),)
    tensors = [fid for fid in expr.inputs if task.fusion.value(fid).is_tensor]
    long = [(fid, dim) for dim in dims for fid in tensors if task.fusion.value(fid).tensor.shape[dim] != 1]
    return tuple(long or [(tensors[0], dim) for dim in dims])


def _tensor_fids(task: Task) -> tuple[int, ...]:
    seen: dict[int, None] = {}
    for expr in task.steps:
        seen.update((fid, None) for fid in (*operands(expr), *expr.outputs) if task.fusion.value(fid).is_tensor)
    seen |= dict.fromkeys(bases_read(task))
    unseen = hidden(task)
    return tuple(fid for fid in seen if fid not in unseen)


def _unwalked(task: Task) -> frozenset[tuple[int, int]]:
    """``(fid, dim)`` of what scatters write to and write: an index, and no loop, says where along that dim."""
    return frozenset((fid, expr.attribute("dim")) for expr in scatters(task) for fid in (expr.inputs[0], *expr.outputs))


def _scattered_together(task: Task, expr: Expr) -> Iterable[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of dims that a scatter walks by one loop: those of updates and index, and those of what it writes to but
    the one that the index is about."""
    base, index, src = expr.inputs
    for dim in range(task.fusion.value(index).tensor.rank):
        yield (index, dim), (src, dim)
        if dim != expr.attribute("dim"):
            yield (src, dim), (expr.outputs[0], dim)
            yield (base, dim), (expr.outputs[0], dim)


def _same_loop(task: Task, expr: Expr) -> Iterable[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of dims of ``expr``'s operands and results that are walked by one loop."""
    op = op_of(expr)
    if not task.fusion.value(expr.outputs[0]).is_tensor or op.kind is Kind.CREATION:
        return
    if op.kind is Kind.SCATTER:
        yield from _scattered_together(task, expr)
        return
    shapes = {fid: value.tensor.shape for fid in (*operands(expr), *expr.outputs)
              if (value := task.fusion.value(fid)).is_tensor}  # fmt: skip
    tensors = [fid for fid in operands(expr) if fid in shapes]
    for index, fid in enumerate(tensors):
        own = shapes[fid]
        for source, target in _dim_pairs(expr, op.kind, len(own)):
            for result in expr.outputs:
                if own[source] == shapes[result][target]:
                    yield (fid, source), (result, target)
        for other in tensors[:index] if op.kind is Kind.REDUCTION else ():
            yield from (((other, dim), (fid, dim)) for dim in expr.dims if own[dim] == shapes[other][dim] != 1)


def _dim_pairs(expr: Expr, kind: Kind, rank: int) -> Iterable[tuple[int, int]]:
    """``(operand dim, result dim)`` pairs."""
    if expr.op == "broadcast":
        return enumerate(at for at, is_new in enumerate(expr.attribute("is_broadcast_dim")) if not is_new)
    if expr.op == "permute":
        return ((source, target) for target, source in enumerate(permutation_of(dict(expr.attributes), rank)))
    if expr.op == "take":
        return ((source, source + expr.attribute("dim")) for source in range(rank))
    if expr.op == "squeeze" or kind is Kind.REDUCTION:
        kept = [dim for dim in range(rank) if dim not in expr.dims]
        return ((dim, position) for position, dim in enumerate(kept))
    return ((dim, dim) for dim in range(rank))


_Key: TypeAlias = tuple[int, int]


def _join_parallel_loops(dims: Mapping[int, Sequence[tuple[int, Formula]]], loops: _Loops) -> None:
    """Join loops of equal extent that follow the same loops and never meet in one tensor. ``dims`` are those of each
    tensor that loops walk, with their extents.

    A row statistic of ``x[M, N]`` applied to ``y[M, N]`` walks two loops of extent N; nothing ties them but their
    place. One loop nest can run both, which is what makes such a pair one kernel.
    """
    while not _ParallelLoops(dims, loops).join_all():
        pass


class _ParallelLoops:
    """The loops of a task in order, what each follows, and which meet in one tensor."""

    def __init__(self, dims: Mapping[int, Sequence[tuple[int, Formula]]], loops: _Loops) -> None:
        self._loops = loops
        self._extents: dict[_Key, Formula] = {}
        self._before: dict[_Key, set[_Key]] = {}
        self._after: dict[_Key, set[_Key]] = {}
        self._together: dict[_Key, set[_Key]] = {}
        for fid, own in dims.items():
            self._add([(loops.find((fid, dim)), extent) for dim, extent in own if extent != 1])

    def _add(self, chain: Sequence[tuple[_Key, Formula]]) -> None:
        keys = [loop for loop, _ in chain]
        for index, (loop, extent) in enumerate(chain):
            self._extents.setdefault(loop, extent)
            self._before.setdefault(loop, set()).update(keys[:index])
            self._together.setdefault(loop, set()).update(keys)
            for other in keys[:index]:
                self._after.setdefault(other, set()).add(loop)

    def join_all(self) -> bool:
        """Join each loop with the first in its place. False where a join changed what an earlier loop follows: then
        all has to be looked at again."""
        position = {loop: index for index, loop in enumerate(self._extents)}
        places: dict[tuple[Formula, frozenset[_Key]], _Key] = {}
        for loop, extent in self._extents.items():
            place = (extent, frozenset(self._before[loop]))
            first = places.setdefault(place, loop)
            if first == loop or loop in self._together[first]:
                continue
            kept, gone = min(first, loop), max(first, loop)
            followers = self._after.get(gone, set())
            self._loops.join(first, loop)
            if kept == loop or any(position[follower] <= position[loop] for follower in followers):
                return False
            self._rename(gone, kept)
        return True

    def _rename(self, gone: _Key, kept: _Key) -> None:
        """The loop ``gone`` is ``kept`` now, in whose place it was."""
        for leader in self._before[gone]:
            self._after[leader].discard(gone)
        for follower in self._after.pop(gone, ()):
            self._before[follower].discard(gone)
            self._before[follower].add(kept)
            self._after.setdefault(kept, set()).add(follower)
        for other in self._together.pop(gone) - {gone}:
            self._together[other].discard(gone)
            self._together[other].add(kept)
            self._together[kept].add(other)


def _common_order(
    chains: Mapping[int, Sequence[_Key]], first: Sequence[int], reduced: set[_Key]
) -> tuple[tuple[_Key, ...], frozenset[int]]:
    """One order of all loops, earliest fid first among equals, and the fids whose chains disagree with it.

    Where chains contradict each other, those of the fids ``first`` count, and then the earlier ones.
    """
    for chain in chains.values():
        if len(set(chain)) < len(chain):
            raise UnfitError("a tensor walks one loop with two of its dims")
    order = _sorted_loops(chains.values(), reduced)
    if order is not None:
        return order, frozenset()
    agreed: dict[int, Sequence[_Key]] = {fid: [] for fid in chains}
    disagree: set[int] = set()
    for fid in (*first, *(fid for fid in chains if fid not in first)):
        tried = agreed | {fid: chains[fid]}
        if _sorted_loops(tried.values(), reduced) is None:
            disagree.add(fid)
        else:
            agreed = tried
    alone = [[loop] for chain in chains.values() for loop in chain]
    order = _sorted_loops([*agreed.values(), *alone], reduced)
    assert order is not None
    return order, frozenset(disagree)


def _sorted_loops(chains: Iterable[Sequence[_Key]], reduced: set[_Key]) -> tuple[_Key, ...] | None:
    """The loops of ``chains`` in an order that all agree with; None when there is none."""
    sorter = TopologicalSorter[_Key]()
    for chain in chains:
        for loop in chain[:1]:
            sorter.add(loop)
        for first, second in pairwise(chain):
            sorter.add(second, first)
    try:
        sorter.prepare()
    except CycleError:
        return None
    order, ready = list[_Key](), list[tuple[bool, _Key]]()
    while sorter.is_active():
        for loop in sorter.get_ready():
            heapq.heappush(ready, (loop in reduced, loop))
        order.append(heapq.heappop(ready)[1])
        sorter.done(order[-1])
    return tuple(order)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One or more loops walked as one. ``loops`` are indices into the domain, ascending."""

    extent: Formula
    loops: tuple[int, ...]
    reduced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a tensor in global memory is stepped through, in elements.

    ``strides`` has those of the axes along which the tensor changes, ascending, None where the stride is known only at
    run time; ``dims`` the tensor's dim whose stride each of them is. The rest is as in :class:`Storage`, with
    ``bounds`` by axes. ``pointer`` is what kernels call the tensor's address.
    """

    fid: int
    strides: Mapping[int, Formula | None]
    dims: Mapping[int, int | None]
    tensor: int
    pointer: str
    offset: Formula = 0
    bounds: tuple[tuple[int, Formula, Formula], ...] = ()
    fill: int | None = None
    position: Position | None = None

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which the tensor changes."""
        return tuple(self.strides)

    @property
    def formulas(self) -> tuple[tuple[str, Formula], ...]:
        """The sizes that its address is computed from beside the extents of axes and the strides, as kernels name
        them."""
        found: list[tuple[str, Formula]] = [(f"{self.pointer}_offset", self.offset)]
        for axis, first, end in self.bounds:
            found += [(f"{self.pointer}_first{axis}", first), (f"{self.pointer}_end{axis}", end)]
        if self.position is not None:
            found += [(f"{self.pointer}_size", self.position.size), (f"{self.pointer}_stride", self.position.stride)]
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisDomain:
    """A domain with merged axes, the access of every tensor of global memory that is read as it is or written, and
    where the results of index ops are read from."""

    domain: Domain
    axes: tuple[Axis, ...]
    accesses: dict[int, Access]
    sources: dict[int, Access]

    @property
    def inner(self) -> int:
        """The innermost axis."""
        return len(self.axes) - 1

    @property
    def every(self) -> tuple[int, ...]:
        """All axes."""
        return tuple(range(len(self.axes)))

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that nothing is reduced or scanned along."""
        return tuple(index for index, axis in enumerate(self.axes) if not axis.reduced)

    @property
    def reduced(self) -> tuple[int, ...]:
        """The axes that something is reduced or scanned along."""
        return tuple(index for index, axis in enumerate(self.axes) if axis.reduced)

    @property
    def kept_loops(self) -> set[int]:
        """The loops of the axes that nothing is reduced or scanned along."""
        return {loop for axis in self.axes if not axis.reduced for loop in axis.loops}

    @property
    def flat(self) -> tuple[int, ...]:
        """Tensors that are dense over the whole domain: the element at a linear index of it lies there in memory."""
        accesses = self.accesses.items()
        return tuple(fid for fid, access in accesses if self.is_dense_over(access, self.every))

    @property
    def extent_names(self) -> tuple[str, ...]:
        """How kernels write each axis's extent: ``n0``, ``n1``, …, or the number itself when it is a constant."""
        extents = [axis.extent for axis in self.axes]
        return tuple(str(extent) if isinstance(extent, int) else f"n{at}" for at, extent in enumerate(extents))

    def points(self, axes: Iterable[int]) -> Formula:
        """The number of points of ``axes``."""
        return product([self.axes[axis].extent for axis in axes])

    def dense_along(self, axis: int) -> tuple[int, ...]:
        """Tensors that can be accessed by vectors along ``axis``: their elements are neighbours along it."""
        return tuple(fid for fid, access in self.accesses.items() if self.unit_stride(access, axis) is not None)

    @property
    def vector_sources(self) -> list[Access]:
        """What index ops read by vectors: elements that are neighbours along the innermost axis."""
        return [access for access in self.sources.values() if self.unit_stride(access, self.inner) is not None]

    def axes_of(self, fid: int, type_: TensorType) -> frozenset[int]:
        """The axes along which a value changes."""
        varying = self.domain.varying(fid, type_)
        return frozenset(index for index, axis in enumerate(self.axes) if varying & {*axis.loops})

    def dims_of(self, fid: int) -> tuple[int | None, ...]:
        """The axis of each dim of a value; None where the dim has size 1 or nothing in memory changes along it."""
        axis_of = {loop: index for index, axis in enumerate(self.axes) for loop in axis.loops}
        return tuple(None if loop is None else axis_of.get(loop) for loop in self.domain.dims[fid])

    def is_contiguous(self, access: Access) -> bool:
        """True when the tensor is dense over the axes along which it changes, in their order, from its first element
        on."""
        running: Formula = 1
        for axis in reversed(access.axes):
            if access.strides[axis] != running:
                return False
            running = product([self.axes[axis].extent, running])
        return access.offset == 0 and not access.bounds and access.position is None

    def is_dense_over(self, access: Access, axes: tuple[int, ...]) -> bool:
        """True when the tensor changes along ``axes``, in that order and along no other, and is dense over them."""
        return access.axes == axes and self.is_contiguous(access)

    def fills_memory(self, access: Access) -> bool:
        """True when the tensor's elements lie side by side, from its first one on, in whatever order of axes."""
        return self.has_no_gaps(access) and access.offset == 0 and not access.bounds and access.position is None

    def has_no_gaps(self, access: Access) -> bool:
        """True when the elements that are read lie side by side, in whatever order of axes and wherever they begin."""
        running: Formula = 1
        left = {*access.axes}
        while left:
            axis = next((axis for axis in left if access.strides[axis] == running), None)
            if axis is None:
                return False
            left.remove(axis)
            running = product([self.axes[axis].extent, running])
        return True

    def lies_as_the_domain(self, access: Access) -> bool:
        """True when the elements that are read lie in the order of the domain's points, wherever they begin."""
        own = replace(access, offset=0, bounds=(), position=None)
        return access.axes == self.every and access.position is None and self.is_contiguous(own)

    def unit_stride(self, access: Access, axis: int) -> tuple[Formula, ...] | None:
        """For a tensor whose elements are neighbours along ``axis``, the distances that have to be multiples of a
        vector's length, beside the extent of ``axis`` and the strides that are known only at run time, which
        ``aligned`` asks for; None for any other tensor."""
        if access.strides.get(axis) != 1:
            return None
        if self.is_contiguous(access):
            return ()
        strides = [stride for other in access.axes if other != axis and (stride := access.strides[other]) is not None]
        bounds = [bound for bounded, *both in access.bounds if bounded == axis for bound in both]
        taken = [access.position.stride] if access.position is not None else []
        distances = dict.fromkeys([*strides, *bounds, *taken, *_magnitudes(access.offset)])
        return tuple(distance for distance in distances if not self._has_factor(distance, axis))

    def _has_factor(self, distance: Formula, axis: int) -> bool:
        """Whether ``distance`` is a multiple of the extent of ``axis``."""
        extent = self.axes[axis].extent
        factors = distance[1:] if isinstance(distance, tuple) and distance[0] == "mul" else (distance,)
        return distance == 0 or extent in factors


def _magnitudes(offset: Formula) -> list[Formula]:
    """The terms of ``offset`` without their signs."""
    terms = offset[1:] if isinstance(offset, tuple) and offset[0] == "add" else (offset,)
    return [
        abs(term)
        if isinstance(term, int)
        else product(term[2:])  # type: ignore[arg-type]
        if isinstance(term, tuple) and term[:2] == ("mul", -1)
        else term  # type: ignore[misc]
        for term in terms
    ]


def merge_axes(task: Task, domain: Domain, own: Mapping[int, Storage], elsewhere: Mapping[int, Storage]) -> AxisDomain:
    """``domain`` with loops merged into axes wherever every value in memory, its ``own`` or ``elsewhere``, allows it.

    A reduced loop merges only with one that the same reductions run over. The loops of an ``iota``, of a sorted dim and
    of what has bounds stay alone, since their coordinates are read, and so do those along which updates are scattered;
    those of a ``linear_index`` merge as if it were in memory. Loops along which nothing in memory changes (those of an
    expand that is stored compactly) are dropped, but for those of updates.
    """
    pointers = {fid: f"{'T' if storage.tensor == fid else 'X'}{fid}" for fid, storage in own.items()}
    memory = {pointers[fid]: (fid, storage) for fid, storage in own.items()}
    memory |= {f"X{fid}": (fid, storage) for fid, storage in elsewhere.items()}
    strides = {pointer: _loop_strides(domain, *stored) for pointer, stored in memory.items()}
    scattered = {domain.dims[expr.inputs[2]][expr.attribute("dim")] for expr in scatters(task)}
    moving = _moving([*strides.values(), *_linear_strides(task, domain)])
    changing = _moving(strides.values()).keys() | scattered
    walked = [at for at, loop in enumerate(domain.loops) if loop.reduced or at in changing]
    groups = _merged(domain, walked, moving, _counted(task, domain, elsewhere) | scattered)
    axis_of = {loop: axis for axis, group in enumerate(groups) for loop in group}
    innermost = {group[-1]: axis for axis, group in enumerate(groups)}

    def access(pointer: str) -> Access:
        fid, storage = memory[pointer]
        steps = sorted((innermost[loop], step) for loop, step in strides[pointer].items()
                       if loop in innermost and step[0] != 0)  # fmt: skip
        bounded = ((domain.dims[fid][dim], first, end) for dim, first, end in storage.bounds)
        return Access(
            fid=fid,
            strides={axis: stride for axis, (stride, _) in steps},
            dims={axis: dim for axis, (_, dim) in steps},
            tensor=storage.tensor,
            pointer=pointer,
            offset=storage.offset,
            bounds=tuple((axis_of[loop], first, end) for loop, first, end in bounded if loop is not None),
            fill=storage.fill,
            position=storage.position,
        )

    return AxisDomain(
        domain=domain,
        axes=tuple(
            Axis(
                extent=product([domain.loops[loop].extent for loop in group]),
                loops=tuple(group),
                reduced=domain.loops[group[0]].reduced,
            )
            for group in groups
        ),
        accesses={fid: access(pointers[fid]) for fid in own},
        sources={fid: access(f"X{fid}") for fid in elsewhere},
    )


_LoopStrides: TypeAlias = "dict[int, tuple[Formula | None, int | None]]"


def _counted(task: Task, domain: Domain, elsewhere: Mapping[int, Storage]) -> set[int | None]:
    """The loops whose coordinates are read."""
    sorts = [expr for expr in task.steps if op_of(expr).kind is Kind.ORDER]
    return {
        *(loop for expr in task.steps if expr.op == "iota" for loop in domain.dims[expr.outputs[0]]),
        *(domain.dims[fid][expr.attribute("dim")] for expr in sorts for fid in expr.outputs),
        *(domain.dims[fid][dim] for fid, storage in elsewhere.items() for dim, _, _ in storage.bounds),
    }


def _merged(
    domain: Domain, walked: Iterable[int], moving: Mapping[int, Sequence[_LoopStrides]], alone: set[int | None]
) -> list[list[int]]:
    """The loops that are ``walked``, neighbours that merge together; those ``alone`` merge with none."""
    groups: list[list[int]] = []
    for loop in walked:
        previous = groups[-1][-1] if groups else None
        if previous is not None and not {previous, loop} & alone and _merges(domain, moving, previous, loop):
            groups[-1].append(loop)
        else:
            groups.append([loop])
    return groups


def _moving(strides: Iterable[_LoopStrides]) -> dict[int, list[_LoopStrides]]:
    """For each loop those of ``strides`` that change along it."""
    found: dict[int, list[_LoopStrides]] = {}
    for own in strides:
        for loop, (stride, _) in own.items():
            if stride != 0:
                found.setdefault(loop, []).append(own)
    return found


def _loop_strides(domain: Domain, fid: int, storage: Storage) -> _LoopStrides:
    """Loop to ``(stride, dim)`` of one value; loops it does not have are left out."""
    steps = zip(domain.dims[fid], storage.strides, strict=True)
    return {loop: (stride, dim) for dim, (loop, stride) in enumerate(steps) if loop is not None}


def _linear_strides(task: Task, domain: Domain) -> list[_LoopStrides]:
    """The strides that the results of ``linear_index`` would have in memory."""
    values = [task.fusion.value(expr.outputs[0]) for expr in task.steps if expr.op == "linear_index"]
    return [
        _loop_strides(domain, value.fid, Storage(tensor=value.fid, strides=value.tensor.strides)) for value in values
    ]


def _merges(domain: Domain, moving: Mapping[int, Sequence[_LoopStrides]], outer: int, inner: int) -> bool:
    if domain.loops[outer].walkers != domain.loops[inner].walkers:
        return False
    for own in (*moving.get(outer, ()), *moving.get(inner, ())):
        outer_stride, inner_stride = own.get(outer, (0, None))[0], own.get(inner, (0, None))[0]
        if not inner_stride or outer_stride != product([domain.loops[inner].extent, inner_stride]):
            return False
    return True
