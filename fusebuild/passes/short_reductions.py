"""Reductions of a few elements that another reduction needs: written out as arithmetic on slices.

The sum of four streams whose rows are then normalized runs over another dim than the norm does, and a kernel that has
both would have to keep the one in memory while it computes the other. As the sum of four slices it is elementwise work
of the rows, and slices are read in place. That is so where how many elements there are is known now, what is summed is
computed for the sum alone, and rows are whole in each slice: where the innermost dim itself is reduced, slices would
have their elements apart.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.table import Kind, op_of
from fusebuild.passes.rewriting import Rewriter

MOST_SLICES = 8
"""Elements that are written out, at most: each slice of each operand is a tensor of its own to a kernel."""

FOLDS = {"sum": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
"""The op that combines two elements, for each reduction that is written out."""

MOVES = ("broadcast", "full", "squeeze")
"""What has slices that are themselves made of slices, beside what is elementwise."""


def short_reductions(fusion: Fusion) -> Fusion:
    rewriter = Rewriter(fusion)
    needed = _needed_by_reductions(fusion)
    for expr in rewriter.exprs():
        if _is_short(fusion, expr) and expr.outputs[0] in needed and _is_for(fusion, expr):
            _write_out(rewriter, expr)
        else:
            rewriter.keep(expr)
    return rewriter.finish()


def _needed_by_reductions(fusion: Fusion) -> set[int]:
    """The values that some reduction or scan is computed from."""
    needed: set[int] = set()
    for expr in reversed(fusion.exprs):
        if op_of(expr).kind in (Kind.REDUCTION, Kind.SCAN) or not needed.isdisjoint(expr.outputs):
            needed.update(expr.inputs)
    return needed


def _is_short(fusion: Fusion, expr: Expr) -> bool:
    """Whether ``expr`` combines a known number of elements, few of them, each of which is one of a whole row."""
    if expr.op not in FOLDS or fusion.value(expr.outputs[0]).dtype.is_reduced_precision:
        return False
    shape = fusion.value(expr.inputs[0]).tensor.shape
    counts = [each for dim in expr.dims if isinstance(each := shape[dim], int)]
    is_known, is_inner = len(counts) == len(expr.dims), len(shape) - 1 in expr.dims
    return is_known and not is_inner and 1 < math.prod(counts) <= MOST_SLICES


def _is_for(fusion: Fusion, reduction: Expr) -> bool:
    """Whether what ``reduction`` combines is computed element by element, and for nothing else; what is broadcast is
    smaller, and may be anything but results of its rows."""
    waiting, cone = [*reduction.inputs], {fusion.definition(reduction.outputs[0])}
    made: list[int] = []
    while waiting:
        fid = waiting.pop()
        index = fusion.definition(fid)
        if index is None or index in cone or not fusion.value(fid).is_tensor:
            continue
        expr = fusion.exprs[index]
        if not op_of(expr).is_elementwise and expr.op not in MOVES:
            return False
        cone.add(index)
        made.append(fid)
        if expr.op != "broadcast":
            waiting += expr.inputs
        elif _follows_from_rows(fusion, expr.inputs[0], fusion.value(reduction.inputs[0]).tensor.shape[-1]):
            return False
    return not any(fusion.is_output(each) or not cone.issuperset(fusion.uses(each)) for each in made)


def _follows_from_rows(fusion: Fusion, fid: int, columns: Formula) -> bool:
    """Whether a reduction over ``columns`` is needed for the value ``fid``."""
    waiting, seen = [fid], {fid}
    while waiting:
        expr = fusion.expr_of(waiting.pop())
        if expr is None:
            continue
        shapes = [fusion.value(each).tensor.shape for each in expr.inputs if fusion.value(each).is_tensor]
        if op_of(expr).kind is Kind.REDUCTION and any(columns in shape for shape in shapes):
            return True
        new = [each for each in expr.inputs if each not in seen]
        seen.update(new)
        waiting += new
    return False


def _write_out(rewriter: Rewriter, expr: Expr) -> None:
    (whole,), dtype = rewriter.operands(expr), rewriter.value(expr.outputs[0]).dtype
    parts = (rewriter.cast(part, dtype) for part in _slices(rewriter, whole, expr.dims))
    combined = next(parts)
    for part in parts:
        combined = rewriter.emit(FOLDS[expr.op], [combined, part])
    rewriter.replace_cast(expr, combined)


def _slices(rewriter: Rewriter, whole: Value, dims: Sequence[int]) -> Iterator[Value]:
    """What ``whole`` has at each place along ``dims``, without these dims."""
    shape = whole.tensor.shape
    counts = [each for dim in dims if isinstance(each := shape[dim], int)]
    for place in product(*map(range, counts)):
        at = dict(zip(dims, place, strict=True))
        starts = tuple(at.get(dim, 0) for dim in range(len(shape)))
        ends = tuple(at[dim] + 1 if dim in at else extent for dim, extent in enumerate(shape))
        part = rewriter.emit("slice", [whole], start_indices=starts, end_indices=ends)
        yield rewriter.emit("squeeze", [part], dims=tuple(dims))
