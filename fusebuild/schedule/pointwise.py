"""Elementwise tasks with any broadcast pattern: one thread handles ``unroll`` vectors of neighbouring elements.

All axes are flattened into one index; a tensor that lacks an axis (a broadcast) recovers its coordinates by division,
which costs nothing next to memory. Values that do not change along the innermost axis are computed once a vector. Where
vectors repeat along an axis, :mod:`fusebuild.schedule.pointwise_rows` has a faster kernel.

Rows that are no multiple of a vector have vectors that belong to two of them (``shifted``). Dense tensors do not mind,
but for the last vector. What repeats with each row is cut out of aligned words, and read around the row's end; all
else is read by elements, whose coordinates count on from those of the vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusebuild.formula import Formula, ceil_div
from fusebuild.ir import Task
from fusebuild.ops import Kind, op_of
from fusebuild.schedule.domain import AxisDomain
from fusebuild.schedule.kernel import (
    KernelSpec,
    LaunchSpec,
    Rejection,
    VariantSpec,
    any_domain,
    axis_product,
    fits_int32,
    hint,
    kernel_parameters,
    rejection,
    usable,
    vector_guards,
    vector_sources,
    vector_width,
    widths,
)
from fusebuild.schedule.pointwise_rows import rows_launch, walked_axis
from fusebuild.schedule.shifted import flat_fids, has_odd_rows, shifted_guards
from fusebuild.target import Target

BLOCK_THREADS = 1024
"""Threads that a multiprocessor should hold: enough to hide memory latency with two vectors each."""
OTHER_REGISTERS = 16
"""What a thread takes beside the elements that it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseHeuristics:
    """``unroll`` vectors are loaded before the first is used: the bytes in flight that hide memory latency."""

    threads: int
    unroll: int
    min_blocks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseScheduler:
    name: str = "pointwise"

    def accepts(self, task: Task, target: Target) -> Rejection | None:
        for index in task.exprs:
            expr = task.fusion.exprs[index]
            if (kind := op_of(expr).kind) in (Kind.REDUCTION, Kind.SCAN):
                return rejection(self.name, task, f"{expr.op} is a {kind.value}", expr.outputs[0])
        domain = any_domain(self.name, task)
        if isinstance(domain, Rejection):
            return domain
        for fid in task.outputs:
            if domain.accesses[fid].axes != tuple(range(len(domain.axes))):
                name = task.fusion.value(fid).name
                return rejection(self.name, task, f"{name} does not span the whole iteration domain", fid)
        return None

    def schedule(self, task: Task, target: Target, sizes: Mapping[str, int]) -> tuple[VariantSpec, ...]:
        domain = any_domain(self.name, task)
        assert isinstance(domain, AxisDomain)
        total = axis_product(domain, range(len(domain.axes)))
        inner = len(domain.axes) - 1
        vec = vector_width(task, domain, inner) if domain.axes else 1
        vector = vector_guards(task, domain, inner, vec, also=vector_sources(domain)) if domain.axes else ()
        ways = widths(domain, vec, vector)
        is_odd = bool(domain.axes) and has_odd_rows(task, domain, vec, domain.axes[inner].extent) and _pays(domain)
        if is_odd:
            guard = (fits_int32(total), *shifted_guards(task, domain, vec))
            ways[1] = (f"shifted_vec{vec}_int32", guard, vec, "int32_t")
        variants = []
        walked = walked_axis(task, domain, sizes) if vec > 1 else None
        for place, (name, guard, width, index) in enumerate(ways):
            if place == 0 and walked is not None:
                name, launch = f"rows_{name}", rows_launch(task, target, domain, walked, vec, sizes)
            else:
                shifted = is_odd and place == 1
                launch = _launch(task, target, domain, total, width, index, sizes, shifted=shifted)
            variants.append(VariantSpec(name=name, guard=guard, launches=(launch,)))
        return usable(variants)


def _pays(domain: AxisDomain) -> bool:
    """Whether more tensors are flat, and gain from shifted vectors, than are read by elements along the innermost axis:
    those lose by them, since neighbouring threads do not read neighbouring elements."""
    inner, flat = len(domain.axes) - 1, flat_fids(domain)
    own = [access for access in domain.accesses.values() if inner in access.axes and access.fid not in flat]
    single = [access for access in own if access.axes != (inner,) or access.strides[inner] != 1]
    return len(single) < len(flat)


def _launch(
    task: Task,
    target: Target,
    domain: AxisDomain,
    total: Formula,
    vec: int,
    index: str,
    sizes: Mapping[str, int],
    *,
    shifted: bool,
) -> LaunchSpec:
    heuristics = choose(task, target, domain, vec, hint(total, sizes))
    kernel = KernelSpec(
        template="pointwise",
        task=task,
        domain=domain,
        parameters=kernel_parameters(task, domain),
        index=index,
        vec=vec,
        heuristics=heuristics,
        shifted=shifted,
    )
    per_block = heuristics.threads * heuristics.unroll * vec
    return LaunchSpec(kernel=kernel, grid=(ceil_div(total, per_block), 1, 1), block=(heuristics.threads, 1, 1))


def choose(task: Task, target: Target, domain: AxisDomain, vec: int, total: int) -> PointwiseHeuristics:
    """Two vectors a thread (one with many inputs, whose loads are in flight together anyway), 256 threads a block;
    smaller blocks when there is too little work to fill the multiprocessors, and fewer of them at a time when their
    threads hold so much that registers would spill."""
    inputs = [*(fid for fid in domain.accesses if fid not in task.outputs), *domain.sources]
    unroll = 2 if len(inputs) <= 3 else 1
    threads = 256
    while threads > 64 and total < target.multiprocessors * threads * vec * unroll:
        threads //= 2
    blocks, registers = BLOCK_THREADS // threads, OTHER_REGISTERS + _held(task, domain, vec, unroll)
    while blocks > 1 and registers > target.registers // (threads * blocks):
        blocks //= 2
    return PointwiseHeuristics(threads=threads, unroll=unroll, min_blocks=blocks)


def _held(task: Task, domain: AxisDomain, vec: int, unroll: int) -> int:
    """Registers that a thread takes for ``unroll`` vectors of each input and one of each output."""
    size = {fid: -(-vec * task.fusion.value(fid).dtype.bytes // 4) for fid in domain.accesses}
    return sum(words * (1 if fid in task.outputs else unroll) for fid, words in size.items())
