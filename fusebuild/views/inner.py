"""Views of kernels whose threads walk rows: inner_persistent and reduction_inner."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType

from fusebuild.body import Body, Group, literal_text
from fusebuild.ir import DType, Expr
from fusebuild.schedule.kernel import C_TYPES, KernelSpec, reductions
from fusebuild.schedule.persistent import ClusterHeuristics, FewRowsHeuristics, PersistentHeuristics
from fusebuild.schedule.reduction import InnerHeuristics
from fusebuild.schedule.rows import RowThreads, by_level, kept_axes, levels, reduced_axes
from fusebuild.schedule.shifted import flat_fids
from fusebuild.schedule.sweeps import last_sweep
from fusebuild.views.batches import Batches, batches, place, position_of
from fusebuild.views.dynamic_shared import arrays_in_shared, arrays_of
from fusebuild.views.kernel_view import (
    KernelView,
    Lines,
    Sweep,
    accumulate,
    accumulators,
    element_coordinate,
    is_vector,
    join,
    make_view,
    read_rows_once,
    scalar_load,
    strided_element,
)
from fusebuild.views.lambdas import Folding, folded, foldings
from fusebuild.views.shifted import INSIDE, if_inside, nearest_column, row_shift, row_vector, with_nearest

ELEMENT = "v{0}[k]"
"""An element of the current vector of an input: a format of the fid."""

FIRST_AHEAD = ("FUSEBUILD_UNROLL", "for (int c = 0; c < kAhead; ++c) load_ahead(c);")
"""What the sweep before the last one ends with where the last one loads ahead: an exchange comes next."""

NEXT_AHEAD = "load_ahead(c + kAhead);"
"""What that one does before it stores vector ``c``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A row kernel's two groups of axes and what has to be in place before its first sweep. Inputs ``widened`` are
    floats where threads have vectors of them."""

    body: Body
    row: Group
    column: Group
    reads: tuple[int, ...]
    exprs: tuple[Expr, ...]
    widened: frozenset[int] = frozenset()

    @property
    def inner(self) -> int:
        return len(self.body.domain.axes) - 1

    def is_column(self, fid: int) -> bool:
        """True for values that change along the row."""
        return bool(self.body.axes_of(fid) & {*self.column.axes})

    def dtype_of(self, fid: int) -> DType:
        """The type of an input's elements in threads' vectors."""
        return DType.FLOAT if fid in self.widened else self.body.value(fid).dtype

    def vector(self, fid: int, source: str) -> str:
        """The line that takes the current vector of input ``fid`` from the ``source``."""
        return f"const fb::Vec<{C_TYPES[self.dtype_of(fid)]}, kVec> v{fid} = {source};"

    @property
    def extents(self) -> dict[str, str]:
        """The sizes that templates name."""
        return {"rows": self.body.size(self.row.axes), "columns": self.body.size(self.column.axes)}

    @property
    def of_rows(self) -> list[int]:
        """What the row's exprs give that does not change along it."""
        return [fid for expr in self.exprs if not self.is_column(expr.outputs[0]) for fid in expr.outputs]

    def has_columns(self, fid: int) -> bool:
        """True for tensors in memory that change along the row."""
        return bool({*self.body.domain.accesses[fid].axes} & {*self.column.axes})


def rows_of(spec: KernelSpec, targets: Sequence[int], outputs: Sequence[int]) -> Rows:
    kept, reduced = kept_axes(spec.domain), reduced_axes(spec.domain)
    flat = "row * columns + col" if kept else "col"
    body = Body(spec, interleaved=bool(kept) and max(kept) > min(reduced), flat=flat)
    return Rows(
        body=body,
        row=Group(name="row", axes=kept, index="int64_t"),
        column=Group(name="col", axes=reduced),
        reads=body.reads([*targets, *outputs]),
        exprs=body.closure([*targets, *outputs]),
    )


