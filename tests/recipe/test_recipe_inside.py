"""The recipe inside of an artifact is of the same fusion as the plan: whoever reads it is told where it is not."""

from __future__ import annotations

from contextlib import chdir
from pathlib import Path

import pytest

from fusebuild.pipeline import plan_recipe
from fusebuild.recipe.inside import differences
from fusebuild.recipe.recipe import load_recipe
from fusebuild.target.table import TARGETS
from support.faults import fusebuild
from support.host_artifacts import compile_for_host, with_recipe
from support.places import RECIPES
from support.small_recipes import text_of

pytest.importorskip("torch")

BODY, OUTPUTS = "y = x * near + s", {"y": "float"}
INPUTS = {"x": "float[M, N]", "near": "float[N]"}


def text(
    inputs: dict[str, str] = INPUTS, body: str = BODY, outputs: dict[str, str] = OUTPUTS, name: str = "own"
) -> str:
    return text_of(inputs, body, outputs, name=name, scalars={"s": "float"}, cases="M: 3, N: 40")


OTHERS = {
    text(name="other"): "the fusion is other, and own in plan.json",
    text({"x": "float[M, N]"}, "y = x + s"):
        "input 1 is s: float, and near: float[N] with strides [1] in plan.json",
    text(INPUTS | {"more": "float[N]"}, f"{BODY} + more"):
        "input 2 is more: float[N] with strides [1], and s: float in plan.json",
    text({"x": "half[M, N]", "near": "float[N]"}):
        "input 0 is x: half[M, N] with strides [N, 1], and x: float[M, N] with strides [N, 1] in plan.json",
    text({"x": "float[M, N]", "near": "float[M, N]"}):
        "input 1 is near: float[M, N] with strides [N, 1], and near: float[N] with strides [1] in plan.json",
    text(body="y = x * near + s\nz = x * s", outputs={"y": "float", "z": "float"}):
        "output 1 is z: float of rank 2, and none in plan.json",
    text(body="z = x * near + s", outputs={"z": "float"}):
        "output 0 is z: float of rank 2, and y: float of rank 2 in plan.json",
    text(body="y = cast(x * near + s, half)", outputs={"y": "half"}):
        "output 0 is y: half of rank 2, and y: float of rank 2 in plan.json",
    text(body="y = sum(x * near + s, dims=[1])"):
        "output 0 is y: float of rank 1, and y: float of rank 2 in plan.json",
    text(outputs={"y": "{dtype: float, alias: x}"}):
        "output 0 is y: float of rank 2 in the memory of x, and y: float of rank 2 in plan.json",
}  # fmt: skip
"""Recipes that are not those of the plan, and what is said of them."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(tmp_path_factory.mktemp("inside"), {"own": text()}) / "own.fuse"


VERBS = (
    ("verify", "sub/own.fuse", "--target", "host"),
    ("inspect", "sub/own.fuse"),
    ("diff", "own.fuse", "sub/own.fuse"),
)


@pytest.mark.parametrize("recipe", OTHERS)
@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_another_recipe_is_refused(recipe: str, verb: tuple[str, ...], built: Path, tmp_path: Path) -> None:
    (tmp_path / "own.fuse").write_bytes(built.read_bytes())
    with_recipe(built, tmp_path / "sub" / "own.fuse", recipe.encode())
    with chdir(tmp_path):
        done = fusebuild(*verb)
    assert (done.code, done.err) == (4, f"error: sub/own.fuse: recipe.yaml: {OTHERS[recipe]}\n")


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_what_is_no_recipe_is_refused(verb: tuple[str, ...], built: Path, tmp_path: Path) -> None:
    (tmp_path / "own.fuse").write_bytes(built.read_bytes())
    with chdir(tmp_path):
        for recipe in (b"fusion: own\n", b"fusion: [\n", b""):
            with_recipe(built, tmp_path / "sub" / "own.fuse", recipe)
            done = fusebuild(*verb)
            assert done.code == 4
            assert done.err.startswith("error: sub/own.fuse: recipe.yaml: it is no recipe\nsub/own.fuse/recipe.yaml:")


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_recipe_is_that_of_its_plan(path: Path) -> None:
    recipe = load_recipe(path)
    assert list(differences(plan_recipe(recipe, [TARGETS["sm_90"]]).plan, recipe.fusion)) == []


def test_what_is_compiled_of_a_definition_can_be_verified(empty_store: Path) -> None:
    torch = pytest.importorskip("torch")
    from fusebuild import FusionDefinition

    with FusionDefinition() as fd:
        s = fd.define_scalar(None)
        x = fd.define_tensor(shape=[-1, -1], contiguity=[True, False])
        fd.add_output(fd.ops.mul(fd.ops.sum(x, dims=[1]), s))
    fd.execute([2.0, torch.ones(3, 4)])
    (path,) = empty_store.parent.rglob("*.fuse")
    done = fusebuild("inspect", path)
    assert (done.code, done.err) == (0, "")
