"""Bring index ops to memory: ``slice``, ``pad`` and ``reshape`` move up through what is computed element by element.

``slice(a * b)`` is ``slice(a) * slice(b)``: what is left reads inputs and results of reductions directly, which kernels
do while they load. Values are computed again where several places read them; arithmetic is free beside memory. What
``pad`` puts around a computed value is chosen by coordinates, since zero around ``a`` is not zero around ``exp(a)``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from fusebuild.errors import SourceLocation
from fusebuild.ir.algebra import Algebra
from fusebuild.ir.formula import Formula, total
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Attribute, Expr, Value
from fusebuild.ops.indexing import pad_widths, permutation_of, reshape_groups, reshaped_strides
from fusebuild.ops.table import OPS, Kind
from fusebuild.passes.rewriting import Rewriter


def index_reads(fusion: Fusion) -> Fusion:
    """``fusion`` with index ops next to what is in memory, as far as that goes."""
    rewriter = Rewriter(fusion)
    if not any(OPS[expr.op].kind is Kind.INDEX for expr in fusion.exprs):
        return fusion
    movers = _Movers(rewriter=rewriter, copies={}, by_move={})
    for expr in rewriter.exprs():
        if OPS[expr.op].kind is Kind.INDEX:
            _move_up(movers, expr)
        else:
            rewriter.keep(expr)
    return rewriter.finish()


def _move_up(movers: _Movers, expr: Expr) -> None:
    rewriter, (result,) = movers.rewriter, expr.outputs
    move, source = _move_of(rewriter, expr), rewriter.operands(expr)[0]
    is_idle = move is not None and move.is_idle(source.tensor.shape)
    if is_idle and rewriter.value(result).type == source.type:
        rewriter.replace(result, source)
    elif isinstance(move, _Pad) and 0 in source.tensor.shape:
        _fill(rewriter, expr)
    elif move is None or not movers.of(move).passes(source):
        _keep(movers, expr)
    else:
        moved = movers.of(move).moved(source, expr.location)
        if isinstance(move, _Pad) and expr.op == "pad":
            moved = _chosen(rewriter, expr, move, moved)
        rewriter.replace(result, moved)


def _fill(rewriter: Rewriter, expr: Expr) -> None:
    """What ``expr`` pads has no elements: all is around it."""
    (_, *fill), result = rewriter.operands(expr), rewriter.value(expr.outputs[0]).tensor
    value = fill[0] if fill else rewriter.constant(0, dtype=result.dtype)
    rewriter.replace(expr.outputs[0], rewriter.emit("full", [value], shape=result.shape, dtype=result.dtype))


def _keep(movers: _Movers, expr: Expr) -> None:
    """``expr`` as it is, but for a copy of a tensor that it cannot read where it is."""
    rewriter = movers.rewriter
    source, *others = rewriter.operands(expr)
    new_shape = rewriter.value(expr.outputs[0]).tensor.shape if expr.op == "reshape" else None
    readable = movers.readable(source, new_shape, expr.location)
    if readable is source:
        rewriter.keep(expr)
    else:
        rewriter.emit(expr.op, [readable, *others], result=expr.outputs[0], **dict(expr.attributes))


@dataclass(frozen=True, slots=True, kw_only=True)
class _DimByDim:
    """A move along each dim by itself: its numbers there, which are ``idle`` where it moves nothing."""

    dims: tuple[tuple[Formula, ...], ...]

    op: ClassVar[str]
    idle: ClassVar[tuple[Formula, ...]]
    """What a move of a dim of size 1 that stays has as its numbers."""

    def on(self, shape: Sequence[Formula], whole: Sequence[Formula]) -> Self | None:
        """This move on an operand of ``shape`` that broadcasts to ``whole``."""
        pairs = zip(self.dims, shape, whole, strict=True)
        return self._with([self.idle if own == 1 and size != 1 else each for each, own, size in pairs])

    def permuted(self, order: Sequence[int]) -> Self:
        """This move as it is before dims are put in ``order``."""
        dims = dict(zip(order, self.dims, strict=True))
        return self._with([dims[dim] for dim in range(len(dims))])

    def with_ones(self, kept: Sequence[int], rank: int) -> Self:
        """This move on a tensor of ``rank`` dims: its dims ``kept`` are moved, and all others have size 1."""
        dims = dict(zip(kept, self.dims, strict=True))
        return self._with([dims.get(dim, self.idle) for dim in range(rank)])

    def without(self, dims: Sequence[int]) -> Self:
        """This move on a tensor that lacks ``dims``, which have size 1."""
        return self._with([each for dim, each in enumerate(self.dims) if dim not in dims])

    def _with(self, dims: Sequence[tuple[Formula, ...]]) -> Self:
        return replace(self, dims=tuple(dims))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slice(_DimByDim):
    """``(start, end, stride)`` for each dim."""

    op = "slice"
    idle = (0, 1, 1)

    def attributes(self) -> dict[str, Attribute]:
        starts, ends, steps = (tuple(each[position] for each in self.dims) for position in range(3))
        return {"start_indices": starts, "end_indices": ends, "strides": steps}

    def is_idle(self, shape: Sequence[Formula]) -> bool:
        return all(each == (0, extent, 1) for each, extent in zip(self.dims, shape, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pad(_DimByDim):
    """``(before, after)`` for each dim."""

    op = "place"
    idle = (0, 0)

    def attributes(self) -> dict[str, Attribute]:
        return {"pad_widths": tuple(width for pair in reversed(self.dims) for width in pair)}

    def is_idle(self, shape: Sequence[Formula]) -> bool:
        return all(each == self.idle for each in self.dims)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reshape:
    """From the shape ``old`` to ``new``."""

    old: tuple[Formula, ...]
    new: tuple[Formula, ...]
    algebra: Algebra

    op = "reshape"

    def attributes(self) -> dict[str, Attribute]:
        return {"shape": self.new}

    def is_idle(self, shape: Sequence[Formula]) -> bool:
        return self.old == self.new

    def on(self, shape: Sequence[Formula], whole: Sequence[Formula]) -> _Reshape | None:
        """None where the operand broadcasts along some dims of a run that is reshaped as one, and not along others."""
        new: list[Formula] = []
        for old_run, new_run in reshape_groups(self.old, self.new, self.algebra) or ():
            own = [shape[dim] for dim in old_run]
            if own == [self.old[dim] for dim in old_run]:
                new += [self.new[dim] for dim in new_run]
            elif all(extent == 1 for extent in own):
                new += [1 for _ in new_run]
            else:
                return None
        return replace(self, old=tuple(shape), new=tuple(new))


_Move = _Slice | _Pad | _Reshape


def _move_of(rewriter: Rewriter, expr: Expr) -> _Move | None:
    """What ``expr`` does; None for what stays where it is."""
    if expr.op not in ("slice", "pad", "place", "reshape"):
        return None
    tensor, named = rewriter.operands(expr)[0].tensor, dict(expr.attributes)
    if expr.op in ("pad", "place"):
        return _Pad(dims=tuple(pad_widths(tensor.rank, named)))
    if expr.op == "reshape":
        new = rewriter.value(expr.outputs[0]).tensor.shape
        return _Reshape(old=tensor.shape, new=new, algebra=rewriter.builder.algebra)
    steps = named["strides"] or (1,) * tensor.rank
    return _Slice(dims=tuple(zip(named["start_indices"], named["end_indices"], steps, strict=True)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Movers:
    """The mover of each move, so that nothing is moved twice in one way, and ``copies`` of tensors that cannot be read
    elsewhere as they are: what lies elsewhere is found by strides that are known, and a reshaped tensor has strides of
    its own."""

    rewriter: Rewriter
    copies: dict[int, Value]
    by_move: dict[_Move, _Mover]

    def of(self, move: _Move) -> _Mover:
        return self.by_move.setdefault(move, _Mover(move=move, movers=self, done={}))

    def readable(self, value: Value, new_shape: Sequence[Formula] | None, location: SourceLocation) -> Value:
        """``value``, or a copy of it; ``new_shape`` is what it is reshaped to."""
        strides = [stride for stride in value.tensor.strides if stride is not None]
        is_known = len(strides) == value.tensor.rank
        shape, algebra = value.tensor.shape, self.rewriter.builder.algebra
        if is_known and (new_shape is None or reshaped_strides(strides, shape, new_shape, algebra) is not None):
            return value
        if value.fid not in self.copies:
            name = f"{value.name}_contiguous"
            self.copies[value.fid] = self.rewriter.emit("contiguous", [value], name=name, location=location)
        return self.copies[value.fid]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mover:
    """One move, done to whatever it passes through, once each."""

    move: _Move
    movers: _Movers
    done: dict[int, Value]

    @property
    def rewriter(self) -> Rewriter:
        return self.movers.rewriter

    def passes(self, value: Value) -> bool:
        """Whether the move can go on to the operands of what defines ``value``: not where a result is wanted in memory,
        or is a random number."""
        definition = self.rewriter.definition(value)
        if definition is None or not OPS[definition.op].of_elements:
            return False
        if OPS[definition.op].kind is Kind.POINTWISE:
            operands = [each for each in self.rewriter.operands(definition) if each.is_tensor]
            return all(self.move.on(each.tensor.shape, value.tensor.shape) is not None for each in operands)
        if isinstance(self.move, _Reshape):
            if definition.op == "expand":
                (operand,) = self.rewriter.operands(definition)
                return self.move.on(operand.tensor.shape, value.tensor.shape) is not None
            return definition.op == "full"
        if definition.op == "broadcast":
            return all(self.move.dims[dim] == self.move.idle for dim in _new_dims(definition))
        return definition.op in ("permute", "squeeze", "expand", "full")

    def moved(self, value: Value, location: SourceLocation) -> Value:
        """``value`` after the move, whose own expr is the last to be recorded. Without recursion: fusions are deep."""
        waiting = [(self, value, location)]
        while waiting:
            mover, current, place = waiting[-1]
            needed = [] if current.fid in mover.done else mover._needed(current)
            missing = [each for each in needed if each[1].fid not in each[0].done]
            if missing:
                waiting += reversed(missing)
                continue
            if current.fid not in mover.done:
                moved = [each.done[operand.fid] for each, operand, _ in needed]
                mover.done[current.fid] = mover._moved(current, moved, place)
            waiting.pop()
        return self.done[value.fid]

    def _passed(self, value: Value) -> Expr | None:
        """What defines ``value``, where the move goes on to its operands."""
        definition = self.rewriter.definition(value)
        return definition if definition is not None and self.passes(value) else None

    def _needed(self, value: Value) -> list[tuple[_Mover, Value, SourceLocation]]:
        """What has to be moved, and by whom, before ``value`` can be: tensors that define it, in order."""
        definition = None if self.move.is_idle(value.tensor.shape) else self._passed(value)
        if definition is None:
            return []
        tensors = [each for each in self.rewriter.operands(definition) if each.is_tensor]
        return [(self._on(operand, value, definition), operand, definition.location) for operand in tensors]

    def _on(self, operand: Value, value: Value, definition: Expr) -> _Mover:
        """Who moves ``operand`` where this moves ``value``, which ``definition`` makes of it."""
        move, named = self.move, dict(definition.attributes)
        if OPS[definition.op].kind is Kind.POINTWISE or definition.op == "expand":
            before: _Move | None = move.on(operand.tensor.shape, value.tensor.shape)
            assert before is not None
            return self.movers.of(before)
        assert not isinstance(move, _Reshape)
        if definition.op == "permute":
            return self.movers.of(move.permuted(permutation_of(named, value.tensor.rank)))
        if definition.op == "broadcast":
            return self.movers.of(move.without(_new_dims(definition)))
        kept = [dim for dim in range(operand.tensor.rank) if dim not in definition.dims]
        return self.movers.of(move.with_ones(kept, operand.tensor.rank))

    def _moved(self, value: Value, tensors: Sequence[Value], location: SourceLocation) -> Value:
        """``value`` after the move; ``tensors`` are what :meth:`_needed` named, moved."""
        if self.move.is_idle(value.tensor.shape):
            return value
        definition = self._passed(value)
        if definition is None:
            return self._read(value, location)
        named, moved = dict(definition.attributes), iter(tensors)
        if definition.op in ("full", "expand"):
            named["shape"] = self._result_shape(value)
        operands = [next(moved) if each.is_tensor else each for each in self.rewriter.operands(definition)]
        return self.rewriter.emit(definition.op, operands, name=value.name, location=definition.location, **named)

    def _read(self, value: Value, location: SourceLocation) -> Value:
        name = f"{value.name}_{self.move.op}"
        new_shape = self.move.new if isinstance(self.move, _Reshape) else None
        value = self.movers.readable(value, new_shape, location)
        return self.rewriter.emit(self.move.op, [value], name=name, location=location, **self.move.attributes())

    def _result_shape(self, value: Value) -> tuple[Formula, ...]:
        (result,) = self.rewriter.builder.infer(OPS[self.move.op], [value.type], self.move.attributes())
        return result.shape  # type: ignore[union-attr]


def _new_dims(broadcast: Expr) -> list[int]:
    return [dim for dim, is_new in enumerate(broadcast.attribute("is_broadcast_dim")) if is_new]


def _chosen(rewriter: Rewriter, expr: Expr, move: _Pad, inside: Value) -> Value:
    """``inside`` within the bounds of the padded tensor, the value that ``expr`` pads with elsewhere."""
    source, fill = rewriter.operands(expr)
    result = rewriter.value(expr.outputs[0])
    if fill.dtype.is_floating and not inside.dtype.is_floating:  # else the integers inside would become floats
        fill = rewriter.cast(fill, inside.dtype)
    for dim, (before, after) in enumerate(move.dims):
        bounds = [("ge", before)] if before != 0 else []
        bounds += [("lt", total([before, source.tensor.shape[dim]]))] if after != 0 else []
        for test, bound in bounds:
            place = rewriter.coordinate(result.tensor.shape, dim)
            is_inside = rewriter.emit(test, [place, rewriter.number(bound)])
            inside = rewriter.emit("where", [is_inside, inside, fill])
    return rewriter.cast(inside, result.dtype)
