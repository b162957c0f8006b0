"""The view of reduction_outer, whose threads own columns."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from fusebuild.ir.values import Expr
from fusebuild.kernels.common.batches import batches
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.finish_view import known_after, stores_of
from fusebuild.kernels.common.lambdas import folded, foldings
from fusebuild.kernels.common.spec import KernelSpec, VectorLayout, reductions
from fusebuild.kernels.common.statements import Body, Group
from fusebuild.kernels.common.view import (
    KernelView,
    Lines,
    Sweep,
    accumulate,
    accumulators,
    is_named,
    join,
    make_view,
    read_columns_once,
)
from fusebuild.kernels.reduction.schedule import OuterHeuristics
from fusebuild.kernels.reduction.stores import stored_outputs

NOTHING = Sweep()
INSIDE = "const unsigned inside = fb::inside_of<kVec>(at, size);  // bit k: its element k is one of the rows'"


def column_groups(domain: AxisDomain, walked: Sequence[int] = ()) -> tuple[Group, Group, Group]:
    """The groups ``outer``, ``r`` and ``inner`` of an outer reduction, whose threads walk the axes ``walked``, or all
    reduced ones."""
    reduced = tuple(walked) or domain.reduced
    others = [axis for axis in domain.every if axis not in reduced]
    return (
        Group(name="outer", axes=tuple(axis for axis in others if axis < reduced[0])),
        Group(name="r", axes=reduced),
        Group(name="inner", axes=tuple(axis for axis in others if axis > reduced[-1])),
    )


def reduction_outer(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, OuterHeuristics)
    body = Body(spec)
    groups = column_groups(spec.domain, heuristics.walked)
    outer, reduced, inner = groups
    last = spec.domain.inner
    indices = reductions(spec.task)
    gathered = batches(body, indices, reduced.axes[-1], lambda axis: "r", together="1")
    stored = stored_outputs(spec.task, spec.domain)
    results, operands = folded(spec.task, indices), [*gathered.targets(), *stored]
    exprs, reads = body.closure(operands), body.reads(operands)
    vectors = [fid for fid in reads if body.is_vector(fid)]
    moving = [fid for fid in reads if last in spec.domain.accesses[fid].axes]
    coordinate = body.along(*groups)
    hoisted, inside = body.split(exprs, [last])
    iota = body.coordinate_axes(exprs)
    totals = accumulate(body, indices, "[k]")
    singly = accumulate(body, gathered.singly, "[k]", "is_first")
    sweep = Sweep(
        coordinates=body.coordinates(
            reduced, body.needs_coordinates([*(fid for fid in reads if fid not in vectors), *stored], reduced) | iota
        ),
        vector=(
            *(
                f"const fb::Vec<{body.c_type(fid)}, kVec> v{fid} = fb::unpack({_loaded(body, fid, groups)});"
                for fid in vectors
            ),
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
    sweep = join(_loads(body, vectors, groups), sweep, _stores(body, stored, groups))
    outputs = () if heuristics.always_split else _of_columns(spec)
    touched = [*reads, *body.reads(outputs, results), *outputs, *stored]
    if body.spec.is_shifted:
        epilogue = _of_whole_rows(spec, [outer, inner], indices)
    else:
        epilogue = Sweep() if heuristics.always_split else _results(body, indices, [outer, inner], totals.results)
        if heuristics.is_split:
            epilogue = replace(epilogue, coordinates=_partial_stores(body, groups, indices))
        if heuristics.widest:
            met = accumulators(body, indices)
            epilogue = replace(epilogue, reduce=f"fb::reduce_in_first_block<kThreads, kWidest>(x, y, width, {met})")
    turns = "splits" if heuristics.is_split else "1"
    once = read_columns_once(body, gathered.plain, turns, "last" if spec.is_shifted else "")
    sweep = join(once, sweep, gathered.down_columns(heuristics.unroll))
    if spec.is_shifted:
        firsts = ", ".join(each.argument("[0]") for each in foldings(body, indices))
        sweep = replace(_inside_alone(sweep), reduce=f"fb::reduce_columns_of<kThreads>(x, y, width, height, {firsts});")
    ahead = _in_part(body, vectors, groups) if spec.is_shifted else NOTHING
    exprs = (*exprs, *body.closure(outputs, results))
    return column_view(body, exprs, groups, touched, iota, sweep, epilogue, ahead)


def _of_columns(spec: KernelSpec) -> tuple[int, ...]:
    """The outputs that hold one element a column."""
    stored = stored_outputs(spec.task, spec.domain)
    return tuple(fid for fid in spec.task.outputs if fid not in stored)


def _stores(body: Body, stored: Sequence[int], groups: Sequence[Group]) -> Sweep:
    """Stores of the outputs ``stored``, by vectors where their elements are neighbours."""
    dense = [fid for fid in stored if body.is_vector(fid)]
    single = [fid for fid in stored if fid not in dense]
    return Sweep(
        vector=tuple(f"fb::Vec<{body.c_type(fid)}, kVec> o{fid} = {{}};" for fid in dense),
        element=(
            *(f"o{fid}[k] = {body.own_operand(fid)};" for fid in dense),
            *(f"T{fid}[{_kept_element(body, fid, groups, body.domain.inner)}] = {body.own_operand(fid)};"
              for fid in single),
        ),
        stores=tuple(_to_memory(body, fid, groups) for fid in dense),
    )  # fmt: skip


def _to_memory(body: Body, fid: int, groups: Sequence[Group]) -> str:
    """The store of the current vector of output ``fid``."""
    place = body.offset(fid, groups)
    if body.spec.is_shifted:
        return f"fb::store_inside(T{fid} + {'before + at' if groups[0].axes else 'at'}, o{fid}, inside);"
    if body.spec.vectors is VectorLayout.ANYWHERE:
        return f"fb::store_anywhere_up_to(T{fid} + {place}, o{fid}, columns - inner);"
    return f"fb::store(T{fid} + {place}, o{fid});"


def _inside_alone(sweep: Sweep) -> Sweep:
    """``sweep``, of elements that are the rows'. The vector that a thread reads last is the only one which may have
    others, where that is of any concern: its elements are found by ``joint_stores``."""
    has_last = is_named("last", sweep.merged)
    return replace(
        sweep,
        accumulators=(
            *sweep.accumulators,
            *(("unsigned last = ~0u;  // inside of the last vector",) if has_last else ()),
        ),
        joint_stores=(INSIDE, *(("last = inside;",) if has_last else ())),
    )


def _loads(body: Body, vectors: Sequence[int], groups: Sequence[Group]) -> Sweep:
    """The loads of the tensors ``vectors``. Where nothing but its number is needed to find a row, they step from one to
    the next: none waits for the test of another one, nor multiplies."""
    _, reduced, _ = groups
    loaded = "WordsAround" if body.spec.vectors is VectorLayout.ANYWHERE else "Packed"
    arrays = tuple(f"fb::{loaded}<{body.c_type(fid)}, kVec> c{fid}[kUnroll];" for fid in vectors)
    coordinates = body.coordinates(reduced, body.needs_coordinates(vectors, reduced))
    if coordinates or body.spec.vectors is not VectorLayout.ALIGNED:
        loads = tuple(f"c{fid}[u] = {_from_memory(body, fid, groups)};" for fid in vectors)
        return Sweep(load_coordinates=coordinates, arrays=arrays, loads=loads)
    return Sweep(
        arrays=(*arrays, *(line for fid in vectors for line in _first_row(body, fid, groups))),
        loads=(
            *(f"if (is_there) c{fid}[u] = fb::load_packed<kVec>(r{fid});" for fid in vectors),
            *(f"r{fid} += stride{fid};" for fid in vectors),
        ),
    )


def _first_row(body: Body, fid: int, groups: Sequence[Group]) -> Lines:
    """The lines that say where the first of the rows of tensor ``fid`` lies that a thread loads, and how far the next
    one is."""
    outer, reduced, inner = groups
    access = body.domain.accesses[fid]
    first = body.offset(fid, [outer, replace(reduced, name="top"), inner])
    if set(reduced.axes).isdisjoint(access.axes):
        stride = "0"
    elif body.domain.is_contiguous(access):
        stride = body.step("height", [axis for axis in inner.axes if axis in access.axes])
    else:
        stride = body.offset(fid, [replace(reduced, name="height")])
    return (f"const {body.c_type(fid)}* r{fid} = T{fid} + ({first});", f"const int64_t stride{fid} = {stride};")


def _loaded(body: Body, fid: int, groups: Sequence[Group]) -> str:
    """The current vector of tensor ``fid``, of what was loaded."""
    if body.spec.vectors is not VectorLayout.ANYWHERE:
        return f"c{fid}[u]"
    return f"fb::cut_around(c{fid}[u], Index({body.offset(fid, groups)}))"


def _from_memory(body: Body, fid: int, groups: Sequence[Group]) -> str:
    """The load of the current vector of tensor ``fid``, or of the words around it."""
    if body.spec.vectors is VectorLayout.ANYWHERE:
        size = body.size(body.domain.accesses[fid].axes)
        return f"fb::load_words_around<kVec>(T{fid}, Index({body.offset(fid, groups)}), Index({size}))"
    if not body.spec.is_shifted:
        return f"fb::load_packed<kVec>(T{fid} + {body.offset(fid, groups)})"
    return f"fb::load_packed<kVec>(T{fid} + {'before + at' if groups[0].axes else 'at'})"


def _in_part(body: Body, vectors: Sequence[int], groups: Sequence[Group]) -> Sweep:
    """The loads of the vector at ``part`` of the rows, which the tensors have in part, and what makes it the current
    one."""
    part = "before + part" if groups[0].axes else "part"
    return Sweep(
        vector=tuple(
            f"const fb::Packed<{body.c_type(fid)}, kVec> p{fid} = "
            f"fb::load_packed_up_to<kVec>(T{fid} + {part}, readable - part);"
            for fid in vectors
        ),
        loads=tuple(f"c{fid}[u] = p{fid};" for fid in vectors),
    )


def _results(body: Body, indices: Sequence[int], groups: Sequence[Group], results: Lines) -> Sweep:
    """What follows the reductions: outputs whose columns are neighbours in memory are stored by vectors."""
    outputs, last, accesses = _of_columns(body.spec), body.domain.inner, body.domain.accesses
    epilogue = _loaded_before(body, indices, groups, column_epilogue(body, indices, groups, results, outputs))
    is_whole = body.spec.vec > 1 and body.spec.vectors is VectorLayout.ALIGNED
    vectors = outputs if is_whole else ()
    dense = [fid for fid in vectors if body.is_vector(fid) and last in accesses[fid].axes]
    single = [f"T{fid}[{_kept_element(body, fid, groups, last)}] =" for fid in dense]
    element = epilogue.element
    for fid, store in zip(dense, single, strict=True):
        element = tuple(line.replace(store, f"o{fid}[k] =") if line.startswith(store) else line for line in element)
    return replace(
        epilogue,
        arrays=(*epilogue.arrays, *(f"fb::Vec<{body.c_type(fid)}, kVec> o{fid};" for fid in dense)),
        element=element,
        stores=tuple(f"fb::store(T{fid} + {body.offset(fid, groups)}, o{fid});" for fid in dense),
    )


def _loaded_before(body: Body, indices: Sequence[int], groups: Sequence[Group], epilogue: Sweep) -> Sweep:
    """``epilogue``, what it reads of columns loaded by ``loads`` into vectors before threads' results meet: stores may
    be to the same memory, and each load would wait for those before it."""
    reads, last = body.reads(_of_columns(body.spec), folded(body.task, indices)), body.domain.inner
    places = {fid: f"T{fid}[{_kept_element(body, fid, groups, last)}]" for fid in reads}
    loaded = {body.scalar_load(fid, place): body.scalar_load(fid, f"q{fid}[k]") for fid, place in places.items()}
    return replace(
        epilogue,
        vector=tuple(f"{body.c_type(fid)} q{fid}[kVec];" for fid in reads),
        loads=tuple(f"q{fid}[k] = {place};" for fid, place in places.items()),
        element=tuple(loaded.get(line, line) for line in epilogue.element),
    )


def _partial_stores(body: Body, groups: Sequence[Group], indices: Sequence[int]) -> Lines:
    """Stores of the partial results of column ``k``."""
    place: Lines = ("const int64_t place = int64_t(split) * all * kVec + vector * kVec + k;",)
    if body.spec.vectors is VectorLayout.ANYWHERE:
        outer = groups[0]
        part = f"{body.step('split', outer.axes)} + outer" if outer.axes else "int64_t(split)"
        place = (f"const int64_t place = ({part}) * columns + inner + k;",)
    beside = [axis for axis in groups[2].axes if axis in body.domain.reduced]
    if beside:
        kept = [axis for axis in groups[2].axes if axis not in beside]
        place = (
            "const Index element = inner + k;",
            f"const Index beside = {body.size(beside)};  // neighbours that are of one result",
            "const int64_t part = int64_t(split) * beside + element % beside;",
            f"const int64_t place = part * {body.size(kept)} + element / beside;",
        )
    stores = (line for folding in foldings(body, indices) for line in folding.partial_stores("place", "[k]"))
    return (*place, *stores)


def _of_whole_rows(spec: KernelSpec, groups: Sequence[Group], indices: Sequence[int]) -> Sweep:
    """What follows where vectors lie across rows: what a column has in every ``kVec``-th row meets in shared memory,
    where ``coordinates`` write it and ``merged`` combines what each thread's row of vectors has of its column. Those of
    the first row meet in ``results``: they are stored as partial results by ``element``, or what follows from them by
    ``stores``. What is needed for that is loaded before, by ``loads``."""
    body, results = Body(replace(spec, vec=1, vectors=VectorLayout.ALIGNED)), folded(spec.task, indices)
    heuristics = spec.heuristics
    assert isinstance(heuristics, OuterHeuristics)
    outer, column = groups[0], replace(groups[1], name="column")
    own, outputs = foldings(body, indices), _of_columns(spec)
    places = {each: f"folded{each.expr.outputs[0]}" for each in own}
    part = f"({body.step('split', outer.axes)} + outer)" if outer.axes else "int64_t(split)"
    writes = "writes" if heuristics.is_split else "y == 0 && has_columns"
    setup, loads, statements = known_after(body, [outer, column], outputs, results, outputs, writes)
    return Sweep(
        arrays=tuple(f"FUSEBUILD_SHARED({each.c_type}, {place}, kThreads * kVec);" for each, place in places.items()),
        loads=(*setup, *loads),
        coordinates=(
            f"const Index element = {'start + k < 0 ? start + k + period : start + k' if outer.axes else 'start + k'};",
            *(f"{place}[beside + element] = {each.accumulator}[k];" for each, place in places.items()),
        ),
        merged=tuple(
            f"a{each.expr.outputs[0]}[0] = fb::combine_apart<{each.functor}, kVec>({place} + beside + column, columns);"
            for each, place in places.items()
        ),
        element=(
            f"const int64_t place = {part} * columns + column;",
            *(line for each in own for line in each.partial_stores("place", "[0]")),
        ),
        results=accumulate(body, indices, "[0]").results,
        stores=(*statements, *stores_of(body, [outer, column], outputs)),
    )


def column_view(
    body: Body,
    exprs: Sequence[Expr],
    groups: Sequence[Group],
    touched: Sequence[int],
    counted: Set[int],
    sweep: Sweep,
    epilogue: Sweep,
    ahead: Sweep = NOTHING,
) -> KernelView:
    """The view of a kernel of ``exprs`` whose threads own columns, which are found before its ``sweep``: as far as
    accesses to the tensors ``touched`` need it, and on the axes ``counted``. ``ahead`` loads what the others leave."""
    outer, _, inner = groups
    setup = tuple(
        line
        for group in (outer, inner)
        for line in body.coordinates(group, body.needs_coordinates(touched, group) | counted)
    )
    sizes = {name: body.size(group.axes) for name, group in zip(("outer", "depth", "inner"), groups, strict=True)}
    return make_view(body, exprs, setup=setup, sweeps=(sweep,), epilogue=epilogue, extents=sizes, ahead=ahead)


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
