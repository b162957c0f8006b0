"""How many bytes of its inputs a Fusion reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusebuild.ir.formula import evaluate, symbols
from fusebuild.kernels.common.spec import DEFAULT_EXTENT
from fusebuild.ops.footprint import read_bytes
from fusebuild.segmentation.cost import CostModel
from fusebuild.target.table import TARGETS
from support.covers import hbm_bytes
from support.places import FUSIONS, RECIPES
from support.sampled import sampled
from support.small_recipes import planned_file, whole

SIZES = {"V": 1000, "D": 64, "S": 8}


def bytes_read(inputs: dict[str, str], body: str, name: str) -> int:
    """Bytes of the input ``name``."""
    fusion = whole(inputs, body, {"y": "float"}).fusion
    fid = next(value.fid for value in fusion.tensor_inputs if value.name == name)
    return evaluate(read_bytes(fusion, fid), SIZES)


def test_a_table_counts_as_much_as_is_taken_of_it() -> None:
    inputs = {"table": "float[V, D]", "ids": "int64[S]"}
    assert bytes_read(inputs, "y = embedding(table, ids)", "table") == 4 * 8 * 64
    assert bytes_read(inputs, "y = embedding(table, ids)", "ids") == 8 * 8


def test_no_tensor_counts_more_than_once() -> None:
    inputs = {"table": "float[S, D]", "ids": "int64[V]"}
    assert bytes_read(inputs, "y = embedding(table, ids)", "table") == 4 * 8 * 64


def test_a_tensor_that_is_read_as_a_whole_too_counts_as_a_whole() -> None:
    inputs = {"table": "float[V, D]", "ids": "int64[S]"}
    body = "y = embedding(table, ids) + sum(table, dims=[0])"
    assert bytes_read(inputs, body, "table") == 4 * 1000 * 64


def test_parts_add_up() -> None:
    inputs = {"x": "float[V, 64]"}
    body = "y = slice(x, [0, 0], [V, 8]) + slice(x, [0, 8], [V, 16])"
    assert bytes_read(inputs, body, "x") == 2 * 4 * 1000 * 8


@pytest.mark.parametrize("path", sampled([*RECIPES, *FUSIONS], 9), ids=lambda path: path.stem)
def test_a_cut_costs_the_bytes_that_the_plan_says(path: Path) -> None:
    segmented = planned_file(path).segmented["sm_90"]
    costs = CostModel(segmented.fusion, TARGETS["sm_90"])
    sizes = dict(segmented.fusion.cases[0]) if segmented.fusion.cases else {}
    for each in segmented.segments:
        known = {name: sizes.get(name, DEFAULT_EXTENT) for name in symbols(each.hbm_bytes)}
        assert hbm_bytes(each.task, costs) == evaluate(each.hbm_bytes, known), each.id
