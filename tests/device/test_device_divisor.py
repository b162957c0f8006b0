"""How the device header divides by a number that only the call knows.

``test_device_header.py`` runs this file again under AddressSanitizer and UBSan, and on a GPU.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.device_harness import library

LARGEST = 2**31 - 1


@settings(max_examples=150, deadline=None)
@given(divisor=st.integers(1, LARGEST), numbers=st.lists(st.integers(0, LARGEST), max_size=8))
@example(divisor=1, numbers=[0, 1, LARGEST])
@example(divisor=LARGEST, numbers=[0, LARGEST - 1, LARGEST])
@example(divisor=2**30, numbers=[2**30 - 1, 2**30, LARGEST])
@example(divisor=2**30 + 1, numbers=[2**30, 2**30 + 1, LARGEST])
@example(divisor=7, numbers=[6, 7, LARGEST, LARGEST - LARGEST % 7 - 1])
def test_quotients_and_remainders_are_exact(divisor: int, numbers: list[int]) -> None:
    near = [each for factor in (1, LARGEST // divisor) for each in (factor * divisor - 1, factor * divisor)]
    given_numbers = torch.tensor([*numbers, *near])
    for kernel in ("quotients", "quick_quotients"):
        out, rest = torch.full_like(given_numbers, -1), torch.full_like(given_numbers, -1)
        library("divisor").run(kernel, (1,), (128,), out, rest, given_numbers, len(given_numbers), divisor)
        assert out.tolist() == [each // divisor for each in given_numbers.tolist()]
        assert rest.tolist() == [each % divisor for each in given_numbers.tolist()]


@pytest.mark.parametrize("divisor", [1, 2, 3, 5, 7, 63, 64, 65, 413, 1023, 1024, 1087, 1088])
def test_small_quotients_are_exact(divisor: int) -> None:
    numbers = torch.arange(1089)
    out = torch.full_like(numbers, -1)
    library("divisor").run("small_quotients", (9,), (128,), out, numbers, len(numbers), divisor)
    assert out.tolist() == [each // divisor for each in numbers.tolist()]


@settings(max_examples=100, deadline=None)
@given(
    divisor=st.integers(1, 2**31 - 2**20),
    first=st.integers(0, 2**62),
    ways=st.lists(st.integers(0, 2**20 - 1), max_size=8),
)
@example(divisor=1, first=2**62, ways=[0, 1, 2**20 - 1])
@example(divisor=2**31 - 2**20, first=3 * (2**31 - 2**20) - 1, ways=[0, 1, 2**20 - 1])
def test_quotients_of_large_numbers_near_each_other_are_exact(divisor: int, first: int, ways: list[int]) -> None:
    numbers = torch.tensor([first, *(first + way for way in ways)])
    out, rest = torch.full_like(numbers, -1), torch.full_like(numbers, -1)
    library("divisor").run("near_quotients", (1,), (128,), out, rest, numbers, len(numbers), first, divisor)
    assert out.tolist() == [each // divisor for each in numbers.tolist()]
    assert rest.tolist() == [each % divisor for each in numbers.tolist()]
