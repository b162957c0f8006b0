"""What an op is: its kind, its parameters, its type rule, its CUDA text and its torch reference."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any, TypeAlias

from fusebuild.ir.algebra import NO_FACTS, Algebra
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula
from fusebuild.ir.types import Literal, TensorType, ValueType
from fusebuild.ir.values import Attribute
from fusebuild.ops.type_rules import normalize_dims

Attributes: TypeAlias = "Mapping[str, Attribute]"
Types: TypeAlias = "Sequence[ValueType]"
Infer: TypeAlias = "Callable[[Types, Attributes], ValueType | tuple[ValueType, ...]]"
"""The types of an op's results for those of its operands; that of the only result may stand for itself."""
InferSized: TypeAlias = "Callable[[Types, Attributes, Algebra], ValueType | tuple[ValueType, ...]]"
"""The same for an op whose result depends on how sizes compare."""
InferTypes: TypeAlias = "Callable[..., tuple[ValueType, ...]]"
"""``infer(types, attributes, algebra=NO_FACTS)``: the types of the results under what is known of sizes."""


class Kind(enum.Enum):
    """What an op does to the iteration domain; schedulers look at this and not at names."""

    POINTWISE = "pointwise"
    VIEW = "view"
    REDUCTION = "reduction"
    SCAN = "scan"
    ORDER = "order"
    COMPOSITE = "composite"
    CREATION = "creation"
    LIBRARY = "library"
    INDEX = "index"
    SCATTER = "scatter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One parameter of an op. ``kind`` says how a front end reads it: value, values (a list of them), dims, shape,
    extent, mask, dtype, bool, int, lambda. ``default`` of :data:`REQUIRED` marks one that must be given; a value whose
    default is None is an operand that an expr may lack (only the last ones are)."""

    name: str
    kind: str = "value"
    default: object = ...


REQUIRED = ...


def same_dtype(dtype: DType) -> DType:
    return dtype


def _as_they_are(types: Types, attributes: Attributes) -> tuple[DType, ...]:
    return tuple(type_.dtype for type_ in types)


OPERANDS = frozenset({"value", "values"})
"""The kinds of parameters that become inputs of an expr; all others become attributes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpDef:
    """One op: all that is known of it, but for how one pass or one kind of kernel treats it.

    ``reference`` is the op as a function of torch. It takes the torch module, the operands as tensors in the dtypes of
    ``operand_dtypes``, and by name the attributes (see :meth:`named`): a lambda as a function of two states, and for
    what draws also ``dtype``, that of its numbers. It gives a tensor or a tuple of tensors, which the caller converts
    to the dtypes of the results. ``numbers`` are the places of the operands that it also takes as Python numbers where
    another operand is a tensor.

    ``result_dtype`` gives the dtype of a reduction's result for that of its operand, where no other is asked for.
    ``cuda_integer`` replaces ``cuda`` when the op computes in integers; ``functor`` names the device functor of a
    reduction that has one of its own (others combine with a lambda), ``running`` what a thread keeps while it reads,
    where that is not what the functor combines. ``results`` is 0 where the lambda says how many there are. ``check``
    sees the operands that are known now, None for the others, and raises like ``infer``. ``scalar`` is what a pointwise
    op means for numbers: it takes the dtype in which the op computes, then its operands; None where it means nothing
    for them, and then no lambda may need it.

    ``of_elements`` is False for a pointwise op whose result is not a function of the elements at one place alone: the
    op says how or where its result lies in memory, or it draws numbers. ``copies`` marks ops whose result has the
    elements of the only operand as they are; ``is_alias`` marks those of them whose result may be the operand's memory
    under another name. ``reads_part`` marks ops that may leave elements of their first operand unread. ``picks`` marks
    ops that give or take the place of an element along the dim ``dim`` (along the first, where they have no such
    attribute), which must therefore have elements. ``is_running`` marks composites that are a scan: the result has the
    shape of the operand. ``is_boundary`` marks a cut between kernels, ``is_random`` an op that draws numbers, and
    ``is_costly`` one that takes so many instructions that its result is worth the registers that keep it.
    ``is_commutative`` says that the order of the operands makes no difference, ``is_involution`` that the op applied
    twice gives its operand; ``mirror`` is the op that gives the same for the two operands in the other order.

    ``example`` is a call for the reference, with the types of its tensors: ``sum(x: T[M, N], dims=[1])``, where ``T``
    is any dtype. Where it is empty, the example is a call with a tensor of two dims for each operand."""

    name: str
    kind: Kind
    parameters: tuple[Parameter, ...]
    infer: InferTypes
    reference: Callable[..., Any]
    operand_dtypes: Callable[[Types, Attributes], tuple[DType, ...]] = _as_they_are
    result_dtype: Callable[[DType], DType] = same_dtype
    numbers: tuple[int, ...] = ()
    cuda: str = ""
    cuda_integer: str = ""
    functor: str = ""
    running: str = ""
    results: int = 1
    scalar: Callable[..., Any] | None = None
    check: Callable[[Sequence[Literal | tuple[int, ...] | None]], None] | None = None
    of_elements: bool = True
    copies: bool = False
    is_alias: bool = False
    reads_part: bool = False
    picks: bool = False
    is_running: bool = False
    is_boundary: bool = False
    is_random: bool = False
    is_costly: bool = False
    is_commutative: bool = False
    is_involution: bool = False
    mirror: str = ""
    example: str = ""

    @property
    def is_generalized(self) -> bool:
        """True for what combines with a lambda of the author: ``reduce`` and ``scan``."""
        return any(parameter.kind == "lambda" for parameter in self.parameters)

    @property
    def is_recomputable(self) -> bool:
        """True for what a second kernel may compute again instead of reading it."""
        return (
            self.kind in (Kind.POINTWISE, Kind.VIEW, Kind.CREATION, Kind.INDEX)
            and not self.is_random
            and not self.is_boundary
        )

    @property
    def is_elementwise(self) -> bool:
        """True for what computes each element of its result from those of its operands in the same place."""
        return self.of_elements and (self.kind is Kind.POINTWISE or self.name == "expand")

    @property
    def is_rename(self) -> bool:
        """True for what kernels compute nothing for: the result is another name of the variable."""
        return self.kind is Kind.VIEW or self.cuda == "{0}"

    @property
    def is_fold(self) -> bool:
        """True for a reduction of one operand to one result with a functor: ``sum``, ``prod``, ``max`` and ``min``."""
        return self.kind is Kind.REDUCTION and self.results == 1

    @property
    def operands(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.parameters if parameter.kind == "value")

    def named(self, attributes: Attributes, size: Callable[[Formula], Any]) -> dict[str, Any]:
        """The attributes as the reference takes them: by name, ``size`` of each formula in the place of it."""
        named: dict[str, Any] = {}
        for parameter in self.parameters:
            given: Any = attributes.get(parameter.name)
            match parameter.kind:
                case "value" | "values":
                    continue
                case "extent":
                    given = size(given)
                case "shape" if given is not None:
                    given = tuple(size(extent) for extent in given)
            named[parameter.name] = given
        return named

    def text(self, operands: Sequence[str], dtype: DType) -> str:
        """The CUDA expression for ``operands``, computed in ``dtype``."""
        pattern = self.cuda_integer if self.cuda_integer and not dtype.is_floating else self.cuda
        return pattern.format(*operands)


