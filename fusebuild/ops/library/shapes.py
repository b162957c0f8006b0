"""What moves elements or gives them other dims, and arithmetic that torch has a name for."""

from __future__ import annotations

from collections.abc import Sequence

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, product, total
from fusebuild.ops.library.composite import Dims, Operand, Ops, Shape, Term, library
from fusebuild.ops.type_rules import normalize_dims


@library("unsqueeze(input: T[M, N], dim=1)")
def unsqueeze(ops: Ops, input: Term, dim: int) -> Term:
    """A new dim of size 1 at dim of the result."""
    rank = ops.tensor(input, "input").rank + 1
    (place,) = normalize_dims("unsqueeze", [dim], rank)
    return ops.broadcast(input, is_broadcast_dim=tuple(each == place for each in range(rank)))


@library("flatten(input: T[M, 4, 8], start_dim=1)")
def flatten(ops: Ops, input: Term, start_dim: int = 0, end_dim: int = -1) -> Term:
    """The dims from start_dim to end_dim as one."""
    if not ops.tensor(input, "input").rank:
        return ops.broadcast(input, is_broadcast_dim=(True,))
    (first,), (last,) = ops.dims(input, [start_dim]), ops.dims(input, [end_dim])
    if first > last:
        raise ops.refuse(f"start_dim {start_dim} comes after end_dim {end_dim}")
    shape = input.shape
    return ops.reshape(input, shape=(*shape[:first], product(shape[first : last + 1]), *shape[last + 1 :]))


@library("view(input: T[M, 32], shape=[M, 4, 8])")
def view(ops: Ops, input: Term, shape: Shape) -> Term:
    """reshape."""
    return ops.reshape(ops.tensor(input, "input"), shape=tuple(shape))


@library("transpose(input: T[M, N], dim0=0, dim1=1)")
def transpose(ops: Ops, input: Term, dim0: int, dim1: int) -> Term:
    """dim0 and dim1 in each other's place."""
    rank = ops.tensor(input, "input").rank
    (a,), (b,) = ops.dims(input, [dim0]), ops.dims(input, [dim1])
    order = [b if dim == a else a if dim == b else dim for dim in range(rank)]
    return ops.permute(input, permutation=tuple(order))


@library("chunk(input: T[M, 32], chunks=2, dim=1)", results=2)
def chunk(ops: Ops, input: Term, chunks: int, dim: int = 0) -> Sequence[Term]:
    """As many results, each the next part of dim; the last are shorter or empty where chunks does not divide it."""
    (place,) = ops.dims(ops.tensor(input, "input"), [dim])
    if not 1 <= chunks <= 1000:
        raise ops.refuse(f"chunks is {chunks}, not 1 to 1000")
    extent = input.shape[place]
    above = total([extent, chunks - 1])
    length: Formula = above // chunks if isinstance(above, int) else ("floor_div", above, chunks)
    bounds = [product([length, number]) for number in range(chunks)]
    return [_part(ops, input, place, low, high) for low, high in zip(bounds, [*bounds[1:], extent], strict=True)]


@library("narrow(input: T[M, 32], dim=1, start=4, length=8)")
def narrow(ops: Ops, input: Term, dim: int, start: Formula, length: Formula) -> Term:
    """length elements of dim from start on."""
    (place,) = ops.dims(ops.tensor(input, "input"), [dim])
    return _part(ops, input, place, start, total([start, length]))


@library("stack([input: T[M, N], other: T[M, N]])")
def stack(ops: Ops, tensors: Sequence[Term], dim: int = 0) -> Term:
    """tensors along a new dim, at dim of the result."""
    rank = ops.tensor(tensors[0], "tensors").rank + 1
    (place,) = normalize_dims("stack", [dim], rank)
    return ops.cat([unsqueeze(ops, each, place) for each in tensors], dim=place)


@library("flip(input: T[M, N], dims=[1])")
def flip(ops: Ops, input: Term, dims: Dims) -> Term:
    """The elements of dims in the opposite order."""
    for dim in ops.dims(ops.tensor(input, "input"), dims):
        backwards = ops.iota(ops.size(extent=input.shape[dim]) - 1, -1, length=input.shape[dim])
        input = ops.take(input, backwards, dim=dim)
    return input


@library("roll(input: T[M, N], shifts=[3], dims=[1])")
def roll(ops: Ops, input: Term, shifts: Dims, dims: Dims) -> Term:
    """The elements of each of dims shifts places on; those that leave at the end come in at the start."""
    if len(shifts) != len(dims):
        raise ops.refuse(f"{len(shifts)} shifts for {len(dims)} dims")
    for shift, dim in zip(shifts, ops.dims(ops.tensor(input, "input"), dims), strict=True):
        size = ops.size(extent=input.shape[dim])
        input = ops.take(input, ops.remainder(ops.iota(-shift, 1, length=input.shape[dim]), size), dim=dim)
    return input


@library("masked_fill(input: T[M, N], mask: bool[M, N], value=0)")
def masked_fill(ops: Ops, input: Term, mask: Term, value: Operand) -> Term:
    """value where mask is true, else input."""
    return ops.where(mask, value, input)


@library("one_hot(tensor: int64[M], num_classes=8)")
def one_hot(ops: Ops, tensor: Term, num_classes: Formula) -> Term:
    """A new last dim of num_classes, with 1 at the place that tensor names and 0 elsewhere."""
    places = ops.iota(0, 1, length=num_classes)
    return ops.cast(unsqueeze(ops, ops.tensor(tensor, "tensor"), -1).equals(places), dtype=DType.INT64)


@library("addcdiv(input: T[M, N], tensor1: T[M, N], tensor2: T[M, N])")
def addcdiv(ops: Ops, input: Term, tensor1: Term, tensor2: Term, value: Operand = 1) -> Term:
    """input + value * tensor1 / tensor2."""
    return input + value * ops.float_of(tensor1) / tensor2


@library("square(input: T[M, N])")
def square(ops: Ops, input: Term) -> Term:
    """input * input."""
    return input * input


@library("clamp_min(input: T[M, N], min=0)")
def clamp_min(ops: Ops, input: Term, min: Operand) -> Term:
    """maximum(input, min)."""
    return ops.maximum(input, min)


@library("clamp_max(input: T[M, N], max=0)")
def clamp_max(ops: Ops, input: Term, max: Operand) -> Term:
    """minimum(input, max)."""
    return ops.minimum(input, max)


@library("logaddexp(input: T[M, N], other: T[M, N])")
def logaddexp(ops: Ops, input: Term, other: Term) -> Term:
    """log(exp(input) + exp(other)), of the larger one and what the other adds to it."""
    a, b = ops.float_of(input), ops.float_of(other)
    apart = ops.where(a.equals(b), 0.0, ops.abs(a - b))
    return ops.maximum(a, b) + ops.log1p(ops.exp(-apart))


def _part(ops: Ops, x: Term, dim: int, low: Formula, high: Formula) -> Term:
    starts = [low if each == dim else 0 for each in range(x.rank)]
    ends = [high if each == dim else extent for each, extent in enumerate(x.shape)]
    return ops.slice(x, start_indices=tuple(starts), end_indices=tuple(ends))
