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
from fusebuild.ir.algebra import NO_FACTS, Algebra
from fusebuild.ir.formula import Formula, product, show, total
from fusebuild.ir.types import ScalarType, TensorType, tensor_type
from fusebuild.ops.op_def import Attributes, Infer, Kind, OpDef, Types, define, define_sized
from fusebuild.ops.type_rules import TypeRuleError, normalize_dims, promote, require_tensor


def _expanded(tensor: TensorType, dims: Sequence[int]) -> list[int]:
    """The positions among ``dims`` of those along which ``tensor`` does not change."""
    return [position for position, dim in enumerate(dims) if tensor.contiguity[dim] is None]


def _permute(types: Types, attributes: Attributes) -> TensorType:
    tensor = require_tensor("permute", types[0])
    order = permutation_of(attributes, tensor.rank)
    return tensor_type(tensor.dtype, [tensor.shape[dim] for dim in order], _expanded(tensor, order))


def permutation_of(attributes: Attributes, rank: int) -> tuple[int, ...]:
    """For each dim of the result of a ``permute`` the dim of its operand."""
    given = attributes["permutation"]
    order = tuple(dim % rank if isinstance(dim, int) and -rank <= dim < rank else dim for dim in given)
    if sorted(order, key=str) != sorted(range(rank), key=str):
        shown = f"[{', '.join(map(str, given))}]"
        raise TypeRuleError(f"permute: {shown} is no order of the {rank} dims", hint="name each dim once")
    return order


def slice_bounds(
    shape: Sequence[Formula], attributes: Attributes, algebra: Algebra = NO_FACTS
) -> list[tuple[Formula, Formula, int]]:
    """``(first, count, step)`` for each dim of the operand of a ``slice``, cut to its ``shape``. What ``algebra`` shows
    to lie within is not compared."""
    starts, ends, steps = attributes["start_indices"], attributes["end_indices"], attributes.get("strides")
    steps = (1,) * len(shape) if steps is None else steps
    for what, given in (("start_indices", starts), ("end_indices", ends), ("strides", steps)):
        if len(given) != len(shape):
            raise TypeRuleError(f"slice: {what} has {_entries(given)}, not one for each of the {len(shape)} dims")
    return [_slice_dim(algebra, *bounds) for bounds in zip(range(len(shape)), shape, starts, ends, steps, strict=True)]


def _entries(given: Sequence[Formula]) -> str:
    return "1 entry" if len(given) == 1 else f"{len(given)} entries"


def _slice_dim(
    algebra: Algebra, dim: int, extent: Formula, start: Formula, end: Formula, step: Formula
) -> tuple[Formula, Formula, int]:
    if not isinstance(step, int) or step < 1:
        raise TypeRuleError(f"slice: the stride of dim {dim} is {show(step)}", hint="strides are integers from 1 up")
    if isinstance(start, int) and isinstance(end, int) and start > end:
        raise TypeRuleError(f"slice: dim {dim} starts at {start} and ends at {end}, before it")
    first, last = (algebra.canonical(("min", ("max", bound, 0), extent)) for bound in (start, end))
    length = algebra.at_least_zero(algebra.difference(last, first))
    return first, algebra.canonical(("ceil_div", length, step)), step


def _slice(types: Types, attributes: Attributes, algebra: Algebra) -> TensorType:
    tensor = require_tensor("slice", types[0])
    counts = [count for _, count, _ in slice_bounds(tensor.shape, attributes, algebra)]
    return tensor_type(tensor.dtype, counts, _expanded(tensor, range(tensor.rank)))


def pad_widths(rank: int, attributes: Attributes) -> list[tuple[Formula, Formula]]:
    """``(before, after)`` for each dim; ``pad_widths`` begins with the last dim, as torch and nvFuser have it."""
    widths = attributes["pad_widths"]
    if len(widths) % 2 or len(widths) > 2 * rank:
        raise TypeRuleError(
            f"pad: pad_widths has {_entries(widths)} for {rank} dims",
            hint="two for each padded dim, the last dim first",
        )
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    return [*[(0, 0)] * (rank - len(pairs)), *reversed(pairs)]


def _pad(types: Types, attributes: Attributes, algebra: Algebra) -> TensorType:
    tensor = require_tensor("pad", types[0])
    if len(types) > 1 and not isinstance(types[1], ScalarType):
        raise TypeRuleError("pad takes a scalar value", operand=1)
    widths = pad_widths(tensor.rank, attributes)
    if taken := [width for pair in widths for width in pair if isinstance(width, int) and width < 0]:
        raise TypeRuleError(f"pad: {taken[0]} is less than 0", hint="slice takes elements away")
    shape = [
        algebra.at_least_zero(total([before, extent, after]))
        for extent, (before, after) in zip(tensor.shape, widths, strict=True)
    ]
    still = [dim for dim in _expanded(tensor, range(tensor.rank)) if widths[dim] == (0, 0)]
    return tensor_type(tensor.dtype, shape, still)


