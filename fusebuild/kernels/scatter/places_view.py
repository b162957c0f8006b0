"""The view of kernels whose threads find the updates of their own places, and write what is left there."""

from __future__ import annotations

from fusebuild.ir.dtype import DType
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import COORDINATE, Body, Group, in_brackets, literal_text
from fusebuild.kernels.common.view import KernelView, Sweep, lines_named, make_view
from fusebuild.kernels.scatter.places import head, number, size_text
from fusebuild.kernels.scatter.schedule import Naming, Scatter, ScatterHeuristics, base_fill
from fusebuild.ops.table import operand_dtypes

PLACE = "place"
"""The coordinate along the dim that the index is about."""


class _Places(Body):
    """Statements about the updates of the place at hand. Along the axis that they are scattered along, the coordinate
    is the number of an update; along the others, those of the place."""

    def __init__(self, spec: KernelSpec) -> None:
        super().__init__(spec)
        self.scatter = Scatter.of(spec.task)
        self.groups = tuple(Group(name=COORDINATE.format(axis), axes=(axis,)) for axis in spec.domain.every)
        _, _, self.src = self.scatter.expr.inputs
        self.exprs = self.closure([self.src])
        self.update = "update" if self.scatter.scattered is None else COORDINATE.format(self.scatter.scattered)

    def address(self, fid: int) -> str:
        """The element of ``fid``, the result or what is scattered into, at the place."""
        access = self.domain.accesses[fid]
        assert access.position is not None
        stride = access.position.stride
        text = str(stride) if isinstance(stride, int) else f"{access.pointer}_stride"
        terms = [self._term(access, axis, COORDINATE.format(axis)) for axis in access.axes]
        terms.append(PLACE if text == "1" else f"int64_t({PLACE}) * {text}")
        return f"T{fid} + {' + '.join(terms)}"

    def coordinates_of_place(self) -> tuple[str, ...]:
        """The lines that take the linear index ``i`` of a place apart."""
        lines, rest = list[str](), "i"
        for at, axis in reversed([*enumerate(self.scatter.order)]):
            name = PLACE if axis is None else COORDINATE.format(axis)
            if at == 0:
                return (*lines, f"const Index {name} = {rest};")
            extent = f"Index({size_text(self.scatter) if axis is None else self.extents[axis]})"
            lines += [f"const Index {name} = {rest} % {extent};", f"const Index over_{at} = {rest} / {extent};"]
            rest = f"over_{at}"
        return tuple(lines)

    def total(self) -> str:
        """The number of places."""
        if isinstance(self.scatter.places, int):
            return literal_text(self.scatter.places, DType.INT64)
        size = self.size(axis for axis in self.scatter.order if axis is not None)
        return size_text(self.scatter) if size == "1" else f"{in_brackets(size)} * {size_text(self.scatter)}"

    def of_update(self) -> Sweep:
        """What is loaded and computed of one update."""
        inner, coordinate = self.domain.inner, self.along(*self.groups)
        reads = self.reads([self.src])
        moving = [fid for fid in reads if self.spec.vec > 1 and inner in self.domain.accesses[fid].axes]
        vectors = [fid for fid in moving if self.is_vector(fid)]
        hoisted, element = self.split(self.exprs, [inner]) if self.spec.vec > 1 else (self.of_tensors(self.exprs), ())
        return Sweep(
            vector=(
                *(self.vector_load(fid, self.groups) for fid in vectors),
                *(self.scalar_load(fid, self.element(fid, self.groups)) for fid in reads if fid not in moving),
                *(self.statement(expr, coordinate) for expr in hoisted),
            ),
            element=(
                *(f"const {self.c_type(fid)} t{fid} = v{fid}[k];" for fid in vectors),
                *(self.strided_load(fid, self.groups) for fid in moving if fid not in vectors),
                *(self.statement(expr, coordinate) for expr in element),
            ),
        )

    def before(self) -> str:
        """The line that tells what was in the places before."""
        base, fill = self.scatter.expr.inputs[0], base_fill(self.task, self.scatter.expr)
        c_type = self.c_type(base)
        text = (
            f"fb::load<kVec>({self.address(base)})"
            if fill is None
            else f"fb::splat<kVec>({self.operand(fill, self.value(base).dtype)})"
        )
        return f"const fb::Vec<{c_type}, kVec> before = {text};"


def scatter_places(spec: KernelSpec) -> KernelView:
    heuristics = spec.heuristics
    assert isinstance(heuristics, ScatterHeuristics)
    body = _Places(spec)
    sweep = _last(body) if heuristics.naming is Naming.LAST else _sum(body)
    first = f"const Index first = heads[{head(body, body.scatter, COORDINATE.format, PLACE)}];"
    leave = ("if (first < 0) return;",) if body.scatter.is_over_base else ()
    result = body.scatter.result
    store = f"fb::store({body.address(result)}, after);"
    after = f"fb::Vec<{body.c_type(result)}, kVec> after;"
    used = (first, store, body.before(), *sweep.vector, *sweep.element, *sweep.loads, *sweep.accumulate)
    setup = (*lines_named(body.coordinates_of_place(), used), first, *leave, body.before(), after)
    return make_view(
        body, _scalars(body), setup=setup, sweeps=(sweep,), epilogue=Sweep(stores=(store,)),
        extents={"total": body.total()},
    )  # fmt: skip


def _scalars(body: _Places) -> tuple[Expr, ...]:
    """The exprs whose scalars the kernel needs: those of updates, and of the number that is scattered into."""
    fill = base_fill(body.task, body.scatter.expr)
    return (*body.exprs, *(body.closure([fill]) if fill is not None else ()))


def _last(body: _Places) -> Sweep:
    """The last update takes the place of what was there."""
    update = body.of_update()
    element = (*update.element, f"after[k] = {body.operand(body.src, body.value(body.scatter.result).dtype)};")
    return Sweep(
        row=lines_named((f"const Index {body.update} = first;",), (*update.vector, *element)),
        vector=update.vector,
        element=element,
        stores=("after[k] = before[k];",),
    )


def _sum(body: _Places) -> Sweep:
    """All updates are added to what was there."""
    expr, update = body.scatter.expr, body.of_update()
    dtype = operand_dtypes(body.fusion, expr)[0]
    result, base = body.value(body.scatter.result).dtype, body.value(expr.inputs[0]).dtype
    before = "before[k]" if base is dtype else f"fb::cast<{dtype.row.c_type}>(before[k])"

    def written(text: str) -> str:
        return f"after[k] = {text if result is dtype else f'fb::cast<{result.row.c_type}>({text})'};"

    element = body.operand(body.src, dtype)
    step = f"following[{number(body, body.scatter, COORDINATE.format)}]"
    loop = f"for (Index {body.update} = first; {body.update} >= 0; {body.update} = {step}) {{"
    return Sweep(
        arrays=(f"fb::ExactSum<{dtype.row.c_type}> sum[kVec];",),
        loads=(loop,),
        vector=update.vector,
        element=update.element,
        merged=(f"sum[k].look({element});",) if dtype.is_floating else (),
        accumulate=(f"sum[k].add({element});",),
        results=(written(f"sum[k].total({before})"),),
        stores=("after[k] = before[k];" if base is result else written(before),),
    )
