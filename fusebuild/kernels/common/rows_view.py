"""Lines of kernels whose threads walk rows: how a row begins, its sweeps, and what they load and store.

Vectors may be **shifted** to where memory is aligned, and not begin where rows do: 16-byte accesses for rows of any
length. Row ``r`` of a dense ``[M, N]`` tensor begins at element ``r * N``, which a vector begins at for some rows only.
Its threads walk the aligned vectors that hold it; of the first and the last one, elements belong to the rows beside it,
and are neither combined nor stored. All dense tensors that span the domain have a row in the same places of their
vectors, whatever their dtypes, since a vector is a number of elements. What lacks an axis, such as a weight, is cut out
of the aligned words around it. The first vector begins ``shift`` columns before the row; bit ``k`` of ``inside`` says
that element ``k`` of a vector is the row's; ``at`` is the element's column, or the nearest one that the row has.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from fusebuild.ir.dtype import DType
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.batches import Batches, batches, place, position_of
from fusebuild.kernels.common.lambdas import Folding, folded, foldings
from fusebuild.kernels.common.rows import RowThreads, levels
from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.statements import Body, Coordinates, Group, literal_text
from fusebuild.kernels.common.view import Lines, Sweep, accumulate, join, with_nearest

ELEMENT = "v{0}[k]"
"""An element of the current vector of an input: a format of the fid."""

STORE_ROWS = "fb::store_rows<kThreadsPerRow, kRowsPerBlock>({})"
"""The call that stores what is one element a row for all rows of a block: a format of its arguments."""

INSIDE = "const unsigned inside = fb::inside_of<kVec>(col, columns);  // bit k: column col + k is of this row"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A row kernel's two groups of axes and what has to be in place before its first sweep. Inputs ``widened`` are
    floats where threads have vectors of them; ``held`` says where a thread has an input already that it has no vector
    of: an element, or the one value of a vector. Where vectors ``cross`` from one column axis' end to its next
    beginning, each element has coordinates of its own; ``by_pieces`` what does not change along the innermost axis is
    loaded once for each of its runs that a vector has a part of, and is a vector then, too. Where the ``first`` of
    those runs has been found, what it has is ``held``."""

    body: Body
    row: Group
    column: Group
    reads: tuple[int, ...]
    exprs: tuple[Expr, ...]
    widened: frozenset[int] = frozenset()
    held: Mapping[int, str] = field(default_factory=dict)
    cross: bool = False
    by_pieces: bool = False
    first: str = ""

    @property
    def inner(self) -> int:
        return self.body.domain.inner

    def is_column(self, fid: int) -> bool:
        """True for values that change along the row."""
        return bool(self.body.axes_of(fid) & {*self.column.axes})

    def has_columns(self, fid: int) -> bool:
        """True for tensors in memory that change along the row."""
        return bool({*self.body.domain.accesses[fid].axes} & {*self.column.axes})

    @property
    def wide(self) -> list[int]:
        """Outputs that change along the row."""
        return [fid for fid in self.body.task.outputs if self.has_columns(fid)]

    @property
    def narrow(self) -> list[int]:
        """Outputs that hold one element a row."""
        return [fid for fid in self.body.task.outputs if not self.has_columns(fid)]

    @property
    def extents(self) -> dict[str, str]:
        """The sizes that templates name."""
        return {"rows": self.body.size(self.row.axes), "columns": self.body.size(self.column.axes)}

    @property
    def of_rows(self) -> list[int]:
        """What the row's exprs give that does not change along it."""
        return [fid for expr in self.exprs if not self.is_column(expr.outputs[0]) for fid in expr.outputs]

    @property
    def moving(self) -> frozenset[int]:
        """The axes along which the elements of a vector may differ."""
        return frozenset(self.column.axes if self.cross else (self.inner,))

    @property
    def divisors(self) -> Lines:
        """What :meth:`sweep` divides by to find the coordinates of an element, made once."""
        places = {axis: self.column.divisor.format(axis) for axis in self.column.axes[1:] if self.divides(axis)}
        kind = "QuickDivisor" if self.by_pieces else "Divisor"  # one for a vector, or for each element
        return tuple(f"const fb::{kind} {place}({self.body.extents[axis]});" for axis, place in places.items())

    def divides(self, axis: int) -> bool:
        """Whether coordinates are found by a divisor that is made once of the size of ``axis``."""
        return bool(self.column.divisor) and not isinstance(self.body.domain.axes[axis].extent, int)

    def dtype_of(self, fid: int) -> DType:
        """The type of an input's elements in threads' vectors."""
        return DType.FLOAT if fid in self.widened else self.body.value(fid).dtype

    def c_type(self, fid: int) -> str:
        """How kernels write :meth:`dtype_of`."""
        return self.dtype_of(fid).row.c_type

    def vector(self, fid: int, source: str) -> str:
        """The line that takes the current vector of input ``fid`` from the ``source``."""
        return f"const fb::Vec<{self.c_type(fid)}, kVec> v{fid} = {source};"

    def address(self, fid: int) -> str:
        """Where the current vector of tensor ``fid`` is in its row ``r<fid>``."""
        return f"r{fid} + {self.body.offset(fid, [self.column])}"

    def from_memory(self, fid: int, *, packed: bool = False) -> str:
        """The expression that loads the current vector of input ``fid`` from its row ``r<fid>``."""
        address = self.address(fid)
        if not self.body.spec.is_shifted:
            return f"fb::load{'_packed' if packed else ''}<kVec>({address})"
        if fid in self.body.domain.flat:
            return f"fb::load{'_packed' if packed else ''}_up_to<kVec>({address}, readable - col)"
        beside = f"fb::load_beside<kVec>(r{fid}, col, columns)"
        return f"fb::pack({beside})" if packed else beside

    def global_load(self, fid: int) -> Lines:
        """The line that does so."""
        return (self.vector(fid, self.from_memory(fid)),)

    def setup(
        self, outputs: Sequence[int], fetched: Container[int] = (), of_rows: Mapping[int, str] = MappingProxyType({})
    ) -> tuple[Lines, Lines]:
        """``(coordinates and statistics of the row, base addresses and where vectors begin)`` before the first sweep;
        the ``fetched`` inputs have no base, and the row's element of those ``of_rows`` is not in global memory but
        there."""
        body, touched = self.body, [*self.reads, *outputs]
        place = {**{fid: body.element(fid, [self.row]) for fid in self.reads}, **of_rows}
        placed = [fid for fid in touched if fid not in fetched or not self.has_columns(fid)]
        needed = body.needs_coordinates(placed, self.row) | (body.coordinate_axes(self.exprs) & {*self.row.axes})
        lines = (
            *body.coordinates(self.row, needed),
            *(body.scalar_load(fid, place[fid]) for fid in self.reads if not self.has_columns(fid)),
            *self._at_level(0),
        )
        along = [fid for fid in touched if self.has_columns(fid) and fid not in fetched]
        bases = (self.base(fid, outputs) for fid in along)
        singly = (f"fb::forget_origin(r{fid});" for fid in along if self.cross and fid not in body.domain.flat)
        return lines, (*bases, *singly, *self._shift(fetched))

    def base(self, fid: int, outputs: Container[int]) -> str:
        """Where the columns of the row begin in tensor ``fid``."""
        const, base = "" if fid in outputs else "const ", self.body.base(fid, [self.row], self.column.axes)
        address = f"T{fid}" if base == "0" else f"T{fid} + {base}"
        return f"{const}{self.body.c_type(fid)}* r{fid} = {address};"

    def _shift(self, fetched: Container[int]) -> Lines:
        """Where the vectors of the row begin, and how far flat tensors may be read that are not ``fetched``."""
        flat = {*self.reads} & {*self.body.domain.flat}
        if not self.body.spec.is_shifted or (flat and all(fid in fetched for fid in flat)):
            return ()
        shift = "const Index shift = fb::shift_of<kVec>(row * columns);  // columns of earlier rows in its first vector"
        left = f"({self.body.size(self.row.axes)} - row) * columns"
        if not self.row.axes:
            shift, left = "constexpr Index shift = 0;", "columns"
        readable = f"const Index readable = fb::readable_of<kVec>(columns, {left});"
        return (shift, readable) if flat else (shift,)

    def _at_level(self, at: int, done: Container[int] = ()) -> Lines:
        """Statements of what is one value a row and follows from the reductions of level ``at``, but for what is
        ``done``."""
        body, level = self.body, levels(self.body.task)
        still, _ = body.split(self.exprs, self.column.axes)
        own = [expr for expr in still if level.get(expr.outputs[0], 0) == at and expr.outputs[0] not in done]
        return tuple(body.statement(expr, body.within(self.row)) for expr in own)

    def epilogue(self, done: Iterable[int], at: int) -> Lines:
        """Values of the row that follow from the reductions of level ``at``, whose results are ``done``."""
        return self._at_level(at, {*done})

    def sweep(
        self, targets: Sequence[int], available: Sequence[int], loads: Callable[[int], Lines], element: str = ELEMENT
    ) -> Sweep:
        """One sweep over the columns that computes ``targets``. ``loads`` gives the lines that fetch an input's vector,
        ``element`` how an element is taken from it (a format of the fid)."""
        body, column = self.body, self.column
        placed = self._placed(body.closure(targets, available))
        available = [*available, *(expr.outputs[0] for expr in placed)]
        made = [*targets, *placed.values()]
        exprs = [expr for expr in body.closure(made, available) if self.is_column(expr.outputs[0])]
        reads = self.column_reads(made, available)
        vectors = [fid for fid in reads if body.is_vector(fid)]
        moving = [fid for fid in reads if self.moving & {*body.domain.accesses[fid].axes}]
        pieces = [fid for fid in moving if fid in self.pieces]
        hoisted, inside = body.split(exprs, self.moving)
        coordinate = self.coordinate()
        accessed = [
            *(fid for fid in reads if fid not in self.held and fid not in pieces),
            *(fid for fid in targets if fid in body.domain.accesses),
        ]
        needed = body.needs_coordinates(accessed, column) | (body.coordinate_axes(exprs) & {*column.axes})
        needed |= {self.inner} if placed else set()
        own = body.coordinates(replace(column, name="at"), needed) if self.cross else ()
        elements = (
            *(("const Index at = col + k;", *own) if own else ()),
            *(f"const {self.c_type(fid)} t{fid} = {element.format(fid)};" for fid in vectors),
            *(f"const {self.c_type(fid)} t{fid} = {ELEMENT.format(fid)};" for fid in pieces),
            *(self.element_load(fid) for fid in moving if fid not in (*vectors, *pieces)),
            *(_is_placed(body, expr) for expr in placed),
            *(body.statement(expr, coordinate) for expr in inside),
        )
        return Sweep(
            coordinates=(*(() if self.cross else body.coordinates(column, needed)),
                         *((INSIDE,) if body.spec.is_shifted else ())),
            loads=tuple(line for fid in vectors for line in loads(fid)),
            vector=(
                *self.piece_loads(pieces),
                *(self.still_load(fid) for fid in reads if fid not in moving),
                *(body.statement(expr, coordinate) for expr in hoisted),
                *(place(body, f"h{expr.outputs[0]}", position, self.start()(self.inner))
                  for expr, position in placed.items()),
            ),
            element=with_nearest(elements, "col", "columns") if body.spec.is_shifted else elements,
        )  # fmt: skip

    @property
    def of_runs(self) -> list[int]:
        """Inputs that are one value for each run of the innermost axis: those that have columns, but none of that."""
        accesses = self.body.domain.accesses
        return [fid for fid in self.reads if self.has_columns(fid) and self.inner not in accesses[fid].axes]

    @property
    def pieces(self) -> list[int]:
        """Those of them that are loaded once for each run that a vector has a part of."""
        return self.of_runs if self.cross and self.by_pieces else []

    def piece_loads(self, fids: Sequence[int]) -> Lines:
        """The lines that make vectors of the inputs ``fids``, one of the :attr:`pieces` each."""
        if not fids:
            return ()
        body, visits = self.body, "others" if self.first else "each"
        begins = {fid: f" = fb::pack(fb::splat<kVec>({self.held[fid]}))" if self.first else "{}" for fid in fids}
        coordinates, loads = self.of_piece(fids)
        return (
            f"const fb::Pieces<kVec, Index> pieces({self.column.name}, {self.first or self.run}, "
            f"{body.extents[self.inner]});",
            *(f"fb::Packed<{self.c_type(fid)}, kVec> p{fid}{begins[fid]};" for fid in fids),
            f"pieces.{visits}([&](Index piece, auto from) FUSEBUILD_INLINE {{",
            *(f"  {line}" for line in coordinates),
            *(f"  fb::fill_from(p{fid}, from, {load});  // {body.value(fid).name}" for fid, load in loads.items()),
            "});",
            f"pieces.spread({', '.join(f'p{fid}' for fid in fids)});",
            *(self.vector(fid, f"fb::unpack(p{fid})") for fid in fids),
        )  # fmt: skip

    @property
    def run(self) -> str:
        """The run of the innermost axis that the current vector begins in."""
        size = self.column.divisor.format(self.inner) if self.divides(self.inner) else None
        return f"{self.column.name} / {size or f'Index({self.body.extents[self.inner]})'}"

    def of_piece(self, fids: Sequence[int]) -> tuple[Lines, dict[int, str]]:
        """The coordinates of the run ``piece``, and the load of what it has of each of the :attr:`pieces` ``fids``."""
        body, group = self.body, replace(self.column, name="piece", axes=self.column.axes[:-1])
        loads = {fid: f"r{fid}[{body.offset(fid, [group])}]" for fid in fids}
        return body.coordinates(group, body.needs_coordinates(fids, group)), loads

    def _placed(self, exprs: Sequence[Expr]) -> dict[Expr, int]:
        """The exprs that say whether an element of a vector is at a position, with that: found once for the vector."""
        if self.body.spec.vec == 1:
            return {}
        found = {expr: position_of(self.body, expr, self.inner) for expr in exprs}
        return {expr: position for expr, position in found.items() if position is not None}

    def start(self) -> Coordinates:
        """Coordinates of the first element of a vector of the row, in shifted vectors before it."""
        return self.body.within(self.row, self.column)

    def coordinate(self) -> Coordinates:
        """Coordinates of an element of the row."""
        if self.body.spec.is_shifted:
            return self.body.within(self.row, self._nearest)
        return self.body.along(self.row, self.column)

    @property
    def _nearest(self) -> Group:
        """The group of the columns, indexed by an element's own column."""
        return replace(self.column, name="at")

    def element(self, fid: int) -> str:
        """The element of tensor ``fid``, whose elements are not neighbours in memory."""
        if self.body.spec.is_shifted:
            return f"r{fid}[{self.body.offset(fid, [self._nearest])}]"
        return f"r{fid}[{self.body.strided_element(fid, [self.column])}]"

    def element_load(self, fid: int) -> str:
        return self.body.scalar_load(fid, self.held.get(fid) or self.element(fid))

    def still_load(self, fid: int) -> str:
        """The load of what is the same for all elements of a vector."""
        return self.body.scalar_load(fid, self.held.get(fid) or self.still(fid))

    def still(self, fid: int) -> str:
        """The element of tensor ``fid`` that is the same for all of the current vector."""
        return f"r{fid}[{self.body.offset(fid, [self.column])}]"

    def column_reads(self, targets: Sequence[int], known: Sequence[int]) -> list[int]:
        """The inputs that change along the row from which ``targets`` are computed, where ``known`` is."""
        return [fid for fid in self.body.reads(targets, known) if self.has_columns(fid)]

    def batches(
        self,
        indices: Sequence[int],
        *,
        keeps: bool = True,
        is_full: bool = False,
        is_long: bool = False,
        looks_up: bool = True,
    ) -> Batches:
        """How the reductions at ``indices`` take the vectors of rows. Where registers are full of a row, no vector is
        kept beside it. ``is_long`` and ``looks_up`` are as for :func:`batches`."""
        start, together = (self.body.along(self.row, self.column), "1") if is_full else (self.start(), "kVec")
        return batches(
            self.body, indices, self.inner, start, together=together, keeps=keeps, looks_up=keeps and looks_up,
            is_long=is_long,
        )  # fmt: skip

    def updates(self, gathered: Batches, is_first: str = "") -> Sweep:
        """What is accumulated in a row's vectors, elements beside the row left out."""
        sweep, singly = gathered.along_rows(), accumulate(self.body, gathered.singly, is_first=is_first)
        return replace(sweep, accumulate=self._if_inside((*singly.accumulate, *sweep.accumulate)))

    def _if_inside(self, lines: Lines) -> Lines:
        """``lines`` of one element, which are for those of the row alone."""
        return tuple(f"if (fb::is_inside(inside, k)) {line}" for line in lines) if self.body.spec.is_shifted else lines

    def inputs_looked_up(self) -> set[int]:
        """The inputs of which a walk over the whole row reads the only element that counts, wherever it is."""
        return self.looked_up_by(self.batches(reductions(self.body.task), is_full=True))

    def looked_up_by(self, gathered: Batches) -> set[int]:
        """The inputs of which the reductions ``gathered`` read the only element that counts."""
        return {fid for value, _ in gathered.only.values() for fid in self.column_reads([value], self.of_rows)}

    def only_elements(self, gathered: Batches, reader: str) -> Sweep:
        """Sums of which one element alone differs from zero: it is fetched before the row is walked and added after
        that, by the thread for which ``reader`` is true, or any, where the row has the position."""
        own = foldings(self.body, gathered.only)
        return join(*(self._only_element(folding, *gathered.only[folding.index], reader) for folding in own))

    def _only_element(self, folding: Folding, value: int, position: int, reader: str) -> Sweep:
        body, (total,) = self.body, folding.expr.outputs
        wanted, at = body.operand(position, DType.INT64), replace(self.column, name=f"at{total}")
        reads = self.column_reads([value], self.of_rows)
        exprs = [expr for expr in body.closure([value], self.of_rows) if self.is_column(expr.outputs[0])]
        coordinate = body.within(self.row, at)
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
                *(f"  {body.scalar_load(fid, f'q{total}_{fid}')}" for fid in reads),
                *(f"  {body.statement(expr, coordinate)}" for expr in exprs),
                f"  {folding.combined(folding.accumulator, body.operand(value, folding.dtypes[0]))}",
                "}",
            ),
        )  # fmt: skip

    def stores(self, outputs: Sequence[int]) -> Sweep:
        """Stores of ``outputs``, which change along the row."""
        shifted, flat = self.body.spec.is_shifted, self.body.domain.flat
        store = "fb::store_inside({}, o{}, inside);" if shifted else "fb::store({}, o{});"
        vectors = [fid for fid in outputs if (fid in flat if shifted else self.body.is_vector(fid))]
        address = {fid: self.address(fid) for fid in vectors}
        return self.stores_of(outputs, {fid: store.format(address[fid], fid) for fid in vectors})

    def stores_of(self, outputs: Sequence[int], vectors: Mapping[int, str]) -> Sweep:
        """Stores of ``outputs``, one element after another but for those that have a store of ``vectors``."""
        value = {fid: self.body.own_operand(fid) for fid in outputs}
        single = tuple(f"{self.element(fid)} = {value[fid]};" for fid in outputs if fid not in vectors)
        return Sweep(
            vector=tuple(f"fb::Vec<{self.body.c_type(fid)}, kVec> o{fid};" for fid in vectors),
            element=(*(f"o{fid}[k] = {value[fid]};" for fid in vectors), *self._if_inside(single)),
            stores=tuple(vectors.values()),
        )

    def results(self, outputs: Sequence[int]) -> Lines:
        """Stores of ``outputs``, which hold one element a row."""
        place = {fid: f"T{fid}[{self.body.offset(fid, [self.row])}]" for fid in outputs}
        return tuple(f"{place[fid]} = {self.body.own_operand(fid)};" for fid in outputs)

    def side_by_side(self, outputs: Iterable[int]) -> list[int]:
        """Those of ``outputs`` that have the elements of neighbouring rows side by side."""
        return [fid for fid in outputs if self.body.offset(fid, [self.row]) == self.row.name]

    def result_stores(self, outputs: Sequence[int], threads: RowThreads, store: str = STORE_ROWS) -> Sweep:
        """Stores of ``outputs``, which hold one element a row. Where rows share a block, what has the elements of
        neighbouring rows side by side is stored by the block's first threads, all rows of a block at once: by the call
        whose format is ``store``."""
        joint = self.side_by_side(outputs) if threads.rows > 1 else []
        results = (f"fb::row_result(T{fid}, {self.body.own_operand(fid)})" for fid in joint)
        call = f"{store.format(', '.join(['rows', *results]))};"
        stores = self.results([fid for fid in outputs if fid not in joint])
        return Sweep(stores=stores, joint_stores=(call,) if joint else ())


