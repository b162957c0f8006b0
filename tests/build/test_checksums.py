"""SHA256SUMS beside the artifacts: what sha256sum checks and signing tools sign is what compile made."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from fusebuild.build.build_dir import BuildDir
from fusebuild.errors import ArtifactWriteError
from fusebuild.freshness.check import check_recipes
from fusebuild.freshness.incremental import compile_changed
from fusebuild.target.table import TARGETS
from support.small_recipes import TINY, write_tiny_and_pair

HOST = (TARGETS["host"],)


def compile_in(folder: Path, recipes: str = "recipes", *, dry_run: bool = False) -> None:
    compile_changed([folder / recipes], HOST, folder / "build", jobs=1, dry_run=dry_run)


def sums(folder: Path) -> Path:
    return folder / "build" / "SHA256SUMS"


def lines_of_files(folder: Path) -> str:
    """What sha256sum prints of the artifacts there."""
    files = sorted((folder / "build").glob("*.fuse"))
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def reasons(folder: Path) -> dict[str, tuple[str, ...]]:
    verdicts = check_recipes([folder / "recipes"], folder / "build")
    return {verdict.artifact.stem: verdict.why for verdict in verdicts}


@pytest.fixture(scope="module")
def built(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checksums")
    write_tiny_and_pair(folder)
    compile_in(folder)
    return folder


@pytest.fixture
def work(built: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(built, tmp_path / "work"))


def edit_tiny(folder: Path) -> None:
    (folder / "recipes" / "tiny.yaml").write_text(TINY.replace("2.0", "3.0"))


class TestCompile:
    def test_sha256sum_accepts_it(self, work: Path) -> None:
        assert sums(work).read_text() == lines_of_files(work)
        command = ["sha256sum", "-c", "--strict", "SHA256SUMS"]
        done = subprocess.run(command, cwd=work / "build", capture_output=True, text=True, check=False)
        assert (done.returncode, done.stdout) == (0, "pair.fuse: OK\ntiny.fuse: OK\n")

    def test_it_is_left_alone_where_nothing_changed(self, work: Path) -> None:
        before = sums(work).stat()
        compile_in(work)
        assert (sums(work).stat().st_mtime_ns, sums(work).stat().st_ino) == (before.st_mtime_ns, before.st_ino)

    def test_a_compile_of_one_recipe_keeps_the_line_of_the_other(self, work: Path) -> None:
        before = sums(work).read_text()
        edit_tiny(work)
        compile_in(work, "recipes/tiny.yaml")
        assert sums(work).read_text() == lines_of_files(work) != before

    @pytest.mark.parametrize("recipes", ["recipes", "recipes/tiny.yaml"])
    @pytest.mark.parametrize("text", [None, "", "no line\n", f"{'0' * 64}  pair.fuse\n{'0' * 64}  tiny.fuse\n"])
    def test_one_that_is_gone_or_wrong_is_written_again(self, work: Path, text: str | None, recipes: str) -> None:
        sums(work).unlink() if text is None else sums(work).write_text(text)
        compile_in(work, recipes)
        assert sums(work).read_text() == lines_of_files(work)

    def test_an_artifact_that_was_removed_loses_its_line(self, work: Path) -> None:
        (work / "build" / "pair.fuse").unlink()
        compile_in(work, "recipes/tiny.yaml")
        assert sums(work).read_text() == lines_of_files(work)
        assert "pair" not in sums(work).read_text()

    def test_what_compile_did_not_make_gets_no_line(self, work: Path) -> None:
        shutil.copy(work / "build" / "tiny.fuse", work / "build" / "stranger.fuse")
        compile_in(work)
        assert "stranger" not in sums(work).read_text()

    def test_a_changed_artifact_of_another_recipe_does_not_get_its_new_digest(self, work: Path) -> None:
        before = sums(work).read_text()
        shutil.copy(work / "build" / "tiny.fuse", work / "build" / "pair.fuse")
        compile_in(work, "recipes/tiny.yaml")
        assert sums(work).read_text() == before != lines_of_files(work)

    def test_after_a_clone_lines_of_others_stay(self, work: Path) -> None:
        shutil.rmtree(work / "build" / ".fusebuild")
        edit_tiny(work)
        compile_in(work, "recipes/tiny.yaml")
        assert sums(work).read_text() == lines_of_files(work)

    def test_a_record_that_cannot_be_kept_makes_no_wrong_line(self, work: Path) -> None:
        record = BuildDir(root=work / "build").record
        record.unlink()
        record.mkdir()
        edit_tiny(work)
        compile_in(work)
        assert sums(work).read_text() == lines_of_files(work)

    def test_a_dry_run_writes_none(self, work: Path) -> None:
        sums(work).unlink()
        edit_tiny(work)
        compile_in(work, dry_run=True)
        assert not sums(work).exists()

    def test_what_a_killed_compile_left_is_removed(self, work: Path) -> None:
        half = work / "build" / ".SHA256SUMS.1.1.tmp"
        half.write_text("half")
        sums(work).unlink()
        compile_in(work)
        assert not half.exists()

    def test_one_that_cannot_be_written_is_an_error(self, work: Path) -> None:
        sums(work).unlink()
        sums(work).mkdir()
        with pytest.raises(ArtifactWriteError, match="SHA256SUMS: it cannot be written"):
            compile_in(work)


class TestCheck:
    def test_one_that_fits_is_fresh(self, work: Path) -> None:
        assert reasons(work) == {"pair": (), "tiny": ()}

    @pytest.mark.parametrize("recorded", [True, False])
    def test_another_digest_is_stale(self, work: Path, recorded: bool) -> None:
        (pair, _) = sums(work).read_text().splitlines(keepends=True)
        sums(work).write_text(f"{pair}{'0' * 64}  tiny.fuse\n")
        if not recorded:
            shutil.rmtree(work / "build" / ".fusebuild")
        assert reasons(work) == {"pair": (), "tiny": ("SHA256SUMS has another digest",)}

    def test_where_there_is_none_nothing_is_compared(self, work: Path) -> None:
        sums(work).unlink()
        assert reasons(work) == {"pair": (), "tiny": ()}

    @pytest.mark.parametrize("recorded", [True, False])
    def test_an_artifact_that_it_does_not_list_is_stale(self, work: Path, recorded: bool) -> None:
        (pair, _) = sums(work).read_text().splitlines(keepends=True)
        sums(work).write_text(pair)
        if not recorded:
            shutil.rmtree(work / "build" / ".fusebuild")
        assert reasons(work) == {"pair": (), "tiny": ("SHA256SUMS does not list it",)}

    @pytest.mark.parametrize("data", [b"", b"\n", b"no line\n", bytes(range(256)), f"{'0' * 63}  tiny.fuse\n".encode()])
    def test_one_of_garbage_makes_all_stale(self, work: Path, data: bytes) -> None:
        sums(work).write_bytes(data)
        assert reasons(work) == dict.fromkeys(("pair", "tiny"), ("SHA256SUMS has no line of an artifact",))

    def test_one_that_cannot_be_read_makes_all_stale(self, work: Path) -> None:
        sums(work).unlink()
        sums(work).mkdir()
        assert reasons(work) == dict.fromkeys(("pair", "tiny"), ("SHA256SUMS cannot be read: Is a directory",))

    def test_what_is_stale_for_another_reason_says_that(self, work: Path) -> None:
        sums(work).write_text("")
        edit_tiny(work)
        assert "recipe changed" in reasons(work)["tiny"]
        assert "SHA256SUMS has no line of an artifact" not in reasons(work)["tiny"]
