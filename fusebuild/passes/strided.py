"""Whether a computed value can be had in another shape by reading what it is computed from with other strides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fusebuild.ir.algebra import Algebra
from fusebuild.ir.formula import Formula
from fusebuild.ir.types import TensorType
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.indexing import reshaped_strides
from fusebuild.ops.table import op_of
from fusebuild.passes.moves import Reshape
from fusebuild.passes.views import view_between


class Definitions(Protocol):
    """What defines values: a ``Rewriter``, or a Fusion as it was recorded."""

    def definition(self, value: Value) -> Expr | None:
        """The expr that defines ``value``; None for inputs and constants."""

    def operands(self, expr: Expr) -> list[Value]:
        """What ``expr`` reads."""


def reads_as(definitions: Definitions, value: Value, shape: Sequence[Formula], algebra: Algebra) -> bool:
    """Whether ``value`` can be had in ``shape`` without a trip through memory: it is computed element by element from
    inputs whose strides say where their elements are in that shape, and from what has dims of size 1 there."""
    waiting = [(value, Reshape(old=value.tensor.shape, new=tuple(shape), algebra=algebra))]
    seen = {*waiting}
    while waiting:
        current, move = waiting.pop()
        if move.is_idle(move.old) or view_between(move.old, move.new) is not None:
            continue
        expr = definitions.definition(current)
        if expr is None:
            if not strides_say(current.tensor, move.new, algebra):
                return False
        elif expr.op != "full":
            above = _moved_up(definitions, expr, move)
            if above is None:
                return False
            waiting += [each for each in above if each not in seen]
            seen.update(above)
    return True


def _moved_up(definitions: Definitions, expr: Expr, move: Reshape) -> list[tuple[Value, Reshape]] | None:
    """What ``expr`` reads, and how each is reshaped where its result is; None where that is no reshape."""
    tensors = [operand for operand in definitions.operands(expr) if operand.is_tensor and not operand.tensor.cpu]
    if expr.op == "broadcast":
        before = move.before_broadcast(expr.attribute("is_broadcast_dim"))
        return None if before is None else [(tensors[0], before[0])]
    if not op_of(expr).is_elementwise:
        return None
    moves = [(operand, move.on(operand.tensor.shape, move.old)) for operand in tensors]
    found = [(operand, own) for operand, own in moves if own is not None]
    return found if len(found) == len(moves) else None


def strides_say(tensor: TensorType, shape: Sequence[Formula], algebra: Algebra) -> bool:
    """Whether strides say where the elements of ``tensor`` are in ``shape``."""
    strides = [stride for stride in tensor.strides if stride is not None]
    return len(strides) == tensor.rank and reshaped_strides(strides, tensor.shape, shape, algebra) is not None
