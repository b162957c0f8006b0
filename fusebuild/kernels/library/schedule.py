"""The plan of a library call: what :mod:`fusebuild.kernels.library.product` finds, in formulas.

Leading dims of ``linear``, and of a ``matmul`` whose right side is one matrix, count as rows where they lie behind each
other. Other leading dims are batches, along which an operand may have stride 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import msgspec

from fusebuild.artifact.plan import BatchDim, LibraryCall
from fusebuild.ir.fid import SegmentFid
from fusebuild.ir.formula import Formula, product
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.kernels.library.product import View, matrix_product

Dim: TypeAlias = "tuple[Formula, Formula]"
"""How many elements there are along a dim, and how far apart."""

NO_DIM: Dim = (1, 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How a matrix lies in memory: in rows ``ld`` elements apart, as nothing says where they have no gaps. It is
    ``swapped`` where rows are along the dim that was to lie within them."""

    swapped: bool
    ld: Formula | msgspec.UnsetType


def check(task: Task) -> None:
    """Raise :class:`UnfitError` unless ``task`` is one call."""
    library_call(task)


def variants(planner: Planner) -> tuple[VariantSpec, ...]:
    """None; :func:`library_call` is what runs."""
    return ()


def library_call(task: Task) -> LibraryCall[SegmentFid]:
    """The call that computes ``task``; its fids are those of the task's Fusion. Raises :class:`UnfitError` where there
    is none."""
    found = matrix_product(task)
    left, right, result = found.left, found.right, found.expr.outputs[0]
    *leading, inner = _dims(left)
    rows = _joined(leading) if right.rank <= 2 else None
    batch: tuple[BatchDim, ...] = ()
    if rows is None:
        rows = leading[-1] if leading else NO_DIM
        batch = _batch_dims(task.fusion.value(result).tensor.shape[: max(left.rank, right.rank) - 2], left, right)
    if found.is_permuted and _steps(batch) > 1:
        raise UnfitError(f"permuted operands of {found.expr.op} have batches that are no single step", result)
    is_linear = found.expr.op == "linear"
    outer, within = _dims(right)[-2:] if right.rank > 1 else (*_dims(right), NO_DIM)
    a, b = _layout(rows, inner), _layout(outer, within)
    for view, layout in ((left, a), (right, b)):
        if isinstance(layout, str):
            raise UnfitError(f"{task.fusion.value(view.fid).name} {layout}", result)
    assert isinstance(a, Layout)
    assert isinstance(b, Layout)
    epilogue = found.epilogue
    return LibraryCall(
        op="linear" if is_linear else "matmul",
        dtype=task.fusion.value(result).dtype.value,
        a=SegmentFid(left.fid),
        b=SegmentFid(right.fid),
        bias=None if epilogue.bias is None else SegmentFid(epilogue.bias),
        out=SegmentFid(found.result),
        transpose_b=is_linear != b.swapped,
        m=rows[0],
        n=outer[0] if is_linear else within[0],
        k=inner[0],
        batch=batch,
        transpose_a=a.swapped or msgspec.UNSET,
        lda=a.ld,
        ldb=b.ld,
        residual=msgspec.UNSET if epilogue.residual is None else SegmentFid(epilogue.residual),
        beta=msgspec.UNSET if epilogue.residual is None else epilogue.beta,
    )


def _dims(view: View) -> list[Dim]:
    return list(zip(view.shape, view.strides, strict=True))


def _joined(dims: Sequence[Dim]) -> Dim | None:
    """``dims`` as one, where each lies around the next one without gaps."""
    inside = NO_DIM
    for extent, stride in reversed([dim for dim in dims if dim[0] != 1]):
        if inside is not NO_DIM and stride != product(inside):
            return None
        inside = product([extent, inside[0]]), stride if inside is NO_DIM else inside[1]
    return inside


def _layout(outer: Dim, inner: Dim) -> Layout | str:
    """That of a matrix whose dim ``inner`` should lie within rows; what is wrong where a library cannot read it."""
    if any(extent != 1 and stride == 0 for extent, stride in (outer, inner)):
        return "is expanded along a dim that is no batch"
    if 1 in inner:
        has_gaps = outer[0] != 1 and outer[1] != inner[0]
        return Layout(swapped=False, ld=outer[1] if has_gaps else msgspec.UNSET)
    if 1 in outer:
        return Layout(swapped=True, ld=inner[1] if inner[1] != outer[0] else msgspec.UNSET)
    return "has no dim of stride 1 in its matrices"


def _batch_dims(extents: Sequence[Formula], left: View, right: View) -> tuple[BatchDim, ...]:
    """The dims of size other than 1 among the leading ones of the result, whose sizes are ``extents``."""
    dims = []
    for position, extent in enumerate(extents):
        if extent == 1:
            continue
        from_inner = len(extents) - position + 2
        a_stride, b_stride = (
            view.strides[-from_inner] if from_inner <= view.rank and view.shape[-from_inner] != 1 else 0
            for view in (left, right)
        )
        dims.append(BatchDim(extent=extent, a_stride=a_stride, b_stride=b_stride))
    return tuple(dims)


def _steps(batch: Sequence[BatchDim]) -> int:
    """How many dims ``batch`` has once those are one that a single step leads along."""
    return len(batch) - sum(_leads_along(*pair) for pair in pairwise(batch))


def _leads_along(outer: BatchDim, inner: BatchDim) -> bool:
    """Whether a walk along ``inner`` that goes on leads along ``outer``."""
    a_stride, b_stride = (product([inner.extent, stride]) for stride in (inner.a_stride, inner.b_stride))
    return bool(outer.a_stride == a_stride and outer.b_stride == b_stride)
