"""Views: a task that moves no data runs no kernel.

Only intermediates become views. An output never shares memory with an input unless the recipe says so, hence a task
whose result the user gets is left to a scheduler that copies.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusebuild.ir.fid import SegmentFid
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import NOT_TUNED, Tuned
from fusebuild.kernels.common.spec import Rejection, VariantSpec, rejection
from fusebuild.ops.table import op_of
from fusebuild.target.table import Target


@dataclass(frozen=True, slots=True, kw_only=True)
class AliasScheduler:
    name: str = "alias"

    def accepts(self, task: Task, target: Target) -> Rejection | None:
        for index in task.exprs:
            expr = task.fusion.exprs[index]
            if not op_of(expr).is_alias:
                return rejection(self.name, task, f"{expr.op} computes", expr.outputs[0])
            if expr.op == "permute":
                return rejection(self.name, task, "permute moves elements", expr.outputs[0])
        overwritten = {output.alias for output in task.fusion.outputs}
        for fid in task.inputs:
            value = task.fusion.value(fid)
            if value.tensor.cpu:
                return rejection(self.name, task, f"{value.name} is in host memory")
            if fid in overwritten:
                return rejection(self.name, task, f"{value.name} is overwritten, and a view would see that")
            if None in value.tensor.strides:
                return rejection(self.name, task, f"{value.name} has strides known only at run time")
        for fid in task.outputs:
            if fid in task.fusion.output_fids:
                name = task.fusion.value(fid).name
                return rejection(self.name, task, f"output {name} would share memory with another tensor", fid)
        return None

    def schedule(
        self, task: Task, target: Target, sizes: Mapping[str, int], tuned: Tuned = NOT_TUNED
    ) -> tuple[VariantSpec, ...]:
        """No launches; :func:`view_sources` says whose memory each output is."""
        return (VariantSpec(name="view", guard=(), launches=()),)


def view_sources(task: Task) -> dict[SegmentFid, SegmentFid]:
    """For each output of an alias task, a whole segment, the input whose memory it shares."""
    source: dict[int, int] = {}
    for index in task.exprs:
        expr = task.fusion.exprs[index]
        source[expr.outputs[0]] = source.get(expr.inputs[0], expr.inputs[0])
    return {SegmentFid(fid): SegmentFid(source[fid]) for fid in task.outputs}
