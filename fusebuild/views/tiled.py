"""The view of inner_tiled, whose blocks keep whole rows in shared memory: fusebuild.schedule.tiled says why.

``tile0`` is where the block keeps its rows of tensor 0, ``r0`` the row of a thread there; ``columns1`` is what changes
along columns alone, ``r1`` that as the thread sees it. Reduced-precision inputs that are only ever computed with as
floats are **widened** where a thread, or for columns the block, reads them first: each conversion is made once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from fusebuild.ir import DType
from fusebuild.schedule.kernel import C_TYPES, KernelSpec, reductions
from fusebuild.schedule.rows import WARP
from fusebuild.schedule.shifted import flat_fids
from fusebuild.schedule.tiled import TiledHeuristics
from fusebuild.views.dynamic_shared import SharedArray, arrays_in_shared, arrays_of, cast_to, widest_first
from fusebuild.views.inner import Kept, Rows, row_element, row_levels, row_results, row_setup, rows_of
from fusebuild.views.kernel_view import KernelView, Lines, Sweep, join, make_view
from fusebuild.views.lambdas import folded

FLOAT = C_TYPES[DType.FLOAT]


def inner_tiled(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, TiledHeuristics)
    outputs = spec.task.outputs
    rows = rows_of(spec, folded(spec.task, reductions(spec.task)), outputs)
    body = rows.body
    wide = [fid for fid in outputs if rows.has_columns(fid)]
    plain = _sweeps(rows, wide, _Tiles(rows, heuristics))
    tiles = _Tiles(rows, heuristics, _widened(rows, plain), _looked_up(rows, plain))
    setup, bases = row_setup(rows, outputs, tiles.on_chip)
    kept = Kept(body, heuristics.kept)
    return make_view(
        spec, body, rows.exprs,
        setup=setup, bases=(*bases, *tiles.rows()), sweeps=_sweeps(rows, wide, tiles),
        epilogue=Sweep(
            stores=row_results(rows, [fid for fid in outputs if fid not in wide]),
            arrays=(*tiles.arrays(), *kept.arrays()),
            coordinates=tiles.declarations(),
        ),
        next_rows=Sweep(loads=tiles.copies(), stores=tiles.stores()),
        extents={"rows": body.size(rows.row.axes), "columns": body.size(rows.column.axes)},
    )  # fmt: skip


def _sweeps(rows: Rows, wide: Sequence[int], tiles: _Tiles) -> tuple[Sweep, ...]:
    """One walk over the row for each level of reductions, and one for the outputs ``wide``."""
    kept = Kept(rows.body, tiles.heuristics.kept)
    loads = tiles.loader()
    sweeps = row_levels(rows, kept, loads, _reduction, is_full=True, reader="lane == 0")
    if wide:
        sweeps.append(join(kept.around(rows, wide, rows.of_rows, loads), tiles.element_stores(wide)))
    return tuple(replace(sweep, element=tiles.typed(sweep.element)) for sweep in sweeps)


def _reduction(arguments: str) -> str:
    return f"fb::reduce_threads(threads, {arguments});"


def _widened(rows: Rows, sweeps: Iterable[Sweep]) -> tuple[int, ...]:
    """The inputs of the columns that ``sweeps`` only ever cast to float."""
    lines = [line for sweep in sweeps for line in (*sweep.vector, *sweep.element, *sweep.accumulate, *sweep.merged)]
    found = []
    for fid in rows.reads:
        named, cast = re.compile(rf"\bt{fid}\b"), f"fb::cast<{FLOAT}>(t{fid})"
        others = [line.split("//")[0].replace(cast, "") for line in lines if f" t{fid} = v{fid}[k];" not in line]
        if rows.body.value(fid).dtype.is_reduced_precision and not any(named.search(line) for line in others):
            found.append(fid)
    return tuple(found)


def _looked_up(rows: Rows, sweeps: Iterable[Sweep]) -> tuple[int, ...]:
    """The inputs of which ``sweeps`` read the only element that counts, wherever it is."""
    lines = [line for sweep in sweeps for line in sweep.accumulators]
    return tuple(fid for fid in rows.reads if any(re.search(rf"\br{fid}\[at", line) for line in lines))


class _Tiles:
    """What a block has in shared memory, and how its threads' sweeps read and write it; inputs ``widened`` are floats
    for threads."""

    def __init__(
        self, rows: Rows, heuristics: TiledHeuristics, widened: Sequence[int] = (), looked_up: Sequence[int] = ()
    ) -> None:
        self.heuristics = heuristics
        self._rows, self._body, self._widened = rows, rows.body, widened
        outputs, flat = rows.body.task.outputs, flat_fids(rows.body.domain)
        self._inputs = tuple(fid for fid in flat if fid in rows.reads)
        self._outputs = tuple(fid for fid in flat if fid in outputs)
        self._resident = tuple(fid for fid in heuristics.resident if fid in rows.reads and fid not in looked_up)
        self._place = dict(heuristics.in_place)

    @property
    def on_chip(self) -> tuple[int, ...]:
        return (*self._inputs, *self._outputs, *self._resident)

    def _dtype(self, fid: int) -> DType:
        """The type of an input for threads."""
        return DType.FLOAT if fid in self._widened else self._body.value(fid).dtype

    def _type(self, fid: int) -> str:
        return C_TYPES[self._dtype(fid)]

    def declarations(self) -> Lines:
        """Where tiles and columns begin, one after the other: the widest come first, so that each is aligned."""
        tiles = [fid for fid in (*self._inputs, *self._outputs) if fid not in self._place]
        columns = [
            SharedArray(name=f"columns{fid}", elements=f"columns + {WARP}", dtype=self._dtype(fid))
            for fid in self._resident
        ]
        own = arrays_in_shared((*arrays_of(self._body, tiles, "tile", "places"), *widest_first(columns)))
        return (*own, *(self._in_place(fid, place) for fid, place in self._place.items()))

    def _in_place(self, fid: int, place: int) -> str:
        """The declaration of the tile of output ``fid``, which lies where that of input ``place`` does."""
        c_type, tile = self._body.c_type(fid), f"tile{place}"
        return f"{c_type}* tile{fid} = {tile if c_type == self._body.c_type(place) else cast_to(c_type, tile)};"

    def copies(self) -> Lines:
        """Calls that bring in what the block reads."""
        tiles = (
            f"fb::copy_flat<kCopied, kThreads>(tile{fid}, T{fid} + (origin - begin), end, total - (origin - begin));"
            for fid in self._inputs
        )
        columns = (
            f"fb::copy_columns<kThreads>(columns{fid}, T{fid}, columns, count, {self._skew(fid)});"
            for fid in self._resident
        )
        return (*tiles, *columns)

    def stores(self) -> Lines:
        """Calls that take out what the block has computed."""
        return tuple(
            f"fb::store_flat<kCopied, kThreads>(T{fid} + (origin - begin), tile{fid}, begin, end);"
            for fid in self._outputs
        )

    def rows(self) -> Lines:
        """Where a thread's row is in each tile."""
        tiles = (
            f"{'' if fid in self._outputs else 'const '}{self._body.c_type(fid)}* r{fid} = tile{fid} + place;"
            for fid in (*self._inputs, *self._outputs)
        )
        columns = (
            f"const {self._type(fid)}* r{fid} = columns{fid}{' + lane' if self._skew(fid) else ''};"
            for fid in self._resident
        )
        return (*tiles, *columns)

    def _skew(self, fid: int) -> int:
        """The places between what two threads have of a resident input: one where that makes their runs odd."""
        is_word = self._dtype(fid) in (DType.FLOAT, DType.INT32)
        return int(is_word and self.heuristics.per_word > 1)

    def arrays(self) -> Lines:
        """What a thread holds of its row."""
        return tuple(f"fb::Vec<{self._type(fid)}, kVec> c{fid}[kChunks];" for fid in self.heuristics.cached)

    def loader(self) -> Callable[[int], Lines]:
        """The lines that put the current elements of an input into ``v<fid>``: what a thread holds is read by the first
        sweep that needs it."""
        held = set[int]()

        def lines(fid: int) -> Lines:
            declaration = f"const fb::Vec<{self._type(fid)}, kVec> v{fid}"
            if fid in held:
                return (f"{declaration} = c{fid}[c];",)
            load = f"{declaration} = fb::load_present<{self._type(fid)}, kVec>(r{fid} + {self._column(fid)}, present);"
            if fid not in self.heuristics.cached:
                return (load,)
            held.add(fid)
            return (load, f"c{fid}[c] = v{fid};")

        return lines

    def _column(self, fid: int) -> str:
        return "col" if fid in self.on_chip else self._body.offset(fid, [self._rows.column])

    def element_stores(self, outputs: Sequence[int]) -> Sweep:
        """Each element to its place in its tile, or in memory where the output has none."""
        body = self._body
        value = {fid: body.operand(fid, body.value(fid).dtype) for fid in outputs}
        tiled = [fid for fid in outputs if fid in self._outputs]
        others = [fid for fid in outputs if fid not in tiled]
        return Sweep(
            vector=tuple(f"fb::Vec<{body.c_type(fid)}, kVec> o{fid};" for fid in tiled),
            element=(
                *(f"o{fid}[k] = {value[fid]};" for fid in tiled),
                *(f"{row_element(self._rows, fid)} = {value[fid]};" for fid in others),
            ),
            stores=tuple(f"fb::store_present(r{fid} + col, o{fid}, present);" for fid in tiled),
        )

    def typed(self, lines: Lines) -> Lines:
        """``lines`` of one element, in which widened inputs have the type that threads hold."""
        wide = {f"const {self._body.c_type(fid)} t{fid} = v{fid}[k];": fid for fid in self._widened}
        return tuple(f"const {FLOAT} t{wide[line]} = v{wide[line]}[k];" if line in wide else line for line in lines)
