"""The view of pointwise kernels."""

from __future__ import annotations

from fusebuild.body import Body, Group
from fusebuild.schedule.kernel import KernelSpec
from fusebuild.views.kernel_view import (
    KernelView,
    Sweep,
    element_coordinate,
    element_store,
    iota_axes,
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
    hoisted, element = body.split(exprs, [inner])
    unloaded = [fid for fid in (*reads, *outputs) if fid not in vectors]
    needed = body.needs_coordinates(unloaded, group) | iota_axes(body, exprs)
    coordinate = element_coordinate(body, [group], inner, spec.vec)
    sweep = Sweep(
        load_coordinates=body.coordinates(group, body.needs_coordinates(vectors, group)),
        coordinates=body.coordinates(group, needed),
        arrays=tuple(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid}[kUnroll];" for fid in vectors),
        loads=tuple(f"v{fid}[u] = fb::load<kVec>(T{fid} + {body.offset(fid, [group])});" for fid in vectors),
        vector=(
            *(scalar_load(body, fid, f"T{fid}[{body.offset(fid, [group])}]") for fid in reads if fid not in moving),
            *(body.statement(expr, coordinate) for expr in hoisted),
            *(f"fb::Vec<{body.c_type(fid)}, kVec> v{fid};" for fid in outputs if fid not in strided),
        ),
        element=(
            *(f"const {body.c_type(fid)} t{fid} = v{fid}[u][k];" for fid in vectors),
            *(strided_load(body, fid, [group], inner) for fid in moving if fid in strided),
            *(body.statement(expr, coordinate) for expr in element),
            *(element_store(body, fid, fid in strided, [group], inner) for fid in outputs),
        ),
        stores=tuple(
            f"fb::store(T{fid} + {body.offset(fid, [group])}, v{fid});" for fid in outputs if fid not in strided
        ),
    )
    return make_view(spec, body, exprs, sweeps=(sweep,), extents={"total": body.size(group.axes)})
