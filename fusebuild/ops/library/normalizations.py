"""Normalizations and statistics: what is computed of a row, a group or a channel."""

from __future__ import annotations

from collections.abc import Sequence

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, product, show
from fusebuild.ops.library.composite import Dims, Operand, Ops, Shape, Term, library

_EPSILON = {DType.FLOAT: 2.0**-23, DType.DOUBLE: 2.0**-52}
"""The distance from 1 to the next number of each dtype that norms are computed in."""


@library("layer_norm(input: T[M, N], [N], weight: T[N], bias: T[N])")
def layer_norm(
    ops: Ops, input: Term, normalized_shape: Shape, weight: Term | None = None, bias: Term | None = None,
    eps: Operand = 1e-5,
) -> Term:  # fmt: skip
    """Deviations from the mean over the last dims over their standard deviation, times weight, plus bias."""
    x = ops.float_of(ops.tensor(input, "input"))
    return _scaled(_standardized(ops, x, _last_dims(ops, x, normalized_shape), eps), weight, bias)


@library("rms_norm(input: T[M, N], [N], weight: T[N])")
def rms_norm(
    ops: Ops, input: Term, normalized_shape: Shape, weight: Term | None = None, eps: Operand | None = None
) -> Term:
    """input over the root of the mean of its squares over the last dims, times weight."""
    x = ops.float_of(ops.tensor(input, "input"))
    dims = _last_dims(ops, x, normalized_shape)
    square = ops.mean(x * x, dims=dims, keepdim=True)
    return _scaled(x * ops.rsqrt(square + (_EPSILON[x.dtype] if eps is None else eps)), weight, None)


