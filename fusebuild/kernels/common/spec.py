"""What a scheduler hands on: variants of launches of kernels, all decisions made, no CUDA text yet.

A :class:`KernelSpec` names its template and holds typed heuristics; :mod:`fusebuild.kernels.render` turns it into text.
Its parameter list is made once, here, so that the rendered signature and the plan's argument list cannot disagree."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Self

from fusebuild.artifact.plan import Arg, FormulaArg, ScalarArg, StrideArg, TensorArg, WorkspaceArg, as_formula
from fusebuild.errors import SourceLocation
from fusebuild.ir.dtype import DType
from fusebuild.ir.fid import SegmentFid
from fusebuild.ir.formula import Formula, evaluate, known_value, product, show, substitute, symbols
from fusebuild.ir.fusion import Task
from fusebuild.ir.values import Value
from fusebuild.kernels.common.choice import Decision
from fusebuild.kernels.common.domain import Access, AxisDomain, domain_of, merge_axes
from fusebuild.kernels.common.storage import own_storages, sources
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.ops.table import Kind, op_of
from fusebuild.target.table import Target

INDEX_HEADROOM = 2**31 - 2**20
"""32-bit indices are used below this many elements, so that one block's overshoot cannot wrap."""

PARAMETER_BYTES = 8
"""Of a parameter at most: an address, an integer or a double."""

COUNTING = ("iota", "linear_index")
"""Ops whose results say where an element is."""

DEFAULT_EXTENT = 1024
"""The size a symbol is taken to have when the recipe gives no case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rejection:
    """Why a scheduler does not take a task. ``location`` is the expr to blame."""

    scheduler: str
    reason: str
    location: SourceLocation

    @classmethod
    def of(cls, scheduler: str, task: Task, unfit: UnfitError) -> Self:
        """What ``unfit`` means: blamed on the expr that defines its value, or on the first one of ``task``."""
        fid, fusion = unfit.fid, task.fusion
        index = task.exprs[0] if fid is None else fusion.definition(fid)
        location = fusion.exprs[index].location if index is not None else fusion.value(fid or 0).location
        return cls(scheduler=scheduler, reason=str(unfit), location=location)

    def __str__(self) -> str:
        return f"{self.scheduler}: {self.reason} ({self.location.short})"


@dataclass(frozen=True, slots=True, kw_only=True)
class TooManyParameters(Rejection):
    """A scheduler would take the task, but for what its kernels would have to be given: in parts it may be taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointer:
    """How a kernel reaches what a parameter points to."""

    const: bool
    """Whether it only reads."""

    restrict: bool
    """Whether nobody else reads or writes it while the kernel runs. Never of what a kernel only reads: a compiler
    would take that for constant, and may load it before the kernel waits for those that write it
    (:mod:`fusebuild.kernels.common.overlap`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of a tensor that a kernel reads as if it were a tensor, called ``name``. It begins at the element
    ``offset``, a number or the name of a parameter."""

    name: str
    offset: str
    comment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelParameter:
    """One parameter of a kernel."""

    c_type: str
    """The C type of its value, or of what it points to."""

    name: str
    """Its name in the kernel."""

    arg: Arg[SegmentFid]
    """Where the executor takes its value from."""

    comment: str
    """What stands beside it in the kernel."""

    pointer: Pointer | None = None
    """None where it is a value and points to nothing."""

    value: int | None = None
    """The number that it is whenever the kernel runs, which then knows it and is not given it."""

    part: Part | None = None
    """The part of the tensor that the kernel reads, where it reads no more."""

    @property
    def declaration(self) -> str:
        if self.pointer is None:
            return f"{self.c_type} {self.name}"
        const, restrict = "const " if self.pointer.const else "", " __restrict__" if self.pointer.restrict else ""
        return f"{const}{self.c_type}*{restrict} {self.name}"

    @property
    def constant(self) -> str:
        """The line that says what it is, where the kernel knows that."""
        return f"constexpr {self.declaration} = {self.value};  // {self.comment}"

    @property
    def names(self) -> tuple[str, ...]:
        """What a text that uses it may call it."""
        return (self.name,) if self.part is None else (self.name, self.part.name)

    @property
    def begin(self) -> str:
        """The line that says where its part begins, where it has one."""
        assert self.part is not None
        place = self.name if self.part.offset == "0" else f"{self.name} + {self.part.offset}"
        return f"const {self.c_type}* {self.part.name} = {place};  // {self.part.comment}"


