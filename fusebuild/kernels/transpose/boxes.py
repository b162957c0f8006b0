"""Tiles that are boxes of matrices, rows and columns, whose sides the sizes of a call give.

Matrices of at least ``side`` rows and columns are cut into squares of that side. Where one extent is less, a box has
more of the other one, and where both are, several matrices of a batch: whatever the sizes are, a box has about
``side * side`` elements, most of them side by side in memory.
"""

from __future__ import annotations

from collections.abc import Iterable

from fusebuild.ir.formula import Formula, product, simplified
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.spec import KernelParameter, formula_parameter

MANY = 2**20
"""Elements that make enough boxes of ``side``; of fewer, boxes have half the side, so that all multiprocessors have
some."""

SIDES = ("box_rows", "box_columns", "box_matrices")
"""How kernels call the sides of a box."""


def box_formulas(domain: AxisDomain, across: int, side: int) -> tuple[Formula, Formula, Formula]:
    """The rows, columns and matrices of a box."""
    inner = domain.inner
    rows, columns = domain.axes[across].extent, domain.axes[inner].extent
    many: Formula = ("ge", domain.points(domain.every), MANY)
    own = simplified(("mul", side // 2, ("add", many, 1)))
    size = simplified(("mul", own, own))

    def along(extent: Formula, other: Formula) -> Formula:
        room: Formula = ("floor_div", size, _within(other, own))
        return _within(extent, ("max", own, room))

    sides = along(rows, columns), along(columns, rows)
    matrices = domain.points(axis for axis in range(inner) if axis != across)
    return *sides, 1 if matrices == 1 else _within(matrices, ("max", 1, ("floor_div", size, product(sides))))


def box_parameters(sides: Iterable[Formula]) -> tuple[KernelParameter, ...]:
    """The sides of a box as a kernel is given them."""
    named = zip(SIDES, sides, strict=True)
    return tuple(formula_parameter(name, side, f"{name.removeprefix('box_')} of a box") for name, side in named)


def _within(extent: Formula, most: Formula) -> Formula:
    """``extent``, at least 1 and no more than ``most``."""
    return simplified(("min", ("max", extent, 1), most))
