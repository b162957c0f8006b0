"""Folds of whole tensors that are folded over some dims anyway: made of the results of those.

The largest element of a tensor is the largest of its rows' largest ones. Where these are computed, too, nobody has to
read the tensor a second time. So it is with sums, products, maxima and minima, whose order nobody promises. Either all
reductions of the whole tensor are made so, or none: a kernel that is left with one of them reads the tensor anyway, and
the others cost nothing there. That is also so where the tensor is read again for the sake of what is made of them.
"""

from __future__ import annotations

from collections.abc import Iterable

from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr
from fusebuild.ops.table import Kind, op_of
from fusebuild.passes.rewriting import Rewriter

FOLDS = ("sum", "prod", "max", "min")
"""The reductions of which one over all dims is one of those over some."""


def shared_folds(fusion: Fusion) -> Fusion:
    partial, rewriter = _partial_folds(fusion), Rewriter(fusion)
    made: set[int] = set()

    def make(expr: Expr) -> None:
        """Record ``expr`` where it is not yet there, after what it is made of."""
        fid = expr.outputs[0]
        if fid in made:
            return
        made.add(fid)
        if (first := partial.get(fid)) is None:
            rewriter.keep(expr)
            return
        make(first)
        named = dict(expr.attributes) | {"dims": _left(expr, first)}
        rewriter.emit(expr.op, [rewriter.value(first.outputs[0])], result=fid, location=expr.location, **named)

    for expr in rewriter.exprs():
        make(expr)
    return rewriter.finish()


def _left(expr: Expr, first: Expr) -> tuple[int, ...]:
    """The dims of the result of ``first`` that ``expr`` reduces over."""
    return tuple(dim - sum(each < dim for each in first.dims) for dim in expr.dims if dim not in first.dims)


def _partial_folds(fusion: Fusion) -> dict[int, Expr]:
    """For each fold, by its result, the one over fewer dims of the same operand that it can be made of."""
    folds: dict[tuple[str, int], list[Expr]] = {}
    alike: dict[object, list[Expr]] = {}
    for expr in fusion.exprs:
        if op_of(expr).kind is not Kind.REDUCTION:
            continue
        if expr.op in FOLDS:
            folds.setdefault((expr.op, expr.inputs[0]), []).append(expr)
        alike.setdefault((fusion.value(expr.inputs[0]).tensor.shape, expr.dims), []).append(expr)
    found: dict[int, Expr] = {}
    for group in alike.values():
        parts = {expr.outputs[0]: _part_of(fusion, expr, folds.get((expr.op, expr.inputs[0]), ())) for expr in group}
        known = {fid: part for fid, part in parts.items() if part is not None}
        if len(known) == len(parts) and all(_is_whole(fusion, expr) for expr in group):
            found |= known
    return found


def _is_whole(fusion: Fusion, expr: Expr) -> bool:
    """Whether ``expr`` reduces over all dims, and nothing of the shape that it reduces follows from it."""
    shape = fusion.value(expr.inputs[0]).tensor.shape
    if len(expr.dims) < len(shape):
        return False
    following = {*expr.outputs}
    for each in fusion.exprs:
        if following.isdisjoint(each.inputs):
            continue
        following.update(each.outputs)
        if any(value.is_tensor and value.tensor.shape == shape for value in map(fusion.value, each.outputs)):
            return False
    return True


def _part_of(fusion: Fusion, expr: Expr, others: Iterable[Expr]) -> Expr | None:
    """That of ``others`` over the most dims that ``expr`` reduces over, too; None where there is none."""
    dtype = fusion.value(expr.outputs[0]).dtype
    parts = [each for each in others if {*each.dims} < {*expr.dims} and fusion.value(each.outputs[0]).dtype is dtype]
    return max(parts, key=lambda each: len(each.dims), default=None)
