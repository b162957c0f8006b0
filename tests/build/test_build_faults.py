"""What goes wrong around a build: it is killed, disks are full or read-only, two run at once, a compiler is swapped.
Nothing broken is ever packed, the message says what it was, and the next run puts everything right."""

from __future__ import annotations

import fcntl
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fusebuild.build import work_folder
from support import faults
from support.faults import Done, forked, fusebuild
from support.forkserver import commands
from support.own_cache import own_cache
from support.places import ROOT
from support.sampled import sampled
from support.small_recipes import TINY, write_tiny_and_pair

KILLS = 20
BOTH = ("--arch", "host,sm_90")
Tree = dict[str, bytes]


def tree(folder: Path) -> Tree:
    """Every file below ``folder``, without the name of that folder, which ``compile_commands.json`` tells."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes().replace(os.fsencode(folder), b"") for path in files}


def shipped(files: Tree) -> Tree:
    """Those of ``files`` that are shipped: artifacts, and their digests."""
    return {name: data for name, data in files.items() if name.endswith(".fuse") or name == "SHA256SUMS"}


def artifacts(folder: Path) -> Tree:
    return {path.name: path.read_bytes() for path in (*folder.glob("*.fuse"), *folder.glob("SHA256SUMS"))}


def compile_all(out: str = "out", *more: str) -> Done:
    return forked(lambda: fusebuild("compile", "recipes", *BOTH, "-j", "2", "-o", out, *more))


@pytest.fixture(scope="module")
def made(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``recipes/`` and the ``build/`` that real compilers make from them."""
    folder = tmp_path_factory.mktemp("made")
    write_tiny_and_pair(folder)
    done = fusebuild("compile", folder / "recipes", *BOTH, "-o", folder / "build")
    assert done.code == 0, done.err
    return folder


@pytest.fixture(scope="module")
def quick(made: Path) -> dict[str, str]:
    """Variables that name compilers, which make what others made in ``made``."""
    return faults.quick_compilers(made / "compilers", made / "build")


