"""The view of inner_outer_tiled, whose warps have tiles of many short rows: fusebuild.kernels.inner_outer.tiled says
why.

``tile5`` is where the warp keeps its rows of tensor 5, ``r5`` the thread's first column of the row at hand there, from
which the others are ``threads`` apart; ``numbers6`` is what tensor 6 has for each row.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fusebuild.ir.dtype import DType
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.dynamic_shared import SharedArray, array_in_place, arrays_in_shared, cast_to, widest_first
from fusebuild.kernels.common.finish import FinishGroup
from fusebuild.kernels.common.finish_view import known_after, outputs_of, stores_of
from fusebuild.kernels.common.lambdas import Folding, combined, folded, foldings
from fusebuild.kernels.common.rows import by_level
from fusebuild.kernels.common.rows_view import Rows, reduction_in_threads
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.steady import steady_of
from fusebuild.kernels.common.view import KernelView, Lifetime, Lines, Sweep, accumulate, accumulators, join, make_view
from fusebuild.kernels.inner_outer.axes import inner_outer_parts
from fusebuild.kernels.inner_outer.tiled import TiledHeuristics

OF_BLOCK, OF_OUTER = 0, 1
"""How long a thread keeps what it holds for its columns: as long as its block lives, or as one outer index."""


def inner_outer_tiled(spec: KernelSpec) -> KernelView:
    tiles = _Tiles(spec)
    body, parts = tiles.body, tiles.parts
    return make_view(
        body, (*tiles.rows.exprs, *tiles.finishing),
        setup=(*tiles.of_the_row(), *tiles.row_bases()), sweeps=tiles.sweeps(),
        lifetimes=(tiles.of_block(), tiles.of_outer()), next_rows=tiles.next_tile(),
        ahead=tiles.scaled(), epilogue=join(tiles.finished(), Sweep(arrays=tiles.vectors(), stores=tiles.narrow())),
        extents={
            "columns": body.size(parts.columns), "depth": body.size(parts.depth), "outers": body.size(parts.outer),
        },
    )  # fmt: skip


class _Tiles:
    """One kernel's tiles, and what its threads do with them."""

    def __init__(self, spec: KernelSpec) -> None:
        assert isinstance(spec.heuristics, TiledHeuristics)
        self.heuristics = spec.heuristics
        self.parts = parts = inner_outer_parts(spec.task, spec.domain)
        self.outputs = parts.written_by_rows(spec.task)
        self.body = body = Body(spec)
        targets = [*folded(spec.task, parts.along), *combined(body, parts.accumulated), *self.outputs]
        reads = body.reads(targets)
        self.rows = Rows(
            body=body,
            row=Group(name="row", axes=parts.rows, index="int64_t"),
            column=Group(name="col", axes=parts.columns),
            reads=reads,
            exprs=body.closure(targets),
        )
        resident = [fid for fid in self.heuristics.resident if fid in reads]
        axes = {axis for fid in resident for axis in spec.domain.accesses[fid].axes}
        self._lifetime = OF_BLOCK if axes.isdisjoint(parts.outer) else OF_OUTER
        needed = [*combined(body, parts.accumulated), *self.outputs]
        self._steady = steady_of(body, self.rows.exprs, dict.fromkeys(resident, self._lifetime), needed)
        self._ready = [*self.rows.of_rows, *self._steady.kept]
        self._inputs = tuple(fid for fid in self.heuristics.fetched if fid in reads)
        self._written = tuple(fid for fid in self.outputs if self.rows.has_columns(fid))
        self._in_place = {out: fid for out, fid in self.heuristics.in_place if fid in self._inputs}
        self._outer, self._column = Group(name="outer", axes=parts.outer, index="int64_t"), self.rows.column
        self._whole = foldings(body, [index for index in parts.down if not parts.kept[index]])
        self._own = foldings(body, [index for index in parts.accumulated if parts.kept[index]])
        group = FinishGroup(reductions=tuple(each.index for each in self._own), kept=())
        self._of_outer_index = outputs_of(body, group), folded(spec.task, group.reductions)
        """The outputs that follow from the results of one outer index, and those results."""

    @property
    def on_chip(self) -> tuple[int, ...]:
        """What has no address in global memory while a row is walked."""
        return (*self._inputs, *self._written, *self.heuristics.resident)

    @property
    def numbers(self) -> dict[int, str]:
        """The elements of inputs that have one for each row."""
        own = [fid for fid in self.heuristics.of_rows if fid in self.rows.reads]
        return {fid: f"numbers{fid}[own]" for fid in own}

    def _declared(self, fids: Iterable[int]) -> Lines:
        """Where tensors ``fids`` lie in a tile, which begins ``there``: one after the other, each aligned."""
        lines, end, before = list[str](), "there", "unsigned char"
        for fid in fids:
            name, count = ("numbers", "numbers") if fid in self.numbers else ("tile", "places")
            c_type = self.body.c_type(fid)
            lines.append(f"{c_type}* {name}{fid} = {end if c_type == before else cast_to(c_type, end)};")
            of_bools = self.body.value(fid).dtype is DType.BOOL  # their vectors are half of 16 bytes
            end, before = f"{name}{fid} + {f'({count} + 15) / 16 * 16' if of_bools else count}", c_type
        return tuple(lines)

    def next_tile(self) -> Sweep:
        """What brings in the tile ``next``, and takes out the one at hand."""
        origin = ("const int64_t origin = next.top * columns;", "const int shift = fb::shift_of<kCopied>(origin);")
        tiles = ", ".join(f"fb::tile_of(tile{fid}, T{fid} + (origin - shift))" for fid in self._inputs)
        numbers = ", ".join(f"fb::tile_of(numbers{fid}, T{fid} + next.top)" for fid in self.numbers)
        end = "shift + next.rows * columns, size - (origin - shift)"
        read = (*self._inputs, *self.numbers)
        alone = [fid for fid in self._written if fid not in self._in_place]
        in_place = (array_in_place(self.body, fid, place, "tile") for fid, place in self._in_place.items())
        return Sweep(
            coordinates=self._declared(read),
            arrays=(*self._declared((*read, *alone)), *in_place),
            loads=(
                *origin,
                f"fb::copy_to_warp<kCopied>({end}, {tiles});",
                *((f"fb::copy_numbers_to_warp(next.rows, {numbers});",) if numbers else ()),
                *self._expected(),
            ),
            stores=tuple(
                f"fb::store_from_warp<kCopied>(T{fid} + (at.top * columns - first), tile{fid}, first, end);"
                for fid in self._written
            ),
        )

    def _expected(self) -> Lines:
        """The lines that ask for what stays for the outer indices of the tile ``next``: the warp loads it when it comes
        to them."""
        domain, axes = self.body.domain, (*self.parts.outer, *self.parts.columns)
        own = [fid for fid in self._steady.reads(OF_OUTER) if domain.is_dense_over(domain.accesses[fid], axes)]
        first, count = replace(self._outer, name="int64_t(next.outer)"), "next.outers * columns"
        starts = [f"T{fid} + {self.body.base(fid, [first], self._column.axes)}" for fid in own]
        return tuple(
            f"if (next.number == 0) fb::expect<fb::kWarpThreads>({start}, fb::thread_lane(), {count});"
            for start in starts
        )

    def _own_element(self, fid: int) -> str:
        """The element of a column of the thread's row in the tile. Spare threads load none: their row is another's, who
        may be writing it."""
        return f"active ? r{fid}[(is_column ? k : 0) * apart] : {self.body.c_type(fid)}{{}}"

    def of_the_row(self) -> Lines:
        """What is one value a row, as far as it is known before the row is walked."""
        setup, _ = self.rows.setup(self.outputs, self.on_chip, self.numbers)
        users = join(*self.sweeps(), Sweep(stores=self.narrow()))
        return replace(users, coordinates=setup).without_idle_coordinates().coordinates

    def row_bases(self) -> Lines:
        """Where the thread's first column of the row is in each tile."""
        tiled = (*self._inputs, *self._written)
        const = {fid: "" if fid in self._written else "const " for fid in tiled}
        lines = (
            f"{const[fid]}{self.body.c_type(fid)}* r{fid} = tile{fid} + first + own * columns + start;" for fid in tiled
        )
        return tuple(lines)

    def vectors(self) -> Lines:
        """What a thread has of its row."""
        whole = self._written if self.heuristics.is_whole else ()
        return (
            *(f"fb::Vec<{self.body.c_type(fid)}, kVec> v{fid};" for fid in self._inputs),
            *(f"fb::Vec<{self.body.c_type(fid)}, kVec> o{fid};" for fid in whole),
        )

    def narrow(self) -> Lines:
        return self.rows.results([fid for fid in self.outputs if not self.rows.has_columns(fid)])

    def sweeps(self) -> tuple[Sweep, ...]:
        """One walk over the row for each level of reductions along it, then one for what needs them all. The first one
        that takes an input's elements leaves them in registers."""
        body, rows, held = self.body, self.rows, set[int]()
        all_along, all_down = (by_level(body.task, own) for own in (self.parts.along, self.parts.accumulated))
        last = max(all_along, default=0)
        sweeps = []
        for at in range(last + 1):
            along, down = all_along.get(at + 1, []), all_down.get(at + 1, [])
            stored = [*self._written] if at == last else []
            sums = accumulate(body, along)
            targets = list(dict.fromkeys([*combined(body, along), *combined(body, down), *stored]))
            sweep = rows.sweep(targets, self._ready, lambda fid: ())
            new = [fid for fid in rows.column_reads(targets, self._ready) if fid not in held]
            held.update(new)
            results = (*sums.results, *rows.epilogue(folded(body.task, along), at + 1)) if along else ()
            is_whole = self.heuristics.is_whole
            place = "o{}[k]" if is_whole else "if (is_own) r{}[k * apart]"
            sweeps.append(
                Sweep(
                    accumulators=sums.accumulators,
                    loads=tuple(f"if (count > 0) v{fid} = fb::load_shared<kVec>(r{fid});" for fid in new if is_whole),
                    stores=tuple(f"if (count > 0) fb::store_shared(r{fid}, o{fid});" for fid in stored if is_whole),
                    element=(
                        *(f"v{fid}[k] = {self._own_element(fid)};" for fid in new if not is_whole),
                        *self._steady.taken(body, targets),
                        *sweep.vector,
                        *sweep.element,
                        *(f"{place.format(fid)} = {body.own_operand(fid)};" for fid in stored),
                    ),
                    accumulate=tuple(
                        line if is_whole else f"if (is_own) {line}"
                        for line in (*sums.accumulate, *(each.update("[k]") for each in foldings(body, down)))
                    ),
                    reduce=reduction_in_threads(accumulators(body, along)) if along else "",
                    results=results,
                )
            )
        return tuple(sweeps)

    def _kept(self, lifetime: int) -> Sweep:
        """The walk over columns that computes what stays for ``lifetime``."""
        body, column = self.body, self._column
        sweep = self._steady.sweep(body, lifetime, self._outer, column)
        base = {fid: body.base(fid, [self._outer], column.axes) for fid in self._steady.reads(lifetime)}
        load = "fb::load_apart<kVec>(T{} + {} + start, apart, held)"
        if self.heuristics.beside:
            load = "fb::load_if<kVec>(held > 0, T{} + {} + start)"
        loads = (self.rows.vector(fid, load.format(fid, begin)) for fid, begin in base.items())
        return replace(sweep, loads=tuple(loads))

    def _arrays(self, lifetime: int, own: tuple[Folding, ...]) -> tuple[Lines, Lines]:
        """What is kept for ``lifetime``, and the lines that empty its accumulators."""
        kept = ("constexpr int kChunks = 1, c = 0;",) if lifetime == OF_BLOCK else ()
        arrays = tuple(f"fb::Vec<{each.c_type}, kVec> {each.accumulator};" for each in own)
        resets = tuple(f"{each.accumulator} = fb::splat<kVec>({each.identity});" for each in own)
        return (*kept, *self._steady.arrays(self.body, lifetime), *arrays), resets

    def of_block(self) -> Lifetime:
        """What the block keeps to its end, where it leaves what it adds up to."""
        own, body = self._whole, self.body
        arrays, resets = self._arrays(OF_BLOCK, own)
        meeting = widest_first(
            SharedArray(name=f"w{fid}", elements="kWarps * columns", dtype=body.value(fid).dtype)
            for each in own for fid in each.expr.outputs
        )  # fmt: skip
        sums = Sweep(
            arrays=arrays_in_shared(meeting),
            accumulators=tuple(f"{each.c_type} q{f} = w{f}[col];" for each in own for f in each.expr.outputs),
            accumulate=tuple(
                f"q{f} = {each.functor}::combine(q{f}, w{f}[w * columns + col]);"
                for each in own for f in each.expr.outputs
            ),
            stores=tuple(f"P{f}[partial] = q{f};" for each in own for f in each.expr.outputs),
        )  # fmt: skip
        arguments = ", ".join(each.argument() for each in own)
        return Lifetime(
            arrays=arrays,
            resets=resets,
            steady=join(self._kept(OF_BLOCK), sums),
            reduce=f"fb::reduce_groups(threads, fb::kWarpThreads / threads, {arguments});" if own else "",
            stores=tuple(f"w{f}[place] = {each.accumulator}[k];" for each in own for f in each.expr.outputs),
        )

    def of_outer(self) -> Lifetime:
        """What it keeps for the rows of one outer index."""
        own, body = self._own, self.body
        arrays, resets = self._arrays(OF_OUTER, own)
        arguments = ", ".join(each.argument() for each in own)
        coordinates = body.coordinates(self._outer, body.needs_coordinates(self._steady.reads(OF_OUTER), self._outer))
        results = tuple(line for each in own for line in each.results(f"{each.accumulator}[k]"))
        return Lifetime(
            coordinates=coordinates,
            arrays=arrays,
            resets=resets,
            steady=join(self._kept(OF_OUTER), Sweep(results=results)),
            reduce=f"fb::reduce_groups(threads, members, {arguments});" if own else "",
            stores=tuple(f"P{f}[partial] = {each.accumulator}[k];" for each in own for f in each.expr.outputs),
            whole=self._by_vectors() if self.heuristics.beside and self.parts.outer else Sweep(),
        )

    def _by_vectors(self) -> Sweep:
        """What is done with the sums of an outer index where all that it reads and writes moves by vectors: what sums
        over all indices take of it, the outputs that follow, or the partial results of a part."""
        body, groups, (outputs, results) = self.body, [self._outer, self._column], self._of_outer_index
        factors = [each.factor for each in self.parts.scaled.values()]
        setup, _, statements = known_after(body, groups, [*outputs, *factors], results, outputs)
        reads = [fid for fid in body.reads([*outputs, *factors], results) if not body.is_scalar(fid)]
        found = (line for each in self._own for line in each.results(f"{each.accumulator}[k]"))
        return Sweep(
            coordinates=setup,
            loads=tuple(body.vector_load(fid, groups) for fid in reads),
            vector=tuple(f"fb::Vec<{body.c_type(fid)}, kVec> o{fid};" for fid in outputs),
            element=(
                *found,
                *(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in reads),
                *statements,
                *(f"o{fid}[k] = {body.own_operand(fid)};" for fid in outputs),
            ),
            accumulate=self._updates(),
            stores=tuple(f"fb::store(T{fid} + {body.offset(fid, groups)}, o{fid});" for fid in outputs),
            joint_stores=tuple(
                f"fb::store(P{each.expr.outputs[0]} + partial, {each.accumulator});" for each in self._own
            ),
        )

    def scaled(self) -> Sweep:
        """What sums over all outer indices take of one that they are scaled from."""
        factors = [each.factor for each in self.parts.scaled.values()]
        setup, loads, statements = known_after(self.body, [self._outer, self._column], factors, (), ())
        return Sweep(loads=(*setup, *loads, *statements), accumulate=self._updates())

    def _updates(self) -> Lines:
        """The lines that add what scaled sums take of an outer index."""
        body, task, updates = self.body, self.body.task, list[str]()
        for index, each in self.parts.scaled.items():
            (fid,), (source,) = (task.fusion.exprs[at].outputs for at in (index, each.source))
            factor = body.operand(each.factor, body.value(fid).dtype)
            updates.append(f"a{fid}[k] = fb::Sum::combine(a{fid}[k], {factor} * a{source}[k]);")
        return tuple(updates)

    def finished(self) -> Sweep:
        """What follows from the results of an outer index, where one team has all its rows."""
        body, groups, (outputs, results) = self.body, [self._outer, self._column], self._of_outer_index
        setup, loads, statements = known_after(body, groups, outputs, results, outputs)
        return Sweep(loads=(*setup, *loads, *statements), joint_stores=stores_of(body, groups, outputs))

    @property
    def finishing(self) -> tuple[Expr, ...]:
        """What is computed when all rows of an outer index are done."""
        body, (outputs, results) = self.body, self._of_outer_index
        return (*body.closure(outputs, results), *body.closure(each.factor for each in self.parts.scaled.values()))
