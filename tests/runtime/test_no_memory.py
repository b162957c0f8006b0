"""A call for which memory does not suffice says of which plan and output that is."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fusebuild.runtime import memory
from fusebuild.runtime.loader import LoadedPlan, load_artifact
from support import runtime_plans as plans

np = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def open_plan(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., LoadedPlan]:
    """Loads a plan for the host, whose one kernel doubles."""
    source = tmp_path_factory.mktemp("kernels") / "twice.cc"
    source.write_text(plans.ENTRY + plans.KERNELS["twice"])
    subprocess.run(["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-o", f"{source}.so", source], check=True)
    objects = {"twice": Path(f"{source}.so").read_bytes()}
    return lambda plan: load_artifact(
        plans.HandMadeArtifact(path=Path("x.fuse"), plan=plan, objects=objects), target="host"
    )


def test_what_torch_says_where_there_is_no_memory(open_plan: Callable[..., LoadedPlan]) -> None:
    plan = open_plan(plans.pair_plan())
    x = torch.from_numpy(np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (2**50,), (4,)))
    for plan_of_known_shapes in (False, True):
        with pytest.raises(RuntimeError, match="can't allocate memory") as caught:
            plan(x, torch.ones(3))
        assert str(caught.value).startswith(f"{plan.plan.fusion}: out 0 '{plan.outputs[0]}': ")
        assert caught.value.__context__ is None, plan_of_known_shapes


def test_the_output_that_there_is_no_memory_for_is_named(
    open_plan: Callable[..., LoadedPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    class ExhaustedError(RuntimeError):
        """What torch raises for its own allocator."""

    made: list[Any] = []

    def empty(like: Any, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any) -> Any:
        made.append(shape)
        if len(made) % 2 == 0:
            raise ExhaustedError("nothing is left")
        return torch.empty(shape)

    monkeypatch.setattr(memory, "_empty_of", lambda num_devices: empty)
    plan = open_plan(plans.pair_plan())
    for _ in range(3):
        with pytest.raises(ExhaustedError) as caught:
            plan(torch.ones(4), torch.ones(3))
        assert str(caught.value) == f"{plan.plan.fusion}: out 1 '{plan.outputs[1]}': nothing is left"
        assert caught.value.__context__ is None


def test_numpy_is_told_which_output_there_is_no_memory_for(open_plan: Callable[..., LoadedPlan]) -> None:
    plan = open_plan(plans.pair_plan())
    x = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (2**50,), (4,))
    with pytest.raises(MemoryError) as caught:
        plan(x, np.ones(3, np.float32))
    said = f"{plan.plan.fusion}: out 0 '{plan.outputs[0]}': out of memory: {2**52} bytes"
    assert str(caught.value) == said
