"""Views of scans and the reductions beside them: scan, whose blocks walk rows, and scan_outer, whose threads own
columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from fusebuild.kernels.common.batches import Batches
from fusebuild.kernels.common.lambdas import combined, folded, foldings
from fusebuild.kernels.common.rows import levels
from fusebuild.kernels.common.rows_view import Rows, rows_of
from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.common.view import (
    KernelView,
    Lines,
    Sweep,
    accumulate,
    accumulators,
    is_named,
    join,
    lines_named,
    make_view,
)
from fusebuild.kernels.reduction.outer_view import column_epilogue, column_groups, column_view
from fusebuild.kernels.scan.choices import PartHeuristics, ScanHeuristics, Step
from fusebuild.kernels.scan.parts_view import parts_of, step_of
from fusebuild.kernels.scan.schedule import has_rows, ordered, walks
from fusebuild.ops.table import Kind, op_of

MOST_ROWS, REGISTERS_OF_ROWS = 8, 64
"""Rows of a column that a thread loads before it uses the first, at most, and the registers that it has for them.
(H200, running sums down 2048 x 160000: 545 us, and 1217 with one row after another.)"""


class _Parts:
    """A scanning kernel's exprs: what is combined in order, ``scans`` and ``totals``, and ``reduced`` in any order."""

    def __init__(self, body: Body) -> None:
        task = body.task
        self.body = body
        self.indices = ordered(task)
        self.scans = [index for index in self.indices if op_of(task.fusion.exprs[index]).kind is Kind.SCAN]
        self.totals = [index for index in self.indices if index not in self.scans]
        self.reduced = [index for index in reductions(task) if index not in self.totals]
        self.made = folded(task, (*self.indices, *self.reduced))
        self.wide = [fid for fid in task.outputs if has_rows(body.domain, fid)]
        self.narrow = [fid for fid in task.outputs if fid not in self.wide]
        self._level = levels(task)

    def of_level(self, indices: Iterable[int], at: int) -> list[int]:
        """Those of the reductions at ``indices`` that need no other, but for those of lower levels than ``at``."""
        return [index for index in indices if self._level[self.body.fusion.exprs[index].outputs[0]] == at]


def scan(spec: KernelSpec) -> KernelView:
    parts = _Parts(Body(spec))
    step = step_of(spec)
    everything = [*combined(parts.body, (*parts.indices, *parts.reduced)), *spec.task.outputs]
    rows = rows_of(spec, everything)
    setup, bases = rows.setup(() if step is Step.SUMS else spec.task.outputs)
    walker = _Walker(rows, parts)
    last = walks(spec.task, spec.domain) - 1
    if step is Step.SUMS:
        sweeps = [*walker.sums()]
    else:
        sweeps = [sweep for at in range(last + 1) for sweep in walker.walk(at, parts.wide if at == last else [])]
    results, sweeps[-1] = sweeps[-1].results, replace(sweeps[-1], results=())
    loads = [line for sweep in sweeps for line in sweep.loads]
    ahead = [fid for fid in walker.ahead if is_named(f"c{fid}", loads)]
    epilogue = Sweep(results=results if parts.narrow else (), stores=rows.results(parts.narrow))
    return make_view(
        rows.body,
        rows.exprs,
        setup=setup,
        bases=bases,
        sweeps=tuple(sweeps),
        epilogue=epilogue,
        extents=rows.extents,
        ahead=Sweep(arrays=tuple(f"fb::Packed<{rows.c_type(fid)}, kVec> c{fid};" for fid in ahead)),
        parts=parts_of(rows.body, parts.scans, step),
    )


