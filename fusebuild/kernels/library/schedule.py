"""Matrix products: a call of a library, not a kernel.

A ``matmul`` or ``linear`` is a segment of its own. Its operands lie in memory as rows without gaps; leading dims of
``linear``, and of a ``matmul`` whose right side is one matrix, count as rows. Other leading dims are batches, along
which an operand may have stride 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from fusebuild.artifact.plan import BatchDim, LibraryCall
from fusebuild.ir.fid import SegmentFid
from fusebuild.ir.formula import Formula, product
from fusebuild.ir.fusion import Task
from fusebuild.ir.types import TensorType
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.common.storage import stored_types
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.ops.table import Kind, op_of


def check(task: Task) -> None:
    call = next((expr for expr in task.steps if op_of(expr).kind is Kind.LIBRARY), None)
    if call is None:
        raise UnfitError("there is no library call")
    (result,), value = call.outputs, task.fusion.value
    if len(task.exprs) > 1:
        raise UnfitError(f"{call.op} is a library call, a segment of its own", result)
    for fid in call.inputs:
        if problem := _operand_problem(call, value(fid).tensor, fid):
            raise UnfitError(f"{value(fid).name} {problem}", result)
    if not _is_dense(stored_types(task)[result]):
        raise UnfitError(f"{value(result).name} overwrites a tensor that is not contiguous", result)
    output = task.fusion.output(result)
    if output is not None and output.alias in call.inputs:
        raise UnfitError(f"{value(output.alias).name} is overwritten while {call.op} reads it", result)


def variants(planner: Planner) -> tuple[VariantSpec, ...]:
    """None; :func:`library_call` is what runs."""
    return ()


def has_library_call(task: Task) -> bool:
    """Whether some expr of ``task`` is computed by a library."""
    return any(op_of(expr).kind is Kind.LIBRARY for expr in task.steps)


def library_call(task: Task) -> LibraryCall[SegmentFid]:
    """The call that computes ``task``, which the scheduler accepts; its fids are those of the task's Fusion."""
    (expr,) = task.steps
    left, right, *bias = (task.fusion.value(fid).tensor for fid in expr.inputs)
    is_linear = expr.op == "linear"
    n = (right.shape[0] if is_linear else right.shape[-1]) if right.rank > 1 else 1
    batch: tuple[BatchDim, ...] = ()
    rows = left.shape[:-1]
    if not (right.rank <= 2 and _is_dense(left)):
        result = task.fusion.value(expr.outputs[0]).tensor
        count = max(left.rank, right.rank) - 2
        batch = _batch_dims(result.shape[:count], left, right)
        rows = left.shape[-2:-1]
    return LibraryCall(
        op="linear" if is_linear else "matmul",
        dtype=left.dtype.value,
        a=SegmentFid(expr.inputs[0]),
        b=SegmentFid(expr.inputs[1]),
        bias=SegmentFid(expr.inputs[2]) if bias else None,
        out=SegmentFid(expr.outputs[0]),
        transpose_b=is_linear,
        m=product(rows),
        n=n,
        k=left.shape[-1],
        batch=batch,
    )


def _batch_dims(extents: Sequence[Formula], left: TensorType, right: TensorType) -> tuple[BatchDim, ...]:
    """The dims of size other than 1 among the leading ones of the result, whose sizes are ``extents``."""
    dims = []
    for position, extent in enumerate(extents):
        if extent == 1:
            continue
        from_inner = len(extents) - position + 2
        a_stride, b_stride = (
            type_.strides[-from_inner] if from_inner <= type_.rank and type_.shape[-from_inner] != 1 else 0
            for type_ in (left, right)
        )
        dims.append(BatchDim(extent=extent, a_stride=a_stride, b_stride=b_stride))
    return tuple(dims)


def _operand_problem(call: Expr, type_: TensorType, fid: int) -> str:
    """Why a library cannot read an operand of ``type_``; empty when it can."""
    if None in type_.strides:
        return "has strides known only at run time"
    is_batched = call.op == "matmul" and fid in call.inputs[:2]
    return "" if _is_dense(type_, type_.rank - 2 if is_batched else 0) else "is expanded along a dim that is no batch"


def _is_dense(type_: TensorType, first: int = 0) -> bool:
    """Whether the dims from number ``first`` on are row-major without gaps and without dims of stride 0."""
    running: Formula = 1
    for extent, stride in reversed(list(zip(type_.shape, type_.strides, strict=True))[max(0, first) :]):
        if extent != 1 and stride != running:
            return False
        running = product([extent, running])
    return True
