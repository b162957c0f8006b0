"""Files that are none, and homes that are none: refused or passed over, never waited for, never written to."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import chdir
from pathlib import Path

import pytest

import fusebuild
from fusebuild.build.object_store import ObjectStore
from fusebuild.definition.script import ImportedDefinition, import_script, written
from fusebuild.errors import ArtifactError, SourceLocation, TunedError, UsageError
from fusebuild.freshness.check import check_recipes
from fusebuild.freshness.incremental import compile_changed
from fusebuild.recipe.files import tuned_path
from fusebuild.recipe.recipe import load_recipe
from fusebuild.report.inspection import inspections_of
from fusebuild.system import resources
from fusebuild.system.resources import cache_dir, templates_dir
from fusebuild.target.table import TARGETS
from support.faults import fusebuild as run_fusebuild
from support.host_artifacts import require_toolchain
from support.places import ROOT
from support.small_recipes import TINY

HOST = TARGETS["host"]


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


def test_comparing_with_a_recipe_says_to_compile_it(tmp_path: Path) -> None:
    recipe = tmp_path / "x.yaml"
    recipe.write_text("fusion: x\n")
    with chdir(tmp_path):
        done = run_fusebuild("diff", "x.yaml", "x.yaml")
    words = "error: x.yaml: it is a recipe, not an artifact: compile it\n  hint: fusebuild compile x.yaml\n"
    assert (done.code, done.err) == (4, words)


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


@pytest.fixture
def built(tmp_path: Path) -> tuple[Path, Path]:
    """A recipe, and a folder where it was compiled for the host."""
    recipe, out = tmp_path / "tiny.yaml", tmp_path / "build"
    recipe.write_text(TINY)
    require_toolchain("host")
    compile_changed([recipe], [HOST], out)
    return recipe, out


def put_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize("make", [put_pipe, Path.mkdir, lambda path: path.symlink_to("/dev/zero"),
                                  lambda path: path.symlink_to("nowhere")])  # fmt: skip
def test_what_is_no_file_is_no_tuned_file(built: tuple[Path, Path], make: Callable[[Path], object]) -> None:
    recipe, out = built
    make(tuned_path(recipe))
    for refused in (
        lambda: compile_changed([recipe], [HOST], out),
        lambda: check_recipes([recipe], out),
        lambda: inspections_of(recipe, [HOST], None),
    ):
        with pytest.raises(TunedError, match=r"^\S*tiny.tuned.json:1:1: error: it cannot be read: "):
            refused()


@pytest.mark.parametrize("name", ["tiny.fuse", "SHA256SUMS", ".fusebuild/record.json"])
def test_a_pipe_among_what_was_built_is_waited_for_by_nobody(built: tuple[Path, Path], name: str) -> None:
    recipe, out = built
    artifact, sums = (out / "tiny.fuse").read_bytes(), (out / "SHA256SUMS").read_bytes()
    put_pipe(out / name)
    check_recipes([recipe], out)
    compile_changed([recipe], [HOST], out)
    assert (artifact, sums) == ((out / "tiny.fuse").read_bytes(), (out / "SHA256SUMS").read_bytes())
    (verdict,) = check_recipes([recipe], out)
    assert not verdict.why


def test_a_pipe_among_stored_objects_is_none(tmp_path: Path) -> None:
    put_pipe(tmp_path / "x")
    assert ObjectStore(root=tmp_path).get("x") is None


def test_a_pipe_is_no_script_and_no_recipe_to_write(tmp_path: Path) -> None:
    put_pipe(tmp_path / "f.yaml")
    with pytest.raises(UsageError, match="it is no file"):
        import_script(tmp_path / "f.yaml")
    place = SourceLocation(path="s.py", line=1, column=1)
    with pytest.raises(UsageError, match="would be overwritten"):
        written([ImportedDefinition(name="f", text="", location=place)], Path("s.py"), tmp_path / "f.yaml")


FUTURE = 4102444800
"""The year 2100."""


def test_dates_do_not_decide_what_is_compiled(empty_store: Path, built: tuple[Path, Path]) -> None:
    """One by one the recipe, the artifact, what lies beside it, and the objects are of the future."""
    recipe, out = built
    files = [recipe, *(path for folder in (out, empty_store / "objects") for path in folder.rglob("*"))]
    assert {".yaml", ".fuse", ".cu", ".cuh"} <= {path.suffix for path in files}
    for path in files:
        os.utime(path, (FUTURE, FUTURE))
        for _ in range(2):
            done = compile_changed([recipe], [HOST], out)
            assert (done.compiled, done.recipes[0].artifact.written) == (0, False)
    (out / "tiny.fuse").unlink()
    done = compile_changed([recipe], [HOST], out)
    assert (done.compiled, done.recipes[0].artifact.written) == (0, True)
    recipe.write_text(TINY.replace("2.0", "3.0"))
    os.utime(recipe, (FUTURE, FUTURE))
    assert compile_changed([recipe], [HOST], out).compiled > 0
    assert compile_changed([recipe], [HOST], out).compiled == 0


def test_headers_and_templates_of_the_future_are_compiled_once(
    empty_store: Path, built: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, out = built
    root = tmp_path / "data"
    shutil.copytree(templates_dir(), root / "templates")
    monkeypatch.setattr(resources, "data_root", lambda: root)
    shutil.copyfile(ROOT / "build.ninja.in", root / "build.ninja.in")
    header = root / "templates" / "include" / "fusebuild" / "kernel.cuh"
    header.write_text(header.read_text() + "\n// newer\n")
    for path in root.rglob("*"):
        os.utime(path, (FUTURE, FUTURE))
    assert compile_changed([recipe], [HOST], out).compiled > 0
    for _ in range(3):
        assert compile_changed([recipe], [HOST], out).compiled == 0
