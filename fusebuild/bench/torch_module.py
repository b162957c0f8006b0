"""A Fusion as a torch module: what eager torch and ``torch.compile`` are measured on.

The module is an ``fx.GraphModule`` of ordinary torch calls, one or a few an op, each in the dtype that the Fusion types
its values with: what :mod:`fusebuild.ops.table` gives as the op's reference, traced, or, for reductions, library calls
and what reads elements elsewhere, what a torch user writes. Where the oracle widens first and then sums, the module
asks ``torch.sum`` for the dtype, and products are made in the dtype of their operands: both are what torch is fast at.
Scalars stay Python numbers, held as double where the Fusion says float. An output that overwrites an input is copied
into it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from fusebuild.bench.torch_graph import Argument, TorchGraph
from fusebuild.bench.torch_indexing import INDEXING
from fusebuild.bench.torch_random import RANDOM
from fusebuild.errors import NoReferenceError
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import product
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr, Value
from fusebuild.ops.table import OpDef, op_of
from fusebuild.oracle.reference import torch_dtype


def torch_module(fusion: Fusion) -> fx.GraphModule:
    """``fusion`` as a module that takes its inputs in order and returns a tuple of its outputs.

    Random numbers are torch's own (see :mod:`fusebuild.bench.torch_random`). Raises :class:`NoReferenceError` naming
    the op that has no torch form: a reduction or scan with a lambda, or ``philox_uniform`` itself.
    """
    writer = _Writer(fusion)
    for expr in fusion.exprs:
        writer.write(expr)
    return writer.graph.finish(writer.outputs())


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
"""Ops whose references say in many calls what integers need; of floats Python's operators say them."""

_OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "abs": operator.abs, "div": divide, "truediv": divide, "sqrt": square_root, "reciprocal": reciprocal,
    "rsqrt": reciprocal_root,
}  # fmt: skip
"""Ops that Python does to numbers alone, whose references are calls of torch, or raise an error where a device gives an
infinity. So are those whose references take numbers for all operands; the others are done by torch, on tensors without
dims."""

_EXTREMES = {"maximum": "min", "minimum": "max"}
"""What ``torch.clamp`` calls the number that an element is compared with; ``torch.maximum`` takes tensors only."""

_VIEWS = frozenset({"unsqueeze", "expand", "squeeze"})
"""Methods of torch that give the same memory with other dims."""


