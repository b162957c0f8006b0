"""Compute in the dims that a value has before it is reshaped, and let results be reshaped where they are written.

A reshape that merges dims, as from ``[T, G, 128]`` to ``[T, 128*G]``, says nothing about what is computed: whatever
comes after it can be computed in the finer dims, too, where the loops of what comes before it are at hand. So one
kernel computes both, and a row's reduction and its reshaped result need no trip through memory. An output is written
with its elements in the same order, whatever its dims are called: its :attr:`Output.shape` says how the caller sees it.

What cannot be computed in finer dims (a slice along merged dims, a scan, a library call) reads the reshaped value, as
before. Splits of dims move up to what is in memory instead (see ``index_reads``), or inputs are split from the start
(see ``split_inputs``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fusebuild.ir.algebra import Algebra
from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Attribute, Expr, Output, Value
from fusebuild.ops.indexing import permutation_of, reshape_groups
from fusebuild.ops.table import Kind, op_of
from fusebuild.passes.refinement import common_refinement
from fusebuild.passes.rewriting import Rewriter
from fusebuild.passes.split_inputs import Parts, split_inputs
from fusebuild.passes.strided import reads_as
from fusebuild.passes.views import view_between


def sink_reshapes(fusion: Fusion) -> Fusion:
    """``fusion`` with the reshapes of computed values next to what writes them, as far as that goes."""
    if not any(expr.op == "reshape" for expr in fusion.exprs):
        return fusion
    sinker = _Sinker(Rewriter(fusion))
    sinker.split(split_inputs(fusion))
    for expr in sinker.rewriter.exprs():
        sinker.visit(expr)
    return sinker.finish()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Finer:
    """A value in finer dims: those of ``value`` at each of the ``runs``, one run for each dim, make up that dim."""

    value: Value
    runs: tuple[range, ...]

    def parts(self, dim: int) -> tuple[Formula, ...]:
        """The finer dims that make up ``dim``."""
        run = self.runs[dim]
        return self.value.tensor.shape[run.start : run.stop]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sunk:
    """An expr in finer dims: what it reads, its attributes, and the runs of dims that make up each of its result's."""

    operands: tuple[Value, ...]
    named: dict[str, Attribute]
    runs: tuple[range, ...]


