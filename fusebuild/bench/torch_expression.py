"""The torch reference of a recipe as a module, built from its syntax tree: nothing of the text is run as Python."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType
from typing import Any

import torch
from torch import fx

from fusebuild.bench.torch_graph import TorchGraph
from fusebuild.errors import NoReferenceError, nearest
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import ScalarType
from fusebuild.recipe.bench import Reference, reference_expression

_OPERATORS: dict[type[ast.operator], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
}


def expression_module(fusion: Fusion, reference: Reference) -> fx.GraphModule:
    """``reference`` as a module that takes the inputs of ``fusion`` in order and returns a tuple of its results.

    Raises :class:`NoReferenceError` where this torch has no function of that name.
    """
    writer = _Writer(fusion, reference)
    results = writer.write(reference_expression(reference.text))
    return writer.finish(tuple(results) if isinstance(results, tuple | list) else (results,))


class _Writer(TorchGraph):
    def __init__(self, fusion: Fusion, reference: Reference) -> None:
        super().__init__(fusion)
        self._reference = reference
        self._names: dict[str, Any] = {
            value.name: value.literal
            for value in fusion.values.values()
            if value.is_constant and isinstance(value.type, ScalarType)
        }
        self._names |= {fusion.value(fid).name: node for fid, node in self.inputs.items()}
        self._numbers = {fusion.value(fid).name for fid in fusion.inputs if not fusion.value(fid).is_tensor}

    def write(self, node: ast.expr) -> Any:
        """What ``node`` is in the graph: a proxy, a number, a text, or a tuple or list of those."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._names[name] if name in self._names else self.size(name)
            case ast.Tuple(elts=items):
                return tuple(self.write(item) for item in items)
            case ast.List(elts=items):
                return [self.write(item) for item in items]
            case ast.UnaryOp(op=op, operand=operand):
                sign = operator.neg if isinstance(op, ast.USub) else operator.pos
                return self._apply(sign, self.write(operand))
            case ast.BinOp(left=left, op=op, right=right):
                function = _OPERATORS[type(op)]
                if isinstance(op, ast.Pow) and self._is_number(left) and self._is_number(right):
                    function = math.pow  # overflows where a power of whole numbers would be computed for ever
                return self._apply(function, self.write(left), self.write(right))
            case ast.Attribute(attr=name):
                return getattr(torch, name)
            case ast.Call():
                return self._call(node)
            case _:
                raise AssertionError(f"{ast.dump(node)} was accepted when the recipe was read")

    def _apply(self, function: Callable[..., Any], *operands: Any) -> Any:
        if any(isinstance(operand, fx.Proxy) for operand in operands):
            return self.call(function, *operands)
        try:
            return function(*operands)
        except (ArithmeticError, TypeError) as error:
            raise NoReferenceError.at(self._reference.place, f"the reference cannot be computed: {error}") from None

    def _is_number(self, node: ast.expr) -> bool:
        """Whether ``node`` holds no tensor."""
        tensors = {name for name, found in self._names.items() if isinstance(found, fx.Proxy)} - self._numbers
        walked = list(ast.walk(node))
        return not any(isinstance(each, ast.Call) or getattr(each, "id", "") in tensors for each in walked)

    def _call(self, node: ast.Call) -> fx.Proxy:
        assert isinstance(node.func, ast.Attribute)
        arguments = [self.write(argument) for argument in node.args]
        named = {str(keyword.arg): self.write(keyword.value) for keyword in node.keywords}
        name = node.func.attr
        match node.func.value:
            case ast.Name(id="F"):
                return self.call(self._functional(name), *arguments, **named)
            case ast.Name(id="torch"):
                return self.call(self._found(torch, "torch", name), *arguments, **named)
            case value:
                return self._tracer.create_proxy("call_method", name, (self.write(value), *arguments), named)

    def _functional(self, name: str) -> Callable[..., Any]:
        """The function ``name`` of ``torch.nn.functional``, which must be one of torch's own."""
        module = torch.nn.functional
        found = self._found(module, module.__name__, name)
        home = (getattr(found, "__module__", None) or "torch").split(".")[0]
        if not isinstance(found, FunctionType | BuiltinFunctionType) or home != "torch":
            raise NoReferenceError.at(self._reference.place, f"{module.__name__}.{name} is no function of torch")
        return found

    def _found(self, module: Any, spelled: str, name: str) -> Any:
        if not hasattr(module, name):
            message, hint = f"{spelled} {torch.__version__} has no function '{name}'", nearest(name, dir(module))
            raise NoReferenceError.at(self._reference.place, message, hint)
        return getattr(module, name)
