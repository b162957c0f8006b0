"""Recording a definition: locations of the author's calls, symbols of unknown sizes, and what makes them known.

A dim given as -1 gets a symbol of its own. nvFuser takes it that operands of one op fit each other, and so does this:
where two sizes meet in an op (or in an output and the input that it overwrites), a symbol that meets another becomes
the earlier one, and a symbol that meets a number other than 1, or a size computed from others, becomes that,
everywhere. A symbol never becomes 1: a dim that may be broadcast is declared as 1. What does not hold for the arguments
of a call is found when it runs.
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

from fusebuild.definition.reshaping import reshaping, told_by_rest
from fusebuild.definition.sizes import size_of
from fusebuild.definition.text import RULER, Written
from fusebuild.definition.values import DataType, Operand, Scalar, Tensor, Vector
from fusebuild.errors import RecipeError, SourceLocation, counted
from fusebuild.ir.dtype import SCALAR_DTYPES, DType
from fusebuild.ir.formula import Formula, substitute, symbols
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import Literal, ScalarType, TensorType, ValueType, VectorType, tensor_type
from fusebuild.ir.values import Attribute, Value, in_sizes
from fusebuild.ops.builder import FusionBuilder, in_normal_form, literal_dtype
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
    is_left_out = extent == -1 and op in ("expand", "reshape")
    return f"{op}: the extent is {extent}, less than 0" if extent < 0 and not is_left_out else ""


class DefinitionRecorder:
    """Records into a :class:`FusionBuilder`; a :class:`TypeRuleError` becomes a :class:`RecipeError` at the call.

    ``written`` has, by result and parameter, what the author wrote where a Fusion keeps only extents (see
    ``PythonText``), and ``unfinished`` by the result of an op what it was before it was given the author's dtype.
    ``drawn`` has the fids of the seeds and offsets that no author gave, and ``rulers`` the tensors
    that are as long as numbers of the call (:mod:`fusebuild.definition.sizes`), by fid, with the fid of the number:
    callers pass neither, each call makes them. ``laid_out`` has the outputs that are recorded with the outermost dim in
    memory first, by fid, with the permutation that gives them the author's dims.
    """

    def __init__(self, name: str) -> None:
        self.builder = FusionBuilder(name)
        self.written: dict[tuple[int, str], str] = {}
        self.unfinished: dict[int, int] = {}
        self.drawn: set[int] = set()
        self.rulers: dict[int, int] = {}
        self.laid_out: dict[int, tuple[int, ...]] = {}
        self._orders: dict[int, tuple[int, ...]] = {}
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

    @property
    def unwritten(self) -> set[int]:
        """The fids of what no author wrote."""
        return {*self.drawn, *self.rulers, *self.laid_out, *self.unfinished.values()}

    @property
    def as_written(self) -> Written:
        """What the author wrote."""
        return Written(arguments=self.written, hidden=self.unwritten, unfinished=self.unfinished)

    def value(self, fid: int) -> Value:
        return self.builder.values[fid]

    def handle(self, value: Value) -> Any:
        """A handle for ``value``: a :class:`Tensor` or a :class:`Scalar`."""
        return Tensor(self, value.fid) if value.is_tensor else Scalar(self, value.fid)

    def finished(self, before: Operand, result: Operand) -> Operand:
        """``result``, which is what an op that gave ``before`` gives its author."""
        self.unfinished[result.index] = before.index
        return result

    def type_of(self, argument: object) -> ValueType:
        """The type of ``argument`` as a value."""
        if isinstance(argument, bool | int | float):
            return ScalarType(dtype=literal_dtype(argument))
        return self.operand("", argument).type

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
        if op == "reshape" and operands[0].is_tensor:
            named = {"shape": self._reshaped(operands[0].tensor.shape, named["shape"])}
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
            self.written[result.fid, ""] = f"T{tensor.index}, dim={dim % type_.rank}"
            return Scalar(self, result.fid)

    def shape(self, tensor: Tensor) -> Vector:
        """``fd.ops.shape``: a vector with all extents."""
        with self.recording() as place:
            extents = self.own(tensor).tensor.shape
            value = self.builder.add_value(VectorType(dtype=DType.INT64, length=len(extents)), location=place)
            self._extents[value.fid] = extents
            self.written[value.fid, ""] = f"T{tensor.index}"
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

    def note_written(self, result: Value, parameter: str, argument: object) -> None:
        """Remember the shape or size that ``result`` was recorded with."""
        self.written[result.fid, parameter] = _by_fid(argument)

    def note_order(self, result: Tensor, stride_order: object) -> None:
        """Remember how ``result`` lies in memory where it is an output."""
        self._orders[result.index] = _order_of(stride_order, self.own(result).tensor.rank)

    def order_of(self, value: Value, stride_order: object) -> tuple[int, ...] | None:
        """How the output ``value`` lies in memory, by the author's ``stride_order`` where there is one; None for
        row-major."""
        rank = value.tensor.rank
        order = _order_of(stride_order, rank) if stride_order else self._orders.get(value.fid)
        return None if order == tuple(reversed(range(rank))) else order

    def lay_out(self, value: Value, order: Sequence[int]) -> None:
        """Make ``value`` an output whose dims lie in memory as ``order`` says."""
        outermost_first = tuple(sorted(range(len(order)), key=lambda dim: -order[dim]))
        (laid,) = self.call("permute", [value], {"permutation": outermost_first})
        self.laid_out[laid.fid] = tuple(outermost_first.index(dim) for dim in range(len(order)))
        self.written[laid.fid, "stride_order"] = f"T{value.fid}, stride_order={list(order)}"
        self.builder.output(laid, location=caller())

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
        extent = self.now(self.builder.algebra.canonical(size_of(self, op, scalar)))
        if isinstance(extent, int) and (problem := shape_problem(op, extent)):
            raise TypeRuleError(problem)
        return extent

    def is_size(self, scalar: Value) -> bool:
        """Whether ``scalar`` is surely 0 or more, whatever numbers a call gives: the greater of 0 and another, or made
        of sizes of tensors alone."""
        above = {scalar.fid}
        for expr in reversed(self.builder.exprs):
            if expr.op == "maximum" and scalar.fid in expr.outputs:
                return any(literal == 0 for literal in (self.value(fid).literal for fid in expr.inputs))
            above |= {*expr.inputs} if above & {*expr.outputs} else set()
        return not above & {*self.builder.inputs} and self.builder.algebra.is_nonnegative(self._extent("size", scalar))

    def ruler(self, scalar: Value) -> Formula:
        """The size that ``scalar`` is: the only dim of a tensor that each call makes."""
        own = [fid for fid, number in self.rulers.items() if number == scalar.fid]
        if own:
            return self.value(own[0]).tensor.shape[0]
        made = self._new_ruler()
        self.rulers[made.fid] = scalar.fid
        return self.builder.name_value(made, f"{RULER}{scalar.name}").tensor.shape[0]

    def _new_ruler(self) -> Value:
        return self.builder.tensor(DType.BOOL, [self.fresh_symbol()], contiguity=[None], location=caller())

    def _reshaped(self, old: Sequence[Formula], new: Sequence[Formula]) -> tuple[Formula, ...]:
        """The sizes of a reshape from ``old`` to ``new``, -1 among them told from the others, after making the numbers
        of elements equal."""
        sized = [self.now(extent) for extent in new]
        if told_by_rest(self.builder.algebra, old, sized):
            ruler = self._new_ruler()
            self.rulers[ruler.fid] = result = ruler.fid + 1  # it is recorded next
            self.builder.name_value(ruler, f"{RULER}t{result}")
            sized[sized.index(-1)] = ruler.tensor.shape[0]
        told = reshaping(self.builder.algebra, old, sized, self.fresh_symbol)
        self.builder.know_symbols(symbol for extent in told.known.values() for symbol in symbols(extent))
        known = told.known or (self._told_by(*told.equal) if told.equal else None)
        if known:
            self._substitute(known)
        elif told.equal:
            self.builder.relate(("eq", *told.equal))
        return tuple(map(self.now, told.shape))

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
        """Make ``a`` and ``b`` equal where a symbol can be told from the two, and neither is 1; what else differs is
        left to the type rules. Each symbol that is left is still the whole of a dim, or of one that is a multiple of
        it, and so is known at each call."""
        a, b = self.now(a), self.now(b)
        if self.builder.algebra.equal(a, b) or 1 in (a, b):
            return
        if isinstance(a, str) and isinstance(b, str):
            kept, dropped = sorted((a, b), key=_symbol_number)
            self._substitute({dropped: kept})
            return
        if (told := self._told_by(a, b)) is not None:
            self._substitute(told)

    def _told_by(self, a: Formula, b: Formula) -> dict[str, Formula] | None:
        """What the last symbol of which ``a == b`` tells it is; None where it tells none, or one less than 0."""
        algebra = self.builder.algebra
        for symbol in sorted({*symbols(a), *symbols(b)}, key=_symbol_number, reverse=True):
            line = algebra.line(("sub", a, b), symbol)
            if line is None or line[0] not in (1, -1) or line[2] != 1:
                continue
            told = algebra.product([-1 if line[0] == 1 else 1, line[1]])
            return None if isinstance(told, int) and told < 0 else {symbol: told}
        return None

    def now(self, extent: Formula) -> Formula:
        """``extent`` with what its symbol has become since it was read."""
        return substitute(extent, self._became)

    def _renewed(self, named: Mapping[str, Attribute]) -> dict[str, Attribute]:
        return {name: in_sizes(value, self._became) for name, value in named.items()}

    def _substitute(self, known: Mapping[str, Formula]) -> None:
        for symbol, extent in self._became.items():
            self._became[symbol] = substitute(extent, known)
        self._became.update(known)
        self.builder.substitute(known)
        self._extents = {fid: in_sizes(extents, known) for fid, extents in self._extents.items()}

    def snapshot(self) -> Fusion:
        """The Fusion recorded so far, its symbols numbered in order of the inputs' dims."""
        fusion = self.builder.finish()
        renamed: dict[str, Formula] = {symbol: f"i{number}" for number, symbol in enumerate(fusion.symbols)}
        named = replace(
            fusion,
            values={fid: value.substituted(renamed) for fid, value in fusion.values.items()},
            exprs=tuple(expr.substituted(renamed) for expr in fusion.exprs),
            relations=tuple(substitute(relation, renamed) for relation in fusion.relations),
        )
        values, exprs = in_normal_form(named.values, named.exprs, named.algebra)
        return replace(named, values=values, exprs=tuple(exprs))


def _by_fid(argument: object) -> str:
    """A shape or a size as text in which handles are named by their fids."""
    if isinstance(argument, Vector | Scalar):
        return f"{'V' if isinstance(argument, Vector) else 'S'}{argument.index}"
    return f"[{', '.join(map(_by_fid, argument))}]" if isinstance(argument, Iterable) else str(argument)


def _order_of(stride_order: object, rank: int) -> tuple[int, ...]:
    """``stride_order`` as the place of each dim, 0 the innermost. Raises :class:`TypeRuleError`."""
    order = tuple(stride_order) if isinstance(stride_order, Sequence) else ()
    if sorted(map(str, order)) != sorted(map(str, range(rank))):
        raise TypeRuleError(f"stride_order {stride_order!r} is no order of {counted(rank, 'dim')}")
    return order


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
