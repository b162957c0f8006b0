"""Random ops as torch calls: what a torch user writes, with torch's own generator.

Torch numbers its draws otherwise than :mod:`fusebuild.ops.random` does, so what these compute agrees with a kernel in
distribution alone, and that is how it is compared: see :func:`same_distribution`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch

from fusebuild.bench.torch_graph import Argument, TorchGraph
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Value
from fusebuild.ops.table import OPS
from fusebuild.oracle.reference import torch_dtype

DEVIATIONS = 6.0
"""By how many standard deviations two means may differ: what chance exceeds once in a billion times."""


def _linear_index(graph: TorchGraph, given: Sequence[Argument], shape: tuple[Any, ...], value: Value) -> list[Argument]:
    count = graph.extent(value.tensor.numel)
    places = graph.call(torch.arange, count, dtype=torch.int64, device=graph.device)
    return [graph.method("reshape", places, shape)]


def _rand_like(graph: TorchGraph, given: Sequence[Argument], shape: tuple[Any, ...], value: Value) -> list[Argument]:
    return [graph.call(torch.rand_like, given[0])]


def _uniform(graph: TorchGraph, given: Sequence[Argument], shape: tuple[Any, ...], value: Value) -> list[Argument]:
    low, high = given[:2]
    draw = graph.call(torch.rand, shape, dtype=torch_dtype(value.dtype), device=graph.device)
    scaled = graph.call(operator.mul, draw, graph.call(operator.sub, high, low))
    return [graph.call(operator.add, scaled, low)]


def _dropout(graph: TorchGraph, given: Sequence[Argument], shape: tuple[Any, ...], value: Value) -> list[Argument]:
    made = graph.call(torch.native_dropout, graph.method("to", given[0], torch_dtype(value.dtype)), given[1], True)
    return [graph.call(operator.getitem, made, position) for position in range(2)]


Drawing = Callable[[TorchGraph, Sequence[Argument], tuple[Any, ...], Value], list[Argument]]

RANDOM: dict[str, Drawing] = {
    "linear_index": _linear_index,
    "rand_like": _rand_like,
    "uniform": _uniform,
    "dropout": _dropout,
}
"""Every random op that has a torch form: with its operands, the shape and the value of its first result."""


def random_fids(fusion: Fusion) -> frozenset[int]:
    """The values of ``fusion`` that follow from random numbers."""
    found: set[int] = set()
    for expr in fusion.exprs:
        if OPS[expr.op].is_random or not found.isdisjoint(expr.inputs):
            found.update(expr.outputs)
    return frozenset(found)


def same_distribution(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Whether two tensors of one shape may be samples of one distribution: no more is asked than that their means
    agree, and those of their squares, as well as so many elements tell."""
    for first, second in ((a.double(), b.double()), (a.double().square(), b.double().square())):
        spread = (first.var(correction=0) + second.var(correction=0)) / first.numel()
        if not bool((first.mean() - second.mean()).abs() <= DEVIATIONS * spread.sqrt() + 1e-6 * first.abs().mean()):
            return False
    return True
