"""Ops that write elements to places that an index tensor names: ``scatter``, ``scatter_add`` and what is written in
them by the decompose pass.

The result is the first operand but for those places. An index beyond the dim names its nearest element, as where it is
read from, and the dim has elements. Where several updates name one place, the last of them along ``dim`` is what
``scatter`` leaves there, and ``scatter_add`` leaves the sum of all: the same bits at every call.
``unique_indices`` promises that no place is named twice; where one is, any of its updates may be what is left.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fusebuild.errors import counted
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, show
from fusebuild.ir.types import TensorType, tensor_type
from fusebuild.ops.op_def import Attributes, Infer, Kind, OpDef, Types, define
from fusebuild.ops.type_rules import TypeRuleError, normalize_dims, promote, require_tensor

_ADDING = ("scatter_add", "index_add", "index_put_accumulate")


def _operands(name: str, types: Types, attributes: Attributes) -> tuple[TensorType, TensorType, int]:
    """The tensor that is written to, the one that says where, and the dim that it is about, counted from the front."""
    tensor, index = require_tensor(name, types[0]), types[1]
    if not isinstance(index, TensorType) or not index.dtype.is_integer:
        raise TypeRuleError(f"{name} takes a tensor of integers as index", operand=1)
    if tensor.rank == 0:
        raise TypeRuleError(f"{name} takes a tensor with dims", operand=0)
    (dim,) = normalize_dims(name, [attributes.get("dim", 0)], tensor.rank)
    if tensor.shape[dim] == 0:
        raise TypeRuleError(f"{name}: dim {dim} has no elements to write", operand=0)
    return tensor, index, dim


def _result(name: str, types: Types, attributes: Attributes, updates: tuple[Formula, ...]) -> TensorType:
    """The type of the result, where one update of shape ``updates`` is written for each place that is named."""
    tensor, src = types[0], types[2]
    assert isinstance(tensor, TensorType)
    if isinstance(src, TensorType) and src.shape != updates:
        shown, wanted = (", ".join(map(show, shape)) for shape in (src.shape, updates))
        raise TypeRuleError(f"{name}: the updates are [{shown}], not [{wanted}]", hint="expand says so", operand=2)
    if name in _ADDING:
        return tensor_type(attributes.get("dtype") or _sum_dtype(name, types), tensor.shape)
    if isinstance(src, TensorType) and src.dtype is not tensor.dtype:
        message = f"{name} writes {src.dtype.value} into {tensor.dtype.value}"
        raise TypeRuleError(message, hint=f"cast the updates to {tensor.dtype.value}", operand=2)
    return tensor_type(tensor.dtype, tensor.shape)


def _sum_dtype(name: str, types: Types) -> DType:
    """The dtype in which updates are added."""
    dtype = promote([types[0], types[2]])
    if dtype is DType.BOOL:
        raise TypeRuleError(f"{name} is not defined for bool", hint="cast first", operand=0)
    return dtype


def _along(name: str) -> Infer:
    """The rule of an op whose index names a place for each update."""

    def infer(types: Types, attributes: Attributes) -> TensorType:
        tensor, index, dim = _operands(name, types, attributes)
        if index.rank != tensor.rank:
            raise TypeRuleError(f"{name}: the index has {counted(index.rank, 'dim')}, not {tensor.rank}", operand=1)
        for other, (own, wanted) in enumerate(zip(tensor.shape, index.shape, strict=True)):
            if other != dim and own != wanted:
                sizes = f"dim {other} is {show(own)} in the tensor and {show(wanted)} in the index"
                hint = "expand the index" if wanted == 1 else ""
                raise TypeRuleError(f"{name}: {sizes}", hint=hint, operand=1)
        return _result(name, types, attributes, index.shape)

    return infer


def _of_rows(name: str, is_flat: bool) -> Infer:
    """The rule of an op whose index names one place for all elements that share one along ``dim``; an index that
    ``is_flat`` has one dim."""

    def infer(types: Types, attributes: Attributes) -> TensorType:
        tensor, index, dim = _operands(name, types, attributes)
        if is_flat and index.rank != 1:
            raise TypeRuleError(f"{name}: the index has {counted(index.rank, 'dim')}, not 1", operand=1)
        return _result(name, types, attributes, (*tensor.shape[:dim], *index.shape, *tensor.shape[dim + 1 :]))

    return infer


def _placed(torch: Any, x: Any, index: Any, src: Any, dim: int = 0, unique_indices: bool = False) -> Any:
    """``x`` with the last update along ``dim`` in each place that ``index`` names."""
    if 0 in index.shape or x.shape[dim] == 0:
        return x
    inside = index.long().clamp(0, x.shape[dim] - 1)
    last = torch.full(x.shape, -1).scatter_reduce(dim, inside, _places(torch, index, dim), "amax")
    return torch.where(last < 0, x, src.to(x.dtype).expand(index.shape).gather(dim, last.clamp(0)))


def _places(torch: Any, index: Any, dim: int) -> Any:
    """The coordinate along ``dim`` of each element of ``index``."""
    shape = [size if other == dim else 1 for other, size in enumerate(index.shape)]
    return torch.arange(index.shape[dim]).reshape(shape).expand(index.shape)


def _added(torch: Any, x: Any, index: Any, src: Any, dim: int = 0, dtype: Any = None) -> Any:
    if 0 in index.shape or x.shape[dim] == 0:
        return x
    return x.scatter_add(dim, index.long().clamp(0, x.shape[dim] - 1), src.expand(index.shape))


def _for_rows(reference: Callable[..., Any]) -> Callable[..., Any]:
    """``reference`` for an index that names one place for all elements that share one along ``dim``."""

    def of_rows(torch: Any, x: Any, index: Any, src: Any, dim: int = 0, **named: Any) -> Any:
        shape = (*x.shape[:dim], index.numel(), *x.shape[dim + 1 :])
        one = [index.numel() if other == dim else 1 for other in range(x.dim())]
        updates = src.reshape(shape) if src.dim() else src
        return reference(torch, x, index.reshape(one).expand(shape), updates, dim=dim, **named)

    return of_rows


def _set(name: str, parameters: str, infer: Infer, example: str, **more: Any) -> OpDef:
    def operand_dtypes(types: Types, attributes: Attributes) -> tuple[DType, ...]:
        return (types[0].dtype, types[1].dtype, types[0].dtype)

    reference = more.pop("reference", _placed)
    return define(f"{name}({parameters}, unique_indices: bool = False)", more.pop("kind", Kind.COMPOSITE), infer,
                  reference, operand_dtypes=operand_dtypes, example=f"{name}{example}", picks=True, **more)  # fmt: skip


def _add(name: str, parameters: str, infer: Infer, example: str, **more: Any) -> OpDef:
    def operand_dtypes(types: Types, attributes: Attributes) -> tuple[DType, ...]:
        dtype = _sum_dtype(name, types)
        return (dtype, types[1].dtype, dtype)

    reference = more.pop("reference", _added)
    return define(f"{name}({parameters}, dtype: dtype = None)", more.pop("kind", Kind.COMPOSITE), infer, reference,
                  operand_dtypes=operand_dtypes, example=f"{name}{example}", picks=True, **more)  # fmt: skip


_ALONG = "(x: T[M, N], index: int64[M, K], src: T[M, K], dim=1)"
_ROWS = "(x: T[M, N], index: int64[K], src: T[K, N], dim=0)"
_PUT = "(x: T[M, N], index: int64[K, 2], src: T[K, 2, N])"

SCATTERING = (
    _set("scatter", "x, index, src, dim: int", _along("scatter"), _ALONG, kind=Kind.SCATTER, cuda="{2}"),
    _set("index_copy", "x, index, src, dim: int", _of_rows("index_copy", is_flat=True), _ROWS,
         reference=_for_rows(_placed)),
    _set("index_put", "x, index, src", _of_rows("index_put", is_flat=False), _PUT, reference=_for_rows(_placed)),
    _add("scatter_add", "x, index, src, dim: int", _along("scatter_add"), _ALONG, kind=Kind.SCATTER, cuda="{2}"),
    _add("index_add", "x, index, src, dim: int", _of_rows("index_add", is_flat=True), _ROWS,
         reference=_for_rows(_added)),
    _add("index_put_accumulate", "x, index, src", _of_rows("index_put_accumulate", is_flat=False), _PUT,
         reference=_for_rows(_added)),
)  # fmt: skip
"""The ops of this module, for :data:`fusebuild.ops.table.OPS`."""
