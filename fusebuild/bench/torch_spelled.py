"""Ops that a torch user spells otherwise than their references do, which know the sizes and care for no speed: sums
that widen as they add, narrow matrix products, indices that are known to be in range, torch's own random numbers.

What these functions write serves all sizes, so they stand here and not in the ops' entries. Each takes the writer of
the module, an expr and the values that the expr gives, and returns what they are in the graph: one, or a tuple.

Torch numbers its random draws otherwise than :mod:`fusebuild.ops.random` does, so what follows from them agrees with a
kernel in distribution alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import fx
from torch.nn import functional

from fusebuild.bench.torch_graph import Argument
from fusebuild.errors import NoReferenceError
from fusebuild.ir.dtype import DType
from fusebuild.ir.values import Expr, Value
from fusebuild.oracle.reference import torch_dtype

if TYPE_CHECKING:
    from fusebuild.bench.torch_module import Writer

Values = Sequence[Value]


def _cast(writer: Writer, expr: Expr, values: Values) -> Argument:
    (fid,), dtype = expr.inputs, values[0].dtype
    if fid in writer.tensors:
        return writer.operand(fid, dtype)
    found = writer.whole(fid)
    function = float if dtype.is_floating else bool if dtype is DType.BOOL else int
    return writer.call(function, found) if isinstance(found, fx.Proxy) else function(found)


def _cat(writer: Writer, expr: Expr, values: Values) -> Argument:
    """Tensors of several dtypes meet in that of the result: where it is float, torch would stay in a narrow one."""
    operands: Any = [writer.operand(fid, values[0].dtype) for fid in expr.inputs]
    return torch.cat(operands, dim=expr.attribute("dim"))


def _sum_or_mean(writer: Writer, expr: Expr, values: Values) -> Argument:
    """One call that widens, sums and divides; means of integers are truncated."""
    dtype, (fid,) = writer.compute_dtype(expr), expr.inputs
    if not expr.dims:
        return writer.in_dtype(writer.computed(expr), dtype, values[0].dtype)
    is_mean = expr.op == "mean" and dtype.is_floating
    widens = {} if writer.dtype(fid) is dtype else {"dtype": torch_dtype(dtype)}
    found = (torch.mean if is_mean else torch.sum)(writer.whole(fid), **_over(expr), **widens)
    if expr.op == "mean" and not is_mean:
        found = torch.div(found, writer.number_of_elements(expr), rounding_mode="trunc")
    return writer.in_dtype(found, dtype, values[0].dtype)


def _prod(writer: Writer, expr: Expr, values: Values) -> Argument:
    x = writer.computed(expr)
    for dim in sorted(expr.dims, reverse=True):
        x = torch.prod(x, **{**_over(expr), "dim": dim})
    return writer.in_dtype(x, writer.compute_dtype(expr), values[0].dtype)


def _extreme(writer: Writer, expr: Expr, values: Values) -> Argument:
    """The extreme of the narrow values, then widened: nothing is lost."""
    (fid,), function = expr.inputs, torch.amax if expr.op == "max" else torch.amin
    x = writer.whole(fid)
    return writer.in_dtype(function(x, **_over(expr)) if expr.dims else x, writer.dtype(fid), values[0].dtype)


def _variance(writer: Writer, expr: Expr, values: Values) -> Argument:
    x, correction = writer.computed(expr), expr.attribute("correction")
    if not expr.dims:  # torch would take all dims
        variance = (x - x) / max(1 - correction, 0)
        return variance if expr.op == "var" else (variance, x)
    found = (torch.var if expr.op == "var" else torch.var_mean)(
        x, dim=expr.dims, correction=correction, keepdim=expr.attribute("keepdim")
    )
    return found if expr.op == "var" else (found[0], found[1])


def _welford(writer: Writer, expr: Expr, values: Values) -> Argument:
    """Mean, sum of squared deviations from it, and number of elements: the second is the variance taken apart."""
    x, count = writer.computed(expr), writer.number_of_elements(expr)
    counts = writer.call(torch.full, writer.shape(values[2]), count, dtype=torch.int64, device=writer.device)
    if not expr.dims:  # torch would take all dims
        return x, x - x, counts
    both = torch.var_mean(x, dim=expr.dims, correction=0, keepdim=expr.attribute("keepdim"))
    variance, mean = both[0], both[1]
    return mean, variance * count, counts


def _logsumexp(writer: Writer, expr: Expr, values: Values) -> Argument:
    x = writer.computed(expr)
    return torch.logsumexp(x, **_over(expr)) if expr.dims else x


def _softmax_statistics(writer: Writer, expr: Expr, values: Values) -> Argument:
    x = writer.computed(expr)
    largest: Any = torch.amax(x, dim=expr.dims, keepdim=True) if expr.dims else x
    total = torch.exp(x - largest.masked_fill(torch.isinf(largest), 0.0))
    if expr.dims:
        total = torch.sum(total, **_over(expr))
        largest = largest if expr.attribute("keepdim") else largest.squeeze(expr.dims)
    return largest, total


def _full(writer: Writer, expr: Expr, values: Values) -> Argument:
    (fid,), (value,) = expr.inputs, values
    fill, shape = writer.whole(fid), writer.shape(value)
    if fid in writer.tensors:
        return writer.in_dtype(fill, writer.dtype(fid), value.dtype).expand(shape)
    return writer.call(torch.full, shape, fill, dtype=torch_dtype(value.dtype), device=writer.device)


def _iota(writer: Writer, expr: Expr, values: Values) -> Argument:
    given = [writer.whole(fid) for fid in expr.inputs]
    start, step = given[0] if given else 0, given[1] if len(given) > 1 else 1
    indices: Any = writer.call(torch.arange, *writer.shape(values[0]), dtype=torch.int64, device=writer.device)
    if isinstance(step, fx.Proxy) or step != 1:
        indices = indices * step
    if isinstance(start, fx.Proxy) or start != 0:
        indices = indices + start
    return writer.in_dtype(indices, DType.INT64, values[0].dtype)


def _slice(writer: Writer, expr: Expr, values: Values) -> Argument:
    starts, ends, steps = (_extents(writer, expr, name) for name in ("start_indices", "end_indices", "strides"))
    bounds = zip(starts, ends, steps or [1] * len(starts), strict=True)
    return writer.whole(expr.inputs[0])[tuple(slice(*each) for each in bounds)]


def _pad(writer: Writer, expr: Expr, values: Values) -> Argument:
    x, fill = map(writer.whole, expr.inputs)
    return writer.call(functional.pad, x, _extents(writer, expr, "pad_widths"), value=fill)


def _take(writer: Writer, expr: Expr, values: Values) -> Argument:
    x, index = map(writer.whole, expr.inputs)
    return x[(*[slice(None)] * expr.attribute("dim"), index)]


def _embedding(writer: Writer, expr: Expr, values: Values) -> Argument:
    table, ids = map(writer.whole, expr.inputs)
    return writer.call(functional.embedding, ids, table)


def _take_along_axis(writer: Writer, expr: Expr, values: Values) -> Argument:
    x, index = map(writer.whole, expr.inputs)
    return torch.take_along_dim(x, index.long(), expr.attribute("dim"))


def _scatter(writer: Writer, expr: Expr, values: Values) -> Argument:
    x, index, src = _scattered(writer, expr)
    found = (torch.scatter if expr.op == "scatter" else torch.scatter_add)(x, expr.attribute("dim"), index, src)
    return writer.in_dtype(found, writer.compute_dtype(expr), values[0].dtype)


def _index_put(writer: Writer, expr: Expr, values: Values) -> Argument:
    x, index, src = _scattered(writer, expr)
    before = [slice(None)] * dict(expr.attributes).get("dim", 0)
    is_added = expr.op in ("index_add", "index_put_accumulate")
    if before:  # index_put names the first dims
        found = (torch.index_add if is_added else torch.index_copy)(x, len(before), index, src)
    else:
        found = torch.index_put(x, [index], src, accumulate=is_added)
    return writer.in_dtype(found, writer.compute_dtype(expr), values[0].dtype)


def _scattered(writer: Writer, expr: Expr) -> tuple[Any, Any, Any]:
    """What is written to, the index, and updates of the same dtype: a number as a tensor."""
    dtype = writer.compute_dtype(expr)
    x, index = writer.operand(expr.inputs[0], dtype), writer.whole(expr.inputs[1]).long()
    src = writer.operand(expr.inputs[2], dtype)
    if expr.inputs[2] in writer.tensors:
        return x, index, src
    is_along = expr.op in ("scatter", "scatter_add")
    like = index if is_along else x[(*[slice(None)] * dict(expr.attributes).get("dim", 0), index)]
    return x, index, writer.call(torch.full_like, like, src, dtype=torch_dtype(dtype))


def _linear_index(writer: Writer, expr: Expr, values: Values) -> Argument:
    count = writer.extent(values[0].tensor.numel)
    places: Any = writer.call(torch.arange, count, dtype=torch.int64, device=writer.device)
    return places.reshape(writer.shape(values[0]))


def _uniform(writer: Writer, expr: Expr, values: Values) -> Argument:
    low, high, *_ = map(writer.whole, expr.inputs)
    dtype, shape = torch_dtype(values[0].dtype), writer.shape(values[0])
    draw: Any = writer.call(torch.rand, shape, dtype=dtype, device=writer.device)
    return draw * (high - low) + low


def _normal(writer: Writer, expr: Expr, values: Values) -> Argument:
    mean, std, *_ = map(writer.whole, expr.inputs)
    dtype, shape = torch_dtype(values[0].dtype), writer.shape(values[0])
    draw: Any = writer.call(torch.randn, shape, dtype=dtype, device=writer.device)
    return draw * std + mean


def _dropout(writer: Writer, expr: Expr, values: Values) -> Argument:
    x, probability, *_ = map(writer.whole, expr.inputs)
    made = torch.native_dropout(x.to(torch_dtype(values[0].dtype)), probability, True)
    return made[0], made[1]


def _topk(writer: Writer, expr: Expr, values: Values) -> Argument:
    found = torch.topk(writer.whole(expr.inputs[0]), expr.attribute("k"), dim=expr.attribute("dim"),
                       largest=expr.attribute("largest"))  # fmt: skip
    return found[0], found[1]


def _by_index(writer: Writer, expr: Expr, values: Values) -> Argument:
    raise NoReferenceError.at(expr.location, f"torch cannot be asked for the random numbers of {expr.op}")


def _over(expr: Expr) -> dict[str, Any]:
    """What torch's reductions are told of their dims."""
    return {"dim": expr.dims, "keepdim": expr.attribute("keepdim")}


