"""From a KernelSpec to the one frozen KernelView that a template fills in.

Every decision is made here or before; a template only places the lines. Each family has one function below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fusebuild.body import Body, Group
from fusebuild.ir import Expr
from fusebuild.ops import op_of
from fusebuild.schedule.domain import AxisDomain
from fusebuild.schedule.inner_persistent import PersistentHeuristics
from fusebuild.schedule.kernel import KernelSpec, reductions
from fusebuild.schedule.reduction import FinishHeuristics, InnerHeuristics, OuterHeuristics
from fusebuild.schedule.rows import kept_axes, levels, reduced_axes

Lines = tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One walk over a row or a column: what is loaded, computed per vector and per element, accumulated and stored."""

    load_coordinates: Lines = ()
    coordinates: Lines = ()
    arrays: Lines = ()
    loads: Lines = ()
    vector: Lines = ()
    element: Lines = ()
    stores: Lines = ()
    accumulators: Lines = ()
    accumulate: Lines = ()
    reduce: str = ""
    results: Lines = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelView:
    """Everything a template reads. ``parameters`` are ``(declaration, comment)``; ``setup`` runs before any sweep."""

    template: str
    index: str
    vec: int
    parameters: tuple[tuple[str, str], ...]
    heuristics: object
    extents: dict[str, str]
    scalars: Lines
    setup: Lines
    sweeps: tuple[Sweep, ...]
    epilogue: Sweep
    bases: Lines = ()


def view_of(spec: KernelSpec) -> KernelView:
    """The view of ``spec``, by its template."""
    return _VIEWS[spec.template](spec)


def _view(spec: KernelSpec, body: Body, exprs: Iterable[Expr], **parts: object) -> KernelView:
    """The fields that every family fills in the same way."""
    defaults: dict[str, object] = {"setup": (), "sweeps": (), "epilogue": Sweep(), "extents": {}}
    return KernelView(
        template=spec.template,
        index=spec.index,
        vec=spec.vec,
        parameters=tuple((parameter.declaration, parameter.comment) for parameter in spec.parameters),
        heuristics=spec.heuristics,
        scalars=body.scalar_statements(exprs),
        **(defaults | parts),  # type: ignore[arg-type]
    )


def _product(body: Body, axes: Sequence[int]) -> str:
    """The number of points of ``axes`` as a C expression."""
    return " * ".join(body.extents[axis] for axis in axes) or "1"


def _is_vector(body: Body, fid: int) -> bool:
    """True when tensor ``fid`` is loaded and stored by vectors along the innermost axis."""
    domain = body.domain
    return (
        bool(domain.axes)
        and len(domain.axes) - 1 in domain.accesses[fid].axes
        and domain.is_contiguous(domain.accesses[fid])
    )


def _scalar_load(body: Body, fid: int, address: str) -> str:
    return f"const {body.c_type(fid)} t{fid} = {address};  // {body.value(fid).name}"


