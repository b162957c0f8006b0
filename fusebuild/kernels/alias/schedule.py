"""Views: a task that moves no data runs no kernel.

Only intermediates become views. An output never shares memory with an input unless the recipe says so, hence a task
whose result the user gets is left to a scheduler that copies.
"""

from __future__ import annotations

from fusebuild.ir.fid import SegmentFid
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.ops.table import op_of


def check(task: Task) -> None:
    for expr in task.steps:
        if not op_of(expr).is_alias:
            raise UnfitError(f"{expr.op} computes", expr.outputs[0])
        if expr.op == "permute":
            raise UnfitError("permute moves elements", expr.outputs[0])
    overwritten = {output.alias for output in task.fusion.outputs}
    for value in map(task.fusion.value, task.inputs):
        if value.tensor.cpu:
            raise UnfitError(f"{value.name} is in host memory")
        if value.fid in overwritten:
            raise UnfitError(f"{value.name} is overwritten, and a view would see that")
        if None in value.tensor.strides:
            raise UnfitError(f"{value.name} has strides known only at run time")
    for value in map(task.fusion.value, task.outputs):
        if task.fusion.is_output(value.fid):
            raise UnfitError(f"output {value.name} would share memory with another tensor", value.fid)


def variants(planner: Planner) -> tuple[VariantSpec, ...]:
    """No launches; :func:`view_sources` says whose memory each output is."""
    return (VariantSpec(name="view", guard=(), launches=()),)


def view_sources(task: Task) -> dict[SegmentFid, SegmentFid]:
    """For each output of an alias task, a whole segment, the input whose memory it shares."""
    source: dict[int, int] = {}
    for expr in task.steps:
        source[expr.outputs[0]] = source.get(expr.inputs[0], expr.inputs[0])
    return {SegmentFid(fid): SegmentFid(source[fid]) for fid in task.outputs}