class _Walker:
    """The walks over a row. Each combines what is scanned, tile by tile, and then what needs that."""

    def __init__(self, rows: Rows, parts: _Parts) -> None:
        self._rows, self._parts, self._body = rows, parts, rows.body

    def walk(self, at: int, wide: Sequence[int]) -> tuple[Sweep, Sweep]:
        """The walk that needs ``at`` others before and stores ``wide``: up to its scans, and after them."""
        rows, parts, body = self._rows, self._parts, self._body
        gathered = rows.batches(parts.of_level(parts.reduced, at + 1), looks_up=False)
        targets = [*gathered.targets(), *wide]
        combined_here = {*self._scans(targets), *parts.of_level(parts.totals, at + 1)}
        own = [index for index in parts.indices if index in combined_here]
        scanned = [index for index in own if index in parts.scans]
        before = rows.sweep(combined(body, own), rows.of_rows, rows.global_load)
        after = rows.sweep(targets, [*rows.of_rows, *folded(body.task, scanned)], rows.global_load)
        results = tuple(line for each in foldings(body, scanned) for line in each.results(f"{each.item}[k]"))
        reduced = [*(index for index in own if index not in scanned), *gathered.indices]
        second = join(
            Sweep(element=(*results, *after.element)),
            rows.stores(wide),
            self._reduced(gathered),
            Sweep(results=self._results(reduced, at + 1)),
        )
        return self._first(own, before, after), second

    @property
    def ahead(self) -> list[int]:
        """The inputs whose vectors are loaded where they are not needed yet."""
        rows, body = self._rows, self._body
        heuristics = body.spec.heuristics
        assert isinstance(heuristics, ScanHeuristics | PartHeuristics)
        if not heuristics.ahead:
            return []
        vectors = [fid for fid in rows.reads if rows.has_columns(fid) and body.is_vector(fid)]
        return [fid for fid in vectors if not body.spec.is_shifted or fid in body.domain.flat]

    def sums(self) -> tuple[Sweep, Sweep]:
        """The walk that leaves nothing but what is scanned combines to."""
        own = self._parts.scans
        before = self._rows.sweep(combined(self._body, own), self._rows.of_rows, self._rows.global_load)
        return self._first(own, before, Sweep()), Sweep()

    def _scans(self, targets: list[int]) -> list[int]:
        """The scans that ``targets`` follow from within the row."""
        made = {fid for expr in self._body.closure(targets, self._rows.of_rows) for fid in expr.outputs}
        return [index for index in self._parts.scans if not made.isdisjoint(self._body.fusion.exprs[index].outputs)]

    def _first(self, own: list[int], before: Sweep, after: Sweep) -> Sweep:
        """Loads of a tile, and what is combined in order: a scan waits for all threads of a block, and inputs loaded
        ``ahead`` are on their way meanwhile."""
        rows, loads = self._rows, _once(before.loads, after.loads)
        ahead = {line: fid for fid in self.ahead for line in rows.global_load(fid) if line in loads} if own else {}
        coordinates = _once(before.coordinates, after.coordinates)
        fetched = tuple(f"c{fid} = {rows.from_memory(fid, packed=True)};" for fid in ahead.values())
        used = (rows.vector(fid, f"fb::unpack(c{fid})") for fid in ahead.values())
        own_foldings = foldings(self._body, own)
        taken = "active && fb::is_inside(inside, k)" if self._body.spec.is_shifted else "active"
        return Sweep(
            load_coordinates=lines_named(coordinates, fetched),
            loads=fetched,
            coordinates=coordinates,
            vector=(*used, *(line for line in loads if line not in ahead), *_once(before.vector, after.vector)),
            arrays=tuple(f"auto {f.item} = fb::states<{f.functor}, kVec>({f.identity});" for f in own_foldings),
            element=before.element,
            accumulators=tuple(each.declaration() for each in own_foldings),
            accumulate=tuple(f"if ({taken}) {each.item}[k] = {each.element};" for each in own_foldings),
            stores=tuple(f"fb::scan_block<kThreads>(phase, {f.accumulator}, {f.item});" for f in own_foldings),
        )

    def _reduced(self, gathered: Batches) -> Sweep:
        """What is reduced in any order: a thread's own elements, and after them those of all threads."""
        if not gathered.indices:
            return Sweep()
        arguments = accumulators(self._body, gathered.indices)
        return join(
            Sweep(accumulators=accumulate(self._body, gathered.plain).accumulators),
            self._rows.updates(gathered),
            Sweep(reduce=f"fb::reduce_row<kThreads, 1>(phase, {arguments});"),
        )

    def _results(self, reduced: Sequence[int], at: int) -> Lines:
        """What the row as a whole gives, and what follows from it."""
        ends = (line for each in foldings(self._body, reduced) for line in each.results(each.accumulator))
        return (*ends, *self._rows.epilogue(self._parts.made, at))


def _once(first: Lines, second: Lines) -> Lines:
    """The lines of two loops that run as one."""
    return tuple(dict.fromkeys((*first, *second)))


