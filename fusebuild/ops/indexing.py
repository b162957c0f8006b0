"""Ops that move elements instead of computing them: ``permute``, ``slice``, ``pad``, ``cat``, ``take`` and their kin.

A permutation changes nothing but the order in which dims are named, so it is a view. ``slice``, ``pad``, ``reshape``,
``take`` and ``take_along_axis`` read elements from elsewhere than where the result's index says (:data:`Kind.INDEX`):
kernels do so while they load, from a tensor in memory. ``place`` is ``pad`` with nothing in particular around. ``cat``,
``index_select``, ``gather``, ``embedding``, ``triu`` and ``tril`` are written in those by the decompose pass.

Bounds of a slice are cut to the tensor, as in Python, and an index beyond the tensor reads its nearest element: no
input makes a kernel read outside of its tensors. A dim that an index reads from has elements: symbols that are such a
dim are 1 or more, checked at run time, and a computed size that turns out to be 0 gives zeros.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from fusebuild.errors import counted
from fusebuild.ir.formula import Formula, at_least_zero, difference, is_nonnegative, product, show, total
from fusebuild.ir.types import ScalarType, TensorType, ValueType, tensor_type
from fusebuild.ops.op_def import Attributes, Kind, OpDef, Parameter
from fusebuild.ops.type_rules import TypeRuleError, normalize_dims, promote, require_tensor

_Infer = Callable[[Sequence[ValueType], Attributes], TensorType]


def _moving(
    name: str,
    kind: Kind,
    parameters: Sequence[Parameter],
    infer: _Infer,
    reference: Callable[..., Any],
    example: str = "",
    **more: Any,
) -> OpDef:
    """An op that computes nothing: its operands keep their dtypes."""
    return OpDef(
        name=name,
        kind=kind,
        parameters=tuple(parameters),
        infer=lambda types, attributes: (infer(types, attributes),),
        operand_dtypes=lambda types, attributes: tuple(t.dtype for t in types),
        reference=reference,
        example=example,
        **more,
    )


def _expanded(tensor: TensorType, dims: Sequence[int]) -> list[int]:
    """The positions among ``dims`` of those along which ``tensor`` does not change."""
    return [position for position, dim in enumerate(dims) if tensor.contiguity[dim] is None]


def _permute(types: Sequence[ValueType], attributes: Attributes) -> TensorType:
    tensor = require_tensor("permute", types[0])
    order = permutation_of(attributes, tensor.rank)
    return tensor_type(tensor.dtype, [tensor.shape[dim] for dim in order], _expanded(tensor, order))


def permutation_of(attributes: Attributes, rank: int) -> tuple[int, ...]:
    """For each dim of the result of a ``permute`` the dim of its operand."""
    given = attributes["permutation"]
    assert isinstance(given, tuple)
    order = tuple(dim % rank if isinstance(dim, int) and -rank <= dim < rank else dim for dim in given)
    if sorted(order, key=str) != sorted(range(rank), key=str):
        shown = f"[{', '.join(map(str, given))}]"
        raise TypeRuleError(f"permute: {shown} is no order of the {rank} dims", hint="name each dim once")
    return order  # type: ignore[return-value]


def _formulas(attributes: Attributes, name: str) -> tuple[Formula, ...] | None:
    given = attributes.get(name)
    assert given is None or isinstance(given, tuple)
    return given  # type: ignore[return-value]


def slice_bounds(shape: Sequence[Formula], attributes: Attributes) -> list[tuple[Formula, Formula, int]]:
    """``(first, count, step)`` for each dim of the operand of a ``slice``, cut to its ``shape``."""
    starts, ends = _formulas(attributes, "start_indices"), _formulas(attributes, "end_indices")
    steps = _formulas(attributes, "strides")
    steps = (1,) * len(shape) if steps is None else steps
    assert starts is not None
    assert ends is not None
    for what, given in (("start_indices", starts), ("end_indices", ends), ("strides", steps)):
        if len(given) != len(shape):
            raise TypeRuleError(f"slice: {what} has {_entries(given)}, not one for each of the {len(shape)} dims")
    return [_slice_dim(*bounds) for bounds in zip(range(len(shape)), shape, starts, ends, steps, strict=True)]


def _entries(given: Sequence[Formula]) -> str:
    return "1 entry" if len(given) == 1 else f"{len(given)} entries"


def _slice_dim(dim: int, extent: Formula, start: Formula, end: Formula, step: Formula) -> tuple[Formula, Formula, int]:
    if not isinstance(step, int) or step < 1:
        raise TypeRuleError(f"slice: the stride of dim {dim} is {show(step)}", hint="strides are integers from 1 up")
    if isinstance(start, int) and isinstance(end, int) and start > end:
        raise TypeRuleError(f"slice: dim {dim} starts at {start} and ends at {end}, before it")
    first, last = _within(start, extent), _within(end, extent)
    length = difference(last, first)
    if not (last == extent or _rises(first, last)):
        length = at_least_zero(length)
    if step == 1:
        return first, length, 1
    return first, -(-length // step) if isinstance(length, int) else ("ceil_div", length, step), step


def _within(bound: Formula, extent: Formula) -> Formula:
    """``bound``, or the nearer of 0 and ``extent`` where it is beyond; nothing to compute where it is surely within."""
    if bound == extent or _divisor(bound, extent):
        return bound
    if isinstance(bound, int) and isinstance(extent, int):
        return max(0, min(bound, extent))
    below = bound if bound == 0 or is_nonnegative(difference(extent, bound)) else ("min", bound, extent)
    return at_least_zero(below)


def _divisor(part: Formula, whole: Formula) -> int:
    """``k`` where ``part`` is ``whole // k``; 0 for anything else."""
    if isinstance(part, tuple) and part[0] == "floor_div" and part[1] == whole and isinstance(part[2], int):
        return part[2]
    return 0