@pytest.fixture
def work(made: Path, quick: dict[str, str], empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with the same recipes, quick compilers, a temporary folder and no compiled object."""
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    shutil.copytree(made / "recipes", tmp_path / "recipes")
    faults.use_compilers(quick, monkeypatch)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def own_compilers(work: Path, quick: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with quick compilers that a test may change."""
    own = work / "compilers"
    own.mkdir()
    faults.use_compilers({variable: str(shutil.copy(path, own)) for variable, path in quick.items()}, monkeypatch)
    return own


@pytest.fixture(scope="module")
def clean(made: Path, quick: dict[str, str], tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Tree:
    """What a build in ``out`` makes with nothing in its way."""
    folder = tmp_path_factory.mktemp("clean")
    shutil.copytree(made / "recipes", folder / "recipes")
    own_cache(folder, cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        faults.use_compilers(quick, patch)
        patch.setenv("FUSEBUILD_CACHE_DIR", str(folder / "cache"))
        assert compile_all().code == 0
    return tree(folder / "out")


def kernels_in(store: Path) -> int:
    """How many kernels ``store`` has objects of; a precompiled header is none."""
    return sum(path.parent.name != "precompiled" for path in store.glob("*/[!.]*"))


def wait_for_compilers(folder: Path) -> None:
    """Wait for compilers that a killed build left. Ninja gives each a process group of its own, so no signal to the
    build's group reaches them, and until they are done they hold the lock of their work folder in ``folder``."""
    for file in folder.glob("fusebuild-work-*/lock"):
        with file.open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)


class TestKilled:
    @pytest.mark.parametrize("kill", sampled(range(KILLS), 10))
    def test_whenever_it_was_the_next_build_makes_what_a_clean_one_makes(
        self, work: Path, clean: Tree, empty_store: Path, kill: int
    ) -> None:
        start = time.monotonic()
        assert compile_all().code == 0
        seconds = time.monotonic() - start
        shutil.rmtree(work / "out")
        shutil.rmtree(empty_store)
        child = faults.started(lambda: fusebuild("compile", "recipes", *BOTH, "-o", "out"))
        time.sleep(seconds * (kill + random.Random(kill).random()) / KILLS)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        wait_for_compilers(work / "tmp")
        for name, data in artifacts(work / "out").items():
            assert data == clean[name]
        done = compile_all()
        assert (done.code, done.err) == (0, "")
        assert tree(work / "out") == clean
        assert list((work / "tmp").glob("fusebuild-work-*")) == []

    def test_what_it_had_half_written_is_removed(self, work: Path, clean: Tree) -> None:
        for name in (".tiny.fuse.7.7.tmp", ".fusebuild/.build.ninja.7.tmp", ".fusebuild/kernels/.k.cu.7.tmp",
                     ".fusebuild/include/fusebuild/.vec.cuh.7.tmp"):  # fmt: skip
            (work / "out" / name).parent.mkdir(parents=True, exist_ok=True)
            (work / "out" / name).write_text("half")
        assert compile_all().code == 0
        assert tree(work / "out") == clean

    def test_before_its_folder_had_a_lock_that_folder_is_removed(self, work: Path) -> None:
        (work / "tmp" / "fusebuild-work-killed").mkdir()
        assert compile_all().code == 0
        assert list((work / "tmp").iterdir()) == []

    def test_a_build_makes_another_folder_where_its_own_was_taken_for_abandoned(
        self, work: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = work_folder.tempfile.mkdtemp
        taken: list[Path] = []

        def mkdtemp(**how: object) -> str:
            folder = made(**how)
            if not taken:
                taken.append(Path(folder))
                work_folder._remove_abandoned(work / "tmp")
            return str(folder)

        monkeypatch.setattr(work_folder.tempfile, "mkdtemp", mkdtemp)
        with work_folder.work_folder(os.environ) as folder:
            assert not taken[0].exists()
            assert folder.temporary.is_dir()
        assert list((work / "tmp").iterdir()) == []

    def test_alone_its_compilers_are_left_in_peace(self, work: Path, own_compilers: Path, made: Path) -> None:
        for compiler in own_compilers.iterdir():
            compiler.write_text(compiler.read_text().replace("sleep 0.05", "sleep 1"))
        child = faults.started(lambda: fusebuild("compile", "recipes", *BOTH, "-j", "8", "-o", "out"))
        while not list((work / "tmp").glob("fusebuild-work-*/host/*.so")):
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "the build has ended"
            time.sleep(0.01)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        (left,) = (work / "tmp").glob("fusebuild-work-*")
        with (left / "lock").open() as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert compile_all().code == 0
        assert artifacts(work / "out") == artifacts(made / "build")

    def test_what_was_compiled_is_not_lost(self, work: Path, clean: Tree, empty_store: Path) -> None:
        child = faults.started(lambda: fusebuild("compile", "recipes", *BOTH, "-j", "1", "-o", "out"))
        while kernels_in(empty_store) < 2:
            assert os.waitpid(child, os.WNOHANG) == (0, 0), "the build has ended"
            time.sleep(0.001)
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        kept = kernels_in(empty_store)
        done = compile_all()
        assert f"compiled {6 - kept} of 6 objects" in done.out
        assert tree(work / "out") == clean


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """Where a disk can be mounted."""
    faults.require_small_disks(tmp_path / "disk")
    return tmp_path / "disk"


def check_that_it_says_what_is_full(done: Done, folder: Path | str) -> None:
    assert done.code == 1, done.err
    assert done.err.startswith("error: ")
    assert len(done.err.splitlines()) < 50
    first = done.err.splitlines()[0]
    assert (
        f"bytes are free in {folder}" in first
        or f"compilers had no room in {folder}" in first
        or ("No space left on device" in first and str(folder) in first)
    )


class TestFullDisk:
    @pytest.mark.parametrize("share", sampled([0.62, 0.1, 0.5, 0.98, 0.74, 0.86], 6))
    def test_for_what_is_built(self, disk: Path, work: Path, clean: Tree, share: float) -> None:
        """These compilers do what nvcc does: they leave what there is room for and exit 0."""
        takes = sum(-(-len(data) // 4096) * 4 for data in clean.values())

        def builds() -> tuple[Done, Tree, Done, Tree]:
            faults.enter_namespace()
            faults.mount_disk(disk, f"{int(takes * share)}k")
            first = fusebuild("compile", "recipes", *BOTH, "-o", "disk")
            left = artifacts(disk)
            faults.resize_disk(disk, "16m")
            return first, left, fusebuild("compile", "recipes", *BOTH, "-o", "disk"), artifacts(disk)

        first, left, second, right = forked(builds)
        check_that_it_says_what_is_full(first, "disk")
        wanted = shipped(clean)
        assert left.items() < wanted.items()
        assert (second.code, right) == (0, wanted)

    @pytest.mark.parametrize("share", sampled([0.5, 0.1, 0.9], 3))
    def test_for_what_is_compiled(
        self, disk: Path, work: Path, clean: Tree, empty_store: Path, share: float, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TMPDIR", str(disk))
        takes = sum(-(-len(data) // 4096) * 4 for name, data in clean.items() if "include" in name or ".fuse" in name)

        def builds() -> tuple[Done, Tree, Done, Tree]:
            faults.enter_namespace()
            faults.mount_disk(disk, f"{int(takes * share)}k")
            first = fusebuild("compile", "recipes", *BOTH, "-o", "out")
            left = artifacts(work / "out")
            faults.resize_disk(disk, "64m")
            return first, left, fusebuild("compile", "recipes", *BOTH, "-o", "out"), artifacts(work / "out")

        first, left, second, right = forked(builds)
        check_that_it_says_what_is_full(first, disk)
        assert left == {}
        assert (second.code, right) == (0, shipped(clean))

    def test_for_temporary_files(self, disk: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FUSEBUILD_CACHE_DIR", str(tmp_path / "cache"))
        monkeypatch.setenv("TMPDIR", str(disk))
        monkeypatch.chdir(made)
        out = tmp_path / "out"

        def builds() -> tuple[Done, Tree, Done, Tree]:
            faults.enter_namespace()
            faults.mount_disk(disk, "4k")
            first = fusebuild("compile", "recipes/tiny.yaml", "--arch", "host", "-o", out)
            left = artifacts(out)
            faults.resize_disk(disk, "64m")
            second = fusebuild("compile", "recipes/tiny.yaml", "--arch", "host", "-o", out)
            return first, left, second, artifacts(out)

        first, left, second, right = forked(builds)
        check_that_it_says_what_is_full(first, disk)
        assert re.match(rf"error: only \d+ bytes are free in {disk}\n", first.err)
        assert left == {}
        assert (second.code, list(right)) == (0, ["tiny.fuse", "SHA256SUMS"])

    def test_for_temporary_files_of_nvcc(
        self, disk: Path, made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TMPDIR", str(disk))
        monkeypatch.chdir(made)

        def build() -> Done:
            faults.enter_namespace()
            faults.mount_disk(disk, "4k")
            return fusebuild("compile", "recipes/tiny.yaml", "-o", tmp_path / "out")

        done = forked(build)
        check_that_it_says_what_is_full(done, disk)
        assert not (tmp_path / "out").exists()

    def test_for_the_cache_it_does_not_matter(
        self, disk: Path, work: Path, clean: Tree, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("FUSEBUILD_CACHE_DIR", str(disk))

        def build() -> tuple[Done, list[Path]]:
            faults.enter_namespace()
            faults.mount_disk(disk, "8k")
            (disk / "filler").write_bytes(bytes(4096))
            return fusebuild("compile", "recipes", *BOTH, "-o", "out"), list(disk.rglob("*.tmp"))

        done, halves = forked(build)
        assert (done.code, done.err, halves) == (0, "", [])
        assert tree(work / "out") == clean

    def test_for_a_dump(self, disk: Path, work: Path) -> None:
        def build() -> Done:
            faults.enter_namespace()
            faults.mount_disk(disk, "4k")
            return fusebuild("compile", "recipes", *BOTH, "-o", "out", "--dump", "disk/dump")

        done = forked(build)
        assert done.code == 2
        assert re.fullmatch(r"error: cannot write disk/dump/pair\S*: No space left on device\n", done.err)

    @pytest.mark.parametrize(
        ("suffix", "said"),
        [
            ("block.h", "error: cannot build in out: File too large (out/.fusebuild/include/fusebuild/host/"),
            (".so", "\nthe object is unusable: it is truncated: "),
            (".fuse", "error: out/pair.fuse: it cannot be written: File too large\n"),
        ],
    )
    def test_files_that_may_not_grow(self, work: Path, made: Path, clean: Tree, suffix: str, said: str) -> None:
        """The same where nothing can be mounted. The header is smaller than objects, and those than artifacts."""
        files = clean | tree(made / "ready objects")
        most = min(len(data) for name, data in files.items() if name.endswith(suffix)) - 1

        def build() -> Done:
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
            return fusebuild("compile", "recipes", *BOTH, "-o", "out")

        done = forked(build)
        assert done.code == 1
        assert said in done.err
        assert artifacts(work / "out") == {}
        assert compile_all().code == 0
        assert tree(work / "out") == clean


class TestReadOnly:
    def test_cache(self, disk: Path, work: Path, clean: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FUSEBUILD_CACHE_DIR", str(disk))

        def build() -> Done:
            faults.enter_namespace()
            faults.mount_disk(disk, "64k")
            faults.protect_disk(disk)
            return fusebuild("compile", "recipes", *BOTH, "-o", "out")

        done = forked(build)
        assert (done.code, done.err) == (0, "")
        assert tree(work / "out") == clean

    def test_a_file_in_the_place_of_the_cache(self, work: Path, clean: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
        (work / "file").touch()
        monkeypatch.setenv("FUSEBUILD_CACHE_DIR", str(work / "file"))
        done = compile_all()
        assert (done.code, done.err) == (0, "")
        assert tree(work / "out") == clean

    def test_what_is_built_needs_no_writing(self, disk: Path, work: Path) -> None:
        def builds() -> tuple[Done, Done, Done, Done]:
            faults.enter_namespace()
            faults.mount_disk(disk, "16m")
            built = fusebuild("compile", "recipes", *BOTH, "-o", "disk")
            faults.protect_disk(disk)
            again = fusebuild("compile", "recipes", *BOTH, "-o", "disk")
            checked = fusebuild("check", "recipes", "-o", "disk")
            (work / "recipes" / "tiny.yaml").write_text(TINY.replace("2.0", "3.0"))
            return built, again, checked, fusebuild("compile", "recipes", *BOTH, "-o", "disk")

        built, again, checked, changed = forked(builds)
        assert [built.code, again.code, checked.code] == [0, 0, 0]
        assert changed.code == 1
        assert changed.err.startswith("error: cannot build in disk: Read-only file system (")


class TestTwoAtOnce:
    def test_both_succeed_and_make_what_one_makes(self, work: Path, clean: Tree) -> None:
        command = [commands() / "fusebuild", "compile", "recipes", *BOTH, "-o", "out"]
        runs = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        said = [run.communicate(timeout=120) for run in runs]
        assert [run.returncode for run in runs] == [0, 0], said
        waiting = "fusebuild.system.folder_lock: waiting for another build in out/.fusebuild"
        assert {line for _, err in said for line in err.splitlines()} <= {waiting}
        assert tree(work / "out") == clean

    def test_each_of_its_own_recipe(self, work: Path, clean: Tree) -> None:
        children = [
            faults.started(lambda name=name: fusebuild("compile", f"recipes/{name}.yaml", *BOTH, "-o", "out"))  # type: ignore[misc]
            for name in ("tiny", "pair")
        ]
        for child in children:
            os.waitpid(child, 0)
        assert artifacts(work / "out") == shipped(clean)
        assert forked(lambda: fusebuild("compile", "recipes", *BOTH, "-o", "out", "--frozen")).code == 0


class TestSwappedCompiler:
    """Another one behind the same path, of the same size and time."""

    @pytest.mark.parametrize(
        ("variable", "edit", "changed"),
        [
            ("FUSEBUILD_NVCC", "s/V13[.]\\([0-9]\\)/V13.\\1/; s/Build cuda_/Build CUDA_/", ["sm_90"]),
            ("FUSEBUILD_CXX", "s/^\\([^ ]*\\) (/\\1 (not /", ["host", "sm_90"]),
        ],
    )
    def test_rebuilds(self, own_compilers: Path, variable: str, edit: str, changed: list[str]) -> None:
        path = own_compilers / variable
        usual = path.read_text() + f'# sed "{edit}"\n'
        other = usual.replace('exec "', '"', 1).replace('"$@" ;;', f'"$@" | sed "{edit}"; exit ;;', 1)
        size = len(other)
        for text in (other, usual):  # the usual one first would be as good
            path.write_text(text.ljust(size))
            os.utime(path, (1, 1))
            done = compile_all()
            assert done.code == 0, done.err
            assert "compiled 0 of" not in done.out
        path.write_text(other)
        os.utime(path, (1, 1))
        checked = forked(lambda: fusebuild("check", "recipes", "-o", "out"))
        lines = [
            f"recipes/{name}.yaml: stale: toolchain of {target} changed"
            for name in ("pair", "tiny")
            for target in changed
        ]
        assert (checked.code, checked.err.splitlines()) == (3, lines)
        again = compile_all()
        assert (again.code, again.out.splitlines()[-1][:18]) == (0, "compiled 0 of 6 ob")
        assert forked(lambda: fusebuild("check", "recipes", "-o", "out")).code == 0


def test_a_compiler_in_a_folder_of_any_name(made: Path, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = work / "a b$HOME`touch ran`:q\"'{{x}}"
    faults.use_compilers(faults.quick_compilers(folder, made / "build"), monkeypatch)
    on_host = forked(lambda: fusebuild("compile", "recipes", "--arch", "host", "-o", "host"))
    assert (on_host.code, on_host.err) == (0, "")
    done = compile_all()
    reason = "nvcc cannot be told to use it: it would give its name to a shell, which takes a part for a command"
    assert (done.code, done.err) == (5, f"error: the host compiler is {folder / 'FUSEBUILD_CXX'}: {reason}\n")
    monkeypatch.delenv("FUSEBUILD_CXX")
    assert compile_all().code == 0
    assert artifacts(work / "out") == artifacts(made / "build")
    assert list(work.rglob("ran")) == []


def test_a_cache_that_cannot_be_looked_for(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a home that is somebody else's; root may look into those."""
    monkeypatch.setenv("FUSEBUILD_CACHE_DIR", str(tmp_path / ("x" * 300)))
    done = fusebuild("compile", made / "recipes" / "tiny.yaml", "--arch", "host", "-o", tmp_path / "out")
    assert (done.code, done.err) == (0, "")
    checked = fusebuild("check", made / "recipes" / "tiny.yaml", "-o", tmp_path / "out")
    assert (checked.code, checked.err) == (0, "")
    assert fusebuild("doctor").code == 0
    long = tmp_path / ("x" * 300)
    assert fusebuild("check", made / "recipes" / "tiny.yaml", "-o", long).code == 3


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    previous = os.umask(0o077)
    yield tmp_path / "another folder"
    os.umask(previous)


def test_bytes_depend_on_neither_folder_nor_user(made: Path, elsewhere: Path, tmp_path: Path) -> None:
    shutil.copytree(made / "recipes", elsewhere / "recipes")
    (tmp_path / 't$HOME`id`"').mkdir()
    environ = os.environ | {
        "HOME": str(elsewhere), "USER": "nobody", "LOGNAME": "nobody", "TZ": "Asia/Kathmandu", "LC_ALL": "tr_TR.UTF-8",
        "LANG": "de_DE.ISO-8859-1", "PYTHONHASHSEED": "7", "TMPDIR": str(tmp_path / "t$HOME`id`\""),
        "SOURCE_DATE_EPOCH": "1", "PYTHONPATH": str(ROOT), "COLUMNS": "20", "CPATH": "/nowhere",
        "LD_RUN_PATH": "/nowhere", "CPLUS_INCLUDE_PATH": str(tmp_path / "include"),
        "DEPENDENCIES_OUTPUT": str(tmp_path / "dependencies"),
    }  # fmt: skip
    del environ["FUSEBUILD_CACHE_DIR"]
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "cmath").write_text("#include_next <cmath>\nint more = 1;\n")
    command = [sys.executable, "-m", "fusebuild.cli", "compile", "recipes/tiny.yaml", *BOTH, "-o", "out"]
    done = subprocess.run(command, cwd=elsewhere, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "compiled 2 of 2 objects" in done.stdout
    assert (elsewhere / "out" / "tiny.fuse").read_bytes() == (made / "build" / "tiny.fuse").read_bytes()
    assert not (tmp_path / "dependencies").exists()
