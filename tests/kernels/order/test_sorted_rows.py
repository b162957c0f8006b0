"""Sorted rows, and the first of rows, are torch's: of any length, with ties, NaN, infinities and both zeros."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusebuild.ir.dtype import DType
from fusebuild.oracle.reference import torch_dtype
from fusebuild.runtime.loader import LoadedPlan, load
from support.host_artifacts import chosen, compile_for_host
from support.small_recipes import text_of

torch = pytest.importorskip("torch")

DTYPES = [DType.DOUBLE, DType.FLOAT, DType.HALF, DType.BFLOAT16, DType.INT64, DType.INT32, DType.BOOL]
SPECIAL = (1.0, -1.0, 0.0, -0.0, math.nan, math.inf, -math.inf, 2.5, 1e-40)
LARGEST_K = 64


def recipe(dtype: DType, name: str, call: str) -> str:
    return text_of({"x": f"{dtype.value}[M, N]"}, f"v, i = {call}", {"v": dtype.value, "i": "int64"}, name=name)


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LoadedPlan]:
    texts = {}
    for dtype in DTYPES:
        texts[f"{dtype.value}_up"] = recipe(dtype, f"{dtype.value}_up", "sort(x, dim=1)")
        texts[f"{dtype.value}_top"] = recipe(dtype, f"{dtype.value}_top", "topk(x, 5, dim=1)")
    texts["float_down"] = recipe(DType.FLOAT, "float_down", "sort(x, dim=1, descending=True)")
    texts["int64_down"] = recipe(DType.INT64, "int64_down", "sort(x, dim=1, descending=True)")
    texts["float_columns"] = recipe(DType.FLOAT, "float_columns", "sort(x, dim=0)")
    texts["float_low"] = recipe(DType.FLOAT, "float_low", f"topk(x, {LARGEST_K}, dim=1, largest=False)")
    texts["double_low"] = recipe(DType.DOUBLE, "double_low", "topk(x, 33, dim=1, largest=False)")
    folder = compile_for_host(tmp_path_factory.mktemp("order"), texts)
    return {name: load(folder / f"{name}.fuse", target="host") for name in texts}


def drawn(dtype: DType, sizes: tuple[int, int], seed: int, kinds: int) -> torch.Tensor:
    """Numbers of ``dtype``, of so many ``kinds`` that ties are many or none; every few of them special."""
    generator = torch.Generator().manual_seed(seed)
    numbers = torch.randint(-kinds, kinds + 1, sizes, generator=generator)
    if not dtype.is_floating:
        return numbers.to(torch_dtype(dtype)) if dtype is not DType.BOOL else numbers > 0
    special = torch.tensor(SPECIAL, dtype=torch.float64)[torch.randint(0, len(SPECIAL), sizes, generator=generator)]
    is_special = torch.rand(sizes, generator=generator) < 0.1
    return torch.where(is_special, special, numbers.double() / 8).to(torch_dtype(dtype))


def same(got: torch.Tensor, want: torch.Tensor) -> bool:
    """Whether all elements are the same, NaN and the sign of zeros too."""
    if not want.is_floating_point():
        return torch.equal(got, want)
    signs = torch.equal(torch.signbit(got) & ~got.isnan(), torch.signbit(want) & ~want.isnan())
    return signs and bool(((got == want) | (got.isnan() & want.isnan())).all())


lengths = st.one_of(st.integers(0, 40), st.sampled_from([31, 32, 33, 127, 128, 129, 500, 513, 1000, 2048, 2049]))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows=st.integers(0, 6), length=lengths, seed=st.integers(0, 2**31), kinds=st.sampled_from([1, 5, 1000]),
       dtype=st.sampled_from(DTYPES))  # fmt: skip
def test_sorts(plans: dict[str, LoadedPlan], rows: int, length: int, seed: int, kinds: int, dtype: DType) -> None:
    x = drawn(dtype, (rows, length), seed, kinds)
    for way in ("up", "down"):
        if f"{dtype.value}_{way}" in plans:
            values, indices = plans[f"{dtype.value}_{way}"](x)
            wanted = torch.sort(x, dim=1, descending=way == "down", stable=True)
            assert torch.equal(indices, wanted.indices)
            assert same(values, wanted.values)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(rows=lengths, columns=st.integers(0, 9), seed=st.integers(0, 2**31), kinds=st.sampled_from([1, 1000]))
def test_sorts_columns(plans: dict[str, LoadedPlan], rows: int, columns: int, seed: int, kinds: int) -> None:
    x = drawn(DType.FLOAT, (rows, columns), seed, kinds)
    values, indices = plans["float_columns"](x)
    wanted = torch.sort(x, dim=0, stable=True)
    assert torch.equal(indices, wanted.indices)
    assert same(values, wanted.values)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(rows=st.integers(0, 6), length=lengths, seed=st.integers(0, 2**31), kinds=st.sampled_from([1, 5, 1000]),
       dtype=st.sampled_from(DTYPES))  # fmt: skip
def test_first_of_rows(
    plans: dict[str, LoadedPlan], rows: int, length: int, seed: int, kinds: int, dtype: DType
) -> None:
    for way, k in (("top", 5), ("low", LARGEST_K if dtype is DType.FLOAT else 33)):
        if f"{dtype.value}_{way}" not in plans:
            continue
        x = drawn(dtype, (rows, k + length), seed, kinds)
        values, indices = plans[f"{dtype.value}_{way}"](x)
        wanted = torch.sort(x, dim=1, descending=way == "top", stable=True)
        assert torch.equal(indices, wanted.indices[:, :k])
        assert same(values, wanted.values[:, :k])
        if dtype is not DType.BOOL:
            firsts = torch.topk(x, k, dim=1, largest=way == "top").values
            assert same(values.abs(), firsts.abs())


@pytest.mark.parametrize(
    ("name", "length", "variant"),
    [
        ("float_up", 8192, "row_of_8192"), ("float_down", 5000, "row_of_8192"), ("half_up", 8193, "in_shared"),
        ("int32_up", 16213, "in_shared"), ("float_down", 16214, "in_workspace"), ("double_up", 4096, "row_of_4096"),
        ("int64_down", 4097, "in_shared"), ("double_up", 9729, "in_workspace"), ("bool_up", 20000, "in_workspace"),
        ("float_top", 2000, "top_by_256"), ("float_low", 32769, "top_by_1024"), ("double_low", 32769, "top_by_1024"),
    ],
)  # fmt: skip
def test_long_rows(plans: dict[str, LoadedPlan], name: str, length: int, variant: str) -> None:
    dtype = next(dtype for dtype in DTYPES if name.startswith(f"{dtype.value}_"))
    x = drawn(dtype, (2, length), length, 5000)
    assert chosen(plans[name], x) == variant
    values, indices = plans[name](x)
    wanted = torch.sort(x, dim=1, descending=name.endswith(("down", "top")), stable=True)
    assert torch.equal(indices, wanted.indices[:, : indices.shape[1]])
    assert same(values, wanted.values[:, : values.shape[1]])


@pytest.mark.parametrize("name", ["float_low", "float_top"])
def test_rows_that_come_sorted_the_wrong_way(plans: dict[str, LoadedPlan], name: str) -> None:
    """Every element is better than all before it: nothing is dropped."""
    x = torch.arange(3000.0).repeat(2, 1) * (-1 if name == "float_low" else 1)
    values, indices = plans[name](x)
    wanted = torch.topk(x, values.shape[1], dim=1, largest=name == "float_top")
    assert torch.equal(values, wanted.values)
    assert torch.equal(indices, wanted.indices)


def test_too_few_elements_are_refused(plans: dict[str, LoadedPlan]) -> None:
    with pytest.raises(ValueError, match="N"):
        plans["float_top"](torch.zeros(2, 4))
