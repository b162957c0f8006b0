"""The view of pointwise kernels whose warps walk strips of rows."""

from __future__ import annotations

from fusebuild.kernels.common.spec import KernelSpec
from fusebuild.kernels.common.statements import Group
from fusebuild.kernels.common.view import KernelView, Sweep, make_view
from fusebuild.kernels.pointwise.narrow import NarrowBody
from fusebuild.kernels.pointwise.view import coordinate_lines, elements, guarded


def pointwise_strips(spec: KernelSpec) -> KernelView:
    inner = spec.domain.inner
    row, column = Group(name="row", axes=tuple(range(inner))), Group(name="i", axes=(inner,))
    groups = [row, column]
    body = NarrowBody(spec, groups)
    outputs = body.task.outputs
    exprs, reads = body.closure(outputs), body.reads(outputs)
    single = [fid for fid in reads if inner not in spec.domain.accesses[fid].axes]
    of_row = Sweep(loads=tuple(body.scalar_load(fid, f"T{fid}[{body.offset(fid, groups)}]") for fid in single))
    own = guarded(elements(body, groups, known=single), "is_inside")
    return make_view(
        body, exprs,
        bases=coordinate_lines(body, [row], [*reads, *outputs], exprs),
        sweeps=(of_row, own),
        extents={"rows": body.size(row.axes), "columns": body.size([inner])},
    )  # fmt: skip
