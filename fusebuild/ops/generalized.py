"""Ops that combine with a lambda: ``reduce`` and ``scan``, and those that the decompose pass writes as one of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fusebuild.ir.dtype import DType
from fusebuild.ir.types import ScalarType, TensorType, ValueType, tensor_type
from fusebuild.ops.op_def import REDUCTION_PARAMETERS, Attributes, Kind, OpDef, Parameter, dims_of
from fusebuild.ops.type_rules import (
    TypeRuleError,
    broadcast_shapes,
    normalize_dims,
    reduced_type,
    reduction_dtype,
    require_tensor,
)


def _generalized(name: str, kind: Kind, *extra: Parameter, example: str) -> OpDef:
    """An op over a state of several components. Its operands are the components, tensors or constants that broadcast
    against each other, and then as many constants, the identity. Two attributes come from the lambda: ``state``, the
    dtypes, and ``ordered``."""

    def infer(types: Sequence[ValueType], attributes: Attributes) -> tuple[ValueType, ...]:
        state = state_of(attributes)
        components, identity = types[: len(state)], types[len(state) :]
        if not any(isinstance(t, TensorType) for t in components):
            raise TypeRuleError(f"{name} takes at least one tensor", operand=0)
        if tensors := [index for index, t in enumerate(identity) if not isinstance(t, ScalarType)]:
            raise TypeRuleError(f"{name}: init takes constants", operand=len(state) + tensors[0])
        shape, broadcast = broadcast_shapes(components)
        whole = tensor_type(DType.FLOAT, shape, broadcast)
        if kind is Kind.SCAN:
            (dim,) = normalize_dims(name, [_int(attributes, "dim")], whole.rank)
            return tuple(tensor_type(dtype, shape, broadcast - {dim}) for dtype in state)
        dims = dims_of(name, whole, attributes)
        if not dims:
            raise TypeRuleError(f"{name} needs a dim to reduce over")
        keepdim = bool(attributes["keepdim"])
        return tuple(reduced_type(whole, dims, keepdim=keepdim, dtype=dtype) for dtype in state)

    return OpDef(
        name=name,
        kind=kind,
        parameters=(
            Parameter(name="inputs", kind="values"),
            Parameter(name="init", kind="values"),
            Parameter(name="combine", kind="lambda"),
            *extra,
        ),
        infer=infer,
        operand_dtypes=lambda types, attributes: (*state_of(attributes), *state_of(attributes)),
        reference=lambda torch, x: x,
        results=0,
        example=example,
    )


def state_of(attributes: Attributes) -> tuple[DType, ...]:
    """The dtypes of the state that a ``reduce`` or ``scan`` accumulates."""
    state = attributes["state"]
    assert isinstance(state, tuple)
    return state  # type: ignore[return-value]


def _int(attributes: Attributes, name: str) -> int:
    number = attributes[name]
    assert isinstance(number, int)
    return number


def _composite(
    name: str, parameters: Sequence[Parameter], dtype_of: Callable[[DType], DType], *, computes: bool, results: int = 1
) -> OpDef:
    """What the decompose pass writes as a ``reduce`` or ``scan`` with a lambda of its own. ``dtype_of`` gives the
    result's dtype for the operand's; with ``computes`` the operand is met in it too."""
    is_scan = parameters[0].name == "dim" and len(parameters) == 1

    def infer(types: Sequence[ValueType], attributes: Attributes) -> tuple[ValueType, ...]:
        tensor = require_tensor(name, types[0])
        dtype = dtype_of(tensor.dtype)
        if "dim" in attributes:
            dims = normalize_dims(name, [_int(attributes, "dim")], tensor.rank)
            if name in EXTREMES and tensor.shape[dims[0]] == 0:
                raise TypeRuleError(f"{name}: dim {dims[0]} has no elements to choose from", operand=0)
        else:
            dims = dims_of(name, tensor, attributes)
        if is_scan:
            expanded = [dim for dim, flag in enumerate(tensor.contiguity) if flag is None and dim not in dims]
            return (tensor_type(dtype, tensor.shape, expanded),)
        return (reduced_type(tensor, dims, keepdim=bool(attributes["keepdim"]), dtype=dtype),) * results

    def operand_dtypes(types: Sequence[ValueType], attributes: Attributes) -> tuple[DType, ...]:
        return (dtype_of(types[0].dtype) if computes else types[0].dtype,)

    return OpDef(
        name=name,
        kind=Kind.COMPOSITE,
        parameters=(Parameter(name="x"), *parameters),
        infer=infer,
        operand_dtypes=operand_dtypes,
        reference=lambda torch, x: x,
        results=results,
        example=f"{name}(x: T[M, N], {'dim=1' if parameters[0].name == 'dim' else 'dims=[1]'})",
    )


def _floating(dtype: DType) -> DType:
    return dtype if dtype in (DType.DOUBLE, DType.FLOAT) else DType.FLOAT


EXTREMES = ("argmax", "argmin")
"""Ops that say which element of a dim it is: there has to be one."""
_DIM = Parameter(name="dim", kind="int")
_KEEPDIM = REDUCTION_PARAMETERS[2]
GENERALIZED = (
    _generalized("reduce", Kind.REDUCTION, *REDUCTION_PARAMETERS[1:],
                 example="reduce(x: T[M, N], init=0, combine=added, dims=[1])"),
    _generalized("scan", Kind.SCAN, _DIM, example="scan(x: T[M, N], init=0, combine=added, dim=1)"),
    *(_composite(name, [_DIM, _KEEPDIM], lambda dtype: DType.INT64, computes=False) for name in EXTREMES),
    *(_composite(name, REDUCTION_PARAMETERS[1:], lambda dtype: DType.BOOL, computes=False) for name in ("any", "all")),
    _composite("logsumexp", REDUCTION_PARAMETERS[1:], _floating, computes=True),
    _composite("online_softmax_statistics", REDUCTION_PARAMETERS[1:], _floating, computes=True, results=2),
    _composite("cumsum", [_DIM], lambda dtype: reduction_dtype("sum", dtype), computes=True),
    _composite("cumprod", [_DIM], lambda dtype: reduction_dtype("prod", dtype), computes=True),
)  # fmt: skip
