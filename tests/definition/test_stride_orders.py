"""Outputs that lie in memory as their author says."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from fusebuild.definition import DataType, FusionDefinition
from fusebuild.recipe.recipe import parse_recipe

torch = pytest.importorskip("torch")


@pytest.fixture
def own_cache(compilers: None, empty_store: Path) -> Path:
    return empty_store.parent


def order_in_memory(tensor: Any) -> list[int]:
    """The place of each dim, 0 the innermost."""
    outermost_first = sorted(range(tensor.dim()), key=lambda dim: -tensor.stride(dim))
    return [tensor.dim() - 1 - outermost_first.index(dim) for dim in range(tensor.dim())]


def test_every_order_of_three_dims(own_cache: Path) -> None:
    orders = [list(order) for order in itertools.permutations(range(3))]
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1, -1], True)
        for order in orders:
            fd.add_output(x * 2.0, stride_order=order)
            fd.add_output(fd.ops.stride_order(x + 1.0, order))
    given = torch.rand(2, 3, 4)
    results = fd.execute([given])
    for place, order in enumerate(orders):
        for result, want in zip(results[2 * place :], (given * 2, given + 1), strict=False):
            assert order_in_memory(result) == order
            assert result.is_contiguous() is (order == [2, 1, 0])
            assert torch.equal(result, want)


def channels_last() -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1, -1, -1], True, DataType.Half, stride_order=[3, 0, 2, 1])
        fd.add_output(fd.ops.cast(fd.ops.relu(x), DataType.Half), stride_order=[3, 0, 2, 1])
    return fd


def test_channels_last_in_and_out(own_cache: Path) -> None:
    x = torch.randn(2, 3, 4, 5).half().to(memory_format=torch.channels_last)
    (result,) = channels_last().execute([x])
    assert result.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(result, x.relu())


def test_are_printed_as_written_and_are_permuted_in_recipes() -> None:
    fd = channels_last()
    assert "fd.add_output(T2, stride_order=[3, 0, 2, 1])" in str(fd)
    names: dict[str, Any] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(str(fd), names)
    with FusionDefinition() as again:
        names["nvfuser_fusion_id0"](again)
    assert str(again) == str(fd)
    fusion = parse_recipe(fd.to_yaml(), "r.yaml").fusion
    assert fusion.exprs[-1].op == "permute"
    assert fusion.exprs[-1].attribute("permutation") == (0, 2, 3, 1)
