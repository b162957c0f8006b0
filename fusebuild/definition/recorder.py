"""Recording a definition: locations of the author's calls, symbols of unknown sizes, and what makes them known.

A dim given as -1 gets a symbol of its own. nvFuser takes it that operands of one op fit each other, and so does this:
where two sizes meet in an op (or in an output and the input that it overwrites), a symbol that meets another becomes
the earlier one, and a symbol that meets a number other than 1 becomes that number, everywhere. A symbol never becomes
1: a dim that may be broadcast is declared as 1. What does not hold for the arguments of a call is found when it runs.
"""

from __future__ import annotations

import itertools
import linecache
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import CodeType, FrameType
from typing import Any

from fusebuild.definition.values import DataType, Operand, Scalar, Tensor, Vector
from fusebuild.errors import RecipeError, SourceLocation
from fusebuild.ir.dtype import SCALAR_DTYPES, DType
from fusebuild.ir.formula import Formula, substitute
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import Literal, TensorType, VectorType, tensor_type
from fusebuild.ir.values import Attribute, Value, in_sizes
from fusebuild.ops.builder import FusionBuilder
from fusebuild.ops.table import OPS, Kind
from fusebuild.ops.type_rules import TypeRuleError


def caller() -> SourceLocation:
    """The call in the author's own code that led here: file, line and, where Python knows them, columns."""
    frame = sys._getframe(1)
    while frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    path, line = frame.f_code.co_filename, frame.f_lineno
    text = linecache.getline(path, line, frame.f_globals).rstrip("\n")
    column, width = _columns(frame.f_code, frame.f_lasti, line, text)
    return SourceLocation(path=_shown(path), line=line, column=column, text=text, width=width)


def _is_ours(frame: FrameType) -> bool:
    """Whether ``frame`` is of the recorder, of the library's composites, or of the context manager that it uses."""
    module = str(frame.f_globals.get("__name__"))
    return module == "contextlib" or module.startswith(("fusebuild.definition", "fusebuild.ops.library"))


