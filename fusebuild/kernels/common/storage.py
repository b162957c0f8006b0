"""Where the elements of a task's values lie in global memory.

Inputs and outputs have memory of their own. What an index op makes of an input has none: it is read from the input's
memory with other strides, from another first element, within bounds, or at positions that an index tensor names. What a
scatter writes lies at such positions, too, and so does what it writes over where a kernel reads that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fusebuild.ir.formula import Formula, difference, product, total
from fusebuild.ir.fusion import Task
from fusebuild.ir.types import TensorType
from fusebuild.ir.values import Expr, Value
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.ops.footprint import is_set_in_place
from fusebuild.ops.indexing import pad_widths, reshaped_strides, slice_bounds
from fusebuild.ops.table import Kind, op_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The integer value ``index`` says where along a dim of ``size`` elements, ``stride`` apart, an element lies."""

    index: int
    size: Formula
    stride: Formula


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    """``strides`` has one entry for each dim of the value, in elements of the memory of ``tensor``; None where it is
    known only at run time, as the stride of that tensor's same dim. The first element lies at ``offset``.

    ``bounds`` are ``(dim, first, end)``: outside of them the value is the scalar ``fill``, or anything. ``position``
    adds what an index tensor says.
    """

    tensor: int
    strides: tuple[Formula | None, ...]
    offset: Formula = 0
    bounds: tuple[tuple[int, Formula, Formula], ...] = ()
    fill: int | None = None
    position: Position | None = None


def stored_types(task: Task) -> dict[int, TensorType]:
    """The layout of every tensor that ``task`` reads as it is or writes; an aliasing output has its target's."""
    fusion = task.fusion
    indexed = {expr.inputs[0] for expr in (*index_exprs(task), *scatters(task))}
    read = {fid for expr in task.steps for fid in operands(expr)} | {*bases_read(task)}
    fids = [
        fid
        for fid in task.inputs
        if fusion.value(fid).is_tensor and not fusion.value(fid).tensor.cpu and (fid in read or fid not in indexed)
    ]
    types = {fid: fusion.value(fid).tensor for fid in fids}
    for fid in task.outputs:
        output = fusion.output(fid)
        types[fid] = fusion.value(fid if output is None or output.alias is None else output.alias).tensor
    return types


def index_exprs(task: Task) -> tuple[Expr, ...]:
    """The exprs of ``task`` that read elements from elsewhere."""
    return tuple(expr for expr in task.steps if op_of(expr).kind is Kind.INDEX)


def operands(expr: Expr) -> tuple[int, ...]:
    """What ``expr`` reads at its own coordinates: all but the tensor that an index op reads elsewhere, or to which a
    scatter writes."""
    return expr.inputs[1:] if op_of(expr).kind in (Kind.INDEX, Kind.SCATTER) else expr.inputs


def scatters(task: Task) -> tuple[Expr, ...]:
    """The exprs of ``task`` that write elements to places that an index names."""
    return tuple(expr for expr in task.steps if op_of(expr).kind is Kind.SCATTER)


def bases_read(task: Task) -> dict[int, Expr]:
    """The inputs of ``task`` that are read at the places where a scatter writes, and that scatter."""
    found = {expr.inputs[0]: expr for expr in scatters(task) if not is_set_in_place(task.fusion, expr)}
    return {fid: expr for fid, expr in found.items() if fid in task.inputs}


def own_storages(task: Task) -> dict[int, Storage]:
    """The storage of every value of ``task`` that has memory of its own: what it reads as it is, what it writes.

    Raises :class:`UnfitError` for one that a scatter writes to where a stride is known only at run time.
    """
    scattered = {expr.outputs[0]: expr for expr in scatters(task)} | bases_read(task)
    return {
        fid: _scattered(task, fid, type_, scattered[fid]) if fid in scattered else _own(task.fusion.value(fid), type_)
        for fid, type_ in stored_types(task).items()
    }


def _own(value: Value, type_: TensorType) -> Storage:
    """The storage of ``value``, stored as ``type_`` unless it is a part of another tensor."""
    if (window := value.window) is None:
        return Storage(tensor=value.fid, strides=type_.strides)
    return Storage(tensor=window.tensor, strides=window.strides, offset=window.offset)


def _scattered(task: Task, fid: int, type_: TensorType, scatter: Expr) -> Storage:
    """The storage of ``fid``, stored as ``type_``, at the places of ``scatter``."""
    dim, strides = scatter.attribute("dim"), type_.strides
    if (stride := strides[dim]) is None:
        raise UnfitError(f"{task.fusion.value(fid).name} has strides known only at run time", scatter.outputs[0])
    position = Position(index=scatter.inputs[1], size=type_.shape[dim], stride=stride)
    return Storage(tensor=fid, strides=(*strides[:dim], 0, *strides[dim + 1 :]), position=position)


