"""Tensors of more than 2**31 elements on a GPU: ``pytest -m gpu``, with 16 GiB of its memory free.

Results are compared with fp64 on windows of rows: the first, those around element 2**31, and the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fusebuild.errors import ToolchainError
from fusebuild.pipeline import compile_recipes
from fusebuild.runtime.loader import load
from fusebuild.target.table import TARGETS
from support.small_recipes import text_of

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

COLUMNS = 4104
ROWS = 2**31 // COLUMNS + 77
"""Of matrices with 2**31 elements and about 300,000 more."""
WINDOW = 24
BYTES = 16 * 2**30

ROUNDING = 2**-8
"""Half a unit in the last place of bfloat16, relative."""

RECIPES = {
    "pointwise": text_of({"x": "bfloat16[M, N]"}, "y = x * 2.0 + 1.0", {"y": "bfloat16"}, name="pointwise",
                         cases="M: 8192, N: 4104"),
    "row_sum": text_of({"x": "bfloat16[M, N]"}, "y = sum(x * x, dims=[1])", {"y": "float"}, name="row_sum",
                       cases="M: 8192, N: 4104"),
    "softmax": text_of({"x": "bfloat16[M, N]"},
                       "e = exp(x - max(x, dims=[1], keepdim=True))\ny = e / sum(e, dims=[1], keepdim=True)",
                       {"y": "bfloat16"}, name="softmax", cases="M: 8192, N: 4104"),
    "transpose": text_of({"x": "bfloat16[M, N]", "t": "bfloat16[N, M]"}, "y = x + permute(t, [1, 0])",
                         {"y": "bfloat16"}, name="transpose", cases="M: 8192, N: 4104"),
}  # fmt: skip
SCHEDULERS = {"pointwise": "pointwise", "row_sum": "reduction", "softmax": "inner_persistent", "transpose": "transpose"}


@pytest.fixture(scope="module")
def target() -> str:
    major, minor = torch.cuda.get_device_capability()
    name = f"sm_{major}{minor}"
    if name not in TARGETS:
        pytest.skip(f"there is no target {name}")
    return name


@pytest.fixture(scope="module")
def artifacts(target: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("large")
    for name, text in RECIPES.items():
        (folder / f"{name}.yaml").write_text(text)
    try:
        compile_recipes([folder], [TARGETS[target]], folder / "build")
    except ToolchainError as error:
        pytest.skip(f"needs compilers: {error}")
    return folder / "build"


@pytest.fixture
def x() -> Iterator[Any]:
    """Random numbers, more than 32 bits count."""
    free, _ = torch.cuda.mem_get_info()
    if free < BYTES:
        pytest.skip(f"needs {BYTES} bytes of memory, and {free} are free")
    torch.cuda.manual_seed(7)
    yield torch.empty(ROWS, COLUMNS, dtype=torch.bfloat16, device="cuda").normal_()
    torch.cuda.empty_cache()


def windows() -> list[slice]:
    """Rows at the beginning, around element 2**31, and at the end."""
    middle = 2**31 // COLUMNS
    return [slice(start, start + WINDOW) for start in (0, middle - WINDOW // 2, ROWS - WINDOW)]


def run(artifacts: Path, name: str, *inputs: Any) -> Any:
    plan = load(artifacts / f"{name}.fuse")
    (segment,) = plan.plan.targets[0].segments
    assert segment.scheduler == SCHEDULERS[name]
    return plan(*inputs)


def check_rows(y: Any, wanted: Callable[[slice], Any], *, rtol: float) -> None:
    for rows in windows():
        torch.testing.assert_close(y[rows].double(), wanted(rows), rtol=rtol, atol=1e-6)


def test_the_windows_lie_on_both_sides_of_the_limit() -> None:
    first, middle, last = windows()
    assert ROWS * COLUMNS > 2**31
    assert first.start == 0
    assert middle.start * COLUMNS < 2**31 < middle.stop * COLUMNS
    assert last.start * COLUMNS > 2**31
    assert last.stop == ROWS


def test_pointwise(artifacts: Path, x: Any) -> None:
    y = run(artifacts, "pointwise", x)
    check_rows(y, lambda rows: x[rows].double() * 2 + 1, rtol=ROUNDING)


def test_row_reduction(artifacts: Path, x: Any) -> None:
    y = run(artifacts, "row_sum", x)
    check_rows(y, lambda rows: (x[rows].double() ** 2).sum(1), rtol=1e-5)


def test_inner_persistent(artifacts: Path, x: Any) -> None:
    y = run(artifacts, "softmax", x)
    check_rows(y, lambda rows: torch.softmax(x[rows].double(), 1), rtol=2 * ROUNDING)


def test_transpose(artifacts: Path, x: Any) -> None:
    turned = torch.empty(COLUMNS, ROWS, dtype=torch.bfloat16, device="cuda").normal_()
    y = run(artifacts, "transpose", x, turned)
    check_rows(y, lambda rows: x[rows].double() + turned[:, rows].double().T, rtol=ROUNDING)
