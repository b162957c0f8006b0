"""Compiling again: what changed is compiled, the rest not even planned, and the result is that of a clean build."""

from __future__ import annotations

import importlib.metadata
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from fusebuild import pipeline
from fusebuild.artifact.file import open_artifact
from fusebuild.build import build_dir as paths
from fusebuild.build import record as build_record
from fusebuild.build.build_dir import BuildDir
from fusebuild.build.record import read_record
from fusebuild.build.toolchain import find_toolchain
from fusebuild.errors import ArtifactError, UsageError
from fusebuild.freshness import incremental
from fusebuild.freshness.check import check_recipes
from fusebuild.freshness.incremental import Compilation, compile_changed
from fusebuild.pipeline import compile_recipes
from fusebuild.planning.tuned import encode_tuned
from fusebuild.target.table import TARGETS, Target
from support.forkserver import commands
from support.own_cache import copy_objects, own_cache
from support.places import ROOT
from support.small_recipes import TINY, write_tiny_and_pair

HOST, ASAN = TARGETS["host"], TARGETS["host-asan"]


@pytest.fixture(scope="module")
def built(compilers: None, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("incremental")
    write_tiny_and_pair(folder)
    own_cache(folder, cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUSEBUILD_CACHE_DIR", str(folder / "cache"))
        compile_in(folder)
    return folder


@pytest.fixture
def work(built: Path, empty_store: Path, tmp_path: Path) -> Path:
    """A copy to change. What it holds is compiled already, and nothing else."""
    copy_objects(built / "cache", empty_store)
    return Path(shutil.copytree(built, tmp_path / "work", ignore=shutil.ignore_patterns("cache")))


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the recipes that are planned, as they are."""
    names: list[str] = []
    plan = pipeline.plan_recipe

    def noted(recipe, *arguments, **more):  # type: ignore[no-untyped-def]
        names.append(recipe.fusion.name)
        return plan(recipe, *arguments, **more)

    monkeypatch.setattr(pipeline, "plan_recipe", noted)
    monkeypatch.setattr(pipeline, "processors", lambda: 1)  # not in other processes, which note it for themselves
    return names


def compile_in(folder: Path, targets: tuple[Target, ...] = (HOST,), *, dry_run: bool = False) -> Compilation:
    return compile_changed([folder / "recipes"], targets, folder / "build", jobs=1, dry_run=dry_run)


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def edit_tiny(folder: Path) -> None:
    edit(folder / "recipes" / "tiny.yaml", "2.0", "3.0")


def written(done: Compilation) -> dict[str, bool]:
    return {each.artifact.fusion: each.artifact.written for each in done.recipes}


def artifacts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "build").glob("*.fuse")}


class TestUpToDate:
    def test_nothing_is_planned_or_written(self, work: Path, planned: list[str]) -> None:
        before = {path: path.stat().st_mtime_ns for path in work.rglob("*")}
        done = compile_in(work)
        assert (planned, written(done)) == ([], {"pair": False, "tiny": False})
        assert (done.compiled, done.total, done.seconds) == (0, 3, 0.0)
        assert {path: path.stat().st_mtime_ns for path in work.rglob("*")} == before

    def test_says_what_a_whole_build_says(self, work: Path, built: Path) -> None:
        (work / "build" / ".fusebuild" / "record.json").unlink()
        assert replace(compile_in(work), seconds=0.0) == compile_in(work)

    def test_neither_yaml_nor_templates_are_imported(self, work: Path) -> None:
        code = """
import sys
from fusebuild.cli.main import cli
for verb in ("compile", "check"):
    options = ["--arch", "host"]
    cli.main([verb, "recipes", *options], standalone_mode=False)
    print(sorted({"yaml", "jinja2", "networkx", "fusebuild.pipeline", "fusebuild.ir.fusion"} & {*sys.modules}))
"""
        environ = os.environ | {"PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, cwd=work, env=environ, capture_output=True, text=True, check=True)
        assert done.stdout.splitlines() == [
            "build/pair.fuse  2 kernels  unchanged",
            "build/tiny.fuse  1 kernel  unchanged",
            "compiled 0 of 3 objects in 0.0 s",
            "[]",
            "2 fresh, 0 stale",
            "[]",
        ]

    def test_check_plans_nothing(self, work: Path, planned: list[str]) -> None:
        verdicts = check_recipes([work / "recipes"], work / "build")
        assert [(verdict.artifact.name, verdict.why) for verdict in verdicts] == [
            ("pair.fuse", ()), ("tiny.fuse", ()),
        ]  # fmt: skip
        assert planned == []

    def test_the_folders_name_does_not_matter(self, work: Path, planned: list[str]) -> None:
        moved = work.rename(work.with_name("elsewhere"))
        assert written(compile_in(moved)) == {"pair": False, "tiny": False}
        assert planned == []


def remove_artifact(folder: Path) -> None:
    (folder / "build" / "tiny.fuse").unlink()


def break_artifact(folder: Path) -> None:
    """One bit, and a time stamp as it was."""
    path = folder / "build" / "tiny.fuse"
    status, content = path.stat(), bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def swap_artifacts(folder: Path) -> None:
    """Each a whole artifact, under the other's name."""
    shutil.copy(folder / "build" / "pair.fuse", folder / "build" / "tiny.fuse")


def tune(folder: Path) -> None:
    (folder / "recipes" / "tiny.tuned.json").write_text(encode_tuned("tiny", []))


def rename_recipe(folder: Path) -> None:
    """Kernels tell the name of the file."""
    (folder / "recipes" / "tiny.yaml").rename(folder / "recipes" / "zebra.yaml")


CHANGES: list[Callable[[Path], None]] = [
    edit_tiny, remove_artifact, break_artifact, swap_artifacts, tune, rename_recipe,
]  # fmt: skip


class TestStale:
    @pytest.mark.parametrize("change", CHANGES)
    def test_what_changed_is_planned_alone_and_becomes_what_a_clean_build_gives(
        self, change: Callable[[Path], None], work: Path, planned: list[str], tmp_path: Path
    ) -> None:
        change(work)
        found = check_recipes([work / "recipes"], work / "build")
        assert [verdict.artifact.name for verdict in found if verdict.why] == ["tiny.fuse"]
        planned.clear()
        assert written(compile_in(work)) == {"pair": False, "tiny": True}
        assert planned == ["tiny"]
        clean = Path(shutil.copytree(work / "recipes", tmp_path / "clean" / "recipes")).parent
        compile_recipes([clean / "recipes"], [HOST], clean / "build", jobs=2)
        assert artifacts(work) == artifacts(clean)
        planned.clear()
        assert written(compile_in(work)) == {"pair": False, "tiny": False}
        assert planned == []

    @pytest.mark.parametrize("targets", [(HOST, ASAN), (ASAN,)])
    def test_other_targets(self, targets: tuple[Target, ...], work: Path, planned: list[str]) -> None:
        done = compile_in(work, targets, dry_run=True)
        assert (planned, done.compiled) == (["pair", "tiny"], 3)

    def test_targets_in_another_order(self, work: Path, planned: list[str]) -> None:
        compile_in(work, (HOST, ASAN))
        planned.clear()
        assert written(compile_in(work, (ASAN, HOST))) == {"pair": True, "tiny": True}
        assert planned == ["pair", "tiny"]

    def test_another_search_for_cuts(self, work: Path, planned: list[str]) -> None:
        compile_changed([work / "recipes"], [HOST], work / "build", search="exact", dry_run=True)
        assert planned == ["pair", "tiny"]

    def test_a_changed_template(self, work: Path, data: Path, planned: list[str]) -> None:
        edit(data / "templates" / "pointwise/pointwise.cu.jinja", "const Index total", "const Index  total")
        done = compile_in(work)
        assert written(done) == {"pair": True, "tiny": True}
        assert done.compiled == 2

    @pytest.mark.parametrize("name", ["include/fusebuild/kernel.cuh", "reduction/reduction_inner.cu.jinja"])
    def test_any_file_of_fusebuilds_own(self, name: str, work: Path, data: Path, planned: list[str]) -> None:
        path = data / "templates" / name
        path.write_text(path.read_text() + "\n")
        compile_in(work, dry_run=True)
        assert planned == ["pair", "tiny"]

    def test_another_library(self, work: Path, planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(importlib.metadata, "version", lambda name: "99" if name == "jinja2" else "1")
        compile_in(work, dry_run=True)
        assert planned == ["pair", "tiny"]

    def test_another_compiler(self, work: Path, planned: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        toolchain = find_toolchain([HOST])
        parts = [replace(part, banner="(99)") if part.name == "g++" else part for part in toolchain.parts]
        other = replace(toolchain, parts=tuple(parts))
        monkeypatch.setattr(incremental, "find_toolchain", lambda *targets, **more: other)
        monkeypatch.setattr(pipeline, "find_toolchain", lambda *targets, **more: other)
        done = compile_in(work)
        assert (planned, done.compiled) == (["pair", "tiny"], 3)

    def test_a_dump_is_of_everything(self, work: Path, planned: list[str]) -> None:
        compile_changed([work / "recipes"], [HOST], work / "build", dump=work / "dump")
        assert planned == ["pair", "tiny"]
        assert sorted(path.name for path in (work / "dump").iterdir()) == ["pair", "tiny"]


class TestRecord:
    @pytest.mark.parametrize("text", ["", "{", "[]", '{"recipes": {"a": {}}}', '{"format": 2}', "\xff"])
    def test_one_that_cannot_be_read_is_made_anew(self, text: str, work: Path, planned: list[str]) -> None:
        record = BuildDir(root=work / "build").record
        whole = record.read_bytes()
        record.write_bytes(text.encode("latin-1"))
        assert written(compile_in(work)) == {"pair": False, "tiny": False}
        assert planned == ["pair", "tiny"]
        assert record.read_bytes() == whole

    def test_one_that_cannot_be_written_is_only_a_pity(self, work: Path, caplog: pytest.LogCaptureFixture) -> None:
        record = BuildDir(root=work / "build").record
        record.unlink()
        record.mkdir()
        edit_tiny(work)
        assert written(compile_in(work)) == {"pair": False, "tiny": True}
        (warned,) = [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]
        assert warned == f"the next compile plans everything again: {record}: Is a directory"

    def test_it_keeps_what_other_compiles_built(self, work: Path, planned: list[str]) -> None:
        compile_changed([work / "recipes" / "tiny.yaml"], [HOST], work / "build")
        edit_tiny(work)
        compile_changed([work / "recipes" / "tiny.yaml"], [HOST], work / "build")
        assert {each.fusion for each in read_record(BuildDir(root=work / "build")).recipes.values()} == {"pair", "tiny"}
        planned.clear()
        assert written(compile_in(work)) == {"pair": False, "tiny": False}
        assert planned == []

    def test_a_dry_run_records_nothing(self, work: Path, planned: list[str]) -> None:
        edit_tiny(work)
        before = BuildDir(root=work / "build").record.read_bytes()
        assert compile_in(work, dry_run=True).compiled == 1
        assert BuildDir(root=work / "build").record.read_bytes() == before

    def test_spills_are_told_again(self, work: Path) -> None:
        build_dir = BuildDir(root=work / "build")
        recipes = read_record(build_dir).recipes
        spilling = {key: _spilling(each) for key, each in recipes.items() if each.fusion == "tiny"}
        build_record.extend_record(build_dir, spilling)
        (name,) = next(iter(spilling.values())).kernels["host"]
        assert compile_in(work).spills == {("host", name): 48}


def _spilling(built: build_record.BuiltRecipe) -> build_record.BuiltRecipe:
    (name,) = built.kernels["host"]
    return build_record.msgspec.structs.replace(built, spills={"host": {name: 48}})


class TestOneFusionInTwoRecipes:
    def test_a_new_one_is_an_error_and_writes_nothing(self, work: Path) -> None:
        other = work / "recipes" / "other.yaml"
        other.write_text(TINY + "# another\n")
        before = artifacts(work)
        shown = (work / "recipes" / "tiny.yaml").as_posix()
        for run in (compile_in, lambda folder: check_recipes([folder / "recipes"], folder / "build")):
            with pytest.raises(UsageError) as raised:
                run(work)
            assert str(raised.value) == f"{shown} and {other.as_posix()} both define fusion 'tiny'"
        assert artifacts(work) == before

    def test_the_same_file_in_two_folders_is_one_too(self, work: Path) -> None:
        (work / "more").mkdir()
        shutil.copy(work / "recipes" / "tiny.yaml", work / "more")
        with pytest.raises(UsageError, match="both define fusion 'tiny'"):
            compile_changed([work / "recipes", work / "more"], [HOST], work / "build")


class TestOneFusionAfterAnother:
    def test_who_overwrites_whose_artifact_is_said(self, work: Path, caplog: pytest.LogCaptureFixture) -> None:
        (work / "more").mkdir()
        other = work / "more" / "other.yaml"
        other.write_text(TINY.replace("2.0", "4.0"))
        compile_changed([other], [HOST], work / "build", jobs=1)
        artifact, tiny = work / "build" / "tiny.fuse", work / "recipes" / "tiny.yaml"
        assert caplog.messages == [f"{artifact} of {tiny} is overwritten by that of {other}"]
        caplog.clear()
        compile_changed([other], [HOST], work / "build", jobs=1)
        edit(other, "4.0", "5.0")
        compile_changed([other], [HOST], work / "build", jobs=1)
        assert caplog.messages == []

    def test_a_recipe_that_was_renamed_overwrites_its_own(self, work: Path, caplog: pytest.LogCaptureFixture) -> None:
        (work / "recipes" / "tiny.yaml").rename(work / "recipes" / "other.yaml")
        compile_in(work)
        assert caplog.messages == []

    def test_the_same_recipe_by_another_path_too(
        self, work: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        monkeypatch.chdir(work / "recipes")
        edit(Path("tiny.yaml"), "2.0", "3.0")
        compile_changed([Path("tiny.yaml")], [HOST], Path("../build"), jobs=1)
        assert caplog.messages == []


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda record: None, "it is not what was compiled in build before"),
        (Path.unlink, "nothing was compiled in build before"),
        (lambda record: record.write_text("{"), "it is not known what was compiled in build before"),
    ],
)
def test_why_an_unknown_recipe_is_compiled(
    spoil: Callable[[Path], object], said: str, work: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    monkeypatch.chdir(work)
    edit_tiny(work)
    spoil(BuildDir(root=Path("build")).record)
    with caplog.at_level(logging.INFO):
        compile_changed([Path("recipes/tiny.yaml")], [HOST], Path("build"), dry_run=True)
    assert f"recipes/tiny.yaml: it is compiled: {said}" in caplog.messages


def test_what_another_build_put_there_is_not_taken_for_ones_own(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between packing and recording someone else's artifact may take the place: the record tells of the bytes that
    were packed."""
    store = paths.store_artifact

    def overtaken(path: Path, data: bytes) -> bool:
        written = store(path, data)
        if path.suffix == ".fuse":
            path.write_bytes(b"another's")
        return written

    edit_tiny(work)
    monkeypatch.setattr(paths, "store_artifact", overtaken)
    compile_in(work)
    monkeypatch.undo()
    assert written(compile_in(work)) == {"pair": False, "tiny": True}


def test_an_artifact_that_cannot_be_replaced_is_an_error(work: Path) -> None:
    path = work / "build" / "tiny.fuse"
    path.unlink()
    path.mkdir()
    with pytest.raises(ArtifactError, match="it cannot be written: Is a directory"):
        compile_in(work)


class TestFrozen:
    def frozen(self, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
        command = [commands() / "fusebuild", "compile", "recipes", "--frozen", "--arch", "host", *options]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

    def test_with_nothing_to_do_it_passes(self, work: Path) -> None:
        done = self.frozen(work)
        assert (done.returncode, done.stdout, done.stderr) == (0, "2 fresh, 0 stale\n", "")

    def test_it_needs_no_record(self, work: Path) -> None:
        shutil.rmtree(work / "build" / ".fusebuild")
        assert self.frozen(work).returncode == 0
        assert not (work / "build" / ".fusebuild").exists()

    def test_what_would_be_compiled_is_named_and_nothing_is_written(self, work: Path) -> None:
        edit(work / "recipes" / "tiny.yaml", "Nothing much.", "Nothing at all.")
        before = {path: path.stat().st_mtime_ns for path in work.rglob("*")}
        done = self.frozen(work)
        assert (done.returncode, done.stdout) == (3, "1 fresh, 1 stale\n")
        assert done.stderr == "recipes/tiny.yaml: stale: recipe changed\n"
        assert {path: path.stat().st_mtime_ns for path in work.rglob("*")} == before

    def test_artifacts_of_other_targets_are_stale(self, work: Path) -> None:
        done = self.frozen(work, "--arch", "host,sm_90")
        assert done.returncode == 3
        assert done.stderr.splitlines() == [
            f"recipes/{name}.yaml: stale: targets differ: sm_90" for name in ("pair", "tiny")
        ]

    def test_artifacts_of_another_search_are_stale(self, work: Path) -> None:
        done = self.frozen(work, "--segmentation", "exact")
        assert done.returncode == 3
        assert "recipes/tiny.yaml: stale: segmentation changed" in done.stderr.splitlines()

    def test_what_would_write_does_not_go_with_it(self, work: Path) -> None:
        done = self.frozen(work, "--dry-run")
        assert (done.returncode, done.stderr) == (
            2, "error: --frozen writes nothing: --dump and --dry-run do not go with it\n"
        )  # fmt: skip


def test_recipes_are_read_once_nobody_else_builds_there(work: Path) -> None:
    """Of two compiles, the one that waits reads what was edited meanwhile: the older text is never recorded last."""
    edit_tiny(work)
    build_dir = BuildDir(root=work / "build")
    with ThreadPoolExecutor(1) as pool:
        with build_dir.locked():
            waiting = pool.submit(compile_in, work)
            with pytest.raises(TimeoutError):
                waiting.result(timeout=1.0)
            edit(work / "recipes" / "tiny.yaml", "3.0", "5.0")
        assert written(waiting.result()) == {"pair": False, "tiny": True}
    assert b"x * 5.0" in open_artifact(build_dir.artifact("tiny")).member("recipe.yaml")
    assert written(compile_in(work)) == {"pair": False, "tiny": False}
