"""What goes wrong around a plan: processes that fork, drivers that are old, devices that do not fit, tensors that have
no memory, and machines that have nothing but the artifact.

The CUDA backend runs here without a GPU: ``native/fake_cuda.cc`` plays the driver, in processes of their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support import runtime_plans as plans
from support.forked import FORKED
from support.places import ROOT, TESTS

NO_TORCH = "import sys; sys.modules['torch'] = None"
"""It takes seconds to import, and has no CUDA here."""

COMPILER = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-shared", "-fPIC"]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a driver that runs on the CPU, and the kernels for it."""
    folder = tmp_path_factory.mktemp("driver")
    subprocess.run([*COMPILER, "-o", folder / "libcuda.so.1", TESTS / "native" / "fake_cuda.cc"], check=True)
    for name in ("scale", "add_wide", "add_narrow", "increment", "fill"):
        source = folder / f"{name}.cc"
        source.write_text(plans.ENTRY + plans.KERNELS[name])
        subprocess.run([*COMPILER, "-o", folder / f"{name}.so", source], check=True)
    return folder


def run(driver: Path, code: str, **fake: str) -> list[str]:
    """The lines that ``code`` prints in a process that takes the library in ``driver`` for CUDA's driver. ``fake`` sets
    what native/fake_cuda.cc describes."""
    settings = {f"FAKE_CUDA_{name.upper()}": value for name, value in fake.items()}
    done = subprocess.run(
        [sys.executable, "-c", f"{NO_TORCH}\nfrom support.faked_cuda import *\n{code}"],
        env=os.environ | settings | {"LD_LIBRARY_PATH": str(driver)},
        cwd=TESTS,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


OPERANDS = """
plan = open_plan(plans.scale_add_plan())
x, y, bias = filled((5, 8), 3.0), filled((5, 8), 1.0), np.array(0.5, np.float32)
"""


def test_plans_run_on_the_cuda_backend(driver: Path) -> None:
    code = "z, which = plan(x, y, 2.0, bias)\nprint(plan.target, z.device, set(numbers(z)))"
    assert run(driver, OPERANDS + code) == ["sm_90 cuda:0 {7.5}"]


def test_only_launches_that_are_several_become_a_graph(driver: Path) -> None:
    code = """
plan, graphs = open_plan(plans.overlapping_plan()), ctypes.CDLL("libcuda.so.1").FakeCudaGraphLaunches
for size in (3, 4):  # of fewer than four numbers the first launch has none
    x = filled((size,), 0.0)
    before = graphs()
    for _ in range(100):
        plan(x)
    print(size, set(numbers(x)), graphs() > before)
"""
    assert run(driver, code) == ["3 {100.0} False", "4 {200.0} True"]


class TestFork:
    """In a forked child every call of the driver aborts, so what gets this far has made none."""

    IN_A_CHILD = """
def in_a_child(action):
    child = os.fork()
    if child:
        return print("exit code", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    try:
        action()
    finally:
        sys.stdout.flush()
        os._exit(0)
"""

    def test_a_child_of_a_process_that_uses_cuda_is_refused_clearly(self, driver: Path) -> None:
        code = """
def child():
    global x, plan
    say(lambda: plan(x, y, 2.0, bias))
    say(lambda: plan("not even a tensor"))
    say(lambda: open_plan(plans.scale_add_plan()))
    say(lambda: open_plan(plans.scale_add_plan(), target="sm_90"))
    x = plan = None  # no memory is given back and no graph of launches: they are the parent's
    in_a_child(lambda: say(lambda: open_plan(plans.increment_plan())))

for _ in range(100):
    plan(x, y, 2.0, bias)
in_a_child(child)
print(set(numbers(plan(x, y, 2.0, bias)[0])))
"""
        lines = run(driver, self.IN_A_CHILD + OPERANDS + code)
        assert lines == [*[FORKED] * 5, "exit code 0", "exit code 0", "{7.5}"]

    def test_so_is_one_where_somebody_else_initialized_cuda(self, driver: Path) -> None:
        code = """
ctypes.CDLL("libcuda.so.1").cuInit(0)
in_a_child(lambda: say(lambda: open_plan(plans.scale_add_plan())))
say(lambda: open_plan(plans.scale_add_plan()))
"""
        assert run(driver, self.IN_A_CHILD + code) == [FORKED, "exit code 0", "no error"]

    def test_compiling_for_the_current_device_is_refused_too(self, driver: Path) -> None:
        recipe = str(ROOT / "recipes" / "softmax.yaml")
        code = f"import fusebuild\nin_a_child(lambda: say(lambda: fusebuild.compile({recipe!r})))"
        assert run(driver, self.IN_A_CHILD + OPERANDS + code) == [FORKED, "exit code 0"]

    def test_plans_for_the_host_run_in_parent_and_child(self, driver: Path) -> None:
        code = """
on_host = open_plan(plans.scale_add_plan(), made_for="host", target="host")
ones = np.ones((5, 8), np.float32)
def check():
    fresh = open_plan(plans.scale_add_plan(), made_for="host", target="host")
    print(*({*np.from_dlpack(each(ones, ones, 2.0, bias)[0]).flat} == {3.5} for each in (on_host, fresh)))
in_a_child(check)
check()
"""
        assert run(driver, self.IN_A_CHILD + OPERANDS + code) == ["True True", "exit code 0", "True True"]

    def test_a_child_may_use_cuda_where_the_parent_has_not(self, driver: Path) -> None:
        code = """
open_plan(plans.scale_add_plan(), made_for="host", target="host")
in_a_child(lambda: print(set(numbers(filled((2,), 4.0)))))
print(set(numbers(filled((2,), 5.0))))
"""
        assert run(driver, self.IN_A_CHILD + code) == ["{4.0}", "exit code 0", "{5.0}"]


class TestDriver:
    OPEN = "say(lambda: open_plan(plans.scale_add_plan()))"

    def test_one_that_is_too_old_says_how_old_it_is(self, driver: Path, tmp_path: Path) -> None:
        source = TESTS / "native" / "fake_cuda.cc"
        subprocess.run([*COMPILER, "-DFAKE_CUDA_IS_OLD", "-o", tmp_path / "libcuda.so.1", source], check=True)
        assert run(tmp_path, self.OPEN, version="11040") == [
            "ArtifactError: x.fuse: no GPU to run on (the CUDA driver is too old: it is for CUDA 11.4 and has no "
            "cuLibraryLoadData; one for CUDA 12.3 or newer is needed); it has code for sm_90"
        ]

    def test_one_without_a_device_says_what_it_says(self, driver: Path) -> None:
        assert run(driver, self.OPEN, init="100") == [
            "ArtifactError: x.fuse: no GPU to run on (the CUDA driver finds no usable device: CUDA_ERROR_NO_DEVICE); "
            "it has code for sm_90"
        ]

    def test_code_that_is_too_new_says_what_compiled_it(self, driver: Path) -> None:
        assert run(driver, self.OPEN, load="209", version="12040") == [
            "ArtifactError: x.fuse: scale_add: kernel scale: the cubin for sm_90 cannot be loaded: "
            "CUDA_ERROR_NO_BINARY_FOR_GPU; the driver is for CUDA 12.4; nvcc 13.0.88 compiled it"
        ]


class TestDevices:
    def test_one_that_has_no_code_says_what_it_needs(self, driver: Path) -> None:
        code = """
say(lambda: open_plan(plans.scale_add_plan()))
say(lambda: open_plan(plans.scale_add_plan(), target="sm_86"))
"""
        assert run(driver, code, capability="86") == [
            "ArtifactError: x.fuse: it has code for sm_90, but this device needs sm_86, or a lower sm_8x",
            "ArtifactError: x.fuse: it has no code for sm_86, only for sm_90",
        ]

    def test_tensors_on_one_that_does_not_fit_are_refused(self, driver: Path) -> None:
        code = """
enter_device(1)
x, y = filled((5, 8), 3.0, made_for="sm_86"), filled((5, 8), 1.0, made_for="sm_86")
say(lambda: open_plan(plans.scale_add_plan(), target="sm_90")(x, y, 2.0, np.array(0.5, np.float32)))
"""
        assert run(driver, code, capability="90,86") == [
            "ValueError: scale_add: kernels for sm_90 cannot run on cuda:1, which is sm_86"
        ]

    def test_code_for_one_architecture_runs_on_no_later_one(self, driver: Path) -> None:
        code = """
enter_device(1)
x, y = filled((5, 8), 3.0, made_for="sm_91"), filled((5, 8), 1.0, made_for="sm_91")
opened = open_plan(plans.scale_add_plan(), target="sm_90a", made_for="sm_90a")
say(lambda: opened(x, y, 2.0, np.array(0.5, np.float32)))
"""
        assert run(driver, code, capability="90,91") == [
            "ValueError: scale_add: kernels for sm_90a cannot run on cuda:1, which is sm_91"
        ]

    def test_tensors_on_different_ones_are_refused(self, driver: Path) -> None:
        code = """
zeros = np.zeros((5, 8), np.float32)
enter_device(1)
elsewhere = filled((5, 8), 1.0)
for call in (
    lambda: plan(zeros, y, 2.0, bias),
    lambda: plan(x, zeros, 2.0, bias),
    lambda: plan(x, elsewhere, 2.0, bias),
    lambda: plan(elsewhere, y, 2.0, bias),
    lambda: plan(x, y, 2.0, filled((), 0.5)),
    lambda: plan(x, y, 2.0, bias, out=(elsewhere, None)),
    lambda: plan(x, y, 2.0, bias, out=(zeros, None)),
    lambda: open_plan(plans.scale_add_plan(), made_for="host", target="host")(zeros, y, 2.0, bias),
):
    say(call)
print(plan(x, y, 2.0, bias)[0].device, plan(elsewhere, elsewhere, 2.0, bias)[0].device)
"""
        assert run(driver, OPERANDS + code, capability="90,90") == [
            "ValueError: scale_add: argument 0 'x': expected a tensor on cuda, got one on cpu",
            "ValueError: scale_add: argument 1 'y': expected a tensor on cuda:0 like 'x', got one on cpu",
            "ValueError: scale_add: argument 1 'y': expected a tensor on cuda:0 like 'x', got one on cuda:1",
            "ValueError: scale_add: argument 1 'y': expected a tensor on cuda:1 like 'x', got one on cuda:0",
            "ValueError: scale_add: argument 3 'bias': expected a tensor on cpu, got one on cuda:1",
            "ValueError: scale_add: out 0 'z': expected a tensor on cuda:0, got one on cuda:1",
            "ValueError: scale_add: out 0 'z': expected a tensor on cuda:0, got one on cpu",
            "ValueError: scale_add: argument 1 'y': expected a tensor on cpu like 'x', got one on cuda:0",
            "cuda:0 cuda:1",
        ]
