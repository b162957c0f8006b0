"""Lines of kernels whose threads walk rows: how a row begins, its sweeps, and what they load and store."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from fusebuild.ir.dtype import DType
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.batches import Batches, batches, place, position_of
from fusebuild.kernels.common.lambdas import Folding, foldings
from fusebuild.kernels.common.rows import RowThreads, kept_axes, levels, reduced_axes
from fusebuild.kernels.common.shifted import flat_fids
from fusebuild.kernels.common.shifted_lines import (
    INSIDE,
    if_inside,
    nearest_column,
    row_shift,
    row_vector,
    with_nearest,
)
from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.statements import Body, Coordinates, Group, literal_text
from fusebuild.kernels.common.view import (
    Lines,
    Sweep,
    accumulate,
    element_coordinate,
    is_vector,
    join,
    scalar_load,
    strided_element,
)

ELEMENT = "v{0}[k]"
"""An element of the current vector of an input: a format of the fid."""


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
        return f"const fb::Vec<{self.dtype_of(fid).row.c_type}, kVec> v{fid} = {source};"

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
        *(body.statement(expr, body.within(rows.row)) for expr in still
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
        *(f"const {rows.dtype_of(fid).row.c_type} t{fid} = {element.format(fid)};" for fid in vectors),
        *(row_element_load(rows, fid) for fid in moving if fid not in vectors),
        *(_is_placed(body, expr) for expr in placed),
        *(body.statement(expr, coordinate) for expr in inside),
    )
    return Sweep(
        coordinates=(*body.coordinates(rows.column, needed), *((INSIDE,) if body.spec.is_shifted else ())),
        loads=tuple(line for fid in vectors for line in loads(fid)),
        vector=(
            *(scalar_load(body, fid, f"r{fid}[{body.offset(fid, [rows.column])}]")
              for fid in reads if fid not in moving),
            *(body.statement(expr, coordinate) for expr in hoisted),
            *(place(body, f"h{expr.outputs[0]}", position, row_start(rows)(rows.inner))
              for expr, position in placed.items()),
        ),
        element=with_nearest(elements, "col", "columns") if body.spec.is_shifted else elements,
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


def row_start(rows: Rows) -> Coordinates:
    """Coordinates of the first element of a vector of the row, in shifted vectors before it."""
    return element_coordinate(rows.body, [rows.row, rows.column], rows.inner, 1)


def row_batches(
    rows: Rows, indices: Sequence[int], *, keeps: bool = True, is_full: bool = False, is_long: bool = False
) -> Batches:
    """How the reductions at ``indices`` take the vectors of rows. Where registers are full of a row, no vector is kept
    beside it. ``is_long`` is as for :func:`batches`."""
    start, together = row_start(rows), "kVec"
    if is_full:
        start, together = element_coordinate(rows.body, [rows.row, rows.column], rows.inner, rows.body.spec.vec), "1"
    return batches(
        rows.body, indices, rows.inner, start, together=together, keeps=keeps, looks_up=keeps, is_long=is_long
    )


def only_elements(rows: Rows, gathered: Batches, known: Sequence[int], reader: str) -> Sweep:
    """Sums of which one element alone differs from zero: it is fetched before the row is walked and added after that,
    by the thread for which ``reader`` is true, or any, where the row has the position."""
    parts = (_only_element(rows, folding, *gathered.only[folding.index], known, reader)
             for folding in foldings(rows.body, gathered.only))  # fmt: skip
    return join(Sweep(), *parts)


def inputs_looked_up(rows: Rows) -> set[int]:
    """The inputs of which a walk over the whole row reads the only element that counts, wherever it is."""
    return looked_up_by(rows, row_batches(rows, reductions(rows.body.task), is_full=True))


def looked_up_by(rows: Rows, gathered: Batches) -> set[int]:
    """The inputs of which the reductions ``gathered`` read the only element that counts."""
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


def row_coordinate(rows: Rows) -> Coordinates:
    """Coordinates of an element of the row."""
    if rows.body.spec.is_shifted:
        return element_coordinate(rows.body, [rows.row, nearest_column(rows.column)], rows.inner, 1)
    return element_coordinate(rows.body, [rows.row, rows.column], rows.inner, rows.body.spec.vec)


def row_element(rows: Rows, fid: int) -> str:
    """The element of tensor ``fid``, whose elements are not neighbours in memory."""
    if rows.body.spec.is_shifted:
        return f"r{fid}[{rows.body.offset(fid, [nearest_column(rows.column)])}]"
    return f"r{fid}[{strided_element(rows.body, fid, [rows.column], rows.inner)}]"


def row_element_load(rows: Rows, fid: int) -> str:
    return scalar_load(rows.body, fid, row_element(rows, fid))


def row_stores(rows: Rows, outputs: Sequence[int]) -> Sweep:
    """Stores of outputs that change along the row."""
    body, shifted = rows.body, rows.body.spec.is_shifted
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
        rows.body.statement(expr, rows.body.within(rows.row))
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
    """Stores of outputs that hold one element a row. Where rows share a block, what has the elements of neighbouring
    rows side by side is stored by the block's first threads, all rows of a block at once."""
    body = rows.body
    is_shared = threads.rows > 1
    joint = [fid for fid in outputs if is_shared and body.offset(fid, [rows.row]) == rows.row.name]
    results = (f"fb::row_result(T{fid}, {body.operand(fid, body.value(fid).dtype)})" for fid in joint)
    call = f"fb::store_rows<kThreadsPerRow, kRowsPerBlock>({', '.join(['rows', *results])});"
    return Sweep(
        stores=row_results(rows, [fid for fid in outputs if fid not in joint]),
        joint_stores=(call,) if joint else (),
    )


def row_updates(gathered: Batches, is_first: str = "") -> Sweep:
    """What is accumulated in a row's vectors, elements beside the row left out."""
    body, sweep = gathered.body, gathered.along_rows()
    singly = accumulate(body, gathered.singly, is_first=is_first).accumulate
    return replace(sweep, accumulate=if_inside(body, (*singly, *sweep.accumulate)))


def reduction_in_block(threads: RowThreads, arguments: str) -> str:
    """The call that combines the ``arguments`` over the threads of a row; where those meet at barriers, a phase saves
    one of two."""
    phase = "" if threads.in_one_warp else "phase, "
    return f"fb::reduce_row<kThreadsPerRow, kRowsPerBlock>({phase}{arguments});"


def reduction_in_cluster(arguments: str) -> str:
    """The call that combines the ``arguments`` over the threads of a row that the blocks of a cluster share."""
    return f"fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, {arguments});"


def global_loads(rows: Rows) -> Callable[[int], Lines]:
    def lines(fid: int) -> Lines:
        return (rows.vector(fid, row_vector(rows.body, fid, rows.column)),)

    return lines
