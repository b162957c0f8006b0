"""Type promotion and shape inference, shared by every op.

Promotion is nvFuser's, which is ATen's: operands fall into tensors with dims, zero-dim tensors and scalars; a later
group takes part only when its category (bool < integer < floating) is higher. Half and bfloat16 are computed in float
and the result stays float until a cast. Shapes broadcast from the right, as in NumPy.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from fusebuild.errors import counted
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, show
from fusebuild.ir.types import ScalarType, TensorType, ValueType, VectorType, tensor_type


class TypeRuleError(Exception):
    """Operands that an op does not accept. ``operand`` is the index of the one to point at, when there is one."""

    def __init__(self, message: str, hint: str = "", operand: int | None = None) -> None:
        self.message, self.hint, self.operand = message, hint, operand
        super().__init__(message)


def _category(dtype: DType) -> int:
    return 2 if dtype.is_floating else 1 if dtype.is_integer else 0


def promote_pair(a: DType, b: DType) -> DType:
    """The smallest dtype that holds both, by ATen's table."""
    if a is b:
        return a
    if _category(a) != _category(b):
        return a if _category(a) > _category(b) else b
    return a if a.holds(b) else b if b.holds(a) else DType.FLOAT


def promote(types: Sequence[ValueType]) -> DType:
    """The dtype in which ops on operands of ``types`` compute: reduced floating dtypes in float."""
    result = common_dtype(types)
    return DType.FLOAT if result.is_reduced_precision else result


def common_dtype(types: Sequence[ValueType]) -> DType:
    """The dtype in which operands of ``types`` meet.

    A scalar of a higher category than every tensor brings the default dtype of that category (float, int64), so that
    ``int32_tensor + 0.5`` is float; among scalars alone nothing is narrowed.
    """
    groups = (
        [t.dtype for t in types if isinstance(t, TensorType) and t.rank > 0],
        [t.dtype for t in types if isinstance(t, TensorType) and t.rank == 0],
        [t.dtype for t in types if isinstance(t, ScalarType)],
    )
    result: DType | None = None
    for group in groups:
        candidate = functools.reduce(promote_pair, group) if group else None
        if candidate is None or (result is not None and _category(candidate) <= _category(result)):
            continue
        if group is groups[-1] and result is not None:
            candidate = DType.FLOAT if candidate.is_floating else DType.INT64
        result = candidate
    assert result is not None, "promotion needs an operand"
    return result


def broadcast_shapes(types: Sequence[ValueType]) -> tuple[tuple[Formula, ...], frozenset[int]]:
    """``(shape, broadcast dims)`` of a pointwise result, aligned from the right.

    A dim of the result is a broadcast dim when it is one in every operand that has it. Raises :class:`TypeRuleError`
    when two extents differ and neither is the constant 1.
    """
    tensors = [(index, t) for index, t in enumerate(types) if isinstance(t, TensorType)]
    rank = max(t.rank for _, t in tensors)
    shape: list[Formula] = []
    broadcast: set[int] = set()
    for dim in range(rank):
        extent: Formula = 1
        concrete = False
        for index, t in tensors:
            own = dim - (rank - t.rank)
            if own < 0 or t.shape[own] == 1:
                continue
            if extent not in (1, t.shape[own]):
                raise TypeRuleError(
                    f"shapes do not broadcast: dim {dim} is {show(extent)} in one operand "
                    f"and {show(t.shape[own])} in another",
                    hint="extents must be the same symbol, the same number, or the constant 1",
                    operand=index,
                )
            extent = t.shape[own]
            concrete |= t.contiguity[own] is not None
        shape.append(extent)
        if not concrete:
            broadcast.add(dim)
    return tuple(shape), frozenset(broadcast)


def pointwise_type(dtype: DType, types: Sequence[ValueType]) -> ValueType:
    """The result type of a pointwise op: a scalar when no operand is a tensor."""
    if vectors := [index for index, t in enumerate(types) if isinstance(t, VectorType)]:
        raise TypeRuleError("a vector is not an operand of pointwise ops", operand=vectors[0])
    if not any(isinstance(t, TensorType) for t in types):
        return ScalarType(dtype=dtype)
    shape, broadcast = broadcast_shapes(types)
    return tensor_type(dtype, shape, broadcast)


