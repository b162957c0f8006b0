"""Elementwise tasks with any broadcast pattern: one thread handles ``unroll`` vectors of neighbouring elements.

All axes are flattened into one index; a tensor that lacks an axis (a broadcast) recovers its coordinates by division,
which costs nothing next to memory. Values that do not change along the innermost axis are computed once a vector. Where
vectors repeat along an axis, :mod:`fusebuild.kernels.pointwise.rows` has a faster kernel.

Rows that are no multiple of a vector have vectors that belong to two of them (``shifted``). Dense tensors do not mind,
but for the last vector. What repeats with each row is cut out of aligned words, and read around the row's end; all
else is read by elements, whose coordinates count on from those of the vector.

Outputs that lack the innermost axes are written on the way (:mod:`fusebuild.kernels.pointwise.repeated`).
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from fusebuild.ir.formula import ceil_div, product, simplified, total
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import NOT_TUNED, decide
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.parts import part_of
from fusebuild.kernels.common.planner import Planner, Width
from fusebuild.kernels.common.registers import Registers
from fusebuild.kernels.common.spec import LaunchSpec, VariantSpec, VectorLayout, any_domain, kernel_parameters
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.kernels.pointwise import columns
from fusebuild.kernels.pointwise.collapsed import CopyPlanner, copy_planner
from fusebuild.kernels.pointwise.columns import columns_variant
from fusebuild.kernels.pointwise.flat import is_flat
from fusebuild.kernels.pointwise.folded import folded_variant, has_runs, is_foldable, pays
from fusebuild.kernels.pointwise.narrow import finds_rows, narrow_guard, reciprocal_parameters, tensors_read
from fusebuild.kernels.pointwise.repeated import check_repeated, repeated_along, repeated_outputs
from fusebuild.kernels.pointwise.rows import FEWEST_THREADS, THREADS, rows_variant, walked_axis
from fusebuild.kernels.pointwise.runs import lone_variant, runs_variant, writes_runs
from fusebuild.kernels.pointwise.strips import has_strips, strips_variant
from fusebuild.kernels.pointwise.thread_elements import PointwiseHeuristics, check_elements
from fusebuild.kernels.pointwise.walks import walks_variant
from fusebuild.ops.table import Kind, op_of

MULTIPROCESSOR_THREADS = 2048
"""Threads that a multiprocessor should hold: with one vector each they hide memory latency, and what one computes hides
behind the loads of others (H200: gelu_backward 460 -> 441 us, silu_mul 327 -> 323 against half of them with two)."""
ELEMENTS = Registers(base=16, per_axis=4, per_source=8, per_draw=10)
"""Registers of a thread beside the elements that it holds."""
LANES_UNROLL, COPY_UNROLL = 4, 8
"""Elements of a thread where neighbouring threads have neighbouring elements, one at a time, and where it reads one
tensor alone: bytes in flight. (H100, bshd_to_bhsd of odd sizes from 95 to 157 MB: 0.72 of a copy with 4, 0.77 with 8.)
"""


def check(task: Task) -> None:
    _check_kinds(task)
    domain = any_domain(task)
    for fid in task.outputs:
        if domain.accesses[fid].axes != domain.every:
            raise UnfitError(f"{task.fusion.value(fid).name} does not span the whole iteration domain", fid)


def check_repeating(task: Task) -> None:
    """The same where some outputs lack the innermost axes."""
    _check_kinds(task)
    check_repeated(task)


def _check_kinds(task: Task) -> None:
    for expr in task.steps:
        if (kind := op_of(expr).kind) in (Kind.REDUCTION, Kind.SCAN):
            raise UnfitError(f"{expr.op} is a {kind.value}", expr.outputs[0])


def repeating_variants(planner: Planner) -> list[VariantSpec]:
    """Those of tasks some of whose outputs lack the innermost axes: by the kernels that walk the whole domain."""
    domain, inner = planner.domain, planner.domain.inner
    vec = planner.vector_width(inner)
    ways = planner.widths(vec, planner.vector_guards(inner, vec))
    is_odd = planner.has_odd_rows(vec, domain.axes[inner].extent) and _pays(domain)
    if is_odd:
        ways[1] = (f"shifted_vec{vec}_int32", planner.shifted_guard(vec, domain.points(domain.every)), vec, "int32_t")
    found = [flat_variant(planner, way, is_shifted=is_odd and number == 1) for number, way in enumerate(ways)]
    has_few = vec > 1 and inner < 2 and not isinstance(domain.points(domain.every), int)
    found = [*([_for_few(planner, found[-1])] if has_few else []), *found]
    others = _without_elements(planner)
    return [replace(each, launches=(*each.launches, *others)) for each in found]


def _without_elements(planner: Planner) -> list[LaunchSpec]:
    """The launch that writes the outputs which lack axes where these have no elements: there no thread of the others'
    kernel would."""
    fids = repeated_outputs(planner.task, planner.domain)
    lacking = planner.domain.points(repeated_along(planner.domain, fids))
    if isinstance(lacking, int) and lacking > 0:
        return []
    (launch,) = variants(replace(planner, task=part_of(planner.task, fids), tuned=NOT_TUNED))[-1].launches
    blocks = product([launch.grid[0], ("eq", lacking, 0)])
    return [replace(launch, grid=(blocks, 1, 1))]


def variants(planner: Planner) -> list[VariantSpec]:
    domain = planner.domain
    inner, has_axes = domain.inner, bool(domain.axes)
    vec = planner.vector_width(inner) if has_axes else 1
    vector = planner.vector_guards(inner, vec, also=domain.vector_sources) if has_axes else ()
    ways = planner.widths(vec, vector)
    odd: Width | None = None
    if has_axes and planner.has_odd_rows(vec, domain.axes[inner].extent) and _pays(domain):
        guard = planner.shifted_guard(vec, domain.points(domain.every))
        if is_flat(planner.task, domain):
            odd = (f"vec{vec}_int32", guard, vec, "int32_t")
            ways[:2] = [odd]
        else:
            odd = ways[1] = (f"shifted_vec{vec}_int32", guard, vec, "int32_t")
    walked = walked_axis(planner) if vec > 1 else None
    rows = [rows_variant(planner, walked, ways.pop(0))] if walked is not None else []
    *wide, narrow, last = ways
    found = [
        *rows,
        *(flat_variant(planner, way) for way in wide),
        *(_by_elements(planner, narrow, vec, walked) if odd is None else _shifted_variants(planner, odd)),
        flat_variant(planner, last),
    ]
    copies = copy_planner(planner)
    found = [_copy_variant(copies), *found] if copies is not None else found
    is_known = isinstance(domain.points(domain.every), int)
    has_few = vec > 1 and domain.inner < 2 and not domain.sources and not is_known
    return [_for_few(planner, found[-1]), *found] if has_few else found


def _copy_variant(planner: CopyPlanner) -> VariantSpec:
    """The variant for calls whose tensors all lie in one order."""
    domain = planner.domain
    vec = planner.vector_width(domain.inner)
    guard = (*planner.guard, *planner.shifted_guard(vec, domain.points(domain.every)))
    return flat_variant(planner, (f"copy_vec{vec}_int32", guard, vec, "int32_t"), is_shifted=True)


def _shifted_variants(planner: Planner, width: Width) -> list[VariantSpec]:
    """Those of shifted vectors as ``width`` has them: one, or what comes before it where rows are folded."""
    task, domain = planner.task, planner.domain
    shifted = flat_variant(planner, width, is_shifted=True)
    if not is_foldable(task, domain) or not pays(task, domain):
        return [shifted]
    folded = folded_variant(planner, width[2])
    return [folded, shifted] if has_runs(domain) else [folded]


def _by_elements(planner: Planner, width: Width, vec: int, walked: int | None) -> list[VariantSpec]:
    """Those for rows of any length that 32 bits count, of which the last one needs nothing else. What repeats does so
    along the axis ``walked``; vectors have ``vec`` elements."""
    domain = planner.domain
    own_walk = None if vec > 1 and has_strips(planner, vec) else walked
    long = _for_long_rows(planner, vec, own_walk)
    if not writes_runs(planner):
        return [*long, _single_variant(planner, width)]
    runs = runs_variant(planner, ("runs_int32", *width[1:]), own_walk)
    if finds_rows(domain):
        return [runs, *long, _single_variant(planner, width)]
    lone = lone_variant(planner, width, runs)
    return [*long, runs, lone] if own_walk is None else [runs, *long, lone]


def _single_variant(planner: Planner, width: Width) -> VariantSpec:
    """The variant whose threads have one element at a time."""
    if planner.domain.inner > 0 and planner.domain.sources:
        return columns_variant(planner, width, _choice_of_columns(planner, width))
    return flat_variant(planner, width)


def _for_long_rows(planner: Planner, vec: int, walked: int | None) -> list[VariantSpec]:
    """The variant for rows of any length that are not short, where vectors have ``vec`` elements."""
    if vec == 1:
        return []
    if has_strips(planner, vec):
        return [strips_variant(planner, vec)]
    return [] if walked is None else [walks_variant(planner, walked)]


def _for_few(planner: Planner, variant: VariantSpec) -> VariantSpec:
    """``variant``, the one whose threads have an element each, for as many elements as the device has threads: what one
    of them waits for and computes is the time of a call then. It divides by the extent of one axis at most."""
    points = planner.domain.points(planner.domain.every)
    return replace(variant, name="few_scalar_int64", guard=(("le", points, planner.target.threads),))


def _pays(domain: AxisDomain) -> bool:
    """Whether more tensors are flat, and gain from shifted vectors, than are read by elements along the innermost axis:
    those lose by them, since neighbouring threads do not read neighbouring elements."""
    inner, flat = domain.inner, domain.flat
    own = [access for access in domain.accesses.values() if inner in access.axes and access.fid not in flat]
    single = [access for access in own if access.axes != (inner,) or access.strides[inner] != 1]
    return len(single) < len(flat)


def flat_variant(planner: Planner, width: Width, *, is_shifted: bool = False) -> VariantSpec:
    """The variant whose threads walk the whole domain, with accesses as ``width`` has them."""
    name, guard, vec, index = width
    is_narrow = index == "int32_t" and not is_shifted
    guard = tuple(dict.fromkeys([*guard, *narrow_guard(planner.task, planner.domain)])) if is_narrow else guard
    lanes_unroll = COPY_UNROLL if tensors_read(planner) == 1 else LANES_UNROLL
    choice = _choice(planner, width, lanes_unroll if is_narrow and vec == 1 else 1)
    vectors = VectorLayout.SHIFTED if is_shifted else VectorLayout.ALIGNED
    parameters = (*kernel_parameters(planner.task, planner.domain), *reciprocal_parameters(planner.domain))
    kernel = planner.kernel("pointwise", choice, vec=vec, index=index, vectors=vectors, parameters=parameters)
    points = planner.domain.points(planner.domain.every)
    each = choice.threads * choice.unroll
    shares = total([("floor_div", points, vec), ("mod", points, vec)])
    has_lone = is_shifted and is_flat(planner.task, planner.domain)
    grid = simplified(("ceil_div", shares, each)) if has_lone else ceil_div(points, each * vec)
    return planner.variant(name, choice, guard, kernel, grid, (choice.threads, 1, 1))


def _choice(planner: Planner, width: Width, unroll: int) -> PointwiseHeuristics:
    """What is tuned or proposed for accesses as ``width`` has them, ``unroll`` at a time."""
    return _decided(planner, width, _propose(planner, width[2], unroll))


def _choice_of_columns(planner: Planner, width: Width) -> PointwiseHeuristics:
    """The same where a thread has elements of one column."""
    finding = finds_rows(planner.domain)
    unroll = columns.FINDING_UNROLL if finding else columns.UNROLL
    resident = columns.FINDING_THREADS if finding else columns.RESIDENT_THREADS
    proposed = _propose(planner, width[2], unroll)
    blocks = max(proposed.min_blocks, resident // proposed.threads)
    return _decided(planner, width, replace(proposed, min_blocks=blocks))


def _decided(planner: Planner, width: Width, proposed: PointwiseHeuristics) -> PointwiseHeuristics:
    return decide(width[0], proposed, planner.tuned, partial(check_elements, target=planner.target))


def _propose(planner: Planner, vec: int, unroll: int) -> PointwiseHeuristics:
    """A vector a thread, 128 threads a block; smaller blocks when there is too little work to fill the multiprocessors,
    and fewer of them at a time when their threads hold so much that registers would spill."""
    target, points, threads = planner.target, planner.expected(planner.domain.every), THREADS
    while threads > FEWEST_THREADS and points < target.multiprocessors * threads * vec:
        threads //= 2
    blocks = min(MULTIPROCESSOR_THREADS, target.threads_per_multiprocessor) // threads
    registers = ELEMENTS.base + _held(planner, vec * unroll)
    while blocks > 1 and registers > target.registers // (threads * blocks):
        blocks //= 2
    return PointwiseHeuristics(threads=threads, unroll=unroll, min_blocks=blocks)


def _held(planner: Planner, vec: int) -> int:
    """Registers that a thread takes for a vector of each input and output, for coordinates, and for random numbers,
    which nvcc draws for the whole vector at once."""
    domain = planner.domain
    held = sum(-(-vec * planner.bytes_of([fid]) // 4) for fid in domain.accesses)
    held += ELEMENTS.per_axis * max(0, domain.inner) + ELEMENTS.per_source * len(domain.sources)
    draws = sum(op_of(expr).is_random for expr in planner.task.steps)
    return held + draws * ELEMENTS.per_draw * -(-vec // 4)
