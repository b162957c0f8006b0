"""Reductions by an operator: ``sum``, ``prod``, ``max``, ``min``, and the statistics that sums give."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from fusebuild.ir.dtype import DType
from fusebuild.ir.types import ValueType
from fusebuild.ops.op_def import (
    DTYPE_PARAMETER,
    REDUCTION_PARAMETERS,
    Attributes,
    Kind,
    OpDef,
    Parameter,
    dims_of,
    dtype_of,
)
from fusebuild.ops.type_rules import TypeRuleError, reduced_type, reduction_dtype, require_tensor


def _reduction(
    name: str, reference: Callable[..., Any], *extra: Parameter, functor: str = "", results: int = 1
) -> OpDef:
    """A reduction with a functor of its own, or one that the decompose pass writes with others."""

    def infer(types: Sequence[ValueType], attributes: Attributes) -> tuple[ValueType, ...]:
        tensor = require_tensor(name, types[0])
        if name in ("max", "min") and tensor.rank == 0 and attributes["dims"]:
            raise TypeRuleError(f"{name} of a zero-dim tensor takes no dims")
        base = "var" if name == "var_mean" else name
        dtype = dtype_of(attributes) or reduction_dtype(base, tensor.dtype)
        dims = dims_of(name, tensor, attributes)
        return (reduced_type(tensor, dims, keepdim=bool(attributes["keepdim"]), dtype=dtype),) * results

    def operand_dtypes(types: Sequence[ValueType], attributes: Attributes) -> tuple[DType, ...]:
        dtype = dtype_of(attributes) or reduction_dtype("var" if name == "var_mean" else name, types[0].dtype)
        return (DType.FLOAT if dtype.is_reduced_precision else dtype,)

    return OpDef(
        name=name,
        kind=Kind.REDUCTION if functor else Kind.COMPOSITE,
        parameters=(*REDUCTION_PARAMETERS, *extra),
        infer=infer,
        operand_dtypes=operand_dtypes,
        reference=reference,
        functor=functor,
        results=results,
        example=f"{name}(x: T[M, N], dims=[1])",
    )


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


def _welford() -> OpDef:
    """Mean, sum of squared deviations from it, and number of elements, as nvFuser's ``welford`` gives them: the parts
    that variances of parts are merged from."""

    def infer(types: Sequence[ValueType], attributes: Attributes) -> tuple[ValueType, ...]:
        tensor = require_tensor("welford", types[0])
        dims, keepdim = dims_of("welford", tensor, attributes), bool(attributes["keepdim"])
        dtype = reduction_dtype("var", tensor.dtype)
        return tuple(reduced_type(tensor, dims, keepdim=keepdim, dtype=own) for own in (dtype, dtype, DType.INT64))

    return OpDef(
        name="welford",
        kind=Kind.REDUCTION,
        parameters=REDUCTION_PARAMETERS,
        infer=infer,
        operand_dtypes=lambda types, attributes: (reduction_dtype("var", types[0].dtype),),
        reference=_moments,
        functor="Welford",
        running="Moments",
        results=3,
        example="welford(x: T[M, N], dims=[1])",
    )


_CORRECTION = Parameter(name="correction", kind="int", default=1)

REDUCTIONS = (
    _reduction("sum", _sum, DTYPE_PARAMETER, functor="Sum"),
    _reduction("prod", _prod, DTYPE_PARAMETER, functor="Prod"),
    _reduction("max", _extreme("amax", 0), functor="Max"),
    _reduction("min", _extreme("amin", 1), functor="Min"),
    _reduction("mean", _mean, DTYPE_PARAMETER),
    _reduction("var", _var, _CORRECTION),
    _reduction("var_mean", _var_mean, _CORRECTION, results=2),
    _welford(),
)
"""The ops of this module, for :data:`fusebuild.ops.table.OPS`."""