def hidden(task: Task) -> frozenset[int]:
    """Results of index ops that only other index ops read: no kernel ever holds them."""
    results = {expr.outputs[0] for expr in index_exprs(task)}
    return frozenset(results - {fid for expr in task.steps for fid in operands(expr)} - {*task.outputs})


def sources(task: Task) -> dict[int, Storage]:
    """For the result of every index op of ``task``, where its elements are read from. A slice of a slice, or what is
    taken from one, is read from the first one's tensor, and so is a slice without steps of what is padded.

    Raises :class:`UnfitError` for an index op of what the task itself computes or overwrites, or of a tensor whose
    strides are not known now.
    """
    found: dict[int, Storage] = {}
    unheld = hidden(task)
    overwritten = {output.alias for output in map(task.fusion.output, task.outputs) if output is not None}
    for expr in index_exprs(task):
        source, (result,) = task.fusion.value(expr.inputs[0]), expr.outputs
        whole = found.get(source.fid, Storage(tensor=source.fid, strides=source.tensor.strides))
        is_of_memory = whole.tensor in task.inputs and whole.position is None
        if not is_of_memory or (whole.bounds and not _is_plain_slice(expr)):
            raise UnfitError(f"{expr.op} needs {source.name} in memory", result)
        if whole.tensor in overwritten:
            raise UnfitError(f"{source.name} is overwritten but read elsewhere than where it is written", result)
        if None in whole.strides:
            raise UnfitError(f"{source.name} has strides known only at run time", result)
        found[result] = _indexed(task, expr, source.tensor, whole)
    return {fid: storage for fid, storage in found.items() if fid not in unheld}


def _is_plain_slice(expr: Expr) -> bool:
    """Whether ``expr`` takes neighbours, so that what is outside of bounds stays beside what is within."""
    return expr.op == "slice" and all(step == 1 for step in expr.attribute("strides") or ())


def _indexed(task: Task, expr: Expr, source: TensorType, whole: Storage) -> Storage:
    """The storage of the result of the index op ``expr``, which reads ``source``, stored as ``whole``."""
    own: list[Formula] = [stride for stride in whole.strides if stride is not None]
    named, result = dict(expr.attributes), task.fusion.value(expr.outputs[0]).tensor
    if expr.op == "reshape":
        seen = reshaped_strides(own, source.shape, result.shape, task.fusion.algebra)
        if seen is None:
            raise UnfitError(f"{task.fusion.value(expr.inputs[0]).name} is not contiguous", expr.outputs[0])
        return replace(whole, strides=seen)
    if expr.op == "slice":
        bounds = slice_bounds(source.shape, named, task.fusion.algebra)
        starts = [product([first, stride]) for stride, (first, _, _) in zip(own, bounds, strict=True)]
        strides = tuple(product([stride, step]) for stride, (_, _, step) in zip(own, bounds, strict=True))
        within = tuple(
            (dim, difference(first, bounds[dim][0]), difference(end, bounds[dim][0]))
            for dim, first, end in whole.bounds
        )
        return replace(whole, strides=strides, offset=total([whole.offset, *starts]), bounds=within)
    if expr.op in ("pad", "place"):
        return _padded(expr, source, whole, own)
    dim, index = named["dim"], task.fusion.value(expr.inputs[1])
    assert isinstance(dim, int)
    position = Position(index=index.fid, size=source.shape[dim], stride=own[dim])
    here = (0,) * index.tensor.rank if expr.op == "take" else (0,)
    along = (*own[:dim], *here, *own[dim + 1 :])
    if expr.op == "take_along_axis":
        along = tuple(0 if own_size == 1 and size != 1 else stride
                      for own_size, size, stride in zip(source.shape, result.shape, along, strict=True))  # fmt: skip
    return replace(whole, strides=along, position=position)


def _padded(expr: Expr, source: TensorType, whole: Storage, strides: Sequence[Formula]) -> Storage:
    widths = pad_widths(source.rank, dict(expr.attributes))
    before = [product([-1, first, stride]) for (first, _), stride in zip(widths, strides, strict=True)]
    return replace(
        whole,
        offset=total([whole.offset, *before]),
        bounds=tuple(
            (dim, first, total([first, source.shape[dim]]))
            for dim, (first, last) in enumerate(widths)
            if (first, last) != (0, 0)
        ),
        fill=expr.inputs[1] if expr.op == "pad" else None,
    )
