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
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, accumulate, accumulators, join, make_view
from fusebuild.kernels.reduction.outer_view import column_epilogue, column_groups, column_view
from fusebuild.kernels.scan.schedule import has_rows, ordered, walks
from fusebuild.ops.table import Kind, op_of


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
    everything = [*combined(parts.body, (*parts.indices, *parts.reduced)), *spec.task.outputs]
    rows = rows_of(spec, everything)
    setup, bases = rows.setup(spec.task.outputs)
    walker = _Walker(rows, parts)
    last = walks(spec.task, spec.domain) - 1
    sweeps = [sweep for at in range(last + 1) for sweep in walker.walk(at, parts.wide if at == last else [])]
    results, sweeps[-1] = sweeps[-1].results, replace(sweeps[-1], results=())
    epilogue = Sweep(results=results if parts.narrow else (), stores=rows.results(parts.narrow))
    return make_view(
        rows.body, rows.exprs, setup=setup, bases=bases, sweeps=tuple(sweeps), epilogue=epilogue, extents=rows.extents
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

    def _scans(self, targets: list[int]) -> list[int]:
        """The scans that ``targets`` follow from within the row."""
        made = {fid for expr in self._body.closure(targets, self._rows.of_rows) for fid in expr.outputs}
        return [index for index in self._parts.scans if not made.isdisjoint(self._body.fusion.exprs[index].outputs)]

    def _first(self, own: list[int], before: Sweep, after: Sweep) -> Sweep:
        """Loads of a tile, and what is combined in order."""
        own_foldings = foldings(self._body, own)
        return Sweep(
            coordinates=_once(before.coordinates, after.coordinates),
            loads=_once(before.loads, after.loads),
            vector=_once(before.vector, after.vector),
            arrays=tuple(f"auto {f.item} = fb::states<{f.functor}, kVec>({f.identity});" for f in own_foldings),
            element=before.element,
            accumulators=tuple(each.declaration() for each in own_foldings),
            accumulate=tuple(f"if (active) {each.item}[k] = {each.element};" for each in own_foldings),
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
    last = spec.domain.inner
    scanned = folded(spec.task, parts.scans)
    in_order, in_any_order = foldings(body, parts.indices), foldings(body, parts.reduced)
    components = combined(body, parts.indices)
    wide = [*combined(body, parts.reduced), *parts.wide]
    before = body.closure(components)
    after = [expr for expr in body.closure(wide, parts.made) if expr not in before]
    reads = tuple(sorted({*body.reads(components), *body.reads(wide, parts.made)}))
    vectors = [fid for fid in reads if body.is_vector(fid)]
    moving = [fid for fid in reads if last in spec.domain.accesses[fid].axes]
    coordinate = body.along(*groups)
    hoisted, early = body.split(before, [last])
    hoisted_after, late = body.split([expr for expr in after if op_of(expr).kind is not Kind.SCAN], [last])
    iota = body.coordinate_axes([*before, *after])
    strided = [fid for fid in parts.wide if not body.is_vector(fid)]
    scans = [each for each in in_order if each.expr.outputs[0] in scanned]
    sweep = Sweep(
        coordinates=body.coordinates(walked, body.needs_coordinates([*reads, *parts.wide], walked) | iota),
        loads=tuple(body.vector_load(fid, groups) for fid in vectors),
        vector=(
            *(body.scalar_load(fid, f"T{fid}[{body.offset(fid, groups)}]") for fid in reads if fid not in moving),
            *(body.statement(expr, coordinate) for expr in (*hoisted, *hoisted_after)),
            *(f"fb::Vec<{body.c_type(fid)}, kVec> o{fid};" for fid in parts.wide if fid not in strided),
        ),
        element=(
            *(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in vectors),
            *(body.strided_load(fid, groups) for fid in moving if fid not in vectors),
            *(body.statement(expr, coordinate) for expr in early),
            *(folding.combined(f"{folding.accumulator}[k]", folding.element) for folding in in_order),
            *(line for folding in scans for line in folding.results(f"{folding.accumulator}[k]")),
            *(body.statement(expr, coordinate) for expr in late),
            *(folding.combined(f"{folding.accumulator}[k]", folding.element) for folding in in_any_order),
            *(body.element_store(fid, fid in strided, groups, "o") for fid in parts.wide),
        ),
        stores=tuple(
            f"fb::store(T{fid} + {body.offset(fid, groups)}, o{fid});" for fid in parts.wide if fid not in strided
        ),
        accumulators=tuple(folding.column_declaration() for folding in (*in_order, *in_any_order)),
    )  # fmt: skip
    ends = [*parts.totals, *parts.reduced]
    totals = tuple(line for f in foldings(body, ends) for line in f.results(f"{f.accumulator}[k]"))
    epilogue = column_epilogue(body, ends, [outer, inner], totals, parts.narrow) if parts.narrow else Sweep()
    touched = [*reads, *body.reads(parts.narrow, parts.made), *spec.task.outputs]
    everything = (*before, *after, *body.closure(parts.narrow, parts.made))
    return column_view(body, everything, groups, touched, iota, sweep, epilogue)
