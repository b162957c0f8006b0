"""Elementwise tasks whose rows are of any length and use the same vectors of columns: as many rows as a vector has
elements are one row, which is whole vectors.

What repeats with each row, and what stands for all pixels of a channel, begins again where such a **folded** row does.
Threads have vectors that are whole folded rows apart: what repeats is loaded once for all of them, and what follows
from it alone is computed once. All else is dense, and moves by aligned vectors; the last one may lack elements.
"""

from __future__ import annotations

from functools import partial

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, ceil_div, product, simplified
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.domain import Access, AxisDomain
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.registers import Registers, resident_blocks
from fusebuild.kernels.common.spec import VariantSpec, VectorLayout, call_parameter, counts, kernel_parameters
from fusebuild.kernels.pointwise.thread_vectors import VectorsChoice, check_vectors
from fusebuild.ops.table import op_of

THREADS = 128
VECTORS = 8
"""Vectors of a thread at most: what repeats is an eighth of the loads then."""
WAVES = 4
"""Blocks for each multiprocessor before threads get more than one vector."""
FEWEST_ROWS = 16
"""Rows of the first axis from which on channels that stand for many pixels each are worth to be found once (H100, one
image of 13711 channels of 4225 pixels: 162 us by shifted vectors, 204 so)."""
MULTIPROCESSOR_THREADS = 1536
KEPT = Registers(base=30)
"""Registers of a thread beside the vectors that it holds."""


def is_foldable(task: Task, domain: AxisDomain) -> bool:
    """Whether each tensor is dense over the whole domain, one element, or repeats with each row of the first axis, and
    nothing counts elements."""
    flat = {*domain.flat}
    others = (access for access in domain.accesses.values() if access.fid not in flat)
    return (
        domain.inner > 0
        and {*task.outputs} <= flat
        and not domain.sources
        and not counts(task)
        and all(not access.axes or repeats(domain, access) for access in others)
    )


def pays(task: Task, domain: AxisDomain) -> bool:
    """Whether vectors of a task that :func:`is_foldable` gain by it: where more is read of what repeats than of all
    else, or so much is computed that what repeats should take no more instructions (H100: batchnorm_train of 4981 x
    17115 259 -> 206 us, bias_gelu of 977971 x 111 192 -> 158; but scale_bias_relu of 1117824 x 14 24 -> 27)."""
    size = {access.fid: task.fusion.value(access.fid).dtype.bytes for access in domain.accesses.values()}
    repeated = sum(size[access.fid] for access in domain.accesses.values() if repeats(domain, access))
    return repeated > sum(size[fid] for fid in domain.flat) or any(op_of(expr).is_costly for expr in task.steps)


def has_runs(domain: AxisDomain) -> bool:
    """Whether an element of some tensor stands for many that are neighbours in memory."""
    return any(repeats(domain, access) and domain.inner not in access.axes for access in domain.accesses.values())


def repeats(domain: AxisDomain, access: Access) -> bool:
    """Whether a tensor is dense over neighbouring axes that are not the first one: an element of it stands for all
    points of the axes within, and after its last one comes its first."""
    axes = access.axes
    return bool(axes) and 0 < axes[0] == axes[-1] + 1 - len(axes) and domain.is_contiguous(access)


def folded_variant(planner: Planner, vec: int) -> VariantSpec:
    """The variant for vectors of ``vec`` elements.

    Raises :class:`KnobError` for a tuned choice that no kernel can be made with.
    """
    task, domain, way = planner.task, planner.domain, f"folded_vec{vec}_int32"
    choice = decide(way, _propose(planner, vec), planner.tuned, partial(check_vectors, target=planner.target))
    points = domain.points(domain.every)
    step = _step(domain, vec, choice)
    parameters = (*kernel_parameters(task, domain), call_parameter("step", step, "vectors from one to the next"))
    kernel = planner.kernel("pointwise_folded", choice, vec=vec, parameters=parameters, vectors=VectorLayout.SHIFTED)
    few: tuple[Formula, ...] = (("ge", domain.axes[0].extent, FEWEST_ROWS),) if has_runs(domain) else ()
    guard, grid = (*planner.shifted_guard(vec, points), *few), ceil_div(step, choice.threads)
    return planner.variant(way, choice, guard, kernel, grid, (choice.threads, 1, 1))


def _step(domain: AxisDomain, vec: int, choice: VectorsChoice) -> Formula:
    """From a vector of a thread to its next one: as many folded rows, each of as many vectors as a row has elements, as
    leave it no more than its share; or all vectors there are."""
    vectors, row = ceil_div(domain.points(domain.every), vec), domain.points(domain.every[1:])
    share = ("floor_div", vectors, product([choice.threads * WAVES, MULTIPROCESSORS]))
    each: Formula = ("max", 1, ("min", choice.vectors, share))
    rows: Formula = ("ceil_div", vectors, ("max", 1, product([row, each])))
    return simplified(("min", vectors, product([row, rows])))


def _propose(planner: Planner, vec: int) -> VectorsChoice:
    """As many blocks as the registers of their threads allow: for what repeats, as floats at least, for vectors of all
    else, and for those that are loaded for the next turn."""
    domain, target, size = planner.domain, planner.target, planner.bytes_of
    kept = sum(max(4, size([access.fid])) for access in domain.accesses.values() if repeats(domain, access))
    read = [fid for fid in domain.flat if fid not in planner.task.outputs]
    registers = KEPT.base + vec * (kept + size(domain.flat) + size(read)) // 4
    most = min(MULTIPROCESSOR_THREADS, target.threads_per_multiprocessor)
    blocks = resident_blocks(target, THREADS, registers, most // THREADS)
    return VectorsChoice(threads=THREADS, vectors=VECTORS, min_blocks=blocks)
