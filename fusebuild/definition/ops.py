"""``fd.ops``: every op of :data:`fusebuild.ops.table.OPS`, called as nvFuser's Python frontend calls it, and the
composites of :data:`fusebuild.ops.library.LIBRARY`, called as torch's functions are.

Parameters go by the names of ``OPS`` or by nvFuser's own (``arg``, ``arg1``, ``keep_dim``, ``axes``, ``output_shape``).
Arguments that nvFuser's ops have and those of ``OPS`` have not are in :mod:`fusebuild.definition.spellings`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from fusebuild.definition.recorder import DefinitionRecorder, caller
from fusebuild.definition.spellings import AS_IN_OPS, SPELLINGS, Spelling, is_absent
from fusebuild.definition.values import DataType, Scalar, Tensor, Vector
from fusebuild.errors import Diagnostic, RecipeError, counted, nearest
from fusebuild.ir.values import Attribute, Value
from fusebuild.ops.library import LIBRARY, LibraryComposite
from fusebuild.ops.table import OPERANDS, OPS, REQUIRED, OpDef, Parameter
from fusebuild.ops.type_rules import TypeRuleError
from fusebuild.ops.vocabulary import meant

_OTHER_NAMES = {"keep_dim": "keepdim", "dim": "dims", "axis": "dims", "axes": "dims", "output_shape": "shape",
                "dims": "permutation", "new_shape": "shape", "widths": "pad_widths"}  # fmt: skip

_SEEDS = ("rng_seed", "rng_offset")
"""The last operands of random ops. Where a caller gives none, each call of the definition draws a seed."""
_DTYPE_SECOND = ("sum", "prod", "max", "min")
"""Reductions over all dims, which nvFuser also calls with a dtype as the second argument."""


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
        if name in LIBRARY:
            return partial(self._compose, LIBRARY[name])
        spelling = SPELLINGS.get(name, AS_IN_OPS)
        return partial(self._call, OPS[spelling.op or name], spelling)

    def __dir__(self) -> list[str]:
        return sorted({*self._names(), "select", "shape", "stride_order"})

    @staticmethod
    def _names() -> set[str]:
        """Every composite, and every op but those that combine with a lambda: only recipes can write one."""
        return {*LIBRARY, *SPELLINGS, *(op.name for op in OPS.values() if not op.is_generalized)}

    def size(self, arg: Tensor, dim: int) -> Scalar:
        """The size of ``dim`` of ``arg``."""
        return arg.size(dim)

    def shape(self, arg: Tensor) -> Vector:
        """The sizes of all dims of ``arg``."""
        return arg.shape()

    def select(self, arg: Tensor, index: Scalar | int, dim: int) -> Tensor:
        """The elements of ``arg`` that are number ``index`` along ``dim``, which the result does not have. Recorded as
        ``full``, ``index_select`` and ``squeeze``, each with a fid."""
        with self._recorder.recording():
            place = self.full([1], index, DataType.Int)
            result: Tensor = self.squeeze(self.index_select(arg, place, dim), [dim])
            return result

    def stride_order(self, arg: Tensor, stride_order: Sequence[int]) -> Tensor:
        """``arg``, which lies in memory as ``stride_order`` says where it is an output: the place of each dim, 0 the
        innermost. Recorded as ``set``."""
        with self._recorder.recording():
            result: Tensor = self.set(arg)
            self._recorder.note_order(result, stride_order)
            return result

    def _call(self, op: OpDef, spelling: Spelling, *args: object, **keywords: object) -> Any:
        """Record ``op``; a tuple of handles when it has several results. Raises :class:`RecipeError`."""
        with self._recorder.recording():
            bound = _bind(op, spelling, args, keywords)
            said = dict(bound)
            spelling.prepare(self, bound)
            for name, meaning in spelling.more.items():
                if not is_absent(given := bound.pop(name, None)):
                    meaning(self, bound, given)
            is_drawn = op.is_random and is_absent(bound.get("rng_seed"))
            if is_drawn and not is_absent(bound.get("rng_offset")):
                raise TypeRuleError(f"{op.name}: rng_offset is given without rng_seed", "give both or neither")
            operands = [
                self._recorder.operand(op.name, each)
                for parameter in op.parameters
                if parameter.kind in OPERANDS and not (is_drawn and parameter.name in _SEEDS)
                for each in _operands(op, parameter, bound.get(parameter.name, parameter.default))
            ]
            operands += self._recorder.drawn_seed() if is_drawn else []
            named = {
                parameter.name: self._attribute(op, parameter, bound[parameter.name])
                for parameter in op.parameters
                if parameter.kind not in OPERANDS and not is_absent(bound.get(parameter.name))
            }
            values = self._recorder.call(op.name, operands, named)
            for parameter in op.parameters:
                if parameter.kind in ("shape", "extent") and not is_absent(given := bound.get(parameter.name)):
                    self._recorder.note_written(values[0], parameter.name, given)
            results = [self._recorder.handle(value) for value in values]
            return spelling.finish(self, said, results[0] if len(results) == 1 else tuple(results))

    def _compose(self, known: LibraryComposite, *args: object, **keywords: object) -> Any:
        """Record a composite of the library, as :meth:`_call` records an op."""
        recorder = self._recorder
        with recorder.recording() as place:
            bound = _bind(known, AS_IN_OPS, args, keywords)
            given = [each for each in known.parameters if not is_absent(bound.get(each.name))]
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
        if parameter.kind == "int" and isinstance(argument, Scalar):
            known = self._recorder.own(argument).literal
            argument = argument if known is None else known
        return _READERS[parameter.kind](f"{op.name}: {parameter.name}", argument)


def _bind(
    op: OpDef | LibraryComposite, spelling: Spelling, args: Sequence[object], keywords: Mapping[str, object]
) -> dict[str, object]:
    """Arguments by the parameter names of ``op``, and those that only ``spelling`` has."""
    order = [*(spelling.order or [parameter.name for parameter in op.parameters]), *spelling.more]
    if op.name in _DTYPE_SECOND and len(args) == 2 and isinstance(args[1], DataType):
        args, keywords = args[:1], {"dtype": args[1], **keywords}
    if len(args) > len(order):
        raise TypeRuleError(f"{op.name} takes {counted(len(order), 'argument')}, not {len(args)}", _signature(op))
    bound = {**spelling.defaults, **dict(zip(order, args, strict=False))}
    given = {*order[: len(args)]}
    for keyword, argument in keywords.items():
        name = spelling.names.get(keyword) or _own_name(op, keyword, order)
        if name not in order:
            raise TypeRuleError(f"{op.name} has no argument '{keyword}'", nearest(keyword, order) or _signature(op))
        if name in given:
            raise TypeRuleError(f"{op.name}: the argument '{name}' is given twice", _signature(op))
        bound[name] = argument
        given.add(name)
    for parameter in op.parameters:
        if parameter.default is not REQUIRED or parameter.name == "rng_seed":
            continue
        is_empty = parameter.kind in ("dtype", "value") and is_absent(bound.get(parameter.name))
        if parameter.name not in bound or is_empty:
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
        if not is_absent(given):
            return [given]
        return [] if parameter.default is None else [parameter.default]
    if not isinstance(given, Sequence) or not given:
        raise TypeRuleError(f"{op.name}: {parameter.name} must be a list of tensors")
    return given


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
