"""Blocks that share a reduction and run together: which calls have such, and that none of them is left to others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from random import Random

import pytest

from fusebuild.artifact.plan import FormulaArg, as_formula
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import LaunchSpec, VariantSpec
from fusebuild.kernels.reduction import FAMILY
from fusebuild.target.table import TARGETS
from support.small_recipes import whole

X = {"x": "bfloat16[M, N]"}
ROWS = whole(X, "y = sum(x, dims=[1])", {"y": "float"})
COLUMNS = whole(X, "y = sum(x, dims=[0])", {"y": "float"})
MOMENTS = whole(X, "m, v, _ = welford(x, dims=[0])", {"m": "float", "v": "float"})


def launches(variants: Sequence[VariantSpec], sizes: Mapping[str, int]) -> Iterator[tuple[LaunchSpec, ...]]:
    """Those of each variant that aligned tensors of these sizes may take."""
    for variant in variants:
        if all(evaluate(test, sizes, lambda fid, size: True) for test in variant.guard):
            yield variant.launches


def clusters(task: Task, rows: int, columns: int, target: str = "sm_90") -> list[tuple[int, int, int]]:
    """The blocks that run together, those that share a reduction and those that finish it, in each variant that aligned
    tensors may take."""
    sizes, found = {"M": rows, "N": columns, MULTIPROCESSORS: 132}, []
    for first, *others in launches(FAMILY.schedule(task, TARGETS[target], sizes), sizes):
        told = [each.arg for each in first.kernel.parameters if each.name == "cluster"]
        cluster = evaluate(first.cluster, sizes)
        assert all(isinstance(arg, FormulaArg) and evaluate(as_formula(arg.formula), sizes) == cluster for arg in told)
        finishing = sum(evaluate(each.grid[0], sizes) for each in others)
        found.append((cluster, evaluate(first.grid[1], sizes), finishing))
    return found


@pytest.mark.parametrize(
    ("rows", "columns", "cluster"),
    [
        (1, 16384, 1),
        (1, 16385, 8),
        (19, 31232, 8),
        (64, 65536, 8),
        (32, 131072, 8),
        (64, 65537, 1),
        (65, 31232, 1),
        (1, 131073, 1),
    ],
)
def test_few_long_rows_have_a_cluster_each(rows: int, columns: int, cluster: int) -> None:
    assert clusters(ROWS, rows, columns)[0][0] == cluster


@pytest.mark.parametrize(
    ("rows", "columns", "cluster"),
    [(896, 1024, 8), (3584, 448, 8), (400, 600, 1), (1024, 200, 1), (1025, 200, 8), (40, 40000, 1), (65536, 4096, 1)],
)
def test_columns_of_few_rows_do(rows: int, columns: int, cluster: int) -> None:
    assert clusters(COLUMNS, rows, columns)[0][0] == cluster


@pytest.mark.parametrize("task", [ROWS, COLUMNS])
def test_a_cluster_is_all_blocks_that_share_a_reduction_and_none_finishes_it(task: Task) -> None:
    random = Random(7)
    for _ in range(300):
        rows, columns = (int(2 ** random.uniform(0, 17)) for _ in range(2))
        for cluster, splits, finishing in clusters(task, rows, columns):
            assert cluster in (1, 8)
            assert cluster == 1 or (splits, finishing) == (8, 0)
            assert cluster == 8 or (splits > 1) == (finishing > 0)


def test_neither_moments_nor_targets_without_clusters_have_any() -> None:
    for rows, columns in ((896, 1024), (3584, 448), (6592, 256)):
        assert {each[0] for each in clusters(MOMENTS, rows, columns)} == {1}
        assert {each[0] for each in clusters(COLUMNS, rows, columns, "sm_80")} == {1}


@pytest.mark.parametrize("threads", [32, 64, 128])
@pytest.mark.parametrize("unroll", [1, 2, 8])
def test_each_row_that_blocks_share_has_whole_blocks_however_small_those_are(threads: int, unroll: int) -> None:
    knobs = {"threads": threads, "unroll": unroll, "blocks": 8, "min_blocks": 1}
    ways = ("vec8_int32", "shifted_vec8_int32", "scalar_int64")
    variants, random = FAMILY.schedule(ROWS, TARGETS["sm_90"], {}, dict.fromkeys(ways, knobs)), Random(7)
    for _ in range(300):
        rows, columns = int(2 ** random.uniform(0, 8)), int(2 ** random.uniform(0, 13))
        sizes = {"M": rows, "N": columns, MULTIPROCESSORS: random.choice([1, 78, 132])}
        for first, *others in launches(variants, sizes):
            blocks, shares, _ = (evaluate(each, sizes) for each in first.grid)
            cluster = evaluate(first.cluster, sizes)
            assert cluster == 1 or (blocks, shares) == (rows, cluster)
            assert (sum(evaluate(each.grid[0], sizes) for each in others) > 0) == (cluster == 1 and shares > 1)
