"""How the device header finds the coordinates of rows that a thread takes one after another.

``test_device_header.py`` runs this file again under AddressSanitizer and UBSan, and on a GPU.
"""

from __future__ import annotations

import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from support.device_harness import library

LARGEST = 2**31 - 1 - 128


@settings(max_examples=60, deadline=None)
@given(
    first=st.integers(0, 2**62),
    middle=st.one_of(st.integers(1, 300), st.integers(1, LARGEST)),
    inner=st.one_of(st.integers(1, 300), st.integers(1, LARGEST)),
)
@example(first=0, middle=1, inner=1)
@example(first=2**31 - 1, middle=127, inner=128)
@example(first=2**31, middle=128, inner=129)
@example(first=2**62, middle=LARGEST, inner=LARGEST)
@example(first=LARGEST - 130, middle=3, inner=LARGEST)
def test_each_step_is_a_division(first: int, middle: int, inner: int) -> None:
    steps = 9
    out = torch.full((steps * 128, 3), -1)
    library("stepping").run("stepped_rows", (1,), (128,), out, first, middle, inner, steps)
    rows = range(first, first + steps * 128)
    assert out.tolist() == [[row // inner // middle, row // inner % middle, row % inner] for row in rows]
