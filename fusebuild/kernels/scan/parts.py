"""Scans in parts: few rows, or few columns, are long, and many blocks or threads walk each of them.

Three kernels run one after another. The first walks all parts and leaves in scratch what each combines to, the second
scans that, and the third walks the parts again, each from what all before it combine to. Parts have a length that only
sizes and the device's multiprocessors decide, so results are bitwise the same from run to run. What is scanned is read
twice, the second time from the L2 cache where it fits; that is the price, and why many rows and columns are walked from
end to end.

    Blelloch, "Prefix Sums and Their Applications" (1990), section 1.2: reduce, scan the sums, scan.
"""

from __future__ import annotations

from dataclasses import replace

from fusebuild.ir.formula import MULTIPROCESSORS, Formula, ceil_div, product, total
from fusebuild.kernels.common.finish import partial_dtype, partial_parameters
from fusebuild.kernels.common.lambdas import folded
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.rows import vector_of_states
from fusebuild.kernels.common.spec import (
    KernelParameter,
    LaunchSpec,
    VariantSpec,
    VectorLayout,
    call_parameter,
    indices_of,
    kernel_parameters,
    reductions,
)
from fusebuild.kernels.scan.choices import PartHeuristics, Step, Way
from fusebuild.ops.table import Kind

FEW_BLOCKS = 1
"""Blocks of whole rows on a multiprocessor below which rows are walked in parts. (H200, running sums, us in parts and
whole: 71 x 120007 28 and 70, 1 x 1100003 9 and 533; but 300 x 65536 65 and 53, 500 x 16384 28 and 21.)"""

BLOCKS = 8
"""Blocks of parts of rows on a multiprocessor."""

LEAST_TILES = 4
"""Tiles of a row that is walked in parts, at least: two kernels more take as long as few of them."""

FEW_COLUMNS = 32
"""Threads of whole columns on a multiprocessor below which columns are walked in parts. (H200, running sums of halves
down T x E, us in parts and whole: 16384 x 64, walked one row after another, 10 and 6200; but 700 x 60000, 57 such
threads, 185 and 118, 2048 x 160000 972 and 545.)"""

THREADS = 256
"""Threads of parts of columns on a multiprocessor."""

LEAST_ROWS = 128
"""Rows of columns that are walked in parts, at least."""

ROWS_OF_PART = 16
"""Rows of a part of columns, or a multiple of it."""

PREFIX_THREADS, PREFIX_ITEMS = 256, 8
"""Threads of a block that scans what the parts of a row or column combine to, and how many of these each has at
a time."""


def has_parts(planner: Planner) -> bool:
    """Whether scans are all that the task combines, so that a part needs nothing of the others but their sums."""
    return not reductions(planner.task)


def rows_in_parts(planner: Planner, way: Way, threads: int) -> VariantSpec:
    """Parts of rows, each walked by a block of so many ``threads``, tile by tile."""
    domain = planner.domain
    rows, columns = domain.points(domain.kept), domain.points(domain.reduced)
    _, guard, vec, _ = way.width
    beside = vec - 1 if way.vectors is VectorLayout.SHIFTED else 0  # columns of other rows that the first tile has
    tile, walked = threads * vec, total([columns, beside])
    length = _length(ceil_div(walked, tile), product([BLOCKS, MULTIPROCESSORS]), rows, tile)
    few = (("lt", rows, FEW_BLOCKS * planner.target.multiprocessors), ("ge", columns, LEAST_TILES * tile))
    parts: Formula = ("ceil_div", walked, length)
    way = replace(way, width=(way.width[0], (*guard, *few), *way.width[2:]))
    return _variant(planner, way, "scan", threads, length, parts, rows, product([rows, parts]))


def columns_in_parts(planner: Planner, way: Way, threads: int) -> VariantSpec:
    """Parts of columns, each vector of which is a thread's; neighbours have neighbouring columns of the same rows."""
    domain = planner.domain
    first, last = domain.reduced[0], domain.reduced[-1]
    _, guard, vec, _ = way.width
    columns, outer = domain.points(domain.every[last + 1 :]), domain.points(range(first))
    vectors, depth = product([ceil_div(columns, vec), outer]), domain.points(domain.reduced)
    few = (("lt", vectors, FEW_COLUMNS * planner.target.multiprocessors), ("ge", depth, LEAST_ROWS))
    length = _length(ceil_div(depth, ROWS_OF_PART), product([THREADS, MULTIPROCESSORS]), vectors, ROWS_OF_PART)
    parts: Formula = ("ceil_div", depth, length)
    way = replace(way, width=(way.width[0], (*guard, *few), *way.width[2:]))
    blocks = ceil_div(product([vectors, parts]), threads)
    return _variant(planner, way, "scan_outer", threads, length, parts, product([outer, columns]), blocks)


def _length(pieces: Formula, walkers: Formula, walked: Formula, piece: int) -> Formula:
    """The length of a part, whole pieces of so many elements each, where ``walkers`` share all that is ``walked``, each
    of which has as many ``pieces``."""
    parts: Formula = ("max", 1, ("floor_div", walkers, ("max", 1, walked)))
    return product([("max", 1, ("ceil_div", pieces, parts)), piece])


def _variant(
    planner: Planner,
    way: Way,
    template: str,
    threads: int,
    length: Formula,
    parts: Formula,
    results: Formula,
    blocks: Formula,
) -> VariantSpec:
    """The variant that scans ``parts`` of each of the ``results``, of so many elements as ``length`` says, by so many
    ``blocks``."""
    name, guard, vec, index = way.width
    task, domain = planner.task, planner.domain
    scanned = folded(task, indices_of(task, Kind.SCAN))

    def launch(step: Step, scratch: list[KernelParameter], *given: KernelParameter) -> LaunchSpec:
        """One of the walks over parts."""
        kernel = planner.kernel(
            template, PartHeuristics(threads=threads, step=step), vec=vec, index=index, vectors=way.vectors,
            parameters=(*kernel_parameters(task, domain, scratch), *given),
        )  # fmt: skip
        early = step is not Step.SUMS
        return LaunchSpec(kernel=kernel, grid=(blocks, 1, 1), block=(threads, 1, 1), starts_early=early)

    own, known = (partial_parameters(task, scanned, const=const) for const in (False, True))
    long = call_parameter("length", length, "elements of a part")
    count = (call_parameter("parts", parts, "of each"), call_parameter("results", results, "rows or columns"))
    scanning = PartHeuristics(threads=PREFIX_THREADS, step=Step.PREFIXES)
    items = vector_of_states(task, PREFIX_ITEMS)
    prefixes = planner.kernel("scan_prefixes", scanning, vec=items, parameters=(*own, *count))
    launches = (
        launch(Step.SUMS, own, long),
        LaunchSpec(kernel=prefixes, grid=(results, 1, 1), block=(PREFIX_THREADS, 1, 1), starts_early=True),
        launch(Step.RESULTS, known, long),
    )
    scratch = tuple(product([parts, results, partial_dtype(task, fid).bytes]) for fid in scanned)
    return VariantSpec(name=f"parts_{name}", guard=guard, launches=launches, scratch=scratch)
