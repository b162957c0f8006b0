"""Scatters: what is computed of updates, element by element, and written to the places that an index names.

Over an input that is overwritten, and where no place is named twice, a thread of the domain of the **updates** writes
what it computes: nothing else of the tensor is read or written. Where places may be named twice, a kernel before finds
the last update of each. All other results are computed in the domain of the **places**: a thread finds the updates of
its own place, reads what was there, and writes what is left. A place has the last update along the scattered dim, or a
list of all that are to be added there.

Heads of lists, and last updates, are found by integer atomics in scratch: whatever the order in which threads come,
the last update is the same one. The order of a list is not, so sums are exact in any order
(``templates/include/fusebuild/exact_sum.cuh``). An index that is the same along dims has one list for all of them.

    Compare the index_add of PyTorch's deterministic mode, which sorts the indices, and its default, of float atomics.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, ceil_div, product
from fusebuild.ir.fusion import Task
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.domain import Access, AxisDomain
from fusebuild.kernels.common.planner import Planner, Width
from fusebuild.kernels.common.spec import (
    KernelParameter,
    KernelSpec,
    KnownSizes,
    LaunchSpec,
    VariantSpec,
    any_domain,
    call_parameter,
    fits_int32,
    kernel_parameters,
    workspace_parameter,
)
from fusebuild.kernels.common.storage import bases_read, scatters
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.ops.footprint import is_set_in_place
from fusebuild.ops.table import Kind, op_of

THREADS = 128
"""Threads of a block: neighbours have neighbouring elements."""


class Naming(StrEnum):
    """What a kernel over the index leaves in scratch, in the place of each element that it names."""

    NOTHING = "nothing"
    LAST = "last"
    """The last update."""

    LIST = "list"
    """The first of a list of updates, which lie in any order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterHeuristics:
    """``naming`` is what a kernel over the index leaves, and what one over elements finds."""

    threads: int = THREADS
    unroll: int = 1
    min_blocks: int = 4
    naming: Naming = Naming.NOTHING


def check(task: Task) -> None:
    found = scatters(task)
    results = {expr.outputs[0] for expr in found}
    for expr in task.steps:
        if (kind := op_of(expr).kind) in (Kind.REDUCTION, Kind.SCAN, Kind.ORDER):
            raise UnfitError(f"{expr.op} is a {kind.value}", expr.outputs[0])
        if not results.isdisjoint(expr.inputs):
            raise UnfitError(f"{expr.op} reads what is scattered", expr.outputs[0])
    for fid in task.outputs:
        if fid not in results:
            raise UnfitError(f"{task.fusion.value(fid).name} is not scattered", fid)
    for expr in found:
        _check_base(task, expr)
    domain = any_domain(task)
    overwritten = {output.alias for output in map(task.fusion.output, task.outputs) if output is not None}
    for fid in {*domain.accesses} - {*task.outputs} - {*bases_read(task)}:
        if fid in overwritten:
            raise UnfitError(f"{task.fusion.value(fid).name} is overwritten but read for what is scattered", fid)
    for expr in found:
        access = domain.accesses[expr.outputs[0]]
        if {*access.axes, *_scattered_axes(task, domain, expr)} != {*domain.every}:
            raise UnfitError("updates of other dims are scattered", expr.outputs[0])
    if len(found) > 1 and not all(_is_alone(task, expr) for expr in found):
        raise UnfitError("places that may be named twice have a kernel of their own", found[1].outputs[0])


def _check_base(task: Task, expr: Expr) -> None:
    """Raise :class:`UnfitError` unless what ``expr`` writes to is in memory, or one number, and is read here alone."""
    base, name = expr.inputs[0], task.fusion.value(expr.inputs[0]).name
    readers = [each for each in task.steps if base in each.inputs]
    if readers != [expr] or base in expr.inputs[1:]:
        raise UnfitError(f"{name} is scattered into and read elsewhere", expr.outputs[0])
    made = base_fill(task, expr)
    if base not in task.inputs and (made is None or base in task.outputs):
        raise UnfitError(f"{expr.op} needs {name} in memory", expr.outputs[0])


def base_fill(task: Task, expr: Expr) -> int | None:
    """The scalar that all elements are which ``expr`` writes to, where the task itself makes them so."""
    made = next((each for each in task.steps if expr.inputs[0] in each.outputs), None)
    return made.inputs[0] if made is not None and made.op == "full" else None


def _is_alone(task: Task, expr: Expr) -> bool:
    """Whether ``expr`` writes over an input, each place once: then updates need to know nothing of each other."""
    is_once = expr.op == "scatter" and (expr.attribute("unique_indices") or _updates_along(task, expr) == 1)
    return is_once and is_set_in_place(task.fusion, expr)


