"""The view of inner_tiled, whose blocks keep whole rows in shared memory: fusebuild.kernels.persistent.tiled says why.

``tile0`` is where the block keeps its rows of tensor 0, ``r0`` the row of a thread there; ``columns1`` is what changes
along columns alone, ``groups3`` what groups of rows share, ``r1`` and ``r3`` those as the thread sees them; ``rows4``
has what is one element a row. Reduced-precision inputs that are only ever computed with as
floats are **widened** where a thread, or for columns the block, reads them first: each conversion is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, replace

from fusebuild.artifact.plan import FormulaArg, as_formula
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import product, simplified
from fusebuild.kernels.common.dynamic_shared import SharedArray, arrays_of, widest_first
from fusebuild.kernels.common.lambdas import foldings
from fusebuild.kernels.common.rows_view import Rows, crossing_rows, reduction_in_threads
from fusebuild.kernels.common.spec import KernelSpec, VectorLayout, reductions
from fusebuild.kernels.common.view import (
    KernelView,
    Lines,
    Sweep,
    is_named,
    join,
    lines_named,
    make_view,
    statements_in,
)
from fusebuild.kernels.persistent.alone_view import rows_alone
from fusebuild.kernels.persistent.runs_view import rows_in_runs
from fusebuild.kernels.persistent.tiled import TiledHeuristics
from fusebuild.kernels.persistent.tiles_view import Tiles
from fusebuild.kernels.persistent.view import Kept, row_levels
from fusebuild.ops.table import Kind, op_of


def inner_tiled(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, TiledHeuristics)
    rows = rows_in_runs(spec)
    looked_up = rows.inputs_looked_up()
    rows = replace(rows, widened=widened(rows, looked_up), row=replace(rows.row, divisor="size{}"))
    tiles, kept = _Tiles(rows, heuristics, looked_up), Kept(rows.body, heuristics.kept)
    setup, bases = rows.setup(spec.task.outputs, tiles.on_chip, tiles.elements())
    sweeps, runs = tuple(tiles.sweeps(kept)), rows.run_loads()
    divisors = lines_named(rows.divisors, statements_in((sweeps, runs)))
    return make_view(
        rows.body, rows.exprs,
        scalars=rows.body.scalar_statements(rows.exprs),
        setup=setup, bases=(*bases, *tiles.rows(), *runs), sweeps=sweeps,
        epilogue=Sweep(
            stores=tiles.results(),
            arrays=(*tiles.arrays(), *kept.arrays()),
            coordinates=(*tiles.groups(), *tiles.declarations()),
            row=(*divisors, *rows.run_pieces(), *near_divisors(rows, setup)),
        ),
        next_rows=Sweep(
            coordinates=tiles.copies_beside(), loads=tiles.copies(), merged=tiles.columns(),
            stores=tiles.stores(), results=tiles.stores_beside(),
        ),
        ahead=Sweep(loads=tiles.held(), row=_lengths(rows, sweeps)),
        extents=rows.extents,
        untiled=untiled(spec, heuristics), alone=rows_alone(spec, heuristics),
    )  # fmt: skip


def _lengths(rows: Rows, sweeps: Iterable[Sweep]) -> Lines:
    """The parameters that ``sweeps`` name which are how many elements a row has, for where that is a constant."""
    length = simplified(product([rows.body.domain.axes[axis].extent for axis in rows.column.axes]))
    statements = [*statements_in(tuple(sweeps))]
    return tuple(
        f"constexpr {each.declaration} = kMost;  // {each.comment}"
        for each in rows.body.spec.parameters
        if isinstance(each.arg, FormulaArg) and as_formula(each.arg.formula) == length
        and is_named(each.name, statements)
    )  # fmt: skip


def near_divisors(rows: Rows, setup: Lines) -> Lines:
    """What ``setup`` divides the numbers of a tile's rows by to find their coordinates."""
    lines, first = list[str](), "top"
    for axis in reversed(rows.row.axes[1:]):
        size = rows.body.extents[axis]
        if not isinstance(rows.body.domain.axes[axis].extent, int):
            size = rows.row.divisor.format(axis)
            lines.append(f"const fb::NearDivisor {size}({first}, {rows.body.extents[axis]});")
        first = f"{first} / {size}"
    named = [line for line in lines if is_named(line.split("(")[0].split()[-1], setup)]
    return tuple(lines[: lines.index(named[-1]) + 1]) if named else ()


