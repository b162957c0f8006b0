"""Elementwise tasks that read elsewhere, with rows of any length, element by element: those of a thread are one
column's.

Neighbouring threads have neighbouring elements, whatever rows they are of. From an element of a thread to its next one
are whole rows, so that the column, and all that follows from it, is found once. So is where the thread's first row
lies; where the others do is counted on from there.

(H100, share of a copy, before and so: rope of 21 x 284672 heads of 19 0.50, 0.69; embedding_add of 19 x 369767 x 5
0.55, 0.69. But rows that merely change places share lines of memory with their neighbours: bshd_to_bhsd of 3 x 131 x
57069 x 5 0.68, 0.38.)
"""

from __future__ import annotations

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, ceil_div, product, simplified, total
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.planner import Planner, Width
from fusebuild.kernels.common.spec import KernelParameter, VariantSpec, call_parameter, kernel_parameters
from fusebuild.kernels.pointwise.narrow import narrow_guard, reciprocal_of, reciprocal_parameters
from fusebuild.kernels.pointwise.thread_elements import PointwiseHeuristics

UNROLL, FINDING_UNROLL = 4, 8
"""Rows that a thread loads before it uses the first, and where an index says which ones: a load waits for another one
then."""
RESIDENT_THREADS, FINDING_THREADS = 1536, 1024
"""Threads that a multiprocessor has the registers of, for as many rows. (H100, before and now 1024 threads with eight
rows and 1536 with four: rope of 21 x 280000 heads of 19 223 and 202 us; but embedding_add of 3 x 683392 rows of 11 46.0
and 48.6, of 1200000 of 25 60.7 and 64.4.)"""
ROWS = 16
"""Rows of a thread at most: what it finds once is a small part of what it computes then."""
WAVES = 4
"""Blocks for each multiprocessor whose threads have all elements that may be in flight before they have more turns."""
SPREAD_THREADS = 256
"""Threads of each multiprocessor before one has a second element: most instructions of a thread find its first one
(H100, rope of 7 x 55 x 17 heads of 69: 3.8 us with 1024 of them, 3.0 with 256)."""
SECTOR_ELEMENTS = 32
"""Elements of any dtype begin at a sector of memory where their number is a multiple of this."""
MANY_ROWS = 8 * SECTOR_ELEMENTS
"""Rows from one element of a thread to its next one before they are made a multiple of ``SECTOR_ELEMENTS``: an eighth
more at most."""
ROW_STEP = "step{}"
"""How kernels call the distance along an axis from an element of a thread to its next one."""


def columns_variant(planner: Planner, width: Width, choice: PointwiseHeuristics) -> VariantSpec:
    """The variant for accesses as ``width`` has them."""
    way, guard, vec, index = width
    task, domain = planner.task, planner.domain
    vectors, step = ceil_div(domain.axes[domain.inner].extent, vec), _step(domain, vec, choice)
    parameters = (
        *kernel_parameters(task, domain),
        *reciprocal_parameters(domain),
        call_parameter("vectors_reciprocal", simplified(reciprocal_of(vectors)), "reciprocal of vectors"),
        call_parameter("step", step, "rows from an element of a thread to its next one"),
        *_steps(domain, step),
    )
    kernel = planner.kernel("pointwise_columns", choice, vec=vec, index=index, parameters=parameters)
    guard = tuple(dict.fromkeys([*guard, *narrow_guard(task, domain)]))
    grid = ceil_div(product([step, vectors]), choice.threads)
    return planner.variant(way, choice, guard, kernel, grid, (choice.threads, 1, 1))


def _step(domain: AxisDomain, vec: int, choice: PointwiseHeuristics) -> Formula:
    """The rows from an element of a thread to its next one: as many as there are shares of all rows."""
    points = domain.points(domain.every)
    share = product([choice.threads * vec * choice.unroll * WAVES, MULTIPROCESSORS])
    turns: Formula = ("min", max(1, ROWS // choice.unroll), ("floor_div", points, share))
    few: Formula = ("ceil_div", points, product([vec * SPREAD_THREADS, MULTIPROCESSORS]))
    each: Formula = ("max", 1, ("min", choice.unroll, few), product([choice.unroll, turns]))
    least: Formula = ("ceil_div", domain.points(range(domain.inner)), each)
    multiple = total([1, product([SECTOR_ELEMENTS - 1, ("ge", least, MANY_ROWS)])])
    return simplified(product([multiple, ("ceil_div", least, multiple)]))


def _steps(domain: AxisDomain, step: Formula) -> tuple[KernelParameter, ...]:
    """How far so many rows are along each of their axes but the outermost one, if none within it carries."""
    axes = range(1, domain.inner)
    whole: dict[int, Formula] = {
        axis: ("floor_div", step, ("max", 1, domain.points(range(axis + 1, domain.inner)))) for axis in axes
    }
    return tuple(
        call_parameter(
            ROW_STEP.format(axis),
            simplified(("mod", whole[axis], ("max", 1, domain.axes[axis].extent))),
            f"of them along axis {axis}",
        )
        for axis in axes
    )
