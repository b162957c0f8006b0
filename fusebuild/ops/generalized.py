"""Ops that combine with a lambda: ``reduce`` and ``scan``, and those that the decompose pass writes as one of them.

The references of ``reduce`` and ``scan`` combine elements in a tree of neighbours, so that their order is kept; a scan
doubles its reach with each step (Hillis and Steele, "Data Parallel Algorithms", 1986).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from fusebuild.ir.dtype import DType
from fusebuild.ir.types import ScalarType, TensorType, ValueType, tensor_type
from fusebuild.ops.op_def import Attributes, Kind, OpDef, Types, define, dims_of, same_dtype
from fusebuild.ops.reductions import kept_dtype, mean_dtype, summed_dtype
from fusebuild.ops.type_rules import TypeRuleError, broadcast_shapes, normalize_dims, reduced_type, require_tensor

State: TypeAlias = "tuple[Any, ...]"
"""One tensor a component."""
Combine: TypeAlias = "Callable[[State, State], State]"


def _generalized(name: str, kind: Kind, parameters: str, reference: Callable[..., Any], example: str) -> OpDef:
    """An op over a state of several components. Its operands are the components, tensors or constants that broadcast
    against each other, and then as many constants, the identity. Two attributes come from the lambda: ``state``, the
    dtypes, and ``ordered``."""

    def infer(types: Types, attributes: Attributes) -> tuple[ValueType, ...]:
        state = attributes["state"]
        components, identity = types[: len(state)], types[len(state) :]
        if not any(isinstance(t, TensorType) for t in components):
            raise TypeRuleError(f"{name} takes at least one tensor", operand=0)
        if tensors := [index for index, t in enumerate(identity) if not isinstance(t, ScalarType)]:
            raise TypeRuleError(f"{name}: init takes constants", operand=len(state) + tensors[0])
        shape, broadcast = broadcast_shapes(components)
        whole = tensor_type(DType.FLOAT, shape, broadcast)
        if kind is Kind.SCAN:
            dims = normalize_dims(name, [attributes["dim"]], whole.rank)
            return tuple(tensor_type(dtype, shape, broadcast.difference(dims)) for dtype in state)
        dims = dims_of(name, whole, attributes)
        if not dims:
            raise TypeRuleError(f"{name} needs a dim to reduce over")
        return tuple(reduced_type(whole, dims, keepdim=attributes["keepdim"], dtype=dtype) for dtype in state)

    return define(
        f"{name}(inputs: values, init: values, combine: lambda, {parameters})", kind, infer, reference,
        operand_dtypes=lambda types, attributes: (*attributes["state"], *attributes["state"]),
        results=0, example=example,
    )  # fmt: skip


def _split(torch: Any, operands: Sequence[Any]) -> tuple[State, State]:
    """The components, broadcast against each other, and the identity."""
    count = len(operands) // 2
    return tuple(torch.broadcast_tensors(*operands[:count])), tuple(operands[count:])


def _reduced(torch: Any, *operands: Any, combine: Combine, dims: Sequence[int], keepdim: bool) -> State:
    """The components combined over ``dims``, starting from the identity, as kernels do: where a component is infinite,
    that can say more than the component alone."""
    components, identity = _split(torch, operands)
    rank = components[0].dim()
    kept = [dim for dim in range(rank) if dim not in dims]
    shape = [components[0].shape[dim] for dim in kept]
    if not components[0].numel():
        state = tuple(part.expand(shape).clone() for part in identity)
    else:
        state = tuple(part.permute(*kept, *dims).reshape(*shape, -1) for part in components)
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


def _scanned(torch: Any, *operands: Any, combine: Combine, dim: int) -> State:
    """What the identity and the components combine to along ``dim`` up to and including each element."""
    components, identity = _split(torch, operands)
    state: State = tuple(part.movedim(dim, -1) for part in components)
    length, reach = state[0].shape[-1], 1
    while reach < length:
        made = combine(tuple(part[..., :-reach] for part in state), tuple(part[..., reach:] for part in state))
        state = tuple(torch.cat((part[..., :reach], new), dim=-1) for part, new in zip(state, made, strict=True))
        reach *= 2
    return tuple(part.movedim(-1, dim) for part in _after_identity(combine, identity, state))


def _after_identity(combine: Combine, identity: State, state: State) -> State:
    start = tuple(part.expand(own.shape) for part, own in zip(identity, state, strict=True))
    return combine(start, state)


def _composite(
    signature: str,
    result_dtype: Callable[[DType], DType],
    reference: Callable[..., Any],
    operand_dtype: Callable[[DType], DType] | None = None,
    **facts: Any,
) -> OpDef:
    """What the decompose pass writes as a ``reduce`` or ``scan`` with a lambda of its own. The operand is met in the
    dtype of the result, or in its ``operand_dtype``."""
    name = signature.partition("(")[0]
    is_along_one, results = "dim: int" in signature, int(facts.get("results", 1))

    def infer(types: Types, attributes: Attributes) -> tuple[ValueType, ...]:
        tensor = require_tensor(name, types[0])
        dtype = result_dtype(tensor.dtype)
        if is_along_one:
            dims = normalize_dims(name, [attributes["dim"]], tensor.rank)
            if facts.get("picks") and tensor.shape[dims[0]] == 0:
                raise TypeRuleError(f"{name}: dim {dims[0]} has no elements to choose from", operand=0)
        else:
            dims = dims_of(name, tensor, attributes)
        if facts.get("is_running"):
            expanded = [dim for dim, flag in enumerate(tensor.contiguity) if flag is None and dim not in dims]
            dtypes = (dtype, DType.INT64)[:results]
            return tuple(tensor_type(own, tensor.shape, expanded) for own in dtypes)
        return (reduced_type(tensor, dims, keepdim=attributes["keepdim"], dtype=dtype),) * results

    return define(
        signature, Kind.COMPOSITE, infer, reference,
        operand_dtypes=lambda types, attributes: ((operand_dtype or result_dtype)(types[0].dtype),),
        example=f"{name}(x: T[M, N], {'dim=1' if is_along_one else 'dims=[1]'})", **facts,
    )  # fmt: skip


def _arg_extreme(name: str) -> OpDef:
    def reference(torch: Any, x: Any, dim: int, keepdim: bool) -> Any:
        return getattr(torch, name)(x.int() if x.element_size() == 1 else x, dim=dim, keepdim=keepdim)

    signature = f"{name}(x, dim: int, keepdim: bool = False)"
    return _composite(signature, lambda dtype: DType.INT64, reference, same_dtype, picks=True)


def _any_or_all(name: str) -> OpDef:
    def reference(torch: Any, x: Any, dims: Sequence[int], keepdim: bool) -> Any:
        x = x != 0
        for dim in sorted(dims, reverse=True):
            x = getattr(torch, name)(x, dim=dim, keepdim=keepdim)
        return x

    return _composite(f"{name}(x, {_DIMS})", lambda dtype: DType.BOOL, reference, same_dtype)


def _running(name: str, result_dtype: Callable[[DType], DType] = summed_dtype) -> OpDef:
    """The running form of a sum, a product, or a sum of exponentials."""
    return _composite(f"{name}(x, dim: int)", result_dtype, lambda torch, x, dim: getattr(torch, name)(x, dim),
                      is_running=True)  # fmt: skip


def _running_extreme(name: str) -> OpDef:
    """The largest or smallest element up to each, and its index: the last one among equals, and NaN before all."""

    def reference(torch: Any, x: Any, dim: int) -> tuple[Any, Any]:
        found = getattr(torch, name)(x, dim)
        return found[0], found[1]

    return _composite(f"{name}(x, dim: int)", kept_dtype, reference, results=2, is_running=True)


def _softmax_statistics(torch: Any, x: Any, dims: Sequence[int], keepdim: bool) -> tuple[Any, Any]:
    """The maximum and the sum of ``exp(x - maximum)``, where an infinite maximum shifts nothing."""
    if not dims:
        return x, (x - _shift(x)).exp()
    shape = [1 if dim in dims else size for dim, size in enumerate(x.shape)]
    largest = x.amax(tuple(dims), keepdim=True) if x.numel() else x.new_full(shape, -float("inf"))
    total = (x - _shift(largest)).exp().sum(tuple(dims), keepdim=keepdim)
    return largest.reshape(total.shape), total


def _shift(largest: Any) -> Any:
    return largest.masked_fill(largest.isinf(), 0.0)


def _logsumexp(torch: Any, x: Any, dims: Sequence[int], keepdim: bool) -> Any:
    largest, total = _softmax_statistics(torch, x, dims, keepdim)
    return total.log() + _shift(largest)


_DIMS = "dims: dims = None, keepdim: bool = False"

GENERALIZED = (
    _generalized("reduce", Kind.REDUCTION, _DIMS, _reduced, "reduce(x: T[M, N], init=0, combine=added, dims=[1])"),
    _generalized("scan", Kind.SCAN, "dim: int", _scanned, "scan(x: T[M, N], init=0, combine=added, dim=1)"),
    *map(_arg_extreme, ("argmax", "argmin")),
    *map(_any_or_all, ("any", "all")),
    _composite(f"logsumexp(x, {_DIMS})", mean_dtype, _logsumexp),
    _composite(f"online_softmax_statistics(x, {_DIMS})", mean_dtype, _softmax_statistics, results=2),
    *map(_running, ("cumsum", "cumprod")),
    _running("logcumsumexp", mean_dtype),
    *map(_running_extreme, ("cummax", "cummin")),
)
"""The ops of this module, for :data:`fusebuild.ops.table.OPS`."""
