"""How many threads share a row of a reduction."""

from __future__ import annotations

import pytest

from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.kernels.reduction.row_threads import (
    FEW_ELEMENTS,
    MANY_ROWS,
    per_row,
    row_shift,
    rungs_of_vectors,
    scaled_to_few,
)

BLOCK, VEC = 128, 8


def threads_of(rows: int, columns: int, multiprocessors: int = 132) -> int:
    sizes = {"M": rows, "N": columns, MULTIPROCESSORS: multiprocessors}
    rungs, length = rungs_of_vectors(VEC, BLOCK, ("ge", "M", MANY_ROWS)), scaled_to_few("M", "N")
    threads = evaluate(per_row(length, rungs), sizes)
    assert threads == 1 << evaluate(row_shift(length, rungs), sizes)
    return threads


@pytest.mark.parametrize(
    ("rows", "columns", "threads"),
    [(1, 1, 1), (1280, 64, 8), (192, 384, 32), (600, 307, 32), (25, 2781, 128), (31, 3145, 128), (1, 30000, 128)],
)
def test_few_elements_have_a_thread_for_each_vector_or_two(rows: int, columns: int, threads: int) -> None:
    assert threads_of(rows, columns) == threads


@pytest.mark.parametrize(
    ("rows", "columns", "threads"), [(100000, 64, 2), (20000, 384, 8), (1536, 320, 8), (5013, 275, 8), (9399, 2311, 64)]
)
def test_threads_of_many_rows_have_several_vectors(rows: int, columns: int, threads: int) -> None:
    assert threads_of(rows, columns) == threads


def test_few_are_so_for_each_multiprocessor() -> None:
    rows = 132 * FEW_ELEMENTS // 512
    assert threads_of(rows, 512) == threads_of(1, 512) == 32
    assert threads_of(rows + 1, 512) == threads_of(rows, 512, multiprocessors=131) == 8
