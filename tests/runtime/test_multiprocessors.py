"""A grid, an argument or scratch may depend on the device that a call runs on."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from fusebuild.artifact.plan import ExtentArg, FormulaArg, Plan, PlanOutput, ScalarArg, TensorArg
from fusebuild.artifact.plan_check import validate_plan
from fusebuild.errors import ArtifactError, UsageError
from fusebuild.ir.formula import MULTIPROCESSORS
from fusebuild.runtime.loader import LoadedPlan, load_artifact
from support import runtime_plans as plans

torch = pytest.importorskip("torch")

OpenPlan: TypeAlias = Callable[[Plan], LoadedPlan]


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, bytes]:
    """The kernels of the plans here, compiled into one library."""
    source = tmp_path_factory.mktemp("kernels") / "all.cc"
    source.write_text(plans.ENTRY + plans.KERNELS["fill"] + plans.KERNELS["twice"])
    subprocess.run(["g++", "-std=c++17", "-O1", "-shared", "-fPIC", "-o", f"{source}.so", source], check=True)
    return dict.fromkeys(["fill", "twice"], Path(f"{source}.so").read_bytes())


@pytest.fixture(scope="module")
def open_plan(objects: Mapping[str, bytes]) -> OpenPlan:
    """Loads a plan for the host."""

    def open_one(plan: Plan) -> LoadedPlan:
        assert validate_plan(plan) is None
        return load_artifact(plans.HandMadeArtifact(path=Path("x.fuse"), plan=plan, objects=objects), target="host")

    return open_one


def count_plan() -> Plan:
    """y has a 3 for each multiprocessor, as far as there are M."""
    fill = plans.launch("fill", TensorArg(2), ScalarArg(1), FormulaArg(("min", "M", MULTIPROCESSORS)))
    values = [plans.tensor(0, "x", ["M"]), plans.scalar(1, "s", "float"), plans.tensor(2, "y", ["M"])]
    return plans.plan("count", values, [0, 1], [PlanOutput(fid=2, name="y")], [plans.segment(0, [0, 1], [2], fill)])


def counted(call: Any) -> int:
    out = torch.zeros(5)
    call(torch.zeros(5), 3.0, out=out)
    return int(out.sum()) // 3


def test_the_host_has_one(open_plan: OpenPlan) -> None:
    assert counted(open_plan(count_plan())) == 1


def test_a_process_may_have_fewer_than_the_device(open_plan: OpenPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FUSEBUILD_MULTIPROCESSORS", "4")
    four = open_plan(count_plan())
    monkeypatch.setenv("FUSEBUILD_MULTIPROCESSORS", "2")
    two = open_plan(count_plan())
    assert [counted(four), counted(two), counted(four)] == [4, 2, 4]


@pytest.mark.parametrize("text", ["0", "-1", "x", "3x", "4097", "99999999999999999999"])
def test_what_is_no_number_of_them(open_plan: OpenPlan, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("FUSEBUILD_MULTIPROCESSORS", text)
    with pytest.raises(UsageError) as caught:
        open_plan(count_plan())
    assert str(caught.value) == f"FUSEBUILD_MULTIPROCESSORS is '{text}', expected a number from 1 to 4096"


def clusters_plan() -> Plan:
    """y is ones; its kernel runs in clusters of a block for each of its M elements, of which the grid has one."""
    fill = plans.launch("fill", TensorArg(2), ScalarArg(1), FormulaArg("M"), cluster="M")
    values = [plans.tensor(0, "x", ["M"]), plans.scalar(1, "s", "float"), plans.tensor(2, "y", ["M"])]
    segments = [plans.segment(0, [0, 1], [2], fill)]
    return plans.plan("clusters", values, [0, 1], [PlanOutput(fid=2, name="y")], segments)


def test_a_call_says_how_many_blocks_run_together(open_plan: OpenPlan) -> None:
    call = open_plan(clusters_plan())
    assert call(torch.zeros(1), 1.0).tolist() == [1.0]
    for size in (2, 9):
        with pytest.raises(ValueError, match=r"has no whole clusters of \d blocks, expected 1 to 8") as caught:
            call(torch.zeros(size), 1.0)
        assert f"grid (1, 1, 1) has no whole clusters of {size} blocks" in str(caught.value)


def test_no_input_may_have_a_dim_of_that_name(objects: Mapping[str, bytes]) -> None:
    values = [plans.tensor(0, "x", [MULTIPROCESSORS]), plans.tensor(1, "y", [MULTIPROCESSORS])]
    twice = plans.launch("twice", TensorArg(1), TensorArg(0), ExtentArg(-1))
    segments = [plans.segment(0, [0], [1], twice)]
    plan = plans.plan("named", values, [0], [PlanOutput(fid=1, name="y")], segments)
    artifact = plans.HandMadeArtifact(path=Path("a.fuse"), plan=plan, objects=objects)
    with pytest.raises(ArtifactError) as caught:
        load_artifact(artifact, target="host")
    assert str(caught.value).endswith("a dim of an input is called 'gpu.multiprocessors', which is the device's")