def _rises(first: Formula, last: Formula) -> bool:
    """Whether ``first <= last`` whatever the sizes are; neither is negative."""
    if first == 0 or first == last or _divisor(first, last):
        return True
    if isinstance(first, tuple) and first[0] == "floor_div":
        return 0 < _divisor(last, first[1]) <= _divisor(first, first[1])  # type: ignore[arg-type]
    return is_nonnegative(difference(last, first))


def _slice(types: Sequence[ValueType], attributes: Attributes) -> TensorType:
    tensor = require_tensor("slice", types[0])
    counts = [count for _, count, _ in slice_bounds(tensor.shape, attributes)]
    return tensor_type(tensor.dtype, counts, _expanded(tensor, range(tensor.rank)))


def pad_widths(rank: int, attributes: Attributes) -> list[tuple[Formula, Formula]]:
    """``(before, after)`` for each dim; ``pad_widths`` begins with the last dim, as torch and nvFuser have it."""
    widths = _formulas(attributes, "pad_widths") or ()
    if len(widths) % 2 or len(widths) > 2 * rank:
        raise TypeRuleError(
            f"pad: pad_widths has {_entries(widths)} for {rank} dims",
            hint="two for each padded dim, the last dim first",
        )
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    return [*[(0, 0)] * (rank - len(pairs)), *reversed(pairs)]


def _pad(types: Sequence[ValueType], attributes: Attributes) -> TensorType:
    tensor = require_tensor("pad", types[0])
    if len(types) > 1 and not isinstance(types[1], ScalarType):
        raise TypeRuleError("pad takes a scalar value", operand=1)
    widths = pad_widths(tensor.rank, attributes)
    if taken := [width for pair in widths for width in pair if isinstance(width, int) and width < 0]:
        raise TypeRuleError(f"pad: {taken[0]} is less than 0", hint="slice takes elements away")
    shape = [
        at_least_zero(total([before, extent, after]))
        for extent, (before, after) in zip(tensor.shape, widths, strict=True)
    ]
    still = [dim for dim in _expanded(tensor, range(tensor.rank)) if widths[dim] == (0, 0)]
    return tensor_type(tensor.dtype, shape, still)


