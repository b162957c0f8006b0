"""Views of scans and ordered reductions: scan, whose blocks walk rows, and scan_outer, whose threads own columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from fusebuild.kernels.common.lambdas import Folding, combined, folded, foldings
from fusebuild.kernels.common.rows_view import rows_of
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.common.view import KernelView, Lines, Sweep, make_view
from fusebuild.kernels.reduction.outer_view import column_epilogue, column_groups, column_view
from fusebuild.kernels.scan.schedule import ordered
from fusebuild.ops.table import Kind, op_of


class _Parts:
    """A scanning kernel's exprs: what is computed before the scans, and what after them."""

    def __init__(self, body: Body) -> None:
        task = body.task
        self.indices = ordered(task)
        self.scans = [index for index in self.indices if op_of(task.fusion.exprs[index]).kind is Kind.SCAN]
        self.totals = [index for index in self.indices if index not in self.scans]
        self.foldings = foldings(body, self.indices)
        self.components = combined(body, self.indices)
        self.scanned = folded(task, self.scans)
        self.made = folded(task, self.indices)
        reduced = {axis for axis, info in enumerate(body.domain.axes) if info.reduced}
        self.wide = [fid for fid in task.outputs if reduced & {*body.domain.accesses[fid].axes}]
        self.narrow = [fid for fid in task.outputs if fid not in self.wide]

    def scan_results(self, source: Callable[[Folding], str]) -> Lines:
        """The scanned elements by their fids; ``source`` says where a scan's state is."""
        scans = [folding for folding in self.foldings if folding.expr.outputs[0] in self.scanned]
        return tuple(line for folding in scans for line in folding.results(source(folding)))


def scan(spec: KernelSpec) -> KernelView:
    parts = _Parts(Body(spec))
    rows = rows_of(spec, [*parts.components, *spec.task.outputs])
    body = rows.body
    setup, bases = rows.setup(spec.task.outputs)
    known = rows.of_rows
    before = rows.sweep(parts.components, known, rows.global_load)
    after = rows.sweep(parts.wide, [*known, *parts.scanned], rows.global_load)
    first = Sweep(
        coordinates=_once(before.coordinates, after.coordinates),
        loads=_once(before.loads, after.loads),
        vector=_once(before.vector, after.vector),
        arrays=tuple(f"auto {f.item} = fb::states<{f.functor}, kVec>({f.identity});" for f in parts.foldings),
        element=before.element,
        accumulators=tuple(folding.declaration() for folding in parts.foldings),
        accumulate=tuple(f"if (active) {folding.item}[k] = {folding.element};" for folding in parts.foldings),
        stores=tuple(
            f"fb::scan_block<kThreads>(phase, {folding.accumulator}, {folding.item});" for folding in parts.foldings
        ),
    )
    stores = rows.stores(parts.wide)
    results = parts.scan_results(lambda folding: f"{folding.item}[k]")
    second = replace(stores, element=(*results, *after.element, *stores.element))
    ends = tuple(line for folding in foldings(body, parts.totals) for line in folding.results(folding.accumulator))
    epilogue = Sweep(
        results=(*ends, *rows.epilogue(parts.made, 1)) if parts.narrow else (),
        stores=rows.results(parts.narrow),
    )
    return make_view(
        body, rows.exprs, setup=setup, bases=bases, sweeps=(first, second), epilogue=epilogue,
        extents=rows.extents,
    )  # fmt: skip


def _once(first: Lines, second: Lines) -> Lines:
    """The lines of two loops that run as one."""
    return tuple(dict.fromkeys((*first, *second)))


def scan_outer(spec: KernelSpec) -> KernelView:
    body = Body(spec)
    parts = _Parts(body)
    groups = column_groups(spec.domain)
    outer, walked, inner = groups
    last = spec.domain.inner
    before = body.closure(parts.components)
    after = [expr for expr in body.closure(parts.wide, parts.made) if expr not in before]
    reads = tuple(sorted({*body.reads(parts.components), *body.reads(parts.wide, parts.made)}))
    vectors = [fid for fid in reads if body.is_vector(fid)]
    moving = [fid for fid in reads if last in spec.domain.accesses[fid].axes]
    coordinate = body.along(*groups)
    hoisted, early = body.split(before, [last])
    hoisted_after, late = body.split([expr for expr in after if op_of(expr).kind is not Kind.SCAN], [last])
    iota = body.coordinate_axes([*before, *after])
    strided = [fid for fid in parts.wide if not body.is_vector(fid)]
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
            *(folding.combined(f"{folding.accumulator}[k]", folding.element) for folding in parts.foldings),
            *parts.scan_results(lambda folding: f"{folding.accumulator}[k]"),
            *(body.statement(expr, coordinate) for expr in late),
            *(body.element_store(fid, fid in strided, groups, "o") for fid in parts.wide),
        ),
        stores=tuple(
            f"fb::store(T{fid} + {body.offset(fid, groups)}, o{fid});" for fid in parts.wide if fid not in strided
        ),
        accumulators=tuple(folding.column_declaration() for folding in parts.foldings),
    )  # fmt: skip
    totals = tuple(line for f in foldings(body, parts.totals) for line in f.results(f"{f.accumulator}[k]"))
    epilogue = column_epilogue(body, parts.totals, [outer, inner], totals, parts.narrow) if parts.narrow else Sweep()
    touched = [*reads, *body.reads(parts.narrow, parts.made), *spec.task.outputs]
    everything = (*before, *after, *body.closure(parts.narrow, parts.made))
    return column_view(body, everything, groups, touched, iota, sweep, epilogue)
