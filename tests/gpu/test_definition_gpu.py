"""Definitions executed on a GPU: the public script of seed 003 at its full size, against fp64. `pytest -m gpu`."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusebuild import FusionDefinition
from support.seed_003 import nvfuser_fusion_id1

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


def seed_003_inputs() -> list[object]:
    """The inputs of the public script."""

    def strided(count: int, dtype: object, shape: tuple[int, ...], strides: tuple[int, ...]) -> object:
        return torch.randn((count,), dtype=dtype, device="cuda:0").as_strided(shape, strides)

    bfloat16, batch, length, width = torch.bfloat16, 56, 1024, 1024
    return [
        strided(width, bfloat16, (batch, length, width), (0, 0, 1)),
        strided(width, bfloat16, (batch, length, width), (0, 0, 1)),
        strided(batch * width, bfloat16, (batch, 1, width), (width, width, 1)),
        strided(batch * length * width, bfloat16, (batch, length, width), (length * width, width, 1)),
        strided(batch * length, torch.float32, (batch, length), (length, 1)),
        strided(batch * length, torch.float32, (batch, length, 1), (length, 1, 1)),
        strided(batch * length * width, bfloat16, (batch, length, width), (length * width, width, 1)),
    ]


def test_seed_003_matches_fp64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fusebuild.oracle.bounds import compare
    from fusebuild.oracle.reference import evaluate_fp64

    monkeypatch.setenv("FUSEBUILD_CACHE_DIR", str(tmp_path))
    with FusionDefinition() as fd:
        nvfuser_fusion_id1(fd)
    inputs = seed_003_inputs()
    got = fd.execute(inputs)
    want = evaluate_fp64(fd.fusion, inputs)
    for result, expected, output in zip(got, want, fd.fusion.outputs, strict=True):
        compared = compare(result, expected, fd.fusion.value(output.fid).dtype)
        assert compared.ok, (output.name, compared)
    again = fd.execute(inputs)
    assert all(torch.equal(a, b) for a, b in zip(got, again, strict=True))
