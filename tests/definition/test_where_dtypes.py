"""``where`` gives torch's dtypes: a half among halves and numbers, whatever else is computed in float."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from fusebuild.definition import DataType, FusionDefinition

torch = pytest.importorskip("torch")

DTYPES = {
    DataType.Half: torch.float16,
    DataType.BFloat16: torch.bfloat16,
    DataType.Float: torch.float32,
    DataType.Double: torch.float64,
    DataType.Int32: torch.int32,
    DataType.Int: torch.int64,
    DataType.Bool: torch.bool,
}


@pytest.fixture
def own_cache(compilers: None, empty_store: Path) -> Path:
    return empty_store.parent


def test_tensors_of_every_two_dtypes(own_cache: Path) -> None:
    pairs = list(itertools.product(DTYPES, DTYPES))
    with FusionDefinition() as fd:
        c = fd.define_tensor([-1], True, DataType.Bool)
        given = {dtype: fd.define_tensor([-1], True, dtype) for dtype in DTYPES}
        for a, b in pairs:
            fd.add_output(fd.ops.where(c, given[a], given[b]))
    choice = torch.rand(9) > 0.5
    values = {dtype: torch.randint(0, 2, (9,)).to(torch_dtype) for dtype, torch_dtype in DTYPES.items()}
    results = fd.execute([choice, *values.values()])
    for (a, b), result in zip(pairs, results, strict=True):
        want = torch.where(choice, values[a], values[b])
        assert result.dtype == want.dtype, (a, b)
        assert torch.equal(result, want)


def test_numbers_take_part_by_their_kind(own_cache: Path) -> None:
    numbers: list[Any] = [2, 0.5, True]
    with FusionDefinition() as fd:
        c = fd.define_tensor([-1], True, DataType.Bool)
        given = {dtype: fd.define_tensor([-1], True, dtype) for dtype in DTYPES}
        for x, number in itertools.product(given.values(), numbers):
            fd.add_output(fd.ops.where(c, x, number))
            fd.add_output(fd.ops.where(c, number, x))
    choice = torch.rand(9) > 0.5
    values = {dtype: torch.randint(0, 2, (9,)).to(torch_dtype) for dtype, torch_dtype in DTYPES.items()}
    results = iter(fd.execute([choice, *values.values()]))
    for x, number in itertools.product(values.values(), numbers):
        for want in (torch.where(choice, x, number), torch.where(choice, number, x)):
            result = next(results)
            assert result.dtype == want.dtype, (x.dtype, number)
            assert torch.equal(result, want)


def test_scalars_keep_their_dtypes(own_cache: Path) -> None:
    kinds = (DataType.Double, DataType.Float, DataType.Int, DataType.Int32, DataType.Bool)
    with FusionDefinition() as fd:
        c = fd.define_tensor([-1], True, DataType.Bool)
        for kind in kinds:
            fd.add_output(fd.ops.where(c, fd.define_scalar(1, kind), fd.define_scalar(0, kind)))
    choice = torch.tensor([True, False])
    for kind, result in zip(kinds, fd.execute([choice]), strict=True):
        assert result.dtype == DTYPES[kind]
        assert torch.equal(result, choice.to(DTYPES[kind]))


def test_is_printed_once() -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1], True, DataType.Half)
        fd.add_output(fd.ops.where(fd.ops.gt(x, 0.0), x, 0.0))
    assert "cast" not in str(fd)
    names: dict[str, Any] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(str(fd), names)
    with FusionDefinition() as again:
        names["nvfuser_fusion_id0"](again)
    assert str(again) == str(fd)
    assert again.fusion.value(again.outputs()[0]).dtype is DataType.Half.value