def _cat(types: Types, attributes: Attributes) -> TensorType:
    if not types:
        raise TypeRuleError("cat takes one tensor or more")
    tensors = [require_tensor("cat", t) for t in types]
    first = tensors[0]
    (dim,) = normalize_dims("cat", [attributes["dim"]], first.rank)
    for index, tensor in enumerate(tensors):
        own = [*tensor.shape[:dim], *tensor.shape[dim + 1 :]]
        if tensor.rank != first.rank or own != [*first.shape[:dim], *first.shape[dim + 1 :]]:
            raise TypeRuleError(f"cat: operands differ in more than dim {dim}", operand=index)
    shape = list(first.shape)
    shape[dim] = total([tensor.shape[dim] for tensor in tensors])
    dtypes = {tensor.dtype for tensor in tensors}
    return tensor_type(dtypes.pop() if len(dtypes) == 1 else promote(tensors), shape)


def _index(name: str, types: Types, dim: int | None = None) -> tuple[TensorType, TensorType, int]:
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


def _take(types: Types, attributes: Attributes) -> TensorType:
    tensor, index, dim = _index("take", types, attributes["dim"])
    return tensor_type(tensor.dtype, (*tensor.shape[:dim], *index.shape, *tensor.shape[dim + 1 :]))


def _index_select(types: Types, attributes: Attributes) -> TensorType:
    _, index, _ = _index("index_select", types, attributes["dim"])
    if index.rank != 1:
        raise TypeRuleError(
            f"index_select: the index has {counted(index.rank, 'dim')}, not 1", hint="take allows any", operand=1
        )
    return _take(types, attributes)


def _embedding(types: Types, attributes: Attributes) -> TensorType:
    table, ids, _ = _index("embedding", types)
    if table.rank != 2:
        raise TypeRuleError(f"embedding: the table has {counted(table.rank, 'dim')}, not 2", operand=0)
    return tensor_type(table.dtype, (*ids.shape, table.shape[1]))


def _take_along_axis(name: str, types: Types, attributes: Attributes) -> TensorType:
    tensor, index, dim = _index(name, types, attributes["dim"])
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


def _reshape(types: Types, attributes: Attributes, algebra: Algebra) -> TensorType:
    tensor, shape = require_tensor("reshape", types[0]), attributes["shape"]
    if reshape_groups(tensor.shape, shape, algebra) is None:
        raise TypeRuleError(
            f"reshape: [{_shown(tensor.shape)}] cannot be seen to have as many elements as [{_shown(shape)}]",
            hint="each dim, or run of dims, must become one whose product is the same symbol, number or formula",
        )
    return tensor_type(tensor.dtype, shape)


def _shown(shape: Sequence[Formula]) -> str:
    return ", ".join(map(show, shape))


def reshape_groups(
    old: Sequence[Formula], new: Sequence[Formula], algebra: Algebra = NO_FACTS
) -> list[tuple[range, range]] | None:
    """Runs of dims of ``old`` and ``new`` with equal products, the shortest ones, in order; None where there are
    none. Shapes without elements are one run each."""
    if algebra.product(old) == algebra.product(new) == 0:
        return [(range(len(old)), range(len(new)))]
    groups: list[tuple[range, range]] = []
    at_old = at_new = 0
    while at_old < len(old) or at_new < len(new):
        found = _shortest_group(algebra, old[at_old:], new[at_new:])
        if found is None:
            return None
        end_old, end_new = at_old + found[0], at_new + found[1]
        groups.append((range(at_old, end_old), range(at_new, end_new)))
        at_old, at_new = end_old, end_new
    return groups


def _shortest_group(algebra: Algebra, old: Sequence[Formula], new: Sequence[Formula]) -> tuple[int, int] | None:
    """How many dims of ``old`` and ``new`` from the first on have equal products, the fewest; None where none have."""
    left, right = ([algebra.product(dims[:count]) for count in range(len(dims) + 1)] for dims in (old, new))
    counts = [(i, j) for i in range(len(left)) for j in range(len(right)) if i or j]
    counts.sort(key=lambda count: (sum(count), count))
    return next(((i, j) for i, j in counts if left[i] == right[j]), None)


