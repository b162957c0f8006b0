"""Sorted rows, and the first entries of rows.

A row that some threads can hold in registers is sorted there by a bitonic network: in a thread, by shuffles in a warp,
through shared memory in a block. A longer one is sorted where all threads of a block see it: in shared memory, keys and
places apart, or in a workspace, which a few blocks take for one row after another. The first entries of a row, which
``topk`` asks for, need no memory: each warp holds as many of those that it has seen, sorted, and drops at once what is
not before the last of them; in the end the warps' lists are merged.

The sorted dim may be any one: where it is not the innermost, threads read with strides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, ceil_div, product
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import Choice, decide
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.rows import MAX_THREADS, SYSTEM_BYTES, WARP
from fusebuild.kernels.common.spec import (
    KernelParameter,
    VariantSpec,
    kernel_parameters,
    workspace_parameter,
)
from fusebuild.kernels.order.shape import OrderShape, shape_of

BLOCK = 128
"""Threads of a block that several rows share."""

LONGEST_IN_SHARED = 32768
"""Elements of a row that is sorted in shared memory, at most: a place takes 15 bits of 16."""

WORKSPACE_ROWS = 512
"""Rows that a workspace has room for: as many blocks run at a time on the largest target."""

PLACE_BYTES = 2
"""Bytes of a place in shared memory."""

REGISTERED_THREADS = 1024
"""Threads that a multiprocessor shall have registers for: 64 for each."""

LOADS = 4
"""Elements that a lane looks at together at least, for whose loads it waits once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsHeuristics:
    """``threads_per_row``, each of which holds so many ``items``; ``rows_per_block``."""

    threads_per_row: int
    rows_per_block: int
    items: int

    @property
    def longest(self) -> int:
        """The elements of a row that they hold."""
        return self.threads_per_row * self.items


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryHeuristics:
    """Blocks of so many ``threads``, which sort a row ``in_shared`` memory or in a workspace."""

    threads: int
    in_shared: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TopHeuristics:
    """``threads_per_row``, whole warps, whose lanes hold so many entries each and look at as many ``tiles`` of them
    together; of a row, ``kept`` entries are results."""

    threads_per_row: int
    rows_per_block: int
    kept: int
    held: int
    tiles: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderChoice(Choice):
    """A multiprocessor shall have the registers of ``min_blocks``."""

    min_blocks: int


NARROW = (
    RowsHeuristics(threads_per_row=8, rows_per_block=16, items=4),
    RowsHeuristics(threads_per_row=32, rows_per_block=4, items=4),
    RowsHeuristics(threads_per_row=128, rows_per_block=1, items=4),
    RowsHeuristics(threads_per_row=256, rows_per_block=1, items=8),
    RowsHeuristics(threads_per_row=1024, rows_per_block=1, items=8),
)
"""How rows are held whose entries have 8 bytes, the shortest ones first."""
WIDE = (*NARROW[:3], RowsHeuristics(threads_per_row=512, rows_per_block=1, items=4),
        RowsHeuristics(threads_per_row=1024, rows_per_block=1, items=4))  # fmt: skip
"""The same for entries of 16 bytes: a block of 1024 threads has 64 registers for each."""

TOP_THREADS: tuple[tuple[int, int | None], ...] = ((WARP, 1024), (256, 32768), (1024, None))
"""Threads that find the first entries of a row, and up to which length of it."""


def check(task: Task) -> None:
    shape_of(task)


def variants(planner: Planner) -> list[VariantSpec]:
    shape = shape_of(planner.task)
    if shape.kept is not None:
        return [_top(planner, shape, threads, longest) for threads, longest in TOP_THREADS]
    ladder = NARROW if key_bytes(planner.task, shape) == 4 else WIDE
    held = [_rows(planner, shape, each) for each in ladder]
    return [*held, *_in_shared(planner, shape, ladder[-1].longest), _in_workspace(planner, shape)]


def key_bytes(task: Task, shape: OrderShape) -> int:
    """Bytes of what is compared of an element: order.cuh's ``Key``."""
    return 8 if task.fusion.value(shape.expr.inputs[0]).dtype.bytes == 8 else 4


