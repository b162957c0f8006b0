"""What every rewriting pass shares: one forward walk that builds the new exprs and remembers what was replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fusebuild.errors import NOWHERE, SourceLocation
from fusebuild.ir.composites import carry_composites
from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import Literal
from fusebuild.ir.values import Attribute, Expr, Value
from fusebuild.ops.builder import FusionBuilder


class Rewriter:
    """The new exprs of ``fusion``, in the making. A pass walks the old exprs in order and for each one calls
    :meth:`keep`, or :meth:`emit` and :meth:`replace`.

    Readers of a replaced value are redirected when they are kept, and their types are inferred anew where an operand's
    type changed, so nobody has to walk twice. Outputs keep their fids: replacing one leaves a ``set``.
    """

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.builder = FusionBuilder.extending(fusion)
        self._outputs = frozenset(fusion.output_fids)
        self._replaced: dict[int, int] = {}
        self._definitions: dict[int, Expr] = {}
        self._retyped: set[int] = set()

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
        old_types = [self.builder.values[fid].type for fid in expr.outputs]
        named = dict(expr.attributes)
        results = self.builder.call(expr.op, operands, named, location=expr.location, results=expr.outputs)
        self._retyped.update(result.fid for result, old in zip(results, old_types, strict=True) if result.type != old)
        self._note(self.builder.exprs[-1])
        return self.builder.exprs[-1]

    def emit(
        self,
        op: str,
        operands: Sequence[Value],
        named: Mapping[str, Attribute] | None = None,
        *,
        name: str = "",
        result: int | None = None,
        location: SourceLocation = NOWHERE,
    ) -> Value:
        """Record a one-result op. ``result`` is the old fid that it now defines; without it a new value is made."""
        results = () if result is None else (result,)
        (value,) = self.emit_all(op, operands, named, names=[name], results=results, location=location)
        return value

    def emit_all(
        self,
        op: str,
        operands: Sequence[Value],
        named: Mapping[str, Attribute] | None = None,
        *,
        names: Sequence[str] = (),
        results: Sequence[int | None] = (),
        location: SourceLocation = NOWHERE,
    ) -> tuple[Value, ...]:
        """As :meth:`emit`, for an op with any number of results; None among ``results`` makes a new value."""
        old = {fid: self.builder.values[fid].type for fid in results if fid is not None}
        values = self.builder.call(op, operands, named, names=names, location=location, results=results)
        self._retyped.update(fid for value in values if (fid := value.fid) in old and value.type != old[fid])
        self._note(self.builder.exprs[-1])
        return values

    def add_lambda(self, body: Fusion) -> str:
        """Give the new Fusion the lambda ``body``; returns the name that exprs combine with."""
        name = body.name
        while self.builder.lambdas.setdefault(name, body) != body:
            name += "_"
        return name

    def constant(
        self, literal: Literal, *, dtype: DType | None = None, name: str = "", location: SourceLocation = NOWHERE
    ) -> Value:
        return self.builder.constant(literal, dtype=dtype, name=name, location=location)

    def replace(self, fid: int, value: Value, *, location: SourceLocation = NOWHERE) -> None:
        """Let readers of ``fid`` read ``value``, which has its dtype and shape; an output becomes a copy of it."""
        if value.type != self.builder.values[fid].type:
            self._retyped.add(value.fid)
        if self.is_output(fid):
            self.emit("set", [value], result=fid, location=location)
        self._replaced[fid] = value.fid

    def replace_cast(self, expr: Expr, value: Value) -> None:
        """Replace the one result of ``expr`` by ``value``, cast where the dtypes differ."""
        (fid,) = expr.outputs
        dtype = self.builder.values[fid].dtype
        if value.dtype is dtype:
            self.replace(fid, value, location=expr.location)
        else:
            self.emit("cast", [value], {"dtype": dtype}, result=fid, location=expr.location)

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
