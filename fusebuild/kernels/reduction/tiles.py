"""Short rows that a block has in shared memory, side by side as in global memory, and how many of them."""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.formula import Formula, product, total
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.registers import resident_blocks
from fusebuild.kernels.reduction.stores import stored_outputs
from fusebuild.target.table import Target

TILE_BYTES = 16 * 1024
"""What a block has of short rows in shared memory."""
TILE_TURNS, MOST_TURNS = 4, 8
"""Rows that each of its threads takes one after another, at most: enough to read while others combine. Of narrow rows
it takes more: a block has so little to do with one that to begin is most of it."""
TILE_BATCH = 4
"""Elements of such a row that a thread takes at a time."""
TILE_REGISTERS = 48
"""Registers of a thread that takes rows of a tile. (H200, logsumexp of 193167 rows of one element, whose last blocks
ran in a turn of their own when 40 were planned with: 2.7 -> 1.8 us.)"""
RESERVED_BYTES = 1024
"""Shared memory that a block takes for itself."""
NARROW = 7
"""Elements of the longest row that a thread takes as a whole, in straight lines for each length: to find out which
elements of a batch are the row's would be most of its work."""
LONGEST_TILED = 256
"""Elements of the longest of such rows, where each has one of
:data:`fusebuild.kernels.reduction.row_threads.TILE_PLACES`: in longer ones vectors have little beside the row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tile:
    """Short rows that a block has in shared memory, side by side as in global memory: so many ``elements`` of each
    tensor, of so many ``rows`` at most. Threads take a ``batch`` of neighbouring elements at a time, and rows of up to
    ``narrow`` ones as a whole, in a batch of ``least`` elements or more."""

    elements: int
    rows: int
    batch: int
    narrow: int
    least: int


def tile_of(planner: Planner, threads: int) -> Tile | None:
    """What blocks have of short rows, where there are such: along one axis, of a length that only a call knows."""
    domain, inputs = planner.domain, {*planner.task.inputs}
    flat = inputs.intersection(domain.flat)
    of_rows = of_rows_beside(planner)
    rows = threads * MOST_TURNS
    if len(domain.reduced) > 1 or not domain.kept or isinstance(domain.points(domain.reduced), int):
        return None
    if not flat or planner.bytes_of(of_rows) * rows > TILE_BYTES or stored_outputs(planner.task, domain):
        return None
    has_others = bool(domain.sources) or inputs.intersection(domain.accesses) != flat | of_rows
    elements = TILE_BYTES // planner.bytes_of(flat)
    return Tile(elements=elements, rows=rows, batch=TILE_BATCH, narrow=NARROW, least=TILE_BATCH if has_others else 1)


def of_rows_beside(planner: Planner) -> set[int]:
    """The inputs that are one element a row."""
    accesses, kept = planner.domain.accesses, {*planner.domain.kept}
    return {fid for fid in planner.task.inputs if fid in accesses and {*accesses[fid].axes} <= kept}


def rows_of_thread(rows: Formula, columns: Formula, places: int, at_a_time: Formula) -> Formula:
    """How many of ``rows`` of so many ``columns`` a thread takes one after another, where it has so many ``places`` and
    so many threads run ``at_a_time``: as many as let all blocks run at a time. Where they cannot, blocks are some times
    as many as do, or the last ones would leave most multiprocessors idle. (On an H100, cross_entropy of 265907 x 3,
    whose blocks ran in two turns, the second of which was not full: 5.3 -> 4.6 us.)"""
    turns = total([TILE_TURNS, product([MOST_TURNS - TILE_TURNS, ("le", columns, NARROW)])])
    most: Formula = ("max", 1, ("min", turns, ("floor_div", places, ("max", 1, columns))))
    times: Formula = ("max", 1, ("ceil_div", rows, product([at_a_time, most])))
    even: Formula = ("ceil_div", rows, product([at_a_time, times]))
    return ("max", 1, ("min", most, even))


def resident_tiles(target: Target, threads: int, bytes_of_row: int) -> int:
    """The blocks that a multiprocessor has room for, each with so many ``threads`` and, beside its tile, so many bytes
    of each of its rows."""
    shared = TILE_BYTES + MOST_TURNS * threads * bytes_of_row + RESERVED_BYTES
    return resident_blocks(target, threads, TILE_REGISTERS, target.shared_bytes // shared)
