"""What a thread of inner_tiled does with rows of one element: fusebuild.kernels.persistent.alone says why.

``c0`` are the elements of tensor 0 that the thread's rows have, ``p0`` the words that they come in where they lie side
by side; ``e2`` those of one that does not lie along rows, and ``q1`` those of one that does not change along them;
``w7`` are the thread's results of tensor 7. ``u`` is the number of the row among the thread's.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from fusebuild.ir.formula import symbols
from fusebuild.kernels.common.rows_view import Rows, reduced_rows
from fusebuild.kernels.common.spec import KernelSpec, VectorLayout, known_parameters
from fusebuild.kernels.common.view import Lines, Sweep, is_named, join, lines_named
from fusebuild.kernels.persistent.tiled import TiledHeuristics
from fusebuild.kernels.persistent.view import Kept, row_levels

STEPPING = "at[{}]"
"""Where the coordinates of the row are, a format of the position among the axes of rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsAlone:
    """``known`` are sizes that are 1, and a thread's rows so far ``from_row_to_row``. ``vectors`` are the tensors that
    have their elements side by side: they are loaded ``ahead`` and taken ``apart``, or the ``results`` stored.
    ``first`` is where the thread's first row is, and ``again`` that once more for the second walk over its rows, where
    each needs it; ``loads`` and ``body`` are what is done with a row before any is computed, and then."""

    known: Lines
    from_row_to_row: str
    vectors: Lines
    ahead: Lines
    arrays: Lines
    first: Lines
    loads: Lines
    apart: Lines
    again: Lines
    body: Lines
    results: Lines


def rows_alone(spec: KernelSpec, heuristics: TiledHeuristics) -> RowsAlone | None:
    """None where no kernel has such rows."""
    if not heuristics.alone:
        return None
    rows = reduced_rows(replace(spec, vec=1, vectors=VectorLayout.ALIGNED))
    rows = replace(rows, row=replace(rows.row, found=STEPPING))
    body, task = rows.body, spec.task
    flat = {*body.domain.flat}
    beside = flat if {*body.domain.accesses} <= {*flat, *heuristics.resident} else {*()}
    step = "1" if beside else "kThreads"
    of_rows = [fid for fid in rows.reads if not rows.has_columns(fid) and body.domain.accesses[fid].axes]
    inputs = [fid for fid in heuristics.loaded if fid in beside]
    outputs = [fid for fid in task.outputs if fid in beside]
    setup, bases = rows.setup(task.outputs, of_rows={fid: f"q{fid}[u]" for fid in of_rows})
    coordinates = body.coordinates(rows.row, rows.row.axes)
    setup = tuple(line for line in setup if line not in coordinates)
    columns = body.coordinates(rows.column, rows.column.axes)
    along = [fid for fid in heuristics.loaded if fid not in inputs]
    own = (
        *(f"c{fid}[u] = {rows.from_memory(fid)}[0];" for fid in along),
        *(f"e{fid}[u] = {rows.element(fid)};" for fid in heuristics.singly),
        *(f"q{fid}[u] = {body.element(fid, [rows.row])};" for fid in of_rows),
    )
    rows = replace(rows, held={fid: f"e{fid}[u]" for fid in heuristics.singly})
    computed = (*setup, *_computed(rows, heuristics, outputs), *rows.results(rows.narrow))
    places = ("const int64_t row = top + u * kStep;", *coordinates, *bases, *columns)
    loads = (*lines_named(places, own), *own)
    computed = (*lines_named(places, computed), *computed)
    sizes = ", ".join(["top", *(body.extents[axis] for axis in rows.row.axes[1:])])
    stepping = f"fb::SteppingRow<kStep, {len(rows.row.axes) - 1}>"
    first, again = (is_named("at", lines) for lines in (loads, computed))
    return RowsAlone(
        known=_known(rows, (*loads, *computed)),
        from_row_to_row=step,
        vectors=tuple(f"T{fid}" for fid in (*inputs, *outputs)),
        ahead=tuple(f"const auto p{fid} = fb::load_packed<kRows>(T{fid} + top);" for fid in inputs),
        arrays=(
            *(f"{body.c_type(fid)} c{fid}[kRows];" for fid in along),
            *(f"{body.c_type(fid)} e{fid}[kRows];" for fid in heuristics.singly),
            *(f"{body.c_type(fid)} q{fid}[kRows];" for fid in of_rows),
        ),
        first=(f"{stepping} at({sizes});",) if first else (),
        loads=(*loads, *(("at.step();",) if first else ())) if own else (),
        apart=(
            *(f"const auto c{fid} = fb::unpack(p{fid});" for fid in inputs),
            *(f"fb::Vec<{body.c_type(fid)}, kRows> w{fid};" for fid in outputs),
        ),
        again=(f"{stepping} at({sizes});",) if again else (),
        body=(*computed, *(("at.step();",) if again else ())),
        results=tuple(f"fb::store(T{fid} + top, w{fid});" for fid in outputs),
    )


def _computed(rows: Rows, heuristics: TiledHeuristics, beside: Collection[int]) -> Lines:
    """What a thread computes of a row, and what it stores along it: outputs that lie ``beside`` each other go to its
    results."""
    kept = Kept(rows.body, heuristics.kept, vectors="", place="k{}[k]")

    def loads(fid: int) -> Lines:
        if fid not in heuristics.loaded:
            return rows.global_load(fid)
        return (rows.vector(fid, f"fb::splat<kVec>(c{fid}[u])"),)

    sweeps = row_levels(rows, kept, loads, lambda arguments: "", is_full=True, reader="true")
    if rows.wide:
        vectors = {fid: f"w{fid}[u] = o{fid}[k];" for fid in rows.wide if fid in beside}
        sweeps.append(join(kept.around(rows, rows.wide, loads), rows.stores_of(rows.wide, vectors)))
    return (*kept.arrays(), *(line for sweep in sweeps for line in _lines(sweep)))


def _lines(sweep: Sweep) -> Lines:
    """The lines of a ``sweep`` over one element."""
    element = ("{", "  constexpr int k = 0;", *(f"  {line}" for line in _inner(sweep)), "}")
    return (*sweep.accumulators, *(element if sweep.element or sweep.accumulate else ()), *sweep.merged, *sweep.results)


def _inner(sweep: Sweep) -> Lines:
    return (*sweep.loads, *sweep.vector, *sweep.element, *sweep.accumulate, *sweep.stores)


def _known(rows: Rows, lines: Lines) -> Lines:
    """What ``lines`` name that is known where a row has one element."""
    spec = rows.body.spec
    extents = [rows.body.domain.axes[axis].extent for axis in rows.column.axes]
    sizes = {symbol: 1 for extent in extents if isinstance(extent, str) for symbol in symbols(extent)}
    known = (each for each in known_parameters(spec.parameters, sizes) if each.value is not None)
    named = (each for each in known if is_named(each.name, lines))
    return tuple(each.constant for each in named)