def _pointwise(spec: KernelSpec) -> KernelView:
    body = Body(spec)
    inner = len(spec.domain.axes) - 1
    group = Group(name="i", axes=tuple(range(len(spec.domain.axes))))
    outputs = spec.task.outputs
    exprs = body.closure(outputs)
    reads = body.reads(outputs)
    moving = [fid for fid in reads if inner in spec.domain.accesses[fid].axes]
    vectors = [fid for fid in moving if _is_vector(body, fid)]
    strided = [fid for fid in (*moving, *outputs) if fid not in vectors and not _is_vector(body, fid)]
    hoisted, element = body.split(exprs, [inner])
    unloaded = [fid for fid in (*reads, *outputs) if fid not in vectors]
    needed = body.needs_coordinates(unloaded, group) | _iota_axes(body, exprs)
    coordinate = _element_coordinate(body, [group], inner, spec.vec)
    sweep = Sweep(
        load_coordinates=body.coordinates(group, body.needs_coordinates(vectors, group)),
        coordinates=body.coordinates(group, needed),
        arrays=tuple(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid}[kUnroll];" for fid in vectors),
        loads=tuple(f"v{fid}[u] = fb::load<kVec>(T{fid} + {body.offset(fid, [group])});" for fid in vectors),
        vector=(
            *(_scalar_load(body, fid, f"T{fid}[{body.offset(fid, [group])}]") for fid in reads if fid not in moving),
            *(body.statement(expr, coordinate) for expr in hoisted),
            *(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid};" for fid in outputs if fid not in strided),
        ),
        element=(
            *(f"const {body.c_type(fid)} t{fid} = v{fid}[u][k];" for fid in vectors),
            *(_strided_load(body, fid, [group], inner) for fid in moving if fid in strided),
            *(body.statement(expr, coordinate) for expr in element),
            *(_element_store(body, fid, fid in strided, [group], inner) for fid in outputs),
        ),
        stores=tuple(
            f"fb::store(T{fid} + {body.offset(fid, [group])}, v{fid});" for fid in outputs if fid not in strided
        ),
    )
    return _view(spec, body, exprs, sweeps=(sweep,), extents={"total": _product(body, group.axes)})


def _iota_axes(body: Body, exprs: Iterable[Expr]) -> set[int]:
    """Axes whose coordinate an iota among ``exprs`` reads."""
    iotas = [expr.outputs[0] for expr in exprs if expr.op == "iota"]
    return {axis for fid in iotas for axis in body.axes_of(fid)}


def _element_coordinate(body: Body, groups: Sequence[Group], inner: int, vec: int) -> Callable[[int], str]:
    """Coordinates inside the loop over a vector's elements, where the innermost one moves with ``k``."""

    def coordinate(axis: int) -> str:
        group = next(group for group in groups if axis in group.axes)
        text = body.coordinate(group, axis)
        return f"{text} + k" if axis == inner and vec > 1 else text

    return coordinate


def _strided_load(body: Body, fid: int, groups: Sequence[Group], inner: int) -> str:
    return _scalar_load(body, fid, f"T{fid}[{_strided_element(body, fid, groups, inner)}]")


def _strided_element(body: Body, fid: int, groups: Sequence[Group], inner: int) -> str:
    """The offset of element ``k`` of a vector whose elements are not neighbours in memory."""
    offset = body.offset(fid, groups)
    access = body.domain.accesses[fid]
    if inner not in access.axes or body.spec.vec == 1:
        return offset
    stride = access.strides[inner]
    return f"{offset} + k * {stride if isinstance(stride, int) else f'T{fid}_stride{inner}'}"


def _element_store(body: Body, fid: int, strided: bool, groups: Sequence[Group], inner: int) -> str:
    """Put the element of an output where it belongs: into its vector, or into memory when that is strided."""
    text = body.operand(fid, body.value(fid).dtype)
    if strided:
        return f"T{fid}[{_strided_element(body, fid, groups, inner)}] = {text};"
    return f"v{fid}[k] = {text};"


def _accumulate(body: Body, indices: Sequence[int], subscript: str = "") -> Sweep:
    """The accumulators of the reductions at ``indices``: declarations, updates and results."""
    declarations, updates, results = [], [], []
    for index in indices:
        expr = body.fusion.exprs[index]
        fid, functor = expr.outputs[0], op_of(expr).functor
        dtype, c_type = body.value(fid).dtype, body.c_type(fid)
        declarations.append(f"{c_type} a{fid} = fb::{functor}::identity<{c_type}>();")
        accumulator = f"a{fid}{subscript}"
        updates.append(f"{accumulator} = fb::{functor}::combine({accumulator}, {body.operand(expr.inputs[0], dtype)});")
        results.append(f"const {c_type} t{fid} = {accumulator};{body.comment(body.value(fid), expr)}")
    return Sweep(accumulators=tuple(declarations), accumulate=tuple(updates), results=tuple(results))


