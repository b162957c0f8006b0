"""What kernels have in common that keep whole rows in shared memory: tiles, and the walks over rows in them.

``tile0`` is where the block keeps its rows of tensor 0, ``r0`` the row of a thread there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fusebuild.kernels.common.dynamic_shared import SharedArray, array_in_place, arrays_in_shared, arrays_of
from fusebuild.kernels.common.rows_view import Rows
from fusebuild.kernels.common.view import Lines, Sweep, join
from fusebuild.kernels.persistent.view import Kept, row_levels


class Tiles:
    """The tiles of the tensors that are dense over the whole domain; outputs may lie ``in_place`` of inputs."""

    def __init__(self, rows: Rows, in_place: Iterable[tuple[int, int]]) -> None:
        self._rows, self._body, self._in_place = rows, rows.body, dict(in_place)
        self._inputs = tuple(fid for fid in rows.body.domain.flat if fid in rows.reads)
        self._outputs = tuple(fid for fid in rows.body.domain.flat if fid in rows.body.task.outputs)

    @property
    def flat(self) -> tuple[int, ...]:
        return (*self._inputs, *self._outputs)

    def tiles(self, elements: str) -> tuple[SharedArray, ...]:
        """An array of so many ``elements`` for each tile that is not in place of another one, the widest first."""
        return arrays_of(self._body, [fid for fid in self.flat if fid not in self._in_place], "tile", elements)

    def declared(self, arrays: Iterable[SharedArray]) -> Lines:
        """Where ``arrays`` begin, one after the other, and the tiles in place of others."""
        in_place = (array_in_place(self._body, fid, place, "tile") for fid, place in self._in_place.items())
        return (*arrays_in_shared(arrays), *in_place)

    def row_bases(self, place: str) -> Lines:
        """Where the row is in each tile: at the element ``place``."""
        const = {fid: "" if fid in self._outputs else "const " for fid in self.flat}
        return tuple(f"{const[fid]}{self._body.c_type(fid)}* r{fid} = tile{fid} + {place};" for fid in self.flat)

    def walks(
        self,
        kept: Kept,
        loads: Callable[[int], Lines],
        reduction: Callable[[str], str],
        store: str,
        *,
        reader: str,
        overwrites: bool = True,
    ) -> list[Sweep]:
        """One walk over the row for each level of reductions, and one for the outputs that change along it; ``store``
        puts the vector of one into its tile, a format of its fid. Whether threads overwrite what others look up."""
        rows, overwritten = self._rows, frozenset(self._in_place.values() if overwrites else ())
        sweeps = row_levels(rows, kept, loads, reduction, is_full=True, reader=reader, overwritten=overwritten)
        if wide := rows.wide:
            vectors = {fid: store.format(fid) for fid in wide if fid in self._outputs}
            sweeps.append(join(kept.around(rows, wide, loads), rows.stores_of(wide, vectors)))
        return sweeps
