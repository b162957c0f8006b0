"""Generalized reductions and scans in primitives, and built-in ops as such with lambdas of their own.

What is left of a ``reduce`` or ``scan`` has tensor operands of one rank, and each ``reduce`` goes over one run of
adjacent dims without ``keepdim``. Over dims of size 1 alone both give what they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula
from fusebuild.ir.values import Attribute, Expr, Value
from fusebuild.ops.built_in_lambdas import BUILT_IN
from fusebuild.ops.lambdas import state_dtypes
from fusebuild.ops.reductions import kept_dtype
from fusebuild.ops.table import op_of
from fusebuild.ops.type_rules import broadcast_shapes
from fusebuild.passes.rewriting import Link, Rewriter

Results = Sequence[int | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fold:
    """A reduction or scan to emit. ``results`` names the fids that its parts define, None for new ones."""

    combine: str
    ordered: bool
    state: tuple[DType, ...]
    components: tuple[Value, ...]
    identity: tuple[Value, ...]
    results: Results
    names: tuple[str, ...]

    @property
    def shape(self) -> tuple[Formula, ...]:
        return broadcast_shapes([component.type for component in self.components])[0]

    @property
    def named(self) -> dict[str, Attribute]:
        return {"combine": self.combine, "ordered": self.ordered, "state": self.state}


def generalized(rewriter: Rewriter, expr: Expr) -> None:
    """Write a ``reduce`` or ``scan`` of the author in primitives."""
    operands = rewriter.operands(expr)
    count = len(expr.outputs)
    values = [rewriter.value(fid) for fid in expr.outputs]
    overwrites = {output.fid for output in rewriter.fusion.outputs if output.alias is not None}
    # One expr writes over one input at most; what its other parts overwrite is stored by a copy.
    is_copied = count > 1 and bool(overwrites.intersection(expr.outputs))
    fold = _Fold(
        combine=expr.combine,
        ordered=expr.is_ordered,
        state=tuple(value.dtype for value in values),
        components=tuple(operands[:count]),
        identity=tuple(operands[count:]),
        results=[None] * count if is_copied else expr.outputs,
        names=tuple(f"{value.name}_computed" if is_copied else value.name for value in values),
    )
    made = _emitted(rewriter, expr, fold, is_scan=expr.op == "scan")
    if is_copied:
        for value, fid in zip(made, expr.outputs, strict=True):
            rewriter.emit("set", [value], result=fid)


def _emitted(rewriter: Rewriter, expr: Expr, fold: _Fold, *, is_scan: bool) -> tuple[Value, ...]:
    named = dict(expr.attributes)
    if is_scan:
        return _scan(rewriter, fold, named["dim"])
    return _reduce(rewriter, fold, named["dims"] if "dims" in named else [named["dim"]], keepdim=named["keepdim"])


def _built_in(rewriter: Rewriter, expr: Expr, components: Sequence[Value], results: Results) -> tuple[Value, ...]:
    """Emit the lambda of ``expr``'s op over ``components``; its parts define ``results``."""
    op, name = op_of(expr), rewriter.value(expr.outputs[0]).name
    (dtype,) = op.operand_dtypes([components[0].type], dict(expr.attributes))
    lambda_ = BUILT_IN[op.name](op.name, kept_dtype(dtype))
    fold = _Fold(
        combine=rewriter.add_lambda(lambda_.body),
        ordered=op.is_running,
        state=state_dtypes(lambda_.body),
        components=tuple(components),
        identity=tuple(rewriter.constant(literal, name="identity") for literal in lambda_.identity),
        results=results,
        names=tuple(
            f"{name}_{part.name}" if fid is None else rewriter.value(fid).name
            for part, fid in zip(lambda_.body.outputs, results, strict=True)
        ),
    )
    return _emitted(rewriter, expr, fold, is_scan=op.is_running)


def _of_elements(rewriter: Rewriter, expr: Expr) -> None:
    _built_in(rewriter, expr, rewriter.operands(expr), expr.outputs)


def _arg_extreme(rewriter: Rewriter, expr: Expr) -> None:
    """Elements with their coordinates along the dim; the coordinate of the extreme is the result."""
    (x,), (result,) = rewriter.operands(expr), expr.outputs
    name = f"{rewriter.value(result).name}_indices"
    indices = rewriter.coordinate(x.tensor.shape, expr.attribute("dim"), name=name)
    _built_in(rewriter, expr, [x, indices], [None, result])


def _running_extreme(rewriter: Rewriter, expr: Expr) -> None:
    """Elements with their coordinates along the dim; both parts are results."""
    (x,) = rewriter.operands(expr)
    name = rewriter.value(expr.outputs[1]).name
    indices = rewriter.coordinate(x.tensor.shape, expr.attribute("dim"), name=f"{name}_own")
    _built_in(rewriter, expr, [x, indices], expr.outputs)


def _softmax_statistics(rewriter: Rewriter, expr: Expr) -> None:
    (x,) = rewriter.operands(expr)
    _built_in(rewriter, expr, [x, _exp_of_one(rewriter, expr, x)], expr.outputs)


