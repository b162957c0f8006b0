"""Say everything in primitives, so that schedulers see few forms.

What is left: pointwise ops whose tensor operands have one rank, ``cast``, ``set``, ``segment_set``, ``broadcast``,
``expand``, ``squeeze``, ``permute``, ``slice``, ``pad``, ``place``, ``reshape``, ``take``, ``take_along_axis``,
``scatter``, ``scatter_add``, ``full``, ``iota``, ``linear_index``, ``size``, the reductions sum, prod, max, min and
``reduce`` without ``keepdim`` or ``dtype``, each over one run of adjacent dims, ``welford`` without ``keepdim`` where
one kernel computes it (see :func:`_reads_once`), ``scan``, and library calls whose operands have strides that are known
now. Extents of 1 still broadcast implicitly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import product
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.types import TensorType
from fusebuild.ir.values import Expr, Value
from fusebuild.kernels.persistent.fit import ONE_BLOCK
from fusebuild.ops.table import OPS, Kind, op_of
from fusebuild.passes.decompose_indexing import INDEXING
from fusebuild.passes.decompose_lambdas import LAMBDAS, dim_runs, generalized
from fusebuild.passes.decompose_ordering import ORDERING
from fusebuild.passes.decompose_random import random
from fusebuild.passes.decompose_scattering import SCATTERING, rounded_sum
from fusebuild.passes.rewriting import Link, Rewriter


def decompose(fusion: Fusion) -> Fusion:
    """``fusion`` in primitives. A result of a composite keeps its fid; the steps before it get new ones."""
    rewriter = Rewriter(fusion)
    widened: dict[tuple[int, int, DType], Value] = {}
    copied: dict[int, Value] = {}
    for expr in rewriter.exprs():
        op = op_of(expr)
        if rule := _RULES.get(expr.op):
            rule(rewriter, expr)
        elif expr.op == "cast" and rounded_sum(rewriter, expr):
            continue
        elif op.is_fold:
            _reduction(rewriter, expr)
        elif op.is_generalized:
            generalized(rewriter, expr)
        elif op.kind is Kind.POINTWISE:
            _align_ranks(rewriter, expr, widened)
        elif op.kind is Kind.LIBRARY:
            _copy_strided(rewriter, expr, copied)
        else:
            rewriter.keep(expr)
    return rewriter.finish()


def _copy_strided(rewriter: Rewriter, expr: Expr, copied: dict[int, Value]) -> None:
    """Let a library call read copies of operands whose strides only the caller knows; a library takes contiguous rows.

    ``segment_set``, because a ``set`` is no copy to later passes, and because a call is cut from all before it anyway.
    """
    operands = rewriter.operands(expr)
    for operand in operands:
        if None in operand.tensor.strides and operand.fid not in copied:
            copied[operand.fid] = rewriter.emit("segment_set", [operand], name=f"{operand.name}_contiguous")
    if any(operand.fid in copied for operand in operands):
        contiguous = [copied.get(operand.fid, operand) for operand in operands]
        rewriter.emit(expr.op, contiguous, result=expr.outputs[0])
    else:
        rewriter.keep(expr)


def _align_ranks(rewriter: Rewriter, expr: Expr, widened: dict[tuple[int, int, DType], Value]) -> None:
    """Give every tensor operand the rank of the highest, as NumPy aligns them, with ``broadcast``."""
    operands = rewriter.operands(expr)
    rank = max((operand.tensor.rank for operand in operands if operand.is_tensor), default=0)
    if all(not operand.is_tensor or operand.tensor.rank == rank for operand in operands):
        rewriter.keep(expr)
        return
    dtypes = _dtypes_to_broadcast_in(expr, operands, rank)
    for index, (operand, dtype) in enumerate(zip(operands, dtypes, strict=True)):
        if not operand.is_tensor or operand.tensor.rank == rank:
            continue
        key = operand.fid, rank, dtype
        if key not in widened:
            mask, name = _leading(operand, rank), f"{operand.name}_broadcast"
            cast = rewriter.cast(operand, dtype, name=f"{operand.name}_{dtype.value}")
            widened[key] = rewriter.emit("broadcast", [cast], name=name, is_broadcast_dim=mask)
        operands[index] = widened[key]
    rewriter.emit(expr.op, operands, result=expr.outputs[0], **dict(expr.attributes))


def _leading(operand: Value, rank: int) -> tuple[bool, ...]:
    new = rank - operand.tensor.rank
    return (True,) * new + (False,) * operand.tensor.rank


def _dtypes_to_broadcast_in(expr: Expr, operands: Sequence[Value], rank: int) -> list[DType]:
    """The dtype in which to broadcast each operand: its own, unless that would change the promotion.

    A zero-dim tensor counts less than one with dims. It stops being zero-dim here, so where its dtype would now win it
    is cast to the dtype in which the op meets it first.
    """
    own = [operand.dtype for operand in operands]
    op, named = OPS[expr.op], dict(expr.attributes)
    before = op.operand_dtypes([operand.type for operand in operands], named)
    widened = [
        OPS["broadcast"].infer([operand.type], {"is_broadcast_dim": _leading(operand, rank)})[0]
        if isinstance(operand.type, TensorType)
        else operand.type
        for operand in operands
    ]
    if op.operand_dtypes(widened, named) == before:
        return own
    return [
        compute if operand.is_tensor and operand.tensor.rank == 0 else dtype
        for operand, compute, dtype in zip(operands, before, own, strict=True)
    ]


def _broadcast_in_dim(rewriter: Rewriter, expr: Expr) -> None:
    (operand,) = rewriter.operands(expr)
    result = rewriter.value(expr.outputs[0])
    kept = expr.attribute("broadcast_dims")
    mask = tuple(position not in kept for position in range(result.tensor.rank))
    own = iter(operand.tensor.shape)
    shape = tuple(1 if is_new else next(own) for is_new in mask)
    links: list[Link] = []
    if any(mask):
        links.append(Link(op="broadcast", name=f"{result.name}_broadcast", named={"is_broadcast_dim": mask}))
    if shape != result.tensor.shape:
        links.append(Link(op="expand", named={"shape": result.tensor.shape}))
    rewriter.chain(operand, links, result.fid)


def _reduction(rewriter: Rewriter, expr: Expr) -> None:
    (operand,) = rewriter.operands(expr)
    result = rewriter.value(expr.outputs[0])
    if not expr.dims:
        rewriter.chain(operand, _cast_link(operand.dtype, result.dtype, ""), result.fid)
        return
    compute = _compute_dtype(expr, operand)
    links = [
        *_widen(expr.op, operand, compute, result.name),
        *_runs(expr.op, operand.tensor, expr.dims, result.name),
        *_cast_link(OPS[expr.op].result_dtype(compute), result.dtype, f"{result.name}_narrow"),
        *_keep_dims(expr, operand.tensor.rank),
    ]
    rewriter.chain(operand, links, result.fid)


def _mean(rewriter: Rewriter, expr: Expr) -> None:
    """The sum divided by the number of elements, on the reduced domain."""
    (operand,) = rewriter.operands(expr)
    result = rewriter.value(expr.outputs[0])
    compute = _compute_dtype(expr, operand)
    count = _count(rewriter, expr, operand, result.name)
    links = [
        *_widen("sum", operand, compute, result.name),
        *_runs("sum", operand.tensor, expr.dims, result.name),
        Link(op="div", name=f"{result.name}_reduced", more=(count,)),
        *_cast_link(OPS["sum"].result_dtype(compute), result.dtype, f"{result.name}_narrow"),
        *_keep_dims(expr, operand.tensor.rank),
    ]
    rewriter.chain(operand, links, result.fid)


def _variance(rewriter: Rewriter, expr: Expr) -> None:
    """The sum of squared deviations over ``max(count - correction, 0)``, and the mean."""
    (operand,) = rewriter.operands(expr)
    variance = rewriter.value(expr.outputs[0])
    mean_fid = expr.outputs[1] if len(expr.outputs) == 2 else None
    name = variance.name
    mean_name = f"{name}_mean" if mean_fid is None else rewriter.value(mean_fid).name
    keep = _keep_dims(expr, operand.tensor.rank)
    count = _count(rewriter, expr, operand, name)
    links: list[Link] = []
    if _reads_once(operand.tensor, expr.dims):
        deviations = _one_pass(rewriter, expr, (mean_fid, None, None), (mean_name, f"{name}_m2", f"{name}_n"))
    else:
        deviations = _squared_deviations(rewriter, expr, variance, count, mean_fid, mean_name)
        links += _runs("sum", deviations.tensor, expr.dims, name)
    divisor = _divisor(rewriter, expr, count, name)
    links += [Link(op="div", name=f"{name}_reduced", more=(divisor,)), *keep]
    rewriter.chain(deviations, links, variance.fid)


def _welford(rewriter: Rewriter, expr: Expr) -> None:
    """Mean and sum of squared deviations, in one pass where a kernel does so; the count is known from the shape."""
    (operand,) = rewriter.operands(expr)
    mean, m2, n = (rewriter.value(fid) for fid in expr.outputs)
    is_counted = bool(rewriter.fusion.uses(n.fid)) or rewriter.is_output(n.fid)
    if _reads_once(operand.tensor, expr.dims):
        if not is_counted and not expr.attribute("keepdim"):
            rewriter.keep(expr)
            return
        _one_pass(rewriter, expr, (mean.fid, m2.fid, None), (mean.name, m2.name, n.name))
        if is_counted:
            _count_elements(rewriter, expr, _count(rewriter, expr, operand, m2.name))
        return
    count = _count(rewriter, expr, operand, m2.name)
    deviations = _squared_deviations(rewriter, expr, m2, count, mean.fid, mean.name)
    links = [*_runs("sum", deviations.tensor, expr.dims, m2.name), *_keep_dims(expr, operand.tensor.rank)]
    rewriter.chain(deviations, links, m2.fid)
    _count_elements(rewriter, expr, count)


def _count_elements(rewriter: Rewriter, expr: Expr, count: Value) -> None:
    n = rewriter.value(expr.outputs[2])
    rewriter.emit("full", [count], result=n.fid, shape=n.tensor.shape, dtype=n.dtype)


def _reads_once(tensor: TensorType, dims: Sequence[int]) -> bool:
    """Whether mean and variance over ``dims`` are computed by one ``welford``, which reads the tensor once.

    Not where the rows that are reduced stay on chip while the mean is found: subtracting it first is more exact and
    reads no more. And not where something is kept inside of several runs of reduced dims: no kernel walks those.
    """
    pattern = [dim in dims for dim in range(tensor.rank) if tensor.shape[dim] != 1]
    if not any(pattern):
        return False
    if all(pattern):
        return not (isinstance(tensor.numel, int) and tensor.numel <= ONE_BLOCK)
    if pattern[-1]:
        return pattern != sorted(pattern)
    return len(dim_runs(tensor.shape, [dim for dim in dims if tensor.shape[dim] != 1])) == 1


def _one_pass(rewriter: Rewriter, expr: Expr, fids: Sequence[int | None], names: Sequence[str]) -> Value:
    """Emit the ``welford`` that ``expr`` needs; returns its sum of squared deviations, without kept dims. ``fids`` are
    what its results define, None for those that are not asked for."""
    operands = rewriter.operands(expr)
    keep = _keep_dims(expr, operands[0].tensor.rank)
    own = [f"{name}_reduced" if keep and fid is not None else name for name, fid in zip(names, fids, strict=True)]
    named = {"dims": expr.dims, "keepdim": False}
    made = rewriter.emit_all("welford", operands, named, names=own, results=[None] * 3 if keep else fids)
    for value, fid in zip(made, fids, strict=True):
        if keep and fid is not None:
            rewriter.chain(value, keep, fid)
    return made[1]


def _squared_deviations(
    rewriter: Rewriter, expr: Expr, result: Value, count: Value, mean_fid: int | None, mean_name: str
) -> Value:
    """Two passes: the mean first, which defines ``mean_fid``; then the squares of what is left, not summed yet."""
    (operand,) = rewriter.operands(expr)
    name = result.name
    keep = _keep_dims(expr, operand.tensor.rank)
    x = rewriter.chain(operand, _widen("sum", operand, result.dtype, name))
    mean_links = [
        *_runs("sum", x.tensor, expr.dims, mean_name),
        Link(op="div", name=f"{mean_name}_reduced" if keep else mean_name, more=(count,)),
    ]
    mean = rewriter.chain(x, mean_links, None if keep else mean_fid)
    restore = _restored_dims(expr, operand.tensor.rank, mean_name if keep else f"{mean_name}_broadcast")
    wide = rewriter.chain(mean, restore, mean_fid if keep else None)
    centered = rewriter.emit("sub", [x, wide], name=f"{name}_centered")
    return rewriter.emit("mul", [centered, centered], name=f"{name}_squares")


def _compute_dtype(expr: Expr, operand: Value) -> DType:
    (dtype,) = OPS[expr.op].operand_dtypes([operand.type], dict(expr.attributes))
    return dtype


def _cast_link(old: DType, new: DType, name: str) -> list[Link]:
    return [] if old is new else [Link(op="cast", name=name, named={"dtype": new})]


def _widen(op: str, operand: Value, compute: DType, name: str) -> list[Link]:
    """A cast to ``compute``, unless ``op`` without an explicit dtype reads ``operand`` in it anyway."""
    (natural,) = OPS[op].operand_dtypes([operand.type], {"dtype": None})
    needless = natural is compute and OPS[op].result_dtype(operand.dtype) is OPS[op].result_dtype(compute)
    return [] if needless else _cast_link(operand.dtype, compute, f"{name}_{compute.value}")


def _runs(op: str, tensor: TensorType, dims: Sequence[int], name: str) -> list[Link]:
    """One reduction for each run of adjacent dims, the innermost first; dims of size 1 do not part a run. It is one for
    two of them where the innermost dim is reduced: rows in pieces, which kernels walk."""
    runs = dim_runs(tensor.shape, dims)
    if len(runs) == 2 and _ends_reduced(tensor, dims):
        runs = [[dim for run in runs for dim in run]]
    names = [f"{name}_{op}", *[f"{name}_partial"] * (len(runs) - 1)]
    return [
        Link(op=op, name=link_name, named={"dims": tuple(run)})
        for link_name, run in zip(reversed(names), reversed(runs), strict=bool(runs))
    ]


def _ends_reduced(tensor: TensorType, dims: Sequence[int]) -> bool:
    """Whether the innermost dim of ``tensor`` that has more than one element is among ``dims``."""
    return next((dim in dims for dim in reversed(range(tensor.rank)) if tensor.shape[dim] != 1), False)


def _keep_dims(expr: Expr, rank: int) -> list[Link]:
    """The broadcast that puts reduced dims back at size 1, when ``keepdim`` asks for it."""
    return _restored_dims(expr, rank) if expr.attribute("keepdim") else []


def _restored_dims(expr: Expr, rank: int, name: str = "") -> list[Link]:
    mask = tuple(dim in expr.dims for dim in range(rank))
    return [Link(op="broadcast", name=name, named={"is_broadcast_dim": mask})] if expr.dims else []


def _count(rewriter: Rewriter, expr: Expr, operand: Value, name: str) -> Value:
    """The number of elements reduced, an int64 scalar: a constant where the shape is known."""
    return rewriter.number(product([operand.tensor.shape[dim] for dim in expr.dims]), name=f"{name}_count")


def _divisor(rewriter: Rewriter, expr: Expr, count: Value, name: str) -> Value:
    """``max(count - correction, 0)``: zero where there is too little data, which gives NaN or Inf as in torch."""
    correction = expr.attribute("correction")
    if correction == 0:
        return count
    given, zero = rewriter.constant(correction, name=f"{name}_correction"), rewriter.constant(0, name="zero")
    freedom = rewriter.emit("sub", [count, given], name=f"{name}_freedom")
    return rewriter.emit("maximum", [freedom, zero], name=f"{name}_divisor")


_RULES: dict[str, Callable[[Rewriter, Expr], None]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "mean": _mean,
    "var": _variance,
    "var_mean": _variance,
    "welford": _welford,
    **LAMBDAS,
    **INDEXING,
    **SCATTERING,
    **ORDERING,
    **dict.fromkeys(("uniform", "rand_like", "dropout", "normal", "randn_like"), random),
}
"""How each composite is written in primitives, and the primitives whose forms are more than one."""