def rows_of(spec: KernelSpec, targets: Sequence[int]) -> Rows:
    """The rows of a kernel that computes ``targets``."""
    kept, reduced = spec.domain.kept, spec.domain.reduced
    flat = "row * columns + col" if kept else "col"
    body = Body(spec, interleaved=bool(kept) and max(kept) > min(reduced), flat=flat)
    return Rows(
        body=body,
        row=Group(name="row", axes=kept, index="int64_t"),
        column=Group(name="col", axes=reduced),
        reads=body.reads(targets),
        exprs=body.closure(targets),
    )


def reduced_rows(spec: KernelSpec) -> Rows:
    """The rows of a kernel that computes the results of all reductions, and the outputs."""
    return rows_of(spec, [*folded(spec.task, reductions(spec.task)), *spec.task.outputs])


def crossing_rows(spec: KernelSpec) -> Rows:
    """The same where vectors hold neighbouring elements of the row, whatever axes it has."""
    rows = reduced_rows(spec)
    if len(rows.column.axes) == 1:
        return rows
    return replace(rows, column=replace(rows.column, divisor="size{}"), cross=True)


def rows_by_pieces(spec: KernelSpec) -> Rows:
    """The same where what does not change along the innermost axis is loaded once for each run of that."""
    return replace(crossing_rows(spec), by_pieces=True)


def _is_placed(body: Body, expr: Expr) -> str:
    (fid,) = expr.outputs
    return f"const bool t{fid} = h{fid} == k;{body.comment(body.value(fid), expr)}"


def reduction_in_block(threads: RowThreads, arguments: str) -> str:
    """The call that combines the ``arguments`` over the threads of a row; where those meet at barriers, a phase saves
    one of two."""
    phase = "" if threads.in_one_warp else "phase, "
    return f"fb::reduce_row<kThreadsPerRow, kRowsPerBlock>({phase}{arguments});"


def reduction_in_threads(arguments: str) -> str:
    """The call that combines the ``arguments`` over as many threads of a warp as have a row at run time."""
    return f"fb::reduce_threads(threads, {arguments});"


def reduction_in_cluster(arguments: str) -> str:
    """The call that combines the ``arguments`` over the threads of a row that the blocks of a cluster share."""
    return f"fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, {arguments});"
