"""What a reduction stores of the elements that it combines: results of the whole domain that need no reduced value.

The thread that combines an element has what these are made of. It stores them in the same sweep, so that the inputs are
read once; no other thread computes the element, so that a result may overwrite an input.
"""

from __future__ import annotations

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.domain import AxisDomain


def stored_outputs(task: Task, domain: AxisDomain) -> tuple[int, ...]:
    """The outputs of ``task`` that change along the axes which it reduces over."""
    reduced = {*domain.reduced}
    return tuple(fid for fid in task.outputs if not reduced.isdisjoint(domain.accesses[fid].axes))


def overwrites_some(task: Task, domain: AxisDomain) -> bool:
    """Whether what is stored overwrites an input: then a thread may only read elements that it stores itself."""
    outputs = map(task.fusion.output, stored_outputs(task, domain))
    return any(output is not None and output.alias is not None for output in outputs)
