"""A sum and the squares around what follows from it, as a variance has them, in one sweep over a row.

Each thread has the sum of its elements and the squares around their own mean. What those are around the center that all
parts have together differs by as many squares of the way between the two as the part has elements (Chan, Golub and
LeVeque). Where threads have their elements in registers, two sweeps over those take less.
"""

from __future__ import annotations

from dataclasses import dataclass

from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Task
from fusebuild.ir.values import Expr
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.rows import by_level
from fusebuild.kernels.common.spec import reductions
from fusebuild.ops.table import op_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Moments:
    """A sum of the values ``element`` of a row, and then one of their squares around ``center``, which is one value for
    the row."""

    element: int
    center: int


def moments_of(task: Task, domain: AxisDomain) -> Moments | None:
    """What the reductions of a row are moments of: there are two such sums, one after the other, and no others."""
    found = by_level(task, reductions(task)).values()
    sums = [task.fusion.exprs[index] for own in found for index in own if len(own) == 1]
    if len(found) != 2 or len(sums) != 2 or any(_is_no_sum_of_floats(task, expr) for expr in sums):
        return None
    element, squares = (_root(task, expr.inputs[0]) for expr in sums)
    square = task.step_of(squares)
    way = task.step_of(_root(task, square.inputs[0])) if square is not None and square.op == "mul" else None
    if square is None or way is None or way.op != "sub" or task.fusion.value(way.outputs[0]).dtype is not DType.FLOAT:
        return None
    if len({_root(task, fid) for fid in square.inputs}) > 1:
        return None
    of, center = (_root(task, fid) for fid in way.inputs)
    value = task.fusion.value(center)
    moves = value.is_tensor and not domain.axes_of(center, value.tensor).isdisjoint(domain.reduced)
    return Moments(element=element, center=center) if of == element and not moves else None


def _is_no_sum_of_floats(task: Task, expr: Expr) -> bool:
    value, result = task.fusion.value(expr.inputs[0]), task.fusion.value(expr.outputs[0])
    takes_floats = value.dtype is DType.FLOAT or value.dtype.is_reduced_precision
    return expr.op != "sum" or value.is_constant or result.dtype is not DType.FLOAT or not takes_floats


def _root(task: Task, fid: int) -> int:
    """The value that ``fid`` is another name of; itself when it is no view."""
    step = task.step_of(fid)
    return _root(task, step.inputs[0]) if step is not None and op_of(step).is_rename else fid
