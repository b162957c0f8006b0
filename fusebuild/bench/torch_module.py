"""A Fusion as a torch module: what eager torch and ``torch.compile`` are measured on.

The module is an ``fx.GraphModule`` of ordinary torch calls, one or a few an op, each in the dtype that the Fusion types
its values with: what :mod:`fusebuild.ops.table` gives as the op's reference, traced, or, for reductions, library calls
and what reads elements elsewhere, what a torch user writes (:mod:`fusebuild.bench.torch_spelled`). Where the oracle
widens first and then sums, the module asks ``torch.sum`` for the dtype, and products are made in the dtype of their
operands: both are what torch is fast at. Scalars stay Python numbers, held as double where the Fusion says float. An
output that overwrites an input is copied into it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from fusebuild.bench.torch_graph import Argument, TorchGraph
from fusebuild.bench.torch_spelled import SPELLED
from fusebuild.errors import NoReferenceError
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import product
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.table import OpDef, op_of, operand_dtypes
from fusebuild.oracle.reference import torch_dtype


def torch_module(fusion: Fusion) -> fx.GraphModule:
    """``fusion`` as a module that takes its inputs in order and returns a tuple of its outputs.

    Random numbers are torch's own. Raises :class:`NoReferenceError` naming the op that has no torch form: a reduction
    or scan with a lambda, or what draws by an index of the author.
    """
    writer = Writer(fusion)
    for expr in fusion.exprs:
        writer.write(expr)
    return writer.finish(writer.outputs())


class _Typed(fx.Proxy):
    """A proxy that knows its dtype, because the references of some ops ask for it."""

    def __init__(self, plain: fx.Proxy, dtype: DType) -> None:
        super().__init__(plain.node, plain.tracer)
        self._fusebuild_dtype = dtype

    def is_floating_point(self) -> bool:
        return self._fusebuild_dtype.is_floating

    def element_size(self) -> int:
        return self._fusebuild_dtype.bytes


def divide(a: float, b: float) -> float:
    """``a / b`` of numbers as IEEE 754 has it: by zero too."""
    if b != 0:
        return a / b
    return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1.0, b)


def square_root(x: float) -> float:
    """The root of a number; NaN of a negative one."""
    return math.nan if x < 0 else math.sqrt(x)


def reciprocal(x: float) -> float:
    """``1 / x`` of a number."""
    return divide(1.0, x)


def reciprocal_root(x: float) -> float:
    """``1 / sqrt(x)`` of a number."""
    return divide(1.0, square_root(x))


_OF_FLOATS: dict[str, Callable[..., Any]] = {"div": operator.truediv, "pow": operator.pow}
"""Ops of which integers need more than one call, which their references make; for floats one operator is enough."""

_OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "abs": operator.abs, "div": divide, "truediv": divide, "sqrt": square_root, "reciprocal": reciprocal,
    "rsqrt": reciprocal_root,
}  # fmt: skip
"""Ops that are done by Python where all operands are numbers, since their references are calls of torch, or raise an
error where a device gives an infinity. Ops whose references take numbers for all operands are done by Python, too; all
others are done by torch, on tensors without dims."""

_EXTREMES = {"maximum": "min", "minimum": "max"}
"""What ``torch.clamp`` calls the number that an element is compared with; ``torch.maximum`` takes tensors only."""

_VIEWS = frozenset({"unsqueeze", "expand", "squeeze"})
"""Methods of torch that give the same memory with other dims."""


class Writer(TorchGraph):
    """Writes the exprs of one Fusion into a graph, in order."""

    def __init__(self, fusion: Fusion) -> None:
        super().__init__(fusion)
        self._live = dict(self.inputs)
        self._converted: dict[tuple[int, DType], Argument] = {}
        self.tensors = {value.fid for value in fusion.tensor_inputs}
        """The fids that are tensors in the graph: also scalars that torch computes."""

    def write(self, expr: Expr) -> None:
        """Add the nodes of ``expr``."""
        results = self._results(expr)
        self._live |= zip(expr.outputs, results if isinstance(results, tuple) else (results,), strict=True)

    def outputs(self) -> tuple[Argument, ...]:
        """The outputs in order, no two of them one tensor and none an input but where it overwrites it."""
        results, seen = [], {each.node for each in self.inputs.values()}
        for output in self.fusion.outputs:
            result = self._read(output.fid)
            assert isinstance(result, fx.Proxy), f"output {output.name} is no tensor"
            origin = _origin(result.node)
            if origin in seen or origin.target == "permute":  # which torch leaves where it is
                result = result.clone(memory_format=torch.contiguous_format)
            seen.add(origin)
            results.append(result)
        return tuple(
            result if output.alias is None else self.inputs[output.alias].copy_(result)
            for output, result in zip(self.fusion.outputs, results, strict=True)
        )

    def _read(self, fid: int) -> Argument:
        if fid not in self._live:
            literal = self.fusion.value(fid).literal
            assert isinstance(literal, bool | int | float), f"fid {fid} is a vector, which no op reads"
            self._live[fid] = literal
        return self._live[fid]

    def operand(self, fid: int, dtype: DType) -> Argument:
        """``fid`` in ``dtype``. Numbers take the dtype of what they meet, but floats must be spelled as such."""
        found = self._read(fid)
        if fid not in self.tensors:
            return float(found) if dtype.is_floating and isinstance(found, bool | int) else found
        if self.dtype(fid) is dtype:
            return found
        if (fid, dtype) not in self._converted:
            self._converted[fid, dtype] = found.to(torch_dtype(dtype))
        return self._converted[fid, dtype]

    def _results(self, expr: Expr) -> Argument:
        values = [self.fusion.value(fid) for fid in expr.outputs]
        if spelled := SPELLED.get(expr.op):
            is_torchs = not self.tensors.isdisjoint(expr.inputs)
            self.tensors.update(value.fid for value in values if value.is_tensor or is_torchs)
            return spelled(self, expr, values)
        op = op_of(expr)
        if op.is_generalized:
            raise NoReferenceError.at(expr.location, f"{expr.op} with a lambda has no torch function")
        dtypes = operand_dtypes(self.fusion, expr)
        operands = [self.operand(fid, dtype) for fid, dtype in zip(expr.inputs, dtypes, strict=True)]
        are_numbers = [fid not in self.tensors for fid in expr.inputs]
        has_tensor = not (operands and all(are_numbers))  # an op without operands makes one
        if not has_tensor and expr.op in _OF_NUMBERS and (expr.op != "div" or values[0].dtype.is_floating):
            return self.call(_OF_NUMBERS[expr.op], *operands)
        if not has_tensor and len(op.numbers) == len(operands):
            return self._referred(op, expr, operands)
        self.tensors.update(expr.outputs)
        if expr.op in _OF_FLOATS and dtypes[0].is_floating and has_tensor:
            return self.call(_OF_FLOATS[expr.op], *operands)
        if expr.op in _EXTREMES and sum(are_numbers) == 1 and dtypes[0] is not DType.BOOL:
            tensor, number = operands if are_numbers[1] else reversed(operands)
            return self.call(torch.clamp, tensor, **{_EXTREMES[expr.op]: number})
        accepted = _accepted(op, dtypes, are_numbers)
        arguments = [
            operand if is_number and place in accepted else self._typed(operand, dtype, is_number)
            for place, (operand, dtype, is_number) in enumerate(zip(operands, dtypes, are_numbers, strict=True))
        ]
        return self._referred(op, expr, arguments)

    def _referred(self, op: OpDef, expr: Expr, arguments: Sequence[Argument]) -> Argument:
        """What the reference of ``op`` calls."""
        try:
            return op.reference(torch, *arguments, **op.named(dict(expr.attributes), self.extent))
        except fx.proxy.TraceError:  # it asks for sizes or elements
            raise NoReferenceError.at(expr.location, f"{expr.op} has no torch function") from None

    def _typed(self, operand: Argument, dtype: DType, is_number: bool) -> _Typed:
        """``operand``, a number as a tensor without dims, as a proxy that knows its ``dtype``."""
        if is_number:
            operand = self.call(torch.full, (), operand, dtype=torch_dtype(dtype), device=self.device)
        return _Typed(operand, dtype)

    # What the functions of torch_spelled, an op each, are written with.

    def whole(self, fid: int) -> Argument:
        """``fid`` in its own dtype."""
        return self.operand(fid, self.dtype(fid))

    def compute_dtype(self, expr: Expr) -> DType:
        """The dtype in which a reduction meets its operand."""
        return operand_dtypes(self.fusion, expr)[0]

    def computed(self, expr: Expr) -> Argument:
        """The operand of a reduction in :meth:`compute_dtype`."""
        return self.operand(expr.inputs[0], self.compute_dtype(expr))

    def in_dtype(self, tensor: Argument, own: DType, wanted: DType) -> Argument:
        """``tensor``, of the dtype ``own``, in the dtype ``wanted``."""
        return tensor if own is wanted else tensor.to(torch_dtype(wanted))

    def dtype(self, fid: int) -> DType:
        """The dtype that the Fusion gives ``fid``."""
        return self.fusion.value(fid).dtype

    def shape(self, value: Value) -> tuple[Argument, ...]:
        """The shape of ``value``."""
        return tuple(map(self.extent, value.tensor.shape))

    def number_of_elements(self, expr: Expr) -> Argument:
        """How many elements a reduction combines into one."""
        shape = self.fusion.value(expr.inputs[0]).tensor.shape
        return self.extent(product([shape[dim] for dim in expr.dims]))


def _origin(node: fx.Node) -> fx.Node:
    """What ``node`` is a view of."""
    while node.op == "call_method" and node.target in _VIEWS:
        (node, *_) = node.all_input_nodes
    return node


def _accepted(op: OpDef, dtypes: Sequence[DType], are_numbers: Sequence[bool]) -> tuple[int, ...]:
    """The places of operands that may stay numbers: of those that the reference takes all or none, since torch has to
    see in which dtype to compute, and both bounds of ``torch.clamp`` are numbers or none is."""
    is_shown = any(dtype is dtypes[-1] and not is_number for dtype, is_number in zip(dtypes, are_numbers, strict=True))
    is_taken = is_shown and (op.name != "clamp" or all(are_numbers[1:]))
    return op.numbers if is_taken else ()
