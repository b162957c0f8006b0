"""Scatters on the CPU, at drawn sizes and indices: what torch's own functions give for one update after the other."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusebuild.runtime.loader import LoadedPlan, load
from support.host_artifacts import compile_for_host
from support.small_recipes import text_of

torch = pytest.importorskip("torch")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scattering:
    """A recipe of ``dtype``: the shape of what is written to, where ``S`` is the dim ``dim`` that the index is about,
    that of updates, where ``K`` is, and that of the index, which is expanded to it."""

    base: tuple[str, ...]
    index: tuple[str, ...]
    dim: int
    dtype: str = "float"
    adds: bool = False
    in_place: bool = False

    @property
    def updates(self) -> tuple[str, ...]:
        return tuple("K" if at == self.dim else size for at, size in enumerate(self.base))

    def text(self, name: str) -> str:
        base, index, updates = (f"[{', '.join(dims)}]" for dims in (self.base, self.index, self.updates))
        inputs = {"x": f"{self.dtype}{base}", "i": f"int64{index}", "u": f"{self.dtype}{updates}"}
        op = "scatter_add" if self.adds else "scatter"
        body = f"j = expand(i, {updates})\ny = {op}(x, j, u, dim={self.dim})"
        output = f"{{dtype: {self.dtype}, alias: x}}" if self.in_place else self.dtype
        return text_of(inputs, body, {"y": output}, name=name)


SCATTERINGS = {
    "rows_set": Scattering(base=("S", "D"), index=("K", "1"), dim=0),
    "rows_added": Scattering(base=("S", "D"), index=("K", "1"), dim=0, adds=True),
    "cells_set": Scattering(base=("M", "S"), index=("M", "K"), dim=1, dtype="bfloat16"),
    "cells_added": Scattering(base=("M", "S"), index=("M", "K"), dim=1, adds=True),
    "middle_set_in_place": Scattering(base=("A", "S", "D"), index=("A", "K", "1"), dim=1, dtype="half", in_place=True),
    "middle_added_in_place": Scattering(base=("A", "S", "D"), index=("1", "K", "D"), dim=1, adds=True, in_place=True),
    "doubles_added": Scattering(base=("S", "D"), index=("K", "D"), dim=0, dtype="double", adds=True),
    "integers_added": Scattering(base=("S",), index=("K",), dim=0, dtype="int64", adds=True),
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LoadedPlan]:
    texts = {name: each.text(name) for name, each in SCATTERINGS.items()}
    folder: Path = compile_for_host(tmp_path_factory.mktemp("scatters"), texts)
    return {name: load(folder / f"{name}.fuse", target="host") for name in texts}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    x: Any
    index: Any
    updates: Any


def drawn(scattering: Scattering, sizes: dict[str, int], seed: int) -> Drawn:
    """Tensors of these sizes; the index names few places, so that many are named twice, and some beyond the dim."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [[sizes[dim] for dim in dims] for dims in (scattering.base, scattering.index, scattering.updates)]
    dtype = getattr(torch, scattering.dtype)
    x, updates = (
        (torch.randn(shape, generator=generator, dtype=torch.float64) * 100).to(dtype)
        for shape in (shapes[0], shapes[2])
    )
    index = torch.randint(-2, sizes["S"] + 2, shapes[1], generator=generator)
    return Drawn(x=x, index=index, updates=updates)


def expected(scattering: Scattering, given: Drawn) -> Any:
    """One update after the other, by torch."""
    dim, result = scattering.dim, given.x.clone()
    result = result.double() if scattering.adds and result.is_floating_point() else result
    index = given.index.expand(given.updates.shape).clamp(0, given.x.shape[dim] - 1)
    for at in range(index.shape[dim]):
        one, update = (each.narrow(dim, at, 1) for each in (index, given.updates.to(result.dtype)))
        result = result.scatter_add(dim, one, update) if scattering.adds else result.scatter(dim, one, update)
    return result


SIZES = st.fixed_dictionaries(
    {"1": st.just(1), "S": st.integers(1, 9), **{name: st.sampled_from((0, 1, 2, 3, 8, 17)) for name in "KADM"}}
)


