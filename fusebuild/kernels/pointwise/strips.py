"""Elementwise tasks whose rows are of any length and cannot be walked by vectors: a warp walks a strip of one row.

What index ops read, and tensors that are dense along the innermost axis alone, begin at any element, so that
neighbouring threads access neighbouring elements, one by one. A thread has several columns of one row: an index is
taken apart, and where each tensor has its row is computed, once for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from fusebuild.ir.formula import MULTIPROCESSORS, product, simplified
from fusebuild.kernels.common.choice import Choice, decide
from fusebuild.kernels.common.planner import FEW, Planner
from fusebuild.kernels.common.registers import Registers, resident_blocks
from fusebuild.kernels.common.rows import MAX_THREADS, WARP
from fusebuild.kernels.common.spec import VariantSpec, call_parameter, kernel_parameters
from fusebuild.kernels.pointwise.narrow import narrow_guard, reciprocal_parameters, tensors_read
from fusebuild.target.table import Target

THREADS = 128
UNROLL = 4
"""Columns that a thread loads before it uses the first."""
MOST_UNROLL = 16
DOUBLINGS = 4
"""A thread has 2^4 times as many columns at most."""
WAVES = 8
"""Blocks for each multiprocessor before threads get more columns."""
FEWEST_COLUMNS, FEWEST_OF_A_COPY = 192, 96
"""Columns from which on it is faster than to take each element's index apart (H100): how much is done once a row
depends on how many tensors are read, and is little where there is one."""
MULTIPROCESSOR_THREADS = 1024
ELEMENTS = Registers(base=32, per_axis=4, per_source=8)
"""Registers of a thread beside the elements that it holds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StripsChoice(Choice):
    """Blocks of ``threads``, each of which loads ``unroll`` columns before it uses the first."""

    FEWER = ("unroll", "threads")

    threads: int
    unroll: int
    min_blocks: int


def has_long_rows(planner: Planner) -> bool:
    """Whether rows may be long enough, and several tensors' rows have to be found."""
    domain = planner.domain
    columns, total = domain.axes[domain.inner].extent, domain.points(domain.every)
    is_long = not isinstance(columns, int) or columns >= _fewest_columns(planner)
    return domain.inner > 0 and is_long and not (isinstance(total, int) and total <= FEW)


def _fewest_columns(planner: Planner) -> int:
    return FEWEST_OF_A_COPY if tensors_read(planner) == 1 else FEWEST_COLUMNS


def strips_variant(planner: Planner) -> VariantSpec:
    """The variant for long rows.

    Raises :class:`KnobError` for a tuned choice that no kernel can be made with.
    """
    domain, way = planner.domain, "strips_int32"
    columns, rows = domain.axes[domain.inner].extent, domain.points(range(domain.inner))
    choice = decide(way, _propose(planner), planner.tuned, partial(_check, target=planner.target))
    share = product([choice.threads * choice.unroll * WAVES, MULTIPROCESSORS])
    doublings = [("ge", domain.points(domain.every), product([1 << each, share])) for each in range(1, DOUBLINGS + 1)]
    step = WARP * choice.unroll
    length = simplified(("max", step, *(("mul", step << each, holds) for each, holds in enumerate(doublings, 1))))
    strips = simplified(("ceil_div", columns, length))
    parameters = (
        *kernel_parameters(planner.task, domain),
        *reciprocal_parameters(domain),
        call_parameter("length", length, "of a strip"),
        call_parameter("strips", strips, "of a row"),
    )
    kernel = planner.kernel("pointwise_strips", choice, vec=1, parameters=parameters)
    guard = (*narrow_guard(planner.task, domain), ("ge", columns, _fewest_columns(planner)))
    grid = simplified(("ceil_div", product([rows, strips]), choice.threads // WARP))
    return planner.variant(way, choice, guard, kernel, grid, (choice.threads, 1, 1))


def _propose(planner: Planner) -> StripsChoice:
    domain, target = planner.domain, planner.target
    held = UNROLL * (len(domain.accesses) + len(domain.sources))
    registers = ELEMENTS.base + held + ELEMENTS.per_axis * domain.inner + ELEMENTS.per_source * len(domain.sources)
    most = min(MULTIPROCESSOR_THREADS, target.threads_per_multiprocessor)
    blocks = resident_blocks(target, THREADS, registers, most // THREADS)
    return StripsChoice(threads=THREADS, unroll=UNROLL, min_blocks=blocks)


def _check(choice: StripsChoice, target: Target) -> None:
    """Raise :class:`KnobError` for blocks that cannot be."""
    choice.require_power_of_two("threads", WARP, MAX_THREADS)
    choice.require_power_of_two("unroll", 1, MOST_UNROLL)
    choice.require_blocks("min_blocks", choice.threads, target.threads_per_multiprocessor)
