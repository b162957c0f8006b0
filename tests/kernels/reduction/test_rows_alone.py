"""Rows of one vector: how many a thread has to itself, and that their results are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusebuild.artifact.plan import FormulaArg
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.ir.fusion import Task
from fusebuild.kernels.reduction import FAMILY, STORING
from fusebuild.target.table import TARGETS
from support.small_recipes import text_of, whole

torch = pytest.importorskip("torch")

from fusebuild.runtime.loader import load  # noqa: E402
from support.host_artifacts import compile_for_host  # noqa: E402

SM_90 = TARGETS["sm_90"]
X = {"x": "bfloat16[M, N]"}
SUM = whole(X, "y = sum(x, dims=[1])", {"y": "float"})
INPUTS = {"x": "bfloat16[M, N]", "own": "float[M]", "place": "int64[M]"}
BODY = """\
top = max(x, dims=[1])
total = sum(x * broadcast(own, [False, True]), dims=[1])
v, m = var_mean(x, dims=[1], correction=0)
picked = take_along_axis(x, place, dim=1)
"""


def launch_of(task: Task, rows: int, columns: int) -> tuple[int, int, int]:
    """``(rows of a thread, threads that share a row, blocks)`` of aligned rows."""
    sizes = {"M": rows, "N": columns, MULTIPROCESSORS: 132}
    launch = FAMILY.schedule(task, SM_90, sizes)[0].launches[0]
    formulas = {each.name: each.arg for each in launch.kernel.parameters}
    alone, shift = formulas["rows_alone"], formulas["row_shift"]
    assert isinstance(alone, FormulaArg)
    assert isinstance(shift, FormulaArg)
    return evaluate(alone.formula, sizes), 1 << evaluate(shift.formula, sizes), evaluate(launch.grid[0], sizes)


@pytest.mark.parametrize(
    ("rows", "columns", "launch"),
    [
        (27_525_440, 8, (8, 1, 26881)),
        (1024 * 132 * 8, 8, (8, 1, 1056)),
        (1024 * 132 * 8 - 1, 8, (7, 1, 1207)),
        (1024 * 132, 8, (1, 1, 1056)),
        (1024 * 132 - 1, 8, (0, 1, 1056)),  # all run at a time
        (1000, 8, (0, 2, 16)),
        (1024 * 132 * 8, 16, (0, 1, 8448)),
    ],
)
def test_threads_have_rows_of_one_vector_alone_where_rows_are_many(
    rows: int, columns: int, launch: tuple[int, int, int]
) -> None:
    assert launch_of(SUM, rows, columns) == launch


@pytest.mark.parametrize("columns", ["16", "2*K"])
def test_a_length_that_is_known_says_now_whether_a_row_is_one_vector(columns: str) -> None:
    task = whole({"x": f"bfloat16[M, {columns}]"}, "y = sum(x, dims=[1])", {"y": "float"})
    found = FAMILY.schedule(task, SM_90, {"M": 4096, "K": 8})
    names = {each.name for each in found[0].launches[0].kernel.parameters}
    assert ("rows_alone" in names) == (columns == "2*K")


def test_what_is_stored_along_rows_is_not_by_threads_that_have_several() -> None:
    task = whole(X, "y = exp(x)\ntop = max(x, dims=[1])", {"y": "half", "top": "float"})
    found = STORING.schedule(task, SM_90, {"M": 4096, "N": 8})
    assert "rows_alone" not in {each.name for each in found[0].launches[0].kernel.parameters}


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    inputs = {**INPUTS, "place": "{type: 'int64[M, 1]', range: [0, N]}"}
    outputs = dict.fromkeys(("top", "total", "v", "m", "picked"), "float")
    text = text_of(inputs, BODY, outputs, name="alone", cases="M: 4, N: 8")
    return compile_for_host(tmp_path_factory.mktemp("alone"), {"alone": text}) / "alone.fuse"


@pytest.mark.parametrize("rows", [1, 1023, 1024, 2049, 5000, 9000])
def test_rows_of_one_vector_are_right(artifact: Path, rows: int) -> None:
    plan = load(artifact, target="host")
    x, own, place = torch.randn(rows, 8).bfloat16(), torch.randn(rows), torch.randint(8, (rows, 1))
    wide = x.double()
    v, m = torch.var_mean(wide, dim=1, correction=0)
    wanted = wide.amax(1), (wide * own.double()[:, None]).sum(1), v, m, wide.gather(1, place)
    for got, exact in zip(plan(x, own, place), wanted, strict=True):
        torch.testing.assert_close(got.double(), exact, rtol=1e-5, atol=1e-5)