@library("group_norm(input: T[M, 8, N], 4, weight: T[8], bias: T[8])")
def group_norm(
    ops: Ops, input: Term, num_groups: int, weight: Term | None = None, bias: Term | None = None, eps: Operand = 1e-5
) -> Term:
    """layer_norm of each group of channels, which are dim 1."""
    x = ops.float_of(ops.tensor(input, "input"))
    if x.rank < 2:
        raise ops.refuse(f"input has {x.rank} dims, not two or more")
    channels = x.shape[1]
    if num_groups < 1 or not isinstance(channels, int) or channels % num_groups:
        hint = "" if isinstance(channels, int) else "write the channels as a number in the shape of input"
        raise ops.refuse(f"dim 1 cannot be seen to have {num_groups} groups", hint)
    parts = ops.reshape(x, shape=(x.shape[0], num_groups, channels // num_groups, *x.shape[2:]))
    normal = ops.reshape(_standardized(ops, parts, tuple(range(2, parts.rank)), eps), shape=x.shape)
    return _scaled(normal, *(each and _of_channels(ops, each, x.rank) for each in (weight, bias)))


@library("instance_norm(input: T[M, 8, N], weight: T[8], bias: T[8])")
def instance_norm(
    ops: Ops, input: Term, running_mean: Term | None = None, running_var: Term | None = None,
    weight: Term | None = None, bias: Term | None = None, use_input_stats: bool = True, momentum: Operand = 0.1,
    eps: Operand = 1e-5,
) -> Term:  # fmt: skip
    """layer_norm of each channel of each sample; running statistics are read, and never written."""
    x = ops.float_of(ops.tensor(input, "input"))
    if x.rank < 3:
        raise ops.refuse(f"input has {x.rank} dims, not three or more")
    if use_input_stats:
        normal = _standardized(ops, x, tuple(range(2, x.rank)), eps)
    elif running_mean is None or running_var is None:
        raise ops.refuse("without use_input_stats, running_mean and running_var have to be given")
    else:
        mean, var = (_of_channels(ops, each, x.rank) for each in (running_mean, running_var))
        normal = (x - mean) * ops.rsqrt(var + eps)
    return _scaled(normal, *(each and _of_channels(ops, each, x.rank) for each in (weight, bias)))


@library("normalize(input: T[M, N])")
def normalize(ops: Ops, input: Term, p: int = 2, dim: Dims = (1,), eps: Operand = 1e-12) -> Term:
    """input over its norm along dim, or over eps where that is larger; p is 1 or 2."""
    x = ops.float_of(ops.tensor(input, "input"))
    dims = ops.dims(x, dim)
    if p not in (1, 2):
        raise ops.refuse(f"p is {p}, not 1 or 2")
    if p == 1:
        length = ops.sum(ops.abs(x), dims=dims, keepdim=True)
    else:
        length = ops.sqrt(ops.sum(x * x, dims=dims, keepdim=True))
    return x / ops.maximum(length, eps)


@library("cosine_similarity(x1: T[M, N], x2: T[M, N])")
def cosine_similarity(ops: Ops, x1: Term, x2: Term, dim: int = 1, eps: Operand = 1e-8) -> Term:
    """The product of x1 and x2 along dim, each over its length, or over eps where that is larger."""
    a, b = ops.float_of(ops.tensor(x1, "x1")), ops.float_of(ops.tensor(x2, "x2"))
    lengths = [ops.maximum(ops.sqrt(ops.sum(each * each, dims=(dim,))), eps) for each in (a, b)]
    return ops.sum(a * b, dims=(dim,)) / (lengths[0] * lengths[1])


@library("std(input: T[M, N], dim=[1])")
def std(ops: Ops, input: Term, dim: Dims | None = None, correction: int = 1, keepdim: bool = False) -> Term:
    """The root of var."""
    return ops.sqrt(ops.var(ops.tensor(input, "input"), dims=dim, correction=correction, keepdim=keepdim))


@library("std_mean(input: T[M, N], dim=[1])", results=2)
def std_mean(
    ops: Ops, input: Term, dim: Dims | None = None, correction: int = 1, keepdim: bool = False
) -> tuple[Term, Term]:
    """The root of var, and the mean."""
    var, mean = ops.results("var_mean", ops.tensor(input, "input"), dims=dim, correction=correction, keepdim=keepdim)
    return ops.sqrt(var), mean


@library("amax(input: T[M, N], dim=[1])")
def amax(ops: Ops, input: Term, dim: Dims | None = None, keepdim: bool = False) -> Term:
    """max over dims."""
    return ops.max(ops.tensor(input, "input"), dims=dim, keepdim=keepdim)


@library("amin(input: T[M, N], dim=[1])")
def amin(ops: Ops, input: Term, dim: Dims | None = None, keepdim: bool = False) -> Term:
    """min over dims."""
    return ops.min(ops.tensor(input, "input"), dims=dim, keepdim=keepdim)


def _standardized(ops: Ops, x: Term, dims: Sequence[int], eps: Operand) -> Term:
    var, mean = ops.results("var_mean", x, dims=tuple(dims), correction=0, keepdim=True)
    return (x - mean) * ops.rsqrt(var + eps)


def _scaled(x: Term, weight: Term | None, bias: Term | None) -> Term:
    scaled = x if weight is None else x * weight
    return scaled if bias is None else scaled + bias


def _of_channels(ops: Ops, term: Term, rank: int) -> Term:
    """``term``, which has an element for each channel, beside a tensor of ``rank`` dims whose dim 1 they are."""
    return ops.broadcast(term, is_broadcast_dim=(False, *[True] * (rank - 2)))


def _last_dims(ops: Ops, x: Term, shape: Sequence[Formula]) -> tuple[int, ...]:
    """The dims of ``x`` that ``shape`` are the sizes of."""
    first = x.rank - len(shape)
    if not shape or first < 0 or any(product([a]) != product([b]) for a, b in zip(x.shape[first:], shape, strict=True)):
        given, own = (", ".join(map(show, each)) for each in (shape, x.shape))
        raise ops.refuse(f"normalized_shape is [{given}], and input is [{own}]", "it names the last dims of input")
    return tuple(range(first, x.rank))
