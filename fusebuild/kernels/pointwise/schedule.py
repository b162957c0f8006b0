"""Elementwise tasks with any broadcast pattern: one thread handles ``unroll`` vectors of neighbouring elements.

All axes are flattened into one index; a tensor that lacks an axis (a broadcast) recovers its coordinates by division,
which costs nothing next to memory. Values that do not change along the innermost axis are computed once a vector. Where
vectors repeat along an axis, :mod:`fusebuild.kernels.pointwise.rows` has a faster kernel.

Rows that are no multiple of a vector have vectors that belong to two of them (``shifted``). Dense tensors do not mind,
but for the last vector. What repeats with each row is cut out of aligned words, and read around the row's end; all
else is read by elements, whose coordinates count on from those of the vector.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from fusebuild.ir.formula import Formula, ceil_div
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import (
    NOT_TUNED,
    Choice,
    Tuned,
    decide,
    decision,
    require_blocks,
    require_power_of_two,
)
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.registers import Registers
from fusebuild.kernels.common.rows import MAX_THREADS, WARP
from fusebuild.kernels.common.shifted import flat_fids, has_odd_rows, shifted_guards
from fusebuild.kernels.common.spec import (
    KernelSpec,
    LaunchSpec,
    Rejection,
    VariantSpec,
    VectorLayout,
    Width,
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
from fusebuild.kernels.pointwise.rows import FEWEST_THREADS, THREADS, rows_variant, walked_axis
from fusebuild.ops.table import Kind, op_of
from fusebuild.target.table import Target

MULTIPROCESSOR_THREADS = 2048
"""Threads that a multiprocessor should hold: with one vector each they hide memory latency, and what one computes hides
behind the loads of others (H200: gelu_backward 460 -> 441 us, silu_mul 327 -> 323 against half of them with two)."""
ELEMENTS = Registers(base=16, per_axis=4, per_source=8, per_draw=10)
"""Registers of a thread beside the elements that it holds."""
MOST_UNROLL = 16
"""Vectors that a thread may load before it uses the first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseHeuristics(Choice):
    """``unroll`` vectors are loaded before the first is used: the bytes in flight that hide memory latency."""

    FEWER = ("unroll", "threads")

    threads: int
    unroll: int
    min_blocks: int

    def stepped(self, knob: str, value: int) -> Self:
        """A multiprocessor keeps its threads, in larger or smaller blocks."""
        if knob == "threads":
            return replace(self, threads=value, min_blocks=max(1, self.min_blocks * self.threads // value))
        return replace(self, **{knob: value})


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

    def schedule(
        self, task: Task, target: Target, sizes: Mapping[str, int], tuned: Tuned = NOT_TUNED
    ) -> tuple[VariantSpec, ...]:
        domain = any_domain(self.name, task)
        assert isinstance(domain, AxisDomain)
        total = axis_product(domain, range(len(domain.axes)))
        inner = len(domain.axes) - 1
        vec = vector_width(task, domain, inner) if domain.axes else 1
        vector = vector_guards(task, domain, inner, vec, also=vector_sources(domain)) if domain.axes else ()
        ways = widths(domain, vec, vector)
        odd: Width | None = None
        if domain.axes and has_odd_rows(task, domain, vec, domain.axes[inner].extent) and _pays(domain):
            guard = (fits_int32(total), *shifted_guards(task, domain, vec))
            odd = ways[1] = (f"shifted_vec{vec}_int32", guard, vec, "int32_t")
        variants = []
        walked = walked_axis(task, domain, sizes) if vec > 1 else None
        if walked is not None:
            variants.append(rows_variant(task, target, domain, walked, ways.pop(0), sizes, tuned))
        for way in ways:
            name, guard, width, index = way
            proposal = choose(task, target, domain, width, hint(total, sizes))
            choice = decide(name, proposal, tuned, lambda given: _check(given, target))
            launch = _launch(task, domain, total, width, index, choice, is_shifted=way is odd)
            decided = decision(name, choice, tuned)
            variants.append(VariantSpec(name=name, guard=guard, launches=(launch,), decision=decided))
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
    domain: AxisDomain,
    total: Formula,
    vec: int,
    index: str,
    heuristics: PointwiseHeuristics,
    *,
    is_shifted: bool,
) -> LaunchSpec:
    kernel = KernelSpec(
        template="pointwise",
        task=task,
        domain=domain,
        parameters=kernel_parameters(task, domain),
        index=index,
        vec=vec,
        heuristics=heuristics,
        vectors=VectorLayout.SHIFTED if is_shifted else VectorLayout.ALIGNED,
    )
    per_block = heuristics.threads * heuristics.unroll * vec
    return LaunchSpec(kernel=kernel, grid=(ceil_div(total, per_block), 1, 1), block=(heuristics.threads, 1, 1))


def choose(task: Task, target: Target, domain: AxisDomain, vec: int, total: int) -> PointwiseHeuristics:
    """A vector a thread, 128 threads a block; smaller blocks when there is too little work to fill the multiprocessors,
    and fewer of them at a time when their threads hold so much that registers would spill."""
    threads = THREADS
    while threads > FEWEST_THREADS and total < target.multiprocessors * threads * vec:
        threads //= 2
    blocks = min(MULTIPROCESSOR_THREADS, target.threads_per_multiprocessor) // threads
    registers = ELEMENTS.base + _held(task, domain, vec)
    while blocks > 1 and registers > target.registers // (threads * blocks):
        blocks //= 2
    return PointwiseHeuristics(threads=threads, unroll=1, min_blocks=blocks)


def _held(task: Task, domain: AxisDomain, vec: int) -> int:
    """Registers that a thread takes for a vector of each input and output, for coordinates, and for random numbers,
    which nvcc draws for the whole vector at once."""
    held = sum(-(-vec * task.fusion.value(fid).dtype.bytes // 4) for fid in domain.accesses)
    held += ELEMENTS.per_axis * max(0, len(domain.axes) - 1) + ELEMENTS.per_source * len(domain.sources)
    draws = sum(op_of(task.fusion.exprs[index]).is_random for index in task.exprs)
    return held + draws * ELEMENTS.per_draw * -(-vec // 4)


def _check(choice: PointwiseHeuristics, target: Target) -> None:
    """Raise :class:`KnobError` for blocks that cannot be."""
    require_power_of_two(choice, "threads", WARP, MAX_THREADS)
    require_power_of_two(choice, "unroll", 1, MOST_UNROLL)
    require_blocks(choice, "min_blocks", choice.threads, target.threads_per_multiprocessor)