def row_setup(
    rows: Rows, outputs: Sequence[int], fetched: Container[int] = (), of_rows: Mapping[int, str] = MappingProxyType({})
) -> tuple[Lines, Lines]:
    """``(coordinates and statistics of the row, base addresses and where vectors begin)`` before the first sweep; the
    ``fetched`` inputs have no base, and the row's element of those ``of_rows`` is not in global memory but there."""
    body, level = rows.body, levels(rows.body.task)
    touched = [*rows.reads, *outputs]
    place = {**{fid: body.element(fid, [rows.row]) for fid in rows.reads}, **of_rows}
    needed = body.needs_coordinates(touched, rows.row) | (body.coordinate_axes(rows.exprs) & {*rows.row.axes})
    loads = [fid for fid in rows.reads if not rows.has_columns(fid)]
    still, _ = body.split(rows.exprs, rows.column.axes)
    lines = (
        *body.coordinates(rows.row, needed),
        *(scalar_load(body, fid, place[fid]) for fid in loads),
        *(body.statement(expr, lambda axis: body.coordinate(rows.row, axis)) for expr in still
          if not level.get(expr.outputs[0], 0)),
    )  # fmt: skip
    based = [fid for fid in touched if rows.has_columns(fid) and fid not in fetched]
    bases = (row_base(rows, fid, outputs) for fid in based)
    return lines, (*bases, *row_shift(body, rows.row, rows.reads))


def row_base(rows: Rows, fid: int, outputs: Container[int]) -> str:
    """Where the columns of the row begin in tensor ``fid``."""
    body, const = rows.body, "" if fid in outputs else "const "
    base = body.base(fid, [rows.row], rows.column.axes)
    address = f"T{fid}" if base == "0" else f"T{fid} + {base}"
    return f"{const}{body.c_type(fid)}* r{fid} = {address};"


def row_sweep(
    rows: Rows, targets: Sequence[int], available: Sequence[int], loads: Callable[[int], Lines], element: str
) -> Sweep:
    """One sweep over the columns that computes ``targets``. ``loads`` gives the lines that fetch an input's vector,
    ``element`` how an element is taken from it (a format of the fid)."""
    body = rows.body
    placed = _placed(rows, body.closure(targets, available))
    available = [*available, *(expr.outputs[0] for expr in placed)]
    made = [*targets, *placed.values()]
    exprs = [expr for expr in body.closure(made, available) if rows.is_column(expr.outputs[0])]
    reads = column_reads(rows, made, available)
    vectors = [fid for fid in reads if is_vector(body, fid)]
    moving = [fid for fid in reads if rows.inner in body.domain.accesses[fid].axes]
    hoisted, inside = body.split(exprs, [rows.inner])
    coordinate = row_coordinate(rows)
    needed = body.needs_coordinates(reads, rows.column) | (body.coordinate_axes(exprs) & {*rows.column.axes})
    needed |= body.needs_coordinates([fid for fid in targets if fid in body.domain.accesses], rows.column)
    needed |= {rows.inner} if placed else set()
    elements = (
        *(f"const {C_TYPES[rows.dtype_of(fid)]} t{fid} = {element.format(fid)};" for fid in vectors),
        *(row_element_load(rows, fid) for fid in moving if fid not in vectors),
        *(_is_placed(body, expr) for expr in placed),
        *(body.statement(expr, coordinate) for expr in inside),
    )
    return Sweep(
        coordinates=(*body.coordinates(rows.column, needed), *((INSIDE,) if body.spec.shifted else ())),
        loads=tuple(line for fid in vectors for line in loads(fid)),
        vector=(
            *(scalar_load(body, fid, f"r{fid}[{body.offset(fid, [rows.column])}]")
              for fid in reads if fid not in moving),
            *(body.statement(expr, coordinate) for expr in hoisted),
            *(place(body, f"h{expr.outputs[0]}", position, row_start(rows)(rows.inner))
              for expr, position in placed.items()),
        ),
        element=with_nearest(elements, "col", "columns") if body.spec.shifted else elements,
    )  # fmt: skip


def _placed(rows: Rows, exprs: Sequence[Expr]) -> dict[Expr, int]:
    """The exprs that say whether an element of a vector is at a position, with that: found once for the vector."""
    if rows.body.spec.vec == 1:
        return {}
    found = {expr: position_of(rows.body, expr, rows.inner) for expr in exprs}
    return {expr: position for expr, position in found.items() if position is not None}


def _is_placed(body: Body, expr: Expr) -> str:
    (fid,) = expr.outputs
    return f"const bool t{fid} = h{fid} == k;{body.comment(body.value(fid), expr)}"


def row_start(rows: Rows) -> Callable[[int], str]:
    """Coordinates of the first element of a vector of the row, in shifted vectors before it."""
    return element_coordinate(rows.body, [rows.row, rows.column], rows.inner, 1)