def _accumulators(body: Body, indices: Sequence[int]) -> str:
    """The arguments of a joint reduction: ``fb::accumulator<fb::Sum>(a5), …``."""
    exprs = [body.fusion.exprs[index] for index in indices]
    return ", ".join(f"fb::accumulator<fb::{op_of(expr).functor}>(a{expr.outputs[0]})" for expr in exprs)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """A row kernel's two groups of axes and what has to be in place before its first sweep."""

    body: Body
    row: Group
    column: Group
    reads: tuple[int, ...]
    exprs: tuple[Expr, ...]

    @property
    def inner(self) -> int:
        return len(self.body.domain.axes) - 1

    def is_column(self, fid: int) -> bool:
        """True for values that change along the row."""
        return bool(self.body.axes_of(fid) & {*self.column.axes})

    def has_columns(self, fid: int) -> bool:
        """True for tensors in memory that change along the row."""
        return bool({*self.body.domain.accesses[fid].axes} & {*self.column.axes})


def _rows(spec: KernelSpec, targets: Sequence[int], outputs: Sequence[int]) -> _Rows:
    body = Body(spec)
    return _Rows(
        body=body,
        row=Group(name="row", axes=kept_axes(spec.domain)),
        column=Group(name="col", axes=reduced_axes(spec.domain)),
        reads=body.reads([*targets, *outputs]),
        exprs=body.closure([*targets, *outputs]),
    )


def _row_setup(rows: _Rows, outputs: Sequence[int], level: dict[int, int]) -> tuple[Lines, Lines]:
    """``(coordinates and statistics of the row, base addresses)`` before the first sweep."""
    body = rows.body
    touched = [*rows.reads, *outputs]
    needed = body.needs_coordinates(touched, rows.row) | (_iota_axes(body, rows.exprs) & {*rows.row.axes})
    loads = [fid for fid in rows.reads if not rows.has_columns(fid)]
    still, _ = body.split(rows.exprs, rows.column.axes)
    lines = (
        *body.coordinates(rows.row, needed),
        *(_scalar_load(body, fid, f"T{fid}[{body.offset(fid, [rows.row])}]") for fid in loads),
        *(body.statement(expr, lambda axis: body.coordinate(rows.row, axis)) for expr in still
          if not level.get(expr.outputs[0], 0)),
    )  # fmt: skip
    bases = []
    for fid in (fid for fid in touched if rows.has_columns(fid)):
        const = "" if fid in outputs else "const "
        base = body.base(fid, [rows.row], rows.column.axes)
        address = f"T{fid}" if base == "0" else f"T{fid} + {base}"
        bases.append(f"{const}{body.c_type(fid)}* r{fid} = {address};")
    return lines, tuple(bases)


def _row_sweep(
    rows: _Rows, targets: Sequence[int], available: Sequence[int], loads: Callable[[int], Lines], element: str
) -> Sweep:
    """One sweep over the columns that computes ``targets``. ``loads`` gives the lines that fetch an input's vector,
    ``element`` how an element is taken from it (a format of the fid)."""
    body = rows.body
    exprs = [expr for expr in body.closure(targets, available) if rows.is_column(expr.outputs[0])]
    reads = [fid for fid in body.reads(targets, available) if rows.has_columns(fid)]
    vectors = [fid for fid in reads if _is_vector(body, fid)]
    moving = [fid for fid in reads if rows.inner in body.domain.accesses[fid].axes]
    hoisted, inside = body.split(exprs, [rows.inner])
    coordinate = _element_coordinate(body, [rows.row, rows.column], rows.inner, body.spec.vec)
    needed = body.needs_coordinates(reads, rows.column) | (_iota_axes(body, exprs) & {*rows.column.axes})
    needed |= body.needs_coordinates([fid for fid in targets if fid in body.domain.accesses], rows.column)
    return Sweep(
        coordinates=body.coordinates(rows.column, needed),
        loads=tuple(line for fid in vectors for line in loads(fid)),
        vector=(
            *(_scalar_load(body, fid, f"r{fid}[{body.offset(fid, [rows.column])}]")
              for fid in reads if fid not in moving),
            *(body.statement(expr, coordinate) for expr in hoisted),
        ),
        element=(
            *(f"const {body.c_type(fid)} t{fid} = {element.format(fid)};" for fid in vectors),
            *(_row_element_load(rows, fid) for fid in moving if fid not in vectors),
            *(body.statement(expr, coordinate) for expr in inside),
        ),
    )  # fmt: skip


