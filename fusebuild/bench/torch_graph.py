"""A ``torch.fx`` graph that takes the inputs of a Fusion: what the modules of this package are written into.

What is in the graph is written as a torch user writes it, with proxies in the place of tensors: each call that a proxy
takes part in becomes a node. Sizes are read from the shapes of the inputs, so that one module serves every case.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import fx

from fusebuild.errors import NOWHERE, NoReferenceError
from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Fusion

Argument: TypeAlias = Any
"""What a value is in the graph: a proxy, or the number that it always is."""

_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floor_div": operator.floordiv,
    "mod": operator.mod,
    "min": min,
    "max": max,
}


class TorchGraph:
    """A graph with one placeholder an input, in the order of ``fusion.inputs``."""

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self._graph = fx.Graph()
        self._tracer = fx.proxy.GraphAppendingTracer(self._graph)
        nodes = {fid: self._graph.placeholder(fusion.value(fid).name) for fid in fusion.inputs}
        self.inputs: dict[int, Argument] = {fid: fx.Proxy(node, self._tracer) for fid, node in nodes.items()}
        self._sizes: dict[str, fx.Proxy] = {}

    def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> fx.Proxy:
        """A node that calls ``function``. Functions of torch that take a proxy for a tensor make such a node by
        themselves; those that take no tensor do not, nor do Python's own, and those of ``torch.nn.functional`` write
        out their defaults in it."""
        return self._tracer.create_proxy("call_function", function, arguments, named)

    def size(self, symbol: str) -> fx.Proxy:
        """The size of ``symbol``, from the first dim of an input that has it or, where none has, that tells it."""
        if symbol not in self._sizes:
            binding = next((binding for binding in self.fusion.extents if binding.extent == symbol), None)
            self._sizes[symbol] = self._solved(symbol) if binding is None else self._dim(binding.input, binding.dim)
        return self._sizes[symbol]

    def _dim(self, fid: int, dim: int) -> fx.Proxy:
        proxy: fx.Proxy = self.inputs[fid].shape[dim]
        return proxy

    def _solved(self, symbol: str) -> fx.Proxy:
        (told,) = (each for each in self.fusion.solved.solutions if each.symbol == symbol)
        dim: Any = self._dim(told.input, told.dim)
        proxy: fx.Proxy = (dim * told.divisor - self.extent(told.offset)) // self.extent(told.factor)
        return proxy

    def extent(self, formula: Formula) -> Argument:
        """The value of ``formula``."""
        if isinstance(formula, int):
            return formula
        if isinstance(formula, str):
            return self.size(formula)
        name, *operands = formula
        first, *rest = (self.extent(operand) for operand in operands)  # type: ignore[arg-type]
        for operand in rest:
            if name == "ceil_div":
                first = -(-first // operand)
            elif name in _OPERATORS:
                first = self.call(_OPERATORS[str(name)], first, operand)
            else:
                raise NoReferenceError.at(NOWHERE, f"'{name}' of sizes has no torch form")
        return first

    @cached_property
    def device(self) -> fx.Proxy:
        """Where the inputs lie. Raises :class:`NoReferenceError` for a fusion without tensor inputs."""
        tensors = sorted(self.fusion.tensor_inputs, key=lambda value: value.tensor.cpu)  # others go first
        if not tensors:
            raise NoReferenceError.at(NOWHERE, f"fusion {self.fusion.name} has no tensor input to name a device")
        device: fx.Proxy = self.inputs[tensors[0].fid].device
        return device

    def finish(self, results: tuple[Argument, ...]) -> fx.GraphModule:
        """The module that returns ``results``, without what they do not follow from."""
        self._graph.output(self._tracer.create_arg(results))
        self._graph.eliminate_dead_code()
        self._graph.lint()
        return fx.GraphModule(torch.nn.Module(), self._graph, class_name=self.fusion.name)