def _cat(types: Sequence[ValueType], attributes: Attributes) -> TensorType:
    if not types:
        raise TypeRuleError("cat takes one tensor or more")
    tensors = [require_tensor("cat", t) for t in types]
    first = tensors[0]
    (dim,) = normalize_dims("cat", [_dim(attributes)], first.rank)
    for index, tensor in enumerate(tensors):
        own = [*tensor.shape[:dim], *tensor.shape[dim + 1 :]]
        if tensor.rank != first.rank or own != [*first.shape[:dim], *first.shape[dim + 1 :]]:
            raise TypeRuleError(f"cat: operands differ in more than dim {dim}", operand=index)
    shape = list(first.shape)
    shape[dim] = total([tensor.shape[dim] for tensor in tensors])
    dtypes = {tensor.dtype for tensor in tensors}
    return tensor_type(dtypes.pop() if len(dtypes) == 1 else promote(tensors), shape)


def _dim(attributes: Attributes) -> int:
    dim = attributes["dim"]
    assert isinstance(dim, int)
    return dim


def _index(name: str, types: Sequence[ValueType], dim: int | None = None) -> tuple[TensorType, TensorType, int]:
    """The tensor that is read, the one that says where, and the dim that it is about, counted from the front."""
    tensor, index = require_tensor(name, types[0]), types[1]
    if not isinstance(index, TensorType) or not index.dtype.is_integer:
        raise TypeRuleError(f"{name} takes a tensor of integers as index", operand=1)
    if tensor.rank == 0:
        raise TypeRuleError(f"{name} takes a tensor with dims", operand=0)
    (dim,) = normalize_dims(name, [0 if dim is None else dim], tensor.rank)
    if tensor.shape[dim] == 0:
        raise TypeRuleError(f"{name}: dim {dim} has no elements to read", operand=0)
    return tensor, index, dim


def _take(types: Sequence[ValueType], attributes: Attributes) -> TensorType:
    tensor, index, dim = _index("take", types, _dim(attributes))
    return tensor_type(tensor.dtype, (*tensor.shape[:dim], *index.shape, *tensor.shape[dim + 1 :]))


def _index_select(types: Sequence[ValueType], attributes: Attributes) -> TensorType:
    _, index, _ = _index("index_select", types, _dim(attributes))
    if index.rank != 1:
        raise TypeRuleError(
            f"index_select: the index has {counted(index.rank, 'dim')}, not 1", hint="take allows any", operand=1
        )
    return _take(types, attributes)


def _embedding(types: Sequence[ValueType], attributes: Attributes) -> TensorType:
    table, ids, _ = _index("embedding", types)
    if table.rank != 2:
        raise TypeRuleError(f"embedding: the table has {counted(table.rank, 'dim')}, not 2", operand=0)
    return tensor_type(table.dtype, (*ids.shape, table.shape[1]))


def _take_along_axis(name: str, types: Sequence[ValueType], attributes: Attributes) -> TensorType:
    tensor, index, dim = _index(name, types, _dim(attributes))
    if index.rank != tensor.rank:
        raise TypeRuleError(f"{name}: the index has {counted(index.rank, 'dim')}, not {tensor.rank}", operand=1)
    for other, (own, wanted) in enumerate(zip(tensor.shape, index.shape, strict=True)):
        if other != dim and own not in (1, wanted) and wanted != 1:
            raise TypeRuleError(
                f"{name}: dim {other} is {show(own)} in the tensor and {show(wanted)} in the index", operand=1
            )
    shape = [wanted if other == dim or own == 1 else own
             for other, (own, wanted) in enumerate(zip(tensor.shape, index.shape, strict=True))]  # fmt: skip
    return tensor_type(tensor.dtype, shape)


def _reshape(types: Sequence[ValueType], attributes: Attributes) -> TensorType:
    tensor = require_tensor("reshape", types[0])
    shape = _formulas(attributes, "shape")
    assert shape is not None
    if reshape_groups(tensor.shape, shape) is None:
        raise TypeRuleError(
            f"reshape: [{_shown(tensor.shape)}] cannot be seen to have as many elements as [{_shown(shape)}]",
            hint="each dim, or run of dims, must become one whose product is the same symbol, number or formula",
        )
    return tensor_type(tensor.dtype, shape)


def _shown(shape: Sequence[Formula]) -> str:
    return ", ".join(map(show, shape))