def _row_element_load(rows: _Rows, fid: int) -> str:
    offset = _strided_element(rows.body, fid, [rows.column], rows.inner)
    return _scalar_load(rows.body, fid, f"r{fid}[{offset}]")


def _row_stores(rows: _Rows, outputs: Sequence[int], vec_suffix: str = "") -> Sweep:
    """Stores of outputs that change along the row."""
    body = rows.body
    strided = [fid for fid in outputs if not _is_vector(body, fid)]
    group = [rows.column]
    return Sweep(
        vector=tuple(f"fb::Vec<{body.c_type(fid)}, kVec> o{fid};" for fid in outputs if fid not in strided),
        element=tuple(
            f"r{fid}[{_strided_element(body, fid, group, rows.inner)}] = {body.operand(fid, body.value(fid).dtype)};"
            if fid in strided
            else f"o{fid}[k] = {body.operand(fid, body.value(fid).dtype)};"
            for fid in outputs
        ),
        stores=tuple(
            f"fb::store(r{fid} + {body.offset(fid, group)}, o{fid});" for fid in outputs if fid not in strided
        ),
    )


def _join(first: Sweep, *others: Sweep) -> Sweep:
    """The sweeps' lines one after another, field by field."""
    fields = (
        "load_coordinates",
        "coordinates",
        "arrays",
        "loads",
        "vector",
        "element",
        "stores",
        "accumulators",
        "accumulate",
        "results",
    )
    joined = {name: tuple(line for sweep in (first, *others) for line in getattr(sweep, name)) for name in fields}
    return Sweep(reduce="".join(sweep.reduce for sweep in (first, *others)), **joined)


def _row_epilogue(rows: _Rows, done: Iterable[int], level: dict[int, int], at: int) -> Lines:
    """Values of the row that follow from the reductions of level ``at``."""
    still, _ = rows.body.split(rows.exprs, rows.column.axes)
    finished = set(done)
    return tuple(
        rows.body.statement(expr) for expr in still if level[expr.outputs[0]] == at and expr.outputs[0] not in finished
    )


def _row_results(rows: _Rows, outputs: Sequence[int]) -> Lines:
    """Stores of outputs that hold one element a row."""
    body = rows.body
    return tuple(
        f"T{fid}[{body.offset(fid, [rows.row])}] = {body.operand(fid, body.value(fid).dtype)};" for fid in outputs
    )


def _inner_persistent(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, PersistentHeuristics)
    outputs = spec.task.outputs
    indices = reductions(spec.task)
    level = levels(spec.task)
    rows = _rows(spec, [spec.task.fusion.exprs[index].outputs[0] for index in indices], outputs)
    body = rows.body
    wide = [fid for fid in outputs if rows.has_columns(fid)]
    setup, bases = _row_setup(rows, outputs, level)
    loader = _Loader(rows=rows, heuristics=heuristics)
    sweeps: list[Sweep] = []
    known = [expr.outputs[0] for expr in rows.exprs if not rows.is_column(expr.outputs[0])]
    for at in range(1, max(level[body.fusion.exprs[index].outputs[0]] for index in indices) + 1):
        own = [index for index in indices if level[body.fusion.exprs[index].outputs[0]] == at]
        operands = [body.fusion.exprs[index].inputs[0] for index in own]
        sweep = _row_sweep(rows, operands, known, loader.lines, loader.element)
        reduced = [body.fusion.exprs[index].outputs[0] for index in own]
        accumulate = _accumulate(body, own)
        results = (*accumulate.results, *_row_epilogue(rows, reduced, level, at))
        reduce = f"fb::reduce_row<kThreadsPerRow, kRowsPerBlock>({_accumulators(body, own)});"
        parts = Sweep(accumulators=accumulate.accumulators, accumulate=accumulate.accumulate, results=results)
        sweeps.append(_join(sweep, parts, Sweep(reduce=reduce)))
    if wide:
        final = _row_sweep(rows, wide, known, loader.lines, loader.element)
        sweeps.append(_join(final, _row_stores(rows, wide)))
    narrow = _row_results(rows, [fid for fid in outputs if fid not in wide])
    return _view(
        spec, body, rows.exprs,
        setup=setup, bases=bases, sweeps=tuple(sweeps), epilogue=Sweep(stores=narrow, arrays=loader.arrays(),
                                                                       loads=loader.first()),
        extents={"rows": _product(body, rows.row.axes), "columns": _product(body, rows.column.axes)},
    )  # fmt: skip


