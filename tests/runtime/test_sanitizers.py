"""The native executor under ThreadSanitizer, AddressSanitizer and UBSan: sixteen threads on the host backend, and
on the CUDA backend with a driver that computes on the CPU (``native/fake_cuda.cc``).
``make test-sanitizers`` runs these."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from fusebuild.artifact.plan import encode
from support import runtime_plans as plans
from support.places import NATIVE, ROOT

pytestmark = pytest.mark.exhaustive

SOURCES = ROOT / "fusebuild" / "runtime" / "native"
INCLUDE = ROOT / "templates" / "include"
TOGETHER = (
    "backend_cuda", "backend_host", "bind", "cuda_driver", "dtype", "executor", "formula", "json", "launch_graphs",
    "plan", "product_host", "resolve",
)  # fmt: skip
"""All but what Python sees. Compiled as one, they take 13 seconds of CPU time under AddressSanitizer, where one by one
they take 20."""

ALONE = ("cublaslt", "even_product")
"""Their handles, and ``Check`` of the one, have names that another file has, too."""

NUM_ARGS = {"scale": 9, "add_wide": 5, "add_narrow": 5}
SANITIZERS = {"threads": "thread", "memory": "address,undefined"}
COMPILER = ["g++", "-std=c++17", "-O0", "-g1", "-Wall", "-Wextra", "-Werror"]


@pytest.fixture(scope="module", params=SANITIZERS)
def sanitizer(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    return f"-fsanitize={SANITIZERS[name]}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sanitizer: str) -> Path:
    return tmp_path_factory.mktemp("sanitized")


@pytest.fixture(scope="module")
def programs(sanitizer: str, folder: Path) -> Path:
    """A folder with the executor and its tests, compiled to be watched."""
    spec = importlib.util.find_spec("tvm_ffi")
    assert spec is not None
    assert spec.origin is not None
    ffi = Path(spec.origin).parent
    # tvm-ffi's reference counts have fences, which ThreadSanitizer does not see and g++ warns of.
    compiler = [*COMPILER, sanitizer, "-Wno-tsan", "-fno-sanitize-recover=undefined", f"-I{SOURCES}", f"-I{INCLUDE}",
                "-isystem", ffi / "include"]  # fmt: skip
    libraries = [f"-L{ffi / 'lib'}", "-ltvm_ffi", f"-Wl,-rpath,{ffi / 'lib'}", "-ldl", "-pthread"]
    executor = folder / "libexecutor.so"
    together = folder / "together.cc"
    together.write_text("".join(f'#include "{SOURCES / name}.cc"\n' for name in TOGETHER))
    sources = [together, *(SOURCES / f"{name}.cc" for name in ALONE)]
    subprocess.run([*compiler, "-shared", "-fPIC", "-o", executor, *sources, *libraries], check=True)
    for name in ("executor_test", "launch_graphs_test"):
        source = NATIVE / f"{name}.cc"
        subprocess.run([*compiler, "-o", folder / name, source, executor, *libraries], check=True)
    shared(sanitizer, NATIVE / "fake_cuda.cc", folder / "libcuda.so.1")
    return folder


def shared(sanitizer: str, source: Path, output: Path) -> None:
    """Compile ``source`` into a shared object that is watched, too."""
    command = [*COMPILER, "-Wno-unused-parameter", sanitizer, "-shared", "-fPIC", "-o", output, source]
    subprocess.run(command, check=True)


@pytest.fixture(scope="module")
def arguments(sanitizer: str, folder: Path) -> dict[str, list[str | Path]]:
    """For each target, the plan and its kernels."""
    plan = plans.scale_add_plan()
    host: list[str | Path] = ["host", folder / "host.json"]
    cuda: list[str | Path] = ["sm_90", folder / "sm_90.json"]
    (folder / "host.json").write_bytes(encode(plan))
    on_cuda = msgspec.structs.replace(plan.targets[0], target="sm_90")
    (folder / "sm_90.json").write_bytes(encode(msgspec.structs.replace(plan, targets=(on_cuda,))))
    for name, num_args in NUM_ARGS.items():
        source, output = folder / f"{name}.cc", folder / f"{name}.so"
        source.write_text(plans.ENTRY + plans.KERNELS[name])
        shared(sanitizer, source, output)
        (folder / f"{name}.cubin").write_text(f"{output} {num_args}")
        host += [name, output]
        cuda += [name, folder / f"{name}.cubin"]
    return {"host": host, "sm_90": cuda}


def run(programs: Path, name: str, arguments: list[str | Path]) -> tuple[int, str, str]:
    # With more random bits in addresses than it was made for, ThreadSanitizer does not start.
    fixed_addresses = ["setarch", platform.machine(), "-R"]
    environ = os.environ | {"LD_LIBRARY_PATH": str(programs)}
    command = [*fixed_addresses, programs / name, *arguments]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("target", ["host", "sm_90"])
def test_sixteen_threads_give_a_sanitizer_nothing_to_say(
    programs: Path, arguments: dict[str, list[str | Path]], target: str
) -> None:
    assert run(programs, "executor_test", arguments[target]) == (0, "0 wrong\n0 wrong\n", "")


def test_calls_that_come_again_are_launched_as_graphs(programs: Path, arguments: dict[str, list[str | Path]]) -> None:
    assert run(programs, "launch_graphs_test", arguments["sm_90"]) == (0, "", "")
