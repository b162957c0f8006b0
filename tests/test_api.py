"""Asking where the cuts are: no tensors, no torch, no GPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import fusebuild
from fusebuild.api import boundaries_of
from fusebuild.definition import DataType, FusionDefinition
from fusebuild.errors import RecipeError, UsageError
from fusebuild.ir.formula import evaluate
from fusebuild.pipeline import plan_recipe
from fusebuild.recipe.recipe import load_recipe
from fusebuild.report.inspection import Inspection
from fusebuild.target.table import TARGETS
from support.places import RECIPES, ROOT
from support.seed_003 import nvfuser_fusion_id1
from support.small_recipes import PAIR, SUM_THEN_ADD, TINY, recipe_of, text_of

VIEWED = text_of(
    {"x": "float[M, N]"},
    "a = sum(x, dims=[1])\nv = segment_set(broadcast(a, is_broadcast_dim=[False, True]))\ny = segment_set(v) + x",
    {"y": "float"},
)


def test_seed_000() -> None:
    (found,) = fusebuild.boundaries(recipe_of(SUM_THEN_ADD).fusion)
    assert found == fusebuild.Boundary(
        fid=2,
        name="t2",
        dtype="float",
        shape=(2, 1),
        bytes=8,
        producer=0,
        consumers=(1,),  # type: ignore[arg-type]
    )
    assert str(found) == "%2 t2: float[2, 1]  8 bytes, segment 0 -> 1"


def test_sizes_stay_symbols() -> None:
    body = "t = sum(x, dims=[1])\ny = segment_set(t) * 2.0\nz = segment_set(t) + 1.0"
    text = text_of({"x": "bfloat16[M, N]"}, body, {"y": "float", "z": "float"})
    found = fusebuild.boundaries(recipe_of(text).fusion)
    assert {each.shape for each in found} == {("M",)}
    assert {each.bytes for each in found} == {("mul", 4, "M")}
    assert evaluate(found[0].bytes, {"M": 3}) == 12


def test_one_segment_has_no_boundaries() -> None:
    assert fusebuild.boundaries(recipe_of(TINY).fusion) == ()


def test_a_view_says_whose_memory_it_shares() -> None:
    owner, view = fusebuild.boundaries(recipe_of(VIEWED).fusion)
    assert (owner.view_of, view.view_of) == (None, owner.fid)
    assert (owner.consumers, view.producer) == ((1,), 1)


def test_a_recipe_is_named_by_its_path(tmp_path: Path) -> None:
    path = tmp_path / "pair.yaml"
    path.write_text(PAIR)
    want = fusebuild.boundaries(recipe_of(PAIR).fusion)
    assert len(want) == 1
    assert fusebuild.boundaries(path) == want == fusebuild.boundaries(str(path))


def test_a_definition_is_asked_in_its_own_fids() -> None:
    with FusionDefinition() as fd:
        fd.define_scalar(1.0)  # takes a fid
        t1, t2 = (fd.define_tensor([-1, -1], contiguity=True, dtype=DataType.Float) for _ in range(2))
        total = fd.ops.sum(t1, dims=[1], keepdim=True)
        fd.add_output(fd.ops.add(t2, total))
    (found,) = fusebuild.boundaries(fd)
    assert (found.fid, found.shape) == (total.index, ("i0", 1))


def test_seed_003_is_asked_without_tensors() -> None:
    with FusionDefinition() as fd:
        nvfuser_fusion_id1(fd)
    fd.segment(target="sm_90")
    written = {fids[fid] for segment, fids in fd.segment_index_space_maps.items() for fid in segment.outputs()}
    read = {fids[fid] for segment, fids in fd.segment_index_space_maps.items() for fid in segment.inputs()}
    assert {each.fid for each in fusebuild.boundaries(fd)} == written & read


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_what_inspect_reports(path: Path) -> None:
    recipe = load_recipe(path)
    planned = plan_recipe(recipe, [TARGETS["sm_90"]])
    report = Inspection(plan=planned.plan, target="sm_90", sizes=recipe.fusion.cases[0]).report
    found = boundaries_of(planned.segmented["sm_90"])
    assert [(each.fid, each.dtype, evaluate(each.bytes, recipe.fusion.cases[0])) for each in found] == [
        (row.fid, row.dtype, row.bytes) for row in report.boundaries
    ]
    for each in found:
        assert each.fid in report.segments[each.producer].outputs
        assert each.consumers
        assert all(each.fid in report.segments[reader].inputs for reader in each.consumers)


@pytest.mark.parametrize(
    ("source", "target", "kind", "message"),
    [
        (recipe_of(TINY).fusion, "sm_91", UsageError, "unknown target 'sm_91'"),
        (3, "sm_90", UsageError, "expected a Fusion, a FusionDefinition or a recipe's path, got int"),
        ("nowhere.yaml", "sm_90", UsageError, "cannot read nowhere.yaml: No such file or directory"),
        (ROOT / "tests/recipe/bad/01_duplicate_key.yaml", "sm_90", RecipeError, "01_duplicate_key.yaml:"),
    ],
)
def test_what_cannot_be_asked(source: Any, target: str, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        fusebuild.boundaries(source, target)
    assert message in str(caught.value)


def test_asking_imports_no_torch() -> None:
    script = (
        "import fusebuild, sys\n"
        "assert 'fusebuild.api' not in sys.modules\n"
        "fusebuild.boundaries('recipes/softmax.yaml')\n"
        "print(sorted({'torch', 'tvm_ffi'} & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
