"""The store of objects: what is damaged is compiled again, what is old goes first, and nothing depends on it."""

from __future__ import annotations

import json
import os
import random
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fusebuild.build.object_store import DEFAULT_LIMIT, CompiledObject, ObjectStore, parse_size, user_store
from fusebuild.errors import UsageError
from support import faults
from support.faults import forked, fusebuild
from support.own_cache import copy_objects, own_cache
from support.sampled import sampled
from support.small_recipes import write_tiny_and_pair

BOTH = ("--arch", "host,sm_90")


@pytest.fixture(scope="module")
def made(compilers: None, cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with recipes, a cache of its own and what real compilers make from them."""
    folder = tmp_path_factory.mktemp("made")
    write_tiny_and_pair(folder)
    own_cache(folder, cache)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FUSEBUILD_CACHE_DIR", str(folder / "cache"))
        done = fusebuild("compile", folder / "recipes", *BOTH, "-o", folder / "build")
    assert done.code == 0, done.err
    return folder


@pytest.fixture
def quick(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compilers that make what others made before."""
    faults.use_compilers(faults.quick_compilers(tmp_path / "compilers", made / "build"), monkeypatch)


@pytest.fixture
def store(made: Path, empty_store: Path) -> Path:
    """A copy of its objects, in the cache that is used."""
    return copy_objects(made / "cache", empty_store)


def objects(store: Path) -> list[Path]:
    return sorted(path for path in store.rglob("*") if path.is_file())


def artifacts(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("*.fuse")}


def flip(data: bytearray, random: random.Random) -> bytearray:
    data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return data


def zero_page(data: bytearray, random: random.Random) -> bytearray:
    page = random.randrange(-(-len(data) // 4096)) * 4096
    data[page : page + 4096] = bytes(len(data[page : page + 4096]))
    return data


def truncate(data: bytearray, random: random.Random) -> bytearray:
    return data[: random.randrange(len(data))]


def lengthen(data: bytearray, random: random.Random) -> bytearray:
    return data + random.randbytes(random.randrange(1, 5000))


def damage_digest(data: bytearray, random: random.Random) -> bytearray:
    data[random.randrange(32)] ^= 0xFF
    return data


def zero_digest(data: bytearray, random: random.Random) -> bytearray:
    data[:32] = bytes(32)
    return data


def damage_log(data: bytearray, random: random.Random) -> bytearray:
    """Another count of registers, where ptxas said one."""
    return bytearray(bytes(data).replace(b"Used ", b"Used 1")) if b"Used " in data else flip(data, random)


def damage_end(data: bytearray, random: random.Random) -> bytearray:
    data[-1] ^= 1
    return data


def swap_bytes(data: bytearray, random: random.Random) -> bytearray:
    first, second = sorted(random.sample(range(len(data)), 2))
    data[first], data[second] = data[second] ^ 1, data[first]
    return data


def garbage(data: bytearray, random: random.Random) -> bytearray:
    return bytearray(random.randbytes(len(data)))


DAMAGES: list[Callable[[bytearray, random.Random], bytearray]] = [
    flip, flip, flip, flip, zero_page, zero_page, truncate, truncate, lengthen, damage_digest, zero_digest, damage_log,
    damage_end, swap_bytes, garbage,
]  # fmt: skip
ROUNDS = 6


class TestDamage:
    @pytest.mark.parametrize("number", sampled(range(ROUNDS), ROUNDS))
    def test_damaged_objects_are_compiled_again(
        self, number: int, made: Path, store: Path, quick: None, tmp_path: Path
    ) -> None:
        """Every object of the store, each in another way: ten damages a round and more."""
        generator, damaged = random.Random(number), 0
        for damage in DAMAGES[number::2]:
            for path in generator.sample(objects(store), 2):
                whole = path.read_bytes()
                changed = bytes(damage(bytearray(whole), generator))
                path.write_bytes(changed)
                damaged += changed != whole
            done = forked(lambda: fusebuild("compile", made / "recipes", *BOTH, "-o", tmp_path / "out"))
            assert (done.code, done.err) == (0, "")
            assert artifacts(tmp_path / "out") == artifacts(made / "build")
            shutil.rmtree(tmp_path / "out")
        assert damaged >= 10

    def test_objects_in_each_others_place(self, made: Path, store: Path, quick: None, tmp_path: Path) -> None:
        for target in ("host", "sm_90"):
            own = objects(store / target)
            contents = [path.read_bytes() for path in own]
            for path, data in zip(own, contents[1:] + contents[:1], strict=True):
                path.write_bytes(data)
        done = fusebuild("compile", made / "recipes", *BOTH, "-o", tmp_path / "out")
        assert (done.code, done.err) == (0, "")
        assert "compiled 6 of 6 objects" in done.out
        assert artifacts(tmp_path / "out") == artifacts(made / "build")

    def test_whole_ones_are_not(self, made: Path, store: Path, tmp_path: Path) -> None:
        done = fusebuild("compile", made / "recipes", *BOTH, "-o", tmp_path / "out")
        assert "compiled 0 of 6 objects" in done.out
        assert artifacts(tmp_path / "out") == artifacts(made / "build")

    def test_folders_and_links_to_nowhere_in_their_place(self, made: Path, store: Path, tmp_path: Path) -> None:
        first, second, *_ = objects(store)
        for path in (first, second):
            path.unlink()
        first.mkdir()
        second.symlink_to("/nowhere")
        done = fusebuild("compile", made / "recipes", *BOTH, "-o", tmp_path / "out")
        assert (done.code, done.err) == (0, "")
        assert artifacts(tmp_path / "out") == artifacts(made / "build")


def an_object(name: str, size: int = 1000) -> CompiledObject:
    return CompiledObject(name=f"host/{name}", data=bytes(size), log="")


class TestKeeping:
    def test_what_was_not_used_for_longest_goes_first(self, tmp_path: Path) -> None:
        store = ObjectStore(root=tmp_path)
        for age, name in enumerate("abcd"):
            store.put(an_object(name))
            os.utime(tmp_path / "host" / name, (age, age))
        assert store.get("host/a") == an_object("a")  # which uses it
        size = (tmp_path / "host" / "a").stat().st_size
        assert store.prune(2 * size).files == 2
        assert sorted(os.listdir(tmp_path / "host")) == ["a", "d"]
        assert store.prune(2 * size).files == 0
        assert store.prune(0).files == 2

    def test_a_build_keeps_no_more_than_the_limit(
        self, made: Path, empty_store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        limit = sum(path.stat().st_size for path in objects(made / "cache" / "objects" / "host")) - 1
        monkeypatch.setenv("FUSEBUILD_CACHE_BYTES", str(limit))
        assert fusebuild("compile", made / "recipes", "--arch", "host", "-o", tmp_path / "out").code == 0
        assert len(objects(empty_store)) == 2

    def test_half_a_file_is_none(self, tmp_path: Path) -> None:
        store = ObjectStore(root=tmp_path)
        (tmp_path / "host").mkdir()
        (tmp_path / "host" / ".a.1.1.tmp").write_bytes(b"half")
        assert store.get("host/a") is None
        assert store.prune(0).files == 1

    def test_what_cannot_be_read_is_replaced(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def refused(path: Path) -> bytes:
            raise PermissionError(13, "Permission denied", str(path))

        store = ObjectStore(root=tmp_path)
        (tmp_path / "host").mkdir()
        (tmp_path / "host" / "a").write_bytes(b"another user's")
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", refused)
            store.put(an_object("a"))
        assert store.get("host/a") == an_object("a")

    @pytest.mark.parametrize(("text", "size"), [("0", 0), ("500M", 500 * 2**20), ("2g", 2**31), ("10KiB", 10240)])
    def test_sizes(self, text: str, size: int) -> None:
        assert parse_size(text) == size
        assert user_store({"FUSEBUILD_CACHE_BYTES": text}).limit == size

    @pytest.mark.parametrize("text", ["", "-1", "2X", "many", "1e9", "9" * 99])
    def test_what_is_no_size(self, text: str) -> None:
        with pytest.raises(UsageError, match="is no size such as 2G, 500M or 0"):
            parse_size(text)

    def test_the_default(self) -> None:
        assert user_store({"FUSEBUILD_CACHE_BYTES": ""}).limit == DEFAULT_LIMIT == 2 * 2**30


@pytest.fixture
def unwritable(tmp_path: Path) -> Iterator[Path]:
    """A folder that nobody can write to; root can, so there it is a file."""
    folder = tmp_path / "unwritable"
    if os.geteuid():
        folder.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)
    else:
        folder.touch()
    yield folder
    folder.chmod(stat.S_IRWXU)


def test_without_a_cache_builds_are_only_slower(
    made: Path, quick: None, unwritable: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FUSEBUILD_CACHE_DIR", str(unwritable))
    for out in ("first", "second"):
        done = fusebuild("compile", made / "recipes", *BOTH, "-o", tmp_path / out)
        assert (done.code, done.err) == (0, "")
        assert "compiled 6 of 6 objects" in done.out
        assert artifacts(tmp_path / out) == artifacts(made / "build")


class TestCommand:
    def test_shows_and_prunes(self, store: Path) -> None:
        shown = json.loads(fusebuild("cache", "--json").out)
        assert (shown["folder"], shown["limit"], shown["removed"]) == (str(store.parent), DEFAULT_LIMIT, None)
        (held,) = [each for each in shown["folders"] if each["name"] == "objects"]
        assert held == {"name": "objects", "files": 6, "bytes": sum(path.stat().st_size for path in objects(store))}
        assert json.loads(fusebuild("cache", "--prune", "--json").out)["removed"]["files"] == 0
        done = fusebuild("cache", "--prune", "0")
        assert done.out.splitlines()[0] == f"removed 6 objects, {held['bytes']:,} bytes"
        assert objects(store) == []

    def test_of_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("FUSEBUILD_CACHE_DIR", str(tmp_path / "none"))
        done = fusebuild("cache", "--prune", "1G")
        assert (done.code, done.err) == (0, "")
        assert not (tmp_path / "none").exists()

    def test_of_what_is_no_size(self, monkeypatch: pytest.MonkeyPatch) -> None:
        done = fusebuild("cache", "--prune", "lots")
        assert (done.code, done.err) == (2, "error: 'lots' is no size such as 2G, 500M or 0\n")
        monkeypatch.setenv("FUSEBUILD_CACHE_BYTES", "lots")
        done = fusebuild("cache")
        assert (done.code, done.err) == (2, "error: FUSEBUILD_CACHE_BYTES: 'lots' is no size such as 2G, 500M or 0\n")
