"""Who passes by a bound, and whose result may be farther off: those whose own conditioning says so."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fusebuild.bounds import compare
from fusebuild.ir import DType

torch = pytest.importorskip("torch")


def doubles(*numbers: float) -> Any:
    return torch.tensor(numbers, dtype=torch.float64)


def never() -> Any:
    raise AssertionError("the bound alone suffices")


def test_the_reach_is_asked_for_only_beyond_the_bound() -> None:
    assert compare(torch.tensor([1.000001]), doubles(1.0), DType.FLOAT, reach=never).ok
    with pytest.raises(AssertionError, match="suffices"):
        compare(torch.tensor([1.1]), doubles(1.0), DType.FLOAT, reach=never)


def test_an_element_may_be_off_as_far_as_rounding_moves_it() -> None:
    got, want = torch.tensor([1.0, 2.5]), doubles(1.0, 2.0)
    assert compare(got, want, DType.FLOAT, reach=lambda: doubles(0.0, 0.6)).ok
    assert not compare(got, want, DType.FLOAT, reach=lambda: doubles(0.0, 0.4)).ok
    assert not compare(got, want, DType.FLOAT, reach=lambda: doubles(9.0, 0.0)).ok


def test_what_is_shown_is_the_element_nearest_to_failing() -> None:
    shown = compare(torch.tensor([3.0, 1.0001]), doubles(2.0, 1.0), DType.FLOAT, reach=lambda: doubles(8.0, 0.0))
    assert (shown.error, shown.bound) == (pytest.approx(0.0001 / math.sqrt(2.5), rel=1e-3), 1e-5)
    assert not shown.ok


def test_whole_numbers_differ_only_where_rounding_moves_them() -> None:
    got, want = torch.tensor([19, 5, -3]), torch.tensor([20, 5, -3])
    assert compare(got, want, DType.INT64, reach=lambda: doubles(1.0, 0.0, 0.0)).ok
    assert not compare(got, want, DType.INT64, reach=lambda: doubles(0.0, 1.0, 1.0)).ok
    assert not compare(got - 1, want, DType.INT64, reach=lambda: doubles(1.0, 0.0, 0.0)).ok


def test_bools_differ_only_where_rounding_moves_them() -> None:
    got, want = torch.tensor([True, False]), torch.tensor([False, False])
    assert compare(got, want, DType.BOOL, reach=lambda: doubles(1.0, 0.0)).ok
    assert not compare(got, want, DType.BOOL, reach=lambda: doubles(0.0, 1.0)).ok


def test_what_rounding_alone_makes_infinite_is_left_out_and_nothing_else() -> None:
    got, want = torch.tensor([torch.nan, 1.0]), doubles(5.0, 1.0)
    assert compare(got, want, DType.FLOAT, reach=lambda: doubles(math.inf, 0.0)).ok
    assert not compare(got * 2, want, DType.FLOAT, reach=lambda: doubles(math.inf, 0.0)).ok
    assert math.isfinite(compare(got, want, DType.FLOAT, reach=lambda: doubles(math.inf, 0.0)).bound)


def test_where_only_zeros_are_wanted_rounding_is_the_whole_bound() -> None:
    got, want = torch.tensor([0.0, 1e-9]), doubles(0.0, 0.0)
    assert not compare(got, want, DType.FLOAT).ok
    assert not compare(got, want, DType.FLOAT, reach=lambda: doubles(1.0, 0.0)).ok
    assert not compare(got, want, DType.FLOAT, reach=lambda: doubles(0.0, 1e-10)).ok
    assert compare(got, want, DType.FLOAT, reach=lambda: doubles(0.0, 2e-9)).ok
