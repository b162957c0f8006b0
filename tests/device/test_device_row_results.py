"""How the device header stores what rows that share a block have one element of.

``test_device_header.py`` runs this file again under AddressSanitizer and UBSan, and on a GPU.
"""

from __future__ import annotations

import pytest
import torch

from support.device_harness import DTYPES, library, sample


@pytest.mark.parametrize(("threads", "rows"), [(1, 128), (8, 16), (16, 5), (32, 4), (128, 1)])
@pytest.mark.parametrize("count", [1, 3, 4, 40, 129])
def test_each_row_has_its_elements_and_nothing_else_is_stored(threads: int, rows: int, count: int) -> None:
    dtypes = [DTYPES[name] for name in ("half", "double", "bool")]
    tensors = [sample(dtype, count + 1) for dtype in dtypes]
    copies = [~tensor if tensor.dtype is torch.bool else -tensor - 1 for tensor in tensors]
    unchanged = [copy[count:].clone() for copy in copies]
    library("row_results").run(
        f"copy_{threads}x{rows}", (-(-count // rows),), (threads * rows,), *tensors, *copies, count
    )
    for tensor, copy, rest in zip(tensors, copies, unchanged, strict=True):
        assert torch.equal(copy, torch.cat([tensor[:count], rest]))