def reshape_groups(old: Sequence[Formula], new: Sequence[Formula]) -> list[tuple[range, range]] | None:
    """Runs of dims of ``old`` and ``new`` with equal products, the shortest ones, in order; None where there are
    none. Shapes without elements are one run each."""
    if product(old) == product(new) == 0:
        return [(range(len(old)), range(len(new)))]
    groups: list[tuple[range, range]] = []
    at_old = at_new = 0
    while at_old < len(old) or at_new < len(new):
        found = _shortest_group(old, new, at_old, at_new)
        if found is None:
            return None
        groups.append((range(at_old, found[0]), range(at_new, found[1])))
        at_old, at_new = found
    return groups


def _shortest_group(old: Sequence[Formula], new: Sequence[Formula], at_old: int, at_new: int) -> tuple[int, int] | None:
    ends = [(i, j) for i in range(at_old, len(old) + 1) for j in range(at_new, len(new) + 1)]
    for i, j in sorted(ends, key=lambda end: (end[0] + end[1], end)):
        if (i, j) != (at_old, at_new) and _sorted_product(old[at_old:i]) == _sorted_product(new[at_new:j]):
            return i, j
    return None


def reshaped_strides(
    strides: Sequence[Formula], old: Sequence[Formula], new: Sequence[Formula]
) -> tuple[Formula, ...] | None:
    """The strides of a tensor of shape ``old`` when it is seen as ``new``; None where no strides say it."""
    found: list[Formula] = []
    for old_run, new_run in reshape_groups(old, new) or ():
        inner = _one_stride([(old[dim], strides[dim]) for dim in old_run if old[dim] != 1])
        if inner is None:
            return None
        found += [product([inner, *new[dim + 1 : new_run.stop]]) for dim in new_run]
    return tuple(found)


def _one_stride(dims: Sequence[tuple[Formula, Formula]]) -> Formula | None:
    """The innermost stride of ``(extent, stride)`` dims that are walked as one; None where they cannot be."""
    if not dims:
        return 0
    running = inner = dims[-1][1]
    for extent, stride in reversed(dims):
        if stride != running:
            return None
        running = product([extent, stride])
    return inner


def _contiguous(types: Sequence[ValueType], attributes: Attributes) -> TensorType:
    tensor = require_tensor("contiguous", types[0])
    return tensor_type(tensor.dtype, tensor.shape)


def _sorted_product(extents: Sequence[Formula]) -> Formula:
    """The product with its factors in one order."""
    flat = product(extents)
    if not isinstance(flat, tuple) or flat[0] != "mul":
        return flat
    return product(sorted(flat[1:], key=repr))  # type: ignore[arg-type]


def _triangle(name: str) -> OpDef:
    def infer(types: Sequence[ValueType], attributes: Attributes) -> TensorType:
        tensor = require_tensor(name, types[0])
        if tensor.rank < 2:
            raise TypeRuleError(f"{name} takes a tensor with two dims or more", operand=0)
        return tensor_type(tensor.dtype, tensor.shape)

    return _moving(name, Kind.COMPOSITE, [_X, Parameter(name="diagonal", kind="int", default=0)], infer,
                   lambda torch, x, diagonal: getattr(torch, name)(x, diagonal), f"{name}(x: T[M, N])")  # fmt: skip


def _sliced(torch: Any, x: Any, **named: Any) -> Any:
    named["end_indices"] = tuple(map(max, named["start_indices"], named["end_indices"]))
    bounds: Any = slice_bounds(tuple(x.shape), named)
    return x[tuple(slice(first, first + count * step, step) for first, count, step in bounds)]


def _padded(torch: Any, x: Any, value: Any = None, **named: Any) -> Any:
    """``x`` amid ``value``, or amid NaN (1 where that is no float), so that who reads what ``place`` leaves open is
    found out."""
    filling = (math.nan if x.is_floating_point() else 1) if value is None else value.to(x.dtype)
    widths: Any = pad_widths(x.dim(), named)
    shape = [size + before + after for size, (before, after) in zip(x.shape, widths, strict=True)]
    padded = torch.empty(shape, dtype=x.dtype, device=x.device)
    padded[...] = filling
    padded[tuple(slice(before, before + size) for size, (before, _) in zip(x.shape, widths, strict=True))] = x
    return padded