def row_batches(
    rows: Rows, indices: Sequence[int], *, keeps: bool = True, is_full: bool = False, is_long: bool = False
) -> Batches:
    """How the reductions at ``indices`` take the vectors of rows. Where registers are full of a row, no vector is kept
    beside it. ``is_long`` is as for :func:`batches`."""
    start, neighbours = row_start(rows), "kVec"
    if is_full:
        start, neighbours = element_coordinate(rows.body, [rows.row, rows.column], rows.inner, rows.body.spec.vec), "1"
    return batches(
        rows.body, indices, rows.inner, start, neighbours=neighbours, keeps=keeps, looks_up=keeps, is_long=is_long
    )


def only_elements(rows: Rows, gathered: Batches, known: Sequence[int], reader: str) -> Sweep:
    """Sums of which one element alone differs from zero: it is fetched before the row is walked and added after that,
    by the thread for which ``reader`` is true, or any, where the row has the position."""
    parts = (_only_element(rows, folding, *gathered.only[folding.index], known, reader)
             for folding in foldings(rows.body, gathered.only))  # fmt: skip
    return join(Sweep(), *parts)


def inputs_looked_up(rows: Rows) -> set[int]:
    """The inputs of which a walk over the whole row reads the only element that counts, wherever it is."""
    return _looked_up(rows, row_batches(rows, reductions(rows.body.task), is_full=True))


def _looked_up(rows: Rows, gathered: Batches) -> set[int]:
    """The same of the reductions ``gathered``."""
    return {fid for value, _ in gathered.only.values() for fid in column_reads(rows, [value], rows.of_rows)}


def column_reads(rows: Rows, targets: Sequence[int], known: Sequence[int]) -> list[int]:
    """The inputs that change along the row from which ``targets`` are computed, where ``known`` is."""
    return [fid for fid in rows.body.reads(targets, known) if rows.has_columns(fid)]


def _only_element(rows: Rows, folding: Folding, value: int, position: int, known: Sequence[int], reader: str) -> Sweep:
    body, (total,) = rows.body, folding.expr.outputs
    wanted, at = body.operand(position, DType.INT64), Group(name=f"at{total}", axes=rows.column.axes)
    reads = column_reads(rows, [value], known)
    exprs = [expr for expr in body.closure([value], known) if rows.is_column(expr.outputs[0])]
    coordinate = element_coordinate(body, [rows.row, at], rows.inner, 1)
    test = " && ".join(filter(None, (reader, f"{wanted} >= 0", f"{wanted} < columns")))
    return Sweep(
        accumulators=(
            f"const bool has{total} = {test};",
            f"const Index {at.name} = has{total} ? {wanted} : 0;",
            *(f"const {body.c_type(fid)} q{total}_{fid} = has{total} ? r{fid}[{body.offset(fid, [at])}] : "
              f"{literal_text(0, body.value(fid).dtype)};" for fid in reads),
        ),
        merged=(
            f"if (has{total}) {{",
            *(f"  {scalar_load(body, fid, f'q{total}_{fid}')}" for fid in reads),
            *(f"  {body.statement(expr, coordinate)}" for expr in exprs),
            f"  {folding.combined(folding.accumulator, body.operand(value, folding.dtypes[0]))}",
            "}",
        ),
    )  # fmt: skip


def row_coordinate(rows: Rows) -> Callable[[int], str]:
    """Coordinates of an element of the row."""
    if rows.body.spec.shifted:
        return element_coordinate(rows.body, [rows.row, nearest_column(rows.column)], rows.inner, 1)
    return element_coordinate(rows.body, [rows.row, rows.column], rows.inner, rows.body.spec.vec)


def row_element(rows: Rows, fid: int) -> str:
    """The element of tensor ``fid``, whose elements are not neighbours in memory."""
    if rows.body.spec.shifted:
        return f"r{fid}[{rows.body.offset(fid, [nearest_column(rows.column)])}]"
    return f"r{fid}[{strided_element(rows.body, fid, [rows.column], rows.inner)}]"


def row_element_load(rows: Rows, fid: int) -> str:
    return scalar_load(rows.body, fid, row_element(rows, fid))


def row_stores(rows: Rows, outputs: Sequence[int]) -> Sweep:
    """Stores of outputs that change along the row."""
    body, shifted = rows.body, rows.body.spec.shifted
    wide = [fid for fid in outputs if (fid in flat_fids(body.domain) if shifted else is_vector(body, fid))]
    store = "fb::store_inside({}, {}, inside);" if shifted else "fb::store({}, {});"
    address = {fid: f"r{fid} + {body.offset(fid, [rows.column])}" for fid in wide}
    return stores_of(rows, outputs, {fid: store.format(address[fid], f"o{fid}") for fid in wide})


