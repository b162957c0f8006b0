"""``fd.ops``: every op of :data:`fusebuild.ops.table.OPS`, called as nvFuser's Python frontend calls it, and the
composites of :data:`fusebuild.ops.library.LIBRARY`, called as torch's functions are.

Parameters go by the names of ``OPS`` or by nvFuser's own (``arg``, ``arg1``, ``keep_dim``, ``axes``, ``output_shape``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fusebuild.definition.recorder import DefinitionRecorder, caller
from fusebuild.definition.values import DataType, Scalar, Tensor, Vector
from fusebuild.errors import Diagnostic, RecipeError, counted, nearest
from fusebuild.ir.values import Attribute, Value
from fusebuild.ops.library import LIBRARY, LibraryComposite
from fusebuild.ops.table import OPERANDS, OPS, REQUIRED, OpDef, Parameter
from fusebuild.ops.type_rules import TypeRuleError
from fusebuild.ops.vocabulary import meant

_OTHER_NAMES = {"keep_dim": "keepdim", "dim": "dims", "axis": "dims", "axes": "dims", "output_shape": "shape",
                "dims": "permutation", "new_shape": "shape", "widths": "pad_widths"}  # fmt: skip
_STATISTICS_ORDER = ("x", "dims", "correction", "keepdim")
_ORDER = {
    "var": _STATISTICS_ORDER,
    "var_mean": _STATISTICS_ORDER,
    "uniform": ("minval", "maxval", "shape", "dtype", "rng_seed", "rng_offset"),
}
"""Where nvFuser's positional arguments come in another order than in ``OPS``."""
_NULL_ONLY = ("max", "min")
"""Ops that have a dtype in nvFuser's signature and none here: they keep their operand's."""


class UnknownOpError(RecipeError, AttributeError):
    """``fd.ops`` has no such op."""


class Ops:
    """The ops of one definition."""

    def __init__(self, recorder: DefinitionRecorder) -> None:
        self._recorder = recorder

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self._names():
            message = f"unknown op '{name}'"
            raise UnknownOpError([Diagnostic(location=caller(), message=message, hint=meant(name, self.__dir__()))])
        return partial(self._call, OPS[name]) if name in OPS else partial(self._compose, LIBRARY[name])

    def __dir__(self) -> list[str]:
        return sorted({*self._names(), "shape"})

    @staticmethod
    def _names() -> set[str]:
        """Every composite, and every op but those that combine with a lambda: only recipes can write one."""
        return {*LIBRARY, *(op.name for op in OPS.values() if not op.is_generalized)}

    def size(self, arg: Tensor, dim: int) -> Scalar:
        """The size of ``dim`` of ``arg``."""
        return arg.size(dim)

    def shape(self, arg: Tensor) -> Vector:
        """The sizes of all dims of ``arg``."""
        return arg.shape()

    def _call(self, op: OpDef, *args: object, **keywords: object) -> Any:
        """Record ``op``; a tuple of handles when it has several results. Raises :class:`RecipeError`."""
        with self._recorder.recording():
            bound = _bind(op, args, keywords)
            named = {
                parameter.name: self._attribute(op, parameter, bound[parameter.name])
                for parameter in op.parameters
                if parameter.kind not in OPERANDS and not _is_absent(bound.get(parameter.name))
            }
            operands = [
                self._recorder.operand(op.name, each)
                for parameter in op.parameters
                if parameter.kind in OPERANDS
                for each in _operands(op, parameter, bound.get(parameter.name, parameter.default))
            ]
            values = self._recorder.call(op.name, operands, named)
            shapes = [parameter.name for parameter in op.parameters if parameter.kind in ("shape", "extent")]
            if len(shapes) == 1:
                self._recorder.note_written(values[0], bound[shapes[0]])
            results = [self._recorder.handle(value) for value in values]
            return results[0] if len(results) == 1 else tuple(results)

    def _compose(self, known: LibraryComposite, *args: object, **keywords: object) -> Any:
        """Record a composite of the library, as :meth:`_call` records an op."""
        recorder = self._recorder
        with recorder.recording() as place:
            bound = _bind(known, args, keywords)
            given = [each for each in known.parameters if not _is_absent(bound.get(each.name))]
            named = {each.name: self._attribute(known, each, bound[each.name])
                     for each in given if each.kind not in OPERANDS}  # fmt: skip
            operands = {
                each.name: [recorder.operand(known.name, item) for item in _operands(known, each, bound[each.name])]
                for each in given
                if each.kind in OPERANDS
            }
            recorder.builder.open_composite(known.name, [each for items in operands.values() for each in items], place)
            results: tuple[Value, ...] = ()
            try:
                results = known.record(recorder, operands, named)
            finally:
                recorder.builder.close_composite(results)
            handles = [recorder.handle(value) for value in results]
            return handles[0] if len(handles) == 1 else tuple(handles)

    def _attribute(self, op: OpDef | LibraryComposite, parameter: Parameter, argument: object) -> Attribute:
        """``argument`` as what ``parameter`` takes."""
        if parameter.kind == "shape":
            return self._recorder.extents_of(op.name, argument)
        if parameter.kind == "extent":
            return self._recorder.extent_of(op.name, argument)
        return _READERS[parameter.kind](f"{op.name}: {parameter.name}", argument)


