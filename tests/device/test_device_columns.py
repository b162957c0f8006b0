"""How the device header stores what a block has of a vector that it shares with another one."""

from __future__ import annotations

import pytest
import torch

from support.device_harness import DTYPES, library, sample

WIDTHS = {"half": 8, "bfloat16": 8, "float": 4, "double": 2}
"""Elements of a vector of tests/device/columns.cu, by dtype."""


@pytest.mark.parametrize("dtype", WIDTHS)
def test_neighbours_in_a_vector_are_stored_and_nothing_else(dtype: str) -> None:
    width = WIDTHS[dtype]
    for first in range(width):
        for last in range(first, width):
            x, out = sample(DTYPES[dtype], width), torch.zeros(width, dtype=DTYPES[dtype])
            inside = sum(1 << k for k in range(first, last + 1))
            library("columns").run(f"store_{dtype}", (1,), (32,), x, out, inside)
            wanted = torch.zeros_like(x)
            wanted[first : last + 1] = x[first : last + 1]
            assert torch.equal(out, wanted), (first, last)
