"""The view of reduction_inner, whose threads walk rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from fusebuild.ir.dtype import DType
from fusebuild.kernels.common.lambdas import folded, foldings
from fusebuild.kernels.common.rows_view import INSIDE, Rows, rows_of
from fusebuild.kernels.common.spec import KernelSpec, VectorLayout, reductions
from fusebuild.kernels.common.view import (
    KernelView,
    Lines,
    Sweep,
    accumulate,
    accumulators,
    join,
    lines_named,
    make_view,
)
from fusebuild.kernels.reduction.schedule import InnerHeuristics
from fusebuild.kernels.reduction.stores import overwrites_some
from fusebuild.kernels.reduction.tiles import Tile

PIECE = (
    "const Index piece = unsigned(place) / unsigned(padded);",
    "const Index begin = (piece * all + Index(row)) * columns;",
    "const Index col = place - piece * padded - fb::shift_of<kVec>(begin);",
    "if (col >= columns) continue;  // this piece has one vector less",
)
"""Where the vector at ``place`` of a row in pieces is: each piece has as many vectors as the longest can take, from the
aligned one on that it begins in."""


def reduction_inner(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, InnerHeuristics)
    indices = reductions(spec.task)
    results, is_split = folded(spec.task, indices), heuristics.is_split
    rows = rows_of(spec, [*results, *spec.task.outputs])
    body, outputs = rows.body, rows.narrow
    setup, bases = rows.setup(spec.task.outputs)
    known = rows.of_rows
    gathered = rows.batches(indices, is_long=True, looks_up=not overwrites_some(spec.task, spec.domain))
    sweep, in_part = _loaded_ahead(rows, [*gathered.targets(), *rows.wide], known)
    reduce = f"fb::reduce_row_of<kThreads>(width, {accumulators(body, indices)});"
    position = f"{body.step('split', rows.row.axes)} + row" if rows.row.axes else "split"
    partials = (line for folding in foldings(body, indices) for line in folding.partial_stores(position))
    epilogue = replace(
        _result_stores(rows, outputs),
        results=(*accumulate(body, indices).results, *rows.epilogue(results, 1)),
        element=tuple(partials) if is_split else (),
        reduce=f"fb::reduce_in_first_block<kThreads, 1>(0, lane, 1, {accumulators(body, indices)})",
    )
    reader = "split == 0 && lane == 0" if is_split else "lane == 0"
    found = rows.only_elements(gathered, reader)
    only = Sweep(merged=(*found.accumulators, *found.merged))  # the position comes while the row is on its way
    kept = Sweep(accumulators=tuple(folding.declaration() for folding in foldings(body, gathered.plain)))
    stores = _stores_in_pieces(rows) if heuristics.in_pieces else rows.stores(rows.wide)
    joined = join(kept, sweep, stores, rows.updates(gathered), only, Sweep(reduce=reduce))
    sweep = _without_test(_without_idle_coordinates(joined))
    if heuristics.in_pieces:
        bases, sweep = (), replace(sweep, load_coordinates=PIECE, coordinates=(*PIECE, INSIDE))
    tiled = (_of_tile(spec, heuristics.tile),) if heuristics.tile else ()
    alone = (_of_rows_alone(rows, outputs, bases),) if heuristics.tile or heuristics.alone else ()
    extents = rows.extents
    if heuristics.in_pieces:
        first, last = rows.column.axes
        extents = {"rows": extents["rows"], "columns": body.size([last]), "pieces": body.size([first])}
    return make_view(
        body, rows.exprs, setup=setup, bases=bases, sweeps=(sweep, *tiled, *alone), epilogue=epilogue, extents=extents,
        ahead=Sweep(loads=in_part),
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copied:
    """What a block copies to shared memory of tensor ``fid``, where it is ``name``: a ``count`` of elements from the
    one at ``begin`` on, as many as ``places`` at most."""

    fid: int
    name: str
    places: int
    begin: str
    count: str

    def declaration(self, dtype: DType, beside: int) -> str:
        """The places of elements of ``dtype``: of ``beside`` more after the last one, which are read and left out, and
        before the first one of as many as it may lie beyond an aligned address."""
        places = self.places + beside + 16 // dtype.bytes
        return f"FUSEBUILD_SHARED({dtype.row.c_type}, places{self.fid}, {places});"

    def copy(self, dtype: DType) -> str:
        source = f"T{self.fid} + {self.begin}, {self.count}"
        return f"const {dtype.row.c_type}* {self.name} = fb::copy_anywhere<kThreads>(places{self.fid}, {source});"


def _of_tile(spec: KernelSpec, tile: Tile) -> Sweep:
    """What a thread does with a row that its block has in shared memory: ``arrays`` are the places there, to which
    ``loads`` copy rows, and ``row`` is where the thread's is. It takes a batch of elements at a time, and what of them
    is ``inside`` the row is known. ``joint_stores`` write what is one element a row."""
    indices, outputs = reductions(spec.task), spec.task.outputs
    results, in_batches = folded(spec.task, indices), replace(spec, vec=tile.batch, vectors=VectorLayout.IN_TILE)
    rows = rows_of(in_batches, [*results, *outputs])
    body, gathered = rows.body, rows.batches(indices, is_long=True)
    flat = [fid for fid in rows.reads if fid in body.domain.flat]
    of_rows = rows.side_by_side(fid for fid in rows.reads if not rows.has_columns(fid))
    setup, bases = rows.setup(outputs, flat, {fid: f"rows{fid}[own]" for fid in of_rows})
    joined = join(
        Sweep(accumulators=tuple(folding.declaration() for folding in foldings(body, gathered.plain))),
        rows.sweep(gathered.targets(), rows.of_rows, partial(_from_tile, rows)),
        rows.updates(gathered),
        rows.only_elements(gathered, "lane == 0"),
    )
    found = _without_test(joined)
    sweep = replace(
        found,
        vector=(*found.loads, *found.vector),
        row=(*setup, *bases, *(f"const {body.c_type(fid)}* r{fid} = tile{fid} + own * columns;" for fid in flat)),
        reduce=f"fb::reduce_threads(width, {accumulators(body, indices)});",
        results=(*accumulate(body, indices).results, *rows.epilogue(results, 1)),
    )
    of_tile = partial(_Copied, places=tile.elements, begin="top * columns", count="depth * columns")
    copied = {
        **{fid: of_tile(fid=fid, name=f"tile{fid}") for fid in flat},
        **{fid: _Copied(fid=fid, name=f"rows{fid}", places=tile.rows, begin="top", count="depth") for fid in of_rows},
    }
    dtypes = {fid: body.value(fid).dtype for fid in copied}
    return replace(
        _without_idle_coordinates(sweep),
        arrays=tuple(each.declaration(dtypes[fid], tile.batch) for fid, each in copied.items()),
        loads=tuple(each.copy(dtypes[fid]) for fid, each in copied.items()),
        joint_stores=rows.results(outputs),
    )


def _of_rows_alone(rows: Rows, outputs: Sequence[int], bases: Lines) -> Sweep:
    """What a thread does with rows of one element or vector beside their sweep: ``loads`` fetch what is one element a
    row of all of them before the first is combined, and ``load_coordinates`` are those that their ``bases`` name."""
    ahead = rows.side_by_side(fid for fid in rows.reads if not rows.has_columns(fid))
    setup, _ = rows.setup(outputs, of_rows={fid: f"q{fid}[u]" for fid in ahead})
    return Sweep(
        load_coordinates=lines_named(rows.body.coordinates(rows.row, rows.row.axes), bases),
        arrays=tuple(f"{rows.body.c_type(fid)} q{fid}[kUnroll];" for fid in ahead),
        loads=tuple(f"q{fid}[u] = T{fid}[row];" for fid in ahead),
        row=setup,
        stores=rows.results(outputs),
    )


def _from_tile(rows: Rows, fid: int) -> Lines:
    """The line that takes the current elements of input ``fid``, from shared memory where the block has them there."""
    if fid not in rows.body.domain.flat:
        return rows.global_load(fid)
    return (rows.vector(fid, f"fb::load_elements<kVec>(r{fid} + col)"),)


def _loaded_ahead(rows: Rows, targets: Sequence[int], known: Sequence[int]) -> tuple[Sweep, Lines]:
    """The sweep that computes ``targets``. Vectors are loaded into arrays by ``loads``, several before the first is
    used: whether a row has them is tested first, and no compiler moves loads past tests. Beside it the loads of the
    vector that a tensor has in part, where it may have one, which comes after all others: single elements in the place
    of each vector would be most of the code that is run through before the first is used."""
    body, ahead = rows.body, dict[int, str]()
    heuristics = body.spec.heuristics
    assert isinstance(heuristics, InnerHeuristics)
    ends_in_part = body.spec.is_shifted and not heuristics.in_pieces

    def from_memory(fid: int) -> str:
        if heuristics.in_pieces:
            return f"fb::load_packed_up_to<kVec>(T{fid} + (begin + col), total - (begin + col))"
        return rows.from_memory(fid, packed=True)

    def whole(fid: int) -> str:
        return f"fb::load_packed<kVec>({rows.address(fid)})" if ends_in_part else from_memory(fid)

    def take(fid: int) -> Lines:
        if body.spec.is_shifted and fid not in body.domain.flat:
            return rows.global_load(fid)
        ahead[fid] = f"p{fid}[u] = {{}};"
        return (rows.vector(fid, f"fb::unpack(p{fid}[u])"),)

    sweep = rows.sweep(targets, known, take)
    loaded = replace(
        sweep,
        load_coordinates=body.coordinates(rows.column, body.needs_coordinates(ahead, rows.column)),
        arrays=tuple(f"fb::Packed<{body.c_type(fid)}, kVec> p{fid}[kUnroll];" for fid in ahead),
        loads=tuple(line.format(whole(fid)) for fid, line in ahead.items()),
        vector=(*sweep.loads, *sweep.vector),
    )
    return loaded, tuple(line.format(from_memory(fid)) for fid, line in ahead.items()) if ends_in_part else ()


def _stores_in_pieces(rows: Rows) -> Sweep:
    """Stores of what changes along rows in pieces, all of which is flat."""
    store = "fb::store_inside(T{0} + (begin + col), o{0}, inside);"
    return rows.stores_of(rows.wide, {fid: store.format(fid) for fid in rows.wide})


def _without_idle_coordinates(sweep: Sweep) -> Sweep:
    """``sweep``, whose ``loads`` find their own coordinates, without those that nothing else names."""
    used = replace(sweep, load_coordinates=(), loads=()).without_idle_coordinates()
    return replace(used, load_coordinates=sweep.load_coordinates, loads=sweep.loads)


def _without_test(sweep: Sweep) -> Sweep:
    """``sweep`` without the test which elements of a vector are the row's: the template has it where it is needed."""
    return replace(sweep, coordinates=tuple(line for line in sweep.coordinates if line != INSIDE))


def _result_stores(rows: Rows, outputs: Sequence[int]) -> Sweep:
    """Stores of ``outputs``, which hold one element a row. Those that have the elements of neighbouring rows side by
    side are stored by the block's first threads, all rows of a block at once."""
    joint = rows.side_by_side(outputs)
    results = (f"fb::row_result(T{fid}, {rows.body.own_operand(fid)})" for fid in joint)
    call = f"fb::store_rows_of<kThreads>({', '.join(['row_shift', 'rows', *results])});"
    stores = rows.results([fid for fid in outputs if fid not in joint])
    return Sweep(stores=stores, joint_stores=(call,) if joint else ())