def scan_outer(spec: KernelSpec) -> KernelView:
    body = Body(spec)
    parts = _Parts(body)
    groups = column_groups(spec.domain)
    outer, walked, inner = groups
    last, step = spec.domain.inner, step_of(spec)
    stored = [] if step is Step.SUMS else parts.wide
    scanned = folded(spec.task, parts.scans)
    in_order, in_any_order = foldings(body, parts.indices), foldings(body, parts.reduced)
    components = combined(body, parts.indices)
    wide = [*combined(body, parts.reduced), *stored]
    before = body.closure(components)
    after = [expr for expr in body.closure(wide, parts.made) if expr not in before]
    reads = tuple(sorted({*body.reads(components), *body.reads(wide, parts.made)}))
    vectors = [fid for fid in reads if body.is_vector(fid)]
    ahead = [fid for fid in vectors if not {*walked.axes}.isdisjoint(spec.domain.accesses[fid].axes)]
    moving = [fid for fid in reads if last in spec.domain.accesses[fid].axes]
    coordinate = body.along(*groups)
    hoisted, early = body.split(before, [last])
    hoisted_after, late = body.split([expr for expr in after if op_of(expr).kind is not Kind.SCAN], [last])
    iota = body.coordinate_axes([*before, *after])
    strided = [fid for fid in stored if not body.is_vector(fid)]
    scans = [each for each in in_order if each.expr.outputs[0] in scanned]
    sweep = Sweep(
        coordinates=body.coordinates(walked, body.needs_coordinates([*reads, *stored], walked) | iota),
        arrays=tuple(f"fb::Packed<{body.c_type(fid)}, kVec> c{fid}[kUnroll];" for fid in ahead),
        load_coordinates=body.coordinates(walked, body.needs_coordinates(ahead, walked)),
        loads=tuple(f"c{fid}[u] = fb::load_packed<kVec>(T{fid} + {body.offset(fid, groups)});" for fid in ahead),
        vector=(
            *(f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::unpack(c{fid}[u]);" for fid in ahead),
            *(body.vector_load(fid, groups) for fid in vectors if fid not in ahead),
            *(body.scalar_load(fid, f"T{fid}[{body.offset(fid, groups)}]") for fid in reads if fid not in moving),
            *(body.statement(expr, coordinate) for expr in (*hoisted, *hoisted_after)),
            *(f"fb::Vec<{body.c_type(fid)}, kVec> o{fid};" for fid in stored if fid not in strided),
        ),
        element=(
            *(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in vectors),
            *(body.strided_load(fid, groups) for fid in moving if fid not in vectors),
            *(body.statement(expr, coordinate) for expr in early),
            *(folding.combined(f"{folding.accumulator}[k]", folding.element) for folding in in_order),
            *(line for folding in scans for line in folding.results(f"{folding.accumulator}[k]") if stored),
            *(body.statement(expr, coordinate) for expr in late),
            *(folding.combined(f"{folding.accumulator}[k]", folding.element) for folding in in_any_order),
            *(body.element_store(fid, fid in strided, groups, "o") for fid in stored),
        ),
        stores=tuple(
            f"fb::store(T{fid} + {body.offset(fid, groups)}, o{fid});" for fid in stored if fid not in strided
        ),
        accumulators=tuple(folding.column_declaration() for folding in (*in_order, *in_any_order)),
    )  # fmt: skip
    ends = [*parts.totals, *parts.reduced]
    totals = tuple(line for f in foldings(body, ends) for line in f.results(f"{f.accumulator}[k]"))
    epilogue = column_epilogue(body, ends, [outer, inner], totals, parts.narrow) if parts.narrow else Sweep()
    touched = [*reads, *body.reads(parts.narrow, parts.made), *stored, *parts.narrow]
    everything = (*before, *after, *body.closure(parts.narrow, parts.made))
    view = column_view(body, everything, groups, touched, iota, sweep, epilogue)
    return replace(
        view,
        parts=parts_of(body, parts.scans, step, "[k]", " + k"),
        extents={**view.extents, "unroll": str(_rows_at_once(body, ahead))},
    )


def _rows_at_once(body: Body, fids: Sequence[int]) -> int:
    """The rows whose vectors of ``fids`` a thread loads before it uses the first."""
    registers = sum(-(-body.spec.vec * body.value(fid).dtype.bytes // 4) for fid in fids)
    return max(1, min(MOST_ROWS, REGISTERS_OF_ROWS // max(1, registers)))
