"""Vectors of the device header that two rows share, in tensors of just their size."""

from __future__ import annotations

import pytest
import torch

from support.device_harness import DTYPES, library, sample

WIDTHS = {"int32": 4, "int64": 8, "half": 8, "bfloat16": 8, "float": 8}
"""Elements of a vector of tests/device/strips.cu, by dtype."""


@pytest.mark.parametrize("columns", [8, 9, 11, 15, 16, 17, 43, 100, 300])
@pytest.mark.parametrize("dtype", WIDTHS)
def test_every_element_is_stored_once_as_it_is(dtype: str, columns: int) -> None:
    width = WIDTHS[dtype]
    for rows in (1, 2, 3, 40):
        for more in (0, 1):  # lanes that no row has a vector for
            lanes = (columns + 2 * (width - 1)) // width + more
            x = sample(DTYPES[dtype], rows * columns)
            out = torch.zeros_like(x)
            library("strips").run(f"copy_{dtype}", (-(-rows * lanes // 64),), (64,), x, out, rows, columns, lanes)
            assert torch.equal(out, x), (rows, lanes)
