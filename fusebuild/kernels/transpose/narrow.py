"""Transposes whose output has rows of few columns: a block has rows one after the other, all columns of them.

What it stores is one piece of memory then, so that it moves by aligned vectors wherever rows begin. What lies across
has a piece of each column's memory in the block, whose vectors are cut out of the aligned words around them. Both meet
in shared memory, where columns lie one behind the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, product, simplified, total
from fusebuild.kernels.common.choice import decide
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.rows import STATIC_BYTES
from fusebuild.kernels.common.spec import (
    VariantSpec,
    VectorLayout,
    call_parameter,
    fits_int32,
    formula_parameter,
    kernel_parameters,
)
from fusebuild.kernels.pointwise.narrow import reciprocal_of
from fusebuild.kernels.pointwise.thread_elements import PointwiseHeuristics, check_elements
from fusebuild.target.table import Target

MOST_COLUMNS = 256
"""Columns from which on a block has less than 32 rows."""
THREADS, UNROLL, MIN_BLOCKS = 256, 4, 4
LEAST_BITS = 1
"""A block has two vectors of a column at least: what it stores begins where a sector of memory does."""
FEWEST = MOST_COLUMNS << LEAST_BITS
"""Vectors of all columns that a block has at least."""
BLOCKS = 2
"""Blocks for each multiprocessor before one has more rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowHeuristics:
    """A thread has ``unroll`` vectors of a block's rows; ``tiled`` are the inputs that lie across."""

    threads: int
    unroll: int
    min_blocks: int
    tiled: tuple[int, ...]


def has_narrow(planner: Planner, across: int, vec: int, tiled: tuple[int, ...]) -> bool:
    """Whether outputs are dense over the whole domain, which is one matrix, and what lies across, inputs ``tiled``, has
    no gaps, and no more tiles than fit. An output of a number of columns that is known to be large has no such
    kernel."""
    domain, columns = planner.domain, planner.domain.axes[planner.domain.inner].extent
    if domain.inner != 1 or across != 0 or (isinstance(columns, int) and columns >= MOST_COLUMNS):
        return False
    dense = {*planner.task.outputs} <= {*domain.flat}
    fits = tile_elements(FEWEST, vec) * planner.bytes_of(tiled) <= STATIC_BYTES
    return fits and dense and not domain.sources and all(domain.fills_memory(domain.accesses[fid]) for fid in tiled)


def narrow_variant(planner: Planner, vec: int, tiled: tuple[int, ...]) -> VariantSpec:
    """The variant for vectors of ``vec`` elements. Raises :class:`KnobError` for a tuned choice that cannot be."""
    domain, name = planner.domain, f"narrow_vec{vec}_int32"
    rows, columns = (axis.extent for axis in domain.axes)
    element = planner.bytes_of(tiled)
    own_check = partial(_check, target=planner.target, vec=vec, element=element)
    fitting = tile_elements(THREADS * UNROLL, vec) * element <= STATIC_BYTES
    unroll = UNROLL if fitting else FEWEST // THREADS
    proposed = PointwiseHeuristics(threads=THREADS, unroll=unroll, min_blocks=MIN_BLOCKS)
    choice = decide(name, proposed, planner.tuned, own_check)
    heuristics = NarrowHeuristics(
        threads=choice.threads, unroll=choice.unroll, min_blocks=choice.min_blocks, tiled=tiled
    )
    steps = _steps(rows, columns, vec, choice.threads * choice.unroll)
    bits = simplified(total([LEAST_BITS, *steps.values()]))
    held = total([vec << LEAST_BITS, *(product([vec << bit - 1, step]) for bit, step in steps.items())])
    parameters = (
        *kernel_parameters(planner.task, domain),
        call_parameter("bits", bits, "of the vectors of a column in a block"),
        formula_parameter("columns_reciprocal", reciprocal_of(columns), "reciprocal of columns"),
    )
    kernel = planner.kernel(
        "transpose_narrow", heuristics, vec=vec, vectors=VectorLayout.SHIFTED, parameters=parameters
    )
    guard = (
        fits_int32(domain.points(domain.every)),
        ("gt", columns, 1),
        ("lt", columns, MOST_COLUMNS),
        *planner.aligned(dict.fromkeys([*domain.flat, *tiled]), vec),
    )
    grid = simplified(("ceil_div", rows, held))
    return planner.variant(name, choice, guard, kernel, grid, (choice.threads, 1, 1))


def _check(choice: PointwiseHeuristics, *, target: Target, vec: int, element: int) -> None:
    check_elements(choice, target)
    size = tile_elements(choice.threads * choice.unroll, vec) * element
    message = f"tiles of so many vectors take {size} bytes of shared memory, of {STATIC_BYTES}"
    choice.require(size <= STATIC_BYTES, "unroll", message)
    choice.require(choice.threads * choice.unroll >= FEWEST, "unroll", f"a block has {FEWEST} vectors at least")


def tile_elements(vectors: int, vec: int) -> int:
    """Elements of a tile for so many ``vectors``: behind each column there is room for one more, and behind as many
    columns as a vector has elements for another one."""
    return (vectors + MOST_COLUMNS) * vec + MOST_COLUMNS


def _steps(rows: Formula, columns: Formula, vec: int, vectors: int) -> dict[int, Formula]:
    """By the power of two of the vectors of a column in a block, beyond the least one: whether a block has as many. All
    columns have no more than ``vectors`` of them, and each multiprocessor some blocks."""
    return {
        bit: simplified(("min",
            ("le", product([columns, 1 << bit]), vectors),
            ("le", product([vec << bit, BLOCKS, MULTIPROCESSORS]), rows),
        ))
        for bit in range(LEAST_BITS + 1, vectors.bit_length())
    }  # fmt: skip
