"""The view of inner_outer_persistent, whose blocks walk rows and accumulate down their columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from fusebuild.kernels.common.batches import Batches
from fusebuild.kernels.common.dynamic_shared import array_in_place, arrays_in_shared, arrays_of, places_in_shared
from fusebuild.kernels.common.finish import FinishGroup
from fusebuild.kernels.common.finish_view import known_after, outputs_of
from fusebuild.kernels.common.lambdas import Folding, combined, folded, foldings
from fusebuild.kernels.common.rows import by_level
from fusebuild.kernels.common.rows_view import Rows, reduction_in_block
from fusebuild.kernels.common.spec import KernelSpec, VectorLayout
from fusebuild.kernels.common.statements import Body, Group, literal_text
from fusebuild.kernels.common.steady import steady_of
from fusebuild.kernels.common.view import KernelView, Lifetime, Lines, Sweep, accumulators, join, make_view
from fusebuild.kernels.inner_outer.axes import InnerOuterParts, inner_outer_parts
from fusebuild.kernels.inner_outer.shape import InnerOuterHeuristics


@dataclass(frozen=True, slots=True, kw_only=True)
class _Held:
    """Where a thread holds rows: the arrays of what they have one element of each begin with ``letter``, their vectors
    are in its places of a ``stage``."""

    letter: str
    stage: str

    @property
    def staged(self) -> str:
        """Where a vector is among the places of its thread."""
        return f"{self.stage} * kPlaces + (u * kChunks + c) * kThreads"


AT_HAND = _Held(letter="c", stage="stage")
AHEAD = _Held(letter="q", stage="next_stage")


@dataclass(frozen=True, slots=True, kw_only=True)
class _RowNumbers:
    """What a thread keeps of inputs that have one element a row: formats of fid, and of what is read or its offset."""

    comment: str
    arrays: str
    element: str
    load: str
    handed_over: Lines


NEXT_NUMBERS = _RowNumbers(
    comment="// c holds the rows at hand; q the next ones, zeros where there never were any.",
    arrays="c{0}[kRows], q{0}[kRows]{{}}",
    element="T{0}[{1}]",
    load="q{0}[u] = {1};",
    handed_over=("c{0}[u] = q{0}[u];",),
)
NUMBERS_AHEAD = _RowNumbers(
    comment="// c holds the rows at hand, q the next ones, y those after them; zeros where there never were any.",
    arrays="c{0}[kRows]{{}}, q{0}[kRows]{{}}, y{0}[kRows]{{}}",
    element="fb::load_ahead(T{0} + {1})",
    load="y{0}[u] = {1};",
    handed_over=("c{0}[u] = q{0}[u];", "q{0}[u] = fb::uniform(y{0}[u]);"),
)
READABLE = "const Index readable = fb::readable_of<kVec>(columns, size - next * columns);  // from its first element"
OF_BLOCK, OF_OUTER = 0, 1
"""How long a thread keeps what it holds for its columns: as long as its block lives, or as one outer index."""


def inner_outer_persistent(spec: KernelSpec) -> KernelView:
    walk = _Walk(spec)
    rows, body = walk.rows, walk.rows.body
    return make_view(
        body, rows.exprs,
        setup=walk.own_columns(), bases=walk.shared_arrays(), sweeps=walk.sweeps(),
        lifetimes=(walk.lifetime(OF_BLOCK), walk.lifetime(OF_OUTER)), next_rows=walk.next_rows(),
        epilogue=walk.brought_out(),
        extents={
            "columns": body.size(walk.parts.columns),
            "depth": body.size(walk.parts.depth),
            "outers": body.size(walk.parts.outer),
            "rows": body.size(walk.parts.rows),
        },
    )  # fmt: skip


class _Walk:
    """One kernel's walk over rows."""

    def __init__(self, spec: KernelSpec) -> None:
        assert isinstance(spec.heuristics, InnerOuterHeuristics)
        self.heuristics = spec.heuristics
        parts = inner_outer_parts(spec.task, spec.domain)
        self.parts = parts
        self.outputs = parts.written_by_rows(spec.task)
        body = Body(spec)
        targets = [*folded(spec.task, parts.along), *combined(body, parts.accumulated), *self.outputs]
        reads = body.reads(targets)
        self._scalars = tuple(fid for fid in reads if self.heuristics.fetched and _is_row(body, fid, parts))
        self.rows = Rows(
            body=body,
            row=Group(name="row", axes=parts.rows, index="int64_t"),
            column=Group(name="col", axes=parts.columns),
            reads=reads,
            exprs=body.closure(targets),
        )
        self._of_rows = self.rows.of_rows
        self._row_reads = [fid for fid in reads if not self.rows.has_columns(fid)]
        # What stays for all rows is read again for each outer index where other values need one: a block has few, and
        # between them threads would keep what those values are made of.
        stays = (*self.heuristics.resident, *self.heuristics.packed)
        axes = {axis for fid in stays for axis in spec.domain.accesses[fid].axes}
        self._lifetime = OF_BLOCK if axes.isdisjoint(parts.outer) else OF_OUTER
        lifetimes = dict.fromkeys(self.heuristics.resident, self._lifetime)
        self._steady = steady_of(body, self.rows.exprs, lifetimes, [*combined(body, parts.accumulated), *self.outputs])
        self._ready = [*self._of_rows, *self._steady.kept]
        self._is_aligned = spec.vectors is VectorLayout.ALIGNED
        self._is_striped = spec.vectors is VectorLayout.ANYWHERE
        self._is_shifted = spec.is_shifted

    @property
    def _in_registers(self) -> bool:
        return self.heuristics.storage == "registers"

    def sweeps(self) -> tuple[Sweep, ...]:
        """One walk over the rows at hand for each level of reductions along them, then one for what needs them all."""
        body, rows = self.rows.body, self.rows
        wide = [fid for fid in self.outputs if rows.has_columns(fid)]
        narrow = [fid for fid in self.outputs if fid not in wide]
        all_along, all_down = (by_level(body.task, own) for own in (self.parts.along, self.parts.accumulated))
        last = max(all_along, default=0)
        sweeps = []
        for at in range(last + 1):
            along, down = all_along.get(at + 1, []), all_down.get(at + 1, [])
            stored = wide if at == last else []
            held = AHEAD if self.heuristics.in_cluster and at < last else AT_HAND
            gathered = rows.batches(along, keeps=False)
            targets = list(dict.fromkeys([*gathered.targets(), *combined(body, down), *stored]))
            if not (targets or narrow):
                continue
            sweep = join(
                self._summed(all_along.get(at, [])),
                self._row(targets, narrow if at == last else [], held),
                Sweep(element=self._steady.taken(body, targets)),
                rows.sweep(targets, self._ready, partial(self._loads, held)),
                self._along(gathered),
                self._down(down),
                self._stores(stored),
                Sweep(results=rows.results(narrow if at == last else [])),
            )
            sweeps.append(sweep.without_idle_coordinates())
        return tuple(sweeps)

    def _stores(self, fids: Sequence[int]) -> Sweep:
        """Stores of the outputs ``fids``, which change along the row."""
        if self._is_striped:
            return self.rows.stores_of(fids, {fid: f"fb::store_striped<kApart>(s{fid} + place + c * kStep, o{fid});"
                                              for fid in fids})  # fmt: skip
        return replace(self.rows, column=self._column(fids)).stores(fids)

    def _column(self, fids: Iterable[int]) -> Group:
        """The columns by the name that they have in addresses of the tensors ``fids``. A thread's own are added one
        after another there, so that what tells its vectors apart is a constant of the instruction: nvcc takes none out
        of a sum of 32 bits."""
        body, column = self.rows.body, self.rows.column
        is_asked = self.heuristics.in_cluster and not self._is_striped
        if not is_asked or any(body.needs_coordinates([fid], column) for fid in fids):
            return column
        return replace(column, name="start + c * kStep")

    def own_columns(self) -> Lines:
        """What :meth:`_column` names, or which columns are the block's, and the thread's."""
        if self._is_striped:
            return self._striped_columns()
        if not self.heuristics.in_cluster:
            return ()
        return (
            f"const Index start = lane * kVec{' - shift' if self._is_shifted else ''};  // the thread's first column",
            "constexpr int kStep = kThreadsPerRow * kVec;  // from there to its next vector",
        )

    def _striped_columns(self) -> Lines:
        """Which columns are those of the block, all or an even part of them, and the thread's, where they lie apart."""
        mine = f"const Index start = own + {self._lane}, mine = held - {self._lane};"
        if not self.heuristics.in_cluster:
            return ("const Index own = 0, held = columns;  // of the row", mine)
        return (
            "constexpr int kEven = kCluster * kCopied;",
            "const Index each = (columns + (kEven - 1)) / kEven * kCopied;  // columns of a block",
            "const Index own = fb::cluster_rank<kCluster>() * each;  // the block's first column",
            "const Index held = fb::smaller(each, columns - own);  // so many are there, if any",
            mine,
        )

    @property
    def _lane(self) -> str:
        """The number of a thread among those of its block that share a row."""
        return "thread" if self.heuristics.in_cluster else "lane"

    def _summed(self, along: Sequence[int]) -> Sweep:
        """What comes before the sweep after the reductions ``along``, where those were begun a turn before."""
        if not (self.heuristics.in_cluster and along):
            return Sweep()
        body = self.rows.body
        return Sweep(
            accumulators=(
                *(folding.column_declaration("kRows") for folding in foldings(body, along)),
                f"fb::finish_reduce_row<kThreads, kCluster>(phase, {accumulators(body, along)});",
            )
        )

    def _row(self, targets: Sequence[int], narrow: Sequence[int], held: _Held) -> Sweep:
        """What a sweep needs to know of a row before it walks its columns: elements of the row, results of reductions
        along it, where its columns are."""
        body, rows = self.rows.body, self.rows
        columns = [expr for expr in body.closure(targets, self._ready) if rows.is_column(expr.outputs[0])]
        read = body.roots(columns, targets)
        needed = [*sorted(read & {body.root(fid) for fid in (*self._of_rows, *self._row_reads)}), *narrow]
        results = folded(body.task, self.parts.along)
        exprs, _ = body.split(body.closure(needed, results), self.parts.columns)
        loads = [fid for fid in body.reads(needed, results) if not rows.has_columns(fid)]
        vectors = [fid for fid in body.reads(targets, self._ready) if rows.has_columns(fid)]
        based = [fid for fid in (*vectors, *targets) if self._has_base(fid)]
        known = body.roots(exprs, needed)
        totals = [folding for folding in foldings(body, self.parts.along) if known.intersection(folding.expr.outputs)]
        coordinates = body.needs_coordinates([*loads, *based, *narrow], rows.row)
        coordinates |= body.coordinate_axes((*exprs, *columns)) & {*rows.row.axes}
        return Sweep(
            row=(
                *body.coordinates(rows.row, coordinates),
                *(self._row_load(fid, held) for fid in loads),
                *(line for folding in totals for line in folding.results(f"{folding.accumulator}[u]")),
                *(body.statement(expr, body.within(rows.row)) for expr in exprs),
                *(rows.base(fid, self.outputs) for fid in dict.fromkeys(based)),
                *self._place([*vectors, *(fid for fid in targets if fid in self.outputs)], held),
            )
        )

    def _place(self, touched: Iterable[int], held: _Held) -> Lines:
        """The line that says where the thread's first column is of a row that begins anywhere, for a sweep over tensors
        ``touched``."""
        on_chip = {*self.heuristics.fetched, *self.outputs}
        if not self._is_striped or on_chip.isdisjoint(touched):
            return ()
        shift = "fb::shift_of<kCopied>(row * columns)"
        return (f"const int place = {self._row_places(held)} + {shift} + {self._lane};",)

    def _row_places(self, held: _Held) -> str:
        """Where the places of a row begin in its stage."""
        beside = " * kRowsPerBlock + fb::thread_y()" if self.heuristics.threads.rows > 1 else ""
        return f"{held.stage} * kPlaces + ({f'u{beside}'}) * kWidth"

    def _has_base(self, fid: int) -> bool:
        """True for tensors in memory whose columns the sweeps address from where their row begins."""
        in_memory = fid in self.rows.body.domain.accesses and self.rows.has_columns(fid)
        held = (*self.heuristics.fetched, *self.heuristics.resident, *self.heuristics.packed)
        return in_memory and fid not in held and not self._is_striped

    def _row_load(self, fid: int, held: _Held) -> str:
        body = self.rows.body
        source = f"{held.letter}{fid}[u]" if fid in self._scalars else body.element(fid, [self.rows.row])
        return body.scalar_load(fid, source)

    def _along(self, gathered: Batches) -> Sweep:
        """The reductions along the rows at hand that one sweep makes."""
        if not gathered.indices:
            return Sweep()
        body, arguments = self.rows.body, accumulators(self.rows.body, gathered.indices)
        own, singly = foldings(body, gathered.indices), foldings(body, gathered.singly)
        one_by_one = Sweep(
            accumulators=tuple(folding.column_declaration("kRows") for folding in own),
            accumulate=tuple(folding.combined(f"{folding.accumulator}[u]", folding.element) for folding in singly),
            reduce=(
                f"fb::begin_reduce_row<kThreads, kCluster>(phase, {arguments});"
                if self.heuristics.in_cluster
                else reduction_in_block(self.heuristics.threads, arguments)
            ),
        )
        return self._of_the_row(join(one_by_one, gathered.along_rows("[u]")))

    def _of_the_row(self, sweep: Sweep) -> Sweep:
        """``sweep``, which accumulates no element beside the row."""
        if self._is_aligned:
            return sweep
        is_inside = "k * kApart < mine - c * kStep" if self._is_striped else "fb::is_inside(inside, k)"
        return replace(sweep, accumulate=tuple(f"if ({is_inside}) {line}" for line in sweep.accumulate))

    def _down(self, indices: Sequence[int]) -> Sweep:
        """The updates of accumulators down columns."""
        own = foldings(self.rows.body, indices)
        if self._in_registers:
            return Sweep(accumulate=tuple(f.combined(f"{f.accumulator}[c][k]", f.element) for f in own))
        parts = [(fid, f"fb::Vec<{self.rows.body.c_type(fid)}, kVec>") for f in own for fid in f.expr.outputs]
        return Sweep(
            loads=tuple(f"{vector} m{fid} = fb::load{self._space}<kVec>(b{fid} + col);" for fid, vector in parts),
            accumulate=tuple(line for folding in own for line in folding.memory_update("m")),
            stores=tuple(f"fb::store{self._space}(b{fid} + col, m{fid});" for fid, _ in parts),
        )

    @property
    def _space(self) -> str:
        """How the names of functions end that reach accumulators in memory."""
        return "_shared" if self.heuristics.storage == "shared" else ""

    def _loads(self, held: _Held, fid: int) -> Lines:
        """The lines that put the current vector of input ``fid`` of the rows ``held`` into ``v<fid>``."""
        if fid in self.heuristics.packed:
            return (self.rows.vector(fid, f"fb::unpack(h{fid}[c])"),)
        if fid in self.heuristics.fetched:
            if self._is_striped:
                return (self.rows.vector(fid, f"fb::load_striped<kVec, kApart>(s{fid} + place + c * kStep)"),)
            place = f"s{fid}[{held.staged}]" if self._is_staged else f"c{fid}[u][c]"
            return (self.rows.vector(fid, f"fb::unpack({place})"),)
        return self.rows.global_load(fid)

    @property
    def _has_several(self) -> bool:
        """Whether a block works on several rows at once, which are short ones."""
        return self.heuristics.at_once * self.heuristics.threads.rows > 1

    @property
    def _is_staged(self) -> bool:
        return self.heuristics.stages > 1

    def next_rows(self) -> Sweep:
        """The inputs of the next rows: what they are kept in, and how they get there and from there. Those that are
        staged go to shared memory, and are used there."""
        body = self.rows.body
        following = Group(name="next", axes=self.parts.rows, index="int64_t")
        offset = {fid: body.offset(fid, [following, self._column([fid])]) for fid in self.heuristics.fetched}
        wide = [(fid, body.c_type(fid), offset[fid]) for fid in self.heuristics.fetched]
        held = [] if self._is_staged else wide
        numbers = NUMBERS_AHEAD if self.heuristics.in_cluster else NEXT_NUMBERS
        return Sweep(
            arrays=(
                *((numbers.comment,) if self._scalars or held else ()),
                *(f"{body.c_type(fid)} {numbers.arrays.format(fid)};" for fid in self._scalars),
                *(f"fb::Packed<{c_type}, kVec> c{fid}[kRows][kChunks], q{fid}[kRows][kChunks]{{}};"
                  for fid, c_type, _ in held),
            ),
            row=self._before(following.name),
            vector=tuple(numbers.load.format(fid, self._number(fid, following, numbers)) for fid in self._scalars),
            loads=tuple(f"q{fid}[u][c] = {self._packed_load(fid, offset)};" for fid, _, offset in held),
            stores=self._copies(wide) if self._is_staged else (),
            accumulators=tuple(line.format(fid) for line in numbers.handed_over for fid in self._scalars),
            accumulate=tuple(f"c{fid}[u][c] = q{fid}[u][c];" for fid, _, _ in held),
        )  # fmt: skip

    def _before(self, row: str) -> Lines:
        """What has to be known of a ``row`` to fetch its columns, or to bring them out."""
        if self._is_striped:
            return (
                f"const int there = {self._row_places(AT_HAND)};",
                f"const fb::Around<kCopied, kApart, Index> around({row} * columns + own, held, {self._lane});",
            )
        return (READABLE,) if self._is_shifted else ()

    def brought_out(self) -> Sweep:
        """What stores rows that lie in their places: the outputs that change along them."""
        if not self._is_striped:
            return Sweep()
        wide = [fid for fid in self.outputs if self.rows.has_columns(fid)]
        return Sweep(
            row=self._before(self.rows.row.name),
            stores=tuple(f"fb::store_around<kWidth>(around, T{fid} + around.begin, s{fid} + there);" for fid in wide),
        )

    def _packed_load(self, fid: int, offset: str) -> str:
        """The expression that loads the vector of ``fid`` at the ``offset``."""
        if self._is_shifted:
            return f"fb::load_packed_up_to<kVec>(T{fid} + {offset}, readable - col)"
        return f"fb::load_packed<kVec>(T{fid} + {offset})"

    def _copies(self, wide: Sequence[tuple[int, str, str]]) -> Lines:
        """The lines that begin to copy what is to wait in shared memory: fids, types and offsets of vectors."""
        if not self._is_striped:
            return tuple(self._copy(fid, offset) for fid, _, offset in wide)
        tiles = ", ".join(f"fb::tile_of(s{fid} + there, T{fid} + around.begin)" for fid, _, _ in wide)
        return (f"fb::copy_around<kWidth>(around, size, {tiles});",)

    def _copy(self, fid: int, offset: str) -> str:
        """The line that begins to copy the vector of ``fid`` at the ``offset`` to its place."""
        place = f"&s{fid}[{AT_HAND.staged}]"
        if self._is_shifted:
            return f"fb::copy_up_to<kVec>({place}, T{fid} + {offset}, readable - col);"
        return f"fb::copy_async({place}, T{fid} + {offset});"

    def _number(self, fid: int, following: Group, numbers: _RowNumbers) -> str:
        """The element that the ``following`` row has of input ``fid``."""
        body = self.rows.body
        element = numbers.element.format(fid, body.offset(fid, [following]))
        return body.if_any(fid, [following], element, literal_text(0, body.value(fid).dtype))

    def lifetime(self, lifetime: int) -> Lifetime:
        """What is kept for ``lifetime``: steady values of columns, and accumulators."""
        body = self.rows.body
        every = self.parts.accumulated
        whole = [index for index in every if not self.parts.kept[index]]
        own = foldings(body, whole if lifetime == OF_BLOCK else [index for index in every if index not in whole])
        outer = Group(name="outer", axes=self.parts.outer, index="int64_t")
        packed = self.heuristics.packed if lifetime == self._lifetime else ()
        reads = [*self._steady.reads(lifetime), *packed]
        declarations = tuple(folding.chunk_declaration() for folding in own) if self._in_registers else ()
        results = [fid for folding in own for fid in folding.expr.outputs]
        stores = [f"fb::store(p{fid} + col, fb::load_shared<kVec>(b{fid} + col));" for fid in results]
        if self._in_registers:
            stores = [self._store(f"p{f.expr.outputs[0]}", f"{f.accumulator}[c]") for f in own if not f.has_state]
        states = [folding for folding in own if folding.has_state and self._in_registers]
        column = "start + c * kStep + k * kApart" if self._is_striped else "col + k"
        return Lifetime(
            coordinates=(
                *body.coordinates(outer, body.needs_coordinates(reads, outer)),
                *(self._pointer(folding, fid) for folding in own for fid in folding.expr.outputs),
            ),
            arrays=(
                *self._steady.arrays(body, lifetime),
                *(f"fb::Packed<{body.c_type(fid)}, kVec> h{fid}[kChunks];" for fid in packed),
                *declarations,
            ),
            steady=join(self._steady_sweep(lifetime, outer), self._packed(packed, outer)),
            resets=self._resets(own),
            expected=self._expected(reads) if lifetime == OF_OUTER and self._is_aligned and self._has_several else (),
            reduce=self._reduce(own),
            stores=tuple(stores),
            element_stores=tuple(line for f in states for line in f.partial_stores(column, "[c][k]", "p")),
            blanks=self._blanks(own),
            whole=self._whole(outer) if lifetime == OF_OUTER and self.heuristics.finishes else Sweep(),
        )

    def _whole(self, outer: Group) -> Sweep:
        """What follows from the sums of an outer index of which the block has all rows: the outputs that keep it, and
        what sums over all indices take of it, in the block's own array of each."""
        body, scaled, exprs = self.rows.body, self.parts.scaled.items(), self.rows.body.fusion.exprs
        own = foldings(body, self.parts.accumulated)
        results, group = (
            folded(body.task, self.parts.accumulated),
            FinishGroup(reductions=self.parts.accumulated, kept=()),
        )
        sums = {exprs[index].outputs[0]: (each.factor, exprs[each.source].outputs[0]) for index, each in scaled}
        outputs, factors = outputs_of(body, group), [factor for factor, _ in sums.values()]
        column = self.rows.column
        setup, _, statements = known_after(body, [outer, column], [*outputs, *factors], results, outputs)
        found = tuple(line for each in own for line in each.results(f"{each.accumulator}[c][k]"))
        begin, c_type = body.step("block", self.parts.columns), body.c_type
        arrays = tuple(f"{c_type(fid)}* p{fid} = P{fid} + {begin};" for fid in sums)
        more = {fid: f"{body.operand(factor, body.value(fid).dtype)} * t{of}" for fid, (factor, of) in sums.items()}
        reads = [fid for fid in body.reads([*outputs, *factors], results) if not body.is_scalar(fid)]
        return Sweep(
            coordinates=(*setup, *arrays),
            loads=(
                *(
                    self.rows.vector(fid, self._beside(fid, outer))
                    if self._is_striped
                    else body.vector_load(fid, [outer, column])
                    for fid in reads
                ),
                *(f"fb::Vec<{c_type(fid)}, kVec> s{fid} = fb::splat<kVec>({c_type(fid)}(0));" for fid in sums),
                *(f"if (!is_first) s{fid} = {self._load(f'p{fid}')};" for fid in sums),
            ),
            vector=tuple(f"fb::Vec<{c_type(fid)}, kVec> o{fid};" for fid in outputs),
            element=(
                *found,
                *(f"const {c_type(fid)} t{fid} = v{fid}[k];" for fid in reads),
                *statements,
                *(f"o{fid}[k] = {body.own_operand(fid)};" for fid in outputs),
            ),
            accumulate=tuple(f"s{fid}[k] = fb::Sum::combine(s{fid}[k], {more[fid]});" for fid in sums),
            stores=(
                *(self._store(self._row_of(fid, outer), f"o{fid}", "store_anywhere") for fid in outputs),
                *(self._store(f"p{fid}", f"s{fid}") for fid in sums),
            ),
        )

    def _steady_sweep(self, lifetime: int, outer: Group) -> Sweep:
        """The walk that computes what stays for ``lifetime``; where rows begin anywhere, so does what stays."""
        body, column = self.rows.body, self.rows.column
        sweep = self._steady.sweep(body, lifetime, outer, column)
        if self._is_aligned:
            return sweep
        reads = self._steady.reads(lifetime)
        return replace(sweep, loads=tuple(self.rows.vector(fid, self._beside(fid, outer)) for fid in reads))

    def _beside(self, fid: int, outer: Group) -> str:
        """The expression that loads a vector of what stays, where it may begin anywhere."""
        row = self._row_of(fid, outer)
        return self._load(row) if self._is_striped else f"fb::load_beside<kVec>({row}, col, columns)"

    def _row_of(self, fid: int, outer: Group) -> str:
        """Where the columns of tensor ``fid`` begin that are those of an outer index, or of all."""
        start = self.rows.body.base(fid, [outer], self.rows.column.axes)
        return f"T{fid}" if start == "0" else f"T{fid} + {start}"

    def _expected(self, fids: Sequence[int]) -> Lines:
        """The lines that ask for what the outer index after this one has of inputs ``fids``, if the block goes on
        there. (H100, adaln's backward pass of 17216 samples of 1 x 640: 82 us without, 75 so.)"""
        body, column = self.rows.body, self.rows.column
        following = Group(name="outer + 1", axes=self.parts.outer, index="int64_t")
        domain, axes = body.domain, (*following.axes, *column.axes)
        own = [fid for fid in fids if domain.is_dense_over(domain.accesses[fid], axes)]
        start = {fid: f"T{fid} + {body.base(fid, [following], column.axes)}" for fid in own}
        goes_on = "first < last && last < end"
        return tuple(f"if ({goes_on}) fb::expect<kThreadsPerRow>({start[fid]}, lane, columns);" for fid in own)

    def _packed(self, fids: Sequence[int], outer: Group) -> Sweep:
        """The loads of inputs that stay packed."""
        body, groups = self.rows.body, [outer, self.rows.column]
        load = {fid: f"fb::load_packed<kVec>(T{fid} + {body.offset(fid, groups)})" for fid in fids}
        if not self._is_aligned:
            load = {fid: f"fb::pack({self._beside(fid, outer)})" for fid in fids}
        return Sweep(
            coordinates=body.coordinates(self.rows.column, body.needs_coordinates(fids, self.rows.column)),
            loads=tuple(f"h{fid}[c] = {expression};" for fid, expression in load.items()),
        )

    def _blanks(self, own: Iterable[Folding]) -> Lines:
        """The lines that leave the identity where the part ``blank`` of an outer index would be."""
        return tuple(
            self._store(f"P{fid} + {self._position(folding, 'blank')}", f"fb::splat<kVec>({identity})")
            for folding in own
            for fid, identity in zip(folding.expr.outputs, folding.identities, strict=True)
        )

    def _load(self, row: str) -> str:
        """The expression that loads the thread's columns of a ``row`` of columns, which is aligned unless they lie
        apart."""
        if self._is_striped:
            return f"fb::load_striped_up_to<kVec, kApart>({row} + start + c * kStep, mine - c * kStep)"
        return f"fb::load<kVec>({row} + col)"

    def _store(self, row: str, values: str, store: str = "store") -> str:
        """The line that stores them to a ``row`` of columns, which begins anywhere where rows do."""
        if self._is_striped:
            return f"fb::store_striped_up_to<kApart>({row} + start + c * kStep, {values}, mine - c * kStep);"
        if self._is_shifted:
            threads, thread = ("kThreads", "thread") if self.heuristics.in_cluster else ("kThreadsPerRow", "lane")
            return f"fb::store_by_warps<{threads}>({row}, {thread}, col, columns, {values});"
        return f"fb::{store}({row} + col, {values});"

    def _resets(self, own: Iterable[Folding]) -> Lines:
        if self._in_registers:
            return tuple(f"{folding.accumulator}[c] = {folding.columns_of_identity};" for folding in own)
        return tuple(
            f"fb::store{self._space}(b{fid} + col, fb::splat<kVec>({identity}));"
            for folding in own
            for fid, identity in zip(folding.expr.outputs, folding.identities, strict=True)
        )

    def shared_arrays(self) -> Lines:
        """Where accumulators are in shared memory, or rows on their way."""
        body = self.rows.body
        if self._is_striped:
            return self._striped_arrays()
        if self._is_staged:
            return places_in_shared(arrays_of(body, self.heuristics.fetched, "s", "kStages * kPlaces"), "thread")
        if self.heuristics.storage != "shared":
            return ()
        results = [fid for folding in foldings(body, self.parts.accumulated) for fid in folding.expr.outputs]
        return arrays_in_shared(arrays_of(body, results, "b", "columns"))

    def _striped_arrays(self) -> Lines:
        """Where rows lie as they do in memory, those of some outputs in the places of inputs."""
        body, in_place = self.rows.body, dict(self.heuristics.in_place)
        wide = [fid for fid in self.outputs if self.rows.has_columns(fid) and fid not in in_place]
        own = arrays_of(body, [*self.heuristics.fetched, *wide], "s", "kStages * kPlaces")
        return (*arrays_in_shared(own), *(array_in_place(body, fid, place, "s") for fid, place in in_place.items()))

    def _reduce(self, own: Sequence[Folding]) -> str:
        if self.heuristics.threads.rows == 1 or not own:
            return ""
        return f"fb::reduce_columns<kThreadsPerRow, kRowsPerBlock>({', '.join(f.argument('[c]') for f in own)});"

    def _pointer(self, folding: Folding, fid: int) -> str:
        """Where the block's partial results of ``fid`` begin; :class:`FinishHeuristics` says how they are read."""
        name = "b" if self.heuristics.storage == "scratch" else "p"
        return f"{self.rows.body.c_type(fid)}* {name}{fid} = P{fid} + {self._position(folding, 'part')};"

    def _position(self, folding: Folding, part: str) -> str:
        """Where a partial result begins: that of the block, or of its rows that begin alike, or the ``part`` of an
        outer index."""
        body, kept = self.rows.body, self.parts.kept[folding.index]
        if not kept:
            return body.step("part" if self._is_shifted else "block", self.parts.columns)
        between = [axis for axis in self.parts.outer if axis not in kept]
        size = body.size(between)
        size = f"({size})" if " " in size else size
        own = "outer"
        if between:
            part, own = f"{body.step(part, between)} + outer % {size}", f"outer / {size}"
        return body.step(f"{body.step(part, kept)} + {own}", self.parts.columns)


def _is_row(body: Body, fid: int, parts: InnerOuterParts) -> bool:
    """True for tensors that hold one element a row, in the rows' order."""
    return body.domain.is_dense_over(body.domain.accesses[fid], parts.rows)
