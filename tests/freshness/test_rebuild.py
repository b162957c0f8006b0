"""Machine code is compared: with what the build recorded beside it, or with what is compiled now."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from fusebuild.artifact import stored_zip
from fusebuild.artifact.elf import problem
from fusebuild.artifact.file import MANIFEST, open_artifact
from fusebuild.freshness.check import check_recipes
from fusebuild.freshness.rebuild import rebuild_recipes
from fusebuild.pipeline import compile_recipes
from fusebuild.target.table import TARGETS
from support.faults import quick_compilers, use_compilers
from support.forkserver import commands
from support.sampled import sampled
from support.small_recipes import PAIR, TINY, write_tiny_and_pair

SM_90, HOST = TARGETS["sm_90"], TARGETS["host"]
NO_RECORD = "2 fresh, 0 stale; machine code of 2 not compared: no record of a build here\n"


@pytest.fixture(scope="module")
def built(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rebuild")
    write_tiny_and_pair(folder)
    compile_recipes([folder / "recipes"], [SM_90, HOST], folder / "build", jobs=2)
    return folder


@pytest.fixture
def work(built: Path, tmp_path: Path) -> Path:
    """A copy to change."""
    return Path(shutil.copytree(built, tmp_path / "work"))


@pytest.fixture
def alone(work: Path, built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy without a record, and without digests that somebody may have signed. Its compilers are quick: they make
    what others made in ``built``."""
    use_compilers(quick_compilers(tmp_path / "compilers", built / "build"), monkeypatch)
    shutil.rmtree(work / "build" / ".fusebuild")
    (work / "build" / "SHA256SUMS").unlink()
    return work


def text_of(data: bytes) -> int:
    """Where the instructions of an object begin: the first section that is executable."""
    start = int.from_bytes(data[40:48], "little")
    size, count = int.from_bytes(data[58:60], "little"), int.from_bytes(data[60:62], "little")
    for index in range(count):
        header = data[start + index * size :][:64]
        if int.from_bytes(header[4:8], "little") == 1 and int.from_bytes(header[8:16], "little") & 4:
            return int.from_bytes(header[24:32], "little")
    raise AssertionError("it has no instructions")


def reseal(path: Path, ending: str) -> str:
    """Flip a bit in the instructions of the first object whose name has the ``ending``, and make the manifest fit. The
    result is whole as far as anybody can see who did not make it."""
    members = stored_zip.decode(path.read_bytes())
    name = next(name for name in sorted(members) if name.endswith(ending))
    data = bytearray(members[name])
    data[text_of(data) + 8] ^= 1
    members[name] = bytes(data)
    assert problem(members[name], cuda=ending == ".cubin") == ""
    reseal_members(path, members)
    return name


def reseal_members(path: Path, members: dict[str, bytes]) -> None:
    artifact = open_artifact(path)
    manifest = artifact.manifest
    records = {
        name: msgspec.structs.replace(record, sha256=sha256(members[name]), size=len(members[name]))
        for name, record in manifest.members.items()
    }
    changed = msgspec.structs.replace(manifest, members=records)
    encoded = msgspec.json.format(msgspec.json.encode(changed, order="deterministic"), indent=2) + b"\n"
    path.write_bytes(stored_zip.encode(members | {MANIFEST: encoded}))
    open_artifact(path)


def sha256(data: bytes) -> str:
    import hashlib

    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str


def fusebuild(folder: Path, *arguments: str, **environ: str) -> Done:
    command = [commands() / "fusebuild", *arguments]
    done = subprocess.run(command, cwd=folder, env=os.environ | environ, capture_output=True, text=True, check=False)
    return Done(done.returncode, done.stdout, done.stderr)


class TestWithARecord:
    @pytest.mark.parametrize("ending", sampled([".so", ".cubin"], 2))
    def test_machine_code_is_compared(self, work: Path, ending: str) -> None:
        assert fusebuild(work, "check", "recipes") == Done(0, "2 fresh, 0 stale\n", "")
        name = reseal(work / "build" / "tiny.fuse", ending)
        said = f"recipes/tiny.yaml: stale: {name} is not what was compiled here\n"
        assert fusebuild(work, "check", "recipes") == Done(3, "1 fresh, 1 stale\n", said)
        assert fusebuild(work, "compile", "recipes", "--arch", "sm_90,host").code == 0
        assert fusebuild(work, "check", "recipes") == Done(0, "2 fresh, 0 stale\n", "")

    def test_and_the_rest_of_the_artifact(self, work: Path) -> None:
        path = work / "build" / "tiny.fuse"
        members = stored_zip.decode(path.read_bytes())
        manifest = members[MANIFEST].replace(b'"registers": ', b'"registers": 1')
        path.write_bytes(stored_zip.encode(members | {MANIFEST: manifest}))
        open_artifact(path)
        (_, tiny) = check_recipes([work / "recipes"], work / "build")
        assert tiny.why == ("it is not the artifact that was built here",)

    def test_of_another_recipe_it_says_nothing(self, work: Path) -> None:
        """The record is of what was built from another text; the artifact came with the recipe as it is now."""
        recipe = work / "recipes" / "tiny.yaml"
        recipe.write_text(TINY.replace("Nothing much.", "Nothing at all."))
        elsewhere = work / "elsewhere"
        compile_recipes([work / "recipes"], [SM_90, HOST], elsewhere, jobs=2)
        for name in ("tiny.fuse", "SHA256SUMS"):
            shutil.copy(elsewhere / name, work / "build")
        said = [(each.why, each.machine_code) for each in check_recipes([work / "recipes"], work / "build")]
        assert said == [((), "as recorded"), ((), "not compared")]


