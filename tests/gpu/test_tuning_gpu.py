"""Tuning on a real device: `pytest -m gpu`, with a GPU and nvcc. Nothing asserts on how long anything took."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusebuild.artifact.file import open_artifact
from fusebuild.oracle.verification import VerifyOptions, verify_artifact
from fusebuild.pipeline import compile_recipes
from fusebuild.planning.tuned import read_tuned
from fusebuild.recipe.files import tuned_path
from fusebuild.tuning.place import find_place
from fusebuild.tuning.tune import tune_recipes
from support.places import ROOT
from support.small_recipes import text_of

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]
SMALL = {
    "softmax": text_of(
        {"x": "bfloat16[M, N]"},
        "e = exp(x - max(x, dims=[1], keepdim=True))\ny = e / sum(e, dims=[1], keepdim=True)",
        {"y": "bfloat16"}, name="softmax", cases="M: 1024, N: 4096",
    ),
    "in_place": text_of(
        {"x": "float[M, N]"}, "y = x * 0.5", {"y": "{dtype: float, alias: x}"}, name="in_place", cases="M: 512, N: 768"
    ),
    "column_sum": text_of(
        {"x": "bfloat16[M, N]"}, "y = sum(cast(x, float), dims=[0])", {"y": "float"}, name="column_sum",
        cases="M: 4096, N: 512",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [*SMALL, "transpose_add", "layernorm_backward", "mlp"])
def test_every_kernel_is_tuned_and_what_won_is_right(compilers: None, tmp_path: Path, name: str) -> None:
    recipe = tmp_path / f"{name}.yaml"
    recipe.write_text(SMALL[name] if name in SMALL else (ROOT / "recipes" / f"{name}.yaml").read_text())
    place = find_place(None)
    report = tune_recipes([recipe], out=tmp_path / "build", budget=4, place=place)
    assert report.kernels
    assert all(row.tried + len(row.refused) >= 1 for row in report.kernels)
    assert all(row.heuristic_milliseconds >= row.milliseconds > 0 for row in report.kernels)
    compile_recipes([recipe], [place.target], tmp_path / "build")
    artifact = open_artifact(tmp_path / "build" / f"{name}.fuse")
    tuned = read_tuned(tuned_path(recipe), name)
    segments = artifact.plan.targets[0].segments
    used = [variant.tuned for each in segments for variant in each.variants if isinstance(variant.tuned, dict)]
    for entry in tuned.entries if tuned is not None else ():
        assert entry.knobs in used
    verdicts = list(verify_artifact(artifact.path, target=place.target.name, options=VerifyOptions(max_elements=2**24)))
    assert verdicts
    assert all(verdict.ok for verdict in verdicts)
