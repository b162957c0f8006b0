"""What a composite of the library is: a Python function that records ops, called like an op by torch's name.

Its signature is that of the composite: names and defaults are torch's, and the annotation says how a front end reads an
argument (:data:`_KINDS`). The function gets :class:`Ops` first, then operands as :class:`Term`, and everything else as
the plain value that it is. A recipe's own composites are text, since they know nothing of ranks, of arguments that are
left out and of lists of dims; these do.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeAlias, TypeVar

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula
from fusebuild.ir.types import Literal
from fusebuild.ir.values import Attribute, Value
from fusebuild.ops.op_def import REQUIRED, Parameter
from fusebuild.ops.table import OPS
from fusebuild.ops.type_rules import TypeRuleError, normalize_dims

Dims: TypeAlias = "Sequence[int]"
Shape: TypeAlias = "Sequence[Formula]"
Operand: TypeAlias = "Term | float"
"""A tensor or a scalar, or the number that is the default."""

Function = TypeVar("Function", bound="Callable[..., Any]")

_KINDS = {
    "Term": "value", "Operand": "value", "Sequence[Term]": "values", "Dims": "dims", "Shape": "shape",
    "Formula": "extent", "int": "int", "bool": "bool", "DType": "dtype", "str": "text",
}  # fmt: skip
"""The kind of a parameter for the annotation of one; ``| None`` says that it may be left out."""


class Recorder(Protocol):
    """Where a composite records what it is made of."""

    def constant(self, literal: Literal) -> Value:
        """A constant."""

    def call(self, op: str, operands: Sequence[Value], named: Mapping[str, Attribute]) -> tuple[Value, ...]:
        """Record the op ``op``."""


def _binary(op: str) -> tuple[Callable[[Term, Operand], Term], Callable[[Term, Operand], Term]]:
    """The operator that records ``op``, and the one of a term that stands on the right."""
    return (lambda self, other: self.ops.record(op, [self, other])[0],
            lambda self, other: self.ops.record(op, [other, self])[0])  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """A value inside of a composite. Operators record ops; ``/`` divides integers as torch does, to a float."""

    ops: Ops
    value: Value

    __add__, __radd__ = _binary("add")
    __sub__, __rsub__ = _binary("sub")
    __mul__, __rmul__ = _binary("mul")
    __truediv__, __rtruediv__ = _binary("truediv")
    __mod__, __rmod__ = _binary("remainder")
    __lt__, __gt__ = _binary("lt")
    __le__, __ge__ = _binary("le")

    def __neg__(self) -> Term:
        return self.ops.record("neg", [self])[0]

    def equals(self, other: Operand) -> Term:
        """Where both are the same: ``==`` is Python's own."""
        return self.ops.record("eq", [self, other])[0]

    @property
    def dtype(self) -> DType:
        return self.value.dtype

    @property
    def rank(self) -> int:
        return self.value.tensor.rank if self.value.is_tensor else 0

    @property
    def shape(self) -> tuple[Formula, ...]:
        return self.value.tensor.shape if self.value.is_tensor else ()