@pytest.mark.parametrize("name", SCATTERINGS)
@settings(max_examples=25, deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 2**31))
def test_it_gives_what_torch_gives(plans: dict[str, LoadedPlan], name: str, sizes: dict[str, int], seed: int) -> None:
    scattering = SCATTERINGS[name]
    given = drawn(scattering, sizes, seed)
    wanted, x = expected(scattering, given), given.x.clone()
    got = plans[name](x, given.index, given.updates)
    if not scattering.adds or not x.is_floating_point():
        assert torch.equal(got, wanted)
        return
    bound = {torch.float32: 2**-23, torch.float64: 2**-50}[x.dtype]
    torch.testing.assert_close(got.double(), wanted, rtol=bound, atol=2**-40 if x.dtype == torch.float32 else 2**-44)


@pytest.mark.parametrize("name", [name for name, each in SCATTERINGS.items() if each.adds])
@settings(max_examples=15, deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 2**31))
def test_sums_do_not_depend_on_the_order(
    plans: dict[str, LoadedPlan], name: str, sizes: dict[str, int], seed: int
) -> None:
    scattering = SCATTERINGS[name]
    given, dim = drawn(scattering, sizes, seed), scattering.dim
    order = torch.randperm(sizes["K"], generator=torch.Generator().manual_seed(seed))
    got = plans[name](given.x.clone(), given.index, given.updates)
    turned = given.index.index_select(dim, order), given.updates.index_select(dim, order)
    assert torch.equal(got, plans[name](given.x.clone(), *turned))


def test_what_overwrites_its_input_gives_that_memory_back(plans: dict[str, LoadedPlan]) -> None:
    for name in ("middle_set_in_place", "middle_added_in_place"):
        given = drawn(SCATTERINGS[name], {"1": 1, "A": 2, "S": 5, "K": 2, "D": 8}, seed=3)
        x = given.x.clone()
        assert plans[name](x, given.index, given.updates).data_ptr() == x.data_ptr()
        named = torch.zeros(x.shape, dtype=torch.bool)
        named.scatter_(1, given.index.expand(given.updates.shape).clamp(0, 4), True)
        assert torch.equal(x[~named], given.x[~named])


@pytest.mark.parametrize("name", ["rows_added", "doubles_added"])
def test_what_is_no_number_goes_to_its_own_place_alone(plans: dict[str, LoadedPlan], name: str) -> None:
    dtype, inf, nan = getattr(torch, SCATTERINGS[name].dtype), float("inf"), float("nan")
    updates = torch.tensor([[inf], [inf], [inf], [-inf], [nan], [1.0], [1.5]], dtype=dtype)
    index = torch.tensor([0, 0, 1, 1, 2, 2, 3]).reshape(7, 1)
    got = plans[name](torch.ones(5, 1, dtype=dtype), index, updates)
    assert torch.equal(got[:, 0].nan_to_num(nan=7.0), torch.tensor([inf, 7.0, 7.0, 2.5, 1.0], dtype=dtype).nan_to_num())


@pytest.mark.parametrize("name", ["rows_added", "doubles_added"])
def test_large_and_small_numbers_are_summed_as_if_exactly(plans: dict[str, LoadedPlan], name: str) -> None:
    dtype = getattr(torch, SCATTERINGS[name].dtype)
    largest, least = torch.finfo(dtype).max, torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    columns = [
        [largest, largest, -largest, -largest, 1.0],
        [1e8, 1.0, -1e8, 1.0, 0.0],
        [least, least, -least, 0.0, 0.0],
    ]
    updates = torch.tensor(columns, dtype=dtype).T.contiguous()
    got = plans[name](
        torch.zeros(1, 3, dtype=dtype),
        torch.zeros(5, 1, dtype=torch.int64).expand(5, 3 if name == "doubles_added" else 1).contiguous(),
        updates,
    )
    assert got[0, 1:].tolist() == [2.0, least]
    assert abs(float(got[0, 0])) <= 1.0


def test_a_place_that_gets_everything(plans: dict[str, LoadedPlan]) -> None:
    """The mean error of floats that are added one by one would be far larger."""
    count = 20000
    updates = torch.rand(count, 1, generator=torch.Generator().manual_seed(5)) + 0.5
    got = plans["rows_added"](torch.zeros(3, 1), torch.ones(count, 1, dtype=torch.int64), updates)
    assert float(got[1]) == float(updates.double().sum().float())
    assert got[0] == got[2] == 0
