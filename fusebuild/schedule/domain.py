"""The canonical iteration domain of a task: which loops its tensors share, merged to as few axes as memory allows.

Dims that must be walked together form one **loop** (nvFuser: an iteration domain in one exact-map group). Loops get one
order that every tensor agrees with. Neighbouring loops merge into one **axis** when every tensor in global memory steps
through them as through one dim. Schedulers then see ``rows x cols`` whatever the rank was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from fusebuild.formula import Formula, product
from fusebuild.ir import Expr, Task, TensorType
from fusebuild.ops import Kind, op_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """One loop: its extent, and the reductions and scans (indices of exprs) that run over it."""

    extent: Formula
    walkers: frozenset[int]

    @property
    def reduced(self) -> bool:
        """Whether some reduction or scan runs over the loop."""
        return bool(self.walkers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Loops in order, and for each tensor value the loop of each of its dims (None where the dim has size 1)."""

    loops: tuple[Loop, ...]
    dims: dict[int, tuple[int | None, ...]]

    def varying(self, fid: int, type_: TensorType) -> frozenset[int]:
        """The loops along which the value ``fid`` changes: its dims that are no broadcast."""
        pairs = zip(self.dims[fid], type_.contiguity, strict=True)
        return frozenset(loop for loop, flag in pairs if loop is not None and flag is not None)


class DomainError(Exception):
    """The task has no single iteration domain; the message says why."""


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

    Raises :class:`DomainError` when tensors order the same loops differently or a loop cannot be placed.
    """
    loops, walked = _Loops(), dict[tuple[int, int], set[int]]()
    fids = _tensor_fids(task)
    for index in task.exprs:
        expr = task.fusion.exprs[index]
        for a, b in _same_loop(task, expr):
            loops.join(a, b)
        if op_of(expr).kind in (Kind.REDUCTION, Kind.SCAN):
            for key in walked_dims(task, expr):
                walked.setdefault(key, set()).add(index)
    _join_parallel_loops(task, fids, loops)
    shapes = {fid: task.fusion.value(fid).tensor.shape for fid in fids}
    walkers: dict[tuple[int, int], set[int]] = {}
    for key, indices in walked.items():
        walkers.setdefault(loops.find(key), set()).update(indices)
    chains = [[loops.find((fid, dim)) for dim, extent in enumerate(shape) if extent != 1 or (fid, dim) in walked]
              for fid, shape in shapes.items()]  # fmt: skip
    order = _common_order(chains, {*walkers})
    position = {loop: index for index, loop in enumerate(order)}
    extents = {loops.find((fid, dim)): extent for fid, shape in shapes.items() for dim, extent in enumerate(shape)}
    return Domain(
        loops=tuple(Loop(extent=extents[loop], walkers=frozenset(walkers.get(loop, ()))) for loop in order),
        dims={
            fid: tuple(
                position.get(loops.find((fid, dim))) if extent != 1 else None for dim, extent in enumerate(shape)
            )
            for fid, shape in shapes.items()
        },
    )


def walked_dims(task: Task, expr: Expr) -> tuple[tuple[int, int], ...]:
    """``(fid, dim)`` of the operands' dims that a reduction or scan runs over; dims of size 1 only where all are."""
    dims = expr.dims if op_of(expr).kind is Kind.REDUCTION else (expr.attribute("dim"),)
    tensors = [fid for fid in expr.inputs if task.fusion.value(fid).is_tensor]
    long = [
        (fid, dim)
        for dim in dims
        for fid in tensors
        if isinstance(dim, int) and task.fusion.value(fid).tensor.shape[dim] != 1
    ]
    return tuple(long or [(tensors[0], dim) for dim in dims if isinstance(dim, int)])


def _tensor_fids(task: Task) -> tuple[int, ...]:
    seen: dict[int, None] = {}
    for index in task.exprs:
        expr = task.fusion.exprs[index]
        seen.update((fid, None) for fid in (*expr.inputs, *expr.outputs) if task.fusion.value(fid).is_tensor)
    return tuple(seen)


