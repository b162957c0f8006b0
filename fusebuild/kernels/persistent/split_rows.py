"""Rows that no cluster keeps, in parts: as many blocks as fill the device have a part of a row each.

What a row is reduced to is known when all of its blocks are done, which is when their kernel is. So there is a launch
for each sweep over the rows, which reads them again: its blocks combine the partial results that the sweeps before it
left in scratch, each block those of its row, and leave their own. All launches are of one kernel, to which the number
of the sweep is an argument. What the caches have of a row is what was read last: every other sweep goes backwards.

A sum and the squares around what follows from it, as a variance has them, take one sweep: each block leaves the sum of
its part and the squares around that part's own mean. What those are around the center that all parts have together
differs by as many squares of the way between the two as the part has elements (Chan, Golub and LeVeque).
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import ClassVar

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, simplified
from fusebuild.ir.fusion import Task
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.finish import partial_dtype, partial_parameters
from fusebuild.kernels.common.lambdas import folded
from fusebuild.kernels.common.rows import MAX_THREADS, WARP, RowChoice, RowThreads, by_level, check_rows
from fusebuild.kernels.common.spec import (
    KnownSizes,
    LaunchSpec,
    VariantSpec,
    formula_parameter,
    kernel_parameters,
    reductions,
)
from fusebuild.kernels.persistent.long_rows import EDGED_COLUMNS, Edged
from fusebuild.kernels.persistent.way import Way
from fusebuild.ops.table import op_of

THREADS = 512
"""Threads of a block."""

BLOCKS = 2
"""Blocks whose registers a multiprocessor shall have."""

PARTS = 8
"""Parts of rows for each multiprocessor: several for each block that runs at a time, which end at different times."""

LEAST_VECTORS = 4
"""Vectors of a part for each thread, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """A sum of the values ``element`` of a row, and then one of their squares around ``center``, which is one value for
    the row."""

    element: int
    center: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitHeuristics:
    """Blocks of ``threads``, each of which has a part of a row. One sweep reads it for all reductions that are
    ``moments`` of the same elements, where there are some."""

    threads: RowThreads
    moments: Moments | None = None


def moments_of(task: Task, domain: AxisDomain) -> Moments | None:
    """What the reductions of a row are moments of: there are two such sums, one after the other, and no others."""
    found = by_level(task, reductions(task)).values()
    sums = [task.fusion.exprs[index] for own in found for index in own if len(own) == 1]
    if len(found) != 2 or len(sums) != 2 or any(_is_no_sum_of_floats(task, expr) for expr in sums):
        return None
    element, squares = (_root(task, expr.inputs[0]) for expr in sums)
    square = task.step_of(squares)
    way = task.step_of(_root(task, square.inputs[0])) if square is not None and square.op == "mul" else None
    if square is None or way is None or way.op != "sub" or task.fusion.value(way.outputs[0]).dtype is not DType.FLOAT:
        return None
    if len({_root(task, fid) for fid in square.inputs}) > 1:
        return None
    of, center = (_root(task, fid) for fid in way.inputs)
    value = task.fusion.value(center)
    moves = value.is_tensor and not domain.axes_of(center, value.tensor).isdisjoint(domain.reduced)
    return Moments(element=element, center=center) if of == element and not moves else None


def _is_no_sum_of_floats(task: Task, expr: Expr) -> bool:
    value, result = task.fusion.value(expr.inputs[0]), task.fusion.value(expr.outputs[0])
    takes_floats = value.dtype is DType.FLOAT or value.dtype.is_reduced_precision
    return expr.op != "sum" or value.is_constant or result.dtype is not DType.FLOAT or not takes_floats


def _root(task: Task, fid: int) -> int:
    """The value that ``fid`` is another name of; itself when it is no view."""
    step = task.step_of(fid)
    return _root(task, step.inputs[0]) if step is not None and op_of(step).is_rename else fid


@dataclass(frozen=True, slots=True, kw_only=True)
class Split(Way):
    """Rows of several axes, which are products of sizes and for that often very long."""

    TEMPLATE: ClassVar[str] = "inner_split"
    FOR_ODD_ROWS: ClassVar[bool] = True

    def applies(self, earlier: Collection[type[Way]]) -> bool:
        return self.crosses and Edged in earlier

    def variants(self) -> tuple[VariantSpec, ...]:
        """One. Raises :class:`KnobError` for a choice that no kernel can be made with."""
        way = f"split_vec{self.vec}_int32"
        choice = decide(
            way, RowChoice(threads_per_row=THREADS, rows_per_block=1, min_blocks=BLOCKS), self.tuned, self._check
        )
        moments = moments_of(self.task, self.domain)
        parts, reduced = self._parts(choice.threads.block), folded(self.task, reductions(self.task))
        kernel = self.kernel(
            self.TEMPLATE,
            SplitHeuristics(threads=choice.threads, moments=moments),
            vec=self.vec,
            min_blocks=choice.min_blocks,
            sizes=KnownSizes(help=False),
        )
        arrays = partial_parameters(self.task, reduced, const=False)
        own = kernel_parameters(self.task, self.domain, arrays)
        reading = 1 if moments else len(by_level(self.task, reductions(self.task)))
        kernels = (
            replace(
                kernel,
                parameters=(
                    *own,
                    formula_parameter("parts", parts, "of a row, one for each block"),
                    formula_parameter("sweep", sweep, "over all rows"),
                ),
            )
            for sweep in range(reading + 1)
        )
        grid, block = product([parts, self.rows]), (choice.threads.block, 1, 1)
        guard = (*self.odd_guard, ("lt", EDGED_COLUMNS, self.columns))
        variant = self.variant(way, choice, guard, kernel, grid, block)
        return (
            replace(
                variant,
                launches=tuple(LaunchSpec(kernel=each, grid=(grid, 1, 1), block=block) for each in kernels),
                scratch=tuple(product([parts, partial_dtype(self.task, fid).bytes, self.rows]) for fid in reduced),
            ),
        )

    def _parts(self, threads: int) -> Formula:
        """The parts of a row: as many as fill the device, of which none is too short for its threads."""
        filling: Formula = ("floor_div", ("mul", PARTS, MULTIPROCESSORS), ("max", 1, self.rows))
        most: Formula = ("floor_div", self.columns, threads * self.vec * LEAST_VECTORS)
        return simplified(("max", 1, ("min", filling, most)))

    def _check(self, choice: RowChoice) -> None:
        choice.require_power_of_two("threads_per_row", WARP, MAX_THREADS)
        check_rows(choice, self.target, most_rows=1)
