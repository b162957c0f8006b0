"""Whether a computed value can be had in another shape by reading what it is computed from with other strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fusebuild.ir.algebra import Algebra
from fusebuild.ir.formula import Formula
from fusebuild.ir.types import TensorType
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.indexing import reshaped_strides
from fusebuild.ops.table import Kind, op_of


class Definitions(Protocol):
    """What defines values: a ``Rewriter``, or a Fusion as it was recorded."""

    def definition(self, value: Value) -> Expr | None:
        """The expr that defines ``value``; None for inputs and constants."""

    def operands(self, expr: Expr) -> list[Value]:
        """What ``expr`` reads."""


def reads_as(definitions: Definitions, value: Value, shape: Sequence[Formula], algebra: Algebra) -> bool:
    """Whether ``value`` can be had in ``shape`` without a trip through memory: it is computed element by element, and
    without broadcasts, from inputs whose strides say where their elements are in that shape."""
    waiting, seen = [value], {value.fid}
    while waiting:
        current = waiting.pop()
        expr = definitions.definition(current)
        if current.tensor.shape == tuple(shape) or (expr is not None and expr.op == "full"):
            continue
        if expr is None:
            if not strides_say(current.tensor, shape, algebra):
                return False
            continue
        tensors = [operand for operand in definitions.operands(expr) if operand.is_tensor and not operand.tensor.cpu]
        is_elementwise = op_of(expr).kind is Kind.POINTWISE and op_of(expr).of_elements
        if not is_elementwise or any(operand.tensor.shape != current.tensor.shape for operand in tensors):
            return False
        waiting += [operand for operand in tensors if operand.fid not in seen]
        seen |= {operand.fid for operand in tensors}
    return True


def strides_say(tensor: TensorType, shape: Sequence[Formula], algebra: Algebra) -> bool:
    """Whether strides say where the elements of ``tensor`` are in ``shape``."""
    strides = [stride for stride in tensor.strides if stride is not None]
    return len(strides) == tensor.rank and reshaped_strides(strides, tensor.shape, shape, algebra) is not None
