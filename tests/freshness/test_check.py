"""Freshness: what each change makes stale, by name, without compiling anything."""

from __future__ import annotations

import logging
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fusebuild.build.toolchain import find_toolchain
from fusebuild.errors import RecipeError, ToolchainError
from fusebuild.freshness import check as checking
from fusebuild.freshness.check import check_recipes
from fusebuild.pipeline import compile_recipes, plan_recipe
from fusebuild.target.table import TARGETS, Target
from support.forkserver import commands
from support.places import ROOT
from support.small_recipes import TINY, recipe_of, write_tiny_and_pair

SM_90, HOST = TARGETS["sm_90"], TARGETS["host"]


@pytest.fixture(scope="module")
def built(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("check")
    write_tiny_and_pair(folder)
    compile_recipes([folder / "recipes"], [SM_90, HOST], folder / "build", jobs=2)
    return folder


@pytest.fixture
def work(built: Path, tmp_path: Path) -> Path:
    """A copy to change, without the objects: nothing here may need them."""
    copy = Path(shutil.copytree(built, tmp_path / "work", ignore=shutil.ignore_patterns(".fusebuild")))
    assert not (copy / "build" / ".fusebuild").exists()
    return copy


def differences(folder: Path, targets: list[Target] | None = None) -> dict[str, tuple[str, ...]]:
    """What differs, by the artifact's name."""
    verdicts = check_recipes([folder / "recipes"], folder / "build", targets=targets)
    return {verdict.artifact.stem: verdict.why for verdict in verdicts}


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def kernel_names(text: str) -> list[str]:
    """Those of both targets, which may hold as many threads of a multiprocessor or not."""
    kernels = plan_recipe(recipe_of(text), [SM_90, HOST]).kernels
    return sorted({kernel.name for target in kernels.values() for kernel in target.values()})


class TestFresh:
    def test_what_was_just_built_is_fresh(self, work: Path) -> None:
        assert differences(work) == {"pair": (), "tiny": ()}

    def test_names_recipe_and_artifact(self, work: Path) -> None:
        first, _ = check_recipes([work / "recipes"], work / "build")
        assert first.recipe == str(work / "recipes" / "pair.yaml")
        assert first.artifact == work / "build" / "pair.fuse"

    @pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
    def test_recipes_are_compared_side_by_side(self, work: Path) -> None:
        edit(work / "recipes" / "tiny.yaml", "x * 2.0", "x * 3.0")
        code = """
import os, sys
from pathlib import Path
from fusebuild.freshness.check import check_recipes
forks = []
os.register_at_fork(before=lambda: forks.append(1))
verdicts = check_recipes([Path(sys.argv[1], "recipes")], Path(sys.argv[1], "build"))
print(len(forks), {verdict.artifact.stem: verdict.why for verdict in verdicts})
"""
        command = [sys.executable, "-c", code, str(work)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
        assert done.stdout == f"2 {differences(work)}\n"

    def test_the_same_data_elsewhere_changes_nothing(self, work: Path, data: Path) -> None:
        assert differences(work) == {"pair": (), "tiny": ()}

    def test_writes_nothing(self, work: Path) -> None:
        before = {path: path.stat().st_mtime_ns for path in work.rglob("*")}
        edit(work / "recipes" / "tiny.yaml", "2.0", "3.0")
        before[work / "recipes" / "tiny.yaml"] = (work / "recipes" / "tiny.yaml").stat().st_mtime_ns
        differences(work)
        assert {path: path.stat().st_mtime_ns for path in work.rglob("*")} == before


class TestStale:
    def test_a_changed_op(self, work: Path) -> None:
        edit(work / "recipes" / "tiny.yaml", "x * 2.0", "x * 3.0")
        changed = [f"kernel {name} changed" for name in kernel_names(TINY.replace("x * 2.0", "x * 3.0"))]
        assert differences(work) == {"pair": (), "tiny": ("recipe changed", "plan changed", *changed)}

    def test_changed_words(self, work: Path) -> None:
        edit(work / "recipes" / "tiny.yaml", "Nothing much.", "Nothing at all.")
        assert differences(work)["tiny"] == ("recipe changed",)

    def test_a_changed_template(self, work: Path, data: Path) -> None:
        edit(data / "templates" / "pointwise/pointwise.cu.jinja", "const Index total", "const Index  total")
        found = differences(work)
        assert found["tiny"][0] == "template pointwise.cu.jinja changed"
        assert found["pair"][0] == "template pointwise.cu.jinja changed"

    def test_a_template_that_a_recipe_does_not_use(self, work: Path, data: Path) -> None:
        edit(data / "templates" / "reduction/reduction_inner.cu.jinja", "const Index columns", "const Index  columns")
        found = differences(work)
        assert found["tiny"] == ()
        assert found["pair"][0] == "template reduction_inner.cu.jinja changed"

    def test_the_device_header(self, work: Path, data: Path) -> None:
        header = data / "templates" / "include" / "fusebuild" / "math.cuh"
        header.write_text(header.read_text() + "// more\n")
        assert differences(work) == dict.fromkeys(("pair", "tiny"), ("device header changed",))

    def test_a_compilers_flag(self, work: Path, data: Path) -> None:
        edit(data / "build.ninja.in", "--fmad=true", "--fmad=false")
        assert differences(work) == dict.fromkeys(("pair", "tiny"), ("flags of sm_90 changed",))

    def test_a_targets_flag(self, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(TARGETS, "host", replace(HOST, compiler_flags=("-O3",)))
        assert differences(work) == dict.fromkeys(("pair", "tiny"), ("flags of host changed",))

    def test_a_missing_artifact(self, work: Path) -> None:
        path = work / "build" / "tiny.fuse"
        path.unlink()
        assert differences(work) == {"pair": (), "tiny": (f"{path} is missing",)}

    def test_a_corrupted_artifact(self, work: Path) -> None:
        path = work / "build" / "tiny.fuse"
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)
        (difference,) = differences(work)["tiny"]
        assert difference.startswith(f"artifact is not whole: {path}: ")

    @pytest.mark.parametrize(
        ("targets", "names"), [([SM_90], "host"), ([SM_90, HOST, TARGETS["sm_80"]], "sm_80"),
                               ([HOST, TARGETS["sm_80"]], "sm_80, sm_90")],
    )  # fmt: skip
    def test_other_targets(self, work: Path, targets: list[Target], names: str) -> None:
        expected = (f"targets differ: {names}",)
        assert differences(work, targets) == dict.fromkeys(("pair", "tiny"), expected)

    def test_the_order_of_targets_does_not_matter(self, work: Path) -> None:
        assert differences(work, [HOST, SM_90]) == {"pair": (), "tiny": ()}


class TestToolchain:
    def test_another_one_is_a_difference(self, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        toolchain = find_toolchain([SM_90, HOST])
        parts = [replace(part, banner="99.0") if part.name == "ptxas" else part for part in toolchain.parts]
        other = replace(toolchain, parts=tuple(parts))
        monkeypatch.setattr(checking, "unproven_toolchain", lambda *targets, **more: other)
        assert differences(work)["tiny"] == ("toolchain of sm_90 changed",)

    def test_without_one_versions_are_not_compared(
        self, work: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
    ) -> None:
        def missing(*targets: object, **more: object) -> None:
            raise ToolchainError("no nvcc")

        monkeypatch.setattr(checking, "unproven_toolchain", missing)
        with caplog.at_level(logging.WARNING):
            assert differences(work) == {"pair": (), "tiny": ()}
        assert [record.getMessage() for record in caplog.records] == ["compiler versions are not compared: no nvcc"]


def test_an_nvcc_that_somebody_names_has_to_be_there(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ToolchainError, match=r"^--nvcc names .*/missing, which is no executable file$"):
        check_recipes([work / "recipes"], work / "build", nvcc="missing")
    monkeypatch.setenv("FUSEBUILD_NVCC", "missing")
    with pytest.raises(ToolchainError, match=r"^FUSEBUILD_NVCC names .*/missing, which is no executable file$"):
        check_recipes([work / "recipes"], work / "build")


def test_nothing_is_compiled_to_try_the_compilers(work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody has compiled yet, as in a hook after a clone: what a compile would try first is left to it."""
    monkeypatch.setenv("FUSEBUILD_CACHE_DIR", str(tmp_path / "cache"))
    assert differences(work) == {"pair": (), "tiny": ()}
    assert not (tmp_path / "cache").exists()


def test_a_recipe_that_cannot_be_read_is_an_error(work: Path) -> None:
    edit(work / "recipes" / "tiny.yaml", "x * 2.0", "x *")
    with pytest.raises(RecipeError):
        differences(work)


def test_the_command_says_what_is_stale_and_exits_3(work: Path) -> None:
    def check() -> subprocess.CompletedProcess[str]:
        command = [commands() / "fusebuild", "check", "recipes", "-o", "build"]
        return subprocess.run(command, cwd=work, capture_output=True, text=True, check=False)

    fresh = check()
    unknown = "machine code of 2 not compared: no record of a build here"
    assert (fresh.returncode, fresh.stdout, fresh.stderr) == (0, f"2 fresh, 0 stale; {unknown}\n", "")
    (work / "build" / "tiny.fuse").unlink()
    stale = check()
    assert (stale.returncode, stale.stdout) == (3, f"1 fresh, 1 stale; {unknown.replace('2', '1')}\n")
    assert stale.stderr == "recipes/tiny.yaml: stale: build/tiny.fuse is missing\n"