def _same_loop(task: Task, expr: Expr) -> Iterable[tuple[tuple[int, int], tuple[int, int]]]:
    """Pairs of dims of ``expr``'s operands and results that are walked by one loop."""
    op = op_of(expr)
    if not task.fusion.value(expr.outputs[0]).is_tensor or op.kind is Kind.CREATION:
        return
    shapes = {fid: value.tensor.shape for fid in (*expr.inputs, *expr.outputs)
              if (value := task.fusion.value(fid)).is_tensor}  # fmt: skip
    operands = [fid for fid in expr.inputs if fid in shapes]
    for index, fid in enumerate(operands):
        own = shapes[fid]
        for source, target in _dim_pairs(expr, op.kind, len(own)):
            for result in expr.outputs:
                if own[source] == shapes[result][target]:
                    yield (fid, source), (result, target)
        for other in operands[:index] if op.kind is Kind.REDUCTION else ():
            yield from (((other, dim), (fid, dim)) for dim in expr.dims if own[dim] == shapes[other][dim] != 1)


def _dim_pairs(expr: Expr, kind: Kind, rank: int) -> Iterable[tuple[int, int]]:
    """``(operand dim, result dim)`` pairs."""
    if expr.op == "broadcast":
        mask = expr.attribute("is_broadcast_dim")
        assert isinstance(mask, tuple)
        kept = [position for position, is_new in enumerate(mask) if not is_new]
        return enumerate(kept)
    if expr.op == "squeeze" or kind is Kind.REDUCTION:
        kept = [dim for dim in range(rank) if dim not in expr.dims]
        return ((dim, position) for position, dim in enumerate(kept))
    return ((dim, dim) for dim in range(rank))


def _join_parallel_loops(task: Task, fids: Sequence[int], loops: _Loops) -> None:
    """Join loops of equal extent that follow the same loops and never meet in one tensor.

    A row statistic of ``x[M, N]`` applied to ``y[M, N]`` walks two loops of extent N; nothing ties them but their
    place. One loop nest can run both, which is what makes such a pair one kernel.
    """
    changed = True
    while changed:
        changed = False
        before: dict[tuple[int, int], set[tuple[int, int]]] = {}
        together: set[tuple[tuple[int, int], tuple[int, int]]] = set()
        extents: dict[tuple[int, int], Formula] = {}
        for fid in fids:
            chain = [(loops.find((fid, dim)), extent) for dim, extent in enumerate(task.fusion.value(fid).tensor.shape)
                     if extent != 1]  # fmt: skip
            for index, (loop, extent) in enumerate(chain):
                extents.setdefault(loop, extent)
                before.setdefault(loop, set()).update(other for other, _ in chain[:index])
                together.update((loop, other) for other, _ in chain)
        places: dict[tuple[Formula, frozenset[tuple[int, int]]], tuple[int, int]] = {}
        for loop, extent in extents.items():
            place = (extent, frozenset(before[loop]))
            first = places.setdefault(place, loop)
            if first != loop and (first, loop) not in together:
                loops.join(first, loop)
                changed = True
                break


