"""Kernels on the CPU give for NaN, infinities and subnormals what torch does without them."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_artifacts import compile_for_host
from special_values import DTYPES, TEXTS, check_pairs, check_rows


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(tmp_path_factory.mktemp("special"), TEXTS)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pointwise_results_are_those_of_eager_torch(artifacts: Path, dtype: str) -> None:
    check_pairs(artifacts, dtype, target="host", device="cpu")


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_reduced_as_eager_torch_does(artifacts: Path, dtype: str) -> None:
    check_rows(artifacts, dtype, target="host", device="cpu")