def stores_of(rows: Rows, outputs: Sequence[int], vectors: Mapping[int, str]) -> Sweep:
    """Stores of ``outputs``, one element after another but for those that have a store of ``vectors``."""
    body = rows.body
    value = {fid: body.operand(fid, body.value(fid).dtype) for fid in outputs}
    single = tuple(f"{row_element(rows, fid)} = {value[fid]};" for fid in outputs if fid not in vectors)
    return Sweep(
        vector=tuple(f"fb::Vec<{body.c_type(fid)}, kVec> o{fid};" for fid in vectors),
        element=(*(f"o{fid}[k] = {value[fid]};" for fid in vectors), *if_inside(body, single)),
        stores=tuple(vectors.values()),
    )


def row_epilogue(rows: Rows, done: Iterable[int], at: int) -> Lines:
    """Values of the row that follow from the reductions of level ``at``."""
    still, _ = rows.body.split(rows.exprs, rows.column.axes)
    finished, level = set(done), levels(rows.body.task)
    return tuple(
        rows.body.statement(expr, lambda axis: rows.body.coordinate(rows.row, axis))
        for expr in still
        if level[expr.outputs[0]] == at and expr.outputs[0] not in finished
    )


def row_results(rows: Rows, outputs: Sequence[int]) -> Lines:
    """Stores of outputs that hold one element a row."""
    body = rows.body
    return tuple(
        f"T{fid}[{body.offset(fid, [rows.row])}] = {body.operand(fid, body.value(fid).dtype)};" for fid in outputs
    )


def row_result_stores(rows: Rows, outputs: Sequence[int], threads: RowThreads) -> Sweep:
    """The same where rows may share a block: what has the elements of neighbouring rows side by side is stored by the
    block's first threads, all rows of a block at once."""
    body = rows.body
    is_shared = threads.rows > 1
    joint = [fid for fid in outputs if is_shared and body.offset(fid, [rows.row]) == rows.row.name]
    results = (f"fb::row_result(T{fid}, {body.operand(fid, body.value(fid).dtype)})" for fid in joint)
    call = f"fb::store_rows<kThreadsPerRow, kRowsPerBlock>({', '.join(['rows', *results])});"
    return Sweep(
        stores=row_results(rows, [fid for fid in outputs if fid not in joint]),
        joint_stores=(call,) if joint else (),
    )


def inner_persistent(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, PersistentHeuristics)
    outputs = spec.task.outputs
    indices = reductions(spec.task)
    rows = rows_of(spec, folded(spec.task, indices), outputs)
    body = rows.body
    wide = [fid for fid in outputs if rows.has_columns(fid)]
    setup, bases = row_setup(rows, outputs)
    loader = _Loader(rows=rows, heuristics=heuristics)
    known = rows.of_rows
    kept, first = Kept(body, heuristics.kept), "rank == 0 && " if heuristics.storage == "cluster" else ""
    sweeps = row_levels(
        rows,
        kept,
        loader.lines,
        partial(_reduction, heuristics),
        is_full=heuristics.in_registers,
        reader=f"{first}lane == 0",
        overwritten=frozenset(output.alias for output in spec.task.fusion.outputs if output.alias is not None),
    )
    if loader.ahead:
        sweeps.append(join(sweeps.pop(), Sweep(merged=FIRST_AHEAD)))
    if wide:
        next_ahead = Sweep(stores=(NEXT_AHEAD,) if loader.ahead else ())
        sweeps.append(join(kept.around(rows, wide, known, loader.last), next_ahead, row_stores(rows, wide)))
    narrow = row_result_stores(rows, [fid for fid in outputs if fid not in wide], heuristics.threads)
    return make_view(
        spec, body, rows.exprs,
        setup=setup, bases=bases, sweeps=tuple(sweep.without_idle_coordinates() for sweep in sweeps),
        epilogue=replace(
            narrow, arrays=(*loader.arrays(), *kept.arrays()), coordinates=loader.coordinates(),
            loads=loader.first(),
        ),
        extents=rows.extents,
        ahead=loader.loads_ahead(),
        clamped=isinstance(heuristics, FewRowsHeuristics) and heuristics.clamped,
    )  # fmt: skip


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
) -> list[Sweep]:
    """One sweep for each level of the reductions. ``loads`` are as for :func:`row_sweep`; ``reduction`` gives the call
    that combines its arguments over the threads of a row, one of which is the ``reader`` of single elements;
    ``is_full`` is as for :func:`row_batches`. Inputs ``overwritten`` are so by other threads of the row."""
    body, known, task = rows.body, rows.of_rows, rows.body.task
    sweeps: list[Sweep] = []
    for at, own in by_level(task, reductions(task)).items():
        gathered = row_batches(rows, own, is_full=is_full)
        sweep = kept.around(rows, gathered.targets(), known, loads)
        results = (*accumulate(body, own).results, *row_epilogue(rows, folded(task, own), at))
        parts = Sweep(accumulators=accumulate(body, gathered.plain).accumulators, results=results)
        only = only_elements(rows, gathered, known, reader)
        meet = Sweep(results=(LOOKED_UP,) if _looked_up(rows, gathered) & overwritten else ())
        reduce = Sweep(reduce=reduction(accumulators(body, own)))
        sweeps.append(join(meet, sweep, parts, _updates(gathered), only, reduce))
    return sweeps


