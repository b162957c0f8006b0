"""The view of inner_edged_tiles, whose blocks keep whole rows in shared memory and read them by aligned vectors:
fusebuild.kernels.persistent.edged_tiles says why.

``tile0`` is where the block keeps its rows of tensor 0, ``r0`` the row of a group there; ``c0`` is what a thread has of
its row, ``h1`` what it holds of what is the same for all rows. Results that have one element a row meet in
``results5``, and leave side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fusebuild.kernels.common.dynamic_shared import arrays_of, widest_first
from fusebuild.kernels.common.lambdas import combined
from fusebuild.kernels.common.rows import by_level
from fusebuild.kernels.common.rows_view import Rows, crossing_rows
from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.view import KernelView, Lifetime, Lines, Sweep, make_view
from fusebuild.kernels.persistent.edged_tiles import EdgedTilesHeuristics
from fusebuild.kernels.persistent.edges import Edge
from fusebuild.kernels.persistent.tiles_view import Tiles
from fusebuild.kernels.persistent.view import Kept

ROW = "const int64_t row = top + (active ? place : depth - 1);"


def inner_edged_tiles(spec: KernelSpec) -> KernelView:
    heuristics, task = spec.heuristics, spec.task
    assert isinstance(heuristics, EdgedTilesHeuristics)
    rows = crossing_rows(spec)
    body, wide, narrow = rows.body, rows.wide, rows.narrow
    tiles, kept = _Tiles(rows, heuristics), Kept(rows.body, heuristics.kept)
    edge = Edge(spec, rows, tiles.in_registers, heuristics.kept)
    setup, bases = rows.setup(task.outputs, (*tiles.flat, *heuristics.held))
    together = rows.side_by_side(narrow)
    view = make_view(
        body, rows.exprs,
        scalars=(*body.scalar_statements(rows.exprs), *rows.divisors),
        setup=setup, bases=(*bases, *tiles.row_bases("place * columns")), sweeps=tiles.sweeps(kept),
        edges=_edges(rows, edge, wide), lifetimes=(tiles.held(edge),),
        epilogue=Sweep(
            arrays=(*tiles.arrays(), *kept.arrays(), *edge.declarations((*heuristics.cached, *heuristics.kept))),
            loads=tiles.loads(),
            element=tuple(f"e{fid} = r{fid}[edge];" for fid in heuristics.cached),
            stores=(
                *(f"results{fid}[place] = {body.own_operand(fid)};" for fid in together),
                *rows.results([fid for fid in narrow if fid not in together]),
            ),
            coordinates=tiles.declarations(together),
        ),
        next_rows=Sweep(
            loads=tiles.copies(),
            stores=(
                *tiles.stores(),
                *(f"fb::store_flat<1, kThreads>(T{fid} + top, results{fid}, 0, depth);" for fid in together),
            ),
        ),
        extents=rows.extents,
    )  # fmt: skip
    return replace(view, setup=(ROW, *setup)) if view.names("row") else view


def _edges(rows: Rows, edge: Edge, wide: Sequence[int]) -> tuple[Lines, ...]:
    """What each sweep does for a thread's element beside its vectors."""
    levels = by_level(rows.body.task, reductions(rows.body.task)).values()
    walked = ([index for index in own if index not in rows.batches(own, is_full=True).only] for own in levels)
    reducing = tuple(edge.reducing(own, combined(rows.body, own)) for own in walked)
    return (*reducing, edge.storing(wide)) if wide else reducing


def _reduction(arguments: str) -> str:
    return f"fb::reduce_row<kThreadsPerRow, kGroups>({arguments});"


