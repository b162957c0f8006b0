"""Rows of the device header of any length, of which a thread has the same columns in each.

``test_device_header.py`` runs this file again under AddressSanitizer and UBSan, and on a GPU.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.device_harness import DTYPES, library, sample

THREADS = {"half": 64, "bfloat16": 32, "float": 64, "int32": 32, "int64": 32, "double": 64}
"""Threads of the kernels of tests/device/striped.cu, by dtype: each has eight columns."""


def copied(dtype: str, rows: int, columns: int, first: int, count: int) -> tuple[torch.Tensor, ...]:
    """Two tensors, copies of a few columns of them where nothing else is written, and zeros."""
    x, other = (sample(DTYPES[dtype], rows * columns) for _ in range(2))
    out, more, threads = torch.zeros_like(x), torch.zeros_like(x), THREADS[dtype]
    beyond = torch.zeros(threads, dtype=torch.int64)
    arguments = (x, other, out, more, beyond, rows, columns, first, count)
    room = 2 * (8 * threads + 8) * x.element_size()
    library("striped").run(f"copy_{dtype}", (rows,), (threads,), *arguments, shared_bytes=room)
    return x, other, out, more, beyond


@pytest.mark.parametrize("columns", [1, 2, 3, 7, 8, 9, 15, 17, 33, 127, 251, 255, 256])
@pytest.mark.parametrize("dtype", THREADS)
def test_rows_are_copied_and_nothing_else(dtype: str, columns: int) -> None:
    for rows in (1, 2, 5, 9):
        x, other, out, more, beyond = copied(dtype, rows, columns, 0, columns)
        assert torch.equal(out, x)
        assert torch.equal(more, other)
        assert not beyond.any()


@settings(max_examples=100, deadline=None)
@given(data=st.data(), rows=st.integers(1, 9), columns=st.integers(1, 300))
@example(data=None, rows=9, columns=257)
def test_parts_of_rows_are(data: st.DataObject | None, rows: int, columns: int) -> None:
    """Empty ones, too, which may begin after the row."""
    first = data.draw(st.integers(0, columns + 8)) if data else 8
    most = max(0, min(256, columns - first))
    count = data.draw(st.integers(-8 if most == 0 else 0, most)) if data else most
    x, other, out, more, beyond = copied("bfloat16", rows, columns, first, count)
    has = torch.zeros(rows, columns, dtype=torch.bool)
    has[:, first : first + max(0, count)] = True
    for copy, source in ((out, x), (more, other)):
        assert torch.equal(copy, torch.where(has.reshape(-1), source, torch.zeros_like(source)))
    assert not beyond.any()


@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 95, 96, 97, 255, 256])
def test_elements_that_lie_apart_as_far_as_there_are_any(count: int) -> None:
    x = sample(torch.bfloat16, count)
    out = torch.zeros(256, dtype=torch.bfloat16)
    library("striped").run("up_to_bfloat16", (1,), (32,), x, out, count)
    assert torch.equal(out[:count], x)
    assert not out[count:].any()
