"""Elementwise tasks with tensors that repeat along one axis: a thread keeps its columns of them and walks rows.

The axis **walked** is the one along which most bytes repeat: the batch of a bias, the heads of a rotary embedding. All
axes behind it are the columns; a thread owns one vector of them, so that what repeats is loaded once for many rows,
what follows from it alone is computed once, and an index is taken apart once. (nvFuser's pointwise scheduler breaks the
domain in two at the same place, and unrolls its outer half.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusebuild.formula import ceil_div, product
from fusebuild.ir import Task
from fusebuild.schedule.domain import AxisDomain
from fusebuild.schedule.kernel import KernelSpec, LaunchSpec, axis_product, hint, kernel_parameters
from fusebuild.target import Target

THREADS = 256
FEWEST_THREADS = 64
ROWS = 8
"""Rows of a thread: what repeats is an eighth of the loads then."""
FEWEST_ROWS = 4
WAVES = 4
"""Blocks for each multiprocessor before threads get more rows than they load at once."""
OWN_REGISTERS = 30
SOURCE_REGISTERS = 8
"""What a thread needs beside the vectors that it holds: the element that it computes, and addresses, which take more
where index ops read from."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseRowsHeuristics:
    """A block has ``threads_x`` vectors of columns and ``threads_y`` lines of rows along the axis ``walked``; each of
    its threads has ``rows`` rows, and loads ``unroll`` of them before it uses the first."""

    threads_x: int
    threads_y: int
    rows: int
    unroll: int
    min_blocks: int
    walked: int

    @property
    def threads(self) -> int:
        return self.threads_x * self.threads_y


def walked_axis(task: Task, domain: AxisDomain, sizes: Mapping[str, int]) -> int | None:
    """The axis along which the most bytes repeat that vectors along the innermost one read; None where nothing does, or
    there are but few rows."""
    repeated = {
        axis: sum(task.fusion.value(fid).dtype.bytes for fid in steady_fids(task, domain, axis))
        for axis in range(len(domain.axes) - 1)
        if hint(domain.axes[axis].extent, sizes) >= FEWEST_ROWS
    }
    walked = max(repeated, key=lambda axis: (repeated[axis], axis), default=None)
    return walked if walked is not None and repeated[walked] > 0 else None


def steady_fids(task: Task, domain: AxisDomain, walked: int) -> tuple[int, ...]:
    """The inputs that are vectors along the innermost axis and the same for every row."""
    inner = len(domain.axes) - 1
    return tuple(
        fid
        for fid, access in domain.accesses.items()
        if fid not in task.outputs and inner in access.axes and walked not in access.axes
        and domain.unit_stride(access, inner) is not None
    )  # fmt: skip


def rows_launch(
    task: Task, target: Target, domain: AxisDomain, walked: int, vec: int, sizes: Mapping[str, int]
) -> LaunchSpec:
    """The kernel that walks ``walked``, for 32-bit indices and vectors of ``vec`` elements."""
    before, columns = range(walked), range(walked + 1, len(domain.axes))
    heuristics = choose_rows(task, target, domain, walked, vec, sizes)
    kernel = KernelSpec(
        template="pointwise_rows",
        task=task,
        domain=domain,
        parameters=kernel_parameters(task, domain),
        index="int32_t",
        vec=vec,
        heuristics=heuristics,
    )
    tiles = product([
        ceil_div(axis_product(domain, columns), heuristics.threads_x * vec),
        ceil_div(domain.axes[walked].extent, heuristics.threads_y * heuristics.rows),
        axis_product(domain, before),
    ])  # fmt: skip
    return LaunchSpec(kernel=kernel, grid=(tiles, 1, 1), block=(heuristics.threads_x, heuristics.threads_y, 1))


def choose_rows(
    task: Task, target: Target, domain: AxisDomain, walked: int, vec: int, sizes: Mapping[str, int]
) -> PointwiseRowsHeuristics:
    """256 threads a block, as many of them along the columns as leave few idle, fewer where rows would be too few for
    all of them; four loads in flight; as many blocks as their registers allow."""
    steady = steady_fids(task, domain, walked)
    moving = [fid for fid in domain.accesses if fid not in task.outputs and fid not in steady]
    unroll = {0: 4, 1: 4, 2: 2, 3: 2}.get(len(moving) + len(domain.sources), 1)
    columns = hint(axis_product(domain, range(walked + 1, len(domain.axes))), sizes)
    threads_x = _threads_along(-(-columns // vec))
    threads_y, extent = THREADS // threads_x, hint(domain.axes[walked].extent, sizes)
    while threads_y > 1 and threads_x * threads_y > FEWEST_THREADS and threads_y * ROWS > extent:
        threads_y //= 2
    tiles = hint(axis_product(domain, range(walked)), sizes) * -(-columns // (threads_x * vec))
    steps, rows = -(-extent // threads_y), ROWS
    while rows > unroll and (rows >= 2 * steps or tiles * -(-steps // rows) < target.multiprocessors * WAVES):
        rows //= 2
    dtypes = {fid: task.fusion.value(fid).dtype for fid in (*domain.accesses, *domain.sources)}
    kept = sum(vec * max(4, dtypes[fid].bytes) // 4 for fid in steady)
    loaded = sum(unroll * vec * dtypes[fid].bytes // 4 for fid in (*moving, *domain.sources))
    blocks = target.registers // (
        threads_x * threads_y * (kept + loaded + OWN_REGISTERS + SOURCE_REGISTERS * len(domain.sources))
    )
    return PointwiseRowsHeuristics(
        threads_x=threads_x,
        threads_y=threads_y,
        rows=rows,
        unroll=unroll,
        min_blocks=max(1, min(1024 // (threads_x * threads_y), blocks)),
        walked=walked,
    )


def _threads_along(vectors: int) -> int:
    """The most threads, a power of two, of which at most an eighth has none of ``vectors``."""
    threads = THREADS
    while threads > 1 and -(-vectors // threads) * threads * 8 > vectors * 9:
        threads //= 2
    return threads
