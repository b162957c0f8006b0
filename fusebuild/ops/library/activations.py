"""Activations: each element of the result from the elements at its place, but for softmax and its like."""

from __future__ import annotations

import math

from fusebuild.ir.dtype import DType
from fusebuild.ops.library.composite import Operand, Ops, Term, library
from fusebuild.ops.library.shapes import chunk


@library("gelu(input: T[M, N], approximate='tanh')")
def gelu(ops: Ops, input: Term, approximate: str = "none") -> Term:
    """Gaussian error linear unit: input times the normal distribution function, or its approximation by tanh."""
    x = ops.float_of(input)
    if ops.one_of("approximate", approximate, "none", "tanh") == "none":
        return 0.5 * x * (1.0 + ops.erf(x * math.sqrt(0.5)))
    return 0.5 * x * (1.0 + ops.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))


@library("softplus(input: T[M, N])")
def softplus(ops: Ops, input: Term, beta: Operand = 1.0, threshold: Operand = 20.0) -> Term:
    """log(1 + exp(beta * input)) / beta, and input itself where beta * input is above threshold."""
    x = ops.float_of(input)
    scaled = x if beta == 1.0 else x * beta
    soft = ops.log1p(ops.exp(ops.minimum(scaled, threshold)))
    return ops.where(scaled > threshold, x, soft if beta == 1.0 else soft / beta)


@library("mish(input: T[M, N])")
def mish(ops: Ops, input: Term) -> Term:
    """input * tanh(softplus(input))."""
    x = ops.float_of(input)
    return x * ops.tanh(softplus(ops, x))


@library("elu(input: T[M, N])")
def elu(ops: Ops, input: Term, alpha: Operand = 1.0) -> Term:
    """input where it is above 0, else alpha * (exp(input) - 1)."""
    x = ops.float_of(input)
    return ops.where(x > 0.0, x, alpha * ops.expm1(ops.minimum(x, 0.0)))


@library("celu(input: T[M, N])")
def celu(ops: Ops, input: Term, alpha: Operand = 1.0) -> Term:
    """input where it is above 0, else alpha * (exp(input / alpha) - 1)."""
    x = ops.float_of(input)
    return ops.where(x > 0.0, x, alpha * ops.expm1(ops.minimum(x, 0.0) / alpha))


@library("selu(input: T[M, N])")
def selu(ops: Ops, input: Term) -> Term:
    """elu with the scale and alpha that keep mean and variance (Klambauer et al., 2017)."""
    return 1.0507009873554804934193349852946 * elu(ops, input, 1.6732632423543772848170429916717)


@library("relu6(input: T[M, N])")
def relu6(ops: Ops, input: Term) -> Term:
    """input cut to 0 and 6."""
    return ops.clamp(input, 0, 6)


@library("hardtanh(input: T[M, N])")
def hardtanh(ops: Ops, input: Term, min_val: Operand = -1.0, max_val: Operand = 1.0) -> Term:
    """input cut to min_val and max_val."""
    return ops.clamp(input, min_val, max_val)


@library("hardsigmoid(input: T[M, N])")
def hardsigmoid(ops: Ops, input: Term) -> Term:
    """relu6(input + 3) / 6."""
    return relu6(ops, ops.float_of(input) + 3.0) / 6.0


@library("hardswish(input: T[M, N])")
def hardswish(ops: Ops, input: Term) -> Term:
    """input * relu6(input + 3) / 6."""
    x = ops.float_of(input)
    return x * relu6(ops, x + 3.0) / 6.0


@library("leaky_relu(input: T[M, N])")
def leaky_relu(ops: Ops, input: Term, negative_slope: Operand = 0.01) -> Term:
    """input where it is above 0, else negative_slope * input."""
    x = ops.float_of(input)
    return ops.where(x > 0.0, x, x * negative_slope)


@library("prelu(input: T[M, N], weight: T[N])")
def prelu(ops: Ops, input: Term, weight: Term) -> Term:
    """leaky_relu whose slope is weight: of one element, or of one for each element of dim 1."""
    x = ops.float_of(input)
    if weight.rank == 1 and x.rank > 2 and weight.shape != (1,):
        weight = ops.broadcast(weight, is_broadcast_dim=(False, *[True] * (x.rank - 2)))
    return ops.where(x > 0.0, x, x * weight)


