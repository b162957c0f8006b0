"""Tensors that hold the same axes in different orders, where those that changed places have one point: copies.

A call finds that out. Its kernels are told then that the innermost axis has all elements, and each other one a single
point: what they do is the same, and every variant for whole or long rows is one for such calls. (H100, bshd_to_bhsd of
459 x 148335 rows of one head and one element: 125 us element by element, 99 so, which is 0.95 of a copy.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Self

from fusebuild.artifact.plan import FormulaArg, as_formula
from fusebuild.ir.formula import Formula, product, show, simplified, substitute
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.spec import KernelParameter, LaunchSpec, VariantSpec, counts


@dataclass(frozen=True, slots=True, kw_only=True)
class Collapse:
    """What a call takes the symbols for that are the extents of the axes: ``sizes``, which have as many ``points``."""

    sizes: Mapping[str, Formula]
    points: Formula

    @classmethod
    def of(cls, task: Task, domain: AxisDomain) -> Self | None:
        """That of tensors that fill memory in several orders of axes, where nothing else depends on the symbols; None
        for other tasks."""
        extents = [axis.extent for axis in domain.axes]
        names = [extent for extent in extents if isinstance(extent, str)]
        accesses = domain.accesses.values()
        if len({*names}) < len(extents) or domain.sources or counts(task):
            return None
        if not all(access.axes == domain.every and domain.fills_memory(access) for access in accesses):
            return None
        swapped = dict.fromkeys(
            (extents[outer], extents[inner])
            for access in accesses
            for outer, inner in combinations(domain.every, 2)
            if extents[inner] not in _counted(access.strides[outer])
        )
        return cls(sizes=_sizes(names, [*swapped]), points=domain.points(domain.every)) if swapped else None

    def variant(self, variant: VariantSpec) -> VariantSpec:
        """``variant``, whose guard, grid and arguments take symbols for the ``sizes``."""
        guard = tuple(map(self.formula, variant.guard))
        return replace(variant, guard=guard, launches=tuple(map(self._launch, variant.launches)))

    def formula(self, formula: Formula) -> Formula:
        """``formula`` of those sizes; the number of all points stays as it is."""
        if formula == self.points or not isinstance(formula, tuple) or formula[0] == "aligned":
            return substitute(formula, self.sizes) if isinstance(formula, str) else formula
        operator, *operands = formula
        return simplified((operator, *map(self.formula, operands)))  # type: ignore[arg-type]

    def _launch(self, launch: LaunchSpec) -> LaunchSpec:
        parameters = tuple(map(self._parameter, launch.kernel.parameters))
        x, y, z = map(self.formula, launch.grid)
        return replace(launch, grid=(x, y, z), kernel=replace(launch.kernel, parameters=parameters))

    def _parameter(self, parameter: KernelParameter) -> KernelParameter:
        """``parameter`` of those sizes; a stride stays, since no other axis has a second point where they differ."""
        if not isinstance(parameter.arg, FormulaArg) or "_stride" in parameter.name:
            return parameter
        own = as_formula(parameter.arg.formula)
        formula = self.formula(own)
        comment = show(formula) if parameter.comment == show(own) else parameter.comment
        return replace(parameter, arg=FormulaArg(formula=formula), comment=comment)


def _counted(stride: Formula | None) -> tuple[object, ...]:
    """The extents of which a ``stride`` is made: those of the axes inside."""
    return stride[1:] if isinstance(stride, tuple) and stride[0] == "mul" else (stride,)


def _sizes(names: Sequence[str], swapped: Sequence[tuple[Formula, Formula]]) -> dict[str, Formula]:
    """The sizes of axes with these ``names``, innermost last: all points are along that one where of each of the
    pairs ``swapped`` an axis has one point at most."""
    smaller: list[Formula] = [("min", *pair) for pair in swapped]
    most: Formula = ("max", *smaller) if len(smaller) > 1 else smaller[0]
    is_copy, is_none = ("le", most, 1), ("gt", most, 1)
    *outer, inner = names
    return {
        **{name: ("max", is_copy, product([name, is_none])) for name in outer},
        inner: product([inner, ("max", is_none, product([is_copy, *outer]))]),
    }
