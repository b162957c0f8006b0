"""Sizes that are numbers of the call, wherever an op takes a size, against torch."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fusebuild.definition import DataType, FusionDefinition
from fusebuild.definition.nvfuser import OP_CALLS, Support
from fusebuild.definition.spellings import AS_IN_OPS, SPELLINGS
from fusebuild.errors import RecipeError
from fusebuild.ops.table import OPS
from fusebuild.recipe.recipe import parse_recipe

torch = pytest.importorskip("torch")


@pytest.fixture
def own_cache(compilers: None, empty_store: Path) -> Path:
    return empty_store.parent


Recorded = Callable[[FusionDefinition, Any, Any, Any], Any]
Wanted = Callable[[Any, int, int], Any]
"""What torch makes of a tensor of two dims and two numbers; raises ``RuntimeError`` where it refuses them."""


def full_extents(fd: FusionDefinition, x: Any, n: Any, m: Any) -> Any:
    return fd.ops.full(fd.define_vector([n, x.size(1), m]), 2.0, DataType.Float)


CASES: dict[str, tuple[Recorded, Wanted]] = {
    "full": (lambda fd, x, n, m: fd.ops.full([n, m], 3, DataType.Int), lambda x, n, m: torch.full((n, m), 3)),
    "full of a vector": (full_extents, lambda x, n, m: torch.full((n, x.shape[1], m), 2.0)),
    "iota": (lambda fd, x, n, m: fd.ops.iota(n + m * 2, n, 3), lambda x, n, m: torch.arange(n + 2 * m) * 3 + n),
    "expand": (lambda fd, x, n, m: fd.ops.expand(fd.ops.broadcast(x, [True, False, False]), [n, -1, -1]) + 1.0,
               lambda x, n, m: x.expand(n, *x.shape) + 1),
    "broadcast_in_dim": (lambda fd, x, n, m: fd.ops.broadcast_in_dim(fd.ops.sum(x, [1]), [n, x.size(0), m], [1]),
                         lambda x, n, m: x.sum(1)[:, None].expand(n, x.shape[0], m)),
    "slice": (lambda fd, x, n, m: fd.ops.slice(x, [0, n], [x.size(0), n + m]) * 2.0,
              lambda x, n, m: x[:, n : n + m] * 2),
    "slice to half": (lambda fd, x, n, m: fd.ops.slice(x, [0, 0], [fd.ops.div(n, 2), m]),
                      lambda x, n, m: x[: n // 2, :m]),
    "reshape": (lambda fd, x, n, m: fd.ops.reshape(x, [n, m]) + 1.0, lambda x, n, m: x.reshape(n, m) + 1),
    "reshape and reduce": (lambda fd, x, n, m: fd.ops.sum(fd.ops.reshape(x + 1.0, [n, m]), [1]),
                           lambda x, n, m: (x + 1).reshape(n, m).sum(1)),
    "reshape one dim": (lambda fd, x, n, m: fd.ops.reshape(x, [x.size(0), n, m]) * 2.0,
                        lambda x, n, m: x.reshape(x.shape[0], n, m) * 2),
    "reshape the rest": (lambda fd, x, n, m: fd.ops.reshape(x, [n, -1]) * 2.0, lambda x, n, m: x.reshape(n, -1) * 2),
    "there and back": (lambda fd, x, n, m: fd.ops.reshape(fd.ops.reshape(x, [n, m]) * 2.0, x.shape()) + x,
                       lambda x, n, m: x.reshape(n, m).reshape(x.shape) * 2 + x),
    "pad": (lambda fd, x, n, m: fd.ops.pad(x, [n, m], 1.5),
            lambda x, n, m: torch.nn.functional.pad(x, [n, m], value=1.5)),
    "the greater": (lambda fd, x, n, m: fd.ops.full([fd.ops.maximum(n, m)], 1.0, DataType.Float) * n,
                    lambda x, n, m: torch.full((max(n, m),), float(n))),
    "remainder": (lambda fd, x, n, m: fd.ops.iota(fd.ops.mod(x.size(0) * n, 5)),
                  lambda x, n, m: torch.arange(x.shape[0] * n % 5)),
}  # fmt: skip


def definition(record: Recorded, dtype: DataType = DataType.Float) -> FusionDefinition:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], True, dtype)
        n, m = (fd.define_scalar(None, DataType.Int) for _ in range(2))
        fd.add_output(record(fd, x, n, m))
    return fd


def numbers(name: str, rng: random.Random, shape: Sequence[int]) -> tuple[int, int]:
    """Two numbers, for a reshape mostly such as fit."""
    count = shape[0] * shape[1]
    divisors = [each for each in range(1, count + 1) if count % each == 0] or [rng.randint(1, 4)]
    n = rng.choice(divisors)
    if name == "reshape one dim":
        n = rng.choice([each for each in range(1, shape[1] + 1) if shape[1] % each == 0] or [1])
        return n, shape[1] // n
    if "reshape" in name or "back" in name:
        return (n, count // n) if rng.random() < 0.8 else (n, rng.randint(0, 5))
    return rng.randint(0, 5), rng.randint(0, 5)


@pytest.mark.parametrize("name", CASES)
def test_every_size_may_be_a_number_of_the_call(name: str, own_cache: Path) -> None:
    record, want = CASES[name]
    fd, rng = definition(record), random.Random(name)
    shapes = [(3, 4), (1, 6), (0, 5), (4, 0), (1, 1), *((rng.randint(0, 5), rng.randint(0, 5)) for _ in range(8))]
    for shape in shapes:
        x, (n, m) = torch.rand(shape), numbers(name, rng, shape)
        try:
            expected = want(x, n, m)
        except RuntimeError:
            with pytest.raises(ValueError, match=r"expected|cannot be|is i"):
                fd.execute([x, n, m])
            continue
        (got,) = fd.execute([x, n, m])
        assert got.shape == expected.shape, (shape, n, m)
        torch.testing.assert_close(got, expected.to(got.dtype))


@pytest.mark.parametrize("name", CASES)
def test_is_printed_as_written_and_is_a_recipe(name: str) -> None:
    fd = definition(CASES[name][0])
    names: dict[str, Any] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(str(fd), names)
    with FusionDefinition() as again:
        names["nvfuser_fusion_id0"](again)
    assert str(again) == str(fd)
    assert "size_of" not in str(fd)
    assert len(fd.inputs()) == 3
    assert parse_recipe(fd.to_yaml(), "r.yaml").fusion.outputs


SIZED = {
    "broadcast_in_dim": lambda fd, x, n: fd.ops.broadcast_in_dim(x, [n, 4], [1]),
    "expand": lambda fd, x, n: fd.ops.expand(fd.ops.broadcast(x, [True, False]), [n, 4]),
    "reshape": lambda fd, x, n: fd.ops.reshape(x, new_shape=[n, 2]),
    "slice": lambda fd, x, n: fd.ops.slice(x, [n], [4]),
    "full": lambda fd, x, n: fd.ops.full(fd.define_vector([n]), 1.0, DataType.Half),
    "iota": lambda fd, x, n: fd.ops.iota(n),
    "pad": lambda fd, x, n: fd.ops.pad(x, [n, n]),
    "uniform": lambda fd, x, n: fd.ops.uniform(0.0, 1.0, [n]),
    "normal": lambda fd, x, n: fd.ops.normal(0.0, 1.0, [n]),
}


@pytest.mark.parametrize("call", [each for each in OP_CALLS if each.support is Support.YES], ids=lambda each: each.name)
def test_the_table_says_yes_of_nothing_that_takes_only_sizes_known_before(call: Any) -> None:
    op = OPS.get(SPELLINGS.get(call.name, AS_IN_OPS).op or call.name)
    if op is None or not any(parameter.kind in ("shape", "extent") for parameter in op.parameters) or op.name == "size":
        return
    fd = FusionDefinition()
    SIZED[call.name](fd, fd.define_tensor([4], True), fd.define_scalar(None, DataType.Int))
    assert fd._recorder.rulers


def test_numbers_that_are_no_sizes_are_refused_by_name(own_cache: Path) -> None:
    fd, x = definition(CASES["full"][0]), torch.rand(2, 2)
    with pytest.raises(ValueError, match=r"^nvfuser_fusion_id0: 's1' is a size: expected 0 or more, got -3$"):
        fd.execute([x, -3, 1])
    with pytest.raises(TypeError, match=r"^nvfuser_fusion_id0: 's2' is a size: expected an integer, got float$"):
        fd.execute([x, 1, 2.0])
    with pytest.raises(TypeError, match=r"^nvfuser_fusion_id0: expected 3 inputs, got 2$"):
        fd.execute([x, 1])
    reshaped = definition(CASES["reshape"][0])
    with pytest.raises(
        ValueError, match=r"^nvfuser_fusion_id0: expected i0\*i1 == i2\*i3, got i0=2, i1=2, i2=3, i3=1$"
    ):
        reshaped.execute([x, 3, 1])
    rest = definition(CASES["reshape the rest"][0])
    with pytest.raises(ValueError, match=r"^nvfuser_fusion_id0: 4 elements cannot be reshaped to 3 and -1$"):
        rest.execute([x, 3, 1])


def test_two_sizes_that_are_left_out_are_refused() -> None:
    fd = FusionDefinition()
    with pytest.raises(RecipeError, match="reshape: more than one size is -1"):
        fd.ops.reshape(fd.define_tensor([-1, -1], True), [-1, -1])


def test_a_size_meets_the_dims_of_tensors_and_is_checked_against_them(own_cache: Path) -> None:
    with FusionDefinition() as fd:
        x, n = fd.define_tensor([-1, 3], True), fd.define_scalar(None, DataType.Int)
        fd.add_output(x * fd.ops.full([n, 3], 2.0, DataType.Float))
    given = torch.rand(2, 3)
    assert torch.equal(fd.execute([given, 2])[0], given * 2)
    with pytest.raises(ValueError, match="'size_of_s1': expected bool"):
        fd.execute([given, 4])


def test_sizes_that_can_never_agree_are_refused_at_once() -> None:
    fd = FusionDefinition()
    x, n = fd.define_tensor([3, 2], True), fd.define_scalar(None, DataType.Int)
    with pytest.raises(RecipeError, match=r"dim 0 is 3 in one operand and i0 \+ 5 in another"):
        x + fd.ops.full([n + 5, 2], 1.0, DataType.Float)


def test_each_size_that_is_left_out_is_an_input_of_its_own_in_recipes(own_cache: Path) -> None:
    with FusionDefinition() as fd:
        x, n, m = fd.define_tensor([-1, -1], True), *(fd.define_scalar(None, DataType.Int) for _ in range(2))
        fd.add_output(fd.ops.reshape(x, [n, -1]))
        fd.add_output(fd.ops.reshape(x, [-1, m]))
    named = [value.name for value in parse_recipe(fd.to_yaml(), "r.yaml").fusion.tensor_inputs]
    assert len({*named}) == 5
    given = torch.rand(4, 6)
    first, second = fd.execute([given, 3, 12])
    assert torch.equal(first, given.reshape(3, -1))
    assert torch.equal(second, given.reshape(-1, 12))


def test_the_device_may_be_named_where_no_tensor_says_it(own_cache: Path) -> None:
    with FusionDefinition() as fd:
        fd.add_output(fd.ops.iota(fd.define_scalar(None, DataType.Int)))
    assert torch.equal(fd.execute([4], device="cpu")[0], torch.arange(4))


def test_the_size_that_a_reshape_leaves_out_may_come_before_one_that_it_is_given(own_cache: Path) -> None:
    with FusionDefinition() as fd:
        x, n = fd.define_tensor([-1, -1], True), fd.define_scalar(None, DataType.Int)
        fd.add_output(fd.ops.reshape(x, [x.size(0), -1, n]) * 2.0)
    x_given = torch.rand(4, 6)
    (got,) = fd.execute([x_given, 3])
    assert got.equal(x_given.reshape(4, 2, 3) * 2.0)
