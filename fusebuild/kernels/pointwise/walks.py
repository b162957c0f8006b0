"""Elementwise tasks with tensors that repeat along one axis, whose rows are of any length: a thread keeps one element
of a row and walks that axis.

It is as :mod:`fusebuild.kernels.pointwise.rows`, element by element: neighbouring threads have neighbouring elements,
whatever rows they are of, and where each lies is found once for all that a thread walks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Self

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, ceil_div, product, simplified
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.registers import Registers, resident_blocks
from fusebuild.kernels.common.spec import KernelParameter, VariantSpec, call_parameter, kernel_parameters
from fusebuild.kernels.pointwise.narrow import narrow_guard, reciprocal_of, reciprocal_parameters
from fusebuild.kernels.pointwise.rows import (
    FEWEST_ROWS,
    MULTIPROCESSOR_THREADS,
    THREADS,
    PointwiseRowsHeuristics,
    RowsChoice,
    check_rows,
)

ROWS = 16
"""Rows of a thread at most: where they lie is a sixteenth of what it computes then."""
FEWEST_COLUMNS = 192
"""Columns from which on it is faster than to take each element's index apart (H100)."""
UNROLL = 4
"""Rows that a thread loads before it uses the first."""
WAVES = 4
"""Blocks for each multiprocessor before threads get more than one row."""
ELEMENTS = Registers(base=28, per_axis=2, per_source=4)
"""Registers of a thread beside the elements that it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """How the domain is shared out, by the sizes of a call: ``others`` are the points of all axes but the one walked,
    of which a thread has one, and ``each`` of its rows."""

    others: Formula
    each: Formula
    threads: Formula

    @classmethod
    def of(cls, domain: AxisDomain, walked: int, choice: RowsChoice) -> Self:
        rows, points = domain.axes[walked].extent, domain.points(domain.every)
        others = domain.points(axis for axis in domain.every if axis != walked)
        share = product([choice.threads * WAVES, MULTIPROCESSORS])
        most = ("max", 1, ("min", choice.rows, ("floor_div", points, share)))
        each = simplified(("ceil_div", rows, ("max", 1, ("ceil_div", rows, most))))  # all threads have as many
        return cls(others=others, each=each, threads=product([others, ("ceil_div", rows, ("max", 1, each))]))

    def parameters(self) -> tuple[KernelParameter, ...]:
        """The numbers as a kernel is given them."""
        return (
            call_parameter("others_reciprocal", simplified(reciprocal_of(self.others)), "reciprocal of others"),
            call_parameter("each", self.each, "of the rows of a thread"),
        )


def walks_variant(planner: Planner, walked: int) -> VariantSpec:
    """The variant that walks ``walked``, for rows that are long enough for neighbouring threads to have neighbours.

    Raises :class:`KnobError` for a tuned choice that no kernel can be made with.
    """
    way, task, domain = "walks_int32", planner.task, planner.domain
    columns = domain.points(domain.every[walked + 1 :])
    long = (("ge", columns, FEWEST_COLUMNS), ("ge", domain.axes[walked].extent, FEWEST_ROWS))
    guard = (*narrow_guard(task, domain), *long)
    choice = decide(way, _propose(planner), planner.tuned, partial(check_rows, target=planner.target))
    walk = Walk.of(domain, walked, choice)
    own = (*kernel_parameters(task, domain), *reciprocal_parameters(domain), *walk.parameters())
    if walked:
        own = (*own, call_parameter("columns_reciprocal", simplified(reciprocal_of(columns)), "reciprocal of columns"))
    heuristics = PointwiseRowsHeuristics(**choice.knobs, walked=walked)
    kernel = planner.kernel("pointwise_walks", heuristics, vec=1, parameters=own)
    return planner.variant(way, choice, guard, kernel, ceil_div(walk.threads, choice.threads), (choice.threads, 1, 1))


def _propose(planner: Planner) -> RowsChoice:
    domain, target = planner.domain, planner.target
    held = UNROLL * (len(domain.accesses) + len(domain.sources))
    registers = ELEMENTS.base + held + ELEMENTS.per_axis * domain.inner + ELEMENTS.per_source * len(domain.sources)
    most = min(MULTIPROCESSOR_THREADS, target.threads_per_multiprocessor)
    blocks = resident_blocks(target, THREADS, registers, most // THREADS)
    return RowsChoice(threads=THREADS, rows=ROWS, unroll=UNROLL, min_blocks=blocks)
