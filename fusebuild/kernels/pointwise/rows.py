"""Elementwise tasks with tensors that repeat along one axis: a thread keeps its columns of them and walks rows.

The axis **walked** is the one along which most bytes repeat: the batch of a bias, the heads of a rotary embedding. All
axes behind it are the columns; a thread owns one vector of them, so that what repeats is loaded once for many rows,
what follows from it alone is computed once, and an index is taken apart once. (nvFuser's pointwise scheduler breaks the
domain in two at the same place, and unrolls its outer half.)

Waiting for one thing after another is most of the time of a small call. Where an index says which rows to read, it
comes a turn earlier than they do, and rows of one vector are loaded a turn before they are computed, the first ones
before what repeats is taken apart. (H100, embedding_add of 4032 rows of 320 elements 3.7 -> 2.8 us, bias_gelu of 300
rows of 4096 4.8 -> 4.5. Rows of several vectors that were loaded so took registers from as many blocks as hide those
loads: rope of 8 x 4096 x 32 x 128 195 -> 207 us.)

A block's threads lie along columns, along rows, and along what is before them. How many lie where, and how many rows
one has, are formulas of the sizes of a call: a kernel is as good for few long rows as for many short ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, ceil_div, product, simplified
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import Choice, decide, fewer_blocks
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.planner import Planner, Width
from fusebuild.kernels.common.registers import Registers, resident_blocks
from fusebuild.kernels.common.rows import MAX_THREADS, WARP
from fusebuild.kernels.common.spec import KernelParameter, VariantSpec, call_parameter, kernel_parameters
from fusebuild.kernels.pointwise.narrow import counted_parameters, finds_rows, narrow_guard, reciprocal_parameters
from fusebuild.target.table import Target

THREADS = 128
FEWEST_THREADS = 64
"""Threads of a block of any pointwise kernel, and where there is too little work for so many."""
MULTIPROCESSOR_THREADS = 1536
ROWS = 8
"""Rows of a thread at most: what repeats is an eighth of the loads then."""
FEWEST_ROWS = 4
MOST_ROWS = 64
NEAR_BYTES = 4 * 1024
"""What repeats and is no more than this stays in L1 by itself: a thread that walks no rows is simpler, and faster."""
VECTORS_OF_LINE = 8
"""Vectors of 16 bytes in a line of L2."""
WAVES, FINDING_WAVES = 4, 8
"""Blocks for each multiprocessor before threads get more than one row, and where an index says which rows to read, so
that a load waits for another one."""
COLUMNS = Registers(base=30, per_source=8)
"""Registers of a thread beside the vectors that it holds: the element that it computes, and addresses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsChoice(Choice):
    """A block has ``threads``; each of them has ``rows`` rows at most, and loads ``unroll`` of them before it uses the
    first."""

    FEWER = ("unroll", "rows", "threads")

    threads: int
    rows: int
    unroll: int
    min_blocks: int

    def stepped(self, knob: str, value: int) -> Self:
        """A multiprocessor keeps its threads."""
        if knob == "threads":
            blocks = fewer_blocks(self.min_blocks, self.threads, value)
            return replace(self, threads=value, min_blocks=blocks)
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
    guard = tuple(dict.fromkeys([*narrow_guard(planner.task, domain), *guard]))
    choice = decide(way, _propose(planner, walked, vec), planner.tuned, partial(check_rows, target=planner.target))
    heuristics = PointwiseRowsHeuristics(**choice.knobs, walked=walked)
    layout = _Layout.of(domain, walked, vec, choice)
    own = (*kernel_parameters(planner.task, domain), *reciprocal_parameters(domain), *layout.parameters())
    kernel = planner.kernel("pointwise_rows", heuristics, vec=vec, index=index, parameters=own)
    return planner.variant(way, choice, guard, kernel, layout.blocks, (choice.threads, 1, 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """How the domain is shared out, by the sizes of a call: the powers of two of how many threads of a block lie along
    ``columns`` and along ``rows``, and how many rows ``each`` of them has. What threads are left lie along what is
    before the rows. Tiles are counted along columns first, then along rows, then along what is before them."""

    columns: Formula
    rows: Formula
    each: Formula
    tiles: tuple[Formula, ...]

    @classmethod
    def of(cls, domain: AxisDomain, walked: int, vec: int, choice: RowsChoice) -> Self:
        extent, points = domain.axes[walked].extent, domain.points(domain.every)
        vectors = ceil_div(domain.points(domain.every[walked + 1 :]), vec)
        threads = choice.threads.bit_length() - 1
        share = choice.threads * vec * (FINDING_WAVES if finds_rows(domain) else WAVES)
        wide = {shift: _fills(vectors, 1 << shift) for shift in range(1, threads + 1)}
        tall = {shift: ("ge", extent, FEWEST_ROWS << shift) for shift in range(1, threads + 1)}
        deep = {
            shift: ("ge", points, product([share << shift, MULTIPROCESSORS]))
            for shift in range(1, choice.rows.bit_length())
        }
        along = _power(wide)
        room: Formula = ("floor_div", choice.threads, along)
        lines = room if walked == 0 else simplified(("min", room, _power(tall)))
        of_line: Formula = ("ceil_div", extent, lines)
        turns: Formula = ("max", 1, ("ceil_div", of_line, _power(deep)))
        each = simplified(("max", 1, ("ceil_div", of_line, turns)))  # all threads have as many
        tiles: tuple[Formula, ...] = (
            simplified(("ceil_div", vectors, along)),
            simplified(("ceil_div", extent, product([lines, each]))),
            ("ceil_div", domain.points(range(walked)), ("floor_div", room, lines)),
        )
        columns = _shift(wide)
        left: Formula = ("sub", threads, columns)
        return cls(
            columns=columns,
            rows=simplified(left if walked == 0 else ("min", left, _shift(tall))),
            each=each,
            tiles=tiles if walked else tiles[:2],
        )

    @property
    def blocks(self) -> Formula:
        return simplified(product(self.tiles))

    def parameters(self) -> tuple[KernelParameter, ...]:
        """The numbers as a kernel is given them."""
        counts = zip(("column_tiles", "row_tiles"), self.tiles[:-1], strict=False)
        return (
            *(parameter for name, tiles in counts for parameter in counted_parameters(name, tiles)),
            call_parameter("column_shift", self.columns, "of the threads along columns"),
            call_parameter("row_shift", self.rows, "of those along rows"),
            call_parameter("each", self.each, "of the rows of a thread"),
        )


def _fills(vectors: Formula, threads: int) -> Formula:
    """Whether so many ``threads``, a power of two, lie along ``vectors``: up to a line as many as there are, since rows
    that threads read in pieces take several lines of L2 at a time; beyond, where at most an eighth of them has none.
    On an H100 bias_gelu with seven vectors a row took 0.245 ms with one thread along them; copies take 0.083.
    """
    if threads <= VECTORS_OF_LINE:
        return ("gt", vectors, threads // 2)
    return ("le", product([8 * threads, ceil_div(vectors, threads)]), product([9, vectors]))


def _power(rungs: Mapping[int, Formula]) -> Formula:
    """Two to the power of the last of the ``rungs`` that holds, 1 where none does."""
    return 1 if not rungs else simplified(("max", 1, *(("mul", 1 << shift, holds) for shift, holds in rungs.items())))


def _shift(rungs: Mapping[int, Formula]) -> Formula:
    """That power."""
    return 0 if not rungs else simplified(("max", 0, *(("mul", shift, holds) for shift, holds in rungs.items())))


def _propose(planner: Planner, walked: int, vec: int) -> RowsChoice:
    """128 threads a block; a row at a time, and as many blocks as their registers allow, which hide each other's
    loads."""
    target, registers = planner.target, _registers(planner, walked, vec)
    most = min(MULTIPROCESSOR_THREADS, target.threads_per_multiprocessor)
    blocks = resident_blocks(target, THREADS, registers, most // THREADS)
    return RowsChoice(threads=THREADS, rows=ROWS, unroll=1, min_blocks=blocks)


def _registers(planner: Planner, walked: int, vec: int) -> int:
    """What a thread takes: vectors that it keeps, as floats at least, those in flight, and those that it stores."""
    domain, steady = planner.domain, steady_fids(planner.task, planner.domain, walked)
    others = [fid for fid in domain.accesses if fid not in steady]
    kept = sum(vec * max(4, planner.bytes_of([fid])) // 4 for fid in steady)
    single = sum(-(-planner.bytes_of([fid]) // 4) for fid in others if domain.inner not in domain.accesses[fid].axes)
    moving = [*(fid for fid in others if domain.inner in domain.accesses[fid].axes), *domain.sources]
    moved = single + sum(vec * planner.bytes_of([fid]) // 4 for fid in moving)
    return kept + moved + COLUMNS.base + COLUMNS.per_source * len(domain.sources)


def check_rows(choice: RowsChoice, target: Target) -> None:
    """Raise :class:`KnobError` for blocks that cannot be."""
    choice.require_power_of_two("threads", WARP, MAX_THREADS)
    choice.require_power_of_two("rows", 1, MOST_ROWS)
    choice.require_power_of_two("unroll", 1, MOST_ROWS)
    choice.require_at_most("unroll", choice.rows, f"a thread has {choice.rows} rows")
    choice.require_blocks("min_blocks", choice.threads, target.threads_per_multiprocessor)
