"""How exact results are said to be: the norm, and who is worse than eager."""

from __future__ import annotations

import math

import pytest

from fusebuild.bench.exactness import MARGIN, OutputErrors, rms_error

torch = pytest.importorskip("torch")


def errors(dtype: str, rms: float, eager_rms: float | None) -> OutputErrors:
    return OutputErrors(output="y", dtype=dtype, elements=6, rms=rms, largest=2 * rms, eager_rms=eager_rms)


def test_the_error_of_an_output_is_its_root_mean_square_over_that_of_the_result() -> None:
    want = torch.tensor([3.0, 4.0, 0.0, 0.0], dtype=torch.float64)
    got = torch.tensor([3.0, 4.0, 0.03, 0.04])
    assert rms_error(got, want) == pytest.approx(0.01)
    assert rms_error(want.float(), want) == 0.0


def test_elements_that_are_not_finite_are_left_out() -> None:
    want = torch.tensor([math.inf, math.nan, 2.0], dtype=torch.float64)
    assert rms_error(torch.tensor([math.inf, math.nan, 2.5]), want) == 0.25


def test_what_is_zero_or_nothing_has_no_error_unless_something_was_given() -> None:
    zero = torch.zeros(3, dtype=torch.float64)
    assert rms_error(torch.zeros(3), zero) == rms_error(torch.zeros(0), zero[:0]) == 0.0
    assert rms_error(torch.ones(3), zero) == math.inf


def test_slices_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    want = torch.randn(50, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    got = want.t().contiguous().t().bfloat16()
    whole = rms_error(got, want)
    monkeypatch.setattr("fusebuild.bench.exactness.SLICE", 32)
    assert rms_error(got, want) == pytest.approx(whole, rel=1e-12)
    assert 2**-10 < whole < 2**-8


def test_whole_numbers_and_flags_have_errors_too() -> None:
    assert rms_error(torch.tensor([1, 2, 4]), torch.tensor([1, 2, 2])) == pytest.approx(2 / 3)
    assert rms_error(torch.tensor([True, False]), torch.tensor([True, False])) == 0.0


@pytest.mark.parametrize(
    ("dtype", "ours", "eagers", "is_worse"),
    [
        ("float", 2.0**-24, 0.0, False),
        ("float", 2.0**-23, 0.0, True),
        ("double", 2.0**-24, 0.0, True),
        ("bfloat16", MARGIN * 1e-3, 1e-3, False),
        ("bfloat16", 1.1e-3, 1e-3, True),
        ("float", 1.0, None, False),
    ],
)
def test_worse_than_eager_is_what_neither_chance_nor_one_rounding_explains(
    dtype: str, ours: float, eagers: float | None, is_worse: bool
) -> None:
    assert errors(dtype, ours, eagers).is_worse is is_worse


def test_the_ratio_to_eager_is_one_where_both_are_exact_and_without_bound_where_eager_alone_is() -> None:
    assert [errors("float", 3.0, 2.0).ratio, errors("float", 0.0, 0.0).ratio] == [1.5, 1.0]
    assert errors("float", 1.0, 0.0).ratio == math.inf
    assert errors("float", 1.0, None).ratio is None