def _columns(code: CodeType, instruction: int, line: int, text: str) -> tuple[int, int]:
    """``(column, width)`` of the expression that ``instruction`` belongs to; the whole line where it is not known."""
    position = next(itertools.islice(code.co_positions(), instruction // 2, None), (None,) * 4)
    first, last, start, end = position
    if first != line or start is None or end is None or not text:
        indent = len(text) - len(text.lstrip())
        return indent + 1, max(len(text) - indent, 1)
    encoded = text.encode()  # columns of code objects count bytes
    column = len(encoded[:start].decode(errors="replace"))
    stop = len(encoded[:end].decode(errors="replace")) if last == line else len(text)
    return column + 1, max(stop - column, 1)


def _shown(path: str) -> str:
    """``path`` relative to the working folder when it lies below it."""
    relative = os.path.relpath(path) if os.path.isabs(path) else path
    return path if relative.startswith(os.pardir) else relative


def shape_problem(op: str, extent: int) -> str:
    """Why ``extent`` can be no size in a shape of ``op``, or an empty string."""
    return f"{op}: the extent is {extent}, less than 0" if extent < 0 and (op, extent) != ("expand", -1) else ""


class DefinitionRecorder:
    """Records into a :class:`FusionBuilder`; a :class:`TypeRuleError` becomes a :class:`RecipeError` at the call.

    ``written`` has, by result, what the author wrote where a Fusion keeps only extents (see ``PythonText``). ``drawn``
    has the fids of the seeds and offsets that no author gave: callers do not pass these seeds, each call draws them.
    """

    def __init__(self, name: str) -> None:
        self.builder = FusionBuilder(name)
        self.written: dict[int, str] = {}
        self.drawn: set[int] = set()
        self.is_open = True
        self._extents: dict[int, tuple[Formula, ...]] = {}
        self._became: dict[str, Formula] = {}  # what each symbol that is no more has become
        self._symbols = 0

    @contextmanager
    def recording(self) -> Iterator[SourceLocation]:
        """The location of the author's call. Raises :class:`RecipeError` there for what the type rules refuse."""
        place = caller()
        try:
            if not self.is_open:
                hint = "record everything before the first use, inside 'with FusionDefinition() as fd'"
                raise TypeRuleError("the definition is finished", hint)
            yield place
        except TypeRuleError as error:
            raise RecipeError.at(place, error.message, error.hint) from None

    def value(self, fid: int) -> Value:
        return self.builder.values[fid]

    def handle(self, value: Value) -> Any:
        """A handle for ``value``: a :class:`Tensor` or a :class:`Scalar`."""
        return Tensor(self, value.fid) if value.is_tensor else Scalar(self, value.fid)

    def fresh_symbol(self) -> str:
        self._symbols += 1
        return f"i{self._symbols - 1}"

    def own(self, operand: Operand | Vector) -> Value:
        """The value of a handle; a handle of another definition is refused."""
        if operand._recorder is not self:
            raise TypeRuleError(f"{operand!r} belongs to another definition")
        return self.value(operand.index)

    def operand(self, op: str, argument: object) -> Value:
        """``argument`` as a value: a handle's, or a new constant."""
        if isinstance(argument, Operand):
            return self.own(argument)
        if isinstance(argument, bool | int | float):
            return self.constant(argument, None)
        what = "a vector" if isinstance(argument, Vector) else type(argument).__name__
        raise TypeRuleError(f"{op} takes tensors, scalars and numbers, not {what}")

    def constant(self, literal: Literal, dtype: DType | None = None) -> Value:
        """A constant at the author's call, checked as recipes check theirs."""
        _require_scalar_dtype(dtype)
        if not isinstance(literal, float):
            wide = dtype if dtype is not None and dtype.is_integer else DType.INT64
            if not wide.lowest <= literal <= wide.highest:
                raise TypeRuleError(f"the integer {literal} does not fit {8 * wide.bytes} bits")
        if dtype is DType.BOOL and not isinstance(literal, float):
            literal = bool(literal)
        return self.builder.constant(literal, dtype=dtype, location=caller())

    def argument(self, dtype: DType) -> Value:
        """A scalar given at run time."""
        _require_scalar_dtype(dtype)
        return self.builder.scalar(dtype, location=caller())

    def drawn_seed(self) -> list[Value]:
        """The seed and the offset of a random op that was given neither, each with a fid."""
        values = [self.argument(DType.INT64), self.constant(0, None)]
        self.drawn |= {value.fid for value in values}
        return values

    def operate(self, op: str, *operands: object) -> Any:
        """What an operator records."""
        with self.recording():
            values = [self.operand(op, operand) for operand in operands]
            return self.handle(self.call(op, values, {})[0])

    def call(self, op: str, operands: Sequence[Value], named: Mapping[str, Attribute]) -> tuple[Value, ...]:
        """Record ``op`` after making the sizes that meet in it equal."""
        for a, b in self._meetings(op, [operand.type for operand in operands], named):
            self.unify(a, b)
        current = [self.value(operand.fid) for operand in operands]
        return self.builder.call(op, current, self._renewed(named), location=caller())

    def size(self, tensor: Tensor, dim: int) -> Scalar:
        """``fd.ops.size``: a scalar with the extent of ``dim``."""
        with self.recording():
            type_ = self.own(tensor).tensor
            if isinstance(dim, bool) or not isinstance(dim, int) or not -type_.rank <= dim < type_.rank:
                raise TypeRuleError(f"size: dim {dim!r} is out of range for a tensor of rank {type_.rank}")
            result = self.call("size", [], {"extent": type_.shape[dim]})[0]
            self.written[result.fid] = f"T{tensor.index}, dim={dim % type_.rank}"
            return Scalar(self, result.fid)

    def shape(self, tensor: Tensor) -> Vector:
        """``fd.ops.shape``: a vector with all extents."""
        with self.recording() as place:
            extents = self.own(tensor).tensor.shape
            value = self.builder.add_value(VectorType(dtype=DType.INT64, length=len(extents)), location=place)
            self._extents[value.fid] = extents
            self.written[value.fid] = f"T{tensor.index}"
            return Vector(self, value.fid, len(extents))

    def vector(self, items: Sequence[object], dtype: DType) -> Vector:
        """``fd.define_vector``: numbers among ``items`` become constants first."""
        scalars = [
            self.own(item) if isinstance(item, Scalar) else self.constant(_require_int(item), dtype) for item in items
        ]
        value = self.builder.add_value(
            VectorType(dtype=dtype, length=len(scalars)),
            location=caller(),
            literal=tuple(scalar.fid for scalar in scalars),
        )
        return Vector(self, value.fid, len(scalars))

    def note_written(self, result: Value, argument: object) -> None:
        """Remember the shape or length that ``result`` was recorded with."""
        self.written[result.fid] = _by_fid(argument)

    def extents_of(self, op: str, shape: object) -> tuple[Formula, ...]:
        """A vector, or a list of integers and scalars, as the extents of a shape."""
        if isinstance(shape, Vector):
            value = self.own(shape)
            if value.fid in self._extents:
                return self._extents[value.fid]
            assert isinstance(value.literal, tuple)
            return tuple(self._extent(op, self.value(fid)) for fid in value.literal)
        if not isinstance(shape, Iterable) or isinstance(shape, str | Operand):
            raise TypeRuleError(f"{op}: shape must be a vector, or a list of integers and scalars")
        return tuple(self.extent_of(op, item) for item in shape)

    def extent_of(self, op: str, item: object) -> Formula:
        """An integer, a constant or a size as an extent."""
        if isinstance(item, Scalar):
            return self._extent(op, self.own(item))
        number = _require_int(item)
        if problem := shape_problem(op, number):
            raise TypeRuleError(problem)
        return number

    def _extent(self, op: str, scalar: Value) -> Formula:
        if isinstance(scalar.literal, int) and not isinstance(scalar.literal, bool):
            return self.extent_of(op, scalar.literal)
        source = next((expr for expr in self.builder.exprs if scalar.fid in expr.outputs), None)
        if source is not None and source.op == "size":
            extent: Formula = source.attribute("extent")
            return extent
        raise TypeRuleError(
            f"{op}: {scalar.name} is no size that is known before the call",
            hint="a shape is made of integers, constant integer scalars and sizes of tensors: t.size(0)",
        )

    def _meetings(
        self, op: str, types: Sequence[object], named: Mapping[str, Attribute]
    ) -> list[tuple[Formula, Formula]]:
        """The pairs of extents that have to be equal for ``op``. Its type rule asks the same and cannot be asked here:
        it refuses two symbols that differ, where this makes them one."""
        tensors = [type_ for type_ in types if isinstance(type_, TensorType)]
        if OPS[op].kind is Kind.POINTWISE:
            return _aligned(tensors)
        if OPS[op].kind is Kind.LIBRARY:
            return _multiplied(op, tensors)
        if op in ("cat", "take_along_axis", "gather"):
            return _joined(tensors, named["dim"])
        if op in ("scatter", "scatter_add"):
            return [*_joined(tensors[:2], named["dim"]), *_alike(tensors[1:])]
        if op in ("index_copy", "index_add", "index_put", "index_put_accumulate"):
            return _put(tensors, named.get("dim", 0))
        if op not in ("broadcast_in_dim", "expand") or not tensors:
            return []
        shape, source = named["shape"], tensors[0].shape
        positions = named["broadcast_dims"] if op == "broadcast_in_dim" else range(len(shape))
        if len(positions) != len(source) or any(not 0 <= position < len(shape) for position in positions):
            return []  # the type rule says what is wrong
        targets = [shape[position] for position in positions]
        return [(a, b) for a, b in zip(source, targets, strict=True) if a != 1 and b not in (-1, 1)]

    def unify(self, a: Formula, b: Formula) -> None:
        """Make ``a`` and ``b`` equal where one is a symbol and neither is 1; two numbers are left to the type rules,
        and so are formulas, since no input has a computed dim."""
        a, b = self._now(a), self._now(b)
        if a == b or 1 in (a, b):
            return
        if isinstance(a, str) and isinstance(b, str):
            kept, dropped = sorted((a, b), key=_symbol_number)
            self._substitute({dropped: kept})
            return
        symbol, other = (a, b) if isinstance(a, str) else (b, a)
        if isinstance(symbol, str) and isinstance(other, int):
            self._substitute({symbol: other})

    def _now(self, extent: Formula) -> Formula:
        """``extent`` with what its symbol has become since it was read."""
        return substitute(extent, self._became)

    def _renewed(self, named: Mapping[str, Attribute]) -> dict[str, Attribute]:
        return {name: in_sizes(value, self._became) for name, value in named.items()}

    def _substitute(self, known: Mapping[str, Formula]) -> None:
        for symbol, extent in self._became.items():
            self._became[symbol] = known.get(extent, extent) if isinstance(extent, str) else extent
        self._became.update(known)
        builder = self.builder
        builder.values = {fid: value.substituted(known) for fid, value in builder.values.items()}
        builder.exprs = [expr.substituted(known) for expr in builder.exprs]
        self._extents = {fid: in_sizes(extents, known) for fid, extents in self._extents.items()}

    def snapshot(self) -> Fusion:
        """The Fusion recorded so far, its symbols numbered in order of the inputs' dims."""
        fusion = self.builder.finish()
        symbols = dict.fromkeys(binding.extent for binding in fusion.extents if isinstance(binding.extent, str))
        renamed: dict[str, Formula] = {symbol: f"i{number}" for number, symbol in enumerate(symbols)}
        return replace(
            fusion,
            values={fid: value.substituted(renamed) for fid, value in fusion.values.items()},
            exprs=tuple(expr.substituted(renamed) for expr in fusion.exprs),
        )


def _by_fid(argument: object) -> str:
    """A shape or a size as text in which handles are named by their fids."""
    if isinstance(argument, Vector | Scalar):
        return f"{'V' if isinstance(argument, Vector) else 'S'}{argument.index}"
    return f"[{', '.join(map(_by_fid, argument))}]" if isinstance(argument, Iterable) else str(argument)


def _require_scalar_dtype(dtype: DType | None) -> None:
    if dtype is not None and dtype not in SCALAR_DTYPES:
        known = ", ".join(DataType(each).name for each in SCALAR_DTYPES)
        raise TypeRuleError(f"a scalar cannot be {DataType(dtype).name}", hint=f"scalars are {known}")


def _require_int(item: object) -> int:
    if isinstance(item, bool) or not isinstance(item, int):
        what = repr(item) if isinstance(item, Operand | bool | float) else type(item).__name__
        raise TypeRuleError(f"a size is an integer or a scalar, not {what}")
    return item


def _symbol_number(symbol: str) -> int:
    return int(symbol.removeprefix("i"))


def _aligned(tensors: Sequence[TensorType]) -> list[tuple[Formula, Formula]]:
    """Extents other than 1 that share a dim, counted from the right, pairwise."""
    pairs: list[tuple[Formula, Formula]] = []
    for dim in range(1, max((tensor.rank for tensor in tensors), default=0) + 1):
        extents = [tensor.shape[-dim] for tensor in tensors if tensor.rank >= dim and tensor.shape[-dim] != 1]
        pairs += itertools.pairwise(extents)
    return pairs


def _joined(tensors: Sequence[TensorType], dim: object) -> list[tuple[Formula, Formula]]:
    """The extents of all dims but ``dim``, along which ``cat`` joins its operands and an index reads, pairwise."""
    rank = tensors[0].rank
    if not isinstance(dim, int) or not -rank <= dim < rank or any(tensor.rank != rank for tensor in tensors):
        return []  # the type rule says what is wrong
    others = [other for other in range(rank) if other != dim % rank]
    return [pair for other in others for pair in itertools.pairwise(tensor.shape[other] for tensor in tensors)]


def _alike(tensors: Sequence[TensorType]) -> list[tuple[Formula, Formula]]:
    """The extents of all dims, pairwise, of tensors of one rank."""
    if len({tensor.rank for tensor in tensors}) > 1:
        return []  # the type rule says what is wrong
    return [pair for extents in zip(*(tensor.shape for tensor in tensors), strict=True)
            for pair in itertools.pairwise(extents)]  # fmt: skip


def _put(tensors: Sequence[TensorType], dim: object) -> list[tuple[Formula, Formula]]:
    """The extents of rows and of what is written to them, whose dim ``dim`` is that of the index."""
    if len(tensors) < 3 or not isinstance(dim, int) or not -tensors[0].rank <= dim < tensors[0].rank:
        return []  # a number is written, or the type rule says what is wrong
    (shape, index, own), at = (tensor.shape for tensor in tensors), dim % tensors[0].rank
    wanted = (*shape[:at], *index, *shape[at + 1 :])
    return [*zip(wanted, own, strict=True)] if len(wanted) == len(own) else []


def _multiplied(op: str, tensors: Sequence[TensorType]) -> list[tuple[Formula, Formula]]:
    """The extents that a matrix product sums over, or adds its bias along, and those of the batches."""
    if len(tensors) < 2 or any(tensor.rank == 0 for tensor in tensors):
        return []  # the type rule says what is wrong
    left, right, *bias = (tensor.shape for tensor in tensors)
    if op == "linear":
        return [(left[-1], right[-1]), *((right[0], added[0]) for added in bias)]
    batches = [tensor_type(tensor.dtype, tensor.shape[:-2]) for tensor in tensors]
    return [(left[-1], right[0] if len(right) == 1 else right[-2]), *_aligned(batches)]