@dataclass(frozen=True, slots=True, kw_only=True)
class UntiledRows:
    """What a thread does with its elements of a row that it takes from global memory. It divides so little that
    ``divisors`` shall be made in few instructions."""

    divisors: Lines
    setup: Lines
    bases: Lines
    arrays: Lines
    coordinates: Lines
    loads: Lines
    sweeps: tuple[Sweep, ...]
    results: Lines


def quick_divisors(rows: Rows, *parts: object) -> Lines:
    """The sizes of axes that ``parts`` divide the numbers of an untiled row and its elements by to find coordinates:
    rows are so few that 32 bits have those."""
    statements = [line for part in parts for line in statements_in(part)]
    sizes = {f"size{axis}": rows.body.extents[axis] for axis in (*rows.row.axes[1:], *rows.column.axes[1:])}
    named = (name for name in sizes if is_named(name, statements))
    return tuple(f"const fb::QuickDivisor {name}({sizes[name]});" for name in named)


def untiled(spec: KernelSpec, heuristics: TiledHeuristics) -> UntiledRows:
    rows = crossing_rows(replace(spec, vec=1, vectors=VectorLayout.ALIGNED))
    rows = replace(rows, row=replace(rows.row, divisor="size{}"))
    body, kept, column = rows.body, Kept(rows.body, heuristics.kept), rows.column
    setup, bases = rows.setup(spec.task.outputs)
    ahead = (*heuristics.loaded, *heuristics.singly)
    loads = (
        *(f"c{fid}[c] = {rows.from_memory(fid, packed=True)};" for fid in heuristics.loaded),
        *(f"e{fid}[c] = {rows.element(fid)};" for fid in heuristics.singly),
    )
    rows = replace(rows, held={fid: f"e{fid}[c]" for fid in heuristics.singly})

    def held(fid: int) -> Lines:
        return (rows.vector(fid, f"fb::unpack(c{fid}[c])"),) if fid in heuristics.loaded else rows.global_load(fid)

    overwritten = frozenset(output.alias for output in spec.task.fusion.outputs if output.alias is not None)
    sweeps = row_levels(
        rows, kept, held, reduction_in_threads, is_full=True, reader="active && lane == 0", overwritten=overwritten
    )
    if rows.wide:
        sweeps.append(join(kept.around(rows, rows.wide, held), rows.stores(rows.wide)))
    coordinates = body.coordinates(column, body.needs_coordinates(ahead, column))
    walks = tuple(sweep.without_idle_coordinates() for sweep in sweeps)
    return UntiledRows(
        divisors=quick_divisors(rows, setup, coordinates, walks),
        setup=setup,
        bases=bases,
        arrays=(*(f"fb::Packed<{body.c_type(fid)}, kVec> c{fid}[kChunks];" for fid in heuristics.loaded),
                *(f"{body.c_type(fid)} e{fid}[kChunks];" for fid in heuristics.singly), *kept.arrays()),
        coordinates=coordinates,
        loads=loads,
        sweeps=walks,
        results=rows.results(rows.narrow),
    )  # fmt: skip


def widened(rows: Rows, looked_up: Set[int]) -> frozenset[int]:
    """The inputs of the columns that threads read by vectors or by pieces alone, none of which are ``looked_up``, and
    take as floats alone."""
    narrow = [fid for fid in rows.reads if rows.body.value(fid).dtype.is_reduced_precision and fid not in looked_up]
    along = [fid for fid in narrow if (rows.has_columns(fid) and rows.body.is_vector(fid)) or fid in rows.pieces]
    return frozenset(fid for fid in along if _taken_as(rows, fid) == {DType.FLOAT})


