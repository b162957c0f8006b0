"""``fusebuild compile --keep-going``: good recipes are built beside bad ones, and all that is wrong is said."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from fusebuild.cli.main import cli
from fusebuild.errors import ArtifactWriteError, CompileError, FusebuildError, NoRoomError
from fusebuild.freshness.incremental import Compilation
from fusebuild.freshness.keep_going import compile_what_can_be
from support.small_recipes import PAIR, TINY

BAD = "fusion: bad\ninputs:\n  x: float[N]\nbody: |\n  y = rsqr(x)\noutputs:\n  y: float\n"


@pytest.fixture
def recipes(tmp_path: Path) -> Path:
    folder = tmp_path / "recipes"
    folder.mkdir()
    (folder / "pair.yaml").write_text(PAIR)
    (folder / "bad.yaml").write_text(BAD)
    (folder / "worse.yaml").write_text("fusion: [")
    return folder


def compiled(recipes: Path, *options: str) -> Result:
    out = str(recipes.parent / "build")
    return CliRunner().invoke(cli, ["compile", str(recipes), "-o", out, "--arch", "host", *options])


def test_the_good_ones_are_built_and_the_bad_ones_named(compilers: None, recipes: Path) -> None:
    result = compiled(recipes, "--keep-going")
    assert result.exit_code == 2
    assert [path.name for path in (recipes.parent / "build").glob("*.fuse")] == ["pair.fuse"]
    assert "bad.yaml:5:7: error: unknown op 'rsqr'" in result.stderr
    assert "worse.yaml:1:" in result.stderr


def test_json_has_both(compilers: None, recipes: Path) -> None:
    result = compiled(recipes, "-k", "--json")
    report = json.loads(result.stdout)
    assert result.exit_code == 2
    assert [each["fusion"] for each in report["artifacts"]] == ["pair"]
    assert {Path(each["file"]).name for each in report["diagnostics"]} == {"bad.yaml", "worse.yaml"}


def test_without_it_nothing_is_built(compilers: None, recipes: Path) -> None:
    result = compiled(recipes)
    assert result.exception is not None
    assert not list((recipes.parent / "build").glob("*.fuse"))


def test_a_kernel_that_does_not_compile_stops_its_own_recipe_alone(recipes: Path) -> None:
    calls: list[list[str]] = []

    def compile_files(files: list[Path]) -> Compilation:
        calls.append([file.name for file in files])
        if any(file.name == "bad.yaml" for file in files):
            raise CompileError("kernel k does not compile")
        return Compilation(recipes=(), compiled=1, seconds=0.5)

    found = compile_what_can_be([recipes], compile_files)  # type: ignore[arg-type]
    assert calls == [["bad.yaml", "pair.yaml", "worse.yaml"], ["bad.yaml"], ["pair.yaml"], ["worse.yaml"]]
    assert (found.done.compiled, found.exit_code, len(found.errors)) == (2, 1, 1)


@pytest.mark.parametrize(
    "full",
    [
        ArtifactWriteError("build/pair.fuse", "it cannot be written: No space left on device"),
        CompileError("cannot build in build: No space left on device"),
        NoRoomError("only 0 bytes are free in /tmp"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_full_disk_stops_what_it_has_no_room_for(recipes: Path, full: FusebuildError) -> None:
    def compile_files(files: Sequence[Path]) -> Compilation:
        if recipes / "pair.yaml" in files or recipes / "worse.yaml" in files:
            raise full
        return Compilation(recipes=(), compiled=1, seconds=0.5)

    found = compile_what_can_be([recipes], compile_files)
    assert (found.done.compiled, found.errors, found.exit_code) == (1, (full, full), 1)
    assert found.left_out == (recipes / "pair.yaml", recipes / "worse.yaml")


def test_what_no_error_names_is_named(compilers: None, recipes: Path) -> None:
    (recipes / "worse.yaml").write_text(TINY)
    (recipes.parent / "build" / "pair.fuse").mkdir(parents=True)
    result = compiled(recipes, "-k")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-2:] == [
        f"error: {recipes.parent / 'build' / 'pair.fuse'}: it cannot be written: Is a directory",
        f"not compiled: {recipes / 'pair.yaml'}",
    ]
    assert (recipes.parent / "build" / "tiny.fuse").is_file()


def test_frozen_does_not_go_with_it(recipes: Path) -> None:
    assert "--keep-going does not go with it" in str(compiled(recipes, "-k", "--frozen").exception)
