"""What a library does in one call: a matrix product, how its operands lie in memory, and its epilogue.

**Operands.** A ``permute`` of an operand costs nothing where the library can read the memory as it is: one of the two
dims of the matrix has stride 1, whichever, and all batches are one step.

**The epilogue** is what the library adds to each element of the product before it rounds it: a bias along the rows and
a constant times a residual. Legal is what a kernel would compute, up to the order of sums in float:

* A product typed half or bfloat16 is rounded to that dtype before anything is added, because its author asked for it,
  as a kernel would; the library would round after. So only a product in float or double has a bias or a residual added.
  ``linear(x, weight, bias)`` asks for one rounding after its bias.
* No activation. The library's RELU makes 0 of what is no number, as some of its algorithms for half do (measured with
  CUDA 13.0 on an H100), where ``relu`` keeps it. Its GELU is the approximation by ``tanh``, which differs from the one
  by ``erf`` by up to 5e-4, more than float is rounded by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fusebuild.ir.formula import Formula, product
from fusebuild.ir.fusion import Task
from fusebuild.ir.types import TensorType
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.storage import stored_types
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.ops.indexing import permutation_of
from fusebuild.ops.table import Kind, op_of


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """An operand as the product sees it: the tensor ``fid`` under other names of its dims, or under its own."""

    fid: int
    shape: tuple[Formula, ...]
    strides: tuple[Formula, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class Epilogue:
    """What is added to the elements of a product: ``bias`` and ``beta`` times ``residual``, where there are such."""

    bias: int | None = None
    residual: int | None = None
    beta: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MatrixProduct:
    """A task that is one call: ``expr`` multiplies ``left`` and ``right``, and ``result`` is what is written."""

    expr: Expr
    left: View
    right: View
    epilogue: Epilogue
    result: int
    is_permuted: bool
    """Whether some operand is read under other names of its dims."""


def has_library_call(task: Task) -> bool:
    """Whether some expr of ``task`` is computed by a library."""
    return any(op_of(expr).kind is Kind.LIBRARY for expr in task.steps)


def matrix_product(task: Task) -> MatrixProduct:
    """What the library computes for ``task``; raises :class:`UnfitError` where one call cannot."""
    expr = next((expr for expr in task.steps if op_of(expr).kind is Kind.LIBRARY), None)
    if expr is None:
        raise UnfitError("there is no library call")
    reader = _Reader(task, expr)
    left, right = (reader.view(fid) for fid in expr.inputs[:2])
    is_permuted = (left.fid, right.fid) != expr.inputs[:2]
    epilogue, result = reader.epilogue()
    reader.require_all_taken()
    _check_memory(task, expr, result, [left.fid, right.fid, epilogue.bias])
    return MatrixProduct(expr=expr, left=left, right=right, epilogue=epilogue, result=result, is_permuted=is_permuted)


def is_dense(type_: TensorType) -> bool:
    """Whether the dims are row-major without gaps and without dims of stride 0."""
    running: Formula = 1
    for extent, stride in reversed(list(zip(type_.shape, type_.strides, strict=True))):
        if extent != 1 and stride != running:
            return False
        running = product([extent, running])
    return True


def _check_memory(task: Task, expr: Expr, result: int, read: Sequence[int | None]) -> None:
    """Raise unless ``result`` may be written without gaps while the library reads those tensors."""
    value, output = task.fusion.value, task.fusion.output(result)
    if not is_dense(stored_types(task)[result]):
        raise UnfitError(f"{value(result).name} overwrites a tensor that is not contiguous", expr.outputs[0])
    if output is not None and output.alias is not None and output.alias in read:
        raise UnfitError(f"{value(output.alias).name} is overwritten while {expr.op} reads it", expr.outputs[0])


class _Reader:
    """Takes the exprs of a task one by one for what a library does around the product ``expr``."""

    def __init__(self, task: Task, expr: Expr) -> None:
        self._task, self._expr = task, expr
        self._value = task.fusion.value
        self._taken = {expr.outputs[0]}
        self._own = UnfitError(f"{expr.op} is a library call, a segment of its own", expr.outputs[0])

    def view(self, fid: int) -> View:
        """The operand ``fid`` of the product."""
        step = self._task.step_of(fid)
        if step is None:
            return self._viewed(fid, fid, range(self._value(fid).tensor.rank))
        if step.op != "permute" or self._task.step_of(step.inputs[0]) is not None or not self._is_private(fid):
            raise self._own
        self._taken.add(fid)
        order = permutation_of(dict(step.attributes), self._value(fid).tensor.rank)
        return self._viewed(fid, step.inputs[0], order)

    def _viewed(self, fid: int, source: int, order: Sequence[int]) -> View:
        type_ = self._value(source).tensor
        known = [stride for stride in type_.strides if stride is not None]
        if len(known) < type_.rank:
            raise self._unreadable(source, "has strides known only at run time")
        return View(fid=source, shape=self._value(fid).tensor.shape, strides=tuple(known[dim] for dim in order))

    def epilogue(self) -> tuple[Epilogue, int]:
        """What follows the product, which may have a bias of its own, and the value that comes out."""
        bias = self._expr.inputs[2] if len(self._expr.inputs) > 2 else None
        found, fid = Epilogue(bias=bias), self._expr.outputs[0]
        if bias is not None and not is_dense(self._value(bias).tensor):
            raise self._unreadable(bias, "is expanded along a dim that is no batch")
        while fid not in self._task.outputs:
            if not self._is_private(fid):
                raise self._own
            (step,) = self._readers(fid)
            found = self._followed(found, fid, step)
            (fid,) = step.outputs
            self._taken.add(fid)
        return found, fid

    def _followed(self, before: Epilogue, fid: int, step: Expr) -> Epilogue:
        """``before``, and then ``step``, which reads ``fid``."""
        dtype = self._value(fid).dtype
        if step.op != "add":
            raise self._own
        if dtype.is_reduced_precision:
            raise UnfitError(f"{self._value(fid).name} is rounded to {dtype.value} before anything is added", fid)
        first, second = step.inputs
        if self._value(step.outputs[0]).dtype is not dtype or first == second:
            raise self._own
        return self._plus(before, second if first == fid else first)

    def _plus(self, before: Epilogue, added: int) -> Epilogue:
        """``before`` and a bias or a residual."""
        step = self._task.step_of(added)
        if step is not None and step.op == "broadcast" and before.bias is None and self._is_bias(step):
            self._taken.add(added)
            return replace(before, bias=step.inputs[0])
        beta, residual = self._scaled(added)
        if before.residual is not None or self._task.step_of(residual) is not None or not self._is_residual(residual):
            raise self._own
        return replace(before, residual=residual, beta=beta)

    def _is_residual(self, fid: int) -> bool:
        """Whether ``fid`` has an element for each one of the product, and lies in memory as that will."""
        type_, result = self._value(fid).type, self._value(self._expr.outputs[0]).tensor
        if not isinstance(type_, TensorType) or type_.cpu:
            return False
        return (type_.dtype, type_.shape) == (result.dtype, result.shape) and is_dense(type_)

    def _is_bias(self, step: Expr) -> bool:
        """Whether ``step`` says again for each row what a tensor has for each column."""
        added, result = self._value(step.inputs[0]), self._value(self._expr.outputs[0]).tensor
        is_row = self._task.step_of(added.fid) is None and added.tensor.shape == result.shape[-1:]
        is_row = is_row and added.dtype is result.dtype and is_dense(added.tensor) and not added.tensor.cpu
        return is_row and self._is_private(step.outputs[0])

    def _scaled(self, fid: int) -> tuple[float, int]:
        """``fid`` as a constant times a value."""
        step = self._task.step_of(fid)
        if step is None or step.op != "mul" or not self._is_private(fid):
            return 1.0, fid
        factors = [each for each in step.inputs if self._value(each).is_constant]
        rest = [each for each in step.inputs if not self._value(each).is_constant]
        literal = self._value(factors[0]).literal if len(factors) == 1 else None
        if not isinstance(literal, int | float) or not math.isfinite(literal) or literal == 0:
            return 1.0, fid
        self._taken.add(fid)
        return float(literal), rest[0]

    def require_all_taken(self) -> None:
        """Raise where the task has an expr that the library does not compute, or writes another value."""
        made = {fid for step in self._task.steps for fid in step.outputs if self._value(fid).is_tensor}
        if made != self._taken or len(self._task.outputs) != 1:
            raise self._own

    def _readers(self, fid: int) -> list[Expr]:
        return [step for step in self._task.steps if fid in step.inputs]

    def _is_private(self, fid: int) -> bool:
        """Whether one expr of the task alone reads ``fid``."""
        return len(self._readers(fid)) == 1 and fid not in self._task.outputs

    def _unreadable(self, fid: int, problem: str) -> UnfitError:
        return UnfitError(f"{self._value(fid).name} {problem}", self._expr.outputs[0])
