"""Reductions without broadcasting back: inner, outer and full, several over the same axes in one pass.

The domain is ``kept x reduced x kept``. **Inner** (nothing kept inside): threads share a row, whose reduced axes one
linear index walks; kept ones may stand between them. **Outer** (something kept inside): each thread owns a vector of
columns and walks the reduced axis, then a block combines its rows. When the kept part alone cannot fill the GPU, the
reduced axis is split over ``splits`` blocks whose partial results a second kernel combines in a fixed order, so that
results are bitwise equal from run to run. The epilogue on the reduced domain runs in whichever kernel holds the final
values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fusebuild.formula import Formula, ceil_div, product
from fusebuild.ir import DType, Task
from fusebuild.ops import op_of
from fusebuild.schedule.domain import AxisDomain
from fusebuild.schedule.kernel import (
    KernelSpec,
    LaunchSpec,
    Parameter,
    Rejection,
    VariantSpec,
    axis_product,
    fits_int32,
    hint,
    kernel_parameters,
    reductions,
    rejection,
    tensor_parameters,
    try_domain,
    usable,
    vector_guards,
    vector_width,
    widths,
    workspace_parameter,
)
from fusebuild.schedule.rows import (
    RowThreads,
    check_outputs,
    check_reductions,
    check_running,
    kept_axes,
    levels,
    next_power_of_two,
    reduced_axes,
    row_threads,
    vector_of_states,
)
from fusebuild.schedule.shifted import has_odd_rows, shifted_guards
from fusebuild.target import Target

BLOCKS_PER_MULTIPROCESSOR = 4
MAX_SPLITS = 1024
FINISH_THREADS = 256
FINISH_BLOCK_X = 32
"""Results of a finishing block at most: more would not make its accesses wider."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerHeuristics:
    """``splits`` blocks share each row; 1 means that the kernel writes results and not partials."""

    threads: RowThreads
    splits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OuterHeuristics:
    """A block is ``block_x`` column vectors by ``block_y`` rows; a thread loads ``unroll`` rows before it uses one."""

    block_x: int
    block_y: int
    unroll: int
    splits: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishHeuristics:
    """A block combines the partial results of ``block_x`` results, ``block_y`` threads to each.

    It finishes the ``reductions`` (indices of exprs), whose results change along the axes ``kept``. Each result has
    ``splits`` partial ones for every point of the axes ``across``. ``scaled`` are ``(reduction, fid, factor)``: the
    partial results are those of ``fid`` times the value ``factor``.
    """

    block_x: int
    block_y: int
    splits: int
    reductions: tuple[int, ...]
    kept: tuple[int, ...]
    across: tuple[int, ...] = ()
    scaled: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReductionScheduler:
    name: str = "reduction"

    def accepts(self, task: Task, target: Target) -> Rejection | None:
        domain = try_domain(self.name, task)
        if isinstance(domain, Rejection):
            return domain
        if rejected := check_reductions(self.name, task, domain):
            return rejected
        level = levels(task)
        for index in reductions(task):
            fid = task.fusion.exprs[index].outputs[0]
            if level[fid] > 1:
                name = task.fusion.value(fid).name
                return rejection(self.name, task, f"{name} needs the result of another reduction", fid)
        reduced = reduced_axes(domain)
        is_inner = bool(domain.axes) and domain.axes[-1].reduced
        if reduced and not is_inner and reduced != tuple(range(reduced[0], reduced[-1] + 1)):
            return rejection(self.name, task, "the reduced dims are not neighbours")
        return check_outputs(self.name, task, domain, kept_axes(domain))

    def schedule(self, task: Task, target: Target, sizes: Mapping[str, int]) -> tuple[VariantSpec, ...]:
        domain = try_domain(self.name, task)
        assert isinstance(domain, AxisDomain)
        inner = len(domain.axes) - 1
        is_inner = domain.axes[inner].reduced
        vec = vector_width(task, domain, inner)
        vec = vec if is_inner else vector_of_states(task, vec)
        make = _inner if is_inner else _outer
        ways = widths(domain, vec, vector_guards(task, domain, inner, vec))
        variants = [make(task, target, domain, *way, sizes) for way in ways]
        columns = axis_product(domain, reduced_axes(domain))
        is_plain = check_running(self.name, task) is None and len(reduced_axes(domain)) == 1
        if is_inner and is_plain and has_odd_rows(task, domain, vec, columns):
            name, guard = f"shifted_vec{vec}_int32", (fits_int32(columns), *shifted_guards(task, domain, vec))
            variants[1] = _inner(task, target, domain, name, guard, vec, "int32_t", sizes, shifted=True)
        return usable(variants)


