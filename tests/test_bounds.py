"""Who passes by a bound, and whose result may be farther off: those whose own conditioning says so."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from fusebuild.bounds import compare
from fusebuild.ir import DType
from fusebuild.rounding import Reach

torch = pytest.importorskip("torch")


def doubles(*numbers: float) -> Any:
    return torch.tensor(numbers, dtype=torch.float64)


def moved(*furthest: float, unsettled: int | None = None) -> Callable[[], Reach]:
    """Elements that rounding moves so far; the one ``unsettled`` may be undefined."""
    is_unsettled = torch.tensor([index == unsettled for index in range(len(furthest))])
    return lambda: Reach(furthest=doubles(*furthest), is_unsettled=is_unsettled)


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


def test_where_only_zeros_are_wanted_rounding_is_the_whole_bound() -> None:
    got, want = torch.tensor([0.0, 1e-9]), doubles(0.0, 0.0)
    assert not compare(got, want, DType.FLOAT).ok
    assert not compare(got, want, DType.FLOAT, reach=moved(1.0, 0.0)).ok
    assert not compare(got, want, DType.FLOAT, reach=moved(0.0, 1e-10)).ok
    assert compare(got, want, DType.FLOAT, reach=moved(0.0, 2e-9)).ok
