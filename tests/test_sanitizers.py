"""The native executor under ThreadSanitizer, AddressSanitizer and UBSan: sixteen threads on the host backend."""

from __future__ import annotations

import importlib.util
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
import runtime_plans as plans

from fusebuild.plan import encode

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "fusebuild" / "runtime" / "native"
NEEDED = ("backend_host", "bind", "dtype", "executor", "formula", "json", "plan", "product_host", "resolve")
"""All but what calls CUDA and what Python sees."""

SANITIZERS = {"threads": "thread", "memory": "address,undefined"}
COMPILER = ["g++", "-std=c++17", "-O0", "-g1", "-Wall", "-Wextra", "-Werror"]


@pytest.fixture(scope="module", params=sorted(SANITIZERS))
def sanitizer(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    return f"-fsanitize={SANITIZERS[name]}"


@pytest.fixture(scope="module")
def program(sanitizer: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The executor and its test, compiled to be watched."""
    spec = importlib.util.find_spec("tvm_ffi")
    assert spec is not None
    assert spec.origin is not None
    ffi = Path(spec.origin).parent
    output = tmp_path_factory.mktemp("program") / "executor_test"
    files = [ROOT / "tests" / "native" / "executor_test.cc", *(SOURCES / f"{name}.cc" for name in NEEDED)]
    subprocess.run(
        # tvm-ffi's reference counts have fences, which ThreadSanitizer does not see and g++ warns of.
        [*COMPILER, sanitizer, "-Wno-tsan", "-fno-sanitize-recover=undefined", "-o", output, f"-I{SOURCES}",
         "-isystem", ffi / "include", *files, f"-L{ffi / 'lib'}", "-ltvm_ffi", f"-Wl,-rpath,{ffi / 'lib'}",
         "-ldl", "-pthread"],
        check=True,
    )  # fmt: skip
    return output


@pytest.fixture(scope="module")
def arguments(sanitizer: str, tmp_path_factory: pytest.TempPathFactory) -> list[str | Path]:
    """The plan and its kernels, which are watched too."""
    folder = tmp_path_factory.mktemp("kernels")
    (folder / "plan.json").write_bytes(encode(plans.scale_add_plan()))
    arguments: list[str | Path] = [folder / "plan.json"]
    for name in ("scale", "add_wide", "add_narrow"):
        source, output = folder / f"{name}.cc", folder / f"{name}.so"
        source.write_text(plans.ENTRY + plans.KERNELS[name])
        command = [*COMPILER, "-Wno-unused-parameter", sanitizer, "-shared", "-fPIC", "-o", output, source]
        subprocess.run(command, check=True)
        arguments += [name, output]
    return arguments


def test_sixteen_threads_give_a_sanitizer_nothing_to_say(program: Path, arguments: list[str | Path]) -> None:
    # With more random bits in addresses than it was made for, ThreadSanitizer does not start.
    fixed_addresses = ["setarch", platform.machine(), "-R"]
    done = subprocess.run([*fixed_addresses, program, *arguments], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 wrong\n0 wrong\n", "")