@library("logsigmoid(input: T[M, N])")
def logsigmoid(ops: Ops, input: Term) -> Term:
    """log(sigmoid(input)) as min(input, 0) - log1p(exp(-abs(input)))."""
    x = ops.float_of(input)
    return ops.minimum(x, 0.0) - ops.log1p(ops.exp(-ops.abs(x)))


@library("softsign(input: T[M, N])")
def softsign(ops: Ops, input: Term) -> Term:
    """input / (1 + abs(input))."""
    x = ops.float_of(input)
    return x / (1.0 + ops.abs(x))


@library("tanhshrink(input: T[M, N])")
def tanhshrink(ops: Ops, input: Term) -> Term:
    """input - tanh(input)."""
    x = ops.float_of(input)
    return x - ops.tanh(x)


@library("softshrink(input: T[M, N])")
def softshrink(ops: Ops, input: Term, lambd: Operand = 0.5) -> Term:
    """input moved towards 0 by lambd, and 0 where it is nearer."""
    x = ops.float_of(input)
    return ops.where(x > lambd, x - lambd, ops.where(x < -1.0 * lambd, x + lambd, x * 0.0))


@library("hardshrink(input: T[M, N])")
def hardshrink(ops: Ops, input: Term, lambd: Operand = 0.5) -> Term:
    """input, and 0 where abs(input) is at most lambd."""
    x = ops.float_of(input)
    return ops.where(ops.abs(x) <= lambd, 0.0, x)


@library("glu(input: T[M, 8])")
def glu(ops: Ops, input: Term, dim: int = -1) -> Term:
    """Gated linear unit: the first half of dim times the sigmoid of the second."""
    a, b = chunk(ops, ops.tensor(input, "input"), 2, dim)
    return ops.float_of(a) * ops.sigmoid(b)


@library("swiglu(gate: T[M, N], up: T[M, N])")
def swiglu(ops: Ops, gate: Term, up: Term) -> Term:
    """silu(gate) * up (Shazeer, "GLU variants improve transformer", 2020)."""
    return ops.silu(gate) * up


@library("geglu(gate: T[M, N], up: T[M, N])")
def geglu(ops: Ops, gate: Term, up: Term, approximate: str = "none") -> Term:
    """gelu(gate) * up (Shazeer, "GLU variants improve transformer", 2020)."""
    return gelu(ops, gate, approximate) * up


@library("softmax(input: T[M, N], dim=1)")
def softmax(ops: Ops, input: Term, dim: int, dtype: DType | None = None) -> Term:
    """exp(input - maximum) over its sum along dim."""
    x = ops.float_of(ops.tensor(input, "input"), dtype)
    if not _is_row(ops, x, dim):
        largest, total = _statistics(ops, x, dim)
        return ops.exp(x - largest) / total
    raised = ops.exp(x - ops.max(x, dims=(dim,), keepdim=True))
    return raised / ops.sum(raised, dims=(dim,), keepdim=True)


@library("softmin(input: T[M, N], dim=1)")
def softmin(ops: Ops, input: Term, dim: int, dtype: DType | None = None) -> Term:
    """softmax(-input)."""
    return softmax(ops, -ops.float_of(ops.tensor(input, "input"), dtype), dim)


@library("log_softmax(input: T[M, N], dim=1)")
def log_softmax(ops: Ops, input: Term, dim: int, dtype: DType | None = None) -> Term:
    """The logarithm of softmax, as what is left of input - maximum less the logarithm of the sum."""
    x = ops.float_of(ops.tensor(input, "input"), dtype)
    if not _is_row(ops, x, dim):
        largest, total = _statistics(ops, x, dim)
        return x - largest - ops.log(total)
    shifted = x - ops.max(x, dims=(dim,), keepdim=True)
    return shifted - ops.log(ops.sum(ops.exp(shifted), dims=(dim,), keepdim=True))


def _is_row(ops: Ops, x: Term, dim: int) -> bool:
    """Whether ``dim`` of ``x`` is the last of several: kernels keep such rows on chip and read them twice."""
    return ops.dims(x, [dim]) == (x.rank - 1,) and x.rank > 1


def _statistics(ops: Ops, x: Term, dim: int) -> tuple[Term, ...]:
    """The maximum along ``dim`` and the sum of exponentials less it, in one sweep. With an infinity as the maximum the
    sum is NaN, as it is where elements are read twice."""
    largest, total = ops.results("online_softmax_statistics", x, dims=(dim,), keepdim=True)
    return largest, ops.where(ops.isposinf(largest), math.nan, total)