def _taken_as(rows: Rows, fid: int) -> set[DType]:
    """The dtypes as which exprs take input ``fid``, or as which it leaves."""
    body, combining = rows.body, foldings(rows.body, reductions(rows.body.task))
    reading = [expr for expr in rows.exprs if fid in body.roots([expr], ()) and op_of(expr).kind is not Kind.REDUCTION]
    taken = [
        *(each for folding in combining for each in folding.taken),
        *(each for expr in reading for each in body.taken(expr)),
        *((output, body.value(output).dtype) for output in body.task.outputs),
    ]
    return {dtype for operand, dtype in taken if body.root(operand) == fid}


class _Tiles(Tiles):
    """What a block has in shared memory, and how its threads' sweeps read and write it."""

    def __init__(self, rows: Rows, heuristics: TiledHeuristics, looked_up: Set[int]) -> None:
        super().__init__(rows, heuristics.in_place)
        self.heuristics = heuristics
        self._resident = tuple(fid for fid in heuristics.resident if fid in rows.reads and fid not in looked_up)
        self._of_groups = tuple(fid for fid in heuristics.of_groups if fid in rows.reads and fid not in looked_up)

        self._of_rows = tuple(fid for fid in heuristics.of_rows if fid in (*rows.reads, *rows.body.task.outputs))

    @property
    def on_chip(self) -> tuple[int, ...]:
        return (*self.flat, *self._of_groups, *self._resident)

    def groups(self) -> Lines:
        """Which groups the rows of the tile are of, and where what these share begins in memory."""
        if not self._of_groups:
            return ()
        kept, outer = self._body.domain.kept, self.heuristics.outer
        return (
            f"const int64_t group_rows = {self._body.size(kept[outer:])};",
            "const fb::QuickDivisor group_size(group_rows);",
            "const int64_t first_group = top / group_rows;",
            "const int into_group = int(top - first_group * group_rows);  // rows of it before the tile's",
            "const int groups = (into_group + depth - 1) / group_size + 1;",
            "const int64_t group_origin = first_group * columns;",
            f"const int64_t group_total = {self._body.size(kept[:outer])} * columns;",
            "const Index group_begin = fb::shift_of<kCopied>(group_origin);",
            "const Index group_end = group_begin + groups * columns;",
            "const Index group_places = (Index(tile_groups) * columns / kCopied + 2) * kCopied;",
        )

    def declarations(self) -> Lines:
        """Where tiles and columns begin, one after the other: the widest come first, so that each is aligned."""
        columns = [
            SharedArray(name=f"columns{fid}", elements="columns + columns % 2", dtype=self._rows.dtype_of(fid))
            for fid in self._resident
        ]
        groups = arrays_of(self._body, self._of_groups, "groups", "group_places")
        of_rows = arrays_of(self._body, self._of_rows, "rows", "tile_rows")
        vectors = widest_first((*self.tiles("places"), *groups))
        return self.declared((*vectors, *widest_first((*columns, *of_rows))))

    def copies(self) -> Lines:
        """Calls that bring in a stage of the tile."""
        return tuple(
            f"fb::copy_flat<kCopied, kThreads>(tile{fid}, T{fid} + (origin - begin), to, total - (origin - begin), "
            "from);"
            for fid in self._inputs
        )

    def copies_beside(self) -> Lines:
        """Calls that bring in, with the first stage, what rows have beside the tile."""
        groups = (
            f"fb::copy_flat<kCopied, kThreads>(groups{fid}, T{fid} + (group_origin - group_begin), group_end, "
            "group_total - (group_origin - group_begin));"
            for fid in self._of_groups
        )
        read = [fid for fid in self._of_rows if fid not in self._body.task.outputs]
        of_rows = (f"fb::copy_flat<1, kThreads>(rows{fid}, T{fid} + top, depth, depth);" for fid in read)
        return (*groups, *of_rows)

    def columns(self) -> Lines:
        """Calls that bring in what changes along columns alone, while all else is on its way: threads wait for that."""
        return tuple(f"fb::copy_columns<kThreads>(columns{fid}, T{fid}, columns);" for fid in self._resident)

    def stores(self) -> Lines:
        """Calls that take out what the block has computed of a stage."""
        return tuple(
            f"fb::store_flat<kCopied, kThreads>(T{fid} + (origin - begin), tile{fid}, begin + from * columns, "
            "begin + to * columns);"
            for fid in self._outputs
        )

    def stores_beside(self) -> Lines:
        """Calls that take out what is one element for each row of the tile."""
        written = [fid for fid in self._of_rows if fid in self._body.task.outputs]
        return tuple(f"fb::store_flat<1, kThreads>(T{fid} + top, rows{fid}, 0, depth);" for fid in written)

    def elements(self) -> dict[int, str]:
        """Where the row's element is of what has one."""
        return {fid: f"rows{fid}[row - top]" for fid in self._of_rows}

    def results(self) -> Lines:
        """Where a thread leaves what is one element a row."""
        narrow, place = self._rows.narrow, self.elements()
        here = (f"{place[fid]} = {self._body.own_operand(fid)};" for fid in narrow if fid in place)
        return (*here, *self._rows.results([fid for fid in narrow if fid not in place]))

    def rows(self) -> Lines:
        """Where a thread's row is in each tile."""
        columns = (f"const {self._rows.c_type(fid)}* r{fid} = columns{fid};" for fid in self._resident)
        place = "const Index group_place = group_begin + (Index(row - top) + into_group) / group_size * columns;"
        groups = (f"const {self._body.c_type(fid)}* r{fid} = groups{fid} + group_place;" for fid in self._of_groups)
        return (*self.row_bases("place"), *((place,) if self._of_groups else ()), *groups, *columns)

    def _has_pairs(self, fid: int) -> bool:
        """Whether a thread's run of a resident input begins where two floats lie aligned."""
        is_resident = fid in self._resident and self.heuristics.per_word > 1
        return is_resident and self._rows.dtype_of(fid) is DType.FLOAT

    def arrays(self) -> Lines:
        """What a thread holds of its row."""
        return tuple(f"fb::Vec<{self._rows.c_type(fid)}, kVec> c{fid}[kChunks];" for fid in self.heuristics.cached)

    def held(self) -> Lines:
        """What takes that from the tile, all of it before the first is needed."""
        return tuple(f"c{fid}[c] = {self._held(fid)};" for fid in self.heuristics.cached)

    def _held(self, fid: int) -> str:
        load = "load_to_widen" if fid in self._rows.widened else "load_present"
        return self._present(fid, load)

    def loader(self) -> Callable[[int], Lines]:
        """The lines that put the current elements of an input into ``v<fid>``: what a thread holds is widened by the
        first sweep that needs it."""
        wide = set[int]()

        def lines(fid: int) -> Lines:
            if fid not in self.heuristics.cached:
                return (self._rows.vector(fid, self._present(fid, "load_present")),)
            is_narrow = fid in self._rows.widened and fid not in wide
            wide.add(fid)
            widen = (f"fb::widen<{self._body.c_type(fid)}>(c{fid}[c]);",) if is_narrow else ()
            return (*widen, self._rows.vector(fid, f"c{fid}[c]"))

        return lines

    def _present(self, fid: int, load: str) -> str:
        """The current elements of an input in shared memory, as threads take them with ``load``."""
        if self._has_pairs(fid):
            return f"fb::load_pairs<kVec>(r{fid} + {self._column(fid)}, present)"
        return f"fb::{load}<{self._rows.c_type(fid)}, kVec>(r{fid} + {self._column(fid)}, present)"

    def _column(self, fid: int) -> str:
        return "col" if fid in self.on_chip else self._body.offset(fid, [self._rows.column])

    def sweeps(self, kept: Kept) -> list[Sweep]:
        """One for each level of reductions, and one for the outputs that change along the row."""
        store = "fb::store_present(r{0} + col, o{0}, present);"
        return self.walks(kept, self.loader(), reduction_in_threads, store, reader="lane == 0")