def define(signature: str, kind: Kind, infer: Infer, reference: Callable[..., Any], **facts: Any) -> OpDef:
    """The op of ``signature``, such as ``full(shape: shape, fill_value, dtype: dtype = None)``: behind the name of a
    parameter stand its kind, where that is not ``value``, and its default. ``facts`` are the other fields of
    :class:`OpDef`."""

    def under_any_facts(types: Types, attributes: Attributes, algebra: Algebra) -> ValueType | tuple[ValueType, ...]:
        return infer(types, attributes)

    return define_sized(signature, kind, under_any_facts, reference, **facts)


def define_sized(signature: str, kind: Kind, infer: InferSized, reference: Callable[..., Any], **facts: Any) -> OpDef:
    """:func:`define` for an op whose type rule asks how sizes compare."""

    def types_of(types: Types, attributes: Attributes, algebra: Algebra = NO_FACTS) -> tuple[ValueType, ...]:
        found = infer(types, attributes, algebra)
        return found if isinstance(found, tuple) else (found,)

    name, parameters = signature.removesuffix(")").split("(")
    made = tuple(map(_parameter, parameters.split(", ")))
    op = OpDef(name=name, kind=kind, parameters=made, infer=types_of, reference=reference, **facts)
    for text in (op.cuda, op.cuda_integer):
        if unknown := _places_in(text) - set(map(str, range(len(op.operands)))):
            raise ValueError(f"the CUDA text of '{name}' has no operand {{{min(unknown)}}}: {text}")
    return op


def _places_in(text: str) -> set[str]:
    """The operands that the CUDA expression ``text`` names: ``0`` and ``1`` for ``{0} + {1}``."""
    return {field for _, field, _, _ in Formatter().parse(text) if field is not None}


def _parameter(text: str) -> Parameter:
    named, _, default = text.partition(" = ")
    name, _, kind = named.partition(": ")
    return Parameter(name=name, kind=kind or "value", default=ast.literal_eval(default) if default else REQUIRED)


def dims_of(op: str, tensor: TensorType, attributes: Attributes) -> tuple[int, ...]:
    """The dims of ``tensor`` that ``attributes`` name, counted from the front: all of them where they name none."""
    dims = attributes["dims"]
    return normalize_dims(op, range(tensor.rank) if dims is None else dims, tensor.rank)