class VectorLayout(Enum):
    """Where the vectors of a kernel begin in memory."""

    ALIGNED = "where memory is aligned, and a row is whole vectors"
    SHIFTED = "where memory is aligned, up to a vector before the row: :mod:`fusebuild.kernels.common.rows_view`"
    ANYWHERE = "at any element of a row, and the last one may lack elements"
    IN_TILE = "where a row of a tile in shared memory does, and the last one ends behind it"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSizes:
    """What a kernel makes of sizes that the recipe names (:mod:`fusebuild.kernels.common.specialization`)."""

    help: bool = True
    """Whether it gains from knowing them."""

    heuristics: object | None = None
    """Its heuristics when it knows them, None where they are the same."""

    branchless: bool = False
    """Whether its threads divide by them so often that the branch which a division has would cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How a kernel runs beside the others of its plan."""

    backwards: bool = False
    """Whether its blocks count from the end of its tensors (:meth:`VariantSpec.backwards`)."""

    starts_next_early: bool = False
    """Whether the next kernel may begin as soon as all blocks of this one have
    (:mod:`fusebuild.kernels.common.overlap`)."""

    members: int = 0
    """As many launches of it are one at most, whose arguments it is given in a table; 0 where each is its own
    (:mod:`fusebuild.segmentation.members`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelSpec:
    """One kernel, decided."""

    template: str
    """The name of its template, which has a view in the family."""

    task: Task
    """What it computes."""

    domain: AxisDomain
    """The axes over which it does, and where tensors lie along them."""

    parameters: tuple[KernelParameter, ...]
    """What it may be given; rendering leaves out what its text does not use."""

    index: str
    """The C type of its indices: 32 bits where the variant's guard says that they are enough."""

    vec: int
    """Elements of a vector, which is one access to memory."""

    heuristics: object
    """The family's own dataclass: what its template and its view read."""

    vectors: VectorLayout = VectorLayout.ALIGNED
    """Where vectors begin."""

    min_blocks: int = 2
    """Blocks for which a multiprocessor shall have registers; a template may take it from the heuristics instead."""

    sizes: KnownSizes = KnownSizes()
    """What the kernel makes of sizes that the recipe names."""

    order: Order = Order()
    """How it runs beside other kernels of its plan, which planning says and not the family."""

    @property
    def is_shifted(self) -> bool:
        return self.vectors in (VectorLayout.SHIFTED, VectorLayout.IN_TILE)


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchSpec:
    """One that ``starts_early`` may begin as soon as all blocks of the launch before it in its variant have
    (:mod:`fusebuild.kernels.common.overlap`). So many blocks as ``cluster`` says, neighbours along y, run together."""

    kernel: KernelSpec
    grid: tuple[Formula, Formula, Formula]
    block: tuple[int, int, int]
    shared_bytes: Formula = 0
    starts_early: bool = False
    cluster: Formula = 1

    def at(self, sizes: Mapping[str, Formula]) -> LaunchSpec:
        """This for ``sizes`` of symbols; its kernel stays as it is."""
        x, y, z = (substitute(size, sizes) for size in self.grid)
        return replace(self, grid=(x, y, z), shared_bytes=substitute(self.shared_bytes, sizes))


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantSpec:
    """One way to run a segment. ``scratch`` gives the bytes of each workspace slot its launches share; ``decision`` is
    what the family could have decided otherwise, None where there is nothing. Those ``for_few_rows`` come before those
    for sizes that the recipe names."""

    name: str
    guard: tuple[Formula, ...]
    launches: tuple[LaunchSpec, ...]
    scratch: tuple[Formula, ...] = ()
    decision: Decision | None = None
    for_few_rows: bool = False

    def with_kernels(self, changed: Callable[[KernelSpec], KernelSpec]) -> VariantSpec:
        """This with all its kernels ``changed``."""
        launches = (replace(launch, kernel=changed(launch.kernel)) for launch in self.launches)
        return replace(self, launches=tuple(launches))

    def backwards(self) -> VariantSpec:
        """This with kernels that walk their tensors backwards, those of a family that ``walks_either_way``, where
        :mod:`fusebuild.segmentation.directions` says so.

        Blocks run in the order of their index, more or less, so that a kernel walks backwards whose blocks count from
        the last one. What a block does to its share stays the same, and so do the results.
        """
        return self.with_kernels(lambda kernel: replace(kernel, order=replace(kernel.order, backwards=True)))

    def at(self, sizes: Mapping[str, Formula]) -> VariantSpec:
        """This for ``sizes`` of symbols; its kernels, whatever they are given, stay as they are."""
        launches = tuple(launch.at(sizes) for launch in self.launches)
        guard, scratch = (tuple(substitute(each, sizes) for each in said) for said in (self.guard, self.scratch))
        return replace(self, guard=guard, scratch=scratch, launches=launches)

    def with_members(self, count: int) -> VariantSpec:
        """This with kernels that run as many launches as ``count`` as one, whose blocks are counted one after another:
        those along y, where there is one along x."""
        launches = tuple(replace(each, grid=(product(each.grid), 1, 1), cluster=1) for each in self.launches)
        with_rows = replace(self, launches=launches)
        return with_rows.with_kernels(lambda kernel: replace(kernel, order=replace(kernel.order, members=count)))


