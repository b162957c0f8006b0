"""Widths of pad that take elements away, and cat of what was padded before."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from fusebuild.definition import DataType, FusionDefinition
from fusebuild.errors import RecipeError

torch = pytest.importorskip("torch")


@pytest.fixture
def own_cache(compilers: None, empty_store: Path) -> Path:
    return empty_store.parent


def wanted(x: Any, widths: list[int]) -> Any | None:
    """What torch gives; None where it refuses."""
    try:
        return torch.nn.functional.pad(x, widths, value=7.0)
    except RuntimeError:
        return None


def drawn_widths(rng: random.Random, shape: tuple[int, ...]) -> list[int]:
    return [rng.randint(-2, 2) for _ in range(2 * rng.randint(1, len(shape)))]


@pytest.mark.parametrize("seed", range(4))
def test_numbers_of_either_sign_are_torchs(seed: int, own_cache: Path) -> None:
    rng = random.Random(seed)
    shape = tuple(rng.randint(2, 6) for _ in range(rng.randint(1, 3)))
    x, widths = torch.rand(shape), drawn_widths(rng, shape)
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.pad(fd.define_tensor([-1] * len(shape), True), widths, 7.0))
    want = wanted(x, widths)
    if want is None:
        with pytest.raises(ValueError, match="expected i"):
            fd.execute([x])
        return
    assert torch.equal(fd.execute([x])[0], want)


def test_numbers_of_the_call_are_torchs_whatever_their_signs(own_cache: Path) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True)
        widths = [fd.define_scalar(None, DataType.Int) for _ in range(4)]
        fd.add_output(fd.ops.pad(x, fd.define_vector(widths), 7.0))
    rng = random.Random(1)
    refused = 0
    for _ in range(60):
        given, numbers = torch.rand(rng.randint(0, 4), rng.randint(0, 5)), [rng.randint(-3, 3) for _ in range(4)]
        want = wanted(given, numbers)
        if want is None:
            refused += 1
            with pytest.raises(ValueError, match="expected i"):
                fd.execute([given, *numbers])
        else:
            assert torch.equal(fd.execute([given, *numbers])[0], want)
    assert 0 < refused < 60


def test_more_than_there_is_cannot_be_taken_away() -> None:
    fd = FusionDefinition()
    with pytest.raises(RecipeError, match="pad: dim 1 has 3 elements, and widths take 4 away"):
        fd.ops.pad(fd.define_tensor([2, 3], True), [-1, -3])


def padded(fd: FusionDefinition, tensors: list[Any], dim: int, sizes: list[Any]) -> list[Any]:
    """``tensors`` of two dims, of ``sizes`` along ``dim``, each where it lies in what cat makes."""
    results = []
    for place, tensor in enumerate(tensors):
        pair = [sum(sizes[:place]), sum(sizes[place + 1 :])]
        results.append(fd.ops.pad(tensor, pair if dim == 1 else [0, 0, *pair]))
    return results


@pytest.mark.parametrize("dim", [0, 1])
def test_padded_tensors_are_joined_as_they_were_before(dim: int, own_cache: Path) -> None:
    sizes = [2, 1, 3]
    given = [torch.rand((size, 4) if dim == 0 else (4, size)) for size in sizes]
    with FusionDefinition() as fd:
        tensors = [fd.define_tensor(list(each.shape), True) for each in given]
        fd.add_output(fd.ops.cat(padded(fd, tensors, dim, sizes), dim, manual_padding=True))
    assert torch.equal(fd.execute(given)[0], torch.cat(given, dim))


def test_widths_of_the_call_are_checked_against_the_other_tensors(own_cache: Path) -> None:
    with FusionDefinition() as fd:
        a, b = fd.define_tensor([-1], True), fd.define_tensor([-1], True)
        n, m = (fd.define_scalar(None, DataType.Int) for _ in range(2))
        fd.add_output(fd.ops.cat([fd.ops.pad(a, [0, n]), fd.ops.pad(b, [m, 0])], 0, True))
    x, y = torch.rand(3), torch.rand(2)
    assert torch.equal(fd.execute([x, y, 2, 3])[0], torch.cat([x, y]))
    with pytest.raises(ValueError, match=r"'size_of_s[0-9]+': dim 0 is i0 - i2 = 3, got 2"):
        fd.execute([x, y, 2, 2])


def test_what_was_not_padded_to_its_place_is_refused() -> None:
    fd = FusionDefinition()
    x = fd.define_tensor([2, 3], True)
    with pytest.raises(RecipeError, match="cat: t0 is not made by pad, and manual_padding=True says so"):
        fd.ops.cat([x, fd.ops.pad(x, [3, 0])], 1, True)
    with pytest.raises(RecipeError, match="cat: operand 1 is padded by 2 before it, where 3 elements of others lie"):
        fd.ops.cat([fd.ops.pad(x, [0, 3]), fd.ops.pad(x, [2, 0])], 1, True)
