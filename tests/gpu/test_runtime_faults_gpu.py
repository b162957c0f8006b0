"""What goes wrong around a plan on a GPU: forks, memory that comes back, plans that are gone, numbers that are none.
``pytest -m gpu``, on a machine with a GPU and nvcc."""

from __future__ import annotations

import gc
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fusebuild.errors import ToolchainError
from fusebuild.pipeline import compile_recipes
from fusebuild.target.table import TARGETS
from support import runtime_plans as plans
from support.forked import FORKED
from support.gpu_plans import current_target, expected, inputs
from support.small_recipes import PAIR
from support.special_values import DTYPES, TEXTS, check_pairs, check_rows

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an artifact for this device of each of ``TEXTS``, and of ``PAIR``."""
    if current_target() not in TARGETS:
        pytest.skip(f"there is no target {current_target()}")
    folder = tmp_path_factory.mktemp("faults")
    for name, text in (TEXTS | {"pair": PAIR}).items():
        (folder / f"{name}.yaml").write_text(text)
    try:
        compile_recipes([folder], [TARGETS[current_target()]], folder)
    except ToolchainError as error:
        pytest.skip(f"needs compilers: {error}")
    return folder


# Forks.

IN_A_CHILD = """
import os, sys

def say(action):
    try:
        print("got", action().tolist(), flush=True)
    except Exception as error:
        print(f"{type(error).__name__}: {error}", flush=True)

def in_a_child(*actions):
    child = os.fork()
    if child == 0:
        for action in actions:
            say(action)
        os._exit(0)
    print("exit code", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def run(code: str) -> list[str]:
    """The lines that ``code`` prints in a process of its own, which must not hang."""
    done = subprocess.run([sys.executable, "-c", IN_A_CHILD + code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_child_of_a_process_that_uses_cuda_is_refused_clearly(artifacts: Path) -> None:
    code = f"""
import fusebuild, torch
path = {str(artifacts / "pair.fuse")!r}
plan, x = fusebuild.load(path), torch.ones(3, 5, device="cuda")
say(lambda: plan(x))
in_a_child(lambda: plan(x), lambda: plan(x, out=x), lambda: fusebuild.load(path))
say(lambda: plan(x))
"""
    assert run(code) == ["got [10.0, 10.0, 10.0]", *[FORKED] * 3, "exit code 0", "got [10.0, 10.0, 10.0]"]


def test_so_is_one_where_only_torch_has_used_cuda(artifacts: Path) -> None:
    code = f"""
import fusebuild, torch
path = {str(artifacts / "pair.fuse")!r}
x = torch.ones(3, 5, device="cuda")
in_a_child(lambda: fusebuild.load(path), lambda: fusebuild.load(path, target={current_target()!r}))
say(lambda: fusebuild.load(path)(x))
"""
    assert run(code) == [FORKED, FORKED, "exit code 0", "got [10.0, 10.0, 10.0]"]


def test_a_child_may_use_cuda_where_the_parent_has_not(artifacts: Path) -> None:
    code = f"""
import fusebuild, torch
in_a_child(lambda: fusebuild.load({str(artifacts / "pair.fuse")!r})(torch.ones(3, 5, device="cuda")))
"""
    assert run(code) == ["got [10.0, 10.0, 10.0]", "exit code 0"]


# Memory and streams.


def test_memory_that_comes_back_on_a_side_stream_is_not_taken_too_soon(open_plan: Any) -> None:
    plan, side = open_plan(plans.scale_add_plan()), torch.cuda.Stream()
    given = [inputs(30, 64) for _ in range(4)]
    wanted = [expected(*arguments) for arguments in given]
    side.wait_stream(torch.cuda.current_stream())
    addresses, kept = [], []
    for turn in range(60):
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000)
            z, _ = plan(*given[turn % 4])  # its workspace is free again before the kernels have begun
            addresses.append(z.data_ptr())
            kept.append((turn % 4, z.clone()))
            del z
        torch.empty(3 * 30 * 64, device="cuda").fill_(float("nan"))  # on another stream, which does not wait
        torch.empty(30, 64, device="cuda").fill_(float("nan"))
    torch.cuda.synchronize()
    assert len(set(addresses)) < len(addresses), "no memory came back"
    for case, z in kept:
        torch.testing.assert_close(z, wanted[case])


def test_inputs_that_are_recorded_on_a_side_stream_may_be_dropped(open_plan: Any) -> None:
    plan, side = open_plan(plans.scale_add_plan()), torch.cuda.Stream()
    made = []
    for _ in range(30):
        x, y, alpha, bias = inputs(30, 64)
        want = expected(x, y, alpha, bias)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000)
            made.append((plan(x, y, alpha, bias)[0], want))
        x.record_stream(side)
        y.record_stream(side)
        del x, y
        torch.empty(30, 64, device="cuda").fill_(float("nan"))
    torch.cuda.synchronize()
    for z, want in made:
        torch.testing.assert_close(z, want)


def test_results_that_are_recorded_on_a_side_stream_may_be_dropped(open_plan: Any) -> None:
    plan, side = open_plan(plans.scale_add_plan()), torch.cuda.Stream()
    arguments = inputs(30, 64)
    want, copies = expected(*arguments), []
    for _ in range(30):
        z, _ = plan(*arguments)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            torch.cuda._sleep(100_000)
            copies.append(z.clone())
        z.record_stream(side)
        del z
        torch.empty(30, 64, device="cuda").fill_(float("nan"))
    torch.cuda.synchronize()
    for z in copies:
        torch.testing.assert_close(z, want)


def test_a_captured_graph_outlives_its_plan(open_plan: Any) -> None:
    plan = open_plan(plans.scale_add_plan())
    x, y, alpha, bias = inputs(30, 64)
    plan(x, y, alpha, bias)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z, _ = plan(x, y, alpha, bias)
    del plan
    gc.collect()
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        graph.replay()
        torch.testing.assert_close(z, expected(x, y, alpha, bias))


def test_plans_come_and_go_while_another_runs(open_plan: Any) -> None:
    arguments = inputs(300, 512)
    want, made = expected(*arguments), []
    for _ in range(20):
        plan = open_plan(plans.scale_add_plan())
        torch.cuda._sleep(1_000_000)
        made.append(plan(*arguments)[0])
        del plan
    gc.collect()
    for z in made:
        torch.testing.assert_close(z, want)


def test_a_tensor_whose_storage_is_gone_is_refused(open_plan: Any) -> None:
    x, y, alpha, bias = inputs(30, 64)
    x.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="scale_add") as caught:
        open_plan(plans.scale_add_plan())(x, y, alpha, bias)
    assert str(caught.value) == "scale_add: argument 0 'x': float[30, 64] has no memory: its address is null"


# Numbers.


@pytest.mark.parametrize("dtype", DTYPES)
def test_pointwise_results_are_those_of_eager_torch(artifacts: Path, dtype: str) -> None:
    check_pairs(artifacts, dtype, target=None, device="cuda")


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_are_reduced_as_eager_torch_does(artifacts: Path, dtype: str) -> None:
    check_rows(artifacts, dtype, target=None, device="cuda")
