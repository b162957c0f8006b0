"""``fusebuild.compile``: from a recipe or a definition to a plan that can be called, by way of the user's cache."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import fusebuild
import fusebuild.freshness.cached
import fusebuild.runtime.loader
from fusebuild.definition import DataType, FusionDefinition
from fusebuild.errors import RecipeError, ToolchainError, UsageError
from support.host_artifacts import require_toolchain
from support.small_recipes import TINY

torch = pytest.importorskip("torch")

X = torch.arange(15.0).view(3, 5)


@pytest.fixture
def recipe(tmp_path: Path, empty_store: Path) -> Path:
    """A recipe that doubles a float[3, 5], and a cache without objects."""
    require_toolchain("host")
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return path


def without_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_none(*_: object, **__: object) -> None:
        raise ToolchainError("there is no compiler")

    monkeypatch.setattr(fusebuild.freshness.cached, "find_toolchain", find_none)


def test_a_recipe_is_compiled_and_called(recipe: Path) -> None:
    plan = fusebuild.compile(recipe, target="host")
    assert torch.equal(plan(X), X * 2)
    assert torch.equal(fusebuild.compile(os.fspath(recipe), target="host")(X), X * 2)


def test_what_is_in_the_cache_needs_no_compiler(recipe: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fusebuild.compile(recipe, target="host")
    without_compilers(monkeypatch)
    assert torch.equal(fusebuild.compile(recipe, target="host")(X), X * 2)
    recipe.write_text(TINY.replace("x * 2.0", "x * 3.0"))
    with pytest.raises(ToolchainError, match="there is no compiler"):
        fusebuild.compile(recipe, target="host")


def test_a_recipe_that_changed_is_compiled_again(recipe: Path) -> None:
    before = fusebuild.compile(recipe, target="host")
    recipe.write_text(TINY.replace("x * 2.0", "x * 3.0"))
    assert torch.equal(fusebuild.compile(recipe, target="host")(X), X * 3)
    assert torch.equal(before(X), X * 2)


def test_a_damaged_artifact_in_the_cache_is_written_anew(recipe: Path, tmp_path: Path) -> None:
    fusebuild.compile(recipe, target="host")
    (artifact,) = (tmp_path / "cache").rglob("*.fuse")
    whole = artifact.read_bytes()
    artifact.write_bytes(whole[:-100])
    assert torch.equal(fusebuild.compile(recipe, target="host")(X), X * 2)
    assert artifact.read_bytes() == whole


def test_a_definition_is_compiled_and_called(recipe: Path) -> None:
    with FusionDefinition() as definition:
        x = definition.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
        definition.add_output(definition.ops.mul(x, definition.define_scalar(2.0)))
    made: Any = fusebuild.compile(definition, target="host")(X)
    assert torch.equal(made, X * 2)


def test_errors_are_those_of_the_command_line(recipe: Path, tmp_path: Path) -> None:
    recipe.write_text(TINY.replace("x * 2.0", "x * z"))
    with pytest.raises(RecipeError, match="z"):
        fusebuild.compile(recipe, target="host")
    with pytest.raises(UsageError, match="unknown target 'sm_1'"):
        fusebuild.compile(recipe, target="sm_1")
    with pytest.raises(UsageError, match="expected a Fusion, a FusionDefinition or a recipe's path, got int"):
        fusebuild.compile(3, target="host")  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        fusebuild.compile(tmp_path, target="host")
    assert str(caught.value) == f"{tmp_path} is a folder: expected the path of a recipe"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_the_target_has_to_be_named(recipe: Path) -> None:
    with pytest.raises(UsageError, match=r"no GPU to compile for \(.*\); target='host' compiles for the CPU"):
        fusebuild.compile(recipe)


def test_what_is_no_source_is_said_before_there_has_to_be_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_none() -> None:
        raise RuntimeError("there is none")

    monkeypatch.setattr(fusebuild.runtime.loader, "current_capability", find_none)
    missing = tmp_path / "nope.yaml"
    with pytest.raises(UsageError) as caught:
        fusebuild.compile(missing)
    assert str(caught.value) == f"cannot read {missing.as_posix()}: No such file or directory"
    with pytest.raises(UsageError) as caught:
        fusebuild.compile(3)  # type: ignore[arg-type]
    assert str(caught.value) == "expected a Fusion, a FusionDefinition or a recipe's path, got int"