class _Writer:
    """Writes the exprs of one Fusion into a graph, in order."""

    def __init__(self, fusion: Fusion) -> None:
        self.graph = TorchGraph(fusion)
        self._fusion = fusion
        self._live: dict[int, Argument] = dict(self.graph.inputs)
        self._tensors = {value.fid for value in fusion.tensor_inputs}
        """The fids that are tensors in the graph: also scalars that torch computes."""
        self._converted: dict[tuple[int, DType], fx.Node] = {}

    def write(self, expr: Expr) -> None:
        """Add the nodes of ``expr``."""
        results = self._results(expr)
        for fid, result in zip(expr.outputs, results, strict=True):
            self._live[fid] = result

    def outputs(self) -> tuple[Argument, ...]:
        """The outputs in order, no two of them one tensor and none an input but where it overwrites it."""
        results, seen = [], set(self.graph.inputs.values())
        for output in self._fusion.outputs:
            result = self._read(output.fid)
            assert isinstance(result, fx.Node), f"output {output.name} is no tensor"
            origin = _origin(result)
            if origin in seen:
                result = self.graph.method("clone", result, memory_format=torch.contiguous_format)
            elif origin.target == "permute":  # which torch leaves where it is
                result = self.graph.method("contiguous", result)
            seen.add(origin)
            results.append(result)
        return tuple(
            result if output.alias is None else self.graph.method("copy_", self.graph.inputs[output.alias], result)
            for output, result in zip(self._fusion.outputs, results, strict=True)
        )

    def _read(self, fid: int) -> Argument:
        if fid not in self._live:
            literal = self._fusion.value(fid).literal
            assert isinstance(literal, bool | int | float), f"fid {fid} is a vector, which no op reads"
            self._live[fid] = literal
        return self._live[fid]

    def operand(self, fid: int, dtype: DType) -> Argument:
        """``fid`` in ``dtype``. Numbers take the dtype of what they meet, but floats must be spelled as such."""
        found = self._read(fid)
        if fid not in self._tensors:
            return float(found) if dtype.is_floating and isinstance(found, bool | int) else found
        if self._fusion.value(fid).dtype is dtype:
            return found
        if (fid, dtype) not in self._converted:
            self._converted[fid, dtype] = self.graph.method("to", found, torch_dtype(dtype))
        return self._converted[fid, dtype]

    def _as_tensor(self, argument: Argument, dtype: DType) -> fx.Node:
        """A number as a tensor without dims."""
        return self.graph.call(torch.full, (), argument, dtype=torch_dtype(dtype), device=self.graph.device)

    def _results(self, expr: Expr) -> Sequence[Argument]:
        values = [self._fusion.value(fid) for fid in expr.outputs]
        if spelled := _SPELLED.get(expr.op):
            is_torchs = any(fid in self._tensors for fid in expr.inputs)
            self._tensors.update(value.fid for value in values if value.is_tensor or is_torchs)
            return spelled(self, expr, values)
        op = op_of(expr)
        if op.is_generalized:
            raise NoReferenceError.at(expr.location, f"{expr.op} with a lambda has no torch function")
        dtypes = op.operand_dtypes([self._fusion.value(fid).type for fid in expr.inputs], dict(expr.attributes))
        operands = [self.operand(fid, dtype) for fid, dtype in zip(expr.inputs, dtypes, strict=True)]
        are_numbers = [fid not in self._tensors for fid in expr.inputs]
        has_tensor = not (operands and all(are_numbers))  # an op without operands makes one
        if not has_tensor and expr.op in _OF_NUMBERS and (expr.op != "div" or values[0].dtype.is_floating):
            return [self.graph.call(_OF_NUMBERS[expr.op], *operands)]
        if not has_tensor and len(op.numbers) == len(operands):
            return self._referred(op, expr, [self._proxied(operand) for operand in operands])
        self._tensors.update(expr.outputs)
        if expr.op in _OF_FLOATS and dtypes[0].is_floating and has_tensor:
            return [self.graph.call(_OF_FLOATS[expr.op], *operands)]
        if expr.op in _EXTREMES and sum(are_numbers) == 1 and dtypes[0] is not DType.BOOL:
            tensor, number = operands if are_numbers[1] else reversed(operands)
            return [self.graph.call(torch.clamp, tensor, **{_EXTREMES[expr.op]: number})]
        accepted = _accepted(op, dtypes, are_numbers)
        arguments = [
            self._proxied(operand) if is_number and place in accepted else self._typed(operand, dtype, is_number)
            for place, (operand, dtype, is_number) in enumerate(zip(operands, dtypes, are_numbers, strict=True))
        ]
        return self._referred(op, expr, arguments)

    def _referred(self, op: OpDef, expr: Expr, arguments: Sequence[Any]) -> Sequence[Argument]:
        """The nodes of what the reference of ``op`` calls."""
        named = op.named(dict(expr.attributes), lambda extent: self._proxied(self.graph.extent(extent)))
        try:
            results = op.reference(torch, *arguments, **named)
        except fx.proxy.TraceError:  # it asks for sizes or elements
            raise NoReferenceError.at(expr.location, f"{expr.op} has no torch function") from None
        results = results if isinstance(results, tuple) else (results,)
        return [result.node if isinstance(result, fx.Proxy) else result for result in results]

    def _proxied(self, operand: Argument) -> Any:
        return self.graph.proxy(operand) if isinstance(operand, fx.Node) else operand

    def _typed(self, operand: Argument, dtype: DType, is_number: bool) -> _Typed:
        node = self._as_tensor(operand, dtype) if is_number else operand
        assert isinstance(node, fx.Node)
        return _Typed(self.graph.proxy(node), dtype)

    # What the functions below, an op each, are written with.

    def whole(self, fid: int) -> Argument:
        """``fid`` in its own dtype: a node, or the number that it is."""
        return self.operand(fid, self._fusion.value(fid).dtype)

    def is_tensor(self, fid: int) -> bool:
        """Whether ``fid`` is a tensor in the graph; a scalar is where torch computes it."""
        return fid in self._tensors

    def compute_dtype(self, expr: Expr) -> DType:
        """The dtype in which a reduction meets its operand."""
        types = [self._fusion.value(fid).type for fid in expr.inputs]
        return op_of(expr).operand_dtypes(types, dict(expr.attributes))[0]

    def computed(self, expr: Expr) -> fx.Node:
        """The operand of a reduction in :meth:`compute_dtype`."""
        found = self.operand(expr.inputs[0], self.compute_dtype(expr))
        assert isinstance(found, fx.Node)
        return found

    def in_dtype(self, node: Argument, own: DType, wanted: DType) -> Argument:
        """``node``, of the dtype ``own``, in the dtype ``wanted``."""
        return node if own is wanted else self.graph.method("to", node, torch_dtype(wanted))

    def dtype(self, fid: int) -> DType:
        return self._fusion.value(fid).dtype

    def shape(self, value: Value) -> tuple[Any, ...]:
        """The shape of ``value``: numbers and nodes."""
        return tuple(self.graph.extent(extent) for extent in value.tensor.shape)

    def number_of_elements(self, fid: int, dims: Sequence[int]) -> Any:
        """How many elements of ``fid`` a reduction over ``dims`` combines."""
        shape = self._fusion.value(fid).tensor.shape
        return self.graph.extent(product([shape[dim] for dim in dims]))


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


