"""A ``torch.fx`` graph that takes the inputs of a Fusion: what the modules of this package are written into.

Sizes are read from the shapes of the inputs, so that one module serves every case.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import fx

from fusebuild.errors import NOWHERE, NoReferenceError
from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Fusion

Argument: TypeAlias = "fx.Node | bool | int | float"
"""What a value is in the graph: a node, or the number that it always is."""

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
        self.inputs = {fid: self._graph.placeholder(fusion.value(fid).name) for fid in fusion.inputs}
        self._sizes: dict[str, fx.Node] = {}
        self._device: fx.Node | None = None

    def call(self, function: Callable[..., Any], *arguments: Any, **named: Any) -> fx.Node:
        """A node that calls ``function``."""
        return self._graph.call_function(function, arguments, named)

    def method(self, name: str, *arguments: Any, **named: Any) -> fx.Node:
        """A node that calls the method ``name`` of its first argument."""
        return self._graph.call_method(name, arguments, named)

    def proxy(self, node: fx.Node) -> fx.Proxy:
        """``node`` for torch functions to be called on; each call becomes a node."""
        return fx.Proxy(node, self._tracer)

    def size(self, symbol: str) -> fx.Node:
        """The size of ``symbol``, from the first dim of an input that has it."""
        if symbol not in self._sizes:
            binding = next(binding for binding in self.fusion.extents if binding.extent == symbol)
            shape = self.call(getattr, self.inputs[binding.input], "shape")
            self._sizes[symbol] = self.call(operator.getitem, shape, binding.dim)
        return self._sizes[symbol]

    def extent(self, formula: Formula) -> Any:
        """The value of ``formula``: a number, or a node."""
        if isinstance(formula, int):
            return formula
        if isinstance(formula, str):
            return self.size(formula)
        name, *operands = formula
        first, *rest = (self.extent(operand) for operand in operands)  # type: ignore[arg-type]
        for operand in rest:
            if name == "ceil_div":
                first = self.call(operator.neg, self.call(operator.floordiv, self.call(operator.neg, first), operand))
            elif name in _OPERATORS:
                first = self.call(_OPERATORS[str(name)], first, operand)
            else:
                raise NoReferenceError.at(NOWHERE, f"'{name}' of sizes has no torch form")
        return first

    @property
    def device(self) -> fx.Node:
        """Where the inputs lie. Raises :class:`NoReferenceError` for a fusion without tensor inputs."""
        if self._device is None:
            tensors = [
                value for value in self.fusion.tensor_inputs if not value.tensor.cpu
            ] or self.fusion.tensor_inputs
            if not tensors:
                raise NoReferenceError.at(NOWHERE, f"fusion {self.fusion.name} has no tensor input to name a device")
            self._device = self.call(getattr, self.inputs[tensors[0].fid], "device")
        return self._device

    def finish(self, results: Any) -> fx.GraphModule:
        """The module that returns ``results``, without what they do not follow from."""
        self._graph.output(results)
        self._graph.eliminate_dead_code()
        self._graph.lint()
        return fx.GraphModule(torch.nn.Module(), self._graph, class_name=self.fusion.name)