def require_tensor(op: str, type_: ValueType) -> TensorType:
    """``type_`` when it is a tensor; a :class:`TypeRuleError` otherwise."""
    if not isinstance(type_, TensorType):
        raise TypeRuleError(f"{op} takes a tensor, not a scalar", operand=0)
    return type_


def normalize_dims(op: str, dims: Sequence[int], rank: int) -> tuple[int, ...]:
    """``dims`` counted from the front, sorted; errors name the dim that is out of range or given twice."""
    normalized: list[int] = []
    for dim in dims:
        if not -rank <= dim < rank:
            valid = f"valid dims are {-rank} to {rank - 1}" if rank else "the tensor has no dims"
            raise TypeRuleError(f"{op}: dim {dim} is out of range for a tensor of rank {rank}", hint=valid)
        if dim % rank in normalized:
            raise TypeRuleError(f"{op}: dim {dim} is given twice")
        normalized.append(dim % rank)
    return tuple(sorted(normalized))


def reduced_type(tensor: TensorType, dims: Sequence[int], *, keepdim: bool, dtype: DType) -> TensorType:
    """The type of a reduction of ``tensor`` over ``dims`` (already normalized)."""
    kept = [dim for dim in range(tensor.rank) if keepdim or dim not in dims]
    shape = [1 if dim in dims else tensor.shape[dim] for dim in kept]
    broadcast = [position for position, dim in enumerate(kept) if dim in dims or tensor.contiguity[dim] is None]
    return tensor_type(dtype, shape, broadcast)


def broadcast_type(tensor: TensorType, mask: Sequence[bool]) -> TensorType:
    """``broadcast(x, is_broadcast_dim=mask)``: size-1 dims where ``mask`` is True, the dims of ``x`` elsewhere."""
    if list(mask).count(False) != tensor.rank:
        raise TypeRuleError(
            f"broadcast: the mask keeps {counted(list(mask).count(False), 'dim')} but the tensor has {tensor.rank}",
            hint="give one False for each dim of the tensor and True for each new dim",
        )
    own = iter(range(tensor.rank))
    shape: list[Formula] = []
    expanded: list[int] = []
    for position, is_new in enumerate(mask):
        dim = None if is_new else next(own)
        shape.append(1 if dim is None else tensor.shape[dim])
        if dim is None or tensor.contiguity[dim] is None:
            expanded.append(position)
    return tensor_type(tensor.dtype, shape, expanded)


def expand_type(tensor: TensorType, shape: Sequence[Formula]) -> TensorType:
    """``expand(x, shape)``: size-1 dims take the new extent; -1 keeps a dim; other dims must agree."""
    if len(shape) != tensor.rank:
        raise TypeRuleError(f"expand: the shape has {counted(len(shape), 'dim')} but the tensor has {tensor.rank}")
    extents: list[Formula] = []
    expanded: list[int] = []
    for dim, (old, new) in enumerate(zip(tensor.shape, shape, strict=True)):
        if new not in (-1, old) and old != 1:
            raise TypeRuleError(
                f"expand: dim {dim} is {show(old)} and cannot become {show(new)}",
                hint="only dims of constant size 1 expand",
            )
        extents.append(old if new == -1 else new)
        if old == 1 or tensor.contiguity[dim] is None:
            expanded.append(dim)
    return tensor_type(tensor.dtype, extents, expanded)


def broadcast_in_dim_type(tensor: TensorType, shape: Sequence[Formula], dims: Sequence[int]) -> TensorType:
    """``broadcast_in_dim(x, shape, dims)``: dim i of ``x`` becomes dim ``dims[i]`` of the result."""
    if len(dims) != tensor.rank:
        raise TypeRuleError(
            f"broadcast_in_dim: broadcast_dims names {counted(len(dims), 'dim')} but the tensor has {tensor.rank}"
        )
    if any(not 0 <= dim < len(shape) for dim in dims) or list(dims) != sorted(set(dims)):
        raise TypeRuleError(f"broadcast_in_dim: dims {list(dims)} must rise and lie in 0 to {len(shape) - 1}")
    mask = [position not in dims for position in range(len(shape))]
    return expand_type(broadcast_type(tensor, mask), shape)