def _extents(writer: Writer, expr: Expr, name: str) -> list[Argument]:
    """The sizes in the attribute ``name``; none where it is not given."""
    formulas: Any = expr.attribute(name) or ()
    return [writer.extent(formula) for formula in formulas]


SPELLED: dict[str, Callable[[Writer, Expr, Values], Argument]] = {
    "cast": _cast,
    "cat": _cat,
    "sum": _sum_or_mean,
    "mean": _sum_or_mean,
    "prod": _prod,
    "max": _extreme,
    "min": _extreme,
    "var": _variance,
    "var_mean": _variance,
    "welford": _welford,
    "logsumexp": _logsumexp,
    "online_softmax_statistics": _softmax_statistics,
    "full": _full,
    "iota": _iota,
    "size": lambda writer, expr, values: writer.extent(expr.attribute("extent")),
    "matmul": lambda writer, expr, values: torch.matmul(*map(writer.whole, expr.inputs)),
    "linear": lambda writer, expr, values: writer.call(functional.linear, *map(writer.whole, expr.inputs)),
    "slice": _slice,
    "pad": _pad,
    "take": _take,
    "index_select": _take,
    "embedding": _embedding,
    "take_along_axis": _take_along_axis,
    "gather": _take_along_axis,
    "scatter": _scatter,
    "scatter_add": _scatter,
    **dict.fromkeys(("index_copy", "index_put", "index_add", "index_put_accumulate"), _index_put),
    "linear_index": _linear_index,
    "rand_like": lambda writer, expr, values: torch.rand_like(writer.whole(expr.inputs[0])),
    "randn_like": lambda writer, expr, values: torch.randn_like(writer.whole(expr.inputs[0])),
    "uniform": _uniform,
    "normal": _normal,
    "dropout": _dropout,
    "topk": _topk,
    "philox_uniform": _by_index,
    "philox_normal": _by_index,
}
"""The function of each such op. An op that is not here is what its reference calls, traced."""
