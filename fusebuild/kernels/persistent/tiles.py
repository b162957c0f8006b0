"""What ways to keep short rows in tiles have in common: which tensors lie in shared memory, and where.

A **tile** is a run of whole rows, in shared memory as they lie side by side in global memory. It moves in aligned
vectors, whatever row an element is of.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fusebuild.kernels.persistent.way import Way

BLOCKS_WANTED = 1024
"""Blocks that keep a device busy; tiles have fewer rows where there would be fewer."""

LEAST_COPY_BYTES = 4
"""Bytes of the narrowest access that copies to shared memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TilesWay(Way):
    """A way to keep several short rows in the shared memory of a block."""

    NAME: ClassVar[str]
    FOR_ODD_ROWS: ClassVar[bool] = True

    @property
    def way(self) -> str:
        return f"{self.NAME}_vec{self.vec}_int32"

    @property
    def flat_inputs(self) -> tuple[int, ...]:
        return tuple(fid for fid in self.domain.flat if fid not in self.task.outputs)

    @property
    def resident(self) -> tuple[int, ...]:
        """Inputs that change along columns alone, side by side in memory."""
        vectors, inner = self.domain.dense_along(self.domain.inner), self.domain.reduced
        inputs = [fid for fid in vectors if fid not in (*self.domain.flat, *self.task.outputs)]
        return tuple(fid for fid in inputs if self.domain.accesses[fid].axes == inner)

    @property
    def of_rows(self) -> tuple[int, ...]:
        """Tensors of one element a row that lie side by side."""
        kept, accesses = self.domain.kept, self.domain.accesses
        own = [fid for fid, access in accesses.items() if kept and access.axes == kept]
        return tuple(fid for fid in own if self.domain.is_contiguous(accesses[fid]))

    @property
    def of_groups(self) -> tuple[int, ...]:
        """Inputs that groups of neighbouring rows share, side by side in memory: those of the largest groups."""
        domain, kept = self.domain, self.domain.kept
        for outer in range(1, len(kept)):
            axes = (*kept[:outer], *domain.reduced)
            inputs = [fid for fid in domain.dense_along(domain.inner) if fid not in self.task.outputs]
            same = [fid for fid in inputs if domain.accesses[fid].axes == axes]
            if same := [fid for fid in same if domain.is_contiguous(domain.accesses[fid])]:
                return tuple(same)
        return ()

    @property
    def in_place(self) -> dict[int, int]:
        """For outputs that lie where an input does that is as wide, that input; no two share one."""
        places = dict[int, int]()
        for fid in self.domain.flat:
            free = [each for each in self.flat_inputs if each not in places.values()]
            same = [each for each in free if self.bytes_of([each]) == self.bytes_of([fid])]
            if fid in self.task.outputs and same:
                places[fid] = same[0]
        return places

    @property
    def tiles(self) -> tuple[int, ...]:
        """The tensors that have a tile of their own."""
        return tuple(fid for fid in self.domain.flat if fid not in self.in_place)
