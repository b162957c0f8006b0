"""Files that are none, and homes that are none: refused or passed over, never waited for, never written to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import fusebuild
from fusebuild.definition.script import ImportedDefinition, written
from fusebuild.errors import ArtifactError, SourceLocation, UsageError
from fusebuild.recipe import load_recipe
from fusebuild.resources import cache_dir


def test_a_pipe_is_no_recipe(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "r.yaml")
    with pytest.raises(UsageError, match="it is no file"):
        load_recipe(tmp_path / "r.yaml")


def test_a_device_is_no_recipe() -> None:
    with pytest.raises(UsageError, match="it is no file"):
        load_recipe(Path("/dev/zero"))


@pytest.mark.parametrize("environ", [{}, {"HOME": ""}, {"HOME": "."}, {"HOME": "/dev/null"}, {"XDG_CACHE_HOME": "x"}])
def test_the_cache_is_never_in_the_folder_at_hand(environ: dict[str, str]) -> None:
    folder = cache_dir(environ)
    assert folder.is_absolute()
    assert Path.cwd() not in folder.parents
    assert Path("/dev/null") not in folder.parents


def test_loading_a_recipe_says_to_compile_it() -> None:
    with pytest.raises(
        ArtifactError, match=r"it is a recipe, not an artifact: compile it\n  hint: fusebuild compile x"
    ):
        fusebuild.load("x.yaml")


def test_importing_overwrites_only_when_told(tmp_path: Path) -> None:
    place = SourceLocation(path="s.py", line=1, column=1)
    recipe = ImportedDefinition(name="f", text="fusion: f\n", location=place)
    path = tmp_path / "f.yaml"
    path.write_text("mine\n")
    with pytest.raises(UsageError, match="would be overwritten"):
        written([recipe], Path("s.py"), path)
    assert path.read_text() == "mine\n"
    written([recipe], Path("s.py"), path, mode="w")
    assert path.read_text() == recipe.text
    written([recipe], Path("s.py"), path)
