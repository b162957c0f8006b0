"""What a vector has of pieces that it may cross.

``test_device_header.py`` runs this file again under AddressSanitizer and UBSan, and on a GPU.
"""

from __future__ import annotations

import pytest
import torch

from support.device_harness import library

COLUMNS = 240


@pytest.mark.parametrize(
    ("kernel", "dtype"),
    [
        ("of_bytes_by_2", torch.int8),
        ("of_bytes_by_16", torch.int8),
        ("of_halves_by_8", torch.int16),
        ("of_words_by_4", torch.int32),
        ("of_words_by_8", torch.int32),
        ("of_doubles_by_2", torch.int64),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 120, 240])
def test_each_element_is_of_its_piece(kernel: str, dtype: torch.dtype, size: int) -> None:
    count, vec = -(-COLUMNS // size), int(kernel.rpartition("_")[2])
    columns = count * size
    pieces = torch.arange(1, count + 1).to(dtype)
    out = torch.zeros(columns * vec, dtype=dtype)
    library("pieces").run(kernel, (-(-columns // 128),), (128,), out, pieces, columns, size)
    wanted = [int(pieces[(col + k) // size]) for col in range(columns - vec + 1) for k in range(vec)]
    assert out[: len(wanted)].tolist() == wanted
