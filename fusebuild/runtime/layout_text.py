"""Layouts of results as text of Python, which makes them anew in each call: a new shape costs what a known one does.

Each operation of a formula is one assignment to a register, made once for all formulas that have it, so that nothing is
nested and nothing is looked up. Of a plan the text has numbers and operators, but no name: an artifact cannot have one
that is run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusebuild.artifact.plan import Plan, PlanSolution, PlanValue, as_formula
from fusebuild.ir.formula import Formula, product, total
from fusebuild.runtime.layouts import solved, told_by, torch_dtype
from fusebuild.runtime.written import written

_OPERATIONS = {
    "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "floor_div": "{} // {}", "ceil_div": "-(-{} // {})",
    "mod": "{} % {}", "min": "min({}, {})", "max": "max({}, {})", "eq": "{} == {}", "ne": "{} != {}",
    "lt": "{} < {}", "le": "{} <= {}", "gt": "{} > {}", "ge": "{} >= {}",
}  # fmt: skip
"""What each operator does to two operands. ``True`` and ``False`` count as 1 and 0."""


@dataclass(slots=True, kw_only=True)
class LayoutText:
    """``lines`` that read sizes off shapes and assign registers, one for each operation; ``names`` has what is known so
    far, symbols and operations, by what the text calls it."""

    lines: list[str] = field(default_factory=list)
    names: dict[Formula, str] = field(default_factory=dict)

    def read(self, shape: str, value: PlanValue) -> None:
        """The sizes of the symbols that dims of ``value`` are, off what the text calls its ``shape``. Those that were
        read before stay what they are."""
        dims = [self._symbol(dim) for dim in value.shape]
        if any(name != "_" for name in dims):
            self.lines.append(f"{_listed(dims)} = {shape}")

    def _symbol(self, dim: Any) -> str:
        if not isinstance(dim, str) or dim in self.names:
            return "_"
        return self.names.setdefault(dim, f"s{len(self.names)}")

    def name(self, formula: Formula) -> str:
        """What has the value of ``formula``: a number, a size or a register."""
        if isinstance(formula, int):
            return f"{int(formula)}" if formula >= 0 else f"({int(formula)})"
        if formula in self.names:
            return self.names[formula]
        if isinstance(formula, str):
            raise ValueError(f"no input tells the size of {formula!r}")
        operator, *operands = formula
        made, *others = [self.name(operand) for operand in operands]  # type: ignore[arg-type]
        for other in others:
            text = _OPERATIONS[str(operator)].format(made, other)
            made = f"r{len(self.lines)}"
            self.lines.append(f"{made} = {text}")
        return self.names.setdefault(formula, made)

    def solve(self, solution: PlanSolution, shape: str) -> None:
        """The size of the symbol that ``solution`` tells, off what the text calls the ``shape`` of its input."""
        own = f"d{len(self.lines)}"
        self.lines.append(f"{own} = {shape}[{int(solution.dim)}]")
        told = LayoutText(lines=self.lines, names={**self.names, solution.symbol: own})
        self.names[solution.symbol] = told.name(solved(solution))

    def layout(self, value: PlanValue) -> str:
        """The shape of ``value`` and its strides, none of which is the caller's."""
        shape, strides = ([self.name(as_formula(each)) for each in of] for of in (value.shape, value.strides))
        return f"({_listed(shape)}), ({_listed(strides)})"

    def have_one_span(self, value: PlanValue, other: PlanValue) -> str:
        """Whether both take the same number of elements from their first to their last, both included."""
        return self.name(("eq", _span(value), _span(other)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultsText:
    """Text that makes the layouts of a plan's outputs from the inputs that tell their sizes, which it calls
    ``input_0`` and so on: ``lines`` that come first; for every output its layout, None where torch makes none, and in
    ``conditions`` what has to be true for one, beside it. ``names`` has the dtypes that the text names."""

    telling: tuple[str, ...]
    lines: tuple[str, ...]
    layouts: tuple[str | None, ...]
    conditions: tuple[str | None, ...]
    names: dict[str, Any]

    def function(self) -> Callable[..., list[Any]]:
        """The function of the inputs that tell sizes which gives the layouts."""
        results = [
            "None" if layout is None else f"({layout})" if condition is None else f"({layout}) if {condition} else None"
            for layout, condition in zip(self.layouts, self.conditions, strict=True)
        ]
        body = "\n    ".join([*self.lines, f"return [{', '.join(results)}]"])
        return written(f"def layouts_of({', '.join(self.telling)}):\n    {body}\n", self.names)


def results_text(
    plan: Plan, outputs: Sequence[tuple[PlanValue, PlanValue] | None], places: Sequence[int]
) -> ResultsText:
    """The text for ``outputs``, each the output's value and the one that it lives in, and None for what is not torch's.
    The inputs in ``places`` tell all sizes. A part of what kernels write cannot be made."""
    text, telling = LayoutText(), tuple(f"input_{place}" for place in places)
    for name, place in zip(telling, places, strict=True):
        text.read(f"{name}.shape", plan.value(plan.inputs[place]))
    for solution in plan.solutions or ():
        place = plan.inputs.index(solution.input)
        if place in places and all(symbol in text.names for symbol in told_by(solution)):
            text.solve(solution, f"input_{place}.shape")
    layouts, conditions, names = list[str | None](), list[str | None](), dict[str, Any]()
    for index, output in enumerate(outputs):
        conditions.append(None if output is None or output[0] is output[1] else text.have_one_span(*output))
        layouts.append(None if output is None else f"{text.layout(output[0])}, dtype_{index}")
        if output is not None:
            names[f"dtype_{index}"] = torch_dtype(output[0].dtype)
    return ResultsText(
        telling=telling, lines=tuple(text.lines), layouts=tuple(layouts), conditions=tuple(conditions), names=names
    )


def _listed(items: Sequence[str]) -> str:
    """``items`` as a tuple without its parentheses."""
    return f"{items[0]}," if len(items) == 1 else ", ".join(items)


def _span(value: PlanValue) -> Formula:
    """How many elements lie from the first of ``value`` to its last, both included."""
    shape: Sequence[Formula] = [as_formula(each) for each in value.shape]
    strides: Sequence[Formula] = [as_formula(each) for each in value.strides]
    steps: list[Formula] = [("mul", ("sub", size, 1), stride) for size, stride in zip(shape, strides, strict=True)]
    return ("mul", ("ne", product(shape), 0), total([1, *steps]))
