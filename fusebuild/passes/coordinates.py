"""Where an element stands: what passes write comparisons of places with."""

from __future__ import annotations

from collections.abc import Sequence

from fusebuild.errors import SourceLocation
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula
from fusebuild.ir.values import Attribute, Value
from fusebuild.passes.rewriting import Rewriter


def coordinate(
    rewriter: Rewriter, shape: Sequence[Formula], dim: int, *, location: SourceLocation, name: str = ""
) -> Value:
    """The coordinate along ``dim`` of a tensor of ``shape``: int64, of its rank, of size 1 along all other dims."""
    zero, one = (rewriter.constant(literal, location=location) for literal in (0, 1))
    named: dict[str, Attribute] = {"length": shape[dim], "dtype": DType.INT64}
    indices = rewriter.emit("iota", [zero, one], named, name=name, location=location)
    mask = tuple(other != dim for other in range(len(shape)))
    if not any(mask):
        return indices
    return rewriter.emit("broadcast", [indices], {"is_broadcast_dim": mask}, name=name, location=location)


def number(rewriter: Rewriter, formula: Formula, *, location: SourceLocation) -> Value:
    """``formula`` as an int64 scalar: a constant, or what it is of the sizes at run time."""
    if isinstance(formula, int):
        return rewriter.constant(formula, location=location)
    return rewriter.emit("size", [], {"extent": formula}, location=location)