def axis_domain(task: Task) -> AxisDomain:
    """The merged iteration domain of ``task``.

    Raises :class:`UnfitError` when there is none, also when an input that an output overwrites is read with other dims
    than it is written with, so that a thread could read what another one wrote.
    """
    domain = domain_of(task)
    for output in map(task.fusion.output, task.outputs):
        if output is None or output.alias not in domain.dims:
            continue
        if domain.dims[output.alias] != domain.dims[output.fid]:
            name = task.fusion.value(output.alias).name
            raise UnfitError(f"{name} is overwritten by {output.name} but read with other dims")
    return merge_axes(task, domain, own_storages(task), sources(task))


def try_domain(task: Task) -> AxisDomain:
    """The iteration domain of ``task`` for families that walk their tensors in one order: all but pointwise ones.

    Raises :class:`UnfitError` as :func:`any_domain` does, and where a value holds its dims in another order.
    """
    found = any_domain(task)
    if found.domain.reordered:
        fid = min(found.domain.reordered)
        raise UnfitError(f"{task.fusion.value(fid).name} holds the same dims in another order", fid)
    return found


def any_domain(task: Task) -> AxisDomain:
    """The iteration domain of ``task``, found once. Raises :class:`UnfitError` where there is none, or where a library
    computes some of it, which no kernel does."""
    if "axis_domain" not in task.analyses:
        try:
            task.analyses["axis_domain"] = _own_domain(task)
        except UnfitError as error:
            task.analyses["axis_domain"] = error
    found = task.analyses["axis_domain"]
    if isinstance(found, UnfitError):
        raise UnfitError(str(found), found.fid)
    assert isinstance(found, AxisDomain)
    return found


def _own_domain(task: Task) -> AxisDomain:
    for expr in task.steps:
        if op_of(expr).kind is Kind.LIBRARY:
            raise UnfitError(f"{expr.op} is a library call", expr.outputs[0])
    return axis_domain(task)


def reductions(task: Task) -> tuple[int, ...]:
    """Indices of the task's reduction exprs."""
    return indices_of(task, Kind.REDUCTION)


def counts(task: Task) -> bool:
    """Whether some value of the task says where an element is."""
    return any(expr.op in COUNTING for expr in task.steps)


def indices_of(task: Task, kind: Kind) -> tuple[int, ...]:
    """Indices of the task's exprs of ``kind``."""
    return tuple(index for index, expr in zip(task.exprs, task.steps, strict=True) if op_of(expr).kind is kind)


def tensor_parameters(task: Task, domain: AxisDomain) -> list[KernelParameter]:
    """Pointers of the task's tensors, inputs first; for a window on a tensor that of the whole one."""
    names, value = {output.fid: output.name for output in task.fusion.outputs}, task.fusion.value
    comments = {fid: f"{names.get(fid, value(fid).name)}: {value(fid).type}" for fid in domain.accesses}
    parts = [
        None if value(fid).window is None else _part(access, comments[fid]) for fid, access in domain.accesses.items()
    ]
    tensors = [
        (access.pointer, value(fid), comments[fid]) if part is None else _whole(task, access)
        for part, (fid, access) in zip(parts, domain.accesses.items(), strict=True)
    ]
    return [replace(each, part=part) for each, part in zip(_pointers(task, tensors), parts, strict=True)]


