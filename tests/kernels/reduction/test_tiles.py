"""How many short rows a thread takes one after another."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusebuild.ir.formula import evaluate
from fusebuild.kernels.reduction.tiles import rows_of_thread
from fusebuild.oracle.verification import VerifyOptions, verify_artifact
from support.host_artifacts import compile_for_host
from support.small_recipes import text_of


def turns(rows: int, columns: int) -> int:
    formula = rows_of_thread("M", "N", 64, 1000)
    return int(evaluate(formula, {"M": rows, "N": columns}))


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (0, 3, 1),
        (999, 1, 1),
        (1000, 7, 1),
        (1001, 7, 2),  # all blocks run at a time
        (2000, 7, 2),
        (8000, 7, 8),
        (10**6, 7, 8),
        (10**6, 8, 4),
        (10**6, 16, 4),
        (10**6, 17, 3),
        (10**6, 65, 1),
        (10**6, 256, 1),
    ],
)
def test_a_thread_has_as_many_as_there_are_for_it_and_its_block_has_room_for(
    rows: int, columns: int, expected: int
) -> None:
    assert turns(rows, columns) == expected


@pytest.mark.parametrize("columns", [1, 3, 7, 9, 20])
def test_the_last_blocks_are_nearly_as_many_as_run_at_a_time(columns: int) -> None:
    most = turns(10**6, columns)
    for rows in range(1000 * most, 60_000, 617):
        own = turns(rows, columns)
        times = -(-rows // (1000 * most))
        assert own <= most
        assert own * times * 1000 >= rows  # no more times than with the most
        assert (own - 1) * times * 1000 < rows  # and no more rows than that takes


def test_random_numbers_of_rows_in_a_tile_are_those_of_their_places(tmp_path: Path) -> None:
    """Rows of a tile begin anywhere, and compilers must not be told that their vectors begin at multiples of four."""
    text = text_of(
        {"x": "bfloat16[M, N]"},
        "u = uniform(0.0, 1.0, [M, N], seed)\ny = sum(x * u, dims=[1])\nat = argmax(u, dim=1)",
        {"y": "float", "at": "int64"},
        scalars={"seed": "int64"},
        cases="M: 37, N: 30",
    )
    folder = compile_for_host(tmp_path, {"test": text})
    cases = tuple(
        {"M": rows, "N": columns} for rows, columns in ((37, 30), (9, 3), (5, 7), (12, 33), (3, 254), (40, 1))
    )
    verdicts = list(verify_artifact(folder / "test.fuse", target="host", options=VerifyOptions(cases=cases)))
    assert len(verdicts) > len(cases)
    assert [verdict for verdict in verdicts if not verdict.ok] == []