class _Loader:
    """How a row kernel's sweeps fetch vectors: from registers, from shared memory, or from global memory each time."""

    def __init__(self, rows: _Rows, heuristics: PersistentHeuristics) -> None:
        self._rows, self._heuristics = rows, heuristics
        self._in_shared: set[int] = set()
        self.element = "v{0}[k]"

    def arrays(self) -> Lines:
        """Declarations of what is kept on chip."""
        body, cached = self._rows.body, self._heuristics.cached
        if self._heuristics.storage == "registers":
            return tuple(f"fb::Vec<{body.c_type(fid)}, kVec> c{fid}[kChunks];" for fid in cached)
        if self._heuristics.storage == "reread":
            return ()
        lines, start = [], ""
        for fid in cached:
            lines.append(f"auto* c{fid} = {start or 'fb::dynamic_shared<char>()'};")
            c_type = body.c_type(fid)
            lines[-1] = f"{c_type}* c{fid} = reinterpret_cast<{c_type}*>({start or 'fb::dynamic_shared<char>()'});"
            start = f"c{fid} + {_product(body, self._rows.column.axes)}"
        return tuple(lines)

    def first(self) -> Lines:
        """Loads of the whole row into registers, all in flight before the first is used."""
        if self._heuristics.storage != "registers":
            return ()
        return tuple(f"c{fid}[c] = {self._global(fid)};" for fid in self._heuristics.cached)

    def lines(self, fid: int) -> Lines:
        """The lines that put the current vector of input ``fid`` into ``v<fid>``."""
        declaration = f"const fb::Vec<{self._rows.body.c_type(fid)}, kVec> v{fid}"
        if fid not in self._heuristics.cached:
            return (f"{declaration} = {self._global(fid)};",)
        if self._heuristics.storage == "registers":
            return (f"{declaration} = c{fid}[c];",)
        if fid in self._in_shared:
            return (f"{declaration} = fb::load<kVec>(c{fid} + col);",)
        self._in_shared.add(fid)
        return (f"{declaration} = {self._global(fid)};", f"fb::store(c{fid} + col, v{fid});")

    def _global(self, fid: int) -> str:
        return f"fb::load<kVec>(r{fid} + {self._rows.body.offset(fid, [self._rows.column])})"


def _reduction_inner(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, InnerHeuristics)
    indices = reductions(spec.task)
    results = [spec.task.fusion.exprs[index].outputs[0] for index in indices]
    outputs = () if heuristics.splits > 1 else spec.task.outputs
    rows = _rows(spec, results, outputs)
    body, level = rows.body, levels(spec.task)
    setup, bases = _row_setup(rows, outputs, level)
    known = [expr.outputs[0] for expr in rows.exprs if not rows.is_column(expr.outputs[0])]
    operands = [spec.task.fusion.exprs[index].inputs[0] for index in indices]
    loads = _global_loads(rows)
    sweep = _row_sweep(rows, operands, known, loads, "v{0}[k]")
    accumulate = _accumulate(body, indices)
    reduce = f"fb::reduce_row<kThreadsPerRow, kRowsPerBlock>({_accumulators(body, indices)});"
    if heuristics.splits > 1:
        stores = tuple(f"P{fid}[split * int64_t({_product(body, rows.row.axes)}) + row] = a{fid};" for fid in results)
        epilogue = Sweep(stores=stores)
    else:
        lines = (*accumulate.results, *_row_epilogue(rows, results, level, 1))
        epilogue = Sweep(results=lines, stores=_row_results(rows, outputs))
    parts = Sweep(accumulators=accumulate.accumulators, accumulate=accumulate.accumulate, reduce=reduce)
    return _view(
        spec, body, rows.exprs, setup=setup, bases=bases, sweeps=(_join(sweep, parts),), epilogue=epilogue,
        extents={"rows": _product(body, rows.row.axes), "columns": _product(body, rows.column.axes)},
    )  # fmt: skip


