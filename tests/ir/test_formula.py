"""Formulas: their value, their canonical forms, and how they read."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fusebuild.ir.formula import (
    OPERATORS,
    Formula,
    at_least_zero,
    ceil_div,
    constants,
    depth,
    evaluate,
    is_nonnegative,
    magnitude,
    prepared,
    product,
    show,
    substitute,
    symbols,
    total,
)

SIZES = {"M": 7, "N": 1001, "K": 2}

leaves: st.SearchStrategy[Any] = st.integers(0, 9) | st.sampled_from(["M", "N", "K"])
sums_of_products: st.SearchStrategy[Any] = st.recursive(
    leaves, lambda inner: st.lists(inner, min_size=1, max_size=4).map(product) | st.lists(inner, max_size=4).map(total)
)


@st.composite
def _operation(draw: st.DrawFn, inner: st.SearchStrategy[Any]) -> Any:
    operator = draw(st.sampled_from(sorted(OPERATORS)))
    if operator in ("floor_div", "ceil_div", "mod"):
        return (operator, draw(inner), draw(st.integers(1, 9)))
    count = draw(st.integers(2, 4)) if operator in ("add", "mul", "min", "max") else 2
    return (operator, *(draw(inner) for _ in range(count)))


formulas: st.SearchStrategy[Any] = st.recursive(leaves, _operation, max_leaves=8)


class TestEvaluate:
    @pytest.mark.parametrize(
        ("formula", "value"),
        [
            (5, 5),
            ("M", 7),
            (("add", "M", 1, 2), 10),
            (("sub", "M", 10), -3),
            (("mul", 2, "M", "K"), 28),
            (("floor_div", "N", 8), 125),
            (("ceil_div", "N", 8), 126),
            (("ceil_div", 0, 8), 0),
            (("mod", "N", 8), 1),
            (("min", "M", "N", 3), 3),
            (("max", "M", "N", 3), 1001),
            (("eq", "M", 7), 1),
            (("ne", "M", 7), 0),
            (("lt", "M", 7), 0),
            (("le", "M", 7), 1),
            (("gt", "M", 6), 1),
            (("ge", "M", 8), 0),
            (("eq", ("mod", ("mul", "M", 8), 8), 0), 1),
        ],
    )
    def test_value(self, formula: Formula, value: int) -> None:
        assert evaluate(formula, SIZES) == value
        assert prepared(formula)(SIZES) == value

    def test_alignment_asks_the_caller(self) -> None:
        assert evaluate(("aligned", 3, 16), {}, aligned=lambda fid, size: (fid, size) == (3, 16)) == 1
        assert evaluate(("aligned", 3, 8), {}, aligned=lambda fid, size: (fid, size) == (3, 16)) == 0

    def test_alignment_without_tensors_is_an_error(self) -> None:
        with pytest.raises(ValueError, match=r"^an alignment guard can only be evaluated with tensors$"):
            evaluate(("aligned", 3, 16), {})

    def test_unknown_symbol_is_a_key_error(self) -> None:
        with pytest.raises(KeyError, match="Q"):
            evaluate(("mul", 2, "Q"), SIZES)
        with pytest.raises(KeyError, match="Q"):
            prepared(("mul", 2, "Q"))(SIZES)

    @pytest.mark.parametrize(
        ("formula", "message"),
        [
            (("power", 1, 2), "malformed formula ('power', 1, 2)"),
            (("add", 1), "malformed formula ('add', 1)"),
            (("add",), "malformed formula ('add',)"),
            ((3, 1, 2), "malformed formula (3, 1, 2)"),
            (("sub", 1, 2, 3), "'sub' takes two operands: ('sub', 1, 2, 3)"),
            (("aligned", "M", 2), "malformed formula ('aligned', 'M', 2)"),
        ],
    )
    def test_malformed(self, formula: Any, message: str) -> None:
        with pytest.raises(ValueError, match=r"^") as caught:
            evaluate(formula, SIZES, aligned=lambda fid, size: True)
        assert str(caught.value) == message

    @pytest.mark.parametrize("formula", [("power", 1, 2), ("add", 1), ("sub", 1, 2, 3), ("aligned", 3, 16)])
    def test_malformed_is_found_when_it_is_prepared(self, formula: Any) -> None:
        with pytest.raises(ValueError, match=r"^malformed formula|^'sub' takes two operands"):
            prepared(formula)


class TestCanonicalForms:
    @pytest.mark.parametrize(
        ("factors", "result"),
        [
            ([], 1),
            ([3, 4], 12),
            (["M"], "M"),
            (["M", 1], "M"),
            (["M", 2, "N", 3], ("mul", 6, "M", "N")),
            ([2, ("mul", 3, "M")], ("mul", 6, "M")),
            (["M", 0], 0),
            ([("ceil_div", "M", 8), 4], ("mul", 4, ("ceil_div", "M", 8))),
        ],
    )
    def test_product(self, factors: list[Formula], result: Formula) -> None:
        assert product(factors) == result

    @pytest.mark.parametrize(
        ("terms", "result"),
        [
            ([], 0),
            ([3, 4], 7),
            (["M"], "M"),
            (["M", 0], "M"),
            (["M", "N", "M"], ("add", ("mul", 2, "M"), "N")),
            ([1, "M", 2], ("add", "M", 3)),
            ([("mul", 2, "M"), ("mul", 4, "M")], ("mul", 6, "M")),
            ([("mul", 2, "M", "N"), ("mul", "M", "N")], ("mul", 3, "M", "N")),
            ([("mul", -1, "M"), "M"], 0),
            ([("add", ("mul", 4, "M"), 1), ("add", ("mul", 2, "M"), 2)], ("add", ("mul", 6, "M"), 3)),
        ],
    )
    def test_total(self, terms: list[Formula], result: Formula) -> None:
        assert total(terms) == result

    @given(st.lists(sums_of_products, max_size=5))
    def test_product_is_the_product(self, factors: list[Formula]) -> None:
        expected = 1
        for factor in factors:
            expected *= evaluate(factor, SIZES)
        assert evaluate(product(factors), SIZES) == expected

    @given(st.lists(sums_of_products, max_size=5))
    def test_total_is_the_sum(self, terms: list[Formula]) -> None:
        assert evaluate(total(terms), SIZES) == sum(evaluate(term, SIZES) for term in terms)

    @given(st.lists(sums_of_products, max_size=5))
    def test_both_are_idempotent(self, operands: list[Formula]) -> None:
        assert total([total(operands)]) == total(operands)
        assert product([product(operands)]) == product(operands)

    def test_ceil_div(self) -> None:
        assert ceil_div(9, 4) == 3
        assert ceil_div("M", 1) == "M"
        assert ceil_div("M", 4) == ("ceil_div", "M", 4)


def test_symbols_come_in_order_with_repeats() -> None:
    assert list(symbols(("add", ("mul", "N", "M"), 3, "N"))) == ["N", "M", "N"]
    assert list(symbols(("aligned", 3, 16))) == []
    assert list(symbols(7)) == []


class TestShow:
    @pytest.mark.parametrize(
        ("formula", "text"),
        [
            (7, "7"),
            ("M", "M"),
            (("mul", 2, "M", "N"), "2*M*N"),
            (("add", ("mul", 2, "M"), 3), "2*M + 3"),
            (("mul", ("add", "M", 1), "N"), "(M + 1)*N"),
            (("sub", "M", ("sub", "N", 1)), "M - (N - 1)"),
            (("mod", "M", ("mul", 2, "N")), "M % (2*N)"),
            (("floor_div", ("mul", "M", 4), 2), "(M*4) // 2"),
            (("eq", ("mod", "M", 8), 0), "(M % 8) == 0"),
            (("ceil_div", ("add", "M", 1), 8), "ceil_div(M + 1, 8)"),
            (("max", "M", ("mul", 2, "N")), "max(M, 2*N)"),
            (("aligned", 3, 16), "aligned(3, 16)"),
        ],
    )
    def test_text(self, formula: Formula, text: str) -> None:
        assert show(formula) == text

    @given(formulas)
    def test_means_what_it_says_in_python(self, formula: Formula) -> None:
        names: dict[str, Any] = {**SIZES, "ceil_div": lambda a, b: -(-a // b), "min": min, "max": max}
        assert int(eval(show(formula), {"__builtins__": {}}, names)) == evaluate(formula, SIZES)


class TestSigns:
    @pytest.mark.parametrize(
        ("formula", "sure"),
        [
            (0, True), (-1, False), ("M", True), (("add", "M", 3), True), (("add", "M", -3), False),
            (("sub", "M", "N"), False), (("mul", -1, "M"), False), (("mul", 2, "M"), True),
            (("floor_div", ("add", "M", -1), 2), False), (("min", "M", ("add", "N", -1)), False),
            (("max", ("add", "N", -1), 0), True),
        ],
    )  # fmt: skip
    def test_what_is_surely_no_less_than_zero(self, formula: Formula, sure: bool) -> None:
        assert is_nonnegative(formula) is sure

    @given(formulas)
    def test_what_is_surely_no_less_than_zero_is_not(self, formula: Formula) -> None:
        value = evaluate(formula, SIZES)
        assert value >= 0 or not is_nonnegative(formula)
        assert evaluate(at_least_zero(formula), SIZES) == max(value, 0)
        assert evaluate(magnitude(formula), SIZES) == abs(value)

    def test_nothing_is_computed_where_the_sign_is_known(self) -> None:
        assert (at_least_zero("M"), at_least_zero(-2), magnitude(-2)) == ("M", 0, 2)


def test_numbers_and_depth() -> None:
    formula: Formula = ("add", ("mul", 3, "M", ("floor_div", "N", 2)), -1)
    assert list(constants(formula)) == [3, 2, -1]
    assert (depth(formula), depth("M"), depth(7)) == (3, 0, 0)


def test_symbols_become_numbers_and_other_formulas() -> None:
    formula: Formula = ("add", ("mul", 2, "M"), "N")
    assert substitute(formula, {"M": 3, "N": 1}) == 7
    assert substitute(formula, {"N": "M"}) == ("mul", 3, "M")
    assert substitute(("floor_div", "N", 2), {"N": ("mul", 4, "K")}) == ("floor_div", ("mul", 4, "K"), 2)
