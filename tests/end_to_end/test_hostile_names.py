"""Folders of any name: whatever a shell makes of it, no command runs, and what is built there is as built elsewhere.

nvcc gives the names of files and of the folder that it runs in to a shell. So does the probe's, so names are tried as
the folder of the artifacts, as the temporary folder, as the cache and as the folder that a user is in."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from support.forkserver import commands
from support.sampled import sampled
from support.small_recipes import TINY

NAMES = [
    'a\\";touch PWNED;#', '";touch PWNED;#', "';touch PWNED;#", "a;touch PWNED", "a&touch PWNED&", "a|touch PWNED",
    "$(touch PWNED)", "`touch PWNED`", "${PWNED:?}", "$((1/0))", "$PATH", "a\\", "\\$(touch PWNED)", '"$(touch PWNED)"',
    "'$(touch PWNED)'", '\\"$(touch PWNED)\\"', "a\ntouch PWNED\n", "a\n$(touch PWNED)", "a\r\ntouch PWNED", "a\tb",
    " leading", "trailing ", "a b  c", "-o", "--help", "-rf", "#comment", "!history", "~", "~root", "*", "?[a-z]*",
    "{a,b}", "(touch PWNED)", "a>PWNED", "a<PWNED", "%PWNED%", "größer-日本語-🦀", "\x1b[31mred", "\udcff\udcfe",
    "a:b,c=d", "$$", "$in", "@file", "<(touch PWNED)", "a\\\\';touch PWNED;'\\", "\x07bell", "n" * 200,
]  # fmt: skip
"""Names of one folder each; ``\\udcff`` is a byte that is no UTF-8."""


@pytest.fixture(scope="module")
def whole(compilers: None, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The artifact, made in a folder of a plain name."""
    folder = tmp_path_factory.mktemp("plain")
    (folder / "tiny.yaml").write_text(TINY)
    compile_in(folder, "out", {"FUSEBUILD_CACHE_DIR": str(folder / "cache")})
    return (folder / "out" / "tiny.fuse").read_bytes()


def compile_in(folder: Path, out: str, more: dict[str, str]) -> str:
    command = [commands() / "fusebuild", "compile", "tiny.yaml", "--arch", "host,sm_90", f"--out={out}"]
    environ = os.environ | {"PYTHONIOENCODING": "utf-8:backslashreplace"} | more
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", sampled(NAMES, 16), ids=ascii)
def test_for_artifacts(name: str, whole: bytes, tmp_path: Path, empty_store: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY)
    said = compile_in(tmp_path, f"in/{name}", {})
    assert "compiled 2 of 2 objects" in said
    assert (tmp_path / "in" / name / "tiny.fuse").read_bytes() == whole
    assert "compiled 0 of 2 objects" in compile_in(tmp_path, f"in/{name}", {})
    assert list(tmp_path.rglob("PWNED*")) == []
    assert sorted(os.listdir(tmp_path)) == ["cache", "in", "tiny.yaml"]


@pytest.mark.parametrize("name", sampled(NAMES[::4], 8), ids=ascii)
def test_for_everything_else(name: str, whole: bytes, tmp_path: Path) -> None:
    """The folder that one is in, the temporary one, the cache and the home."""
    for each in ("here", "tmp", "cache", "home"):
        (tmp_path / each / name).mkdir(parents=True)
    here = tmp_path / "here" / name
    (here / "tiny.yaml").write_text(TINY)
    named = {"TMPDIR": "tmp", "TMP": "tmp", "FUSEBUILD_CACHE_DIR": "cache", "HOME": "home"}
    said = compile_in(here, "out", {variable: str(tmp_path / each / name) for variable, each in named.items()})
    assert "compiled 2 of 2 objects" in said
    assert (here / "out" / "tiny.fuse").read_bytes() == whole
    assert list(tmp_path.rglob("PWNED*")) == []
    assert list((tmp_path / "tmp" / name).iterdir()) == []
