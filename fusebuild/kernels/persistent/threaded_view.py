"""The view of inner_threaded, whose threads have whole rows: fusebuild.kernels.persistent.threaded says why.

``tile0`` is where the block keeps its rows of tensor 0, ``rows0`` what a thread has of them; a row is a vector, which
lacks its last elements where their number is no power of two.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from fusebuild.kernels.common.dynamic_shared import arrays_of, widest_first
from fusebuild.kernels.common.rows_view import Rows, reduced_rows
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Group
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, is_named, make_view
from fusebuild.kernels.persistent.threaded import ThreadedHeuristics
from fusebuild.kernels.persistent.tiled_view import widened
from fusebuild.kernels.persistent.tiles_view import Tiles
from fusebuild.kernels.persistent.view import Kept


def inner_threaded(spec: KernelSpec) -> KernelView:
    heuristics, outputs = spec.heuristics, spec.task.outputs
    assert isinstance(heuristics, ThreadedHeuristics)
    rows = reduced_rows(spec)
    rows = replace(rows, column=Group(name="k", axes=rows.column.axes))
    looked_up = rows.inputs_looked_up()
    rows = replace(rows, widened=widened(rows, looked_up).intersection(heuristics.columns_alone))
    tiles, kept = _Tiles(rows, heuristics, looked_up), Kept(rows.body, heuristics.kept, vectors="", place="k{}[k]")
    setup, bases = rows.setup(outputs, tiles.on_chip, {fid: f"rows{fid}[r]" for fid in tiles.inputs_of_rows})
    bases = (*bases, *tiles.looked_up())
    store, loads = "rows{0}.set_row(r, o{0});", tiles.loads
    sweeps = tuple(tiles.walks(kept, loads, lambda arguments: "", store, reader="", overwrites=False))
    return make_view(
        rows.body, rows.exprs,
        setup=(*_row((*setup, *bases), sweeps), *setup), bases=bases, sweeps=sweeps,
        epilogue=Sweep(
            coordinates=tiles.declarations(), arrays=kept.arrays(), results=tiles.results(), stores=tiles.ended(),
            joint_stores=tiles.put(),
        ),
        next_rows=Sweep(loads=tiles.copies(), arrays=tiles.taken(), stores=tiles.stores()),
        extents=rows.extents,
    )  # fmt: skip


def _row(lines: Lines, sweeps: Sequence[Sweep]) -> Lines:
    """The row's number, where something asks for it."""
    asked = is_named("row", lines) or any(sweep.reads_row for sweep in sweeps)
    return ("const int64_t row = top + first + r;",) if asked else ()


class _Tiles(Tiles):
    """What a block has in shared memory, and what of that its threads have in registers."""

    def __init__(self, rows: Rows, heuristics: ThreadedHeuristics, looked_up: Set[int]) -> None:
        super().__init__(rows, heuristics.in_place)
        self._copied = dict(heuristics.copied)
        self.inputs_of_rows = tuple(fid for fid in heuristics.of_rows if fid in rows.reads)
        self._results = tuple(fid for fid in heuristics.of_rows if fid in rows.body.task.outputs)
        self._columns = tuple(fid for fid in heuristics.columns_alone if fid in rows.reads and fid not in looked_up)
        self._looked_up, self._there = looked_up, {*self._columns}

    @property
    def on_chip(self) -> tuple[int, ...]:
        return (*self.flat, *self._columns)

    def declarations(self) -> Lines:
        """Where tiles begin, one after the other: the widest come first, so that each is aligned."""
        of_rows = arrays_of(self._body, (*self.inputs_of_rows, *self._results), "tile", "kTileRows")
        return self.declared(widest_first((*self.tiles("kTileRows * kColumns"), *of_rows)))

    def _times_columns(self, fid: int) -> str:
        """What a number of rows is multiplied by for one of elements."""
        return " * kColumns" if fid in self.flat else ""

    def copies(self) -> Lines:
        """Lines that bring in what the block reads: to registers what changes along columns alone, else to tiles."""
        copies = (
            f"fb::copy_tile<{self._shape(fid)}>(tile{fid}, T{fid} + top{self._times_columns(fid)}, depth);"
            for fid in (*self._inputs, *self.inputs_of_rows)
        )
        return (*copies, *(self._rows.vector(fid, self._from_memory(fid, f"T{fid}")) for fid in self._columns))

    def stores(self) -> Lines:
        """Calls that take out what the block has computed."""
        return tuple(
            f"fb::store_tile<{self._shape(fid)}>(T{fid} + top{self._times_columns(fid)}, tile{fid}, depth);"
            for fid in (*self._outputs, *self._results)
        )

    def _shape(self, fid: int) -> str:
        """Elements of an access, threads, rows and columns of the tile of ``fid``."""
        return f"{self._copied[fid]}, kThreads, kTileRows, {'kColumns' if fid in self.flat else '1'}"

    def taken(self) -> Lines:
        """What a thread takes of the tiles before its first row, and where its results come to lie."""
        body = self._body
        return (
            *(f"const auto rows{fid} = fb::load_rows<kRows, kColumns>({self._place(fid)});" for fid in self._inputs),
            *(f"const auto rows{fid} = fb::load_shared<kRows>({self._place(fid)});" for fid in self.inputs_of_rows),
            *(f"fb::RowResults<{body.c_type(fid)}, kRows, kColumns> rows{fid};" for fid in self._outputs),
            *(f"fb::Vec<{body.c_type(fid)}, kRows> rows{fid};" for fid in self._results),
        )

    def ended(self) -> Lines:
        """Calls that leave in the tiles what a thread has computed so far."""
        return tuple(f"rows{fid}.store_ended({self._place(fid)}, r);" for fid in self._outputs)

    def put(self) -> Lines:
        """Calls that leave there what is one element a row."""
        return tuple(f"fb::store_shared({self._place(fid)}, rows{fid});" for fid in self._results)

    def _place(self, fid: int) -> str:
        return f"tile{fid} + first{self._times_columns(fid)}"

    def looked_up(self) -> Lines:
        """Where the row of inputs begins of which one element is read, wherever it is."""
        if not self._looked_up:
            return ()
        tiled = [fid for fid in self._inputs if fid in self._looked_up]
        bases = (f"const {self._body.c_type(fid)}* r{fid} = tile{fid} + (first + r) * kColumns;" for fid in tiled)
        return (*bases, "const Index columns = kColumns;")

    def loads(self, fid: int) -> Lines:
        """The line that puts the row of an input into ``v<fid>``, before the first sweep that reads it."""
        if fid in self._there:
            return ()
        self._there.add(fid)
        source = f"rows{fid}.row<kVec>(r)" if fid in self._inputs else self._from_memory(fid, f"r{fid}")
        return (self._rows.vector(fid, source),)

    def _from_memory(self, fid: int, address: str) -> str:
        return f"fb::load_present<{self._rows.c_type(fid)}, kVec>({address}, kColumns)"

    def results(self) -> Lines:
        """Where a thread leaves what is one element a row."""
        body = self._body
        return tuple(f"rows{fid}[r] = {body.own_operand(fid)};" for fid in self._results)
