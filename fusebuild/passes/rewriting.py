"""What every rewriting pass shares: one forward walk that builds the new exprs and remembers what was replaced."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fusebuild.errors import NOWHERE, SourceLocation
from fusebuild.ir.composites import carry_composites
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import Literal
from fusebuild.ir.values import Attribute, Expr, Value
from fusebuild.ops.builder import FusionBuilder


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """One op of a chain: its first operand is the value so far, its others are ``more``."""

    op: str
    name: str = ""
    named: Mapping[str, Attribute] = field(default_factory=dict)
    more: tuple[Value, ...] = ()


class Rewriter:
    """The new exprs of ``fusion``, in the making. A pass walks the old :meth:`exprs` and for each one calls
    :meth:`keep`, or :meth:`emit` and :meth:`replace`. What it emits stands where that old expr stands.

    Readers of a replaced value are redirected when they are kept, and their types are inferred anew where an operand's
    type changed, so nobody has to walk twice. Outputs keep their fids: replacing one leaves a ``set``.
    """

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.builder = FusionBuilder.extending(fusion)
        self._location = NOWHERE
        self._outputs = frozenset(fusion.output_fids)
        self._replaced: dict[int, int] = {}
        self._definitions: dict[int, Expr] = {}
        self._retyped: set[int] = set()

    def exprs(self) -> Iterator[Expr]:
        """The old exprs, in order."""
        for expr in self.fusion.exprs:
            self._location = expr.location
            yield expr

    def value(self, fid: int) -> Value:
        """The value that readers of ``fid`` now read."""
        return self.builder.values[self._replaced.get(fid, fid)]

    def operands(self, expr: Expr) -> list[Value]:
        """What ``expr`` reads, after replacement."""
        return [self.value(fid) for fid in expr.inputs]

    def definition(self, value: Value) -> Expr | None:
        """The new expr that defines ``value``; None for inputs and constants."""
        return self._definitions.get(value.fid)

    def is_output(self, fid: int) -> bool:
        return fid in self._outputs

    def keep(self, expr: Expr) -> Expr:
        """Record ``expr`` itself, reading what its operands were replaced by."""
        operands = self.operands(expr)
        current = tuple(operand.fid for operand in operands)
        if current == expr.inputs and self._retyped.isdisjoint(current):
            self.builder.exprs.append(expr)
            self._note(expr)
            return expr
        self.emit_all(expr.op, operands, dict(expr.attributes), names=(), results=expr.outputs, location=expr.location)
        return self.builder.exprs[-1]

    def emit(
        self,
        op: str,
        operands: Sequence[Value],
        *,
        name: str = "",
        result: int | None = None,
        location: SourceLocation | None = None,
        **named: Attribute,
    ) -> Value:
        """Record a one-result op with the attributes ``named``. ``result`` is the old fid that it now defines; without
        it a new value is made."""
        (value,) = self.emit_all(op, operands, named, names=[name], results=[result], location=location)
        return value

    def emit_all(
        self,
        op: str,
        operands: Sequence[Value],
        named: Mapping[str, Attribute],
        *,
        names: Sequence[str],
        results: Sequence[int | None],
        location: SourceLocation | None = None,
    ) -> tuple[Value, ...]:
        """Record an op with any number of results. They define the old fids ``results``; None makes a new value."""
        old = {fid: self.builder.values[fid].type for fid in results if fid is not None}
        place = self._location if location is None else location
        values = self.builder.call(op, operands, named, names=names, location=place, results=results)
        self._retyped.update(fid for value in values if (fid := value.fid) in old and value.type != old[fid])
        self._note(self.builder.exprs[-1])
        return values

    def cast(self, value: Value, dtype: DType, *, name: str = "") -> Value:
        """``value`` in ``dtype``: itself where that is its own."""
        return value if value.dtype is dtype else self.emit("cast", [value], name=name, dtype=dtype)

    def chain(self, value: Value, links: Sequence[Link], result: int | None = None) -> Value:
        """Apply ``links`` to ``value``; the last one defines ``result``, where one is given."""
        if not links and result is not None:
            links = [Link(op="set")]
        for index, link in enumerate(links):
            fid = result if index == len(links) - 1 else None
            value = self.emit(link.op, [value, *link.more], name=link.name, result=fid, **link.named)
        return value

    def coordinate(self, shape: Sequence[Formula], dim: int, *, name: str = "") -> Value:
        """The coordinate along ``dim`` of a tensor of ``shape``: int64, of its rank, of size 1 along all other dims."""
        zero, one = self.constant(0), self.constant(1)
        indices = self.emit("iota", [zero, one], name=name, length=shape[dim], dtype=DType.INT64)
        mask = tuple(other != dim for other in range(len(shape)))
        return self.emit("broadcast", [indices], name=name, is_broadcast_dim=mask) if any(mask) else indices

    def number(self, formula: Formula, *, name: str = "") -> Value:
        """``formula`` as an int64 scalar: a constant, or what it is of the sizes at run time."""
        if isinstance(formula, int):
            return self.constant(formula, name=name)
        return self.emit("size", [], name=name, extent=formula)

    def add_lambda(self, body: Fusion) -> str:
        """Give the new Fusion the lambda ``body``; returns the name that exprs combine with."""
        name = body.name
        while self.builder.lambdas.setdefault(name, body) != body:
            name += "_"
        return name

    def constant(self, literal: Literal, *, dtype: DType | None = None, name: str = "") -> Value:
        return self.builder.constant(literal, dtype=dtype, name=name, location=self._location)

    def replace(self, fid: int, value: Value) -> None:
        """Let readers of ``fid`` read ``value``, which has its dtype and shape; an output becomes a copy of it."""
        if value.type != self.builder.values[fid].type:
            self._retyped.add(value.fid)
        if self.is_output(fid):
            self.emit("set", [value], result=fid)
        self.redirect(fid, value)

    def redirect(self, fid: int, value: Value) -> None:
        """Let those readers of ``fid`` that are yet to be kept read ``value``; what defines ``fid`` stays."""
        self._replaced[fid] = value.fid

    def replace_cast(self, expr: Expr, value: Value) -> None:
        """Replace the one result of ``expr`` by ``value``, cast where the dtypes differ."""
        (fid,) = expr.outputs
        dtype = self.builder.values[fid].dtype
        if value.dtype is dtype:
            self.replace(fid, value)
        else:
            self.emit("cast", [value], result=fid, dtype=dtype)

    def make_constant(self, fid: int, literal: Literal) -> None:
        """Turn the scalar ``fid`` into a constant; its definition must not be kept."""
        old = self.builder.values[fid]
        self.builder.values[fid] = Value(fid=fid, name=old.name, type=old.type, location=old.location, literal=literal)

    def finish(self) -> Fusion:
        """The rewritten Fusion, without values that nothing defines or reads."""
        fusion = replace(self.fusion, lambdas=dict(self.builder.lambdas))
        rewritten = fusion.with_exprs(self.builder.exprs, self.builder.values.values())
        return carry_composites(self.fusion, rewritten, self._replaced)

    def _note(self, expr: Expr) -> None:
        for fid in expr.outputs:
            self._definitions[fid] = expr
