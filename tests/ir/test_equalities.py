"""Products that are equal by a relation: shapes of as many elements, and formulas."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fusebuild.ir.algebra import algebra_of
from fusebuild.ir.formula import Formula, evaluate
from fusebuild.ops.indexing import reshape_groups

ORDER = ("M", "N", "n", "m")
EQUAL = algebra_of(ORDER, (), (("eq", ("mul", "M", "N"), ("mul", "n", "m")),))


def test_the_later_product_is_written_as_the_earlier_one() -> None:
    assert EQUAL.canonical(("mul", "n", "m")) == ("mul", "M", "N")
    assert EQUAL.canonical(("add", ("mul", 3, "m", "n", "n"), ("mul", "M", "m"))) == (
        "add", ("mul", 3, "M", "N", "n"), ("mul", "M", "m"),
    )  # fmt: skip
    assert EQUAL.equal(("sub", ("mul", "n", "m"), ("mul", "N", "M")), 0)
    assert not EQUAL.equal("n", "M")


def test_shapes_of_equal_products_are_reshaped_as_one_run() -> None:
    assert reshape_groups(("M", "N"), ("n", "m"), EQUAL) == [(range(2), range(2))]
    assert reshape_groups(("M", "N", 8), ("n", "m", 8), EQUAL) == [(range(2), range(2)), (range(2, 3), range(2, 3))]
    assert reshape_groups(("M", "N"), ("n", "m")) is None


def test_a_product_that_is_a_number_or_less() -> None:
    twelve = algebra_of(ORDER, (), (("eq", ("mul", "M", "N"), 12),))
    assert twelve.canonical(("mul", 2, "M", "N", "n")) == ("mul", 24, "n")
    none = algebra_of(ORDER, (), (("eq", ("mul", "M", "N"), 0),))
    assert none.canonical(("add", ("mul", "M", "N"), "n")) == "n"
    assert reshape_groups(("M", "N"), (0, 7), none) == [(range(2), range(2))]


def test_a_product_that_is_a_sum_of_products() -> None:
    sums = algebra_of(ORDER, (), (("eq", ("mul", "M", "N"), ("mul", ("add", "n", 1), "m")),))
    assert sums.equal(("mul", "N", "M"), ("add", ("mul", "n", "m"), "m"))
    assert reshape_groups(("M", "N"), (("add", "n", 1), "m"), sums) == [(range(2), range(2))]


def test_products_that_are_equal_so_many_times() -> None:
    often = algebra_of(ORDER, (), (("eq", ("mul", 10, "M", "N"), ("mul", 32, "n", "m")),))
    assert often.equal(("mul", 5, "M", "N"), ("mul", 16, "n", "m"))
    assert often.equal(("mul", 15, "M", "N", "n"), ("mul", 48, "n", "m", "n"))
    assert not often.equal(("mul", 3, "M", "N"), ("mul", 10, "n", "m"))
    assert reshape_groups((5, "M", "N"), (16, "n", "m"), often) == [(range(3), range(3))]


def test_rules_that_lead_in_circles_end() -> None:
    circle = (("eq", ("mul", "M", "N"), ("mul", ("add", "n", 1), "m")), ("eq", ("mul", "n", "m"), ("mul", "M", "N")))
    canonical = algebra_of(ORDER, (), circle).canonical(("mul", "M", "N"))
    assert isinstance(canonical, str | tuple)


FORMULAS: st.SearchStrategy[Formula] = st.recursive(
    st.sampled_from(ORDER) | st.integers(-3, 3),
    lambda inner: st.tuples(st.sampled_from(["add", "sub", "mul"]), inner, inner),
    max_leaves=8,
)


@given(FORMULAS, st.integers(0, 4), st.integers(0, 4), st.integers(1, 4), st.integers(1, 4))
def test_what_is_rewritten_has_the_same_value_wherever_the_relation_holds(
    formula: Formula, a: int, b: int, c: int, d: int
) -> None:
    """Sizes a*c and b*d split the same product as a*b and c*d do."""
    sizes = {"M": a * c, "N": b * d, "n": a * b, "m": c * d}
    assert evaluate(EQUAL.canonical(formula), sizes) == evaluate(formula, sizes)