def reshaped_strides(
    strides: Sequence[Formula], old: Sequence[Formula], new: Sequence[Formula], algebra: Algebra = NO_FACTS
) -> tuple[Formula, ...] | None:
    """The strides of a tensor of shape ``old`` when it is seen as ``new``; None where no strides say it. Where there is
    no element any strides do."""
    if 0 in old:
        return tuple(product([extent or 1 for extent in new[dim + 1 :]]) for dim in range(len(new)))
    found: list[Formula] = []
    for old_run, new_run in reshape_groups(old, new, algebra) or ():
        inner = _one_stride(algebra, [(old[dim], strides[dim]) for dim in old_run if old[dim] != 1])
        if inner is None:
            return None
        found += [product([inner, *new[dim + 1 : new_run.stop]]) for dim in new_run]
    return tuple(found)


def _one_stride(algebra: Algebra, dims: Sequence[tuple[Formula, Formula]]) -> Formula | None:
    """The innermost stride of ``(extent, stride)`` dims that are walked as one; None where they cannot be."""
    if not dims:
        return 0
    running = inner = dims[-1][1]
    for extent, stride in reversed(dims):
        if not algebra.equal(stride, running):
            return None
        running = product([extent, stride])
    return inner


def _contiguous(types: Types, attributes: Attributes) -> TensorType:
    tensor = require_tensor("contiguous", types[0])
    return tensor_type(tensor.dtype, tensor.shape)


def _triangle(name: str) -> OpDef:
    def infer(types: Types, attributes: Attributes) -> TensorType:
        tensor = require_tensor(name, types[0])
        if tensor.rank < 2:
            raise TypeRuleError(f"{name} takes a tensor with two dims or more", operand=0)
        return tensor_type(tensor.dtype, tensor.shape)

    def reference(torch: Any, x: Any, diagonal: int) -> Any:
        return getattr(torch, name)(x, diagonal)

    return define(f"{name}(x, diagonal: int = 0)", Kind.COMPOSITE, infer, reference, example=f"{name}(x: T[M, N])")


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


def _reading(name: str, kind: Kind, infer: Infer, reference: Callable[..., Any], example: str) -> OpDef:
    """An op that is told which element of a dim it is: there has to be one."""
    return define(f"{name}(x, index, dim: int)", kind, infer, reference, example=f"{name}{example}", reads_part=True,
                  picks=True)  # fmt: skip


INDEXING = (
    define("permute(x, permutation: dims)", Kind.VIEW, _permute, lambda torch, x, permutation: x.permute(permutation),
           example="permute(x: T[M, N, K], [0, 2, 1])", copies=True, is_alias=True),
    define_sized("slice(x, start_indices: shape, end_indices: shape, strides: shape = None)", Kind.INDEX, _slice,
                 _sliced, example="slice(x: T[M, N], [0, N // 2], [M, N])", copies=True, reads_part=True),
    define_sized("pad(x, pad_widths: shape, value = 0)", Kind.INDEX, _pad, _padded, example="pad(x: T[M, N], [1, 2])"),
    define_sized("place(x, pad_widths: shape)", Kind.INDEX, _pad, _padded, example="place(x: T[M, N], [1, 2])"),
    define("cat(tensors: values, dim: int)", Kind.COMPOSITE, _cat,
           lambda torch, *tensors, dim: torch.cat(tensors, dim), example="cat([a: T[M, N], b: T[M, K]], dim=1)"),
    define("contiguous(x)", Kind.POINTWISE, _contiguous, lambda torch, x: x.contiguous(), cuda="{0}",
           scalar=lambda dtype, x: x, copies=True, of_elements=False),
    define_sized("reshape(x, shape: shape)", Kind.INDEX, _reshape, lambda torch, x, shape: x.reshape(shape),
           example="reshape(x: T[M, N, 8], [M, 8 * N])", copies=True),
    _reading("take", Kind.INDEX, _take, _taken, "(x: T[M, N], index: int64[K, 2], dim=1)"),
    _reading("index_select", Kind.COMPOSITE, _index_select, _taken, "(x: T[M, N], index: int64[K], dim=1)"),
    define("embedding(table, ids)", Kind.COMPOSITE, _embedding, _taken,
           example="embedding(table: T[V, N], ids: int64[M])", reads_part=True, picks=True),
    *(_reading(name, kind, partial(_take_along_axis, name), _taken_along, "(x: T[M, N], index: int64[M, K], dim=1)")
      for name, kind in (("take_along_axis", Kind.INDEX), ("gather", Kind.COMPOSITE))),
    _triangle("triu"),
    _triangle("tril"),
)  # fmt: skip
"""The ops of this module, for :data:`fusebuild.ops.table.OPS`."""
