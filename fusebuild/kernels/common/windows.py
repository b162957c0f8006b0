"""Slices of inputs as inputs of their own.

What an index op reads at steady strides, from one place on and within no bounds, is a window on the memory of an input:
a tensor with strides and a first element of its own. Kernels whose sweeps keep inputs on chip and load them by vectors
do so for a window as for any other input, if it is one. (nvFuser's alias analysis makes a slice of an input an alias of
it likewise.)
"""

from __future__ import annotations

from dataclasses import replace

from fusebuild.ir.fusion import Task
from fusebuild.ir.values import Window
from fusebuild.kernels.common.storage import Storage, index_exprs, sources
from fusebuild.ops.table import Kind, op_of


def with_windows(task: Task) -> Task:
    """``task``, which is a whole Fusion, with its slices of inputs as inputs; itself where it has none. A slice that is
    an output, or that another index op reads, stays one.

    Raises :class:`UnfitError` where some index op needs what is not in memory.
    """
    others = {*task.outputs, *(expr.inputs[0] for expr in index_exprs(task))}
    windows = {
        fid: window
        for fid, storage in sources(task).items()
        if fid not in others and (window := _window(storage)) is not None
    }
    if not windows:
        return task
    fusion, kept, read = task.fusion, [], {*task.fusion.output_fids}
    for expr in reversed(fusion.exprs):
        is_read = not read.isdisjoint(expr.outputs) and windows.keys().isdisjoint(expr.outputs)
        if is_read or op_of(expr).kind is not Kind.INDEX:
            kept.append(expr)
            read.update(expr.inputs)
    values = [replace(fusion.value(fid), window=window) for fid, window in windows.items()]
    inputs = (*fusion.inputs, *windows)
    return replace(fusion, inputs=inputs).with_exprs(reversed(kept), values).whole()


def _window(storage: Storage) -> Window | None:
    """What ``storage`` is where it is a window on a tensor."""
    strides = tuple(stride for stride in storage.strides if stride is not None)
    is_steady = len(strides) == len(storage.strides) and storage.position is None
    if not is_steady or storage.bounds or storage.fill is not None:
        return None
    return Window(tensor=storage.tensor, offset=storage.offset, strides=strides)
