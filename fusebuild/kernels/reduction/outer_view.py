"""The view of reduction_outer, whose threads own columns."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from fusebuild.ir.values import Expr
from fusebuild.kernels.common.batches import batches
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.lambdas import folded, foldings
from fusebuild.kernels.common.spec import KernelSpec, reductions
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.view import (
    KernelView,
    Lines,
    Sweep,
    accumulate,
    accumulators,
    join,
    make_view,
    read_columns_once,
)
from fusebuild.kernels.reduction.schedule import OuterHeuristics

INSIDE = "const unsigned inside = fb::inside_of<kVec>(at, size);  // bit k: its element k is one of the rows'"


def column_groups(domain: AxisDomain) -> tuple[Group, Group, Group]:
    """The groups ``outer``, ``r`` and ``inner`` of an outer reduction."""
    reduced = domain.reduced
    kept = domain.kept
    return (
        Group(name="outer", axes=tuple(axis for axis in kept if axis < reduced[0])),
        Group(name="r", axes=reduced),
        Group(name="inner", axes=tuple(axis for axis in kept if axis > reduced[-1])),
    )


def reduction_outer(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, OuterHeuristics)
    body = Body(spec)
    groups = column_groups(spec.domain)
    outer, reduced, inner = groups
    last = spec.domain.inner
    indices = reductions(spec.task)
    gathered = batches(body, indices, reduced.axes[-1], lambda axis: "r", together="1")
    results, operands = folded(spec.task, indices), gathered.targets()
    exprs, reads = body.closure(operands), body.reads(operands)
    vectors = [fid for fid in reads if body.is_vector(fid)]
    moving = [fid for fid in reads if last in spec.domain.accesses[fid].axes]
    coordinate = body.along(*groups)
    hoisted, inside = body.split(exprs, [last])
    iota = body.coordinate_axes(exprs)
    totals = accumulate(body, indices, "[k]")
    singly = accumulate(body, gathered.singly, "[k]", "is_first")
    sweep = Sweep(
        load_coordinates=body.coordinates(reduced, body.needs_coordinates(vectors, reduced)),
        coordinates=body.coordinates(
            reduced, body.needs_coordinates([fid for fid in reads if fid not in vectors], reduced) | iota
        ),
        arrays=tuple(f"fb::Packed<{body.c_type(fid)}, kVec> c{fid}[kUnroll];" for fid in vectors),
        loads=tuple(f"c{fid}[u] = {_from_memory(body, fid, groups)};" for fid in vectors),
        vector=(
            *(f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::unpack(c{fid}[u]);" for fid in vectors),
            *(body.scalar_load(fid, f"T{fid}[{body.offset(fid, groups)}]") for fid in reads if fid not in moving),
            *(body.statement(expr, coordinate) for expr in hoisted),
        ),
        element=(
            *(f"const {body.c_type(fid)} t{fid} = v{fid}[k];" for fid in vectors),
            *(body.strided_load(fid, groups) for fid in moving if fid not in vectors),
            *(body.statement(expr, coordinate) for expr in inside),
        ),
        accumulate=singly.accumulate,
        reduce=f"fb::reduce_columns_of<kThreads>(x, y, width, height, {accumulators(body, indices)});",
    )
    outputs = () if spec.is_shifted else spec.task.outputs
    touched = [*reads, *body.reads(outputs, results), *outputs]
    epilogue = Sweep() if spec.is_shifted else _results(body, indices, [outer, inner], totals.results)
    if heuristics.is_split:
        epilogue = replace(epilogue, coordinates=_partial_stores(body, groups, indices))
    turns = "splits" if heuristics.is_split else "1"
    sweep = join(read_columns_once(body, gathered.plain, turns), sweep, gathered.down_columns(heuristics.unroll))
    if spec.is_shifted:
        inside_alone = tuple(f"if (fb::is_inside(inside, k)) {line}" for line in sweep.accumulate)
        sweep = replace(sweep, coordinates=(*sweep.coordinates, INSIDE), accumulate=inside_alone)
    return column_view(body, (*exprs, *body.closure(outputs, results)), groups, touched, iota, sweep, epilogue)


def _from_memory(body: Body, fid: int, groups: Sequence[Group]) -> str:
    """The current vector of tensor ``fid``."""
    if not body.spec.is_shifted:
        return f"fb::load_packed<kVec>(T{fid} + {body.offset(fid, groups)})"
    if groups[0].axes:
        return f"fb::load_packed_up_to<kVec>(T{fid} + before + at, readable - at)"
    return f"fb::load_packed_up_to<kVec>(T{fid} + at, size - at)"


def _results(body: Body, indices: Sequence[int], groups: Sequence[Group], results: Lines) -> Sweep:
    """What follows the reductions: outputs whose columns are neighbours in memory are stored by vectors."""
    outputs, last, accesses = body.task.outputs, body.domain.inner, body.domain.accesses
    epilogue = column_epilogue(body, indices, groups, results, outputs)
    vectors = outputs if body.spec.vec > 1 else ()
    dense = [fid for fid in vectors if body.is_vector(fid) and last in accesses[fid].axes]
    single = [f"T{fid}[{_kept_element(body, fid, groups, last)}] =" for fid in dense]
    element = epilogue.element
    for fid, store in zip(dense, single, strict=True):
        element = tuple(line.replace(store, f"o{fid}[k] =") if line.startswith(store) else line for line in element)
    return Sweep(
        arrays=tuple(f"fb::Vec<{body.c_type(fid)}, kVec> o{fid};" for fid in dense),
        element=element,
        stores=tuple(f"fb::store(T{fid} + {body.offset(fid, groups)}, o{fid});" for fid in dense),
    )


def _partial_stores(body: Body, groups: Sequence[Group], indices: Sequence[int]) -> Lines:
    """Stores of the partial results of column ``k``. Vectors that lie across rows leave one of every ``kVec``-th row,
    in the place of a block of its own."""
    place: Lines = ("const int64_t place = int64_t(split) * all * kVec + vector * kVec + k;",)
    if body.spec.is_shifted:
        outer = groups[0]
        part = "int64_t(split) * kVec + row"
        part = f"{body.step(f'({part})', outer.axes)} + outer" if outer.axes else part
        found = "start + k < 0 ? start + k + period : start + k" if outer.axes else "start + k"
        place = (
            f"const Index element = {found};",
            "const Index row = element / columns;",
            f"const int64_t place = ({part}) * columns + element % columns;",
        )
    stores = (line for folding in foldings(body, indices) for line in folding.partial_stores("place", "[k]"))
    return (*place, *stores)


def column_view(
    body: Body,
    exprs: Sequence[Expr],
    groups: Sequence[Group],
    touched: Sequence[int],
    counted: Set[int],
    sweep: Sweep,
    epilogue: Sweep,
) -> KernelView:
    """The view of a kernel of ``exprs`` whose threads own columns, which are found before its ``sweep``: as far as
    accesses to the tensors ``touched`` need it, and on the axes ``counted``."""
    outer, _, inner = groups
    setup = tuple(
        line
        for group in (outer, inner)
        for line in body.coordinates(group, body.needs_coordinates(touched, group) | counted)
    )
    sizes = {name: body.size(group.axes) for name, group in zip(("outer", "depth", "inner"), groups, strict=True)}
    return make_view(body, exprs, setup=setup, sweeps=(sweep,), epilogue=epilogue, extents=sizes)


def column_epilogue(
    body: Body, indices: Sequence[int], groups: Sequence[Group], results: Lines, outputs: Sequence[int]
) -> Sweep:
    """Per column: what follows the reductions, then the stores. Kept tensors are read element by element."""
    reduced = folded(body.task, indices)
    last = max((axis for group in groups for axis in group.axes), default=0)
    coordinate = body.along(*groups)
    exprs = [expr for expr in body.closure(outputs, reduced) if not body.is_scalar(expr.outputs[0])]
    return Sweep(
        element=(
            *results,
            *(body.scalar_load(fid, f"T{fid}[{_kept_element(body, fid, groups, last)}]")
              for fid in body.reads(outputs, reduced)),
            *(body.statement(expr, coordinate) for expr in exprs),
            *(f"T{fid}[{_kept_element(body, fid, groups, last)}] = {body.own_operand(fid)};"
              for fid in outputs),
        )
    )  # fmt: skip


def _kept_element(body: Body, fid: int, groups: Sequence[Group], last: int) -> str:
    """The offset of column ``k`` of a tensor on the kept axes."""
    offset = body.offset(fid, groups)
    access = body.domain.accesses[fid]
    if last not in access.axes or body.spec.vec == 1:
        return offset
    if body.domain.is_contiguous(access):
        return f"{offset} + k"
    return body.strided_element(fid, groups)