def squeeze_type(tensor: TensorType, dims: Sequence[int]) -> TensorType:
    """``squeeze(x, dims)``: drops dims of constant size 1."""
    for dim in dims:
        if tensor.shape[dim] != 1:
            raise TypeRuleError(f"squeeze: dim {dim} has size {show(tensor.shape[dim])}, not 1")
    kept = [dim for dim in range(tensor.rank) if dim not in dims]
    expanded = [position for position, dim in enumerate(kept) if tensor.contiguity[dim] is None]
    return tensor_type(tensor.dtype, [tensor.shape[dim] for dim in kept], expanded)


def linear_type(x: ValueType, weight: ValueType, bias: ValueType | None = None) -> TensorType:
    """``linear(x, weight, bias)``: ``x[..., K]`` times the transpose of ``weight[N, K]`` plus ``bias[N]``."""
    names = ("x", "weight", "bias")
    operands = _library_operands("linear", names, [x, weight] if bias is None else [x, weight, bias])
    left, right = operands[:2]
    if left.rank == 0:
        raise TypeRuleError("linear: x has no dims", hint="x is [..., K]", operand=0)
    if right.rank != 2:
        raise TypeRuleError(
            f"linear: weight has {counted(right.rank, 'dim')}, not 2", hint="weight is [N, K]", operand=1
        )
    _require_same_extent("linear", "x", left.shape[-1], "weight", right.shape[1], operand=1)
    if len(operands) == 3:
        added = operands[2]
        if added.rank != 1:
            raise TypeRuleError(f"linear: bias has {counted(added.rank, 'dim')}, not 1", hint="bias is [N]", operand=2)
        if added.shape != right.shape[:1]:
            raise TypeRuleError(
                f"linear: bias has {show(added.shape[0])} elements but weight has {show(right.shape[0])} rows",
                hint=_SAME_EXTENT,
                operand=2,
            )
    return tensor_type(left.dtype, (*left.shape[:-1], right.shape[0]))


def matmul_type(a: ValueType, b: ValueType) -> TensorType:
    """``matmul(a, b)`` as torch has it: ``[..., M, K]`` times ``[..., K, N]``, leading dims broadcast.

    A 1-D ``a`` is one row and a 1-D ``b`` one column; the result lacks that dim.
    """
    left, right = _library_operands("matmul", ("a", "b"), [a, b])
    for position, (name, operand) in enumerate((("a", left), ("b", right))):
        if operand.rank == 0:
            raise TypeRuleError(f"matmul: {name} has no dims", hint="multiply with '*'", operand=position)
    inner = right.shape[0] if right.rank == 1 else right.shape[-2]
    _require_same_extent("matmul", "a", left.shape[-1], "b", inner, operand=1)
    batches = [tensor_type(operand.dtype, operand.shape[:-2]) for operand in (left, right)]
    batch, _ = broadcast_shapes(batches)
    rows = left.shape[-2:-1]
    columns = right.shape[-1:] if right.rank > 1 else ()
    return tensor_type(left.dtype, (*batch, *rows, *columns))


_SAME_EXTENT = "extents must be the same symbol or the same number"


def _library_operands(op: str, names: Sequence[str], types: Sequence[ValueType]) -> list[TensorType]:
    """``types``, once all are tensors of one floating dtype."""
    tensors: list[TensorType] = []
    for position, (name, type_) in enumerate(zip(names, types, strict=False)):
        if not isinstance(type_, TensorType):
            raise TypeRuleError(f"{op} takes tensors, and {name} is a scalar", operand=position)
        if not type_.dtype.is_floating:
            raise TypeRuleError(
                f"{op} takes floating dtypes, and {name} is {type_.dtype.value}", hint="cast it first", operand=position
            )
        if tensors and type_.dtype is not tensors[0].dtype:
            raise TypeRuleError(
                f"{op} takes operands of one dtype: {names[0]} is {tensors[0].dtype.value} "
                f"but {name} is {type_.dtype.value}",
                hint="cast one of them",
                operand=position,
            )
        tensors.append(type_)
    return tensors


def _require_same_extent(op: str, left: str, first: Formula, right: str, second: Formula, *, operand: int) -> None:
    if first != second:
        raise TypeRuleError(
            f"{op}: the inner dim is {show(first)} in {left} and {show(second)} in {right}",
            hint=_SAME_EXTENT,
            operand=operand,
        )
