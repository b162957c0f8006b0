"""What a lambda does to whole tensors: the oracle of generalized reductions and scans.

Elements are combined in a tree of neighbours, so that their order is kept; a scan doubles its reach with each step
(Hillis and Steele, "Data Parallel Algorithms", 1986). Torch is imported inside functions only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr
from fusebuild.ops.table import OPS

if TYPE_CHECKING:
    from torch import Tensor

State: TypeAlias = "tuple[Tensor, ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """A lambda, and how its values are held: ``convert(tensor, dtype)`` gives a tensor as a value of ``dtype``."""

    body: Fusion
    convert: Callable[[Tensor, DType], Tensor]

    def __call__(self, left: State, right: State) -> State:
        """The new states, element by element."""
        import torch

        live = dict(zip(self.body.inputs, (*left, *right), strict=True))
        for value in self.body.values.values():
            if value.literal is not None:
                live[value.fid] = self.convert(torch.as_tensor(value.literal, device=left[0].device), value.dtype)
        for expr in self.body.exprs:
            types = [self.body.value(fid).type for fid in expr.inputs]
            dtypes = OPS[expr.op].operand_dtypes(types, dict(expr.attributes))
            operands = [self.convert(live[fid], dtype) for fid, dtype in zip(expr.inputs, dtypes, strict=True)]
            (result,) = expr.outputs
            live[result] = self.convert(OPS[expr.op].reference(torch, *operands), self.body.value(result).dtype)
        return tuple(live[fid].expand(left[0].shape) for fid in self.body.output_fids)


def _split(operands: Sequence[Tensor]) -> tuple[State, State]:
    """The components, broadcast against each other, and the identity."""
    import torch

    count = len(operands) // 2
    return tuple(torch.broadcast_tensors(*operands[:count])), tuple(operands[count:])  # type: ignore[no-untyped-call]


def reduce_with(combine: Combination, operands: Sequence[Tensor], dims: Sequence[int], keepdim: bool) -> State:
    """The components, which are the first half of ``operands``, combined over ``dims``, starting from the identity, the
    other half, as kernels do: where a component is infinite, that can say more than the component alone."""
    import torch

    components, identity = _split(operands)
    rank = components[0].dim()
    kept = [dim for dim in range(rank) if dim not in dims]
    shape = [components[0].shape[dim] for dim in kept]
    state = tuple(part.permute(*kept, *dims).reshape(*shape, -1) if part.numel() else part for part in components)
    if not components[0].numel():
        state = tuple(part.expand(shape).clone() for part in identity)
    else:
        while (length := state[0].shape[-1]) > 1:
            pairs = length // 2 * 2
            made = combine(tuple(part[..., 0:pairs:2] for part in state), tuple(part[..., 1:pairs:2] for part in state))
            rest = tuple(part[..., pairs:] for part in state)
            state = tuple(torch.cat(both, dim=-1) for both in zip(made, rest, strict=True))
        state = _after_identity(combine, identity, tuple(part[..., 0] for part in state))
    if not keepdim:
        return state
    return tuple(
        part.reshape([1 if dim in dims else components[0].shape[dim] for dim in range(rank)]) for part in state
    )


def scan_with(combine: Combination, operands: Sequence[Tensor], dim: int) -> State:
    """What the identity and the components combine to along ``dim`` up to and including each element."""
    import torch

    components, identity = _split(operands)
    state: State = tuple(part.movedim(dim, -1) for part in components)
    length, reach = state[0].shape[-1], 1
    while reach < length:
        made = combine(tuple(part[..., :-reach] for part in state), tuple(part[..., reach:] for part in state))
        state = tuple(torch.cat((part[..., :reach], new), dim=-1) for part, new in zip(state, made, strict=True))
        reach *= 2
    return tuple(part.movedim(-1, dim) for part in _after_identity(combine, identity, state))


def _after_identity(combine: Combination, identity: State, state: State) -> State:
    start = tuple(part.expand(own.shape) for part, own in zip(identity, state, strict=True))
    return combine(start, state)


def dim_of(expr: Expr) -> int:
    dim = expr.attribute("dim")
    assert isinstance(dim, int)
    return dim


def built_in(expr: Expr, x: Tensor) -> tuple[Tensor, ...]:
    """An op that the decompose pass writes with a lambda, as torch has it."""
    if expr.op in ("cumsum", "cumprod"):
        return (getattr(x, expr.op)(dim_of(expr)),)
    keepdim = bool(expr.attribute("keepdim"))
    if expr.op in ("argmax", "argmin"):
        return (getattr(x.int() if x.element_size() == 1 else x, expr.op)(dim=dim_of(expr), keepdim=keepdim),)
    if expr.op in ("any", "all"):
        x = x != 0
        for dim in sorted(expr.dims, reverse=True):
            x = getattr(x, expr.op)(dim=dim, keepdim=keepdim)
        return (x,)
    largest, total = _softmax_statistics(x, expr.dims, keepdim)
    if expr.op == "logsumexp":
        return (total.log() + _shift(largest),)
    return largest, total


def _softmax_statistics(x: Tensor, dims: Sequence[int], keepdim: bool) -> tuple[Tensor, Tensor]:
    """The maximum and the sum of ``exp(x - maximum)``, where an infinite maximum shifts nothing."""
    if not dims:
        return x, (x - _shift(x)).exp()
    shape = [1 if dim in dims else size for dim, size in enumerate(x.shape)]
    largest = x.amax(tuple(dims), keepdim=True) if x.numel() else x.new_full(shape, -float("inf"))
    total = (x - _shift(largest)).exp().sum(tuple(dims), keepdim=keepdim)
    return largest.reshape(total.shape), total


def _shift(largest: Tensor) -> Tensor:
    return largest.masked_fill(largest.isinf(), 0.0)
