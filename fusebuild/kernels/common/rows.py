"""What the reducing families share: the checks on reduced axes, and how many threads walk one row."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from fusebuild.ir.formula import Formula, ceil_div
from fusebuild.ir.fusion import Task
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.choice import Choice, fewer_blocks
from fusebuild.kernels.common.domain import AxisDomain, walked_dims
from fusebuild.kernels.common.spec import indices_of, reductions
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.ops.table import Kind, op_of
from fusebuild.target.table import Target

WARP = 32
MAX_THREADS = 1024
FEWEST_THREADS = 8
"""Threads of a row, at least."""
LEAST_BLOCK = 128
"""Threads of a block, at least, where short rows share it."""
THREADS_FOR_TWO_BLOCKS = 512
"""Threads of a block up to which a multiprocessor shall have the registers of two: one block's barrier then does not
idle it."""
STATE_REGISTERS = 32
"""What the states of lambdas may take of a thread's 128 registers, where it keeps one for each of its columns."""
PARTIAL_BYTES = 8
"""Bytes of a partial result, or of one part of a lambda's, at most."""
SYSTEM_BYTES = 1024
"""Shared memory that the system takes of every block."""
RESERVED_BYTES = 2048
"""Shared memory that a block takes beside what is planned: the system's, and what its reductions along rows take."""
STATIC_BYTES = 48 * 1024
"""Shared memory that a kernel may declare with a size of its own; what is more is told at its launch."""
CLUSTER_BUFFER_BYTES = 8 * 1024
"""What partial results of one reduction may take, one of each warp of a cluster: cluster.cuh's kClusterBufferBytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowThreads:
    """``per_row`` threads (a power of two) walk a row together; a block holds ``rows`` rows.

    Several rows share a block only where a row fits a warp, so that rows never wait for each other at a barrier.
    """

    per_row: int
    rows: int

    @property
    def block(self) -> int:
        return self.per_row * self.rows

    @property
    def in_one_warp(self) -> bool:
        """Whether the threads of a row need no barrier to meet."""
        return self.per_row <= WARP

    def grid(self, rows: Formula) -> Formula:
        """Blocks for ``rows`` rows."""
        return ceil_div(rows, self.rows)


def rows_beside(per_row: int, block: int) -> int:
    """The rows of ``per_row`` threads that share a block of so many threads: one where it is longer than a warp."""
    return max(1, block // per_row) if per_row <= WARP else 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RowChoice(Choice):
    """``threads_per_row`` walk a row, and a block has ``rows_per_block`` of them; a multiprocessor shall have the
    registers of ``min_blocks``."""

    FEWER: ClassVar[tuple[str, ...]] = ("threads_per_row",)
    MORE: ClassVar[tuple[str, ...]] = ("threads_per_row",)

    threads_per_row: int
    rows_per_block: int
    min_blocks: int

    @property
    def threads(self) -> RowThreads:
        return RowThreads(per_row=self.threads_per_row, rows=self.rows_per_block)

    def stepped(self, knob: str, value: int) -> Self:
        """The threads of a block stay as they are where rows may share it."""
        changed = replace(self, **{knob: value})
        block = self.threads.block
        if knob == "threads_per_row":
            changed = replace(changed, rows_per_block=rows_beside(value, block))
        if knob == "min_blocks":
            return changed
        return replace(changed, min_blocks=fewer_blocks(self.min_blocks, block, changed.threads.block))


def blocks_wanted(threads: RowThreads) -> int:
    """The blocks that a multiprocessor shall have registers for."""
    return 2 if threads.block <= THREADS_FOR_TWO_BLOCKS else 1


def check_rows(choice: RowChoice, target: Target, *, most_rows: int = MAX_THREADS) -> None:
    """Raise :class:`KnobError` unless blocks can be like this. ``most_rows`` share one."""
    choice.require_power_of_two("threads_per_row", FEWEST_THREADS, MAX_THREADS)
    most = most_rows if choice.threads.in_one_warp else 1
    choice.require_at_most("rows_per_block", most, f"rows of {choice.threads_per_row} threads share no block here")
    choice.require_block("rows_per_block", choice.threads.block)
    choice.require_blocks("min_blocks", choice.threads.block, target.threads_per_multiprocessor)


def next_power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()


def row_threads(columns: int, vec: int, vectors_per_thread: int, most: int = MAX_THREADS) -> RowThreads:
    """Threads so that each has about ``vectors_per_thread`` vectors of a row of ``columns`` elements, at most ``most``
    of them."""
    wanted = next_power_of_two(max(1, -(-columns // (vec * vectors_per_thread))))
    per_row = min(most, max(FEWEST_THREADS, wanted))
    return RowThreads(per_row=per_row, rows=rows_beside(per_row, LEAST_BLOCK))


def fits_exchange(warps: int, parts: int = 1) -> bool:
    """Whether partial results of one reduction, so many ``parts`` from each of a cluster's ``warps``, have room where
    they meet."""
    return PARTIAL_BYTES * parts * warps <= CLUSTER_BUFFER_BYTES


def vector_of_states(task: Task, vec: int) -> int:
    """``vec``, halved until the states that a thread keeps for so many columns fit its registers."""
    fids = [fid for expr in task.steps if expr.combine or op_of(expr).running for fid in expr.outputs]
    registers = sum(max(1, task.fusion.value(fid).dtype.bytes // 4) for fid in fids)
    while vec > 1 and registers * vec > STATE_REGISTERS:
        vec //= 2
    return vec


def has_lambdas(task: Task) -> bool:
    """Whether something combines with a lambda: what is kept of it has parts, and to combine it takes temporaries."""
    return any(expr.combine for expr in task.steps)


def levels(task: Task) -> dict[int, int]:
    """For each value the number of reductions on the longest path to it."""
    level: dict[int, int] = {}
    for expr in task.steps:
        own = max((level.get(fid, 0) for fid in expr.inputs), default=0)
        own += op_of(expr).kind is Kind.REDUCTION
        level.update((fid, own) for fid in expr.outputs)
    return level


def by_level(task: Task, indices: Iterable[int]) -> dict[int, list[int]]:
    """The reductions at ``indices`` by their level, the first level first."""
    level, found = levels(task), dict[int, list[int]]()
    for index in indices:
        found.setdefault(level[task.fusion.exprs[index].outputs[0]], []).append(index)
    return dict(sorted(found.items()))


def own_loops(domain: AxisDomain, expr: Expr) -> frozenset[int]:
    """The loops of the operands of ``expr``."""
    operands = [fid for fid in expr.inputs if fid in domain.domain.dims]
    return frozenset(loop for fid in operands for loop in domain.domain.dims[fid] if loop is not None)


def walked_loops(task: Task, domain: AxisDomain, expr: Expr) -> frozenset[int]:
    """The loops that the reduction or scan ``expr`` runs over."""
    loops = [domain.domain.dims[fid][dim] for fid, dim in walked_dims(task, expr)]
    return frozenset(loop for loop in loops if loop is not None)


def check_kinds(task: Task) -> None:
    """Raise :class:`UnfitError` unless there are reductions and no scans."""
    for index in indices_of(task, Kind.SCAN):
        (fid, *_) = task.fusion.exprs[index].outputs
        raise UnfitError(f"{task.fusion.value(fid).name} is a scan", fid)
    if not reductions(task):
        raise UnfitError("there is no reduction")


def running_sums(task: Task) -> list[int]:
    """The reductions that threads keep running sums for."""
    return [index for index in reductions(task) if op_of(task.fusion.exprs[index]).running]


def check_running(task: Task) -> None:
    """Raise :class:`UnfitError` where a reduction keeps running sums: a family that holds rows on chip has no need of
    them."""
    for index in running_sums(task):
        fid = task.fusion.exprs[index].outputs[0]
        raise UnfitError(f"{task.fusion.value(fid).name} is what only reduction computes", fid)


def check_reduction(
    task: Task, domain: AxisDomain, expr: Expr, *, walked: Set[int], spanned: Set[int], others: str
) -> None:
    """Raise :class:`UnfitError` unless the reduction ``expr`` combines in any order, runs over the loops ``walked``, as
    ``others`` do, and has the loops ``spanned``."""
    fid = expr.outputs[0]
    name = task.fusion.value(fid).name
    if expr.is_ordered:
        raise UnfitError(f"{name} combines in the order of indices", fid)
    if walked_loops(task, domain, expr) != walked:
        raise UnfitError(f"{name} reduces over other dims than {others}", fid)
    if not spanned <= own_loops(domain, expr):
        raise UnfitError(f"the task iterates over dims that the reduction {name} does not have", fid)


def check_reductions(task: Task, domain: AxisDomain) -> None:
    """Raise :class:`UnfitError` unless there are reductions, all over the same loops, each spanning every kept loop of
    the domain. One that lacks some is **repeated** along those, as the sum of a mask is for each of the rows that it
    masks: it combines in few instructions what the others read anyway."""
    check_kinds(task)
    reduced = {loop for loop, info in enumerate(domain.domain.loops) if info.reduced}
    exprs = [task.fusion.exprs[index] for index in reductions(task)]
    spanning = [expr for expr in exprs if domain.kept_loops <= own_loops(domain, expr)]
    read = inputs_of(task)
    read_anyway = {fid for expr in spanning for fid in read[expr.inputs[0]]}
    for expr in exprs:
        is_repeated = op_of(expr).is_fold and read[expr.inputs[0]] <= read_anyway
        spanned = frozenset[int]() if is_repeated and spanning else domain.kept_loops
        check_reduction(task, domain, expr, walked=reduced, spanned=spanned, others="the rest of the task")


def inputs_of(task: Task) -> dict[int, frozenset[int]]:
    """The tensors among the task's inputs from which each value is computed, inputs themselves among them."""
    none = frozenset[int]()
    found = {fid: frozenset([fid]) if task.fusion.value(fid).is_tensor else none for fid in task.inputs}
    for expr in task.steps:
        own = none.union(*(found.setdefault(fid, none) for fid in expr.inputs))
        found.update(dict.fromkeys(expr.outputs, own))
    return found


def check_output(task: Task, domain: AxisDomain, fid: int, *shapes: tuple[int, ...]) -> None:
    """Raise :class:`UnfitError` unless the output ``fid`` changes along exactly one of the given sets of axes."""
    if domain.accesses[fid].axes not in shapes:
        raise UnfitError(f"{task.fusion.value(fid).name} has other dims than this family writes", fid)


def check_outputs(task: Task, domain: AxisDomain, *shapes: tuple[int, ...]) -> None:
    """Raise :class:`UnfitError` unless every output changes along exactly one of the given sets of axes."""
    for fid in task.outputs:
        check_output(task, domain, fid, *shapes)
