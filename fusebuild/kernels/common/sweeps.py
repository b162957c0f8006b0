"""Which sweep over a row needs what: 0 is that of the first level's reductions, one more that of the final stores."""

from __future__ import annotations

from collections.abc import Collection, Container
from dataclasses import dataclass

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.rows import levels
from fusebuild.ops.table import Kind, op_of


@dataclass(frozen=True, slots=True, kw_only=True)
class LastSweep:
    """What the sweep of the final stores takes from memory along the row, what it stores there, and the values of the
    row that a thread has until it ends: inputs, what follows from reductions, and results."""

    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    of_rows: tuple[int, ...]


def cached_inputs(task: Task, domain: AxisDomain) -> tuple[int, ...]:
    """Inputs worth keeping: dense ones of the whole domain that more than one sweep reads."""
    everything = tuple(range(len(domain.axes)))
    sweeps = input_sweeps(task)
    return tuple(
        fid
        for fid in domain.dense_along(everything[-1])
        if fid in task.inputs and domain.accesses[fid].axes == everything and len(sweeps.get(fid, ())) > 1
    )


def column_inputs(task: Task, domain: AxisDomain) -> tuple[int, ...]:
    """Inputs that change along the row and are read by vectors, in the order of fids."""
    inner = domain.inner
    return tuple(fid for fid in domain.dense_along(inner) if fid in task.inputs)


def last_sweep(task: Task, domain: AxisDomain, cached: Container[int], kept: Collection[int]) -> LastSweep:
    """The sweep of the final stores, where the inputs ``cached`` and the values ``kept`` are on chip."""
    needed, _ = _needs(task, kept)
    last, columns = max(levels(task).values()), {*domain.reduced}
    fids = (*task.inputs, *(fid for expr in task.steps for fid in expr.outputs))
    tensors = [fid for fid in fids if fid in domain.domain.dims]  # not what index ops read from
    along = {fid for fid in tensors if domain.axes_of(fid, task.fusion.value(fid).tensor) & columns}
    own = [expr for expr in task.steps if expr.outputs[0] in along and last in needed.get(expr.outputs[0], ())]
    used = {*(fid for expr in own for fid in expr.inputs), *task.outputs}
    read = (fid for fid in column_inputs(task, domain) if fid not in cached)
    return LastSweep(
        inputs=tuple(fid for fid in read if last in needed.get(fid, ())),
        outputs=tuple(fid for fid in task.outputs if fid in along),
        of_rows=tuple(fid for fid in tensors if fid in used and fid not in along),
    )


def input_sweeps(task: Task) -> dict[int, set[int]]:
    """For each input, the sweeps (0 for the first level's reductions, one more for the final stores) that read it."""
    needed, _ = _needs(task, ())
    return {fid: sweeps for fid, sweeps in needed.items() if fid in task.inputs}


def inputs_after(task: Task, kept: Collection[int], early: Collection[int]) -> set[int]:
    """Inputs that a sweep reads after the one that first has all the values ``kept``; outputs ``early`` are stored by
    the first."""
    needed, made = _needs(task, kept, early)
    done = max(made.values(), default=-1)
    return {fid for fid in task.inputs if max(needed.get(fid, ()), default=-1) > done}


def early_outputs(task: Task, domain: AxisDomain) -> tuple[int, ...]:
    """Outputs along the row that follow from no reduction: the first sweep stores them, and later ones need not compute
    them again. None where outputs overwrite what other threads read."""
    level = levels(task)
    overwrites = any(output.alias is not None for output in task.fusion.outputs)
    wide = [fid for fid in task.outputs if {*domain.accesses[fid].axes} & {*domain.reduced}]
    return () if overwrites else tuple(fid for fid in wide if level.get(fid, 0) == 0)


def _needs(
    task: Task, costly: Container[int], early: Container[int] = ()
) -> tuple[dict[int, set[int]], dict[int, int]]:
    """For each value the sweeps that need it; and for each of the ``costly`` that several do, the first, which computes
    it for all. Outputs that are ``early`` are stored by the first sweep."""
    kept: dict[int, int] = {}
    level = levels(task)
    last = max(level.values())
    needed: dict[int, set[int]] = {fid: {0 if fid in early else last} for fid in task.outputs}
    for expr in reversed(task.steps):
        sweeps = set().union(*(needed.get(fid, set()) for fid in expr.outputs))
        if op_of(expr).kind is Kind.REDUCTION:
            sweeps = {level[expr.outputs[0]] - 1}
        elif expr.outputs[0] in costly and len(sweeps) > 1:
            kept[expr.outputs[0]] = min(sweeps)
            sweeps = {min(sweeps)}
        for fid in expr.inputs:
            needed.setdefault(fid, set()).update(sweeps)
    return needed, kept


def kept_values(task: Task, domain: AxisDomain, early: Collection[int] = ()) -> dict[int, int]:
    """Costly values of the row that several sweeps need, the last one of a chain, and the sweep that computes each; so
    are the outputs that are stored ``early``."""
    _, kept = _needs(task, {*costly_values(task, domain, domain.reduced), *early}, early)
    return kept


def costly_values(task: Task, domain: AxisDomain, columns: Collection[int]) -> set[int]:
    """Values that take many instructions for each column of a row, which change along the axes ``columns``."""
    exprs = [expr for expr in task.steps if op_of(expr).is_costly]
    values = [value for expr in exprs if (value := task.fusion.value(expr.outputs[0])).is_tensor]
    return {value.fid for value in values if not domain.axes_of(value.fid, value.tensor).isdisjoint(columns)}