def _inner(
    task: Task,
    target: Target,
    domain: AxisDomain,
    name: str,
    guard: tuple[Formula, ...],
    vec: int,
    index: str,
    sizes: Mapping[str, int],
    *,
    shifted: bool = False,
) -> VariantSpec:
    rows = axis_product(domain, kept_axes(domain))
    columns = axis_product(domain, reduced_axes(domain))
    threads = row_threads(hint(columns, sizes), vec, 8)
    blocks = hint(threads.grid(rows), sizes)
    splits = _splits(target, blocks, hint(columns, sizes) // (256 * vec * 4))
    if splits > 1:
        threads = RowThreads(per_row=256, rows=1)
    heuristics = InnerHeuristics(threads=threads, splits=splits)
    kernel = replace(_kernel("reduction_inner", task, domain, vec, index, heuristics, splits), shifted=shifted)
    launch = LaunchSpec(kernel=kernel, grid=(threads.grid(rows), splits, 1), block=(threads.block, 1, 1))
    return _with_finish(launch, name, guard, rows, splits, sizes)


def _outer(
    task: Task,
    target: Target,
    domain: AxisDomain,
    name: str,
    guard: tuple[Formula, ...],
    vec: int,
    index: str,
    sizes: Mapping[str, int],
) -> VariantSpec:
    reduced = reduced_axes(domain)
    outside = axis_product(domain, [axis for axis in kept_axes(domain) if axis < reduced[0]])
    inside = axis_product(domain, [axis for axis in kept_axes(domain) if axis > reduced[-1]])
    block_x = min(32, next_power_of_two(-(-hint(inside, sizes) // vec)))
    block_y = 256 // block_x
    tiles = ceil_div(inside, block_x * vec)
    depth = hint(axis_product(domain, reduced), sizes)
    splits = _splits(target, hint(tiles, sizes) * hint(outside, sizes), depth // (block_y * 8))
    heuristics = OuterHeuristics(block_x=block_x, block_y=block_y, unroll=4 if vec > 1 else 2, splits=splits)
    kernel = _kernel("reduction_outer", task, domain, vec, index, heuristics, splits)
    launch = LaunchSpec(kernel=kernel, grid=(product([tiles, outside]), splits, 1), block=(block_x, block_y, 1))
    return _with_finish(launch, name, guard, product([outside, inside]), splits, sizes)


def _splits(target: Target, blocks: int, most: int) -> int:
    """How many blocks share one reduction, so that the GPU is full; at most ``most``."""
    wanted = -(-target.multiprocessors * BLOCKS_PER_MULTIPROCESSOR // blocks)
    return max(1, min(wanted, most, MAX_SPLITS))


def _kernel(
    template: str, task: Task, domain: AxisDomain, vec: int, index: str, heuristics: object, splits: int
) -> KernelSpec:
    """A reducing kernel. With splits it writes partials and not outputs."""
    tensors, partials = tensor_parameters(task, domain), list[Parameter]()
    if splits > 1:
        outputs = {f"T{fid}" for fid in task.outputs}
        tensors = [parameter for parameter in tensors if parameter.name not in outputs]
        partials = partial_parameters(task, reduced_values(task), const=False)
    return KernelSpec(
        template=template,
        task=task,
        domain=domain,
        parameters=kernel_parameters(task, domain, partials, tensors),
        index=index,
        vec=vec,
        heuristics=heuristics,
    )


def partial_parameters(task: Task, reduced: Sequence[int], *, const: bool) -> list[Parameter]:
    """One scratch array ``[partial results, kept]`` for each of the values ``reduced``."""
    return [
        workspace_parameter(
            f"P{fid}",
            partial_dtype(task, fid),
            slot,
            const=const,
            comment=f"partial results of {task.fusion.value(fid).name}",
        )
        for slot, fid in enumerate(reduced)
    ]


def partial_dtype(task: Task, fid: int) -> DType:
    """The dtype of the partial results of ``fid``: its own, but for a ``welford``, whose means are merged by their
    differences, as doubles, and whose counts are weights."""
    index = task.fusion.definition(fid)
    assert index is not None
    expr = task.fusion.exprs[index]
    if not op_of(expr).running:
        return task.fusion.value(fid).dtype
    mean, m2, _ = expr.outputs
    return DType.DOUBLE if fid == mean else task.fusion.value(m2).dtype


def reduced_values(task: Task) -> tuple[int, ...]:
    """The results of all reductions; a generalized one has several."""
    return tuple(fid for index in reductions(task) for fid in task.fusion.exprs[index].outputs)


def _with_finish(
    launch: LaunchSpec,
    name: str,
    guard: tuple[Formula, ...],
    kept: Formula,
    splits: int,
    sizes: Mapping[str, int],
) -> VariantSpec:
    if splits == 1:
        return VariantSpec(name=name, guard=guard, launches=(launch,))
    task, domain = launch.kernel.task, launch.kernel.domain
    reduced = reduced_values(task)
    finish = finish_launch(
        task, domain, reduced, launch.kernel.index,
        block_x=min(FINISH_BLOCK_X, next_power_of_two(hint(kept, sizes))),
        splits=splits, reductions=reductions(task), kept=kept_axes(domain),
    )  # fmt: skip
    scratch = tuple(product([splits, partial_dtype(task, fid).bytes, kept]) for fid in reduced)
    return VariantSpec(name=f"{name}_split{splits}", guard=guard, launches=(launch, finish), scratch=scratch)


def finish_launch(
    task: Task,
    domain: AxisDomain,
    reduced: Sequence[int],
    index: str,
    *,
    block_x: int,
    splits: int,
    reductions: tuple[int, ...],
    kept: tuple[int, ...],
    across: tuple[int, ...] = (),
    scaled: tuple[tuple[int, int, int], ...] = (),
) -> LaunchSpec:
    """The kernel that combines partial results, as :class:`FinishHeuristics` says; ``reduced`` are the values that have
    a scratch array each, in the order of their slots."""
    heuristics = FinishHeuristics(
        block_x=block_x,
        block_y=FINISH_THREADS // block_x,
        splits=splits,
        reductions=reductions,
        kept=kept,
        across=across,
        scaled=scaled,
    )
    tensors = [
        parameter
        for parameter in tensor_parameters(task, domain)
        if {*domain.accesses[int(parameter.name[1:])].axes} <= {*kept, *across}
    ]
    partials = partial_parameters(task, reduced, const=True)
    kernel = KernelSpec(
        template="reduction_finish",
        task=task,
        domain=domain,
        parameters=kernel_parameters(task, domain, partials, tensors),
        index=index,
        vec=1,
        heuristics=heuristics,
    )
    blocks = ceil_div(axis_product(domain, kept), block_x)
    return LaunchSpec(kernel=kernel, grid=(blocks, 1, 1), block=(block_x, heuristics.block_y, 1))