def _cast(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    (fid,), dtype = expr.inputs, values[0].dtype
    if writer.is_tensor(fid):
        return [writer.operand(fid, dtype)]
    found = writer.whole(fid)
    function = float if dtype.is_floating else bool if dtype is DType.BOOL else int
    return [writer.graph.call(function, found) if isinstance(found, fx.Node) else function(found)]


def _joined(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    """Tensors of several dtypes meet in that of the result: where it is float, torch would stay in a narrow one."""
    operands = [writer.operand(fid, values[0].dtype) for fid in expr.inputs]
    return [writer.graph.call(torch.cat, operands, dim=expr.attribute("dim"))]


def _sum_or_mean(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    """One call that widens, sums and divides; means of integers are truncated."""
    dtype, (fid,) = writer.compute_dtype(expr), expr.inputs
    if not expr.dims:
        return [writer.in_dtype(writer.computed(expr), dtype, values[0].dtype)]
    is_mean = expr.op == "mean" and dtype.is_floating
    more = {} if writer.dtype(fid) is dtype else {"dtype": torch_dtype(dtype)}
    function = torch.mean if is_mean else torch.sum
    node = writer.graph.call(function, writer.whole(fid), dim=expr.dims, keepdim=_keeps(expr), **more)
    if expr.op == "mean" and not is_mean:
        count = writer.number_of_elements(fid, expr.dims)
        node = writer.graph.call(torch.div, node, count, rounding_mode="trunc")
    return [writer.in_dtype(node, dtype, values[0].dtype)]


def _product(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    x = writer.computed(expr)
    for dim in sorted(expr.dims, reverse=True):
        x = writer.graph.call(torch.prod, x, dim=dim, keepdim=_keeps(expr))
    return [writer.in_dtype(x, writer.compute_dtype(expr), values[0].dtype)]


def _extreme(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    """The extreme of the narrow values, then widened: nothing is lost."""
    (fid,), function = expr.inputs, torch.amax if expr.op == "max" else torch.amin
    node = writer.whole(fid)
    if expr.dims:
        node = writer.graph.call(function, node, dim=expr.dims, keepdim=_keeps(expr))
    return [writer.in_dtype(node, writer.dtype(fid), values[0].dtype)]


def _variance(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    correction = expr.attribute("correction")
    assert isinstance(correction, int)
    graph, x = writer.graph, writer.computed(expr)
    if not expr.dims:  # torch would take all dims
        zeros = graph.call(operator.sub, x, x)
        results = [graph.call(operator.truediv, zeros, max(1 - correction, 0)), x]
        return results[: len(values)]
    settings = {"dim": expr.dims, "correction": correction, "keepdim": _keeps(expr)}
    if expr.op == "var":
        return [graph.call(torch.var, x, **settings)]
    both = graph.call(torch.var_mean, x, **settings)
    return [graph.call(operator.getitem, both, index) for index in range(2)]


def _welford(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    """Mean, sum of squared deviations from it, and number of elements: the second is the variance taken apart."""
    graph, x = writer.graph, writer.computed(expr)
    count = writer.number_of_elements(expr.inputs[0], expr.dims)
    counts = graph.call(torch.full, writer.shape(values[2]), count, dtype=torch.int64, device=graph.device)
    if not expr.dims:  # torch would take all dims
        return [x, graph.call(operator.sub, x, x), counts]
    both = graph.call(torch.var_mean, x, dim=expr.dims, correction=0, keepdim=_keeps(expr))
    variance, mean = (graph.call(operator.getitem, both, index) for index in range(2))
    return [mean, graph.call(operator.mul, variance, count), counts]


def _logsumexp(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    x = writer.computed(expr)
    return [writer.graph.call(torch.logsumexp, x, dim=expr.dims, keepdim=_keeps(expr)) if expr.dims else x]


def _softmax_statistics(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    graph, x = writer.graph, writer.computed(expr)
    largest = graph.call(torch.amax, x, dim=expr.dims, keepdim=True) if expr.dims else x
    shift = graph.method("masked_fill", largest, graph.call(torch.isinf, largest), 0.0)
    total = graph.call(torch.exp, graph.call(operator.sub, x, shift))
    if expr.dims:
        total = graph.call(torch.sum, total, dim=expr.dims, keepdim=_keeps(expr))
        largest = largest if _keeps(expr) else graph.method("squeeze", largest, expr.dims)
    return [largest, total]


def _full(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    (fid,), (value,) = expr.inputs, values
    graph, fill = writer.graph, writer.whole(fid)
    if writer.is_tensor(fid):
        return [graph.method("expand", writer.in_dtype(fill, writer.dtype(fid), value.dtype), writer.shape(value))]
    return [graph.call(torch.full, writer.shape(value), fill, dtype=torch_dtype(value.dtype), device=graph.device)]


def _iota(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    graph, (value,) = writer.graph, values
    given = [writer.whole(fid) for fid in expr.inputs]
    start, step = given[0] if given else 0, given[1] if len(given) > 1 else 1
    (length,) = writer.shape(value)
    indices = graph.call(torch.arange, length, dtype=torch.int64, device=graph.device)
    if step != 1:
        indices = graph.call(operator.mul, indices, step)
    if start != 0:
        indices = graph.call(operator.add, indices, start)
    return [writer.in_dtype(indices, DType.INT64, value.dtype)]


def _size(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    found: Argument = writer.graph.extent(expr.attribute("extent"))
    return [found]


def _library(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    function = torch.nn.functional.linear if expr.op == "linear" else torch.matmul
    return [writer.graph.call(function, *map(writer.whole, expr.inputs))]


def _moved(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    return [INDEXING[expr.op](writer.graph, expr, [writer.whole(fid) for fid in expr.inputs], values[0])]


def _random(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    given = [writer.whole(fid) for fid in expr.inputs]
    return RANDOM[expr.op](writer.graph, given, writer.shape(values[0]), values[0])


def _philox(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    raise NoReferenceError.at(expr.location, "torch cannot be asked for the random numbers of philox_uniform")


def _keeps(expr: Expr) -> bool:
    return bool(expr.attribute("keepdim"))


_SPELLED: dict[str, Callable[[_Writer, Expr, Sequence[Value]], Sequence[Argument]]] = {
    "cast": _cast,
    "cat": _joined,
    "sum": _sum_or_mean,
    "mean": _sum_or_mean,
    "prod": _product,
    "max": _extreme,
    "min": _extreme,
    "var": _variance,
    "var_mean": _variance,
    "welford": _welford,
    "logsumexp": _logsumexp,
    "online_softmax_statistics": _softmax_statistics,
    **dict.fromkeys(INDEXING, _moved),
    **dict.fromkeys(RANDOM, _random),
    "philox_uniform": _philox,
    "full": _full,
    "iota": _iota,
    "size": _size,
    "matmul": _library,
    "linear": _library,
}
"""Ops that a torch user spells otherwise than their references do, which know the sizes and care for no speed: sums
that widen as they add, narrow matrix products, torch's own random numbers. They write nodes of a graph that serves all
sizes, so they stand here and not in the ops' entries. An op that is not here is what its reference calls, traced."""