def _global_loads(rows: _Rows) -> Callable[[int], Lines]:
    def lines(fid: int) -> Lines:
        offset = rows.body.offset(fid, [rows.column])
        return (f"const fb::Vec<{rows.body.c_type(fid)}, kVec> v{fid} = fb::load<kVec>(r{fid} + {offset});",)

    return lines


def _columns(domain: AxisDomain) -> tuple[Group, Group, Group]:
    """The groups ``outer``, ``r`` and ``inner`` of an outer reduction."""
    reduced = reduced_axes(domain)
    kept = kept_axes(domain)
    return (
        Group(name="outer", axes=tuple(axis for axis in kept if axis < reduced[0])),
        Group(name="r", axes=reduced),
        Group(name="inner", axes=tuple(axis for axis in kept if axis > reduced[-1])),
    )


def _reduction_outer(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, OuterHeuristics)
    body = Body(spec)
    groups = _columns(spec.domain)
    outer, reduced, inner = groups
    last = len(spec.domain.axes) - 1
    indices = reductions(spec.task)
    results = [body.fusion.exprs[index].outputs[0] for index in indices]
    operands = [body.fusion.exprs[index].inputs[0] for index in indices]
    exprs, reads = body.closure(operands), body.reads(operands)
    vectors = [fid for fid in reads if _is_vector(body, fid)]
    moving = [fid for fid in reads if last in spec.domain.accesses[fid].axes]
    coordinate = _element_coordinate(body, groups, last, spec.vec)
    hoisted, inside = body.split(exprs, [last])
    iota = _iota_axes(body, exprs)
    accumulate = _accumulate(body, indices, "[k]")
    sweep = Sweep(
        load_coordinates=body.coordinates(reduced, body.needs_coordinates(vectors, reduced)),
        coordinates=body.coordinates(
            reduced, body.needs_coordinates([fid for fid in reads if fid not in vectors], reduced) | iota
        ),
        arrays=tuple(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid}[kUnroll];" for fid in vectors),
        loads=tuple(f"v{fid}[u] = fb::load<kVec>(T{fid} + {body.offset(fid, groups)});" for fid in vectors),
        vector=(
            *(_scalar_load(body, fid, f"T{fid}[{body.offset(fid, groups)}]") for fid in reads if fid not in moving),
            *(body.statement(expr, coordinate) for expr in hoisted),
        ),
        element=(
            *(f"const {body.c_type(fid)} t{fid} = v{fid}[u][k];" for fid in vectors),
            *(_strided_load(body, fid, groups, last) for fid in moving if fid not in vectors),
            *(body.statement(expr, coordinate) for expr in inside),
        ),
        accumulators=_column_accumulators(body, indices),
        accumulate=accumulate.accumulate,
        reduce=f"fb::reduce_columns<kBlockX, kBlockY>({_accumulators(body, indices)});",
    )
    sizes = {name: _product(body, group.axes) for name, group in zip(("outer", "depth", "inner"), groups, strict=True)}
    epilogue_reads = () if heuristics.splits > 1 else body.reads(spec.task.outputs, results)
    touched = [*reads, *epilogue_reads, *(() if heuristics.splits > 1 else spec.task.outputs)]
    setup = (
        *body.coordinates(outer, body.needs_coordinates(touched, outer) | iota),
        *body.coordinates(inner, body.needs_coordinates(touched, inner) | iota),
    )
    if heuristics.splits > 1:
        position = f"(split * int64_t({sizes['outer']}) + outer) * int64_t({sizes['inner']}) + inner + k"
        epilogue = Sweep(element=tuple(f"P{fid}[{position}] = a{fid}[k];" for fid in results))
        everything = exprs
    else:
        epilogue = _column_epilogue(body, indices, [outer, inner], accumulate.results, spec.task.outputs)
        everything = (*exprs, *body.closure(spec.task.outputs, results))
    return _view(spec, body, everything, setup=setup, sweeps=(sweep,), epilogue=epilogue, extents=sizes)