class _Sinker:
    """The walk over the exprs. ``_finer`` has, by old fid, the values that are computed in finer dims by now;
    ``_landed`` those of them that something reads as they were."""

    def __init__(self, rewriter: Rewriter) -> None:
        self.rewriter = rewriter
        self._fusion, self._algebra = rewriter.fusion, rewriter.builder.algebra
        self._finer: dict[int, _Finer] = {}
        self._landed: set[int] = set()
        self._overwriting = {output.fid for output in self._fusion.outputs if output.alias is not None}

    def split(self, inputs: Mapping[int, Parts]) -> None:
        """Read ``inputs`` in finer dims."""
        for fid, parts in inputs.items():
            value, shape = self.rewriter.value(fid), tuple(extent for part in parts for extent in part)
            finer = self.rewriter.emit("reshape", [value], name=f"{value.name}_reshape", shape=shape)
            self._finer[fid] = _Finer(value=finer, runs=_runs_of(parts))

    def visit(self, expr: Expr) -> None:
        if not self._overwriting.isdisjoint(expr.outputs):
            self._keep(expr)
        elif expr.op == "reshape":
            self._reshape(expr)
        elif (sunk := self._sunk(expr)) is not None:
            self._emit(expr, sunk)
        else:
            self._keep(expr)

    def finish(self) -> Fusion:
        """The rewritten Fusion. Outputs in finer dims say in which shape the caller sees them."""
        return replace(
            self.rewriter.finish(), outputs=tuple(self._as_the_caller_sees_it(each) for each in self._fusion.outputs)
        )

    def _as_the_caller_sees_it(self, output: Output) -> Output:
        if output.fid not in self._finer or output.shape is not None:
            return output
        return replace(output, shape=self._shape(output.fid))

    def _shape(self, fid: int) -> tuple[Formula, ...]:
        """The shape of ``fid`` in the Fusion as it was."""
        return self._fusion.value(fid).tensor.shape

    def _reshape(self, expr: Expr) -> None:
        (source,), (result,) = expr.inputs, expr.outputs
        finer = self._finer.get(source)
        value = self._refined(self.rewriter.value(source) if finer is None else finer.value, self._shape(result))
        runs = _merged_runs(value.tensor.shape, self._shape(result), self._algebra)
        if finer is not None and value.tensor.shape == self._shape(result):
            self.rewriter.replace(result, value)
        elif runs is None:
            self.rewriter.emit("reshape", [value], result=result, shape=self._shape(result))
        elif self._fusion.is_output(result):
            self._finer[result] = _Finer(value=self.rewriter.emit("set", [value], result=result), runs=runs)
        else:
            self._finer[result] = _Finer(value=value, runs=runs)

    def _refined(self, value: Value, shape: tuple[Formula, ...]) -> Value:
        """``value`` in the dims that it has in common with ``shape``, where those are finer than both and reading it so
        moves nothing; else ``value`` itself."""
        own = value.tensor.shape
        common = None if 0 in own else common_refinement(own, shape, self._algebra)
        if common is None or common in (own, shape) or not reads_as(self.rewriter, value, common, self._algebra):
            return value
        return self.rewriter.emit("reshape", [value], name=f"{value.name}_reshape", shape=common)

    def _keep(self, expr: Expr) -> None:
        """``expr`` as it is, reading reshaped values."""
        for fid in dict.fromkeys(expr.inputs):
            if fid in self._finer and fid not in self._landed:
                self._land(fid)
        self.rewriter.keep(expr)

    def _land(self, fid: int) -> None:
        """Let readers of ``fid`` that are yet to be kept read it in the shape that it had."""
        value, shape = self._finer[fid].value, self._shape(fid)
        was_reshaped = value.fid != fid  # else the old fid is that of the value in finer dims
        name = self._fusion.value(fid).name
        reshaped = self.rewriter.emit("reshape", [value], name=name, result=fid if was_reshaped else None, shape=shape)
        if reshaped.fid != fid:
            self.rewriter.redirect(fid, reshaped)
        self._landed.add(fid)

    def _emit(self, expr: Expr, sunk: _Sunk) -> None:
        made = self.rewriter.emit_all(expr.op, sunk.operands, sunk.named, names=(), results=expr.outputs)
        for fid, value in zip(expr.outputs, made, strict=True):
            if value.tensor.shape != self._shape(fid):
                self._finer[fid] = _Finer(value=value, runs=sunk.runs)

    def _sunk(self, expr: Expr) -> _Sunk | None:
        """``expr`` in finer dims; None where it reads nothing in such dims, or cannot be computed in them."""
        if self._finer.keys().isdisjoint(expr.inputs) or not op_of(expr).of_elements:
            return None
        kind = op_of(expr).kind
        if kind is Kind.POINTWISE:
            return self._pointwise(expr)
        if kind is Kind.REDUCTION:
            return self._reduction(expr)
        return self._view(expr) if kind is Kind.VIEW else None

    def _pointwise(self, expr: Expr) -> _Sunk | None:
        found = self._in_common_parts(expr, self._shape(expr.outputs[0]))
        if found is None:
            return None
        operands, parts = found
        return _Sunk(operands=operands, named=dict(expr.attributes), runs=_runs_of(parts))

    def _reduction(self, expr: Expr) -> _Sunk | None:
        found = self._in_common_parts(expr, next(self._shape(fid) for fid in expr.inputs if fid in self._finer))
        if found is None:
            return None
        operands, parts = found
        runs = _runs_of(parts)
        dims = tuple(dim for old in sorted(expr.dims) for dim in runs[old])
        kept = [part for dim, part in enumerate(parts) if dim not in expr.dims]
        return _Sunk(operands=operands, named=dict(expr.attributes) | {"dims": dims}, runs=_runs_of(kept))

    def _in_common_parts(self, expr: Expr, shape: Sequence[Formula]) -> tuple[tuple[Value, ...], Parts] | None:
        """The operands of ``expr``, which broadcast to ``shape``, in the finer dims that they have in common, and those
        dims; None where they have none, or where one cannot be had in them without a trip through memory."""
        parts = self._common_parts(expr, shape)
        if parts is None:
            return None
        fitted = [self._fitted_to(fid, shape, parts) for fid in expr.inputs]
        operands = tuple(each for each in fitted if each is not None)
        return (operands, parts) if len(operands) == len(fitted) else None

    def _common_parts(self, expr: Expr, shape: Sequence[Formula]) -> Parts | None:
        """For each dim of ``shape`` the finer dims in which all operands of ``expr`` that have such agree; None where
        they do not."""
        parts: list[tuple[Formula, ...]] = []
        for dim, extent in enumerate(shape):
            found = {
                finer.parts(dim)
                for fid in expr.inputs
                if (finer := self._finer.get(fid)) is not None and self._shape(fid)[dim] == extent
            }
            if len(found) > 1:
                return None
            parts.append(next(iter(found), (extent,)))
        return tuple(parts)

    def _fitted_to(self, fid: int, shape: Sequence[Formula], parts: Parts) -> Value | None:
        finer, value = self._finer.get(fid), self.rewriter.value(fid)
        if not value.is_tensor or self._fusion.value(fid).tensor.rank != len(shape):
            return value
        own, value = self._shape(fid), value if finer is None else finer.value
        wanted = [
            part if size == extent else (1,) * len(part) for part, size, extent in zip(parts, own, shape, strict=True)
        ]
        target = tuple(extent for part in wanted for extent in part)
        if value.tensor.shape == target:
            return value
        if (view := view_between(value.tensor.shape, target)) is not None:
            return self.rewriter.emit(view.op, [value], name=f"{value.name}_{view.op}", **view.named)
        if not reads_as(self.rewriter, value, target, self._algebra):
            return None
        return self.rewriter.emit("reshape", [value], name=f"{value.name}_reshape", shape=target)

    def _view(self, expr: Expr) -> _Sunk | None:
        finer, named = self._finer[expr.inputs[0]], dict(expr.attributes)
        own = self._shape(expr.inputs[0])
        parts = [finer.parts(dim) for dim in range(len(own))]
        match expr.op:
            case "permute":
                order = permutation_of(named, len(own))
                named["permutation"] = tuple(dim for old in order for dim in finer.runs[old])
                parts = [parts[dim] for dim in order]
            case "broadcast":
                mask, rest = expr.attribute("is_broadcast_dim"), iter(parts)
                parts = [(1,) if is_new else next(rest) for is_new in mask]
                named["is_broadcast_dim"] = tuple(
                    is_new for is_new, part in zip(mask, parts, strict=True) for _ in part
                )
            case "squeeze":
                named["dims"] = tuple(dim for old in expr.dims for dim in finer.runs[old])
                parts = [part for dim, part in enumerate(parts) if dim not in expr.dims]
            case "expand":
                new = self._shape(expr.outputs[0])
                if any(size != grown and len(part) != 1 for size, grown, part in zip(own, new, parts, strict=True)):
                    return None
                parts = [part if size == grown else (grown,) for size, grown, part in zip(own, new, parts, strict=True)]
                named["shape"] = tuple(extent for part in parts for extent in part)
            case _:
                return None
        return _Sunk(operands=(finer.value,), named=named, runs=_runs_of(parts))


