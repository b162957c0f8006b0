"""The normal form of formulas: what it makes equal, which signs it proves, and that it never changes a value."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fusebuild.ir.algebra import MAX_TERMS, NO_FACTS, Algebra, missing_facts
from fusebuild.ir.formula import Formula, evaluate, show
from fusebuild.ir.solving import Solved, divided, solve
from fusebuild.ir.values import ExtentBinding, ExtentFact

ALGEBRA = Algebra(
    order=("T", "D", "J", "N", "K", "S", "P"),
    facts=(
        ExtentFact(symbol="D", multiple_of=128),
        ExtentFact(symbol="J", multiple_of=2),
        ExtentFact(symbol="K", min=3, max=9),
    ),
    relations=(("le", "S", "P"), ("ge", "S", 1)),
)


def quotient(a: Formula, b: int) -> Formula:
    return ("floor_div", a, b)


@pytest.mark.parametrize(
    ("formula", "meant"),
    [
        (("mul", quotient("D", 128), 128), "D"),
        (("mul", 64, quotient("D", 64)), "D"),
        (("mul", 2, quotient("D", 128)), "D // 64"),
        (("mul", 3, quotient("D", 64)), "3*(D // 64)"),
        (("mul", "D", quotient("D", 128)), "D*(D // 128)"),
        (("sub", "J", quotient("J", 2)), "J // 2"),
        (("add", quotient("J", 2), quotient("J", 2)), "J"),
        (("mod", "D", 64), "0"),
        (("mod", "N", 8), "N - 8*(N // 8)"),
        (("add", "N", "T"), "T + N"),
        (("sub", "N", "T"), "N - T"),
        (("mul", ("add", "N", 1), ("sub", "N", 1)), "N*N - 1"),
        (quotient(("mul", 3, "N"), 2), "N + (N // 2)"),
        (quotient(("add", ("mul", 4, "N"), 3), 4), "N"),
        (quotient(("add", ("mul", 2, "N"), 1), 4), "N // 2"),
        (quotient(quotient("N", 2), 3), "N // 6"),
        (quotient(("add", quotient("N", 2), 1), 3), "(N + 2) // 6"),
        (("ceil_div", ("ceil_div", "N", 2), 3), "ceil_div(N, 6)"),
        (quotient(("add", "N", 7), 8), "ceil_div(N, 8)"),
        (("ceil_div", ("sub", "N", quotient("N", 2)), 2), "ceil_div(N - (N // 2), 2)"),
        (("min", "S", "P"), "S"),
        (("max", "S", 1), "S"),
        (("min", "K", 9), "K"),
        (("max", 3, "K"), "K"),
        (("min", ("min", "N", "T"), "N"), "min(T, N)"),
        (("max", 0, ("sub", "P", "S")), "P - S"),
        (("max", ("sub", "N", "T"), 0), "max(N - T, 0)"),
        (("mul", ("floor_div", "N", "T"), 2), "2*(N // T)"),
        (("lt", 3, 5), "1"),
    ],
    ids=lambda each: each if isinstance(each, str) else show(each),
)
def test_normal_form(formula: Any, meant: str) -> None:
    assert show(ALGEBRA.canonical(formula)) == meant


@pytest.mark.parametrize(
    ("less", "more"),
    [
        (0, "N"),
        ("S", "P"),
        (("mul", "N", "S"), ("mul", "N", "P")),
        (1, "P"),
        (quotient("N", 4), quotient("N", 2)),
        (("mul", 2, quotient("N", 4)), quotient("N", 2)),
        (("add", quotient("N", 2), quotient("N", 4)), "N"),
        (quotient("N", 3), quotient(("add", "N", 1), 3)),
        (("max", ("sub", "N", 2), 0), "N"),
        (("min", "N", 2), ("min", "N", 7)),
        ("K", 9),
        (("mul", 3, "N"), ("mul", "K", "N")),
        (("add", "N", "K"), ("add", "N", 9)),
    ],
)
def test_orders_that_are_proved(less: Any, more: Any) -> None:
    assert ALGEBRA.at_most(less, more)


@pytest.mark.parametrize(
    ("less", "more"),
    [("N", "T"), ("P", "S"), (1, "N"), ("K", 8), (quotient("N", 2), quotient("N", 3)), (0, ("sub", "N", 1))],
)
def test_orders_that_do_not_hold(less: Any, more: Any) -> None:
    assert not ALGEBRA.at_most(less, more)


def test_contradictions_are_seen() -> None:
    assert ALGEBRA.contradicts(("lt", "P", "S"))
    assert ALGEBRA.contradicts(("eq", ("add", "P", 1), "S"))
    assert ALGEBRA.contradicts(("ge", "K", 10))
    assert not ALGEBRA.contradicts(("eq", "S", "P"))
    assert not ALGEBRA.contradicts(("ge", "K", 9))


def test_multiples() -> None:
    assert ALGEBRA.divides(64, ("mul", 3, "D"))
    assert ALGEBRA.divides(8, ("add", ("mul", 4, "J"), 16))
    assert not ALGEBRA.divides(8, ("mul", 2, "J"))


def test_products_of_many_sums_are_not_multiplied_out() -> None:
    factors = [("add", f"A{at}", f"B{at}") for at in range(40)]
    found = NO_FACTS.product(factors)
    assert len(show(found)) < 40 * MAX_TERMS
    sizes = {f"{name}{at}": at % 3 + 1 for at in range(40) for name in "AB"}
    assert evaluate(found, sizes) == math.prod(2 * (at % 3 + 1) for at in range(40))
    assert NO_FACTS.canonical(found) == found


def test_what_is_missing_is_stated() -> None:
    groups: Formula = ("mul", quotient("N", 64), 64)
    stated = missing_facts(ALGEBRA, [groups], lambda algebra: algebra.equal(groups, "N"))
    assert stated == "state 'N: {multiple_of: 64}' under extents"
    both: Formula = ("mul", quotient("N", 2), 2, quotient("J", 6), 6)
    stated = missing_facts(ALGEBRA, [both], lambda algebra: algebra.equal(both, ("mul", "N", "J")))
    assert stated == "state 'N: {multiple_of: 2}' and 'J: {multiple_of: 6}' under extents"
    assert missing_facts(ALGEBRA, ["N"], lambda algebra: algebra.equal("N", "T")) == ""


def solved(*extents: Formula, algebra: Algebra = NO_FACTS) -> Solved:
    return solve([ExtentBinding(fid=-1 - at, input=0, dim=at, extent=each) for at, each in enumerate(extents)], algebra)


def told(*extents: Formula, algebra: Algebra = NO_FACTS) -> list[tuple[str, int, int, str, str]]:
    found = solved(*extents, algebra=algebra).solutions
    return [(each.symbol, each.dim, each.divisor, show(each.factor), show(each.offset)) for each in found]


class TestSolving:
    def test_named_alone(self) -> None:
        assert told("N", ("mul", 2, "N")) == []

    def test_linear(self) -> None:
        assert told(("mul", 2, "I")) == [("I", 0, 1, "2", "0")]
        assert told(("add", ("mul", 3, "I"), "N", 1), "N") == [("I", 0, 1, "3", "N + 1")]
        assert told(("sub", "N", "I"), "N") == [("I", 0, 1, "-1", "N")]

    def test_multiples(self) -> None:
        algebra = Algebra(facts=(ExtentFact(symbol="D", multiple_of=128),))
        assert told(quotient("D", 128), algebra=algebra) == [("D", 0, 128, "1", "0")]
        assert told(("add", quotient("D", 64), 1), algebra=algebra) == [("D", 0, 64, "1", "64")]
        assert solved(quotient("D", 256), algebra=algebra).unknown == ("D",)
        assert divided([("add", quotient("D", 256), 1)], "D") == 256

    def test_one_after_the_other(self) -> None:
        assert told(("add", "B", "A"), ("mul", 2, "A")) == [("A", 1, 1, "2", "0"), ("B", 0, 1, "1", "A")]

    def test_numbers_as_factors_come_first(self) -> None:
        assert told(("mul", "N", "I"), "N", ("mul", 2, "I")) == [("I", 2, 1, "2", "0")]
        assert told(("mul", "N", "I"), "N") == [("I", 0, 1, "N", "0")]

    def test_unknown(self) -> None:
        assert solved(("add", "A", "B"), ("sub", "A", "B")).unknown == ("A", "B")
        assert solved(("mul", "A", "A")).unknown == ("A",)
        assert solved(("max", "A", 3)).unknown == ("A",)


# Random formulas under random facts.

NAMES = ("A", "B", "C")
leaves: st.SearchStrategy[Any] = st.integers(-3, 9) | st.sampled_from(NAMES)


def _operations(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    divisor = st.sampled_from([1, 2, 3, 4, 6, 8])
    return st.one_of(
        st.tuples(st.sampled_from(["floor_div", "ceil_div", "mod"]), inner, divisor),
        st.tuples(st.sampled_from(["add", "mul", "min", "max"]), inner, inner),
        st.tuples(st.sampled_from(["add", "mul", "min", "max"]), inner, inner, inner),
        st.tuples(st.just("sub"), inner, inner),
    )


formulas: st.SearchStrategy[Any] = st.recursive(leaves, _operations, max_leaves=8)


@st.composite
def algebras(draw: st.DrawFn) -> Algebra:
    facts = []
    for name in NAMES:
        least = draw(st.integers(0, 4))
        multiple, most = draw(st.sampled_from([1, 2, 4, 6])), draw(st.none() | st.integers(12, 20))
        facts.append(ExtentFact(symbol=name, multiple_of=multiple, min=least, max=most))
    relation = st.tuples(st.sampled_from(["le", "ge", "lt", "eq"]), st.sampled_from(NAMES), leaves)
    return Algebra(order=NAMES, facts=tuple(facts), relations=tuple(draw(st.lists(relation, max_size=2))))


def _kept(algebra: Algebra, drawn: Mapping[str, int]) -> dict[str, int] | None:
    """Sizes that keep all facts; None where those that were drawn break a relation."""
    sizes = {}
    for fact in algebra.facts:
        least = -(-fact.min // fact.multiple_of)
        most = 30 if fact.max is None else fact.max // fact.multiple_of
        sizes[fact.symbol] = min(least + drawn[fact.symbol], max(most, least)) * fact.multiple_of
    return sizes if all(evaluate(relation, sizes) for relation in algebra.relations) else None


sizes_drawn = st.lists(st.fixed_dictionaries({name: st.integers(0, 12) for name in NAMES}), min_size=1, max_size=30)


@given(algebras(), formulas, sizes_drawn)
def test_normal_form_keeps_values(algebra: Algebra, formula: Any, drawn: list[dict[str, int]]) -> None:
    canonical = algebra.canonical(formula)
    assert algebra.canonical(canonical) == canonical
    for sizes in filter(None, (_kept(algebra, each) for each in drawn)):
        assert evaluate(canonical, sizes) == evaluate(formula, sizes)


@given(algebras(), formulas, formulas, sizes_drawn)
def test_what_is_proved_holds(algebra: Algebra, a: Any, b: Any, drawn: list[dict[str, int]]) -> None:
    kept = [sizes for each in drawn if (sizes := _kept(algebra, each)) is not None]
    assume(kept)
    is_less, is_equal = algebra.at_most(a, b), algebra.equal(a, b)
    for sizes in kept:
        values = evaluate(a, sizes), evaluate(b, sizes)
        assert not is_less or values[0] <= values[1]
        assert not is_equal or values[0] == values[1]


@given(algebras(), formulas, st.integers(1, 12), sizes_drawn)
def test_multiples_that_are_found_hold(algebra: Algebra, a: Any, divisor: int, drawn: list[dict[str, int]]) -> None:
    if algebra.divides(divisor, a):
        for sizes in filter(None, (_kept(algebra, each) for each in drawn)):
            assert evaluate(a, sizes) % divisor == 0


@given(algebras(), formulas, formulas, formulas)
def test_sums_and_products_have_one_form(algebra: Algebra, a: Any, b: Any, c: Any) -> None:
    assert algebra.total([a, b, c]) == algebra.total([c, ("add", b, a)])
    assert algebra.canonical(("mul", a, ("add", b, c))) == algebra.canonical(("add", ("mul", c, a), ("mul", a, b)))
    assert algebra.canonical(("sub", ("add", a, b), b)) == algebra.canonical(a)


@given(algebras(), formulas, st.integers(0, 12), sizes_drawn)
def test_solutions_give_back_the_symbol(
    algebra: Algebra, formula: Any, extra: int, drawn: list[dict[str, int]]
) -> None:
    dim = algebra.canonical(("add", ("mul", extra, "A"), formula))
    for solution in solved("B", "C", dim, algebra=algebra).solutions:
        for sizes in filter(None, (_kept(algebra, each) for each in drawn)):
            factor, offset = (evaluate(each, sizes) for each in (solution.factor, solution.offset))
            assert factor * sizes["A"] + offset == solution.divisor * evaluate(dim, sizes)


class TestRemainders:
    """What is surely from 0 to below the divisor leaves no quotient."""

    @pytest.mark.parametrize(
        ("formula", "same"),
        [
            (("ceil_div", ("sub", ("mul", 2, "N"), ("min", 1, ("mul", 2, "N"))), 2), "N"),
            (("floor_div", ("add", ("mul", 4, "N"), ("min", 3, "J")), 4), "N"),
            (("floor_div", ("mod", "N", 8), 8), 0),
            (("floor_div", ("min", 3, "N"), 3), ("floor_div", ("min", 3, "N"), 3)),
        ],
    )
    def test_go(self, formula: Formula, same: Formula) -> None:
        assert NO_FACTS.canonical(formula) == NO_FACTS.canonical(same)


def test_a_least_size_that_is_missing_is_named() -> None:
    shifted = ("add", ("max", ("add", "N", -2), 0), 2)
    stated = missing_facts(NO_FACTS, [shifted], lambda algebra: algebra.equal(shifted, "N"))
    assert stated == "state 'N: {min: 2}' under extents"
    assert missing_facts(NO_FACTS, [shifted], lambda algebra: algebra.equal(shifted, "J")) == ""


def test_a_relation_of_compared_sizes_can_be_used_to_prove_things_of_them() -> None:
    """An input's dim is no less than 0, also where only a proof tells what that dim is."""
    extent = ("add", ("mul", 2, ("max", ("sub", "N", ("min", 3, "T")), 0)), ("min", "N", ("mul", 2, "T")))
    algebra = Algebra(order=("N", "T"), relations=(("ge", extent, 0),))
    assert algebra.is_nonnegative(extent)
    assert algebra.canonical(algebra.canonical(extent)) == algebra.canonical(extent)