def _part(access: Access, comment: str) -> Part:
    """What a kernel reads of a tensor by ``access`` to a window on it."""
    ((name, offset), *_) = access.formulas
    return Part(name=f"T{access.fid}", offset=str(offset) if isinstance(offset, int) else name, comment=comment)


def source_parameters(task: Task, domain: AxisDomain) -> list[KernelParameter]:
    """Pointers that index ops read from, one each."""
    return _pointers(task, [_whole(task, access) for access in domain.sources.values()])


def _whole(task: Task, access: Access) -> tuple[str, Value, str]:
    """The pointer of the tensor that ``access`` reads elsewhere or in part, the tensor, and what is said of it."""
    own = task.fusion.value(access.tensor)
    return access.pointer, own, f"{own.name}: {own.type}, for {task.fusion.value(access.fid).name}"


def _pointers(task: Task, tensors: Iterable[tuple[str, Value, str]]) -> list[KernelParameter]:
    """The addresses of ``tensors``, each with its name and a comment. Where an output of ``task`` overwrites an input,
    any may be read while a kernel writes it."""
    outputs = {*task.outputs}
    overwrites = any(output.alias is not None and output.fid in outputs for output in task.fusion.outputs)
    alone = set[int]() if overwrites else outputs
    return [
        KernelParameter(
            c_type=value.dtype.row.c_type,
            name=name,
            arg=TensorArg(fid=SegmentFid(value.fid)),
            comment=comment,
            pointer=Pointer(const=value.fid not in outputs, restrict=value.fid in alone),
        )
        for name, value, comment in tensors
    ]


def formula_parameter(name: str, formula: Formula, comment: str = "") -> KernelParameter:
    """An integer that the executor computes; ``comment`` is the formula if none is given."""
    return KernelParameter(
        c_type="int64_t", name=name, arg=FormulaArg(formula=formula), comment=comment or show(formula)
    )


def call_parameter(name: str, formula: Formula, comment: str) -> KernelParameter:
    """An integer that the executor computes, or a constant where it is one already."""
    parameter = formula_parameter(name, formula, comment)
    return replace(parameter, value=formula) if isinstance(formula, int) else parameter


def scalar_parameters(task: Task) -> list[KernelParameter]:
    """Run-time scalars, zero-dim CPU tensors, and sizes that the body computes with."""
    values = [value for value in map(task.fusion.value, task.inputs) if not value.is_tensor or value.tensor.cpu]
    sizes = [expr for expr in task.steps if expr.op == "size"]
    return [
        *(
            KernelParameter(
                c_type=value.dtype.row.c_type,
                name=f"s{value.fid}",
                arg=ScalarArg(fid=SegmentFid(value.fid)),
                comment=value.name,
            )
            for value in values
        ),
        *(formula_parameter(f"s{expr.outputs[0]}", expr.attribute("extent")) for expr in sizes),
    ]


def extent_parameters(domain: AxisDomain) -> list[KernelParameter]:
    """One size per axis that is not a constant, then every stride that cannot be computed from them."""
    parameters = [
        formula_parameter(f"n{index}", axis.extent)
        for index, axis in enumerate(domain.axes)
        if not isinstance(axis.extent, int)
    ]
    strided = [access for access in domain.accesses.values() if not domain.is_contiguous(access)]
    for access in (*strided, *domain.sources.values()):
        for axis in access.axes:
            stride, dim = access.strides[axis], access.dims[axis]
            if isinstance(stride, int) or dim is None:
                continue
            name, comment = f"{access.pointer}_stride{axis}", f"stride of dim {dim}, in elements"
            arg = StrideArg(fid=SegmentFid(access.fid), dim=dim) if stride is None else FormulaArg(formula=stride)
            parameters.append(KernelParameter(c_type="int64_t", name=name, arg=arg, comment=comment))
        parameters += [
            formula_parameter(name, formula) for name, formula in access.formulas if not isinstance(formula, int)
        ]
    return parameters