class Ops:
    """The ops and composites that a composite is made of, by their names: operands by place, attributes by name."""

    def __init__(self, recorder: Recorder, composite: LibraryComposite) -> None:
        self._recorder, self._composite = recorder, composite

    def __getattr__(self, name: str) -> Callable[..., Term]:
        if name not in OPS:
            composite: Callable[..., Term] = LIBRARY[name].function
            return partial(composite, self)
        return lambda *operands, **named: self.results(name, *operands, **named)[0]

    def results(self, op: str, *operands: Any, **named: Attribute) -> tuple[Term, ...]:
        """All results of the op ``op``, whose operands have their defaults where they are left out."""
        given = [item for each in operands for item in (each if isinstance(each, list | tuple) else [each])]
        defaults = [each.default for each in OPS[op].operands[len(given) :] if each.default not in (None, REQUIRED)]
        return self.record(op, [*given, *defaults], named)

    def record(
        self, op: str, operands: Sequence[Any], named: Mapping[str, Attribute] | None = None
    ) -> tuple[Term, ...]:
        """Record the op ``op``; numbers among ``operands`` become constants."""
        values = [each.value if isinstance(each, Term) else self._recorder.constant(each) for each in operands]
        return tuple(Term(self, value) for value in self._recorder.call(op, values, named or {}))

    def refuse(self, problem: str, hint: str = "") -> TypeRuleError:
        """The error that says what the composite that was called does not take."""
        return TypeRuleError(f"{self._composite.name}: {problem}", hint)

    def tensor(self, term: Term, parameter: str) -> Term:
        """``term``, once it is known to be a tensor."""
        if not term.value.is_tensor:
            raise self.refuse(f"{parameter} must be a tensor, not a scalar")
        return term

    def dims(self, term: Term, dims: Dims | None) -> tuple[int, ...]:
        """``dims`` of ``term`` counted from the front; all of them where there are none given."""
        return normalize_dims(self._composite.name, range(term.rank) if dims is None else dims, term.rank)

    def one_of(self, parameter: str, given: str, *known: str) -> str:
        """``given``, once it is one of the texts that ``parameter`` takes."""
        if given in known:
            return given
        shown = ", ".join(repr(each) for each in known[:-1])
        raise self.refuse(f"{parameter} is '{given}'", f"it is {shown} or '{known[-1]}'")

    def float_of(self, term: Term, dtype: DType | None = None) -> Term:
        """``term`` in ``dtype``, or, where that is None, in the dtype that floating arithmetic has for it."""
        floating = term.dtype if term.dtype in (DType.FLOAT, DType.DOUBLE) else DType.FLOAT
        wanted = dtype or floating
        return term if term.dtype is wanted else self.cast(term, dtype=wanted)


@dataclass(frozen=True, slots=True, kw_only=True)
class LibraryComposite:
    """One composite of the library. ``example`` is a call as :class:`~fusebuild.ops.op_def.OpDef` has it, and
    ``results`` says how many the example gives; ``section`` is the module that it stands in."""

    name: str
    parameters: tuple[Parameter, ...]
    function: Callable[..., Any]
    doc: str
    example: str
    section: str
    results: int = 1

    @property
    def operands(self) -> tuple[Parameter, ...]:
        return tuple(parameter for parameter in self.parameters if parameter.kind == "value")

    def record(
        self, recorder: Recorder, operands: Mapping[str, Sequence[Value]], named: Mapping[str, Attribute]
    ) -> tuple[Value, ...]:
        """Record a call. ``operands`` has the values of those that are given, by parameter. Raises
        :class:`~fusebuild.ops.type_rules.TypeRuleError`."""
        ops = Ops(recorder, self)
        terms = {name: [Term(ops, value) for value in values] for name, values in operands.items()}
        single = {parameter.name for parameter in self.operands}
        given = {name: each[0] if name in single else each for name, each in terms.items()}
        try:
            results = self.function(ops, **given, **named)
        except TypeRuleError as error:
            if error.message.startswith(self.name):
                raise
            raise TypeRuleError(f"{self.name}: {error.message}", error.hint) from None
        return tuple(each.value for each in (results if isinstance(results, tuple | list) else [results]))


LIBRARY: dict[str, LibraryComposite] = {}
"""Every composite of the library by name, in the order in which the documentation lists them."""


def library(example: str, *, results: int = 1) -> Callable[[Function], Function]:
    """Put a function into :data:`LIBRARY`; its docstring is what the reference says of it."""

    def register(function: Function) -> Function:
        name = function.__name__
        if name in OPS or name in LIBRARY:
            raise ValueError(f"'{name}' is there already")
        parameters = [*inspect.signature(function).parameters.values()][1:]
        LIBRARY[name] = LibraryComposite(
            name=name,
            parameters=tuple(map(_parameter, parameters)),
            function=function,
            doc=" ".join((function.__doc__ or "").split()),
            example=example,
            section=function.__module__.rpartition(".")[2],
            results=results,
        )
        return function

    return register


def _parameter(parameter: inspect.Parameter) -> Parameter:
    kind = _KINDS[parameter.annotation.removesuffix(" | None")]
    default = REQUIRED if parameter.default is parameter.empty else parameter.default
    return Parameter(name=parameter.name, kind=kind, default=default)