def _runs_of(parts: Sequence[tuple[Formula, ...]]) -> tuple[range, ...]:
    """The positions that ``parts``, one after another, take."""
    ends = [sum(map(len, parts[: at + 1])) for at in range(len(parts))]
    return tuple(range(end - len(part), end) for end, part in zip(ends, parts, strict=True))


def _merged_runs(old: Sequence[Formula], new: Sequence[Formula], algebra: Algebra) -> tuple[range, ...] | None:
    """The run of dims of ``old`` that makes up each dim of ``new``; None where a dim of ``old`` is split, and where
    there are no elements, or a dim of size 1 is added, which ``broadcast`` does."""
    if 0 in old:
        return None
    runs: list[range] = []
    for extent in new:
        begin = runs[-1].stop if runs else 0
        ends = [end for end in range(begin + 1, len(old) + 1) if _is_run_of(old[begin:end], extent, algebra)]
        if not ends:
            return None
        runs.append(range(begin, ends[0]))
    if not runs or any(extent != 1 for extent in old[runs[-1].stop :]):
        return None
    return (*runs[:-1], range(runs[-1].start, len(old)))


def _is_run_of(extents: Sequence[Formula], whole: Formula, algebra: Algebra) -> bool:
    """Whether dims of ``extents`` have together as many elements as one of ``whole``."""
    return reshape_groups(extents, (whole,), algebra) is not None
