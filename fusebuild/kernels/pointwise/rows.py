"""Elementwise tasks with tensors that repeat along one axis: a thread keeps its columns of them and walks rows.

The axis **walked** is the one along which most bytes repeat: the batch of a bias, the heads of a rotary embedding. All
axes behind it are the columns; a thread owns one vector of them, so that what repeats is loaded once for many rows,
what follows from it alone is computed once, and an index is taken apart once. (nvFuser's pointwise scheduler breaks the
domain in two at the same place, and unrolls its outer half.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from fusebuild.ir.formula import ceil_div, product
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import Choice, decide, fewer_blocks
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.planner import Planner, Width
from fusebuild.kernels.common.registers import Registers
from fusebuild.kernels.common.rows import MAX_THREADS
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.target.table import Target

THREADS = 128
FEWEST_THREADS = 64
"""Threads of a block of any pointwise kernel, and where there is too little work for so many."""
MULTIPROCESSOR_THREADS = 1536
ROWS = 8
"""Rows of a thread: what repeats is an eighth of the loads then."""
FEWEST_ROWS = 4
MOST_ROWS = 64
NEAR_BYTES = 4 * 1024
"""What repeats and is no more than this stays in L1 by itself: a thread that walks no rows is simpler, and faster."""
WAVES = 4
"""Blocks for each multiprocessor before threads get more than one row."""
COLUMNS = Registers(base=30, per_source=8)
"""Registers of a thread beside the vectors that it holds: the element that it computes, and addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsChoice(Choice):
    """A block has ``threads_x`` vectors of columns and ``threads_y`` lines of rows; each of its threads has ``rows``
    rows, and loads ``unroll`` of them before it uses the first."""

    FEWER = ("unroll", "rows", "threads_y")

    threads_x: int
    threads_y: int
    rows: int
    unroll: int
    min_blocks: int

    @property
    def threads(self) -> int:
        return self.threads_x * self.threads_y

    def stepped(self, knob: str, value: int) -> Self:
        """A multiprocessor keeps its threads, and a block its own where they lie otherwise."""
        if knob == "threads_x":
            return replace(self, threads_x=value, threads_y=max(1, self.threads // value))
        if knob == "threads_y":
            blocks = fewer_blocks(self.min_blocks, self.threads, self.threads_x * value)
            return replace(self, threads_y=value, min_blocks=blocks)
        return replace(self, **{knob: value})


@dataclass(frozen=True, slots=True, kw_only=True)
class PointwiseRowsHeuristics(RowsChoice):
    """What was chosen, and the axis ``walked``."""

    walked: int


def walked_axis(planner: Planner) -> int | None:
    """The axis along which the most bytes repeat that vectors along the innermost one read; None where nothing does,
    where it is so little that it stays near anyway, or where there are but few rows."""
    task, domain = planner.task, planner.domain
    repeated = {
        axis: planner.bytes_of(steady_fids(task, domain, axis))
        for axis in range(domain.inner)
        if planner.expected([axis]) >= FEWEST_ROWS
    }
    walked = max(repeated, key=lambda axis: (repeated[axis], axis), default=None)
    return walked if walked is not None and _weighs(planner, walked) else None


def _weighs(planner: Planner, walked: int) -> bool:
    """Whether what repeats along the axis ``walked`` is more than stays near."""
    steady, accesses = steady_fids(planner.task, planner.domain, walked), planner.domain.accesses
    return sum(planner.bytes_of([fid]) * planner.expected(accesses[fid].axes) for fid in steady) > NEAR_BYTES


def steady_fids(task: Task, domain: AxisDomain, walked: int) -> tuple[int, ...]:
    """The inputs that are vectors along the innermost axis and the same for every row."""
    inputs = [fid for fid in domain.dense_along(domain.inner) if fid not in task.outputs]
    return tuple(fid for fid in inputs if walked not in domain.accesses[fid].axes)


def rows_variant(planner: Planner, walked: int, width: Width) -> VariantSpec:
    """The variant that walks ``walked``, for vectors as ``width`` has them.

    Raises :class:`KnobError` for a tuned choice that no kernel can be made with.
    """
    flat, guard, vec, index = width
    way, domain = f"rows_{flat}", planner.domain
    choice = decide(way, _propose(planner, walked, vec), planner.tuned, partial(_check, target=planner.target))
    heuristics = PointwiseRowsHeuristics(**choice.knobs, walked=walked)
    kernel = planner.kernel("pointwise_rows", heuristics, vec=vec, index=index)
    tiles = product([
        ceil_div(domain.points(domain.every[walked + 1 :]), choice.threads_x * vec),
        ceil_div(domain.axes[walked].extent, choice.threads_y * choice.rows),
        domain.points(range(walked)),
    ])  # fmt: skip
    return planner.variant(way, choice, guard, kernel, tiles, (choice.threads_x, choice.threads_y, 1))


def _propose(planner: Planner, walked: int, vec: int) -> RowsChoice:
    """128 threads a block, as many of them along the columns as leave few idle, fewer where rows would be too few for
    all of them; a row at a time, and as many blocks as their registers allow, which hide each other's loads."""
    target, domain = planner.target, planner.domain
    columns, extent = planner.expected(domain.every[walked + 1 :]), planner.expected([walked])
    threads_x = _threads_along(-(-columns // vec))
    threads_y = THREADS // threads_x
    while threads_y > 1 and threads_x * threads_y > FEWEST_THREADS and threads_y * FEWEST_ROWS > extent:
        threads_y //= 2
    tiles = planner.expected(range(walked)) * -(-columns // (threads_x * vec))
    steps, rows = -(-extent // threads_y), ROWS
    while rows > 1 and (rows >= 2 * steps or tiles * -(-steps // rows) < target.multiprocessors * WAVES):
        rows //= 2
    threads, registers = threads_x * threads_y, _registers(planner, walked, vec)
    most = min(MULTIPROCESSOR_THREADS, target.threads_per_multiprocessor)
    blocks = max(1, min(most // threads, target.registers // (threads * registers)))
    return RowsChoice(threads_x=threads_x, threads_y=threads_y, rows=rows, unroll=1, min_blocks=blocks)


def _registers(planner: Planner, walked: int, vec: int) -> int:
    """What a thread takes: vectors that it keeps, as floats at least, those in flight, and those that it stores."""
    domain, steady = planner.domain, steady_fids(planner.task, planner.domain, walked)
    others = [fid for fid in domain.accesses if fid not in steady]
    kept = sum(vec * max(4, planner.bytes_of([fid])) // 4 for fid in steady)
    moved = sum(vec * planner.bytes_of([fid]) // 4 for fid in (*others, *domain.sources))
    return kept + moved + COLUMNS.base + COLUMNS.per_source * len(domain.sources)


def _check(choice: RowsChoice, target: Target) -> None:
    """Raise :class:`KnobError` for blocks that cannot be."""
    choice.require_power_of_two("threads_x", 1, MAX_THREADS)
    choice.require_power_of_two("threads_y", 1, MAX_THREADS)
    choice.require_block("threads_y", choice.threads)
    choice.require_power_of_two("unroll", 1, MOST_ROWS)
    choice.require_at_most("rows", MOST_ROWS, f"a thread has at most {MOST_ROWS} rows")
    choice.require_at_most("unroll", choice.rows, f"a thread has {choice.rows} rows")
    choice.require_blocks("min_blocks", choice.threads, target.threads_per_multiprocessor)


def _threads_along(vectors: int) -> int:
    """The most threads, a power of two, of which at most an eighth has none of ``vectors``."""
    threads = THREADS
    while threads > 1 and -(-vectors // threads) * threads * 8 > vectors * 9:
        threads //= 2
    return threads
