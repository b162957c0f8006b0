"""What a block takes of shared memory where its vectors lie across narrow rows."""

from __future__ import annotations

from fusebuild.ir.dtype import DType
from fusebuild.kernels.common.finish import partial_dtype
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.rows import has_lambdas
from fusebuild.kernels.common.spec import reductions

COLUMN_STORAGE_BYTES = 16 * 1024
"""What values take at a time where threads of a column meet, unless one takes more (kColumnStorageBytes in
reduce.cuh)."""
WORD_BYTES = 4
"""A value takes a whole number of such there."""


def shared_bytes(planner: Planner, vec: int, threads: int) -> int:
    """What so many ``threads`` have of each element of a vector, and what the values of theirs take that meet."""
    sizes = _bytes_of_values(planner)
    place = max(WORD_BYTES, *sizes)
    at_once = min(len(sizes), max(1, COLUMN_STORAGE_BYTES // (threads * place)))
    return threads * (vec * sum(sizes) + at_once * place)


def _bytes_of_values(planner: Planner) -> list[int]:
    """The bytes of what each reduction combines: those of its parts, each of which a lambda may keep in any type."""
    task = planner.task
    least = DType.DOUBLE.bytes if has_lambdas(task) else 1
    parts = [
        [max(least, partial_dtype(task, fid).bytes) for fid in task.fusion.exprs[index].outputs]
        for index in reductions(task)
    ]
    return [-(-sum(each) // max(each)) * max(each) for each in parts]
