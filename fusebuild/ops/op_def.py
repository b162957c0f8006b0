"""What an op is: its kind, its parameters, its type rule, its CUDA text and its torch reference."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fusebuild.ir.dtype import DType
from fusebuild.ir.types import Literal, TensorType, ValueType
from fusebuild.ir.values import Attribute
from fusebuild.ops.type_rules import normalize_dims

Attributes = Mapping[str, Attribute]


class Kind(enum.Enum):
    """What an op does to the iteration domain; schedulers look at this and not at names."""

    POINTWISE = "pointwise"
    VIEW = "view"
    REDUCTION = "reduction"
    SCAN = "scan"
    COMPOSITE = "composite"
    CREATION = "creation"
    LIBRARY = "library"
    INDEX = "index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of an op. ``kind`` says how a front end reads it: value, values (a list of them), dims, shape,
    extent, mask, dtype, bool, int, lambda. ``default`` of :data:`REQUIRED` marks one that must be given; a value whose
    default is None is an operand that an expr may lack (only the last ones are)."""

    name: str
    kind: str = "value"
    default: object = ...


REQUIRED = ...
OPERANDS = frozenset({"value", "values"})
"""The kinds of parameters that become inputs of an expr; all others become attributes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpDef:
    """One op. ``cuda_integer`` replaces ``cuda`` when the op computes in integers; ``functor`` names the device functor
    of a reduction that has one of its own (others combine with a lambda), ``running`` what a thread keeps while it
    reads, where that is not what the functor combines. ``results`` is 0 where the lambda says how many there are.
    ``is_random`` marks what draws numbers. ``check`` sees the operands that are known now, None for the others, and
    raises like ``infer``. ``scalar`` is what a pointwise op means for numbers: it takes the dtype in which the op
    computes, then its operands; None where it means nothing for them, and then no lambda may need it.

    ``example`` is a call for the reference, with the types of its tensors: ``sum(x: T[M, N], dims=[1])``, where ``T``
    is any dtype. Where it is empty, the example is a call with a tensor of two dims for each operand."""

    name: str
    kind: Kind
    parameters: tuple[Parameter, ...]
    infer: Callable[[Sequence[ValueType], Attributes], tuple[ValueType, ...]]
    operand_dtypes: Callable[[Sequence[ValueType], Attributes], tuple[DType, ...]]
    reference: Callable[..., Any]
    cuda: str = ""
    cuda_integer: str = ""
    functor: str = ""
    running: str = ""
    results: int = 1
    is_random: bool = False
    scalar: Callable[..., Any] | None = None
    check: Callable[[Sequence[Literal | tuple[int, ...] | None]], None] | None = None
    example: str = ""

    @property
    def is_generalized(self) -> bool:
        """True for what combines with a lambda of the author: ``reduce`` and ``scan``."""
        return any(parameter.kind == "lambda" for parameter in self.parameters)

    @property
    def operands(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.parameters if parameter.kind == "value")

    def text(self, operands: Sequence[str], dtype: DType) -> str:
        """The CUDA expression for ``operands``, computed in ``dtype``."""
        pattern = self.cuda_integer if self.cuda_integer and not dtype.is_floating else self.cuda
        return pattern.format(*operands)


REDUCTION_PARAMETERS = (
    Parameter(name="x"),
    Parameter(name="dims", kind="dims", default=None),
    Parameter(name="keepdim", kind="bool", default=False),
)
DTYPE_PARAMETER = Parameter(name="dtype", kind="dtype", default=None)


def dtype_of(attributes: Attributes) -> DType | None:
    dtype = attributes.get("dtype")
    assert dtype is None or isinstance(dtype, DType)
    return dtype


def dims_of(op: str, tensor: TensorType, attributes: Attributes) -> tuple[int, ...]:
    dims = attributes["dims"]
    return normalize_dims(op, tuple(range(tensor.rank)) if dims is None else dims, tensor.rank)  # type: ignore[arg-type]
