"""Outer indices that a block has all rows of: it finishes them itself.

Where an outer index, such as a sample, has few rows, what they add up to is not much less than the rows themselves: to
leave it in scratch and to read it again in a finishing kernel takes longer than all else. So where blocks can have
whole indices evenly enough, each writes what follows from one when it has its last row. A sum over all indices that is
scaled from theirs takes each as it is finished, in an array of the block in scratch, and a finishing kernel combines
those of all blocks. Whether it is so is found at the call. (H100, adaln's backward pass, 7296 x 2 x 384: the finishing
kernel took 94 us of 120.)
"""

from __future__ import annotations

from fusebuild.ir.formula import Formula, product, simplified, total
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.inner_outer.axes import InnerOuterParts, read_after

ROWS_OF_PARTS = 8
"""How many rows take as long as the partial results of an outer index, about: as kRowsOfParts of partition.cuh."""


def can_be_whole(planner: Planner, parts: InnerOuterParts) -> bool:
    """Whether blocks can finish outer indices: their accumulators are all those of one, what is reduced over all
    indices is scaled from them, and what else is needed lies along the columns and is overwritten by nothing."""
    task, domain = planner.task, planner.domain
    after = read_after(task, [*parts.finished, *(each.factor for each in parts.scaled.values())])
    tensors = {fid for fid in after.intersection(task.inputs) if fid in domain.accesses}
    are_of_indices = all(parts.kept[index] == parts.outer for index in parts.accumulated)
    are_scaled = all(not parts.kept[index] for index in parts.scaled)
    are_along_columns = tensors <= {*domain.dense_along(domain.inner)}
    is_fit = bool(parts.outer) and are_of_indices and are_scaled and are_along_columns
    return is_fit and parts.are_plain(task, domain)


def is_whole(planner: Planner, parts: InnerOuterParts, blocks: Formula) -> Formula:
    """1 where ``blocks`` have whole indices evenly enough, else 0: if the longest share has no more rows than it would
    have if each index had ROWS_OF_PARTS more."""
    outers, depth = (planner.domain.points(axes) for axes in (parts.outer, parts.depth))
    rows: Formula = ("max", 1, depth)
    longest = product([("ceil_div", outers, blocks), rows])
    is_even: Formula = ("le", product([longest, blocks]), product([outers, total([rows, ROWS_OF_PARTS])]))
    return simplified(product([("gt", outers, 0), is_even]))
