"""Batches of elements in the device header: (max, sum of exp), the first of the largest, long sums, elements at
positions."""

from __future__ import annotations

import pytest
import torch

from support.device_harness import DTYPES, INF, NAN, library, same_values

LARGEST = 3.3e38


def rows_of(columns: int, dtype: torch.dtype) -> torch.Tensor:
    """Rows far from zero and close to it, with ties, infinities and NaN in many places, and of nothing else."""
    x = torch.randn(20, columns, generator=torch.Generator().manual_seed(columns), dtype=torch.float64)
    x[0], x[1], x[2], x[3] = INF, -INF, NAN, 2.0
    for row, value in ((4, INF), (5, -INF), (6, NAN), (7, 9.0), (8, -INF)):
        x[row, columns // 3 :: max(1, columns // 5)] = value
    x[8, 0], x[8, -1], x[9, 0], x[9, -1] = NAN, INF, INF, NAN
    x[10], x[11], x[12], x[13, ::2] = -LARGEST, LARGEST, torch.linspace(-LARGEST, LARGEST, columns), -INF
    x[14], x[15], x[16] = x[14] + 80, x[15] - 1000, 40 * x[16]
    x[17], x[18], x[19] = torch.linspace(0, 200, columns), torch.linspace(200, 0, columns), 0.0
    x[19, ::2] = -0.0
    return x.to(dtype)


@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9, 64, 1003])
@pytest.mark.parametrize(("dtype", "width"), [("float", 1), ("float", 4), ("float", 8), ("double", 2)])
def test_exponentials_add_up_whatever_the_maximum(dtype: str, width: int, columns: int) -> None:
    x = rows_of(columns, DTYPES[dtype])
    out = torch.full((len(x), 2), -7.0, dtype=x.dtype)
    library("batch").run(f"exponentials_{dtype}_{width}", (len(x),), (1,), x, out, columns)
    top = x.amax(1)
    torch.testing.assert_close(out[:, 0], top, rtol=0.0, atol=0.0, equal_nan=True)
    wide = x.double()
    shift = torch.where(top.isinf(), 0.0, top).double()
    wanted = (wide - shift[:, None]).exp().sum(1)
    tolerance = 2e-6 if dtype == "float" else 1e-14
    torch.testing.assert_close(out[:, 1].double(), wanted, rtol=tolerance, atol=0.0, equal_nan=True)


def test_one_element_counts_one() -> None:
    x = torch.tensor([0.0, -0.0, 1e-45, 88.7, -103.9, LARGEST, -LARGEST])[:, None].contiguous()
    out = torch.full((len(x), 2), -7.0)
    library("batch").run("exponentials_float_8", (len(x),), (1,), x, out, 1)
    assert out[:, 1].tolist() == [1.0] * len(x)


BEST = [("Max", "float", 1), ("Max", "float", 8), ("Min", "float", 4), ("Min", "double", 2), ("Max", "int32", 8),
        ("Min", "int64", 2), ("Max", "bool", 8)]  # fmt: skip


@pytest.mark.parametrize("before", [0, 1, 5])
@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9, 64, 1003])
@pytest.mark.parametrize(("best", "dtype", "width"), BEST)
def test_the_first_of_the_best_wins_and_nan_over_all(best: str, dtype: str, width: int, columns: int, before: int):
    x = rows_of(columns, torch.float64)
    if not DTYPES[dtype].is_floating_point:
        x = x.nan_to_num(5, 9, -9).clamp(-9, 9)
    x = x.to(DTYPES[dtype])
    before = min(before, width - 1)
    values, indices = torch.full_like(x[:, 0], 1), torch.full((len(x),), -7)
    c_type = {"int32": "int32_t", "int64": "int64_t"}.get(dtype, dtype)
    library("batch").run(f"best_{best}_{c_type}_{width}", (len(x),), (1,), x, values, indices, columns, before)
    comparable = x.int() if dtype == "bool" else x
    assert torch.equal(indices, comparable.argmax(1) if best == "Max" else comparable.argmin(1))
    assert same_values(values, x.gather(1, indices[:, None])[:, 0])


