"""Bring index ops to memory: ``slice``, ``pad``, ``reshape`` and takes move up through what is computed element by
element.

``slice(a * b)`` is ``slice(a) * slice(b)``: what is left reads inputs and results of reductions directly, which kernels
do while they load. Values are computed again where several places read them; arithmetic is free beside memory. What
``pad`` puts around a computed value is chosen by coordinates, since zero around ``a`` is not zero around ``exp(a)``. A
take moves up only where all that it then reads is in memory: elements that it names may be many. Before a take, other
moves go on to what it reads and to its index.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusebuild.errors import SourceLocation
from fusebuild.ir.formula import Formula, product, total
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import TensorType
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.indexing import permutation_of, slice_bounds
from fusebuild.ops.table import OPS, Kind
from fusebuild.passes.moves import BeforeTake, DimByDim, Move, Pad, Picking, Reshape, Slice, Spread, move_of
from fusebuild.passes.rewriting import Rewriter
from fusebuild.passes.strided import strides_say
from fusebuild.passes.views import view_between


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
    move, source = move_of(rewriter, expr), rewriter.operands(expr)[0]
    if move.is_idle(source.tensor.shape) and rewriter.value(result).type == source.type:
        rewriter.replace(result, source)
    elif isinstance(move, Pad) and 0 in source.tensor.shape:
        _fill(rewriter, expr)
    elif isinstance(move, Pad) and move.repeats(source.tensor.shape) and rewriter.definition(source) is not None:
        moved = _repeated(movers, move, source, expr.location)
        rewriter.replace(result, _around(rewriter, expr, move, moved))
    elif not movers.of(move).passes(source) or not _finds_memory(rewriter, move, source):
        _keep(movers, expr)
    else:
        moved = movers.of(move).moved(source, expr.location)
        rewriter.replace(result, _around(rewriter, expr, move, moved) if isinstance(move, Pad) else moved)


def _repeated(movers: _Movers, move: Pad, source: Value, location: SourceLocation) -> Value:
    """``source`` in its place, where ``move`` also places dims of size 1: along those, what is around an element may as
    well be that element."""
    rest = move.without_repeats(source.tensor.shape)
    moved = source if rest.is_idle(source.tensor.shape) else movers.of(rest).moved(source, location)
    (placed,) = movers.rewriter.builder.infer(OPS["place"], [source.type], move.attributes())
    assert isinstance(placed, TensorType)
    name = f"{source.name}_repeated"
    return movers.rewriter.emit("expand", [moved], name=name, location=location, shape=placed.shape)


def _around(rewriter: Rewriter, expr: Expr, move: Pad, inside: Value) -> Value:
    """``inside``, and what ``expr`` wants around it, if anything."""
    return _chosen(rewriter, expr, move, inside) if expr.op == "pad" else inside


def _finds_memory(rewriter: Rewriter, move: Move, source: Value) -> bool:
    """Whether all that ``move`` would read is in memory, where it is a take: what it takes from is computed element by
    element from inputs, or has one element for all that it names. What is taken along a computed size that turns out to
    be 0 is 0, whatever would be computed of it."""
    if not isinstance(move, Picking):
        return True
    if isinstance(source.tensor.shape[move.dim], tuple):
        return False
    waiting, seen = [source], {source.fid}
    while waiting:
        value = waiting.pop()
        definition = rewriter.definition(value)
        if definition is None or definition.op == "full":
            continue
        if not OPS[definition.op].is_elementwise:
            return False
        operands = [each for each in rewriter.operands(definition) if each.is_tensor and each.fid not in seen]
        picked = [each for each in operands if move.picks(each.tensor.shape, value.tensor.shape)]
        seen |= {each.fid for each in picked}
        waiting += picked
    return True


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


_TAKES = ("take", "take_along_axis")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Movers:
    """The mover of each move, so that nothing is moved twice in one way, and ``copies`` of tensors that cannot be read
    elsewhere as they are: what lies elsewhere is found by strides that are known, and a reshaped tensor has strides of
    its own."""

    rewriter: Rewriter
    copies: dict[int, Value]
    by_move: dict[Move, _Mover]

    def of(self, move: Move) -> _Mover:
        return self.by_move.setdefault(move, _Mover(move=move, movers=self, done={}))

    def readable(self, value: Value, new_shape: Sequence[Formula] | None, location: SourceLocation) -> Value:
        """``value``, or a copy of it; ``new_shape`` is what it is reshaped to."""
        algebra = self.rewriter.builder.algebra
        is_known = None not in value.tensor.strides
        if is_known and (new_shape is None or strides_say(value.tensor, new_shape, algebra)):
            return value
        if value.fid not in self.copies:
            name = f"{value.name}_contiguous"
            self.copies[value.fid] = self.rewriter.emit("contiguous", [value], name=name, location=location)
        return self.copies[value.fid]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mover:
    """One move, done to whatever it passes through, once each."""

    move: Move
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
        if OPS[definition.op].is_elementwise:
            operands = [each for each in self.rewriter.operands(definition) if each.is_tensor]
            return all(self.move.on(each.tensor.shape, value.tensor.shape) is not None for each in operands)
        if isinstance(self.move, Picking | Spread):
            return definition.op == "full" and isinstance(self.move, Picking)
        if definition.op in _TAKES:
            return self._before(definition) is not None
        if isinstance(self.move, Reshape):
            is_moved = definition.op == "broadcast" and self._before_broadcast(definition) is not None
            return is_moved or definition.op == "full"
        if definition.op == "broadcast":
            return all(self.move.dims[dim] == self.move.idle for dim in _new_dims(definition))
        if definition.op == "iota":
            return isinstance(self.move, Slice) and _is_counted(self.rewriter, definition)
        return definition.op in ("permute", "squeeze", "full")

    def _before_broadcast(self, broadcast: Expr) -> tuple[Reshape, tuple[bool, ...]] | None:
        """The reshape of what ``broadcast`` makes, as one of its operand and the mask after it."""
        assert isinstance(self.move, Reshape)
        return self.move.before_broadcast(broadcast.attribute("is_broadcast_dim"))

    def _before(self, take: Expr) -> BeforeTake | None:
        """The move of what ``take`` makes, as moves of what it reads."""
        assert isinstance(self.move, DimByDim | Reshape)
        source, index = self.rewriter.operands(take)
        return self.move.before_take(take, source.tensor.shape, index.tensor.shape)

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
        if definition.op in _TAKES:
            before = self._before(definition)
            assert before is not None
            movers = [self.movers.of(each) for each in (before.source, before.index)]
        else:
            movers = [self._on(operand, value, definition) for operand in tensors]
        return [(mover, operand, definition.location) for mover, operand in zip(movers, tensors, strict=True)]

    def _on(self, operand: Value, value: Value, definition: Expr) -> _Mover:
        """Who moves ``operand`` where this moves ``value``, which ``definition`` makes of it."""
        move, named = self.move, dict(definition.attributes)
        if OPS[definition.op].is_elementwise:
            before: Move | None = move.on(operand.tensor.shape, value.tensor.shape)
            assert before is not None
            return self.movers.of(before)
        if isinstance(move, Reshape):
            moved = self._before_broadcast(definition)
            assert moved is not None
            return self.movers.of(moved[0])
        assert isinstance(move, DimByDim)
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
        if definition.op == "iota":
            return self._counted(value, definition)
        named, moved = dict(definition.attributes), iter(tensors)
        if definition.op in _TAKES:
            before = self._before(definition)
            assert before is not None
            named["dim"] = before.dim
        if definition.op == "broadcast" and isinstance(self.move, Reshape):
            found = self._before_broadcast(definition)
            assert found is not None
            if not any(found[1]):
                return tensors[0]
            named["is_broadcast_dim"] = found[1]
        if definition.op in ("full", "expand"):
            named["shape"] = self._result_shape(value)
        operands = [next(moved) if each.is_tensor else each for each in self.rewriter.operands(definition)]
        return self.rewriter.emit(definition.op, operands, name=value.name, location=definition.location, **named)

    def _read(self, value: Value, location: SourceLocation) -> Value:
        name, move = f"{value.name}_{self.move.op}", self.move
        new_shape = move.new if isinstance(move, Reshape) else None
        wanted = move.shape_of(value.tensor.shape) if isinstance(move, Spread) else new_shape
        view = None if wanted is None else view_between(value.tensor.shape, wanted)
        if view is not None:
            return self.rewriter.emit(view.op, [value], name=name, location=location, **view.named)
        assert not isinstance(move, Spread)
        operands = [self.movers.readable(value, new_shape, location), *move.operands]
        return self.rewriter.emit(move.op, operands, name=name, location=location, **move.attributes())

    def _result_shape(self, value: Value) -> tuple[Formula, ...]:
        if isinstance(self.move, Spread):
            return self.move.shape_of(value.tensor.shape)
        operands = [value.type, *(each.type for each in self.move.operands)]
        (result,) = self.rewriter.builder.infer(OPS[self.move.op], operands, self.move.attributes())
        return result.shape  # type: ignore[union-attr]

    def _counted(self, value: Value, iota: Expr) -> Value:
        """The slice of an ``iota`` of whole numbers: another one."""
        assert isinstance(self.move, Slice)
        algebra = self.rewriter.builder.algebra
        ((first, count, step),) = slice_bounds(value.tensor.shape, self.move.attributes(), algebra)
        start, stride = (operand.literal for operand in self.rewriter.operands(iota))
        assert isinstance(start, int)
        assert isinstance(stride, int)
        begins = self.rewriter.number(total([start, product([stride, first])]))
        every = self.rewriter.constant(stride * step)
        named = dict(iota.attributes) | {"length": count}
        return self.rewriter.emit("iota", [begins, every], name=value.name, location=iota.location, **named)


def _is_counted(rewriter: Rewriter, iota: Expr) -> bool:
    """Whether ``iota`` counts in whole numbers that are known now, so that a part of it needs no rounding."""
    numbers = [operand.literal for operand in rewriter.operands(iota)]
    return rewriter.value(iota.outputs[0]).dtype.is_integer and all(isinstance(number, int) for number in numbers)


def _new_dims(broadcast: Expr) -> list[int]:
    return [dim for dim, is_new in enumerate(broadcast.attribute("is_broadcast_dim")) if is_new]


def _chosen(rewriter: Rewriter, expr: Expr, move: Pad, inside: Value) -> Value:
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