class _Tiles(Tiles):
    """What a block has in shared memory and its threads in registers, and how their sweeps read and write it."""

    def __init__(self, rows: Rows, heuristics: EdgedTilesHeuristics) -> None:
        super().__init__(rows, heuristics.in_place)
        self._heuristics = heuristics

    @property
    def in_registers(self) -> tuple[int, ...]:
        return (*self._heuristics.cached, *self._heuristics.held)

    def declarations(self, results: Sequence[int]) -> Lines:
        """Where tiles and the ``results`` of rows begin, one after the other: the widest come first, so that each is
        aligned."""
        arrays = arrays_of(self._body, results, "results", "tile_rows")
        return self.declared(widest_first((*self.tiles("tile_rows * columns"), *arrays)))

    def copies(self) -> Lines:
        """Calls that bring in what the block reads."""
        return tuple(
            f"fb::copy_flat<kVec, kThreads>(tile{fid}, T{fid} + origin, end, total - origin);" for fid in self._inputs
        )

    def stores(self) -> Lines:
        """Calls that take out what the block has computed."""
        return tuple(f"fb::store_flat<kVec, kThreads>(T{fid} + origin, tile{fid}, 0, end);" for fid in self._outputs)

    def arrays(self) -> Lines:
        """What a thread has of its row."""
        return self._packed("c", self._heuristics.cached)

    def held(self, edge: Edge) -> Lifetime:
        """What a thread has of what all rows share."""
        fids = self._heuristics.held
        return Lifetime(
            arrays=(*self._packed("h", fids), *edge.declarations(fids)),
            steady=Sweep(
                loads=tuple(f"h{fid}[c] = fb::pack(fb::load_cut_within<kVec>(T{fid}, col, columns));" for fid in fids),
                merged=tuple(
                    f"if (!fb::is_within<kVec>(T{fid}, col, columns)) h{fid}[c] = "
                    f"fb::pack(fb::load_elements<kVec>(T{fid} + col));"
                    for fid in fids
                ),
                element=tuple(f"e{fid} = T{fid}[edge];" for fid in fids),
            ),
        )

    def _packed(self, name: str, fids: Sequence[int]) -> Lines:
        return tuple(f"fb::Packed<{self._body.c_type(fid)}, kVec> {name}{fid}[kChunks];" for fid in fids)

    def loads(self) -> Lines:
        """Loads of what a thread has of its row."""
        return tuple(f"c{fid}[c] = {self._vector(fid, packed=True)};" for fid in self._heuristics.cached)

    def sweeps(self, kept: Kept) -> tuple[Sweep, ...]:
        """One for each level of reductions, and one for the outputs that change along the row."""
        store = "fb::store_shared(r{0} + col, o{0});"
        sweeps = self.walks(kept, self._load, _reduction, store, reader="active && lane == 0")
        return tuple(
            replace(sweep, results=(*self._stay_packed(sweeps[at + 1 :]), *sweep.results))
            for at, sweep in enumerate(sweeps)
        )

    def _stay_packed(self, later: Sequence[Sweep]) -> Lines:
        """Keeps compilers from having as floats what ``later`` sweeps take, which would be twice the registers."""
        cached = (fid for fid in self._heuristics.cached if any({*self._load(fid)} & {*each.loads} for each in later))
        arrays = (*(f"c{fid}" for fid in cached), *(f"h{fid}" for fid in self._heuristics.held))
        return tuple(f"fb::stay_packed({array});" for array in arrays)

    def _load(self, fid: int) -> Lines:
        """The lines that put the current vector of input ``fid`` into ``v<fid>``."""
        source = self._vector(fid)
        if fid in self.in_registers:
            source = f"fb::unpack({'c' if fid in self._heuristics.cached else 'h'}{fid}[c])"
        return (self._rows.vector(fid, source),)

    def _vector(self, fid: int, *, packed: bool = False) -> str:
        """The call that fetches the current vector of input ``fid`` from its row."""
        if fid in self._inputs:
            return f"fb::load_shared{'_packed' if packed else ''}<kVec>(r{fid} + col)"
        beside = f"fb::load_beside<kVec>(r{fid}, col, columns)"
        return f"fb::pack({beside})" if packed else beside