def _logsumexp(rewriter: Rewriter, expr: Expr) -> None:
    """The logarithm of the sum of exponentials, and the shift that it was computed with."""
    (x,) = rewriter.operands(expr)
    largest, total = _built_in(rewriter, expr, [x, _exp_of_one(rewriter, expr, x)], [None, None])
    shift = _shift(rewriter, largest)
    rewriter.emit("add", [rewriter.emit("log", [total]), shift], result=expr.outputs[0])


LAMBDAS: dict[str, Callable[[Rewriter, Expr], None]] = {
    **dict.fromkeys(("any", "all", "cumsum", "cumprod"), _of_elements),
    **dict.fromkeys(("argmax", "argmin"), _arg_extreme),
    "online_softmax_statistics": _softmax_statistics,
    **dict.fromkeys(("cummax", "cummin"), _running_extreme),
    **dict.fromkeys(("logsumexp", "logcumsumexp"), _logsumexp),
}
"""How each op of :data:`fusebuild.ops.built_in_lambdas.BUILT_IN` is written with its lambda."""


def _exp_of_one(rewriter: Rewriter, expr: Expr, x: Value) -> Value:
    """What an element adds to a sum of exponentials: 1, as combining corrects the elements that are infinite. Where
    nothing is combined, they are seen to here."""
    dims = (expr.attribute("dim"),) if op_of(expr).is_running else expr.dims
    if any(x.tensor.shape[dim] != 1 for dim in dims):
        return rewriter.constant(1.0, name="one")
    return rewriter.emit("exp", [rewriter.emit("sub", [x, _shift(rewriter, x)])])


def _shift(rewriter: Rewriter, largest: Value) -> Value:
    """What is taken from every element before its exponential: the maximum, where that is finite."""
    infinite = rewriter.emit("isinf", [largest])
    return rewriter.emit("where", [infinite, rewriter.constant(0.0, name="zero"), largest])


def _scan(rewriter: Rewriter, fold: _Fold, dim: int) -> tuple[Value, ...]:
    if fold.shape[dim] == 1:
        return _unchanged(rewriter, fold, ())
    operands = [*_aligned(rewriter, fold), *fold.identity]
    named = {**fold.named, "dim": dim, "ordered": True}
    return rewriter.emit_all("scan", operands, named, names=fold.names, results=fold.results)


def _reduce(rewriter: Rewriter, fold: _Fold, dims: Sequence[int], *, keepdim: bool) -> tuple[Value, ...]:
    if all(fold.shape[dim] == 1 for dim in dims):
        return _unchanged(rewriter, fold, () if keepdim else dims)
    values: Sequence[Value] = _aligned(rewriter, fold)
    runs = dim_runs(fold.shape, dims)
    for run in reversed(runs):
        is_last = run is runs[0] and not keepdim
        values = rewriter.emit_all(
            "reduce",
            [*values, *fold.identity],
            {**fold.named, "dims": tuple(run), "keepdim": False},
            names=fold.names if is_last else [f"{name}_reduced" for name in fold.names],
            results=fold.results if is_last else (),
        )
    if not keepdim:
        return tuple(values)
    mask = tuple(dim in dims for dim in range(len(fold.shape)))
    return tuple(
        rewriter.emit("broadcast", [value], name=name, result=fid, is_broadcast_dim=mask)
        for value, fid, name in zip(values, fold.results, fold.names, strict=True)
    )


def dim_runs(shape: Sequence[Formula], dims: Sequence[int]) -> list[list[int]]:
    """``dims`` in runs of adjacent ones; dims of size 1 do not part a run."""
    runs: list[list[int]] = []
    for dim in dims:
        if runs and all(shape[between] == 1 for between in range(runs[-1][-1] + 1, dim)):
            runs[-1].append(dim)
        else:
            runs.append([dim])
    return runs


def _aligned(rewriter: Rewriter, fold: _Fold) -> list[Value]:
    """The components, tensors among them with the rank of the highest."""
    aligned = []
    for part in fold.components:
        if part.is_tensor and (missing := len(fold.shape) - part.tensor.rank):
            mask = (True,) * missing + (False,) * part.tensor.rank
            part = rewriter.emit("broadcast", [part], name=f"{part.name}_broadcast", is_broadcast_dim=mask)
        aligned.append(part)
    return aligned


def _unchanged(rewriter: Rewriter, fold: _Fold, dropped: Sequence[int]) -> tuple[Value, ...]:
    """The components as the state, without the dims ``dropped``, which have size 1."""
    kept = tuple(extent for dim, extent in enumerate(fold.shape) if dim not in dropped)
    made = []
    for component, dtype, fid, name in zip(_aligned(rewriter, fold), fold.state, fold.results, fold.names, strict=True):
        steps: list[tuple[str, dict[str, Attribute]]] = []
        if not component.is_tensor:
            steps.append(("full", {"shape": kept, "dtype": dtype}))
        else:
            if component.dtype is not dtype:
                steps.append(("cast", {"dtype": dtype}))
            if component.tensor.shape != fold.shape:
                steps.append(("expand", {"shape": fold.shape}))
            if dropped:
                steps.append(("squeeze", {"dims": tuple(dropped)}))
        chain = [Link(op=op, name=name, named=named) for op, named in steps or [("set", {})]]
        made.append(rewriter.chain(component, chain, fid))
    return tuple(made)
