"""Very long rows in blocks that stay with what all rows share (:mod:`fusebuild.kernels.persistent.long_rows`)."""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.formula import Formula, product
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.persistent.long_rows import RESIDENT_ROW_BYTES, LongRowsWay, shared_by_rows

WEIGHTED_ROW_BYTES = 128 * 1024
"""Bytes of a row's inputs from which blocks stay where the row is less than what stays and the next one is loaded
ahead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resident(LongRowsWay):
    """Rows of whole vectors."""

    def variants(self) -> tuple[VariantSpec, ...]:
        shared = shared_by_rows(self.task, self.domain, has_edges=False)
        if not shared or self.kept:
            return ()
        bytes_of_column = self.bytes_of(self.cached)
        row_bytes = WEIGHTED_ROW_BYTES if self.bytes_of(shared) > bytes_of_column else RESIDENT_ROW_BYTES
        rows = self.long_rows(shared, (row_bytes - 1) // max(1, bytes_of_column), has_edges=False)
        if rows is None:
            return ()
        least: Formula = ("le", row_bytes, product([bytes_of_column, self.columns]))
        return self.by("resident", rows, (*self.vector_guard, least))
