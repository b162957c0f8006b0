"""Ops that put elements in order: ``sort``, ``argsort`` and ``topk``.

The order is total and stable: NaN is greater than every number, as in torch, 0 and -0 are equal, and of equal elements
the one with the lower index comes first, also where the greatest come first. So all kernels give the same indices.
Values keep their dtype; indices are int64.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusebuild.ir.algebra import Algebra
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, show
from fusebuild.ir.types import TensorType, ValueType, tensor_type
from fusebuild.ops.op_def import Attributes, Kind, OpDef, Types, define, define_sized
from fusebuild.ops.type_rules import TypeRuleError, normalize_dims, require_tensor

MOST_KEPT = 64
"""Elements that ``topk`` gives of a row, at most."""


def _ordered_dim(op: str, types: Types, attributes: Attributes) -> tuple[TensorType, int]:
    """The tensor and the dim along which it is put in order."""
    tensor = require_tensor(op, types[0])
    (dim,) = normalize_dims(op, [attributes["dim"]], tensor.rank)
    return tensor, dim


def _of_shape(tensor: TensorType, dim: int, size: Formula, dtype: DType) -> TensorType:
    """Results of ``dtype`` along ``dim``, so many as ``size``; what is expanded along other dims stays so."""
    shape = [size if other == dim else extent for other, extent in enumerate(tensor.shape)]
    expanded = [other for other, flag in enumerate(tensor.contiguity) if flag is None and other != dim]
    return tensor_type(dtype, shape, expanded)


def _sorting(name: str, with_values: bool) -> Callable[[Types, Attributes], tuple[ValueType, ...]]:
    def infer(types: Types, attributes: Attributes) -> tuple[ValueType, ...]:
        tensor, dim = _ordered_dim(name, types, attributes)
        dtypes = (tensor.dtype, DType.INT64) if with_values else (DType.INT64,)
        return tuple(_of_shape(tensor, dim, tensor.shape[dim], dtype) for dtype in dtypes)

    return infer


def _topk(types: Types, attributes: Attributes, algebra: Algebra) -> tuple[ValueType, ...]:
    tensor, dim = _ordered_dim("topk", types, attributes)
    k, size = attributes["k"], tensor.shape[dim]
    assert isinstance(k, int)
    if not 1 <= k <= MOST_KEPT:
        hint = "sort gives all of them: slice its results" if k > MOST_KEPT else ""
        raise TypeRuleError(f"topk: k is {k}, not between 1 and {MOST_KEPT}", hint)
    if algebra.at_most(size, k - 1):
        raise TypeRuleError(f"topk: dim {dim} has size {show(size)}, and k is {k}", operand=0)
    if isinstance(size, tuple) and not algebra.at_most(k, size):
        raise TypeRuleError(f"topk: dim {dim} has size {show(size)}, which may be less than k, {k}",
                            hint="state under extents what makes it large enough", operand=0)  # fmt: skip
    return tuple(_of_shape(tensor, dim, k, dtype) for dtype in (tensor.dtype, DType.INT64))


def _sorted(torch: Any, x: Any, dim: int, descending: bool, stable: bool = True) -> tuple[Any, Any]:
    found = torch.sort(x, dim=dim, descending=descending, stable=True)
    return found[0], found[1]


def _first(torch: Any, x: Any, k: int, dim: int, largest: bool) -> tuple[Any, Any]:
    values, indices = _sorted(torch, x, dim, largest)
    return values.narrow(dim, 0, k), indices.narrow(dim, 0, k)


_ORDER = "dim: int = -1, descending: bool = False, stable: bool = False"

ORDERING: tuple[OpDef, ...] = (
    define(f"sort(x, {_ORDER})", Kind.ORDER, _sorting("sort", True), _sorted, results=2,
           example="sort(x: T[M, N], dim=1)"),
    define(f"argsort(x, {_ORDER})", Kind.COMPOSITE, _sorting("argsort", False),
           lambda torch, x, **named: _sorted(torch, x, **named)[1], example="argsort(x: T[M, N], dim=1)"),
    define_sized("topk(x, k: int, dim: int = -1, largest: bool = True)", Kind.ORDER, _topk, _first, results=2,
                 example="topk(x: T[M, 32], k=8, dim=1)"),
)  # fmt: skip
"""The ops of this module, for :data:`fusebuild.ops.table.OPS`."""