def _column_accumulators(body: Body, indices: Sequence[int]) -> Lines:
    """Declarations of one accumulator a column of the thread's vector."""
    lines = []
    for index in indices:
        expr = body.fusion.exprs[index]
        fid, functor = expr.outputs[0], op_of(expr).functor
        c_type = body.c_type(fid)
        lines.append(f"fb::Vec<{c_type}, kVec> a{fid} = fb::splat<kVec>(fb::{functor}::identity<{c_type}>());")
    return tuple(lines)


def _column_epilogue(
    body: Body, indices: Sequence[int], groups: Sequence[Group], results: Lines, outputs: Sequence[int]
) -> Sweep:
    """Per column: what follows the reductions, then the stores. Kept tensors are read element by element."""
    reduced = [body.fusion.exprs[index].outputs[0] for index in indices]
    last = max((axis for group in groups for axis in group.axes), default=0)
    coordinate = _element_coordinate(body, groups, last, body.spec.vec)
    reads = body.reads(outputs, reduced)
    exprs = [expr for expr in body.closure(outputs, reduced) if not body.is_scalar(expr.outputs[0])]
    return Sweep(
        element=(
            *results,
            *(_scalar_load(body, fid, f"T{fid}[{_kept_element(body, fid, groups, last)}]") for fid in reads),
            *(body.statement(expr, coordinate) for expr in exprs),
            *(f"T{fid}[{_kept_element(body, fid, groups, last)}] = {body.operand(fid, body.value(fid).dtype)};"
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
    return _strided_element(body, fid, groups, last)


def _reduction_finish(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, FinishHeuristics)
    body = Body(spec)
    kept = Group(name="kept", axes=kept_axes(spec.domain))
    indices = reductions(spec.task)
    results = [body.fusion.exprs[index].outputs[0] for index in indices]
    accumulate = _accumulate(body, indices)
    size = _product(body, kept.axes)
    updates = tuple(
        f"a{fid} = fb::{op_of(body.fusion.exprs[index]).functor}::combine(a{fid}, P{fid}[split * int64_t({size}) + kept]);"
        for index, fid in zip(indices, results, strict=True)
    )
    outputs = spec.task.outputs
    reads = body.reads(outputs, results)
    exprs = body.closure(outputs, results)
    needed = body.needs_coordinates([*reads, *outputs], kept) | _iota_axes(body, exprs)
    epilogue = _column_epilogue(body, indices, [kept], accumulate.results, outputs)
    sweep = Sweep(
        accumulators=accumulate.accumulators,
        accumulate=updates,
        reduce=f"fb::reduce_columns<kBlockX, kBlockY>({_accumulators(body, indices)});",
    )
    return _view(
        spec, body, exprs, setup=body.coordinates(kept, needed), sweeps=(sweep,), epilogue=epilogue,
        extents={"kept": size},
    )  # fmt: skip


_VIEWS: dict[str, Callable[[KernelSpec], KernelView]] = {
    "pointwise": _pointwise,
    "inner_persistent": _inner_persistent,
    "reduction_inner": _reduction_inner,
    "reduction_outer": _reduction_outer,
    "reduction_finish": _reduction_finish,
}
