"""The view of pointwise kernels."""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.body import Body, Group
from fusebuild.ir import Expr
from fusebuild.ops import Kind, op_of
from fusebuild.schedule.kernel import KernelSpec
from fusebuild.views.kernel_view import (
    KernelView,
    Sweep,
    element_coordinate,
    element_store,
    is_vector,
    make_view,
    scalar_load,
    strided_load,
)


def pointwise(spec: KernelSpec) -> KernelView:
    body = Body(spec)
    inner = len(spec.domain.axes) - 1
    group = Group(name="i", axes=tuple(range(len(spec.domain.axes))))
    outputs = spec.task.outputs
    exprs = body.closure(outputs)
    reads = body.reads(outputs)
    moving = [fid for fid in reads if inner in spec.domain.accesses[fid].axes]
    vectors = [fid for fid in moving if is_vector(body, fid)]
    strided = [fid for fid in (*moving, *outputs) if fid not in vectors and not is_vector(body, fid)]
    sources = _sources(body, exprs, group, inner)
    hoisted, element = body.split(exprs, [inner])
    unloaded = [fid for fid in (*reads, *outputs) if fid not in vectors]
    needed = body.needs_coordinates(unloaded, group)
    needed |= body.coordinate_axes(expr for expr in exprs if expr not in sources.early)
    coordinate = element_coordinate(body, [group], inner, spec.vec)
    early = body.needs_coordinates(vectors, group) | body.coordinate_axes(sources.early)
    sweep = Sweep(
        load_coordinates=body.coordinates(group, early),
        coordinates=body.coordinates(group, needed),
        arrays=(
            *(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid}[kUnroll];" for fid in vectors),
            *(f"fb::Vec<{body.c_type(fid)}, kVec> x{fid}[kUnroll];" for fid in sources.loaded),
        ),
        loads=(
            *(f"v{fid}[u] = fb::load<kVec>(T{fid} + {body.offset(fid, [group])});" for fid in vectors),
            *(f"x{fid}[u] = {sources.load(fid)};" for fid in sources.loaded),
        ),
        vector=(
            *(scalar_load(body, fid, f"T{fid}[{body.offset(fid, [group])}]") for fid in reads if fid not in moving),
            *(body.statement(expr, coordinate) for expr in hoisted),
            *(f"const fb::Vec<{body.c_type(fid)}, kVec> x{fid} = {sources.load(fid)};" for fid in sources.found),
            *(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid};" for fid in outputs if fid not in strided),
        ),
        element=(
            *(f"const {body.c_type(fid)} t{fid} = v{fid}[u][k];" for fid in vectors),
            *(f"const {body.c_type(fid)} t{fid} = x{fid}[u][k];" for fid in sources.loaded),
            *(strided_load(body, fid, [group], inner) for fid in moving if fid in strided),
            *(sources.statement(expr) or body.statement(expr, coordinate) for expr in element
              if expr not in sources.early),
            *(element_store(body, fid, fid in strided, [group], inner) for fid in outputs),
        ),
        stores=tuple(
            f"fb::store(T{fid} + {body.offset(fid, [group])}, v{fid});" for fid in outputs if fid not in strided
        ),
    )  # fmt: skip
    return make_view(spec, body, exprs, sweeps=(sweep,), extents={"total": body.size(group.axes)})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sources:
    """Which index ops read whole vectors: those ``early`` with the inputs, before anything is computed, and those that
    wait until the position is ``found``, which is the same for all elements of a vector."""

    body: Body
    group: Group
    early: tuple[Expr, ...]
    late: tuple[Expr, ...]

    @property
    def loaded(self) -> tuple[int, ...]:
        return tuple(expr.outputs[0] for expr in self.early)

    @property
    def found(self) -> tuple[int, ...]:
        return tuple(expr.outputs[0] for expr in self.late)

    def load(self, fid: int) -> str:
        """The vector that the index op with the result ``fid`` reads."""

        def coordinate(axis: int) -> str:
            return self.body.coordinate(self.group, axis)

        load = f"fb::load<kVec>({self.body.elsewhere(fid, coordinate)})"
        return self.body.bounded(fid, coordinate, load, f"fb::splat<kVec>({self.body.fill(fid)})")

    def statement(self, expr: Expr) -> str:
        """An element of a vector that is there already; empty for any other expr."""
        (fid, *_) = expr.outputs
        return f"const {self.body.c_type(fid)} t{fid} = x{fid}[k];" if expr in self.late else ""


def _sources(body: Body, exprs: tuple[Expr, ...], group: Group, inner: int) -> _Sources:
    early, late = list[Expr](), list[Expr]()
    for expr in exprs:
        access = body.domain.sources.get(expr.outputs[0])
        if op_of(expr).kind is not Kind.INDEX or access is None or body.domain.unit_stride(access, inner) is None:
            continue
        if access.position is None:
            early.append(expr)
        elif inner not in body.axes_of(access.position.index):
            late.append(expr)
    return _Sources(body=body, group=group, early=tuple(early), late=tuple(late))
