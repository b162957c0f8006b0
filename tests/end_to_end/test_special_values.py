"""Kernels on the CPU give for NaN, infinities and subnormals what torch does without them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusebuild.runtime.loader import load
from support.host_artifacts import compile_for_host
from support.small_recipes import text_of
from support.special_values import DTYPES, TEXTS, check_pairs, check_rows

torch = pytest.importorskip("torch")

MOMENTS = {
    f"moments_{which}": text_of(
        {"x": "float[M, N]"}, f"v, m = var_mean(x, dims={dims})", {"v": "float", "m": "float"}, name=f"moments_{which}"
    )
    for which, dims in (("outer", [0]), ("all", [0, 1]))
}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(tmp_path_factory.mktemp("special"), {**TEXTS, **MOMENTS})


@pytest.mark.parametrize("dtype", DTYPES)
def test_pointwise_results_are_those_of_eager_torch(artifacts: Path, dtype: str) -> None:
    check_pairs(artifacts, dtype, target="host", device="cpu")


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_reduced_as_eager_torch_does(artifacts: Path, dtype: str) -> None:
    check_rows(artifacts, dtype, target="host", device="cpu")


@pytest.mark.parametrize("rows", [3, 64])
@pytest.mark.parametrize("name", MOMENTS)
def test_variances_of_numbers_whose_squares_a_float_cannot_hold(artifacts: Path, name: str, rows: int) -> None:
    x = 5e19 + 1e17 * torch.randn(rows, 5, generator=torch.Generator().manual_seed(rows))
    variance, mean = torch.var_mean(x.double(), 0 if name == "moments_outer" else None)
    got = load(artifacts / f"{name}.fuse", target="host")(x)
    torch.testing.assert_close(got, (variance.float(), mean.float()), rtol=1e-3, atol=0)
