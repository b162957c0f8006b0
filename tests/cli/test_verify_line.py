"""What `verify` says of an error and its bound."""

from __future__ import annotations

import math

import pytest

from fusebuild.cli.verify import compared


@pytest.mark.parametrize(
    ("error", "bound", "expected"),
    [
        (3.9e-3, 7.8e-3, "error  3.9e-03 (bound 7.8e-03)"),
        (0.0, 1e-5, "error  0.0e+00 (bound 1.0e-05)"),
        (1.3321e-5, 1.3297e-5, "error 1.332e-05 (bound 1.330e-05)"),
        (1e-5, 1e-5, "error  1.0e-05 (bound 1.0e-05)"),
        (math.nan, 1e-5, "error      nan (bound 1.0e-05)"),
        (math.inf, math.inf, "error      inf (bound inf)"),
    ],
)
def test_two_digits_or_as_many_as_tell_them_apart(error: float, bound: float, expected: str) -> None:
    assert compared(error, bound) == expected