class TestWithoutARecord:
    @pytest.mark.parametrize("ending", sampled([".so", ".cubin"], 2))
    def test_check_says_that_it_did_not_look(self, alone: Path, ending: str) -> None:
        reseal(alone / "build" / "tiny.fuse", ending)
        assert fusebuild(alone, "check", "recipes") == Done(0, NO_RECORD, "")
        rows = json.loads(fusebuild(alone, "check", "recipes", "--json").out)
        assert [(row["fresh"], row["machine_code"]) for row in rows] == [(True, "not compared")] * 2

    @pytest.mark.parametrize("ending", sampled([".so", ".cubin"], 2))
    @pytest.mark.parametrize(
        "arguments",
        [("check", "recipes", "--rebuild"), ("compile", "recipes", "--frozen", "--arch", "sm_90,host")],
        ids=["rebuild", "frozen"],
    )
    def test_compiling_finds_it(self, alone: Path, ending: str, arguments: tuple[str, ...]) -> None:
        assert fusebuild(alone, *arguments) == Done(0, "2 fresh, 0 stale\n", "")
        name = reseal(alone / "build" / "tiny.fuse", ending)
        said = [f"recipes/tiny.yaml: stale: {member} is not what compile makes" for member in sorted((MANIFEST, name))]
        done = fusebuild(alone, *arguments)
        assert (done.code, done.out, done.err.splitlines()) == (3, "1 fresh, 1 stale\n", said)
        rows = json.loads(fusebuild(alone, *arguments, "--json").out)
        assert [(row["fresh"], row["machine_code"]) for row in rows] == [(True, "as rebuilt"), (False, "as rebuilt")]
        assert not (alone / "build" / ".fusebuild").exists()


class TestRebuilding:
    def test_each_with_its_own_targets(self, alone: Path) -> None:
        compile_recipes([alone / "recipes" / "tiny.yaml"], [HOST], alone / "build")
        (alone / "build" / "SHA256SUMS").unlink()  # it lists only what was compiled just now
        verdicts = rebuild_recipes([alone / "recipes"], alone / "build")
        assert [(each.why, each.machine_code) for each in verdicts] == [((), "as rebuilt")] * 2

    def test_nothing_is_taken_from_the_store(self, alone: Path, empty_store: Path) -> None:
        progress: list[tuple[int, int]] = []
        compile_recipes([alone / "recipes"], [SM_90, HOST], alone / "build")
        rebuild_recipes([alone / "recipes"], alone / "build", on_progress=lambda *step: progress.append(step))
        assert progress[-1] == (6, 6)

    def test_what_differs_in_its_text_is_not_compiled(self, alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, text in (("tiny", TINY), ("pair", PAIR)):
            (alone / "recipes" / f"{name}.yaml").write_text(text.replace("* 2.0", "* 3.0"))
        progress: list[tuple[int, int]] = []
        verdicts = rebuild_recipes(
            [alone / "recipes"], alone / "build", on_progress=lambda *step: progress.append(step)
        )
        assert [each.why[0] for each in verdicts] == ["recipe changed"] * 2
        assert progress == []

    def test_it_leaves_nothing(self, alone: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (alone / "tmp").mkdir()
        monkeypatch.setenv("TMPDIR", str(alone / "tmp"))
        before = {path: path.stat().st_mtime_ns for path in (alone / "build").rglob("*")}
        rebuild_recipes([alone / "recipes"], alone / "build")
        assert {path: path.stat().st_mtime_ns for path in (alone / "build").rglob("*")} == before
        assert list((alone / "tmp").iterdir()) == []

    @pytest.mark.parametrize("arguments", [("check", "recipes", "--rebuild"), ("compile", "recipes", "--frozen")])
    def test_without_a_compiler_is_an_error(self, alone: Path, arguments: tuple[str, ...]) -> None:
        done = fusebuild(alone, *arguments, FUSEBUILD_NVCC="/nowhere/nvcc")
        assert (done.code, done.out) == (5, "")
        assert "FUSEBUILD_NVCC names /nowhere/nvcc, which is no executable file" in done.err


class TestOrphans:
    def test_are_named_and_no_failure(self, work: Path) -> None:
        (work / "recipes" / "tiny.yaml").unlink()
        done = fusebuild(work, "check", "recipes")
        assert done == Done(0, "1 fresh, 0 stale\n", "orphaned: build/tiny.fuse: no recipe of that name\n")
        rows = json.loads(fusebuild(work, "check", "recipes", "--json").out)
        assert [(row["recipe"], row["artifact"], row["orphaned"]) for row in rows] == [
            ("recipes/pair.yaml", "build/pair.fuse", False), ("", "build/tiny.fuse", True),
        ]  # fmt: skip

    def test_of_one_file_nothing_follows(self, work: Path) -> None:
        assert fusebuild(work, "check", "recipes/pair.yaml") == Done(0, "1 fresh, 0 stale\n", "")
