"""The intermediate representation: typed values, expressions over them, and the frozen Fusion that holds both.

Every value of a Fusion has a **fid**, an index into one insertion-ordered space shared by inputs, constants, vectors
and results. Extents have negative fids: walking the tensor inputs in order and their dims in order gives -1, -2, ….
A :class:`Task` is a view over some exprs of one Fusion; it owns nothing, and two tasks may overlap.

Nothing here is mutable. A pass takes a Fusion and returns another; :func:`verify` says whether one is well formed.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NewType, TypeAlias

from fusebuild.errors import NOWHERE, InvalidFusionError, SourceLocation
from fusebuild.formula import Formula, product, show, symbols

OriginalFid = NewType("OriginalFid", int)
"""A fid in the index space of the whole Fusion."""
SegmentFid = NewType("SegmentFid", int)
"""A fid in the index space of one extracted segment."""

Literal: TypeAlias = "bool | int | float"
Attribute: TypeAlias = (
    "Literal | str | DType | tuple[Formula, ...] | tuple[bool, ...] | tuple[DType, ...] | Formula | None"
)


class DType(enum.Enum):
    """Element types, named as recipes name them (nvFuser's Double, Float, Half, BFloat16, Int, Int32, Bool)."""

    DOUBLE = "double"
    FLOAT = "float"
    HALF = "half"
    BFLOAT16 = "bfloat16"
    INT64 = "int64"
    INT32 = "int32"
    BOOL = "bool"

    @property
    def bytes(self) -> int:
        return _DTYPE_BYTES[self]

    @property
    def is_floating(self) -> bool:
        return self in (DType.DOUBLE, DType.FLOAT, DType.HALF, DType.BFLOAT16)

    @property
    def is_reduced_precision(self) -> bool:
        """Half and bfloat16: stored as such, computed in float."""
        return self in (DType.HALF, DType.BFLOAT16)

    @property
    def is_integer(self) -> bool:
        return self in (DType.INT64, DType.INT32)


_DTYPE_BYTES = {
    DType.DOUBLE: 8,
    DType.FLOAT: 4,
    DType.HALF: 2,
    DType.BFLOAT16: 2,
    DType.INT64: 8,
    DType.INT32: 4,
    DType.BOOL: 1,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorType:
    """A tensor's dtype and layout.

    ``shape`` holds one extent per dim: an int, a symbol, or a formula. ``contiguity`` follows nvFuser: True when the
    dim's stride is the product of the next inner dims, False when it is known only at run time, None when the dim is a
    broadcast (size 1, or expanded with stride 0). ``stride_order`` gives each dim's position counted from the innermost
    (``(1, 0)`` is row-major). ``cpu`` marks a zero-dim tensor in host memory, read as a scalar.
    """

    dtype: DType
    shape: tuple[Formula, ...]
    contiguity: tuple[bool | None, ...]
    stride_order: tuple[int, ...]
    cpu: bool = False

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> Formula:
        """Number of elements, broadcast dims counted at their full extent."""
        return product(self.shape)

    @property
    def is_row_major(self) -> bool:
        return self.stride_order == tuple(reversed(range(self.rank)))

    @property
    def stored_shape(self) -> tuple[Formula, ...]:
        """The shape with broadcast dims at 1: what memory holds."""
        return tuple(1 if flag is None else extent for extent, flag in zip(self.shape, self.contiguity, strict=True))

    @property
    def nbytes(self) -> Formula:
        """Bytes of the distinct elements: stride-0 and broadcast dims count once."""
        return product([self.dtype.bytes, *self.stored_shape])

    @property
    def strides(self) -> tuple[Formula | None, ...]:
        """The stride of each dim in elements; 0 for a broadcast dim, None where it is known only at run time."""
        strides: list[Formula | None] = [None] * self.rank
        running: Formula | None = 1
        for dim in sorted(range(self.rank), key=lambda d: self.stride_order[d]):
            if self.contiguity[dim] is None:
                strides[dim] = 0
                continue
            if not self.contiguity[dim] or not self.is_row_major:
                running = None
            strides[dim] = running
            running = None if running is None else product([self.shape[dim] or 1, running])  # 0 would say broadcast
        return tuple(strides)

    def __str__(self) -> str:
        dims = ", ".join(
            f"{show(extent)}{'' if flag or extent == 1 else '?' if flag is False else '~'}"
            for extent, flag in zip(self.shape, self.contiguity, strict=True)
        )
        order = "" if self.is_row_major else f" stride_order={list(self.stride_order)}"
        return f"{self.dtype.value}[{dims}]{order}{' cpu' if self.cpu else ''}"


def tensor_type(
    dtype: DType, shape: Sequence[Formula], broadcast: Iterable[int] = (), *, cpu: bool = False
) -> TensorType:
    """A row-major tensor type, contiguous but for the dims in ``broadcast`` (constant size-1 dims are always added)."""
    expanded = set(broadcast)
    return TensorType(
        dtype=dtype,
        shape=tuple(shape),
        contiguity=tuple(None if dim in expanded or extent == 1 else True for dim, extent in enumerate(shape)),
        stride_order=tuple(reversed(range(len(shape)))),
        cpu=cpu,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScalarType:
    """One number, held on the host and passed to kernels by value."""

    dtype: DType

    def __str__(self) -> str:
        return self.dtype.value


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorType:
    """A fixed number of scalars, such as a shape (nvFuser's ``define_vector``)."""

    dtype: DType
    length: int

    def __str__(self) -> str:
        return f"{self.dtype.value}<{self.length}>"


ValueType: TypeAlias = TensorType | ScalarType | VectorType


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    """One node of data. ``literal`` is set for constants only (a tuple of fids for a vector)."""

    fid: int
    name: str
    type: ValueType
    location: SourceLocation = NOWHERE
    literal: Literal | tuple[int, ...] | None = None

    @property
    def is_tensor(self) -> bool:
        return isinstance(self.type, TensorType)

    @property
    def is_constant(self) -> bool:
        return self.literal is not None

    @property
    def tensor(self) -> TensorType:
        """The type, for a value known to be a tensor."""
        assert isinstance(self.type, TensorType), f"fid {self.fid} is not a tensor"
        return self.type

    @property
    def dtype(self) -> DType:
        return self.type.dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class Expr:
    """One op applied to values. ``attributes`` are sorted by name and never hold fids."""

    op: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: tuple[tuple[str, Attribute], ...] = ()
    location: SourceLocation = NOWHERE

    def attribute(self, name: str) -> Attribute:
        """The attribute ``name``; raises ``KeyError`` where the op has none."""
        return dict(self.attributes)[name]

    def renumbered(self, numbers: Mapping[int, int]) -> Expr:
        """The same op on values with other fids."""
        inputs, outputs = (tuple(numbers[fid] for fid in fids) for fids in (self.inputs, self.outputs))
        return replace(self, inputs=inputs, outputs=outputs)

    @property
    def dims(self) -> tuple[int, ...]:
        """The ``dims`` attribute of reductions, squeeze and broadcast_in_dim."""
        dims = self.attribute("dims")
        assert isinstance(dims, tuple)
        return dims  # type: ignore[return-value]

    @property
    def combine(self) -> str:
        """The name of the lambda that a generalized reduction or scan combines with; empty for every other op."""
        return str(dict(self.attributes).get("combine", ""))

    @property
    def is_ordered(self) -> bool:
        """True for a generalized reduction that combines strictly in index order, and for every scan."""
        return bool(dict(self.attributes).get("ordered", False))


def attributes(**named: Attribute) -> tuple[tuple[str, Attribute], ...]:
    """Attributes in canonical order."""
    return tuple(sorted(named.items()))


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A result that the user gets: its fid, the name the user gave it, and the input it overwrites, if any."""

    fid: int
    name: str
    alias: int | None = None
    location: SourceLocation = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentFact:
    """What a recipe promises about a symbol; checked at run time."""

    symbol: str
    multiple_of: int = 1
    min: int = 0
    max: int | None = None
    values: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtentBinding:
    """A negative fid: dim ``dim`` of tensor input ``input``, whose size is ``extent``."""

    fid: int
    input: int
    dim: int
    extent: Formula


@dataclass(frozen=True, slots=True, kw_only=True)
class Composite:
    """One call of a sub-body that the author wrote once and named. It computes nothing: its exprs are the Fusion's own,
    and :meth:`Fusion.composite_task` finds them, since results keep their fids while passes rewrite exprs.

    ``inputs`` are the fids that the call was given, ``outputs`` those of its results that are computed inside and not
    thrown away, ``location`` is where the call stands, and ``parent`` the index, among the Fusion's composites, of the
    call whose body it stands in.
    """

    name: str
    location: SourceLocation
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    parent: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fusion:
    """Values and exprs in topological order, with the inputs and outputs a user sees. Shapes are in symbols.

    ``recorded`` is one past the last fid that the author's own text defined; passes number from there on. ``given``
    names symbols that no input's shape binds because the Fusion that this one was extracted from binds them.

    ``lambdas`` are what generalized reductions and scans combine with, by the name in their ``combine`` attribute: each
    a Fusion of scalars of its own, disconnected from this one, whose inputs are the accumulated state and then what is
    combined into it, and whose outputs are the new state (the issue "Task formalism in our IR" of NVIDIA/Fuser).

    ``composites`` are the patterns that the author named, each call after the one it stands in. They show neither in
    the printed text nor in a digest.
    """

    name: str
    values: Mapping[int, Value]
    exprs: tuple[Expr, ...]
    inputs: tuple[int, ...]
    outputs: tuple[Output, ...]
    doc: str = ""
    facts: tuple[ExtentFact, ...] = ()
    cases: tuple[Mapping[str, int], ...] = ()
    recorded: int = 0
    given: tuple[str, ...] = ()
    lambdas: Mapping[str, Fusion] = field(default_factory=dict)
    composites: tuple[Composite, ...] = ()
    _definitions: dict[int, int] = field(init=False, repr=False, compare=False)
    _uses: dict[int, tuple[int, ...]] = field(init=False, repr=False, compare=False)
    _outputs: dict[int, Output] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        uses: dict[int, list[int]] = {}
        for index, expr in enumerate(self.exprs):
            for fid in dict.fromkeys(expr.inputs):
                uses.setdefault(fid, []).append(index)
        definitions = {fid: index for index, expr in enumerate(self.exprs) for fid in expr.outputs}
        object.__setattr__(self, "_definitions", definitions)
        object.__setattr__(self, "_uses", {fid: tuple(indices) for fid, indices in uses.items()})
        object.__setattr__(self, "_outputs", {output.fid: output for output in self.outputs})

    def value(self, fid: int) -> Value:
        return self.values[fid]

    def definition(self, fid: int) -> int | None:
        """Index of the expr that defines ``fid``; None for inputs and constants."""
        return self._definitions.get(fid)

    def uses(self, fid: int) -> tuple[int, ...]:
        """Indices of the exprs that read ``fid``, ascending."""
        return self._uses.get(fid, ())

    def is_output(self, fid: int) -> bool:
        return fid in self._outputs

    def output(self, fid: int) -> Output | None:
        """The output that the value ``fid`` is, the last where it is several; None for any other value."""
        return self._outputs.get(fid)

    @property
    def output_fids(self) -> tuple[int, ...]:
        return tuple(output.fid for output in self.outputs)

    @property
    def next_fid(self) -> int:
        """The first fid that no value has and no author recorded."""
        return max(max(self.values, default=-1) + 1, self.recorded)

    @property
    def tensor_inputs(self) -> tuple[Value, ...]:
        return tuple(self.values[fid] for fid in self.inputs if self.values[fid].is_tensor)

    @property
    def extents(self) -> tuple[ExtentBinding, ...]:
        """Negative fids: every dim of every tensor input, in order."""
        dims = [(value, dim) for value in self.tensor_inputs for dim in range(value.tensor.rank)]
        return tuple(
            ExtentBinding(fid=-1 - index, input=value.fid, dim=dim, extent=value.tensor.shape[dim])
            for index, (value, dim) in enumerate(dims)
        )

    def with_exprs(self, exprs: Iterable[Expr], new_values: Iterable[Value] = ()) -> Fusion:
        """This Fusion with other exprs; values that nothing defines or reads any more are dropped, and all composites:
        a pass gives the new Fusion those that are left with :func:`fusebuild.composites.carry_composites`."""
        kept = tuple(exprs)
        known = dict(self.values) | {value.fid: value for value in new_values}
        live = set(self.inputs) | set(self.output_fids)
        for expr in kept:
            live.update(expr.inputs)
            live.update(expr.outputs)
        values = {fid: known[fid] for fid in sorted(live)}
        return replace(self, values=values, exprs=kept, lambdas=used_lambdas(self, kept), composites=())

    def whole(self) -> Task:
        """The task that covers every expr."""
        return Task(fusion=self, exprs=tuple(range(len(self.exprs))))

    def composite_task(self, composite: Composite) -> Task | None:
        """The exprs between the inputs and the outputs of ``composite``, nested in the task of its parent; tasks of two
        calls overlap where they share what both compute. None when no expr defines its outputs any more."""
        found: set[int] = set()
        given, waiting = {*composite.inputs}, [*composite.outputs]
        while waiting:
            index = self.definition(fid := waiting.pop())
            if index is not None and index not in found and fid not in given:
                found.add(index)
                waiting += self.exprs[index].inputs
        if not found:
            return None
        return Task(fusion=self, exprs=tuple(sorted(found)), results=frozenset(composite.outputs))


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A view: the exprs at ``exprs`` (ascending indices) of ``fusion``. Inputs and outputs are computed from uses.

    Where tasks overlap, who reads a value outside does not say that this task must hand it over: another task may hold
    its definition too. A cover therefore names in ``results`` what each of its tasks writes; None asks the uses.
    """

    fusion: Fusion
    exprs: tuple[int, ...]
    results: frozenset[int] | None = None
    inputs: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Fids read here and defined elsewhere, constants left out, ascending."""
    outputs: tuple[int, ...] = field(init=False, repr=False, compare=False)
    """Tensors defined here that leave: ``results``, else outputs of the Fusion and what an expr outside reads, in order
    of definition. Scalars never leave a task: whoever needs one computes it again."""
    analyses: dict[str, object] = field(init=False, repr=False, compare=False, default_factory=dict)
    """What analyses have found out about this task, by their names: kept so that each is done once."""

    def __post_init__(self) -> None:
        values = self.fusion.values
        exprs = [self.fusion.exprs[index] for index in self.exprs]
        defined = dict.fromkeys(fid for expr in exprs for fid in expr.outputs)
        read = {fid for expr in exprs for fid in expr.inputs}
        inputs = tuple(sorted(fid for fid in read if fid not in defined and not values[fid].is_constant))
        leaving = self._leaving(defined) if self.results is None else self.results
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "outputs", tuple(fid for fid in defined if fid in leaving and values[fid].is_tensor))

    def _leaving(self, defined: Iterable[int]) -> set[int]:
        inside = set(self.exprs)
        return {
            fid
            for fid in defined
            if self.fusion.is_output(fid) or any(use not in inside for use in self.fusion.uses(fid))
        }

    def union(self, other: Task) -> Task:
        """The task that covers what either covers."""
        return Task(fusion=self.fusion, exprs=tuple(sorted({*self.exprs, *other.exprs})))


def used_lambdas(fusion: Fusion, exprs: Iterable[Expr]) -> dict[str, Fusion]:
    """The lambdas of ``fusion`` that ``exprs`` combine with."""
    names = {expr.combine for expr in exprs}
    return {name: body for name, body in fusion.lambdas.items() if name in names}


def task_uses(fid: int, tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks that have ``fid`` as an input."""
    return tuple(task for task in tasks if fid in task.inputs)


def task_definitions(fid: int, tasks: Iterable[Task]) -> tuple[Task, ...]:
    """The tasks that have ``fid`` as an output; several where tasks nest or overlap."""
    return tuple(task for task in tasks if fid in task.outputs)


def verify(fusion: Fusion) -> Fusion:
    """``fusion`` itself, when it is well formed.

    Checks that fids agree with their keys, that every read value is defined before it is read and defined once, that
    inputs, outputs and aliases exist and fit, that every symbol comes from an input's shape, that every lambda is a
    Fusion of scalars, and that composites have values and exprs and lie within their parents.

    Raises :class:`InvalidFusionError` naming the fusion and the first broken invariant.
    """
    problem = _first_problem(fusion)
    if problem:
        raise InvalidFusionError(f"fusion {fusion.name}: {problem}")
    return fusion


def _first_problem(fusion: Fusion) -> str:
    for fid, value in fusion.values.items():
        if fid != value.fid:
            return f"value {value.fid} is filed under fid {fid}"
    if missing := [fid for fid in (*fusion.inputs, *fusion.output_fids) if fid not in fusion.values]:
        return f"fid {missing[0]} is an input or output but no value"
    checks = (_definition_problem, _symbol_problem, _alias_problem, _lambda_problem, _composite_problem)
    return next((problem for check in checks if (problem := check(fusion))), "")


def _definition_problem(fusion: Fusion) -> str:
    defined = set(fusion.inputs) | {fid for fid, value in fusion.values.items() if value.is_constant}
    for expr in fusion.exprs:
        for fid in expr.inputs:
            if fid not in defined:
                return f"{expr.op} reads fid {fid} before it is defined"
        for fid in expr.outputs:
            if fid in defined:
                return f"fid {fid} is defined twice"
            if fid not in fusion.values:
                return f"{expr.op} defines fid {fid}, which is no value"
            defined.add(fid)
    undefined = [fid for fid in fusion.output_fids if fid not in defined]
    return f"output fid {undefined[0]} is never defined" if undefined else ""


def _symbol_problem(fusion: Fusion) -> str:
    bound = {binding.extent for binding in fusion.extents if isinstance(binding.extent, str)}
    for value in fusion.values.values():
        if not isinstance(value.type, TensorType):
            continue
        if not len(value.type.shape) == len(value.type.contiguity) == len(value.type.stride_order):
            return f"fid {value.fid} has {value.type.rank} dims but other numbers of contiguity flags or strides"
        for extent in value.type.shape:
            if free := [each for each in symbols(extent) if each not in bound and each not in fusion.given]:
                return f"symbol {free[0]} of fid {value.fid} is no dim of any input"
    return ""


def _alias_problem(fusion: Fusion) -> str:
    for output in fusion.outputs:
        if output.alias is None:
            continue
        if output.alias not in fusion.inputs:
            return f"output {output.name} aliases fid {output.alias}, which is no input"
        result, target = fusion.values[output.fid], fusion.values[output.alias]
        if not result.is_tensor or not target.is_tensor or result.tensor.shape != target.tensor.shape:
            return f"output {output.name} does not fit the input that it aliases"
    return ""


def _lambda_problem(fusion: Fusion) -> str:
    for expr in fusion.exprs:
        if expr.combine and expr.combine not in fusion.lambdas:
            return f"{expr.op} combines with '{expr.combine}', which is no lambda"
    for name, body in fusion.lambdas.items():
        if problem := _first_problem(body):
            return f"lambda {name}: {problem}"
        if any(not isinstance(value.type, ScalarType) for value in body.values.values()):
            return f"lambda {name} holds values that are no scalars"
        left, right = body.inputs[: len(body.outputs)], body.inputs[len(body.outputs) :]
        state = [body.value(fid).dtype for fid in body.output_fids]
        if any([body.value(fid).dtype for fid in side] != state for side in (left, right)):
            return f"lambda {name} does not make a state of two of its kind"
    return ""


def _composite_problem(fusion: Fusion) -> str:
    covered: list[frozenset[int]] = []
    for index, composite in enumerate(fusion.composites):
        if unknown := [fid for fid in (*composite.inputs, *composite.outputs) if fid not in fusion.values]:
            return f"fid {unknown[0]} of composite {composite.name} is no value"
        task = fusion.composite_task(composite)
        if task is None:
            return f"composite {composite.name} computes nothing"
        covered.append(frozenset(task.exprs))
        if composite.parent is None:
            continue
        if not 0 <= composite.parent < index:
            return f"composite {composite.name} comes before its parent"
        if not covered[index] <= covered[composite.parent]:
            return f"composite {composite.name} lies outside its parent {fusion.composites[composite.parent].name}"
    return ""


def print_fusion(fusion: Fusion) -> str:
    """``fusion`` as text, one line a value: what ``--dump`` writes and golden tests compare."""
    lines = [f"fusion {fusion.name}"]
    for name, body in fusion.lambdas.items():
        lines += [f"  lambda {name}", *(f"  {line}" for line in print_fusion(body).splitlines()[1:])]
    lines += [f"  input  %{fid} {fusion.value(fid).name}: {fusion.value(fid).type}" for fid in fusion.inputs]
    lines += [
        f"  const  %{fid} = {_print_literal(value.literal)}: {value.type}"
        for fid, value in fusion.values.items()
        if value.is_constant
    ]
    lines += [f"  {print_expr(fusion, expr)}" for expr in fusion.exprs]
    for output in fusion.outputs:
        alias = "" if output.alias is None else f" alias %{output.alias}"
        lines.append(f"  output %{output.fid} {output.name}{alias}")
    return "\n".join(lines) + "\n"


def print_expr(fusion: Fusion, expr: Expr) -> str:
    """One expr as text: ``%5 mean: float[M] = sum(%4, dims=[1])``."""
    results = ", ".join(f"%{fid} {fusion.value(fid).name}: {fusion.value(fid).type}" for fid in expr.outputs)
    operands = [f"%{fid}" for fid in expr.inputs]
    operands += [f"{name}={_print_attribute(value)}" for name, value in expr.attributes]
    return f"{results} = {expr.op}({', '.join(operands)})"


def _print_literal(literal: Literal | tuple[int, ...] | None) -> str:
    if isinstance(literal, bool):
        return str(literal).lower()
    return str(list(literal)) if isinstance(literal, tuple) else repr(literal)


def _print_attribute(value: Attribute) -> str:
    if isinstance(value, DType):
        return value.value
    if isinstance(value, tuple):
        if value and all(isinstance(item, DType) for item in value):
            return f"[{', '.join(item.value for item in value if isinstance(item, DType))}]"
        return f"[{', '.join(str(item).lower() if isinstance(item, bool) else show(item) for item in value)}]"  # type: ignore[arg-type]
    return str(value).lower() if isinstance(value, bool) else str(value)
