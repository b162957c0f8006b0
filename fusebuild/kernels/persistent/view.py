"""The view of inner_persistent, whose rows stay on chip, and what its sweeps share with other ways to keep rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from functools import partial

from fusebuild.kernels.common.dynamic_shared import arrays_in_shared, arrays_of
from fusebuild.kernels.common.lambdas import folded
from fusebuild.kernels.common.rows import by_level
from fusebuild.kernels.common.rows_view import (
    ELEMENT,
    STORE_ROWS,
    Rows,
    reduced_rows,
    reduction_in_block,
    reduction_in_cluster,
    reduction_in_threads,
    rows_by_pieces,
)
from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.common.sweeps import last_sweep
from fusebuild.kernels.common.view import (
    KernelView,
    Lines,
    Sweep,
    accumulate,
    accumulators,
    is_named,
    join,
    make_view,
)
from fusebuild.kernels.persistent.cluster import ClusterHeuristics
from fusebuild.kernels.persistent.few_rows import FewRowsHeuristics
from fusebuild.kernels.persistent.short_rows import ShortRowsHeuristics
from fusebuild.kernels.persistent.way import PersistentHeuristics, vectors_cross

FIRST_AHEAD = ("FUSEBUILD_UNROLL", "for (int c = 0; c < kAhead; ++c) load_ahead(c);")
"""What the sweep before the last one ends with where the last one loads ahead: an exchange comes next."""

NEXT_AHEAD = "load_ahead(c + kAhead);"
"""What that one does before it stores vector ``c``."""


def inner_persistent(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, PersistentHeuristics)
    rows = _rows(spec, heuristics)
    body, early = rows.body, heuristics.early
    wide = [fid for fid in rows.wide if fid not in early]
    setup, bases = rows.setup(spec.task.outputs)
    loader = _Loader(rows=rows, heuristics=heuristics)
    kept, first = Kept(body, heuristics.kept), "rank == 0 && " if heuristics.storage == "cluster" else ""
    sweeps = row_levels(
        rows,
        kept,
        loader.lines,
        partial(_reduction, heuristics),
        is_full=heuristics.in_registers,
        reader=f"{first}lane == 0",
        overwritten=frozenset(output.alias for output in spec.task.fusion.outputs if output.alias is not None),
        early=early,
    )
    if early:
        stores = rows.stores(early)
        active = tuple(f"if (active) {line}" for line in stores.stores)
        stores = replace(stores, stores=active) if heuristics.threads.rows > 1 else stores
        sweeps[0] = join(sweeps[0], stores)
    if loader.ahead:
        sweeps.append(join(sweeps.pop(), Sweep(merged=FIRST_AHEAD)))
    if wide:
        next_ahead = Sweep(stores=(NEXT_AHEAD,) if loader.ahead else ())
        sweeps.append(join(_in_cases(rows, kept.around(rows, wide, loader.last)), next_ahead, rows.stores(wide)))
    shares_warps = isinstance(heuristics, ShortRowsHeuristics)
    joint = "fb::store_rows_of_threads<kThreads>(int(row_shift), {})" if shares_warps else STORE_ROWS
    narrow = rows.result_stores(rows.narrow, heuristics.threads, joint)
    return make_view(
        body, rows.exprs,
        scalars=(*body.scalar_statements(rows.exprs), *rows.divisors),
        setup=setup, bases=bases, sweeps=tuple(sweep.without_idle_coordinates() for sweep in sweeps),
        epilogue=replace(
            narrow, arrays=(*loader.arrays(), *kept.arrays()), coordinates=loader.coordinates(),
            loads=loader.first(),
        ),
        extents=rows.extents,
        ahead=loader.loads_ahead(),
        clamped=isinstance(heuristics, FewRowsHeuristics),
        threads="threads" if shares_warps else "kThreadsPerRow",
    )  # fmt: skip


def _rows(spec: KernelSpec, heuristics: PersistentHeuristics) -> Rows:
    """The rows, of which a thread loads with its vectors what is one value for each, since that is found by a division.
    Vectors of rows that threads of a warp share may cross from one run of the innermost axis to the next: then that is
    what the first run has that a vector is part of."""
    if isinstance(heuristics, ShortRowsHeuristics) and spec.vec > 1 and vectors_cross(spec.task, spec.domain):
        rows = rows_by_pieces(spec)
        return replace(rows, first="runs[c]", held={fid: f"b{fid}[c]" for fid in rows.pieces})
    rows = reduced_rows(spec)
    in_vectors = heuristics.in_registers and not spec.is_shifted and spec.vec > 1
    return replace(rows, held={fid: f"b{fid}[c]" for fid in rows.of_runs} if in_vectors else {})


def _in_cases(rows: Rows, sweep: Sweep) -> Sweep:
    """``sweep``, where vectors may cross from one piece of the row to the next in two cases: most lie in one piece, and
    have the same for all elements of what is one value a piece."""
    pieces = [fid for fid in rows.pieces if is_named(f"v{fid}", sweep.element)] if rows.first else []
    if not pieces:
        return sweep
    loads, names = rows.piece_loads(pieces), [f"v{fid}" for fid in pieces]
    place, *gathered = loads[: -len(pieces)]
    same = (f"fb::Same<{rows.c_type(fid)}>{{{rows.held[fid]}}}" for fid in pieces)
    return replace(
        sweep,
        coordinates=(*sweep.coordinates, place),
        vector=tuple(line for line in sweep.vector if line not in loads),
        takes=tuple(f"const auto& {name}" for name in names),
        cases=(
            "if (pieces.are_one()) {",
            f"  along({', '.join(same)});",
            "} else {",
            *(f"  {line}" for line in gathered),
            f"  along({', '.join(f'fb::unpack(p{fid})' for fid in pieces)});",
            "}",
        ),
    )


LOOKED_UP = "fb::sync_warp();  // other threads may overwrite now what one has looked up"


def row_levels(
    rows: Rows,
    kept: Kept,
    loads: Callable[[int], Lines],
    reduction: Callable[[str], str],
    *,
    is_full: bool,
    reader: str,
    overwritten: Set[int] = frozenset(),
    early: Sequence[int] = (),
) -> list[Sweep]:
    """One sweep for each level of the reductions. ``loads`` are as for :meth:`Rows.sweep`; ``reduction`` gives the call
    that combines its arguments over the threads of a row, one of which is the ``reader`` of single elements;
    ``is_full`` is as for :meth:`Rows.batches`. Inputs ``overwritten`` are so by other threads of the row. The first
    sweep computes ``early`` outputs, too."""
    body, task = rows.body, rows.body.task
    sweeps: list[Sweep] = []
    for at, own in by_level(task, reductions(task)).items():
        gathered = rows.batches(own, is_full=is_full)
        sweep = kept.around(rows, (*gathered.targets(), *(() if sweeps else early)), loads)
        results = (*accumulate(body, own).results, *rows.epilogue(folded(task, own), at))
        parts = Sweep(accumulators=accumulate(body, gathered.plain).accumulators, results=results)
        only = rows.only_elements(gathered, reader)
        meet = Sweep(row=(LOOKED_UP,) if rows.looked_up_by(gathered) & overwritten else ())
        reduce = Sweep(reduce=reduction(accumulators(body, own)))
        sweeps.append(join(meet, sweep, parts, rows.updates(gathered), only, reduce))
    return sweeps


def _reduction(heuristics: PersistentHeuristics, arguments: str) -> str:
    """The call that combines the ``arguments`` over the threads of a row."""
    if isinstance(heuristics, ShortRowsHeuristics):
        return reduction_in_threads(arguments)
    in_cluster = heuristics.storage == "cluster"
    return reduction_in_cluster(arguments) if in_cluster else reduction_in_block(heuristics.threads, arguments)


class Kept:
    """Values of the row that the first sweep to need them leaves for later ones, in registers: ``vectors`` of each.
    The ``place`` of one and an ``element`` of what loads fetch are formats of the fid."""

    def __init__(
        self, body: Body, fids: Sequence[int], *, vectors: str = "[kChunks]", place: str = "k{}[c][k]",
        element: str = ELEMENT,
    ) -> None:  # fmt: skip
        self._body, self._fids, self._vectors = body, fids, vectors
        self._place, self._element = place, element
        self._made: list[int] = []

    def arrays(self) -> Lines:
        return tuple(f"fb::Vec<{self._body.c_type(fid)}, kVec> k{fid}{self._vectors};" for fid in self._fids)

    def around(self, rows: Rows, targets: Sequence[int], loads: Callable[[int], Lines]) -> Sweep:
        """The sweep that computes ``targets``: it takes what earlier ones kept, and keeps what is new."""
        body, known = self._body, [*rows.of_rows, *self._made]
        sweep = rows.sweep(targets, known, loads, self._element)
        exprs = body.closure(targets, known)
        read = body.roots(exprs, targets)
        taken = [fid for fid in self._made if fid in read]
        new = [fid for fid in self._fids if fid not in self._made and any(fid in expr.outputs for expr in exprs)]
        self._made += new
        place = self._place.format
        before = Sweep(element=tuple(f"const {body.c_type(fid)} t{fid} = {place(fid)};" for fid in taken))
        return join(before, sweep, Sweep(element=tuple(f"{place(fid)} = t{fid};" for fid in new)))


class _Loader:
    """How a row kernel's sweeps fetch vectors: from registers, from shared memory, or from global memory each time."""

    def __init__(self, rows: Rows, heuristics: PersistentHeuristics) -> None:
        self._rows, self._heuristics = rows, heuristics
        self._in_shared: set[int] = set()
        self.ahead = _read_ahead(rows.body, heuristics)

    def arrays(self) -> Lines:
        """Declarations of what is kept on chip."""
        body, cached = self._rows.body, self._heuristics.cached
        if self._heuristics.in_registers:
            values = (f"{body.c_type(fid)} b{fid}[kChunks];" for fid in sorted(self._rows.held))
            runs = ("Index runs[kChunks];",) if self._rows.pieces else ()
            return (*(f"fb::Packed<{body.c_type(fid)}, kVec> c{fid}[kChunks];" for fid in cached), *runs, *values)
        if self._heuristics.storage == "reread":
            return ()
        return arrays_in_shared(arrays_of(body, cached, "c", "columns"))

    def coordinates(self) -> Lines:
        """Where a vector of the row is, for the loads of the whole row."""
        rows, body, column = self._rows, self._rows.body, self._rows.column
        if rows.pieces:
            coordinates, _ = rows.of_piece(rows.pieces)
            return (f"const Index piece = runs[c] = {rows.run};", *coordinates)
        loaded = (*self._heuristics.cached, *rows.held)
        return body.coordinates(column, body.needs_coordinates(loaded, column))

    def first(self) -> Lines:
        """Loads of the whole row into registers, all in flight before the first is used."""
        if not self._heuristics.in_registers:
            return ()
        rows = self._rows
        _, of_pieces = rows.of_piece(rows.pieces)
        values = of_pieces or {fid: rows.still(fid) for fid in sorted(rows.held)}
        return (
            *(f"c{fid}[c] = {rows.from_memory(fid, packed=True)};" for fid in self._heuristics.cached),
            *(f"b{fid}[c] = {value};" for fid, value in values.items()),
        )

    def lines(self, fid: int) -> Lines:
        """The lines that put the current vector of input ``fid`` into ``v<fid>``."""
        rows = self._rows
        if fid not in self._heuristics.cached:
            return rows.global_load(fid)
        if self._heuristics.in_registers:
            return (rows.vector(fid, f"fb::unpack(c{fid}[c])"),)
        if fid in self._in_shared:
            return (rows.vector(fid, f"fb::load_shared<kVec>(c{fid} + col)"),)
        self._in_shared.add(fid)
        return (rows.vector(fid, self._rows.from_memory(fid)), f"fb::store_shared(c{fid} + col, v{fid});")

    def last(self, fid: int) -> Lines:
        """The lines that do so in the last sweep, for which the vectors of some inputs were loaded ahead."""
        return (self._rows.vector(fid, f"fb::unpack(p{fid}[c])"),) if fid in self.ahead else self.lines(fid)

    def loads_ahead(self) -> Sweep:
        """Loads of those, a vector of each at a time."""
        body, column = self._rows.body, self._rows.column
        address = {fid: f"r{fid} + {body.offset(fid, [column])}" for fid in self.ahead}
        return Sweep(
            arrays=tuple(f"fb::Packed<{body.c_type(fid)}, kVec> p{fid}[kChunks];" for fid in self.ahead),
            coordinates=body.coordinates(column, body.needs_coordinates(self.ahead, column)),
            loads=tuple(f"p{fid}[c] = fb::load_packed_ahead<kVec>({address[fid]});" for fid in self.ahead),
        )


def _read_ahead(body: Body, heuristics: PersistentHeuristics) -> tuple[int, ...]:
    """The inputs of which the last sweep loads vectors before it takes them."""
    if not isinstance(heuristics, ClusterHeuristics) or not heuristics.ahead:
        return ()
    return last_sweep(body.task, body.domain, heuristics.cached, heuristics.kept).inputs
