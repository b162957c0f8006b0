"""Programs drawn at random, of ops that change shapes by sizes of every kind, against torch: sizes are numbers, sizes
of tensors, numbers of the call, and what is computed from them; some dims have no element, or one."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fusebuild.definition import DataType, FusionDefinition
from fusebuild.definition.fusion_definition import dtype_of_torch

torch = pytest.importorskip("torch")

DTYPES = (torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32)
NARROW = (torch.float16, torch.bfloat16)


@pytest.fixture
def own_cache(compilers: None, empty_store: Path) -> Path:
    return empty_store.parent


class Program:
    """A definition that is being drawn, beside what torch makes of the same ``inputs``."""

    def __init__(self, seed: int) -> None:
        self.rng, self.fd = random.Random(seed), FusionDefinition()
        self.inputs: list[Any] = []
        rank = self.rng.randint(1, 3)
        shape = tuple(self.rng.choice([0, 1, 2, 3, 4, 6]) for _ in range(rank))
        self.want = torch.randint(-9, 10, shape, generator=torch.Generator().manual_seed(seed))
        self.want = self.want.to(self.rng.choice(DTYPES))
        self.got = self.fd.from_pytorch(self.want, static_sizes=self.rng.random() < 0.2)
        self.inputs.append(self.want)
        self.steps: list[str] = []

    def draw(self) -> None:
        steps: list[Callable[[], None]] = [
            self.compute, self.reshape, self.pad, self.slice, self.permute, self.cat, self.expand, self.reduce,
            self.cast, self.choose, self.full,
        ]  # fmt: skip
        for _ in range(self.rng.randint(1, 5)):
            step = self.rng.choice(steps)
            self.steps.append(f"{step.__name__} of {tuple(self.want.shape)} {self.want.dtype}")
            step()

    def size(self, number: int, kinds: Sequence[str] = ("number", "size", "call", "computed")) -> Any:
        """``number`` as something of one of these ``kinds`` that an op takes for a size."""
        own = [dim for dim, size in enumerate(self.want.shape) if size == number]
        kind = self.rng.choice(kinds)
        if kind == "size" and own:
            return self.got.size(self.rng.choice(own))
        if kind == "number" or kind == "size":
            return number
        scalar = self.fd.define_scalar(None, DataType.Int)
        if kind == "call":
            self.inputs.append(number)
            return scalar
        less = self.rng.randint(0, number)
        self.inputs.append(number - less)
        return scalar + less

    def compute(self) -> None:
        wide = self.want.float() if self.want.dtype in NARROW else self.want
        self.got, self.want = self.got * 2 + self.got, wide * 2 + wide

    def reshape(self) -> None:
        """Shapes without elements are numbers: of others, dims that both shapes have are left out of the comparison."""
        count = self.want.numel()
        first = self.rng.choice([each for each in range(1, count + 1) if count % each == 0] or [0])
        shape = [first, count // first] if first else [0, self.rng.randint(0, 3)]
        sizes: list[Any] = [self.size(each) if first else each for each in shape]
        if first and self.rng.random() < 0.2:
            sizes[1] = -1
        self.got, self.want = self.fd.ops.reshape(self.got, sizes), self.want.reshape(shape)

    def pad(self) -> None:
        if self.want.dim() == 0:
            return
        size = self.want.shape[-1]
        before = self.rng.randint(-size, 3)
        after = self.rng.randint(-min(size + min(before, 0), size), 3)
        widths: list[Any] = [before, after]
        if self.rng.random() < 0.5:
            self.inputs += widths
            widths = [self.fd.define_scalar(None, DataType.Int) for _ in widths]
        self.got = self.fd.ops.pad(self.got, widths, 3)
        self.want = torch.nn.functional.pad(self.want, [before, after], value=3)

    def slice(self) -> None:
        bounds = [sorted((self.rng.randint(0, size), self.rng.randint(0, size))) for size in self.want.shape]
        starts, ends = ([self.size(each[side]) for each in bounds] for side in (0, 1))
        self.got = self.fd.ops.slice(self.got, starts, ends)
        self.want = self.want[tuple(slice(*each) for each in bounds)]

    def permute(self) -> None:
        order = self.rng.sample(range(self.want.dim()), self.want.dim())
        self.got, self.want = self.fd.ops.permute(self.got, order), self.want.permute(order)

    def cat(self) -> None:
        if self.want.dim() == 0:
            return
        dim = self.rng.randrange(self.want.dim())
        self.got, self.want = self.fd.ops.cat([self.got, self.got], dim), torch.cat([self.want, self.want], dim)

    def expand(self) -> None:
        number, rank = self.rng.choice([0, 1, 2, 5]), self.want.dim()
        wide = self.fd.ops.broadcast(self.got, [True] + [False] * rank)
        self.got = self.fd.ops.expand(wide, [self.size(number), *[-1] * rank])
        self.want = self.want.expand(number, *self.want.shape)

    def reduce(self) -> None:
        if self.want.dim() == 0:
            return
        dim = self.rng.randrange(self.want.dim())
        wide = self.want.float() if self.want.dtype in NARROW else self.want
        self.got = self.fd.ops.sum(self.got, [dim], dtype=dtype_of_torch(wide.dtype))
        self.want = wide.sum(dim, dtype=wide.dtype)

    def cast(self) -> None:
        dtype = self.rng.choice((torch.float32, torch.float64))
        self.got, self.want = self.fd.ops.cast(self.got, dtype_of_torch(dtype)), self.want.to(dtype)

    def choose(self) -> None:
        number = self.rng.choice([1, -2, 0.5])
        self.got = self.fd.ops.where(self.fd.ops.gt(self.got, 0), self.got, number)
        self.want = torch.where(self.want > 0, self.want, number)

    def full(self) -> None:
        """A dim that was cut at a size of the call cannot be seen to be a number."""
        sizes = [self.size(each, ("call", "computed")) for each in self.want.shape]
        self.got = self.got + self.fd.ops.full(sizes, 2, dtype_of_torch(self.want.dtype))
        wide = self.want.float() if self.want.dtype in NARROW else self.want
        self.want = wide + 2


@pytest.mark.parametrize("seed", range(24))
def test_a_drawn_program_is_torchs(seed: int, own_cache: Path) -> None:
    program = Program(seed)
    program.draw()
    fd = program.fd
    fd.add_output(program.got)
    (got,) = fd.execute(program.inputs)
    assert got.shape == program.want.shape, program.steps
    assert got.dtype == program.want.dtype, program.steps
    torch.testing.assert_close(got, program.want, rtol=1e-3, atol=1e-3, msg=lambda text: f"{program.steps}\n{text}")
    names: dict[str, Any] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(str(fd), names)
    with FusionDefinition() as again:
        names["nvfuser_fusion_id0"](again)
    assert str(again) == str(fd)
