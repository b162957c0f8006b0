"""A Fusion as a torch module: what eager torch and ``torch.compile`` are measured on.

The module is an ``fx.GraphModule`` of ordinary torch calls, one or a few an op, each in the dtype that the Fusion types
its values with: pointwise ops are what :mod:`fusebuild.ops.table` gives as their references, traced; reductions, views
and library calls are what a torch user writes. Where the oracle widens first and then sums, the module asks
``torch.sum`` for the dtype, and products are made in the dtype of their operands: both are what torch is fast at.
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
from fusebuild.ops.table import OPS, Kind
from fusebuild.oracle.lambda_reference import built_in
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


_OPERATORS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg, "truediv": operator.truediv,
    "div": operator.truediv, "pow": operator.pow, "eq": operator.eq, "ne": operator.ne, "lt": operator.lt,
    "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip
"""Ops that Python's operators say of tensors and numbers alike; those of :data:`_FLOATING_ONLY` of floats only."""
_FLOATING_ONLY = frozenset({"div", "pow"})

_OF_NUMBERS: dict[str, Callable[..., Any]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "neg": operator.neg, "abs": operator.abs,
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "div": divide, "truediv": divide, "sqrt": square_root, "reciprocal": reciprocal, "rsqrt": reciprocal_root,
}  # fmt: skip
"""Ops of numbers alone that are done by Python; the others are done by torch, on tensors without dims."""

_NUMBERS_ACCEPTED: dict[str, frozenset[int]] = {
    "where": frozenset({1, 2}),
    "clamp": frozenset({1, 2}),
    "lerp": frozenset({2}),
    "threshold": frozenset({1, 2}),
    "addcmul": frozenset({1, 2, 3}),
}
"""The operands of torch functions that may be numbers; elsewhere a number becomes a tensor without dims."""

_EXTREMES = {"maximum": "min", "minimum": "max"}
"""What ``torch.clamp`` calls the number that an element is compared with."""

_COPIES = frozenset({"set", "segment_set", "real"})
_VIEWS = frozenset({"broadcast", "broadcast_in_dim", "expand", "squeeze"})


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
            result, origin = self._read(output.fid), self._read(self._origin(output.fid))
            assert isinstance(origin, fx.Node), f"output {output.name} is no tensor"
            if origin in seen:
                result = self.graph.method("clone", result, memory_format=torch.contiguous_format)
            elif self._is_turned(output.fid):
                result = self.graph.method("contiguous", result)
            seen.add(origin)
            results.append(result)
        return tuple(
            result if output.alias is None else self.graph.method("copy_", self.graph.inputs[output.alias], result)
            for output, result in zip(self._fusion.outputs, results, strict=True)
        )

    def _is_turned(self, fid: int) -> bool:
        """Whether ``fid`` is what a permutation gives, which torch leaves where it is."""
        index = self._fusion.definition(self._origin(fid))
        return index is not None and self._fusion.exprs[index].op == "permute"

    def _origin(self, fid: int) -> int:
        """The value that ``fid`` is a view or another name of."""
        index = self._fusion.definition(fid)
        while index is not None and self._fusion.exprs[index].op in _COPIES | _VIEWS:
            fid = self._fusion.exprs[index].inputs[0]
            index = self._fusion.definition(fid)
        return fid

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
        types = [self._fusion.value(fid).type for fid in expr.inputs]
        dtypes = OPS[expr.op].operand_dtypes(types, dict(expr.attributes))
        values = [self._fusion.value(fid) for fid in expr.outputs]
        special = _SPECIAL.get(expr.op)
        if special is None and OPS[expr.op].kind is not Kind.POINTWISE:
            raise NoReferenceError.at(
                expr.location, f"{expr.op}{' with a lambda' if expr.combine else ''} has no torch function"
            )
        if special is not None:
            is_torchs = any(fid in self._tensors for fid in expr.inputs)
            self._tensors.update(value.fid for value in values if value.is_tensor or is_torchs)
            return special(self, expr, values)
        operands = [self.operand(fid, dtype) for fid, dtype in zip(expr.inputs, dtypes, strict=True)]
        (value,) = values
        are_numbers = [fid not in self._tensors for fid in expr.inputs]
        if all(are_numbers) and expr.op in _OF_NUMBERS and not (expr.op == "div" and not value.dtype.is_floating):
            return [self.graph.call(_OF_NUMBERS[expr.op], *operands)]
        self._tensors.add(value.fid)
        return [self._pointwise(expr, operands, dtypes, are_numbers)]

    def _pointwise(
        self, expr: Expr, operands: list[Argument], dtypes: Sequence[DType], are_numbers: list[bool]
    ) -> fx.Node:
        op, has_tensor = expr.op, not all(are_numbers)
        if has_tensor and op in _OPERATORS and (dtypes[0].is_floating or op not in _FLOATING_ONLY):
            return self.graph.call(_OPERATORS[op], *operands)
        if has_tensor and op in _EXTREMES and any(are_numbers) and dtypes[0] is not DType.BOOL:
            tensor, number = operands if are_numbers[1] else reversed(operands)
            return self.graph.call(torch.clamp, tensor, **{_EXTREMES[op]: number})
        accepted = _NUMBERS_ACCEPTED.get(op, frozenset()) if _shows_its_dtype(op, are_numbers) else frozenset()
        arguments: list[Any] = []
        for position, (operand, dtype, is_number) in enumerate(zip(operands, dtypes, are_numbers, strict=True)):
            if is_number and position in accepted:
                arguments.append(self.graph.proxy(operand) if isinstance(operand, fx.Node) else operand)
                continue
            node = self._as_tensor(operand, dtype) if is_number else operand
            assert isinstance(node, fx.Node)
            arguments.append(_Typed(self.graph.proxy(node), dtype))
        result: fx.Proxy = OPS[op].reference(torch, *arguments)
        return result.node

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
        return OPS[expr.op].operand_dtypes(types, dict(expr.attributes))[0]

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


