"""Reductions by an operator: ``sum``, ``prod``, ``max``, ``min``, and the statistics that sums give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fusebuild.ir.dtype import DType
from fusebuild.ir.types import ValueType
from fusebuild.ops.op_def import Attributes, Kind, OpDef, Types, define, dims_of
from fusebuild.ops.type_rules import TypeRuleError, reduced_type, require_tensor


def kept_dtype(dtype: DType) -> DType:
    """The dtype of an extreme: that of its operand, but for narrow ones, which are computed in float."""
    return DType.FLOAT if dtype.is_reduced_precision else dtype


def summed_dtype(dtype: DType) -> DType:
    """The dtype of a sum or a product: int64 for integers and bools."""
    return kept_dtype(dtype) if dtype.is_floating else DType.INT64


def mean_dtype(dtype: DType) -> DType:
    """The dtype of a mean or a variance: float for integers and bools."""
    return kept_dtype(dtype) if dtype.is_floating else DType.FLOAT


def _reduction(
    signature: str,
    result_dtype: Callable[[DType], DType],
    reference: Callable[..., Any],
    kind: Kind = Kind.REDUCTION,
    **facts: Any,
) -> OpDef:
    """A reduction with a functor of its own, or one that the decompose pass writes with others."""
    name = signature.partition("(")[0]

    def infer(types: Types, attributes: Attributes) -> tuple[ValueType, ...]:
        tensor = require_tensor(name, types[0])
        if name in ("max", "min") and tensor.rank == 0 and attributes["dims"]:
            raise TypeRuleError(f"{name} of a zero-dim tensor takes no dims")
        dims, dtype = dims_of(name, tensor, attributes), attributes.get("dtype") or result_dtype(tensor.dtype)
        dtypes = (dtype, dtype, DType.INT64)[: facts.get("results", 1)]
        return tuple(reduced_type(tensor, dims, keepdim=attributes["keepdim"], dtype=own) for own in dtypes)

    def operand_dtypes(types: Types, attributes: Attributes) -> tuple[DType, ...]:
        return (kept_dtype(attributes.get("dtype") or result_dtype(types[0].dtype)),)

    return define(
        signature, kind, infer, reference, operand_dtypes=operand_dtypes, result_dtype=result_dtype,
        example=f"{name}(x: T[M, N], dims=[1])", **facts,
    )  # fmt: skip


def _sum(torch: Any, x: Any, dims: Sequence[int], keepdim: bool, dtype: DType | None = None) -> Any:
    return torch.sum(x, dim=tuple(dims), keepdim=keepdim) if dims else x


def _prod(torch: Any, x: Any, dims: Sequence[int], keepdim: bool, dtype: DType | None = None) -> Any:
    for dim in sorted(dims, reverse=True):
        x = torch.prod(x, dim=dim, keepdim=keepdim)
    return x


def _extreme(name: str, worst: int) -> Callable[..., Any]:
    """``amax`` or ``amin``; of no elements it is the one of :func:`_limits` that is the ``worst``."""

    def reference(torch: Any, x: Any, dims: Sequence[int], keepdim: bool) -> Any:
        if _count(x, dims):
            return getattr(torch, name)(x, dim=tuple(dims), keepdim=keepdim) if dims else x
        shape = [1 if dim in dims else size for dim, size in enumerate(x.shape) if keepdim or dim not in dims]
        return torch.full(shape, _limits(torch, x)[worst], dtype=x.dtype, device=x.device)

    return reference


def _count(x: Any, dims: Sequence[int]) -> int:
    """How many elements of ``x`` become one."""
    return math.prod(x.shape[dim] for dim in dims)


def _limits(torch: Any, x: Any) -> tuple[float, float]:
    """The least and the greatest number of the dtype of ``x``."""
    if x.is_floating_point():
        return -math.inf, math.inf
    if x.dtype == torch.bool:
        return False, True
    limits = torch.iinfo(x.dtype)
    return limits.min, limits.max


def _mean(torch: Any, x: Any, dims: Sequence[int], keepdim: bool, dtype: DType | None) -> Any:
    """Means of integers are truncated, and 0 over no elements."""
    summed, count = _sum(torch, x, dims, keepdim), _count(x, dims)
    if not summed.is_floating_point():
        return torch.div(summed, max(count, 1), rounding_mode="trunc")
    return torch.true_divide(summed, torch.tensor(count, dtype=summed.dtype, device=x.device))


def _var_mean(torch: Any, x: Any, dims: Sequence[int], keepdim: bool, correction: int) -> tuple[Any, Any]:
    """In two passes; a divisor below one gives NaN or Inf, as in torch."""
    mean, squares, _ = _moments(torch, x, dims, keepdim)
    divisor = torch.tensor(max(_count(x, dims) - correction, 0), dtype=mean.dtype, device=x.device)
    return torch.true_divide(squares, divisor), mean


def _var(torch: Any, x: Any, dims: Sequence[int], keepdim: bool, correction: int) -> Any:
    return _var_mean(torch, x, dims, keepdim, correction)[0]


def _moments(torch: Any, x: Any, dims: Sequence[int], keepdim: bool) -> tuple[Any, Any, Any]:
    """Mean, sum of squared deviations from it, and count, in two passes."""
    count = _count(x, dims)
    mean = torch.true_divide(_sum(torch, x, dims, keepdim=True), count)
    centered = x - mean
    squares = _sum(torch, centered * centered, dims, keepdim)
    return mean.reshape(squares.shape), squares, torch.full_like(squares, count, dtype=torch.int64)


_DIMS = "dims: dims = None, keepdim: bool = False"

REDUCTIONS = (
    _reduction(f"sum(x, {_DIMS}, dtype: dtype = None)", summed_dtype, _sum, functor="Sum"),
    _reduction(f"prod(x, {_DIMS}, dtype: dtype = None)", summed_dtype, _prod, functor="Prod"),
    _reduction(f"max(x, {_DIMS})", kept_dtype, _extreme("amax", 0), functor="Max"),
    _reduction(f"min(x, {_DIMS})", kept_dtype, _extreme("amin", 1), functor="Min"),
    _reduction(f"mean(x, {_DIMS}, dtype: dtype = None)", mean_dtype, _mean, Kind.COMPOSITE),
    _reduction(f"var(x, {_DIMS}, correction: int = 1)", mean_dtype, _var, Kind.COMPOSITE),
    _reduction(f"var_mean(x, {_DIMS}, correction: int = 1)", mean_dtype, _var_mean, Kind.COMPOSITE, results=2),
    _reduction(f"welford(x, {_DIMS})", mean_dtype, _moments, functor="Welford", running="Moments", results=3),
)
"""The ops of this module, for :data:`fusebuild.ops.table.OPS`. ``welford`` is nvFuser's: mean, sum of squared
deviations from it and number of elements, the parts that variances of parts are merged from."""
