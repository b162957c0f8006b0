"""NaN, infinities, zeros of either sign and subnormals through compiled plans, against eager torch: the same bits.

On the host in test_special_values.py, on a GPU in test_runtime_faults_gpu.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fusebuild.runtime.loader import load
from support.small_recipes import text_of

torch = pytest.importorskip("torch")

EAGER: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "absolute": ("abs(x)", lambda x, y: x.abs()),
    "negated": ("neg(x)", lambda x, y: -x),
    "added": ("x + y", lambda x, y: x + y),
    "taken": ("x - y", lambda x, y: x - y),
    "product": ("x * y", lambda x, y: x * y),
    "quotient": ("x / y", lambda x, y: x / y),
    "root": ("sqrt(x)", lambda x, y: x.sqrt()),
    "greater": ("maximum(x, y)", torch.maximum),
    "lesser": ("minimum(x, y)", torch.minimum),
    "chosen": ("where(x < y, x, y)", lambda x, y: torch.where(x < y, x, y)),
    "bounded": ("relu(x)", lambda x, y: torch.relu(x)),
}
"""Result to what a recipe says and what torch does; either rounds once."""

SIGN_OF_ZERO_IS_OPEN = {"greater", "lesser", "bounded", "top", "bottom"}

ROWS = {
    "total": ("sum(x, dims=[1])", lambda x: x.sum(1)),
    "top": ("max(x, dims=[1])", lambda x: x.amax(1)),
    "bottom": ("min(x, dims=[1])", lambda x: x.amin(1)),
}

DTYPES = {"float": torch.float32, "half": torch.float16, "bfloat16": torch.bfloat16}


def body(results: dict[str, Any]) -> str:
    return "\n".join(f"{name} = {formula}" for name, (formula, _) in results.items())


TEXTS = {
    f"{kind}_{dtype}": text_of(inputs, body(results), dict.fromkeys(results, dtype), name=f"{kind}_{dtype}")
    for dtype in DTYPES
    for kind, inputs, results in (
        ("pairs", {"x": f"{dtype}[M, N]", "y": f"{dtype}[M, N]"}, EAGER),
        ("rows", {"x": f"{dtype}[M, N]"}, ROWS),
    )
}
"""The recipes, by their names."""


def values(dtype: Any, device: str) -> Any:
    """A row of numbers that are hard: those next to where exponents and mantissas end, and what is no number."""
    info = torch.finfo(dtype)
    least = info.tiny * info.eps  # the smallest subnormal number
    few = [0.0, least, 3 * least, info.tiny - least, info.tiny, 1.0, 1 + info.eps, 2.5, info.max, float("inf")]
    return torch.tensor([*few, *(-value for value in few), float("nan")], dtype=torch.float64).to(dtype).to(device)


def assert_same(name: str, got: Any, want: Any) -> None:
    """Equal bits, but for what a NaN carries; and a zero's sign where torch leaves that open."""
    assert got.dtype == want.dtype
    integer = torch.int16 if got.itemsize == 2 else torch.int32
    wrong = got.view(integer) != want.view(integer)
    wrong &= ~(got.isnan() & want.isnan())
    if name in SIGN_OF_ZERO_IS_OPEN:
        wrong &= ~((got == 0) & (want == 0))
    assert not wrong.any(), (name, wrong.nonzero().tolist(), got[wrong].tolist(), want[wrong].tolist())


def check_pairs(folder: Path, dtype: str, *, target: str | None, device: str) -> None:
    """Every pair of hard numbers, in each variant that fits."""
    plan, row = load(folder / f"pairs_{dtype}.fuse", target=target), values(DTYPES[dtype], device)
    x, y = (part.contiguous() for part in torch.meshgrid(row, row, indexing="ij"))
    for variant in (None, *set.intersection(*map(set, plan.variants_for(x, y)))):
        for (name, (_, eager)), got in zip(EAGER.items(), plan(x, y, variant=variant), strict=True):
            assert_same(name, got, eager(x, y))


def check_rows(folder: Path, dtype: str, *, target: str | None, device: str) -> None:
    """Rows that have one hard number, two of them, subnormal ones and no others."""
    plan, row = load(folder / f"rows_{dtype}.fuse", target=target), values(DTYPES[dtype], device)
    for columns in (2, 40, 1003):
        x = torch.zeros(2 * len(row) + 1, columns, dtype=row.dtype, device=device)
        x[: len(row), columns // 2] = row
        x[len(row) : -1, 0], x[len(row) : -1, -1] = row, row.flip(0)
        x[-1] = row[1]
        for variant in (None, *set.intersection(*map(set, plan.variants_for(x)))):
            for (name, (_, eager)), got in zip(ROWS.items(), plan(x, variant=variant), strict=True):
                assert_same(name, got, eager(x))