def _common_order(
    chains: Iterable[Sequence[tuple[int, int]]], reduced: set[tuple[int, int]]
) -> tuple[tuple[int, int], ...]:
    """One order of all loops that every chain agrees with, earliest fid first among equals."""
    after: dict[tuple[int, int], set[tuple[int, int]]] = {}
    waiting: dict[tuple[int, int], int] = {}
    for chain in chains:
        if len(set(chain)) < len(chain):
            raise DomainError("a tensor walks one loop with two of its dims")
        for loop in chain:
            after.setdefault(loop, set())
            waiting.setdefault(loop, 0)
        for first, second in pairwise(chain):
            if second not in after[first]:
                after[first].add(second)
                waiting[second] += 1
    order: list[tuple[int, int]] = []
    ready = sorted(loop for loop, count in waiting.items() if not count)
    while ready:
        loop = min(ready, key=lambda candidate: (candidate in reduced, candidate))
        ready.remove(loop)
        order.append(loop)
        for follower in sorted(after[loop]):
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    if len(order) < len(waiting):
        raise DomainError("tensors hold the same dims in different orders")
    return tuple(order)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One or more loops walked as one. ``loops`` are indices into the domain, ascending."""

    extent: Formula
    loops: tuple[int, ...]
    reduced: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How a tensor in global memory is stepped through: one stride per axis, in elements.

    0 where the tensor does not change along the axis, None where the stride is known only at run time. ``dims`` is the
    tensor's dim whose stride an axis has, for the axes it changes along.
    """

    fid: int
    strides: tuple[Formula | None, ...]
    dims: tuple[int | None, ...]

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes along which the tensor changes."""
        return tuple(axis for axis, stride in enumerate(self.strides) if stride != 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisDomain:
    """A domain with merged axes and the access of every tensor of global memory."""

    domain: Domain
    axes: tuple[Axis, ...]
    accesses: dict[int, Access]

    def axes_of(self, fid: int, type_: TensorType) -> frozenset[int]:
        """The axes along which a value changes."""
        varying = self.domain.varying(fid, type_)
        return frozenset(index for index, axis in enumerate(self.axes) if varying & {*axis.loops})

    def is_contiguous(self, access: Access) -> bool:
        """True when the tensor is dense over the axes along which it changes, in their order."""
        running: Formula = 1
        for axis in reversed(access.axes):
            if access.strides[axis] != running:
                return False
            running = product([self.axes[axis].extent, running])
        return True


def merge_axes(task: Task, domain: Domain, memory: dict[int, TensorType]) -> AxisDomain:
    """``domain`` with loops merged into axes wherever every tensor of ``memory`` (fid to layout) allows it.

    A reduced loop merges only with one that the same reductions run over. The loop of an ``iota`` stays alone, since
    its coordinate is read. Loops along which no tensor of ``memory`` changes (those of an expand that is stored
    compactly) are dropped.
    """
    strides = {fid: _loop_strides(domain, fid, type_) for fid, type_ in memory.items()}
    alone = {
        loop
        for index in task.exprs
        if task.fusion.exprs[index].op == "iota"
        for loop in domain.dims[task.fusion.exprs[index].outputs[0]]
        if loop is not None
    }
    groups: list[list[int]] = []
    for loop in range(len(domain.loops)):
        if not domain.loops[loop].reduced and all(own.get(loop, (0, None))[0] == 0 for own in strides.values()):
            continue
        previous = groups[-1][-1] if groups else None
        if previous is not None and not {previous, loop} & alone and _merges(domain, strides, previous, loop):
            groups[-1].append(loop)
        else:
            groups.append([loop])
    axes = tuple(
        Axis(
            extent=product([domain.loops[loop].extent for loop in group]),
            loops=tuple(group),
            reduced=domain.loops[group[0]].reduced,
        )
        for group in groups
    )
    accesses = {
        fid: Access(
            fid=fid,
            strides=tuple(strides[fid].get(group[-1], (0, None))[0] for group in groups),
            dims=tuple(strides[fid].get(group[-1], (0, None))[1] for group in groups),
        )
        for fid in memory
    }
    return AxisDomain(domain=domain, axes=axes, accesses=accesses)


def _loop_strides(domain: Domain, fid: int, type_: TensorType) -> dict[int, tuple[Formula | None, int | None]]:
    """Loop to ``(stride, dim)`` of one tensor; loops it does not have are left out."""
    return {
        loop: (stride, dim)
        for dim, (loop, stride) in enumerate(zip(domain.dims[fid], type_.strides, strict=True))
        if loop is not None
    }


def _merges(
    domain: Domain, strides: dict[int, dict[int, tuple[Formula | None, int | None]]], outer: int, inner: int
) -> bool:
    if domain.loops[outer].walkers != domain.loops[inner].walkers:
        return False
    for own in strides.values():
        outer_stride, inner_stride = own.get(outer, (0, None))[0], own.get(inner, (0, None))[0]
        if outer_stride == 0 and inner_stride == 0:
            continue
        if not inner_stride or outer_stride != product([domain.loops[inner].extent, inner_stride]):
            return False
    return True