def _inside(index: Any, size: int) -> Any:
    return index.long().clamp(0, max(size - 1, 0))


def _taken(torch: Any, x: Any, index: Any, dim: int = 0) -> Any:
    shape = [*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]]
    if x.shape[dim] == 0:
        return x.new_zeros(shape)
    return x.index_select(dim, _inside(index, x.shape[dim]).flatten()).reshape(shape)


def _taken_along(torch: Any, x: Any, index: Any, dim: int) -> Any:
    shape = [wanted if other == dim or own == 1 else own
             for other, (own, wanted) in enumerate(zip(x.shape, index.shape, strict=True))]  # fmt: skip
    if x.shape[dim] == 0:
        return x.new_zeros(shape)
    own = [size if other == dim else shape[other] for other, size in enumerate(x.shape)]
    return torch.gather(x.expand(own), dim, _inside(index, x.shape[dim]).expand(shape))


def _reading(name: str, kind: Kind, infer: _Infer, reference: Callable[..., Any], example: str) -> OpDef:
    """An op that is told which element of a dim it is: there has to be one."""
    return _moving(name, kind, [_X, _INDEX, _DIM], infer, reference, example, reads_part=True, picks=True)


_X, _INDEX, _DIM = Parameter(name="x"), Parameter(name="index"), Parameter(name="dim", kind="int")
_WIDTHS = Parameter(name="pad_widths", kind="shape")

INDEXING = (
    _moving("permute", Kind.VIEW, [_X, Parameter(name="permutation", kind="dims")], _permute,
            lambda torch, x, permutation: x.permute(permutation), "permute(x: T[M, N, K], [0, 2, 1])",
            copies=True, is_alias=True),
    _moving("slice", Kind.INDEX, [_X, Parameter(name="start_indices", kind="shape"),
                                  Parameter(name="end_indices", kind="shape"),
                                  Parameter(name="strides", kind="shape", default=None)], _slice, _sliced,
            "slice(x: T[M, N], [0, N // 2], [M, N])", copies=True, reads_part=True),
    _moving("pad", Kind.INDEX, [_X, _WIDTHS, Parameter(name="value", default=0)], _pad, _padded,
            "pad(x: T[M, N], [1, 2])"),
    _moving("place", Kind.INDEX, [_X, _WIDTHS], _pad, _padded, "place(x: T[M, N], [1, 2])"),
    _moving("cat", Kind.COMPOSITE, [Parameter(name="tensors", kind="values"), _DIM], _cat,
            lambda torch, *tensors, dim: torch.cat(tensors, dim), "cat([a: T[M, N], b: T[M, K]], dim=1)"),
    _moving("contiguous", Kind.POINTWISE, [_X], _contiguous, lambda torch, x: x.contiguous(), cuda="{0}",
            scalar=lambda dtype, x: x, copies=True, of_elements=False),
    _moving("reshape", Kind.INDEX, [_X, Parameter(name="shape", kind="shape")], _reshape,
            lambda torch, x, shape: x.reshape(shape), "reshape(x: T[M, N, 8], [M, 8 * N])", copies=True),
    _reading("take", Kind.INDEX, _take, _taken, "take(x: T[M, N], index: int64[K, 2], dim=1)"),
    _reading("index_select", Kind.COMPOSITE, _index_select, _taken, "index_select(x: T[M, N], index: int64[K], dim=1)"),
    _moving("embedding", Kind.COMPOSITE, [Parameter(name="table"), Parameter(name="ids")], _embedding, _taken,
            "embedding(table: T[V, N], ids: int64[M])", reads_part=True, picks=True),
    *(_reading(name, kind, partial(_take_along_axis, name), _taken_along,
               f"{name}(x: T[M, N], index: int64[M, K], dim=1)")
      for name, kind in (("take_along_axis", Kind.INDEX), ("gather", Kind.COMPOSITE))),
    _triangle("triu"),
    _triangle("tril"),
)  # fmt: skip
"""The ops of this module, for :data:`fusebuild.ops.table.OPS`."""
