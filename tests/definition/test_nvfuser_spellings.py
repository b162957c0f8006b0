"""Ops as nvFuser's users write them where ``OPS`` has it otherwise, run on the CPU against torch."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fusebuild.definition import DataType, FusionDefinition
from fusebuild.errors import RecipeError
from fusebuild.recipe.recipe import parse_recipe

torch = pytest.importorskip("torch")

DTYPES = {
    DataType.Double: torch.float64,
    DataType.Float: torch.float32,
    DataType.Half: torch.float16,
    DataType.BFloat16: torch.bfloat16,
    DataType.Int: torch.int64,
    DataType.Int32: torch.int32,
}


@pytest.fixture
def own_cache(compilers: None, empty_store: Path) -> Path:
    return empty_store.parent


def drawn(rng: random.Random, dtype: Any, shape: Sequence[int]) -> Any:
    return torch.randint(-9, 10, tuple(shape), generator=torch.Generator().manual_seed(rng.randrange(99))).to(dtype)


Record = Callable[[FusionDefinition, Any], Any]
CASES: dict[str, tuple[Record, Callable[[Any], Any]]] = {
    "max in double": (lambda fd, x: fd.ops.max(x, [1], False, DataType.Double), lambda x: x.double().amax(1)),
    "min in float": (lambda fd, x: fd.ops.min(x, dims=[0], dtype=DataType.Float), lambda x: x.float().amin(0)),
    "max of all": (lambda fd, x: fd.ops.max(x, DataType.Double), lambda x: x.double().max()),
    "sum of all": (lambda fd, x: fd.ops.sum(x, DataType.Double), lambda x: x.double().sum()),
    "sum, dims=None": (lambda fd, x: fd.ops.sum(x, dims=None, dtype=DataType.Double), lambda x: x.double().sum()),
    "prod, dims=None": (lambda fd, x: fd.ops.prod(x, None, True, DataType.Double),
                        lambda x: x.double().prod().reshape(1, 1)),
    "cat along the first dim": (lambda fd, x: fd.ops.cat([x, x]), lambda x: torch.cat([x, x])),
    "cat, not padded": (lambda fd, x: fd.ops.cat([x, x], dim=1, manual_padding=0), lambda x: torch.cat([x, x], 1)),
    "slice": (lambda fd, x: fd.ops.slice(x, [1, 0], [3, 2], [1, 1], 0), lambda x: x[1:3, 0:2]),
    "slice, normalized": (lambda fd, x: fd.ops.slice(x, [0, 1], [2, 3], manual_normalization=True),
                          lambda x: x[0:2, 1:3]),
    "select": (lambda fd, x: fd.ops.select(x, 1, dim=0), lambda x: x.select(0, 1)),
    "squeeze what was expanded": (
        lambda fd, x: fd.ops.squeeze(
            fd.ops.expand(fd.ops.broadcast(x, [False, True, False]), [-1, 5, -1]), [1], squeeze_expanded=True
        ),
        lambda x: x,
    ),
    "max in half": (lambda fd, x: fd.ops.max(x, [1], False, DataType.Half), lambda x: x.half().amax(1)),
    "min in bfloat16": (lambda fd, x: fd.ops.min(x, [0], True, DataType.BFloat16),
                        lambda x: x.bfloat16().amin(0, keepdim=True)),
    "embedding_fwd": (
        lambda fd, x: fd.ops.embedding_fwd(fd.ops.iota(2, 1), x, None, None, 2.0, False, False),
        lambda x: torch.nn.functional.embedding(torch.tensor([1, 2]), x),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_ops_give_what_torch_gives(name: str, own_cache: Path) -> None:
    record, want = CASES[name]
    rng = random.Random(name)
    dtype = rng.choice([*DTYPES])
    x = drawn(rng, DTYPES[dtype], (rng.randint(3, 40), rng.randint(3, 40)))
    with FusionDefinition() as fd:
        t = fd.define_tensor([-1, -1], True, dtype)
        fd.add_output(record(fd, t))
    (got,) = fd.execute([x])
    expected = want(x)
    assert got.shape == expected.shape
    assert torch.equal(got.double(), expected.double()) or torch.allclose(got.double(), expected.double(), rtol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_they_are_printed_as_scripts_and_recipes_that_say_the_same(name: str) -> None:
    with FusionDefinition() as fd:
        fd.add_output(CASES[name][0](fd, fd.define_tensor([-1, -1], True)))
    namespace: dict[str, Any] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(str(fd), namespace)
    with FusionDefinition() as again:
        namespace["nvfuser_fusion_id0"](again)
    assert str(again) == str(fd)
    assert parse_recipe(fd.to_yaml(), "r.yaml").fusion.outputs


REFUSED: dict[str, tuple[Record, str]] = {
    "norm_type": (lambda fd, x: fd.ops.embedding_fwd(fd.ops.iota(2), x, max_norm=1.0, norm_type=0.0),
                  "embedding_fwd: norm_type must be a number above 0, not 0.0"),
    "manual_padding": (lambda fd, x: fd.ops.cat([x, x], 0, 3), "cat: manual_padding must be True or False, not 3"),
    "manual_normalization": (lambda fd, x: fd.ops.slice(x, [0, 0], [1, 1], manual_normalization=2),
                             "slice: manual_normalization must be True or False, not 2"),
    "not expanded": (lambda fd, x: fd.ops.squeeze(x, [1], squeeze_expanded=True),
                     "squeeze: dim 1 has size i1 and is not expanded"),
    "not even asked": (lambda fd, x: fd.ops.squeeze(x, [1]), "squeeze: dim 1 has size i1, not 1"),
    "no dtype": (lambda fd, x: fd.ops.max(x, dims=[0], dtype=3), "the dtype of a reduction must be a DataType, not 3"),
    "twice": (lambda fd, x: fd.ops.cat([x, x], 0, dim=1), "cat: the argument 'dim' is given twice"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_what_and_why(name: str) -> None:
    record, words = REFUSED[name]
    fd = FusionDefinition()
    x = fd.define_tensor([-1, -1], True)
    with pytest.raises(RecipeError) as caught:
        record(fd, x)
    assert words in str(caught.value)


def unseeded() -> FusionDefinition:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.uniform(-1.0, 2.0, [6, 50]))
        x = fd.define_tensor([-1, -1], True)
        fd.add_output(fd.ops.mul(x, fd.ops.rand_like(x)))
    return fd


def test_random_numbers_without_a_seed_are_those_of_torchs_generator(own_cache: Path) -> None:
    fd, x = unseeded(), torch.ones(6, 50)
    assert len(fd.inputs()) == 1
    torch.manual_seed(5)
    first, other = fd.execute([x]), fd.execute([x])
    torch.manual_seed(5)
    again = fd.execute([x])
    assert all(map(torch.equal, first, again))
    assert not any(map(torch.equal, first, other))
    assert not torch.equal((first[0] + 1) / 3, first[1])
    assert first[0].min() >= -1
    assert first[0].max() <= 2
    with pytest.raises(TypeError, match="expected 1 input, got 2"):
        fd.execute([x, x])


def test_seeds_that_no_author_gave_are_not_printed_and_are_scalars_of_the_recipe() -> None:
    fd, namespace = unseeded(), {"FusionDefinition": FusionDefinition, "DataType": DataType}
    assert "rng_" not in str(fd)
    exec(str(fd), namespace)
    with FusionDefinition() as again:
        namespace["nvfuser_fusion_id0"](again)  # type: ignore[operator]
    assert str(again) == str(fd)
    scalars = [value for value in parse_recipe(fd.to_yaml(), "r.yaml").fusion.values.values()
               if not value.is_tensor and value.literal is None]  # fmt: skip
    assert len(scalars) == 2


def test_an_offset_goes_with_a_seed() -> None:
    fd = FusionDefinition()
    with pytest.raises(RecipeError, match="uniform: rng_offset is given without rng_seed"):
        fd.ops.uniform(0.0, 1.0, [3], rng_offset=1)