def _updates_along(task: Task, expr: Expr) -> Formula:
    """The extent of the dim of updates that the index is about."""
    return task.fusion.value(expr.inputs[2]).tensor.shape[expr.attribute("dim")]


def _scattered_axes(task: Task, domain: AxisDomain, expr: Expr) -> tuple[int, ...]:
    """The axis of the dim of updates that the index is about; none where that dim has size 1."""
    axis = domain.dims_of(expr.inputs[2])[expr.attribute("dim")]
    return () if axis is None else (axis,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scatter:
    """The scatter of a task whose updates have to know of each other, and the axes that it is about. Along the axis
    ``scattered`` lie updates that may name one place; it is None where there is one. Along those ``named`` the index
    has elements of its own."""

    task: Task
    domain: AxisDomain
    expr: Expr

    @classmethod
    def of(cls, task: Task) -> Scatter:
        return cls(task=task, domain=any_domain(task), expr=scatters(task)[0])

    @property
    def result(self) -> int:
        return self.expr.outputs[0]

    @property
    def access(self) -> Access:
        """Where the result lies."""
        return self.domain.accesses[self.result]

    @property
    def scattered(self) -> int | None:
        return next(iter(_scattered_axes(self.task, self.domain, self.expr)), None)

    @property
    def named(self) -> tuple[int, ...]:
        index = self.task.fusion.value(self.expr.inputs[1])
        own = self.domain.axes_of(index.fid, index.tensor)
        return tuple(sorted(own if self.scattered is None else own | {self.scattered}))

    @property
    def along(self) -> tuple[int, ...]:
        """The axes along which the index has other places: those that it is not about."""
        return tuple(axis for axis in self.named if axis != self.scattered)

    @property
    def size(self) -> Formula:
        """Elements of the dim that the index is about."""
        assert self.access.position is not None
        return self.access.position.size

    @property
    def order(self) -> tuple[int | None, ...]:
        """The axes of the places, None for the dim that the index is about."""
        others = [axis for axis in self.domain.every if axis != self.scattered]
        if self.scattered is not None:
            before = sum(axis < self.scattered for axis in others)
        else:
            dims = self.domain.dims_of(self.result)[: self.expr.attribute("dim")]
            before = 1 + max((axis for axis in dims if axis is not None), default=-1)
        return (*others[:before], None, *others[before:])

    @property
    def is_over_base(self) -> bool:
        """Whether the result overwrites the tensor that it is scattered into."""
        output = self.task.fusion.output(self.result)
        return output is not None and output.alias == self.expr.inputs[0]

    @property
    def heads(self) -> Formula:
        """Places that the index can name."""
        return product([self.size, self.domain.points(self.along)])

    @property
    def places(self) -> Formula:
        """Elements of the result."""
        others = [axis for axis in self.domain.every if axis != self.scattered]
        return product([self.size, self.domain.points(others)])

    @property
    def naming(self) -> Naming:
        return Naming.LIST if self.expr.op == "scatter_add" else Naming.LAST


def variants(planner: Planner) -> list[VariantSpec]:
    task = planner.task
    if all(_is_alone(task, expr) for expr in scatters(task)):
        return _over_updates(planner, ())
    scatter = Scatter.of(task)
    if is_set_in_place(task.fusion, scatter.expr):
        return _over_updates(planner, (scatter,))
    return _over_places(planner, scatter)


def _over_updates(planner: Planner, known: tuple[Scatter, ...]) -> list[VariantSpec]:
    """The variants whose threads write updates, after those that find the last ones of each of ``known``."""
    domain = planner.domain
    points = domain.points(domain.every)
    found = []
    for name, guard, vec, index in _widths(planner, _vector(planner)):
        guard = (*guard, *(fits_int32(each.heads) for each in known if index == "int32_t"))
        launches: list[LaunchSpec] = []
        for scatter in known:
            launches += [_over_index(planner, scatter, index, naming) for naming in (Naming.NOTHING, Naming.LAST)]
        naming = Naming.LAST if known else Naming.NOTHING
        parameters = kernel_parameters(planner.task, domain, _scratch(index, known, const=True))
        kernel = _kernel(planner, "scatter_updates", ScatterHeuristics(naming=naming), vec, index, parameters)
        launches.append(LaunchSpec(kernel=kernel, grid=(ceil_div(points, THREADS * vec), 1, 1), block=(THREADS, 1, 1)))
        scratch = tuple(product([each.heads, _dtype(index).bytes]) for each in known)
        found.append(VariantSpec(name=name, guard=guard, launches=tuple(launches), scratch=scratch))
    return found


def _over_places(planner: Planner, scatter: Scatter) -> list[VariantSpec]:
    """The variants whose threads have a place, or neighbouring ones, each."""
    domain = planner.domain
    small = tuple(fits_int32(each) for each in (scatter.places, domain.points(domain.every), scatter.heads))
    found = []
    for name, guard, vec, index in _widths(planner, _vector_of_places(planner, scatter)):
        guard = tuple(dict.fromkeys([*guard, *small])) if index == "int32_t" else guard
        clear = _kernel(planner, "scatter_clear", ScatterHeuristics(), 1, index, _clear_parameters(scatter, index))
        heuristics = ScatterHeuristics(naming=scatter.naming)
        parameters = kernel_parameters(planner.task, domain, _scratch(index, (scatter,), const=True))
        kernel = _kernel(planner, "scatter_places", heuristics, vec, index, parameters)
        launches = (
            LaunchSpec(kernel=clear, grid=(ceil_div(scatter.heads, THREADS), 1, 1), block=(THREADS, 1, 1)),
            _over_index(planner, scatter, index, scatter.naming),
            LaunchSpec(kernel=kernel, grid=(ceil_div(scatter.places, THREADS * vec), 1, 1), block=(THREADS, 1, 1)),
        )
        scratch = [scatter.heads, *([domain.points(scatter.named)] if scatter.naming is Naming.LIST else [])]
        sizes = tuple(product([each, _dtype(index).bytes]) for each in scratch)
        found.append(VariantSpec(name=name, guard=guard, launches=launches, scratch=sizes))
    return found


def _widths(planner: Planner, vec: int) -> list[Width]:
    """The ways to access the elements of a domain by vectors of ``vec``, and one by one."""
    domain = planner.domain
    guard = planner.vector_guards(domain.inner, vec, also=domain.vector_sources) if vec > 1 else ()
    return planner.widths(vec, guard)


def _over_index(planner: Planner, scatter: Scatter, index: str, naming: Naming) -> LaunchSpec:
    """The launch of a thread for each element of the index."""
    parameters = kernel_parameters(planner.task, planner.domain, _scratch(index, (scatter,)))
    kernel = _kernel(planner, "scatter_list", ScatterHeuristics(naming=naming), 1, index, parameters)
    blocks = ceil_div(planner.domain.points(scatter.named), THREADS)
    return LaunchSpec(kernel=kernel, grid=(blocks, 1, 1), block=(THREADS, 1, 1))


def _kernel(
    planner: Planner,
    template: str,
    heuristics: ScatterHeuristics,
    vec: int,
    index: str,
    parameters: tuple[KernelParameter, ...],
) -> KernelSpec:
    return planner.kernel(
        template, heuristics, vec=vec, index=index, parameters=parameters, min_blocks=heuristics.min_blocks,
        sizes=KnownSizes(help=False),
    )  # fmt: skip


def _dtype(index: str) -> DType:
    """What scratch holds where indices have the C type ``index``: numbers of updates."""
    return DType.INT32 if index == "int32_t" else DType.INT64


def _scratch(index: str, known: tuple[Scatter, ...], *, const: bool = False) -> tuple[KernelParameter, ...]:
    """What kernels are given of scratch, which those over elements only read."""
    if not known:
        return ()
    dtype = _dtype(index)
    heads = workspace_parameter("heads", dtype, 0, const=const, comment="for each place an update, or -1")
    following = workspace_parameter("following", dtype, 1, const=const, comment="for each update the next, or -1")
    return (heads, following) if known[0].naming is Naming.LIST else (heads,)


def _clear_parameters(scatter: Scatter, index: str) -> tuple[KernelParameter, ...]:
    return (*_scratch(index, (scatter,)), call_parameter("places", scatter.heads, "that an index can name"))


def _vector(planner: Planner) -> int:
    """Elements per access of the updates: one where neighbours go to places of their own."""
    task, domain = planner.task, planner.domain
    if not domain.axes or any(domain.inner in _scattered_axes(task, domain, expr) for expr in scatters(task)):
        return 1
    return planner.vector_width(domain.inner)


def _vector_of_places(planner: Planner, scatter: Scatter) -> int:
    """The same of places: one also where neighbours have lists of their own."""
    domain = planner.domain
    if not domain.axes or domain.inner in scatter.named:
        return 1
    written = [scatter.result, *bases_read(planner.task)]
    are_dense = all(domain.unit_stride(domain.accesses[fid], domain.inner) is not None for fid in written)
    return planner.vector_width(domain.inner) if are_dense else 1
