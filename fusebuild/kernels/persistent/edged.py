"""Odd rows by whole aligned vectors and the few elements beside those: their edges, of which
:mod:`fusebuild.kernels.persistent.long_rows` tells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.persistent.long_rows import LongRowsWay, shared_by_rows

EDGED_COLUMNS = 512
"""Elements beyond which a row may have edges: in a shorter one they are too much of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edged(LongRowsWay):
    """Rows of more than ``EDGED_COLUMNS`` elements."""

    FOR_ODD_ROWS: ClassVar[bool] = True

    def variants(self) -> tuple[VariantSpec, ...]:
        """One variant or none. Where the first case's rows are not odd, those that are are others, and may be longer:
        it is for rows of up to twice as many elements then, if there is room for them."""
        shared = shared_by_rows(self.task, self.domain, has_edges=True)
        rows = None if shared is None else self.long_rows(shared, EDGED_COLUMNS, has_edges=True)
        if rows is None:
            return ()
        guard = (*self.odd_guard, ("lt", EDGED_COLUMNS, self.columns))
        longer = self.by("edged", replace(rows, size=2 * rows.size), guard) if rows.size % self.vec == 0 else ()
        return longer or self.by("edged", rows, guard)