def _bind(op: OpDef | LibraryComposite, args: Sequence[object], keywords: Mapping[str, object]) -> dict[str, object]:
    """Arguments by the parameter names of ``op``."""
    order = list(_ORDER.get(op.name, [parameter.name for parameter in op.parameters]))
    order += ["dtype"] if op.name in _NULL_ONLY else []
    if len(args) > len(order):
        raise TypeRuleError(f"{op.name} takes {counted(len(order), 'argument')}, not {len(args)}", _signature(op))
    bound = dict(zip(order, args, strict=False))
    for keyword, argument in keywords.items():
        name = _own_name(op, keyword, order)
        if name not in order:
            raise TypeRuleError(f"{op.name} has no argument '{keyword}'", nearest(keyword, order) or _signature(op))
        if name in bound:
            raise TypeRuleError(f"{op.name}: the argument '{name}' is given twice", _signature(op))
        bound[name] = argument
    if op.name in _NULL_ONLY and not _is_absent(bound.pop("dtype", None)):
        raise TypeRuleError(f"{op.name} keeps the dtype of its operand", "cast the operand or the result")
    for parameter in op.parameters:
        is_missing = parameter.name not in bound or (
            parameter.kind in ("dtype", "value") and _is_absent(bound[parameter.name])
        )
        if parameter.default is REQUIRED and is_missing:
            raise TypeRuleError(f"{op.name} needs the argument '{parameter.name}'", _signature(op))
    return bound


def _signature(op: OpDef | LibraryComposite) -> str:
    """The signature as a hint."""
    from fusebuild.recipe.calls import signature  # imports YAML, which recording does not need

    return f"the signature is {signature(op)}"


def _own_name(op: OpDef | LibraryComposite, keyword: str, order: Sequence[str]) -> str:
    """The parameter that nvFuser calls ``keyword``."""
    operands = [parameter.name for parameter in op.operands]
    if keyword in order:
        return keyword
    if keyword == "arg" and operands:
        return operands[0]
    number = keyword.removeprefix("arg")
    if keyword.startswith("arg") and number.isdecimal() and 1 <= int(number) <= len(operands):
        return operands[int(number) - 1]
    return _OTHER_NAMES.get(keyword, keyword)


def _operands(op: OpDef | LibraryComposite, parameter: Parameter, given: object) -> Sequence[object]:
    """The operands that ``given`` stands for: a list of them for some parameters, none where one is left out."""
    if parameter.kind == "value":
        if not _is_absent(given):
            return [given]
        return [] if parameter.default is None else [parameter.default]
    if not isinstance(given, Sequence) or not given:
        raise TypeRuleError(f"{op.name}: {parameter.name} must be a list of tensors")
    return given


def _is_absent(argument: object) -> bool:
    return argument is None or argument is DataType.Null


def _dims(what: str, argument: object) -> Attribute:
    items = [argument] if isinstance(argument, int) else argument
    if not isinstance(items, Sequence) or not all(type(dim) is int for dim in items):
        raise TypeRuleError(f"{what} must be a list of integers")
    return tuple(items)


def _mask(what: str, argument: object) -> Attribute:
    flags = tuple(argument) if isinstance(argument, Sequence) and not isinstance(argument, str) else ()
    if not flags or not all(isinstance(flag, bool) for flag in flags):
        raise TypeRuleError(f"{what} must be a list of True and False")
    return flags


def _reader(type_: type, shown: str) -> Callable[[str, object], Attribute]:
    def read(what: str, argument: object) -> Attribute:
        if type(argument) is not type_:
            raise TypeRuleError(f"{what} must be {shown}, not {argument!r}")
        return argument.value if isinstance(argument, DataType) else argument

    return read


_READERS: dict[str, Callable[[str, object], Attribute]] = {
    "dims": _dims,
    "mask": _mask,
    "dtype": _reader(DataType, "a DataType"),
    "bool": _reader(bool, "True or False"),
    "int": _reader(int, "an integer"),
    "text": _reader(str, "a text"),
}