def _updates(gathered: Batches, is_first: str = "") -> Sweep:
    """What is accumulated in a row's vectors, elements beside the row left out."""
    body, sweep = gathered.body, gathered.along_rows()
    singly = accumulate(body, gathered.singly, is_first=is_first).accumulate
    return replace(sweep, accumulate=if_inside(body, (*singly, *sweep.accumulate)))


def _reduction(heuristics: PersistentHeuristics, arguments: str) -> str:
    """The call that combines the ``arguments`` over the threads of a row."""
    in_cluster = heuristics.storage == "cluster"
    return reduction_in_cluster(arguments) if in_cluster else reduction_in_block(heuristics.threads, arguments)


def reduction_in_block(threads: RowThreads, arguments: str) -> str:
    """The call that combines the ``arguments`` over the threads of a row; where those meet at barriers, a phase saves
    one of two."""
    phase = "" if threads.in_one_warp else "phase, "
    return f"fb::reduce_row<kThreadsPerRow, kRowsPerBlock>({phase}{arguments});"


def reduction_in_cluster(arguments: str) -> str:
    """The same over those of a cluster."""
    return f"fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, {arguments});"


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

    def around(self, rows: Rows, targets: Sequence[int], known: Sequence[int], loads: Callable[[int], Lines]) -> Sweep:
        """The sweep that computes ``targets``: it takes what earlier ones kept, and keeps what is new."""
        body = self._body
        sweep = row_sweep(rows, targets, [*known, *self._made], loads, self._element)
        exprs = body.closure(targets, [*known, *self._made])
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
        self.rows_of, self._heuristics = rows, heuristics
        self._in_shared: set[int] = set()
        self.ahead = _read_ahead(rows.body, heuristics)

    def arrays(self) -> Lines:
        """Declarations of what is kept on chip."""
        body, cached = self.rows_of.body, self._heuristics.cached
        if self._heuristics.in_registers:
            return tuple(f"fb::Packed<{body.c_type(fid)}, kVec> c{fid}[kChunks];" for fid in cached)
        if self._heuristics.storage == "reread":
            return ()
        return arrays_in_shared(arrays_of(body, cached, "c", "columns"))

    def coordinates(self) -> Lines:
        """Where a vector of the row is, for the loads of the whole row."""
        body, column = self.rows_of.body, self.rows_of.column
        return body.coordinates(column, body.needs_coordinates(self._heuristics.cached, column))

    def first(self) -> Lines:
        """Loads of the whole row into registers, all in flight before the first is used."""
        if not self._heuristics.in_registers:
            return ()
        return tuple(f"c{fid}[c] = {self.from_memory(fid, packed=True)};" for fid in self._heuristics.cached)

    def lines(self, fid: int) -> Lines:
        """The lines that put the current vector of input ``fid`` into ``v<fid>``."""
        rows = self.rows_of
        if fid not in self._heuristics.cached:
            return (rows.vector(fid, self.from_memory(fid)),)
        if self._heuristics.in_registers:
            return (rows.vector(fid, f"fb::unpack(c{fid}[c])"),)
        if fid in self._in_shared:
            return (rows.vector(fid, f"fb::load_shared<kVec>(c{fid} + col)"),)
        self._in_shared.add(fid)
        return (rows.vector(fid, self.from_memory(fid)), f"fb::store_shared(c{fid} + col, v{fid});")

    def last(self, fid: int) -> Lines:
        """The same in the last sweep, for which some are loaded ahead."""
        return (self.rows_of.vector(fid, f"fb::unpack(p{fid}[c])"),) if fid in self.ahead else self.lines(fid)

    def loads_ahead(self) -> Sweep:
        """Loads of those, a vector of each at a time."""
        body, column = self.rows_of.body, self.rows_of.column
        address = {fid: f"r{fid} + {body.offset(fid, [column])}" for fid in self.ahead}
        return Sweep(
            arrays=tuple(f"fb::Packed<{body.c_type(fid)}, kVec> p{fid}[kChunks];" for fid in self.ahead),
            coordinates=body.coordinates(column, body.needs_coordinates(self.ahead, column)),
            loads=tuple(f"p{fid}[c] = fb::load_packed_ahead<kVec>({address[fid]});" for fid in self.ahead),
        )

    def from_memory(self, fid: int, *, packed: bool = False) -> str:
        """The call that fetches the current vector of input ``fid`` from global memory."""
        return row_vector(self.rows_of.body, fid, self.rows_of.column, packed=packed)


