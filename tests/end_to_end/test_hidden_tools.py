"""What an artifact needs of the machine that it runs on: Python, fusebuild's own library, and nothing else.

Each test runs in a process that finds no program, no home, no network and no folder to write to. It ends at once, with
exit code 70, where it tries to have any of them; no ``except`` hides that.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.host_artifacts import compile_for_host
from support.side_tower import in_side_tower
from support.small_recipes import PAIR

BARE = """
import os, sys
REFUSED = {"subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system",
           "socket.bind", "socket.connect", "socket.getaddrinfo", "os.mkdir", "os.rename", "tempfile.mkstemp"}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC

def refuse(event, args):
    if event in REFUSED or event == "open" and args[2] & WRITES:
        os.write(2, f"{event} {args[:2]}".encode())
        os._exit(70)

sys.addaudithook(refuse)
"""

NO_TORCH = "sys.modules['torch'] = None"

SIDE = {"jinja2", "yaml", "click", "ninja", "networkx", "setuptools", "distutils", "torch.utils.cpp_extension"}
"""What only building needs."""

LOADED = """
own = {name.removeprefix("fusebuild.") for name in sys.modules if name.startswith("fusebuild.")}
print(" ".join(sorted(own)), " ".join(sorted(SIDE & sys.modules.keys())), sep="|")
"""


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(tmp_path_factory.mktemp("artifact"), {"pair": PAIR}) / "pair.fuse"


@pytest.fixture
def bare(tmp_path: Path) -> Mapping[str, object]:
    """How a process is started that has nothing."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    folder.chmod(0o555)
    environment = {"PATH": "", "HOME": str(tmp_path / "nowhere"), "TMPDIR": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
    return {"cwd": folder, "env": environment, "capture_output": True, "text": True, "timeout": 60}


def run(bare: Mapping[str, object], *code: str) -> tuple[int, str, str]:
    program = "\n".join([BARE, f"SIDE = {SIDE!r}", *code])
    done = subprocess.run([sys.executable, "-c", program], **bare)  # type: ignore[call-overload]
    return done.returncode, done.stdout, done.stderr


def test_importing_needs_nothing(bare: Mapping[str, object]) -> None:
    assert run(bare, "import fusebuild", LOADED) == (0, "|\n", "")


def test_an_artifact_runs_where_there_is_nothing_else(bare: Mapping[str, object], artifact: Path) -> None:
    code = f"""
{NO_TORCH}
import fusebuild, numpy
plan = fusebuild.load({str(artifact)!r}, target="host")
x = numpy.arange(15, dtype=numpy.float32).reshape(3, 5)
print(numpy.from_dlpack(plan(x)).tolist(), plan.variants_for(x))
try:
    fusebuild.load("nowhere.fuse")
except fusebuild.ArtifactError as error:
    print(error)
"""
    status, output, errors = run(bare, code, LOADED)
    assert (status, errors) == (0, "")
    result, missing, modules = output.splitlines()
    assert result == "[20.0, 70.0, 120.0] ((0,), (0,))"
    assert missing == "nowhere.fuse: it cannot be read: No such file or directory"
    own, side = modules.split("|")
    assert [name for name in own.split() if not in_side_tower(name)] == []
    assert side == ""


def test_so_it_does_on_tensors_of_torch(bare: Mapping[str, object], artifact: Path) -> None:
    pytest.importorskip("torch")
    code = f"""
import fusebuild, torch
plan = fusebuild.load({str(artifact)!r}, target="host")
x = torch.arange(15.0).view(3, 5)
print(plan(x), plan(x, out=torch.empty(3)))
"""
    status, output, errors = run(bare, code, LOADED)
    assert (status, errors) == (0, "")
    results, modules = output.splitlines()
    assert results == "tensor([ 20.,  70., 120.]) tensor([ 20.,  70., 120.])"
    own, side = modules.split("|")
    assert [name for name in own.split() if not in_side_tower(name)] == []
    assert side == ""


@pytest.mark.parametrize(
    ("attempt", "event"),
    [
        ("import subprocess; subprocess.run(['/bin/true'])", "subprocess.Popen "),
        ("import socket; socket.socket().connect(('127.0.0.1', 9))", "socket.connect "),
        ("open('file', 'w')", "open ('file', 'w')"),
        ("os.makedirs('a/b')", "os.mkdir "),
    ],
)
def test_there_really_is_nothing(bare: Mapping[str, object], attempt: str, event: str) -> None:
    status, _, errors = run(bare, f"try:\n    {attempt}\nexcept BaseException: print('hidden')")
    assert status == 70
    assert errors.startswith(event)
