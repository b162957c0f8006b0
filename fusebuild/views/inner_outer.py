"""The view of inner_outer_persistent, whose blocks walk rows and accumulate down their columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fusebuild.body import Body, Group
from fusebuild.schedule.inner_outer import InnerOuterParts, inner_outer_parts
from fusebuild.schedule.inner_outer_persistent import InnerOuterHeuristics
from fusebuild.schedule.kernel import KernelSpec
from fusebuild.schedule.rows import WARP, levels
from fusebuild.views.inner import Rows, row_epilogue, row_results, row_setup, row_stores, row_sweep
from fusebuild.views.kernel_view import (
    KernelView,
    Lifetime,
    Lines,
    Sweep,
    accumulate,
    accumulators,
    join,
    make_view,
    scalar_load,
)
from fusebuild.views.lambdas import Folding, combined, folded, foldings
from fusebuild.views.steady import steady_of

OF_BLOCK, OF_OUTER = 0, 1
"""How long a thread keeps what it holds for its columns: as long as its block lives, or as one outer index."""


def inner_outer_persistent(spec: KernelSpec) -> KernelView:
    walk = _Walk(spec)
    rows, body = walk.rows, walk.rows.body
    setup, bases = row_setup(rows, walk.outputs, walk.level)
    narrow = row_results(rows, [fid for fid in walk.outputs if not rows.has_columns(fid)])
    return make_view(
        spec, body, rows.exprs,
        setup=(*walk.taken(), *setup), bases=bases, sweeps=walk.sweeps(), epilogue=Sweep(stores=narrow),
        lifetimes=(walk.lifetime(OF_BLOCK), walk.lifetime(OF_OUTER)), next_row=walk.next_row(),
        extents={
            "columns": body.size(walk.parts.columns),
            "depth": body.size(walk.parts.depth),
            "outers": body.size(walk.parts.outer),
        },
    )  # fmt: skip


class _Walk:
    """One kernel's walk over rows."""

    def __init__(self, spec: KernelSpec) -> None:
        assert isinstance(spec.heuristics, InnerOuterHeuristics)
        self.heuristics = spec.heuristics
        parts = inner_outer_parts(spec.template, spec.task, spec.domain)
        assert isinstance(parts, InnerOuterParts)
        self.parts = parts
        self.outputs = parts.written_by_rows(spec.task)
        self.level = levels(spec.task)
        body = Body(spec)
        targets = [*folded(spec.task, parts.along), *combined(body, parts.down), *self.outputs]
        reads = body.reads(targets)
        self._scalars = tuple(fid for fid in reads if self.heuristics.fetched and _is_row(body, fid, parts))
        ready = {*self.heuristics.fetched, *self.heuristics.resident, *self._scalars}
        self.rows = Rows(
            body=body,
            row=Group(name="row", axes=parts.rows, index="int64_t"),
            column=Group(name="col", axes=parts.columns),
            reads=tuple(fid for fid in reads if fid not in ready),
            exprs=body.closure(targets),
        )
        outer = {*parts.outer}
        lifetimes = {fid: OF_OUTER if outer & {*spec.domain.accesses[fid].axes} else OF_BLOCK
                     for fid in self.heuristics.resident}  # fmt: skip
        self._steady = steady_of(body, self.rows.exprs, lifetimes, [*combined(body, parts.down), *self.outputs])

    @property
    def _in_registers(self) -> bool:
        return self.heuristics.storage == "registers"

    def sweeps(self) -> tuple[Sweep, ...]:
        """One walk over the row for each level of reductions along it, then one for what needs them all."""
        body, rows, exprs = self.rows.body, self.rows, self.rows.body.fusion.exprs
        known = [expr.outputs[0] for expr in rows.exprs if not rows.is_column(expr.outputs[0])]
        wide = [fid for fid in self.outputs if rows.has_columns(fid)]
        last = max((self.level[exprs[index].outputs[0]] for index in self.parts.along), default=0)
        sweeps = []
        for at in range(last + 1):
            along = [index for index in self.parts.along if self.level[exprs[index].outputs[0]] == at + 1]
            down = [index for index in self.parts.down if self.level[exprs[index].outputs[0]] == at + 1]
            stored = wide if at == last else []
            if not (along or down or stored):
                continue
            targets = list(dict.fromkeys([*combined(body, along), *combined(body, down), *stored]))
            sweep = join(
                Sweep(element=self._steady.taken(body, targets)),
                row_sweep(rows, targets, [*known, *self._steady.kept], self._loads, "v{0}[k]"),
                self._along(along, at + 1),
                Sweep(accumulate=self._down(down, guarded=bool(along))),
                row_stores(rows, stored),
            )
            sweeps.append(sweep)
        return tuple(sweeps)

    def _along(self, indices: Sequence[int], level: int) -> Sweep:
        """The reductions along the row that one sweep makes, and what follows from them alone."""
        if not indices:
            return Sweep()
        body, phase = self.rows.body, "phase, " if self.heuristics.threads.per_row > WARP else ""
        totals = accumulate(body, indices)
        return replace(
            totals,
            results=(*totals.results, *row_epilogue(self.rows, folded(body.task, indices), self.level, level)),
            reduce=f"fb::reduce_row<kThreadsPerRow, kRowsPerBlock>({phase}{accumulators(body, indices)});",
        )

    def _down(self, indices: Sequence[int], *, guarded: bool) -> Lines:
        """The updates of accumulators down columns. ``guarded``: spare threads are in the loop too."""
        own = foldings(self.rows.body, indices)
        if self._in_registers:
            guard = "if (active) " if guarded and self.heuristics.threads.rows > 1 else ""
            return tuple(guard + folding.combined(f"{folding.accumulator}[c][k]", folding.element) for folding in own)
        return tuple(
            line
            for folding in own
            for line in (
                f"{folding.c_type} {folding.accumulator} = {folding.partial('col', 'p')};",
                folding.combined(folding.accumulator, folding.element),
                *folding.partial_stores("col", array="p"),
            )
        )

    def _loads(self, fid: int) -> Lines:
        """The lines that put the current vector of input ``fid`` into ``v<fid>``."""
        body = self.rows.body
        declaration = f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid}"
        if fid in self.heuristics.fetched:
            return (f"{declaration} = fb::unpack(c{fid}[c]);",)
        return (f"{declaration} = fb::load<kVec>(r{fid} + {body.offset(fid, [self.rows.column])});",)

    def next_row(self) -> Sweep:
        """The inputs of the next row: what they are kept in, and how they get there and from there."""
        body = self.rows.body
        groups = [Group(name="next", axes=self.parts.rows, index="int64_t"), self.rows.column]
        own = [(fid, body.c_type(fid), body.offset(fid, groups)) for fid in self.heuristics.fetched]
        return Sweep(
            arrays=(
                *(f"{body.c_type(fid)} q{fid}{{}};" for fid in self._scalars),
                *(f"fb::Packed<{c_type}, kVec> c{fid}[kChunks], q{fid}[kChunks]{{}};" for fid, c_type, _ in own),
            ),
            vector=tuple(f"q{fid} = T{fid}[{body.offset(fid, groups)}];" for fid in self._scalars),
            loads=tuple(f"q{fid}[c] = fb::load_packed<kVec>(T{fid} + {offset});" for fid, _, offset in own),
            accumulate=tuple(f"c{fid}[c] = q{fid}[c];" for fid, _, _ in own),
        )

    def taken(self) -> Lines:
        """What was loaded ahead for the row at hand, one value each."""
        return tuple(scalar_load(self.rows.body, fid, f"q{fid}") for fid in self._scalars)

    def lifetime(self, lifetime: int) -> Lifetime:
        """What is kept for ``lifetime``: steady values of columns, and accumulators."""
        body = self.rows.body
        whole = [index for index in self.parts.down if not self.parts.kept[index]]
        own = foldings(body, whole if lifetime == OF_BLOCK else [i for i in self.parts.down if i not in whole])
        outer = Group(name="outer", axes=self.parts.outer, index="int64_t")
        reads = self._steady.reads(lifetime)
        declarations = tuple(folding.chunk_declaration() for folding in own) if self._in_registers else ()
        return Lifetime(
            coordinates=(
                *body.coordinates(outer, body.needs_coordinates(reads, outer)),
                *(self._pointer(folding, fid) for folding in own for fid in folding.expr.outputs),
            ),
            arrays=(*self._steady.arrays(body, lifetime), *declarations),
            steady=self._steady.sweep(body, lifetime, outer, self.rows.column),
            resets=self._resets(own),
            reduce=self._reduce(own),
            stores=tuple(line for folding in own for line in folding.partial_stores("col + k", "[c][k]", "p")),
        )

    def _resets(self, own: Iterable[Folding]) -> Lines:
        if self._in_registers:
            return tuple(f"{folding.accumulator}[c] = {folding.columns_of_identity};" for folding in own)
        return tuple(
            line
            for folding in own
            for line in (
                f"const {folding.c_type} {folding.accumulator} = {folding.identity};",
                *folding.partial_stores("col", array="p"),
            )
        )

    def _reduce(self, own: Sequence[Folding]) -> str:
        if self.heuristics.threads.rows == 1 or not own:
            return ""
        return f"fb::reduce_columns<kThreadsPerRow, kRowsPerBlock>({', '.join(f.argument('[c]') for f in own)});"

    def _pointer(self, folding: Folding, fid: int) -> str:
        """Where the block's partial results of ``fid`` begin; :class:`FinishHeuristics` says how they are read."""
        body, kept = self.rows.body, self.parts.kept[folding.index]
        if not kept:
            position = "group * kSplits + split" if self.parts.outer else "split"
        else:
            between = [axis for axis in self.parts.outer if axis not in kept]
            size = body.size(between)
            size = f"({size})" if " " in size else size
            part, own = "split", "outer"
            if between:
                part, own = f"{body.step('split', between)} + outer % {size}", f"outer / {size}"
            position = f"{body.step(part, kept)} + {own}"
        return f"{body.c_type(fid)}* p{fid} = P{fid} + {body.step(position, self.parts.columns)};"


def _is_row(body: Body, fid: int, parts: InnerOuterParts) -> bool:
    """True for tensors that hold one element a row, in the rows' order."""
    access = body.domain.accesses[fid]
    return access.axes == parts.rows and body.domain.is_contiguous(access)