def _read_ahead(body: Body, heuristics: PersistentHeuristics) -> tuple[int, ...]:
    """The inputs of which the last sweep loads vectors before it takes them."""
    if not isinstance(heuristics, ClusterHeuristics) or not heuristics.ahead:
        return ()
    return last_sweep(body.task, body.domain, heuristics.cached, heuristics.kept).inputs


def reduction_inner(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, InnerHeuristics)
    indices = reductions(spec.task)
    results = folded(spec.task, indices)
    is_split = heuristics.splits > 1
    outputs = () if is_split else spec.task.outputs
    rows = rows_of(spec, results, outputs)
    body = rows.body
    setup, bases = row_setup(rows, outputs)
    known = rows.of_rows
    gathered = row_batches(rows, indices, is_long=True)
    targets = gathered.targets()
    sweep = (
        _loaded_ahead(rows, targets, known)
        if spec.shifted
        else row_sweep(rows, targets, known, global_loads(rows), ELEMENT)
    )
    running = read_rows_once(body, gathered.plain, "(kSplits * kThreadsPerRow)" if is_split else "kThreadsPerRow")
    reduce = f"fb::reduce_row<kThreadsPerRow, kRowsPerBlock>({accumulators(body, indices)});"
    if is_split:
        position = f"{body.step('split', rows.row.axes)} + row" if rows.row.axes else "split"
        epilogue = Sweep(
            stores=tuple(line for folding in foldings(body, indices) for line in folding.partial_stores(position))
        )
    else:
        lines = (*accumulate(body, indices).results, *row_epilogue(rows, results, 1))
        epilogue = replace(row_result_stores(rows, outputs, heuristics.threads), results=lines)
    reader = "split == 0 && lane == 0" if is_split else "lane == 0"
    only = only_elements(rows, gathered, known, reader)
    sweep = join(running, sweep, _updates(gathered, "is_first && k == 0"), only, Sweep(reduce=reduce))
    return make_view(
        spec, body, rows.exprs, setup=setup, bases=bases, sweeps=(sweep,), epilogue=epilogue, extents=rows.extents,
    )  # fmt: skip


def _loaded_ahead(rows: Rows, targets: Sequence[int], known: Sequence[int]) -> Sweep:
    """The sweep that computes ``targets``. Flat tensors are loaded into arrays by ``loads``, several vectors before the
    first is used: what a vector may touch is tested first, and no compiler moves loads past tests."""
    body, ahead = rows.body, dict[int, str]()

    def take(fid: int) -> Lines:
        if fid not in flat_fids(body.domain):
            return (rows.vector(fid, row_vector(body, fid, rows.column)),)
        ahead[fid] = f"p{fid}[u] = {row_vector(body, fid, rows.column, packed=True)};"
        return (rows.vector(fid, f"fb::unpack(p{fid}[u])"),)

    sweep = row_sweep(rows, targets, known, take, ELEMENT)
    return replace(
        sweep,
        arrays=tuple(f"fb::Packed<{body.c_type(fid)}, kVec> p{fid}[kUnroll];" for fid in ahead),
        loads=tuple(ahead.values()),
        vector=(*sweep.loads, *sweep.vector),
    )


def global_loads(rows: Rows) -> Callable[[int], Lines]:
    def lines(fid: int) -> Lines:
        return (rows.vector(fid, row_vector(rows.body, fid, rows.column)),)

    return lines