def kernel_parameters(
    task: Task,
    domain: AxisDomain,
    partials: Sequence[KernelParameter] = (),
    tensors: Sequence[KernelParameter] | None = None,
) -> tuple[KernelParameter, ...]:
    """All that a kernel of ``task`` may read or write, with ``partials`` after its ``tensors``, which are all those of
    the task if none are given; rendering leaves out what the kernel does not use."""
    own = tensor_parameters(task, domain) if tensors is None else tensors
    scalars = scalar_parameters(task)
    return (*own, *source_parameters(task, domain), *partials, *scalars, *extent_parameters(domain))


FEW_VALUES = 100
"""So few inputs and exprs never take more parameters than a kernel may have: pointers, sizes, and for each dim a stride
and bounds."""
OTHER_PARAMETERS, PARAMETERS_OF_REDUCTION = 16, 4
"""Pointers to scratch that schedulers add, at most: of a kernel, and for each reduction."""


def too_many_parameters(scheduler: str, task: Task, target: Target) -> TooManyParameters | None:
    """The rejection of a task whose kernels could have parameters of more bytes than ``target`` allows."""
    domain = task.analyses.get("axis_domain")
    if len(task.inputs) + len(task.exprs) <= FEW_VALUES or not isinstance(domain, AxisDomain):
        return None
    scratch = OTHER_PARAMETERS + PARAMETERS_OF_REDUCTION * len(reductions(task))
    size = PARAMETER_BYTES * (len(kernel_parameters(task, domain)) + scratch)
    if size <= target.parameter_bytes:
        return None
    reason = f"its kernels would have {size} bytes of parameters, and {target.name} has {target.parameter_bytes}"
    return TooManyParameters(scheduler=scheduler, reason=reason, location=task.fusion.exprs[task.exprs[0]].location)


def known_parameters(parameters: Iterable[KernelParameter], sizes: Mapping[str, int]) -> tuple[KernelParameter, ...]:
    """``parameters``, those with their value that follow from ``sizes``."""

    def known(parameter: KernelParameter) -> KernelParameter:
        value = known_value(as_formula(arg.formula), sizes) if isinstance(arg := parameter.arg, FormulaArg) else None
        return parameter if value is None else replace(parameter, value=value)

    return tuple(map(known, parameters))


def workspace_parameter(name: str, dtype: DType, slot: int, *, const: bool, comment: str) -> KernelParameter:
    """A pointer into scratch memory. What is ``const`` another kernel wrote."""
    return KernelParameter(
        c_type=dtype.row.c_type,
        name=name,
        arg=WorkspaceArg(slot=slot),
        comment=comment,
        pointer=Pointer(const=const, restrict=not const),
    )


def fits_int32(formula: Formula) -> Formula:
    """A guard: so few elements that 32-bit indices do."""
    return ("lt", formula, INDEX_HEADROOM)


def usable(variants: Sequence[VariantSpec]) -> tuple[VariantSpec, ...]:
    """``variants`` with constant guards decided: true ones dropped, variants with a false one dropped, and those that
    could never be chosen, since an earlier one may run wherever they may."""
    kept: list[VariantSpec] = []
    for variant in variants:
        decided = [(guard, _constant(guard)) for guard in variant.guard]
        guard = tuple(guard for guard, result in decided if result is None)
        is_false = any(result == 0 for _, result in decided)
        if not is_false and not any(_implies(guard, earlier.guard) for earlier in kept):
            kept.append(replace(variant, guard=guard))
    return tuple(kept)


def _implies(guard: Sequence[Formula], other: Sequence[Formula]) -> bool:
    """Whether ``other`` is seen to hold wherever ``guard`` does: each of its conditions is one of ``guard``, or an
    upper bound of what ``guard`` holds to a lower one."""
    return all(any(_implies_one(mine, theirs) for mine in guard) for theirs in other)


def _implies_one(condition: Formula, other: Formula) -> bool:
    if condition == other:
        return True
    match condition, other:
        case (("le", what, int(bound)), ("le", also, int(wider))):
            return what == also and bound <= wider
    return False


def _constant(formula: Formula) -> int | None:
    """The value of a formula without symbols or pointers; None for any other."""
    try:
        return evaluate(formula, {})
    except (KeyError, ValueError):
        return None


def hint(formula: Formula, sizes: Mapping[str, int]) -> int:
    """The size that heuristics assume for ``formula``, at least 1."""
    known = {symbol: sizes.get(symbol, DEFAULT_EXTENT) for symbol in symbols(formula)}
    return max(1, evaluate(formula, known))
