"""Parts of a task that kernels of their own compute."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from fusebuild.ir.fusion import Task


def part_of(task: Task, targets: Iterable[int], available: Collection[int] = ()) -> Task:
    """The exprs of ``task`` that compute ``targets``; values in ``available`` are there."""
    wanted, exprs = {*targets}, list[int]()
    results = frozenset(wanted)
    for index, expr in zip(reversed(task.exprs), reversed(task.steps), strict=True):
        if not wanted.isdisjoint(expr.outputs):
            exprs.append(index)
            wanted |= {*expr.inputs} - {*available}
    return Task(fusion=task.fusion, exprs=tuple(sorted(exprs)), results=results)
