"""Who passes by a bound, and whose result may be farther off: those whose own conditioning says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from fusebuild.ir.dtype import DType
from fusebuild.oracle.bounds import compare
from fusebuild.oracle.reference import torch_dtype
from fusebuild.oracle.rounding import Reach

torch = pytest.importorskip("torch")


def doubles(*numbers: float) -> Any:
    return torch.tensor(numbers, dtype=torch.float64)


def moved(*furthest: float, unsettled: int | None = None, pole: int | None = None) -> Callable[[], Reach]:
    """Elements that rounding moves so far; the one ``unsettled`` may be undefined, the one near a ``pole`` as large as
    it likes from 100 on."""
    is_unsettled = torch.tensor([index == unsettled for index in range(len(furthest))])
    near_pole = doubles(*(100.0 if index == pole else math.nan for index in range(len(furthest))))
    return lambda: Reach(furthest=doubles(*furthest), is_unsettled=is_unsettled, near_pole=near_pole)


def never() -> Any:
    raise AssertionError("the bound alone suffices")


def test_the_reach_is_asked_for_only_beyond_the_bound() -> None:
    assert compare(torch.tensor([1.000001]), doubles(1.0), DType.FLOAT, reach=never).ok
    with pytest.raises(AssertionError, match="suffices"):
        compare(torch.tensor([1.1]), doubles(1.0), DType.FLOAT, reach=never)


def test_an_element_may_be_off_as_far_as_rounding_moves_it() -> None:
    got, want = torch.tensor([1.0, 2.5]), doubles(1.0, 2.0)
    assert compare(got, want, DType.FLOAT, reach=moved(0.0, 0.6)).ok
    assert not compare(got, want, DType.FLOAT, reach=moved(0.0, 0.4)).ok
    assert not compare(got, want, DType.FLOAT, reach=moved(9.0, 0.0)).ok


def test_an_element_without_a_right_digit_may_be_farther_off_than_the_evaluations_were() -> None:
    """They find at least 0.4 of how far it can be."""
    got, want = torch.tensor([-1.0]), doubles(1.0)
    assert compare(got, want, DType.FLOAT, reach=moved(0.9)).ok
    assert not compare(got, want, DType.FLOAT, reach=moved(0.7)).ok
    assert not compare(torch.tensor([1.3]), want, DType.FLOAT, reach=moved(0.24)).ok
    assert not compare(torch.tensor([7]), torch.tensor([5]), DType.INT64, reach=moved(1.0)).ok


@pytest.mark.parametrize(
    ("dtype", "large"), [(DType.HALF, 7e4), (DType.BFLOAT16, 3.4e38), (DType.FLOAT, 1e39), (DType.FLOAT, 1e308)]
)
def test_what_is_too_large_for_a_dtype_is_infinite_in_it(dtype: DType, large: float) -> None:
    want = doubles(large, -large, 1.0)
    got = torch.tensor([math.inf, -math.inf, 1.0], dtype=torch_dtype(dtype))
    assert compare(got, want, dtype).ok
    assert not compare(got.roll(1), want, dtype).ok
    assert not compare(torch.tensor([math.inf, -math.inf, 1.1], dtype=torch_dtype(dtype)), want, dtype).ok
    assert not compare(torch.tensor([math.inf, 1e4, 1.0], dtype=torch_dtype(dtype)), want, dtype).ok


def test_squares_of_doubles_may_be_too_large_for_a_double() -> None:
    want = doubles(1e300, 1.0)
    assert compare(want, want, DType.DOUBLE).ok
    assert not compare(want * 1.001, want, DType.DOUBLE).ok


def test_what_is_shown_is_the_element_nearest_to_failing() -> None:
    shown = compare(torch.tensor([3.0, 1.0001]), doubles(2.0, 1.0), DType.FLOAT, reach=moved(8.0, 0.0))
    assert (shown.error, shown.bound) == (pytest.approx(0.0001 / math.sqrt(2.5), rel=1e-3), 1e-5)
    assert not shown.ok


def test_whole_numbers_differ_only_where_rounding_moves_them() -> None:
    got, want = torch.tensor([19, 5, -3]), torch.tensor([20, 5, -3])
    assert compare(got, want, DType.INT64, reach=moved(1.0, 0.0, 0.0)).ok
    assert not compare(got, want, DType.INT64, reach=moved(0.0, 1.0, 1.0)).ok
    assert not compare(got - 1, want, DType.INT64, reach=moved(1.0, 0.0, 0.0)).ok


def test_bools_differ_only_where_rounding_moves_them() -> None:
    got, want = torch.tensor([True, False]), torch.tensor([False, False])
    assert compare(got, want, DType.BOOL, reach=moved(1.0, 0.0)).ok
    assert not compare(got, want, DType.BOOL, reach=moved(0.0, 1.0)).ok


def test_numbers_may_be_undefined_only_where_rounding_makes_them_so() -> None:
    got, want = torch.tensor([torch.nan, 1.0]), doubles(5.0, 1.0)
    assert compare(got, want, DType.FLOAT, reach=moved(0.0, 0.0, unsettled=0)).ok
    assert not compare(got, want, DType.FLOAT, reach=moved(0.0, 0.0, unsettled=1)).ok
    assert not compare(got * 2, want, DType.FLOAT, reach=moved(0.0, 0.0, unsettled=0)).ok
    assert compare(torch.tensor([5.1, 1.0]), want, DType.FLOAT, reach=moved(0.2, 0.0, unsettled=0)).ok
    assert not compare(torch.tensor([0.0, 1.0]), want, DType.FLOAT, reach=moved(0.2, 0.0, unsettled=0)).ok


def test_numbers_may_be_as_large_as_they_like_near_a_pole_and_nothing_else() -> None:
    want = doubles(-500.0, 1.0)
    for large in (math.inf, -math.inf, 1e30, 41.0):
        got = torch.tensor([large, 1.0])
        assert compare(got, want, DType.FLOAT, reach=moved(2.0, 0.0, pole=0)).ok
        assert not compare(got, want, DType.FLOAT, reach=moved(2.0, 0.0, pole=1)).ok
    for other in (math.nan, 39.0, 0.0):
        assert not compare(torch.tensor([other, 1.0]), want, DType.FLOAT, reach=moved(2.0, 0.0, pole=0)).ok


def test_the_element_that_is_furthest_beyond_its_bound_is_shown() -> None:
    got, want = torch.tensor([[1.0, 2.5], [3.0, 4.0]]), doubles(1.0, 2.0, 9.0, 4.0).view(2, 2)
    assert compare(got, want, DType.FLOAT).problem == "[1, 0]: got 3, expected 9"
    reach = moved(0.0, 0.0, 7.0, 0.0)()
    shaped = Reach(
        furthest=reach.furthest.view(2, 2),
        is_unsettled=reach.is_unsettled.view(2, 2),
        near_pole=reach.near_pole.view(2, 2),
    )
    assert compare(got, want, DType.FLOAT, reach=lambda: shaped).problem == "[0, 1]: got 2.5, expected 2"
    assert compare(want.float(), want, DType.FLOAT).problem == ""
    assert compare(torch.tensor(7), torch.tensor(5), DType.INT64).problem == ": got 7, expected 5"
    assert compare(torch.tensor([True]), torch.tensor([False]), DType.BOOL).problem == "[0]: got True, expected False"
    assert compare(got, want.view(4), DType.FLOAT).problem == ": got sizes [2, 2], expected [4]"
    third = torch.tensor(1 / 3, dtype=torch.float64)
    shown = compare(third * 2, third, DType.DOUBLE).problem
    assert shown == ": got 0.66666666666666663, expected 0.33333333333333331"


def test_where_only_zeros_are_wanted_rounding_is_the_whole_bound() -> None:
    got, want = torch.tensor([0.0, 1e-9]), doubles(0.0, 0.0)
    assert not compare(got, want, DType.FLOAT).ok
    assert not compare(got, want, DType.FLOAT, reach=moved(1.0, 0.0)).ok
    assert not compare(got, want, DType.FLOAT, reach=moved(0.0, 1e-10)).ok
    assert compare(got, want, DType.FLOAT, reach=moved(0.0, 2e-9)).ok


def test_a_subnormal_number_may_be_off_as_much_as_the_least_normal_one() -> None:
    """Half's lie 2^-24 apart, and so do its normal numbers from 2^-14 on: the bound is four times half of that."""
    want = doubles(27.4 * 2.0**-24, 5.0 * 2.0**-24)
    nearest = torch.tensor([27, 5]) * 2.0**-24
    assert compare(nearest.half(), want, DType.HALF, reach=never).ok
    for units in (-3, 3):
        assert not compare((nearest + torch.tensor([units, 0]) * 2.0**-24).half(), want, DType.HALF).ok
