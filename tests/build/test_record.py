"""The record of a build that was damaged: it is known for what it is, believed in nothing, and made anew."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from fusebuild.build.build_dir import BuildDir
from fusebuild.build.record import find_record
from support.faults import Done, fusebuild
from support.forkserver import commands
from support.sampled import sampled
from support.small_recipes import write_tiny_and_pair

HOST = ("--arch", "host")
DAMAGED = "build/.fusebuild/record.json: it is damaged"
NOT_COMPARED = "machine code is not compared with what was recorded"
UNKNOWN = "machine code of 2 not compared: the record"


@pytest.fixture(scope="module")
def built(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("record")
    write_tiny_and_pair(folder)
    done = fusebuild("compile", folder / "recipes", *HOST, "-o", folder / "build")
    assert (done.code, done.err) == (0, "")
    return folder


@pytest.fixture
def work(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy to change, and to be in."""
    copy = Path(shutil.copytree(built, tmp_path / "work"))
    monkeypatch.chdir(copy)
    assert fusebuild("compile", "recipes", *HOST).code == 0
    return copy


def record(folder: Path) -> Path:
    return BuildDir(root=folder / "build").record


def check(*options: str) -> Done:
    return fusebuild("check", "recipes", *options)


def flip(data: bytearray, chance: random.Random) -> bytes:
    data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    return bytes(data)


def cut(data: bytearray, chance: random.Random) -> bytes:
    return bytes(data[: chance.randrange(len(data))])


def zero(data: bytearray, chance: random.Random) -> bytes:
    start = chance.randrange(len(data))
    length = min(chance.randrange(1, 4096), len(data) - start)
    data[start : start + length] = bytes(length)
    return bytes(data)


DAMAGES: tuple[Callable[[bytearray, random.Random], bytes], ...] = (flip, flip, cut, zero)
TRIES = 2000
TRIES_OF_COMMANDS = 10
"""Of each of both commands for a seed, each with a damage of its own."""


def test_any_damage_is_known(work: Path) -> None:
    whole, chance = record(work).read_bytes(), random.Random(21)
    for number in range(TRIES):
        damaged = DAMAGES[number % len(DAMAGES)](bytearray(whole), chance)
        record(work).write_bytes(damaged)
        found = find_record(BuildDir(root=work / "build"))
        assert (found.problem, found.record.recipes) == ("it is damaged", {}), damaged


@pytest.mark.parametrize("seed", sampled(range(22, 32), 5))
def test_check_says_it_and_compile_heals_it(seed: int, work: Path, caplog: pytest.LogCaptureFixture) -> None:
    whole, chance = record(work).read_bytes(), random.Random(seed)
    for _ in range(TRIES_OF_COMMANDS):
        record(work).write_bytes(chance.choice(DAMAGES)(bytearray(whole), chance))
        caplog.clear()
        assert check() == Done(0, f"2 fresh, 0 stale; {UNKNOWN} is damaged\n", "")
        assert caplog.messages == [f"{NOT_COMPARED}: {DAMAGED}"]
        record(work).write_bytes(chance.choice(DAMAGES)(bytearray(whole), chance))
        healed = fusebuild("compile", "recipes", *HOST)
        assert healed.code == 0, healed.err
        assert caplog.messages[1:] == [f"everything is planned again: {DAMAGED}"]
        assert record(work).read_bytes() == whole
    assert check() == Done(0, "2 fresh, 0 stale\n", "")


@pytest.mark.parametrize(
    ("old", "new"), [(b'"host"', b'"hmst"'), (b'"artifact":"', b'"artifact":"0'), (b"tiny", b"\xffiny")]
)
def test_what_would_still_be_read_is_not_believed(work: Path, old: bytes, new: bytes) -> None:
    data = record(work).read_bytes()
    assert old in data
    record(work).write_bytes(data.replace(old, new, 1))
    assert check().out == f"2 fresh, 0 stale; {UNKNOWN} is damaged\n"
    assert {row["machine_code"] for row in json.loads(check("--json").out)} == {"not compared: the record is damaged"}


def test_compiling_again_needs_no_record(work: Path) -> None:
    record(work).write_bytes(record(work).read_bytes().replace(b"tiny", b"\xffiny"))
    assert check("--rebuild").out == "2 fresh, 0 stale\n"


def test_it_is_said_on_stderr(work: Path) -> None:
    record(work).write_bytes(record(work).read_bytes()[:-1])
    command = [commands() / "fusebuild", "check", "recipes"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"2 fresh, 0 stale; {UNKNOWN} is damaged\n")
    assert done.stderr == f"fusebuild.freshness.check: {NOT_COMPARED}: {DAMAGED}\n"


def test_one_that_cannot_be_read_is_said_too(work: Path, caplog: pytest.LogCaptureFixture) -> None:
    record(work).unlink()
    record(work).mkdir()
    assert check().out == f"2 fresh, 0 stale; {UNKNOWN} cannot be read\n"
    assert caplog.messages == [f"{NOT_COMPARED}: build/.fusebuild/record.json: Is a directory"]
    codes = {row["machine_code"] for row in json.loads(check("--json").out)}
    assert codes == {"not compared: the record cannot be read"}


def test_one_from_before_there_were_seals_counts_as_none(work: Path) -> None:
    sealed = json.loads(record(work).read_bytes())
    record(work).write_text(json.dumps(sealed["record"], separators=(",", ":")))
    said = check()
    assert said == Done(0, "2 fresh, 0 stale; machine code of 2 not compared: no record of a build here\n", "")
    assert fusebuild("compile", "recipes", *HOST).err == ""
    assert check() == Done(0, "2 fresh, 0 stale\n", "")
