"""``scatter`` and its kin: types, what the oracle gives beside torch's own functions, and names of nvFuser's."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusebuild.definition import DataType, FusionDefinition
from fusebuild.oracle.reference import evaluate, random_inputs
from fusebuild.passes import run_passes
from support.small_recipes import recipe_of, text_of

torch = pytest.importorskip("torch")

INPUTS = {"x": "float[M, N]", "i": "int64[K]", "u": "float[K, N]", "j": "int64[M, K]", "v": "float[M, K]"}


def oracle(call: str, inputs: dict[str, str], *operands: Any) -> Any:
    """What the oracle gives for ``call``, before the passes and after."""
    fusion = recipe_of(text_of(inputs, f"y = {call}", {"y": ""})).fusion
    before, after = evaluate(fusion, operands)[0], evaluate(run_passes(fusion), operands)[0]
    assert torch.equal(before, after)
    return before


SIZES = st.tuples(st.integers(1, 5), st.integers(1, 4), st.integers(0, 4))


@settings(max_examples=30, deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 2**31))
def test_rows_are_those_of_torch(sizes: tuple[int, int, int], seed: int) -> None:
    m, n, k = sizes
    generator = torch.Generator().manual_seed(seed)
    x, u = torch.randint(-8, 8, (m, n), generator=generator).float(), torch.randn(k, n, generator=generator)
    index, inputs = torch.randint(-1, m + 1, (k,), generator=generator), {key: INPUTS[key] for key in "xiu"}
    inside = index.clamp(0, m - 1)
    one_by_one = x.clone()
    for at in range(k):
        one_by_one = one_by_one.index_copy(0, inside[at : at + 1], u[at : at + 1])
    added = x.double().index_add(0, inside, u.double()).float()
    for call in ("index_copy(x, i, u, dim=0)", "index_put(x, i, u)", "index_copy(x, i, u, dim=-2)"):
        assert torch.equal(oracle(call, inputs, x, index, u), one_by_one)
    for call in ("index_add(x, i, u, dim=0)", "index_put_accumulate(x, i, u)"):
        torch.testing.assert_close(oracle(call, inputs, x, index, u), added)


@settings(max_examples=30, deadline=None)
@given(sizes=SIZES, seed=st.integers(0, 2**31))
def test_elements_are_those_of_torch(sizes: tuple[int, int, int], seed: int) -> None:
    m, n, k = sizes
    generator = torch.Generator().manual_seed(seed)
    x, u = torch.randn(m, n, generator=generator), torch.randn(m, k, generator=generator)
    index, inputs = torch.randint(0, n, (m, k), generator=generator), {key: INPUTS[key] for key in "xjv"}
    added = x.double().scatter_add(1, index, u.double()).float()
    torch.testing.assert_close(oracle("scatter_add(x, j, v, dim=1)", inputs, x, index, u), added)
    one_by_one = x.clone()
    for at in range(k):
        one_by_one.scatter_(1, index[:, at : at + 1], u[:, at : at + 1])
    assert torch.equal(oracle("scatter(x, j, v, dim=1)", inputs, x, index, u), one_by_one)


def test_an_index_of_several_dims_names_rows() -> None:
    x, index, u = torch.zeros(5, 3), torch.tensor([[0, 4], [4, 2]]), torch.arange(12.0).reshape(2, 2, 3)
    inputs = {"x": "float[M, N]", "i": "int64[A, 2]", "u": "float[A, 2, N]"}
    got = oracle("index_put_accumulate(x, i, u)", inputs, x, index, u)
    assert torch.equal(got, x.index_put((index,), u, accumulate=True))


def test_a_number_is_written_to_each_place() -> None:
    x, index = torch.zeros(4, 2), torch.tensor([1, 3, 1])
    inputs = {key: INPUTS[key] for key in "xi"}
    assert torch.equal(oracle("index_copy(x, i, 2.5, dim=0)", inputs, x, index), x.index_fill(0, index, 2.5))
    assert oracle("index_add(x, i, 1, dim=0)", inputs, x, index)[:, 0].tolist() == [0, 2, 0, 1]


def test_sums_of_halves_are_floats_that_a_dtype_rounds() -> None:
    inputs = {"x": "half[M, N]", "i": "int64[K]", "u": "half[K, N]"}
    fusion = recipe_of(text_of(inputs, "y = index_add(x, i, u, dim=0)", {"y": ""})).fusion
    assert str(fusion.value(fusion.output_fids[0]).type) == "float[M, N]"
    fusion = recipe_of(text_of(inputs, "y = index_add(x, i, u, dim=0, dtype=half)", {"y": ""})).fusion
    assert str(fusion.value(fusion.output_fids[0]).type) == "half[M, N]"


UNIQUE = [
    ("index_copy(x, i, 1.0, dim=0, unique_indices=True)", "int64[K]", 0),
    ("scatter(x, i, 1.0, dim=1, unique_indices=True)", "int32[M, K]", 1),
]


@pytest.mark.parametrize(("call", "index", "dim"), UNIQUE)
def test_indices_are_drawn_as_a_recipe_promises(call: str, index: str, dim: int) -> None:
    fusion = recipe_of(text_of({"x": "float[M, N]", "i": index}, f"y = {call}", {"y": ""})).fusion
    inputs: list[Any] = [*random_inputs(fusion, {"M": 20, "N": 20, "K": 20}, seed=3, ranges={1: (0, 20)})]
    drawn = inputs[1]
    assert torch.equal(drawn.sort(dim).values, torch.arange(20).expand(drawn.shape).to(drawn.dtype))
    inputs = [*random_inputs(fusion, {"M": 2, "N": 2, "K": 20}, seed=3, ranges={1: (0, 2)})]
    assert {*inputs[1].flatten().tolist()} <= {0, 1}


def shapes(fd: FusionDefinition) -> list[Any]:
    return [fd.fusion.value(fid).tensor.shape for fid in fd.fusion.inputs]


def test_names_of_nvfuser() -> None:
    with FusionDefinition() as fd:
        acc, index, value = (fd.define_tensor([-1, -1]), fd.define_tensor([-1], dtype=DataType.Int),
                             fd.define_tensor([-1, -1]))  # fmt: skip
        fd.add_output(fd.ops.index_put_accumulate(acc=acc, index=index, value=value))
    assert shapes(fd) == [("i0", "i1"), ("i2",), ("i2", "i1")]


def test_sizes_that_meet_are_made_equal() -> None:
    with FusionDefinition() as fd:
        x, index, src = (fd.define_tensor([-1, -1]), fd.define_tensor([-1, -1], dtype=DataType.Int),
                         fd.define_tensor([-1, -1]))  # fmt: skip
        fd.add_output(fd.ops.scatter(x, index, src, dim=1))
    assert shapes(fd) == [("i0", "i1"), ("i0", "i2"), ("i0", "i2")]
