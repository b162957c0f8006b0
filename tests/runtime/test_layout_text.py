"""Layouts of results as text: what it makes is what the plan's formulas say."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusebuild.artifact.plan import PlanValue
from fusebuild.ir.formula import OPERATORS, Formula, evaluate
from fusebuild.runtime.layout_text import LayoutText, results_text
from fusebuild.runtime.memory import UNMADE
from support import runtime_plans as plans

torch = pytest.importorskip("torch")

SIZES = {"M": 7, "N": 3, "K": 0}
LEAVES = st.integers(-3, 9) | st.sampled_from(list(SIZES))
VARIADIC = ("add", "mul", "min", "max")


def applied(operands: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def of(operator: str) -> st.SearchStrategy[Any]:
        most = 4 if operator in VARIADIC else 2
        return st.lists(operands, min_size=2, max_size=most).map(lambda found: (operator, *found))

    return st.sampled_from(sorted(OPERATORS)).flatmap(of)


def value_of(formula: Formula) -> int:
    """By the text, of an input of ``M`` x 4 and one of ``N`` x ``M`` x ``K``."""
    text, inputs = LayoutText(), (plans.tensor(0, "x", ["M", 4]), plans.tensor(1, "y", ["N", "M", "K"]))
    shapes = {"x": (SIZES["M"], 4), "y": (SIZES["N"], -1, SIZES["K"])}  # of a symbol's sizes the first is taken
    for value in inputs:
        text.read(value.name, value)
    made = text.name(formula)
    names: dict[str, Any] = dict(shapes)
    exec("\n".join(text.lines), names)
    return int(eval(made, names))


@settings(deadline=None)
@given(st.recursive(LEAVES, applied, max_leaves=12))
def test_the_text_has_the_value_of_the_formula(formula: Formula) -> None:
    try:
        wanted = evaluate(formula, SIZES)
    except ZeroDivisionError:
        with pytest.raises(UNMADE):
            value_of(formula)
        return
    assert value_of(formula) == wanted


def test_what_formulas_share_is_one_line() -> None:
    text = LayoutText()
    text.read("shape", plans.tensor(0, "x", ["M", "N", "K"]))
    row = ("mul", "N", "K")
    assert text.layout(plans.tensor(1, "y", ["M", "N", "K"], strides=[row, "K", 1])) == "(s0, s1, s2), (r1, s2, 1)"
    assert text.layout(plans.tensor(2, "z", ["M", row], strides=[row, 1])) == "(s0, r1), (r1, 1)"
    assert text.layout(plans.tensor(3, "v", [row], strides=[1])) == "(r1,), (1,)"
    assert text.lines == ["s0, s1, s2 = shape", "r1 = s1 * s2"]


def test_a_size_that_no_input_tells_is_refused() -> None:
    with pytest.raises(ValueError, match="no input tells the size of 'Q'"):
        LayoutText().name(("mul", 2, "Q"))


@pytest.mark.parametrize(
    ("view", "is_whole"),
    [(["N", "M"], True), (["M"], False), ([("mul", "M", "N")], True), ([("sub", ("mul", "M", "N"), 1)], False)],
    ids=str,
)
@pytest.mark.parametrize("sizes", [(2, 3), (1, 1), (0, 3), (2, 0)], ids=str)
def test_a_view_is_made_where_it_is_all_of_what_is_written(
    view: list[Any], is_whole: bool, sizes: tuple[int, int]
) -> None:
    root, part = plans.tensor(1, "y", ["M", "N"]), plans.tensor(2, "view", view)
    plan = plans.plan("viewed", [plans.tensor(0, "x", ["M", "N"]), root, part], [0], [], [])
    (layout,) = results_text(plan, [(part, root)], [0]).function()(SimpleNamespace(shape=sizes))
    extents = dict(zip("MN", sizes, strict=True))
    is_made = span(part, extents) == span(root, extents)
    assert (layout is not None) == is_made
    assert is_made >= is_whole
    if layout is not None:
        assert layout == (shape_of(part, extents), strides_of(part, extents), torch.float32)


def shape_of(value: PlanValue, sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(each, sizes) for each in value.shape)  # type: ignore[arg-type]


def strides_of(value: PlanValue, sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(evaluate(each, sizes) for each in value.strides)  # type: ignore[arg-type]


def span(value: PlanValue, sizes: dict[str, int]) -> int:
    """Elements from the first to the last."""
    shape = shape_of(value, sizes)
    steps = [(size - 1) * stride for size, stride in zip(shape, strides_of(value, sizes), strict=True)]
    return 0 if 0 in shape else 1 + sum(steps)
