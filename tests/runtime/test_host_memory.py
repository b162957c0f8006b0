"""What host plans leave behind in a process: nothing. Stacks belong to threads, libraries unload, and where there is
no memory a call is an error."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fusebuild.errors import ArtifactError
from fusebuild.runtime.loader import load_artifact
from support import runtime_plans as plans
from support.host_artifacts import compile_for_host
from support.small_recipes import text_of

RECIPE = text_of({"x": "float[M, N]"}, "y = x / sum(x, dims=[1], keepdim=True)", {"y": ""}, name="rows",
                 cases="M: 8, N: 4096")  # fmt: skip

COMMON = """
import gc, json, resource, sys, threading
sys.modules["torch"] = None  # it has memory of its own
import numpy
from fusebuild import load

path = sys.argv[1]
x = numpy.ones((8, 4096), numpy.float32)

def call(path=path):
    return numpy.from_dlpack(load(path, target="host")(x))

def use():
    status = dict(line.split(":", 1) for line in open("/proc/self/status"))
    lines = sum(1 for _ in open("/proc/self/maps"))
    return [lines, *(int(status[name].split()[0]) for name in ("VmSize", "VmRSS"))]
"""

LOOP = """
for _ in range(20):
    call()
before = use()
for _ in range(int(sys.argv[2])):
    call()
gc.collect()
print(json.dumps([before, use()]))
"""

THREADS = """
def once():
    thread = threading.Thread(target=call)
    thread.start()
    thread.join()

for _ in range(20):
    once()
before = use()
for _ in range(int(sys.argv[2])):
    once()
gc.collect()
print(json.dumps([before, use()]))
"""

LITTLE = """
plan = load(path, target="host")
def limited(room):
    resource.setrlimit(resource.RLIMIT_AS, (use()[1] * 1024 + room, resource.RLIM_INFINITY))
out = numpy.empty_like(x)
met = []
for room in (1 << 20, 4 << 20, 9 << 20):
    limited(room)
    try:
        plan(x, out=out)
    except MemoryError as error:
        met.append(str(error))
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
plan(x, out=out)
print(json.dumps([met, float(out.sum())]))
"""


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(tmp_path_factory.mktemp("memory"), {"rows": RECIPE}) / "rows.fuse"


def run(code: str, *arguments: object) -> list[object]:
    pytest.importorskip("numpy")
    command = [sys.executable, "-c", COMMON + code, *map(str, arguments)]
    # glibc gives threads 64 MiB each to allocate from, or shares what it gave before, as it happens
    environment = os.environ | {"MALLOC_ARENA_MAX": "1"}
    child = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert child.returncode == 0, child.stderr
    result = json.loads(child.stdout)
    assert isinstance(result, list)
    return result


@pytest.mark.parametrize("code", [LOOP, THREADS], ids=["one thread", "threads that end"])
def test_what_was_loaded_and_called_is_gone(code: str, artifact: Path) -> None:
    """Address space grew by 128 MiB with every load."""
    (lines, size, resident), (lines_after, size_after, resident_after) = run(code, artifact, 200)
    assert lines_after <= lines + 20
    assert size_after <= size + 20 * 1024  # KiB: heaps of threads come and go
    assert resident_after <= resident + 8 * 1024


def test_without_room_for_stacks_a_call_is_an_error(artifact: Path) -> None:
    """It ended the process."""
    met, total = run(LITTLE, artifact)
    assert met
    assert all("there is no memory for its threads' stacks and shared memory" in str(words) for words in met)
    assert total == pytest.approx(8.0)


OLDER = """
#include <cstdint>
extern "C" int32_t fusebuild_host_twice(const int64_t*, const int32_t*, int64_t, void**) { return 0; }
"""


def test_objects_that_bring_their_own_stacks_are_refused(tmp_path: Path) -> None:
    source, output = tmp_path / "twice.cc", tmp_path / "twice.so"
    source.write_text(OLDER)
    subprocess.run(["g++", "-shared", "-fPIC", "-o", str(output), str(source)], check=True)
    objects = {"twice": output.read_bytes()}
    artifact = plans.HandMadeArtifact(path=Path("a.fuse"), plan=plans.broadcast_plan(), objects=objects)
    with pytest.raises(ArtifactError, match="kernel twice: the shared object was made by an older fusebuild; compile"):
        load_artifact(artifact, target="host")