def _shows_its_dtype(op: str, are_numbers: Sequence[bool]) -> bool:
    """Whether torch can tell from the operands that are tensors in which dtype to compute ``op``."""
    if op == "where":
        return not all(are_numbers[1:])
    if op == "clamp":  # all bounds are numbers, or none is
        return not are_numbers[0] and all(are_numbers[1:])
    return not are_numbers[0]


def _cast(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    (fid,), dtype = expr.inputs, values[0].dtype
    if writer.is_tensor(fid):
        return [writer.operand(fid, dtype)]
    found = writer.whole(fid)
    function = float if dtype.is_floating else bool if dtype is DType.BOOL else int
    return [writer.graph.call(function, found) if isinstance(found, fx.Node) else function(found)]


def _copy(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    (fid,), (value,) = expr.inputs, values
    found = writer.whole(fid)
    return [writer.in_dtype(found, writer.dtype(fid), value.dtype) if writer.is_tensor(fid) else found]


def _broadcast(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    mask = expr.attribute("is_broadcast_dim")
    assert isinstance(mask, tuple)
    x = writer.whole(expr.inputs[0])
    for position, is_new in enumerate(mask):
        x = writer.graph.method("unsqueeze", x, position) if is_new else x
    return [x]


def _broadcast_in_dim(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    dims = expr.attribute("broadcast_dims")
    assert isinstance(dims, tuple)
    x = writer.whole(expr.inputs[0])
    for position in range(values[0].tensor.rank):
        x = x if position in dims else writer.graph.method("unsqueeze", x, position)
    return [writer.graph.method("expand", x, writer.shape(values[0]))]


def _expand(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    return [writer.graph.method("expand", writer.whole(expr.inputs[0]), writer.shape(values[0]))]


def _squeeze(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    x = writer.whole(expr.inputs[0])
    return [writer.graph.method("squeeze", x, expr.dims) if expr.dims else x]


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


def _built_in(writer: _Writer, expr: Expr, values: Sequence[Value]) -> Sequence[Argument]:
    """Argmax, any, cumsum and their kind, as the oracle has them."""
    x: Any = _Typed(writer.graph.proxy(writer.computed(expr)), writer.compute_dtype(expr))
    results: Sequence[Any] = built_in(expr, x)
    return [result.node for result in results]


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
    found: Argument = writer.graph.extent(expr.attribute("extent"))  # type: ignore[arg-type]
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


_SPECIAL: dict[str, Callable[[_Writer, Expr, Sequence[Value]], Sequence[Argument]]] = {
    "cast": _cast,
    "set": _copy,
    "segment_set": _copy,
    "real": _copy,
    "broadcast": _broadcast,
    "broadcast_in_dim": _broadcast_in_dim,
    "expand": _expand,
    "squeeze": _squeeze,
    "sum": _sum_or_mean,
    "mean": _sum_or_mean,
    "prod": _product,
    "max": _extreme,
    "min": _extreme,
    "var": _variance,
    "var_mean": _variance,
    "welford": _welford,
    **dict.fromkeys(("argmax", "argmin", "any", "all", "cumsum", "cumprod"), _built_in),
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
"""Every op whose torch calls are not those of its reference."""
