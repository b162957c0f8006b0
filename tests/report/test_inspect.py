"""Inspection: the report's exact shape for programs, and its text for people."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fusebuild.artifact.file import open_artifact
from fusebuild.artifact.json_types import json_value
from fusebuild.artifact.plan import PlanValue
from fusebuild.pipeline import compile_recipes, plan_recipe
from fusebuild.recipe.recipe import Recipe, load_recipe
from fusebuild.report.inspection import Inspection, stored_bytes
from fusebuild.target.table import TARGETS
from support.golden import Golden
from support.places import GOLDEN, ROOT
from support.small_recipes import SUM_THEN_ADD, TINY, recipe_of, text_of

SM_90, HOST = TARGETS["sm_90"], TARGETS["host"]
REPORT_KEYS = ["fusion", "target", "case", "segments", "boundaries", "kernels", "hbm_bytes", "hbm_bytes_formula"]
SEGMENT_KEYS = ["id", "scheduler", "fid_map", "inputs", "outputs", "rematerialized", "kernels", "variants", "takes",
                "hbm_bytes", "hbm_bytes_formula", "why"]  # fmt: skip
BOUNDARY_KEYS = ["fid", "name", "dtype", "shape", "bytes", "bytes_formula"]


def inspect(recipe: Recipe, target: str = "sm_90") -> Inspection:
    plan = plan_recipe(recipe, [TARGETS[target]]).plan
    return Inspection(plan=plan, target=target, sizes=recipe.fusion.cases[0] if recipe.fusion.cases else None)


def report(recipe: Recipe) -> dict[str, Any]:
    """The report as a program reads it."""
    found: dict[str, Any] = json.loads(json.dumps(json_value(inspect(recipe).report), allow_nan=False))
    return found


def shipped(name: str) -> Recipe:
    return load_recipe(ROOT / "recipes" / f"{name}.yaml")


class TestSeed000:
    def test_the_whole_report(self) -> None:
        found = report(shipped("reduction_pointwise_epilogue"))
        kernels = [segment.pop("kernels") for segment in found["segments"]]
        launched = [[variant.pop("kernels") for variant in segment["variants"]] for segment in found["segments"]]
        assert launched == [[[name] for name in names] for names in kernels]
        assert [len(names) for names in kernels] == [2, 2]
        taken = [segment["takes"]["launches"][0].pop("kernel") for segment in found["segments"]]
        assert taken == [names[0] for names in kernels]
        assert all(name.startswith(family) for names, family in zip(kernels, ("reduction_inner", "pointwise"),
                                                                    strict=True) for name in names)  # fmt: skip
        place = "(reduction_pointwise_epilogue.yaml:9)"
        other_dims = f"the task iterates over dims that the reduction t2_sum does not have {place}"
        assert found == {
            "fusion": "reduction_pointwise_epilogue",
            "target": "sm_90",
            "case": {},
            "segments": [
                {
                    "id": 0,
                    "scheduler": "reduction",
                    "fid_map": {"0": 0, "2": 2},
                    "inputs": [0],
                    "outputs": [2],
                    "rematerialized": [],
                    "variants": [
                        {"name": "vec4_int32", "guard": ["aligned(0, 16)"]},
                        {"name": "scalar_int32", "guard": []},
                    ],
                    "takes": {
                        "number": 0,
                        "name": "vec4_int32",
                        "launches": [{"grid": [1, 1, 1], "block": [128, 1, 1], "shared_bytes": 0}],
                    },
                    "hbm_bytes": 264,
                    "hbm_bytes_formula": "264",
                    "why": [],
                },
                {
                    "id": 1,
                    "scheduler": "pointwise",
                    "fid_map": {"0": 1, "1": 2, "2": 3},
                    "inputs": [1, 2],
                    "outputs": [3],
                    "rematerialized": [],
                    "variants": [
                        {"name": "vec4_int32", "guard": ["aligned(1, 16)", "aligned(3, 16)"]},
                        {"name": "scalar_int32", "guard": []},
                    ],
                    "takes": {
                        "number": 0,
                        "name": "vec4_int32",
                        "launches": [{"grid": [1, 1, 1], "block": [64, 1, 1], "shared_bytes": 0}],
                    },
                    "hbm_bytes": 2056,
                    "hbm_bytes_formula": "2056",
                    "why": [
                        f"cut from segment 0: pointwise: sum is a reduction {place}; reduction: {other_dims}; "
                        f"inner_persistent: {other_dims}; outer_persistent: {other_dims}; "
                        f"inner_outer_persistent: no reduction runs over outer dims alone {place}"
                    ],
                },
            ],
            "boundaries": [
                {"fid": 2, "name": "t2", "dtype": "float", "shape": ["2", "1"], "bytes": 8, "bytes_formula": "8"}
            ],
            "kernels": 4,
            "hbm_bytes": 2320,
            "hbm_bytes_formula": "2320",
        }


class TestAdalnBackward:
    def test_keys(self) -> None:
        found = report(shipped("adaln_backward"))
        assert list(found) == REPORT_KEYS
        assert [list(segment) for segment in found["segments"]] == [SEGMENT_KEYS] * len(found["segments"])
        assert [list(boundary) for boundary in found["boundaries"]] == [BOUNDARY_KEYS] * len(found["boundaries"])

    def test_segments_are_in_run_order(self) -> None:
        found = report(shipped("adaln_backward"))
        assert [segment["id"] for segment in found["segments"]] == list(range(len(found["segments"])))
        ready = set(range(7))
        for segment in found["segments"]:
            assert {*segment["inputs"]} <= ready
            ready |= {*segment["outputs"]}

    def test_bytes_add_up(self) -> None:
        found = report(shipped("adaln_backward"))
        assert found["hbm_bytes"] == sum(segment["hbm_bytes"] for segment in found["segments"])
        sizes = found["case"]
        assert sizes == {"B": 56, "S": 1024, "D": 1024}
        for part in (*found["segments"], found):
            assert eval(part["hbm_bytes_formula"], {"__builtins__": {}}, dict(sizes)) == part["hbm_bytes"]
        for boundary in found["boundaries"]:
            assert eval(boundary["bytes_formula"], {"__builtins__": {}}, dict(sizes)) == boundary["bytes"]

    def test_the_total_is_one_flat_sum(self) -> None:
        assert "(" not in report(shipped("adaln_backward"))["hbm_bytes_formula"]

    def test_every_boundary_is_written_once_and_read(self) -> None:
        found = report(shipped("adaln_backward"))
        for boundary in found["boundaries"]:
            writers = [segment["id"] for segment in found["segments"] if boundary["fid"] in segment["outputs"]]
            readers = [segment["id"] for segment in found["segments"] if boundary["fid"] in segment["inputs"]]
            assert len(writers) == 1
            assert readers
            assert min(readers) > writers[0]

    def test_text(self, golden: Golden) -> None:
        path = GOLDEN / "inspect" / "adaln_backward.txt"
        golden(path, inspect(shipped("adaln_backward")).as_text())


class TestText:
    def test_of_one_segment(self) -> None:
        assert inspect(recipe_of(TINY)).as_text() == (
            "tiny on sm_90 (no case)\n"
            "segment 0: pointwise  120 bytes\n"
            "  reads   %0 x\n"
            "  writes  %2 y\n"
            "  fid map {0: 0, 2: 2}\n"
            "  variant scalar_int32: always\n"
            "no boundaries: one segment computes everything\n"
            "kernels  1\n"
            "total  120 bytes\n"
        )

    def test_without_a_case_sizes_stay_formulas(self) -> None:
        found = inspect(recipe_of(text_of({"x": "float[M, N]"}, "y = -x", {"y": "float"})))
        assert found.report.case is None
        assert found.report.hbm_bytes is None
        assert found.report.hbm_bytes_formula == "8*M*N"
        assert found.as_text().endswith("\ntotal  8*M*N bytes\n")

    def test_a_case_without_symbols(self) -> None:
        text = inspect(shipped("reduction_pointwise_epilogue")).as_text()
        assert text.startswith("reduction_pointwise_epilogue on sm_90 (constant sizes)\n")
        assert "\nboundaries\n  %2 t2: float[2, 1]  8 bytes\nkernels  4\ntotal  2,320 bytes\n" in text


def test_broadcast_dims_count_once() -> None:
    value = PlanValue(fid=0, name="w", kind="tensor", dtype="bfloat16", shape=("B", "S", "D"), strides=(0, 0, 1))
    assert stored_bytes(value) == ("mul", 2, "D")


def test_an_artifact_says_what_its_recipe_says(compilers: None, tmp_path: Path) -> None:
    path = tmp_path / "sum_then_add.yaml"
    path.write_text(SUM_THEN_ADD)
    compile_recipes([path], [HOST], tmp_path, jobs=2)
    artifact = open_artifact(tmp_path / "sum_then_add.fuse")
    from_recipe = inspect(load_recipe(path), "host")
    from_artifact = Inspection(plan=artifact.plan, target="host", sizes=None)
    assert from_artifact.report == from_recipe.report
    assert from_artifact.as_text() == from_recipe.as_text()


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_can_be_seen(target: str) -> None:
    assert inspect(shipped("layernorm"), target).as_text().startswith(f"layernorm on {target} (M=16384, N=4096)\n")
