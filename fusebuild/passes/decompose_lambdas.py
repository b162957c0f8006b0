"""Generalized reductions and scans in primitives, and built-in ops as such with lambdas of their own.

What is left of a ``reduce`` or ``scan`` has tensor operands of one rank, and each ``reduce`` goes over one run of
adjacent dims without ``keepdim``. Over dims of size 1 alone both give what they are given.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fusebuild.errors import SourceLocation
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula
from fusebuild.ir.values import Attribute, Expr, Value
from fusebuild.ops.built_in_lambdas import BUILT_IN
from fusebuild.ops.lambdas import state_dtypes
from fusebuild.ops.table import OPS
from fusebuild.ops.type_rules import broadcast_shapes
from fusebuild.passes.coordinates import coordinate
from fusebuild.passes.rewriting import Rewriter

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
    location: SourceLocation

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
        location=expr.location,
    )
    if expr.op == "scan":
        made = _scan(rewriter, fold, _dim(expr))
    else:
        made = _reduce(rewriter, fold, expr.dims, keepdim=bool(expr.attribute("keepdim")))
    if is_copied:
        for value, fid in zip(made, expr.outputs, strict=True):
            rewriter.emit("set", [value], result=fid, location=expr.location)


def built_in(rewriter: Rewriter, expr: Expr) -> None:
    """Write one of :data:`BUILT_IN` with its lambda."""
    (x,) = rewriter.operands(expr)
    (dtype,) = OPS[expr.op].operand_dtypes([x.type], dict(expr.attributes))
    lambda_ = BUILT_IN[expr.op](expr.op, DType.FLOAT if dtype.is_reduced_precision else dtype)
    place, name = expr.location, rewriter.value(expr.outputs[0]).name
    components, results = [x], list[int | None](expr.outputs)
    if expr.op in ("argmax", "argmin"):
        components, results = [x, _indices(rewriter, expr, x)], [None, *expr.outputs]
    elif len(lambda_.identity) == 2:
        components = [x, _exp_of_one(rewriter, expr, x)]
        results = [None, None] if expr.op == "logsumexp" else results
    fold = _Fold(
        combine=rewriter.add_lambda(lambda_.body),
        ordered=expr.op in ("cumsum", "cumprod"),
        state=state_dtypes(lambda_.body),
        components=tuple(components),
        identity=tuple(rewriter.constant(literal, name="identity", location=place) for literal in lambda_.identity),
        results=results,
        names=tuple(
            f"{name}_{lambda_.body.outputs[part].name}" if fid is None else rewriter.value(fid).name
            for part, fid in enumerate(results)
        ),
        location=place,
    )
    if expr.op in ("cumsum", "cumprod"):
        _scan(rewriter, fold, _dim(expr))
        return
    dims = (_dim(expr),) if expr.op in ("argmax", "argmin") else expr.dims
    made = _reduce(rewriter, fold, dims, keepdim=bool(expr.attribute("keepdim")))
    if expr.op == "logsumexp":
        _log_of_sum(rewriter, expr, *made)


def _dim(expr: Expr) -> int:
    dim = expr.attribute("dim")
    assert isinstance(dim, int)
    return dim


def _indices(rewriter: Rewriter, expr: Expr, x: Value) -> Value:
    """The coordinate along the dim of ``expr``, of the rank of ``x``."""
    name = f"{rewriter.value(expr.outputs[0]).name}_indices"
    return coordinate(rewriter, x.tensor.shape, _dim(expr), name=name, location=expr.location)


def _exp_of_one(rewriter: Rewriter, expr: Expr, x: Value) -> Value:
    """What an element adds to a sum of exponentials: 1, as combining corrects the elements that are infinite. Where
    nothing is combined, they are seen to here."""
    place = expr.location
    if any(x.tensor.shape[dim] != 1 for dim in expr.dims):
        return rewriter.constant(1.0, name="one", location=place)
    shifted = rewriter.emit("sub", [x, _shift(rewriter, expr, x)], location=place)
    return rewriter.emit("exp", [shifted], location=place)


def _shift(rewriter: Rewriter, expr: Expr, largest: Value) -> Value:
    """What is taken from every element before its exponential: the maximum, where that is finite."""
    infinite = rewriter.emit("isinf", [largest], location=expr.location)
    zero = rewriter.constant(0.0, name="zero", location=expr.location)
    return rewriter.emit("where", [infinite, zero, largest], location=expr.location)


def _log_of_sum(rewriter: Rewriter, expr: Expr, largest: Value, total: Value) -> None:
    """``log(total)`` and the shift that it was computed with."""
    shift = _shift(rewriter, expr, largest)
    log = rewriter.emit("log", [total], location=expr.location)
    rewriter.emit("add", [log, shift], result=expr.outputs[0], location=expr.location)


def _scan(rewriter: Rewriter, fold: _Fold, dim: int) -> tuple[Value, ...]:
    if fold.shape[dim] == 1:
        return _unchanged(rewriter, fold, ())
    operands = [*_aligned(rewriter, fold), *fold.identity]
    named = {**fold.named, "dim": dim, "ordered": True}
    return rewriter.emit_all("scan", operands, named, names=fold.names, results=fold.results, location=fold.location)


def _reduce(rewriter: Rewriter, fold: _Fold, dims: Sequence[int], *, keepdim: bool) -> tuple[Value, ...]:
    if all(fold.shape[dim] == 1 for dim in dims):
        return _unchanged(rewriter, fold, () if keepdim else dims)
    values = _aligned(rewriter, fold)
    runs = dim_runs(fold.shape, dims)
    for run in reversed(runs):
        is_last = run is runs[0] and not keepdim
        values = list(
            rewriter.emit_all(
                "reduce",
                [*values, *fold.identity],
                {**fold.named, "dims": tuple(run), "keepdim": False},
                names=fold.names if is_last else [f"{name}_reduced" for name in fold.names],
                results=fold.results if is_last else (),
                location=fold.location,
            )
        )
    if not keepdim:
        return tuple(values)
    mask = tuple(dim in dims for dim in range(len(fold.shape)))
    return tuple(
        rewriter.emit("broadcast", [value], {"is_broadcast_dim": mask}, name=name, result=fid, location=fold.location)
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
    rank = len(fold.shape)
    aligned = []
    for component in fold.components:
        if component.is_tensor and (missing := rank - component.tensor.rank):
            mask = (True,) * missing + (False,) * component.tensor.rank
            name = f"{component.name}_broadcast"
            component = rewriter.emit(
                "broadcast", [component], {"is_broadcast_dim": mask}, name=name, location=fold.location
            )
        aligned.append(component)
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
        for index, (op, named) in enumerate(steps or [("set", {})]):
            result = fid if index >= len(steps) - 1 else None
            component = rewriter.emit(op, [component], named, name=name, result=result, location=fold.location)
        made.append(component)
    return tuple(made)
