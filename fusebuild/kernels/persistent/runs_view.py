"""Rows of which each thread has a run of neighbouring elements, and what pieces of a row have, such as its channels.

``pieces`` are those of a thread's run, ``load1`` is how what a piece has of tensor 1 is loaded, and ``run1`` that of
the run's pieces where those are two at most: it is loaded before the row is reduced, once for all elements of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields

from fusebuild.kernels.common.rows_view import Rows, rows_by_pieces
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.view import Lines


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRows(Rows):
    """A thread has ``held`` elements of a row from column ``first`` on, each thread of a row up to ``count``."""

    def run_pieces(self) -> Lines:
        """Where the thread's run lies in pieces."""
        if not self.pieces:
            return ()
        return (f"const fb::RunPieces<Index> pieces(first, columns, count, {self.body.extents[self.inner]});",)

    def piece_loads(self, fids: Sequence[int]) -> Lines:
        if not fids:
            return ()
        at, each = f"{self.column.name} - first", " ".join(f"v{fid}[k] = load{fid}(piece);" for fid in fids)
        return (
            *(f"fb::Vec<{self.c_type(fid)}, kVec> v{fid} = {{}};" for fid in fids),
            "if (pieces.are_two()) {",
            *(f"  v{fid} = fb::vector_of<kVec>(run{fid}, pieces.left({at}));" for fid in fids),
            "} else {",
            f"  pieces.each<kVec>({at}, present, [&](int k, Index piece) FUSEBUILD_INLINE {{ {each} }});",
            "}",
        )

    def run_loads(self) -> Lines:
        """What the thread loads of its pieces before its first sweep over them."""
        return tuple(line for fid in self.pieces for line in self._loads(fid))

    def _loads(self, fid: int) -> Iterator[str]:
        coordinates, loads = self.of_piece([fid])
        yield f"const auto load{fid} = [&](Index piece) FUSEBUILD_INLINE {{  // {self.body.value(fid).name}"
        yield from (f"  {line}" for line in coordinates)
        yield f"  return fb::cast<{self.c_type(fid)}>({loads[fid]});"
        yield "};"
        yield f"const auto run{fid} = pieces.load(held, load{fid});"


def rows_in_runs(spec: KernelSpec) -> RunRows:
    """The rows of a kernel whose threads have runs of them, whatever axes a row has."""
    rows = rows_by_pieces(spec)
    return RunRows(**{field.name: getattr(rows, field.name) for field in fields(rows)})