def _entry_bytes(task: Task, shape: OrderShape) -> int:
    """Bytes of an element with its place: order.cuh's ``Entry``."""
    return 2 * key_bytes(task, shape)


def _rows(planner: Planner, shape: OrderShape, heuristics: RowsHeuristics) -> VariantSpec:
    threads, rows = heuristics.threads_per_row * heuristics.rows_per_block, heuristics.rows_per_block
    way = _Way(name=f"row_of_{heuristics.longest}", template="order_rows", threads=threads)
    return way.variant(
        planner,
        heuristics,
        guard=_no_longer(planner, shape, heuristics.longest),
        grid=ceil_div(planner.domain.points(shape.rows), rows),
        shared_bytes=rows * heuristics.longest * _entry_bytes(planner.task, shape),
    )


def _no_longer(planner: Planner, shape: OrderShape, longest: int) -> tuple[Formula, ...]:
    """What holds of rows of at most so many elements."""
    return (("le", planner.domain.points([shape.sorted]), longest),)


def _in_shared(planner: Planner, shape: OrderShape, shorter: int) -> list[VariantSpec]:
    """The variant for rows that shared memory holds, where those are longer than the ``shorter`` ones; else none."""
    size = key_bytes(planner.task, shape) + PLACE_BYTES
    longest = min(LONGEST_IN_SHARED, (planner.target.shared_bytes - SYSTEM_BYTES) // size)
    if longest <= shorter:
        return []
    made = _Way(name="in_shared", template="order_memory", threads=MAX_THREADS).variant(
        planner,
        MemoryHeuristics(threads=MAX_THREADS, in_shared=True),
        guard=_no_longer(planner, shape, longest),
        grid=planner.domain.points(shape.rows),
        shared_bytes=product([size, planner.domain.points([shape.sorted])]),
    )
    return [made]


def _in_workspace(planner: Planner, shape: OrderShape) -> VariantSpec:
    """The variant for rows of any length."""
    blocks: Formula = ("min", planner.domain.points(shape.rows), WORKSPACE_ROWS)
    entries = workspace_parameter("entries", DType.INT64, 0, const=False, comment="a row for each block")
    made = _Way(name="in_workspace", template="order_memory", threads=MAX_THREADS).variant(
        planner,
        MemoryHeuristics(threads=MAX_THREADS, in_shared=False),
        guard=(),
        grid=blocks,
        parameters=kernel_parameters(planner.task, planner.domain, [entries]),
    )
    columns = planner.domain.points([shape.sorted])
    return replace(made, scratch=(product([_entry_bytes(planner.task, shape), columns, blocks]),))


def _top(planner: Planner, shape: OrderShape, threads: int, longest: int | None) -> VariantSpec:
    assert shape.kept is not None
    held, rows = -(-shape.kept // WARP), max(1, BLOCK // threads)
    heuristics = TopHeuristics(
        threads_per_row=threads, rows_per_block=rows, kept=shape.kept, held=held, tiles=LOADS // held
    )
    return _Way(name=f"top_by_{threads}", template="order_top", threads=threads * rows).variant(
        planner,
        heuristics,
        guard=() if longest is None else _no_longer(planner, shape, longest),
        grid=ceil_div(planner.domain.points(shape.rows), rows),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Way:
    """The variant of that ``name``: one launch of the ``template`` by blocks of so many ``threads``."""

    name: str
    template: str
    threads: int

    def variant(
        self,
        planner: Planner,
        heuristics: object,
        *,
        guard: tuple[Formula, ...],
        grid: Formula,
        shared_bytes: Formula = 0,
        parameters: tuple[KernelParameter, ...] | None = None,
    ) -> VariantSpec:
        proposal = OrderChoice(min_blocks=max(1, REGISTERED_THREADS // self.threads))

        def check(choice: OrderChoice) -> None:
            choice.require_blocks("min_blocks", self.threads, planner.target.threads_per_multiprocessor)

        choice = decide(self.name, proposal, planner.tuned, check)
        kernel = planner.kernel(
            self.template, heuristics, vec=1, index="int64_t", parameters=parameters, min_blocks=choice.min_blocks
        )
        block = (self.threads, 1, 1)
        return planner.variant(self.name, choice, guard, kernel, grid, block, shared_bytes=shared_bytes)