def test_of_nothing_there_is_no_best() -> None:
    values, indices = torch.zeros(3), torch.zeros(3, dtype=torch.int64)
    library("batch").run("best_Max_float_8", (3,), (1,), torch.empty(0), values, indices, 0, 0)
    assert (values.tolist(), indices.tolist()) == ([-INF] * 3, [-5] * 3)


def sums_of(x: torch.Tensor, width: int) -> torch.Tensor:
    out = torch.full((len(x),), -7.0)
    library("batch").run(f"sum_{width}", (len(x),), (1,), x.contiguous(), out, x.shape[1])
    return out


@pytest.mark.parametrize("width", [1, 8])
def test_a_sum_of_many_squares_is_as_exact_as_its_batches(width: int) -> None:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(4, 200_000, generator=generator).bfloat16().float().square()
    wanted = x.double().sum(1)
    errors = ((sums_of(x, width).double() - wanted) / wanted).abs()
    assert errors.max() < 2.0**-24 + 1e-8  # the last rounding
    one_by_one = torch.zeros(4)
    for column in x.t():
        one_by_one += column
    assert ((one_by_one.double() - wanted) / wanted).abs().min() > 1e-5


@pytest.mark.parametrize("width", [1, 8])
def test_what_a_large_number_swallows_comes_back(width: int) -> None:
    x = torch.zeros(3, 640)
    x[0, 0], x[0, 8:640:8], x[0, -8] = 2.0**24, 1.0, -(2.0**24)
    x[1, ::8], x[1, 320] = 1.0, 2.0**26
    assert sums_of(x, width).tolist() == [78.0, 2.0**26 + 80.0, 0.0]


@pytest.mark.parametrize("width", [1, 8])
def test_sums_are_infinite_or_no_number_as_ever(width: int) -> None:
    x = torch.ones(5, 100)
    x[0, 50], x[1, 50], x[2, 50], x[3, 3:60:50], x[4] = INF, -INF, NAN, torch.tensor([INF, -INF]), LARGEST
    assert same_values(sums_of(x, width), torch.tensor([INF, -INF, NAN, NAN, INF]))


def test_places_are_found_by_positions_of_any_size() -> None:
    firsts = [0, 0, -7, 8, 8, 16, 2**31 - 2**20, 2**31 - 2**20, 2**31 - 2**20]
    positions = [0, 7, -1, 7, 16, 21, 2**31 - 2**20 + 7, -(2**31), 2**63 - 1]
    for offset in (0, 2**32, -(2**32), 2**63):
        moved = [(position + offset + 2**63) % 2**64 - 2**63 for position in positions]
        out = torch.full((len(firsts), 2), -7, dtype=torch.int32)
        library("batch").run("places", (len(firsts),), (1,), torch.tensor(moved), torch.tensor(firsts), out)
        wanted = [at - first if 0 <= at - first < 8 else -1 for at, first in zip(moved, firsts, strict=True)]
        assert out.tolist() == [[place, place] for place in wanted]


@pytest.mark.parametrize("size", [1, 2, 7, 64, 1003])
@pytest.mark.parametrize("center", [0, 3, -1000])
def test_squares_around_any_center_follow_from_a_part_s_moments(size: int, center: int) -> None:
    x = torch.randn(5, size, generator=torch.Generator().manual_seed(size)) + torch.tensor(
        [[0.0], [3], [-1000], [1e4], [1]]
    )
    out = torch.zeros(5)
    library("batch").run("squares", (5,), (1,), x, out, size, center)
    wanted = (x.double() - center).square().sum(1)
    torch.testing.assert_close(out.double(), wanted, rtol=1e-4, atol=1e-4)
