"""Ops that read elements elsewhere, as what a torch user writes who knows that no index is out of range."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fusebuild.bench.torch_graph import Argument, TorchGraph
from fusebuild.ir.values import Expr, Value

Write = Callable[[TorchGraph, Expr, Sequence[Any], Value], Argument]
"""From an expr, its operands in the graph and the value that it gives, to a node."""


def _extents(graph: TorchGraph, expr: Expr, name: str) -> list[Any] | None:
    formulas = expr.attribute(name)
    assert formulas is None or isinstance(formulas, tuple)
    return None if formulas is None else [graph.extent(formula) for formula in formulas]


def _slice(graph: TorchGraph, expr: Expr, operands: Sequence[Any], result: Value) -> Argument:
    starts, ends = _extents(graph, expr, "start_indices"), _extents(graph, expr, "end_indices")
    steps = _extents(graph, expr, "strides")
    assert starts is not None
    assert ends is not None
    bounds = zip(starts, ends, steps or [1] * len(starts), strict=True)
    return graph.call(operator.getitem, operands[0], tuple(slice(*each) for each in bounds))


def _pad(graph: TorchGraph, expr: Expr, operands: Sequence[Any], result: Value) -> Argument:
    return graph.call(torch.nn.functional.pad, operands[0], _extents(graph, expr, "pad_widths"), value=operands[1])


def _take(graph: TorchGraph, expr: Expr, operands: Sequence[Any], result: Value) -> Argument:
    x, index = operands
    dim = expr.attribute("dim")
    assert isinstance(dim, int)
    return graph.call(operator.getitem, x, (*[slice(None)] * dim, index))


def _embedding(graph: TorchGraph, expr: Expr, operands: Sequence[Any], result: Value) -> Argument:
    table, ids = operands
    return graph.call(torch.nn.functional.embedding, ids, table)


def _take_along_axis(graph: TorchGraph, expr: Expr, operands: Sequence[Any], result: Value) -> Argument:
    x, index = operands
    return graph.call(torch.take_along_dim, x, graph.method("long", index), expr.attribute("dim"))


INDEXING: dict[str, Write] = {
    "slice": _slice,
    "pad": _pad,
    "take": _take,
    "index_select": _take,
    "embedding": _embedding,
    "take_along_axis": _take_along_axis,
    "gather": _take_along_axis,
}
