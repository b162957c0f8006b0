"""Plans that contradict themselves are refused, when an artifact is opened or when the sizes of a call are known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from fuzzing import plans
from host_artifacts import compile_for_host
from runtime_plans import scale_add_plan
from small_recipes import PAIR, TINY

from fusebuild.artifact import Artifact, decode_artifact
from fusebuild.errors import ArtifactError
from fusebuild.formula import INT64_MAX
from fusebuild.plan import FormulaArg, Plan, TensorArg
from fusebuild.plan_check import validate_plan
from fusebuild.runtime.loader import load_artifact

torch = pytest.importorskip("torch")


def with_target(plan: Plan, **changes: Any) -> Plan:
    return msgspec.structs.replace(plan, targets=(msgspec.structs.replace(plan.targets[0], **changes),))


def with_launch(plan: Plan, **changes: Any) -> Plan:
    """``plan`` whose first launch is another."""
    first, *rest = plan.targets[0].segments
    variant = first.variants[0]
    launch = msgspec.structs.replace(variant.launches[0], **changes)
    variants = tuple(msgspec.structs.replace(each, launches=(launch, *each.launches[1:])) for each in first.variants)
    return with_target(plan, segments=(msgspec.structs.replace(first, variants=variants), *rest))


def with_slot(plan: Plan, size: Any) -> Plan:
    first, *rest = plan.targets[0].workspace
    return with_target(plan, workspace=(msgspec.structs.replace(first, bytes=size), *rest))


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (with_launch(scale_add_plan(), grid=(0, 1, 1)), "a grid of 0 blocks"),
        (with_launch(scale_add_plan(), grid=(1, -1, 1)), "a grid of -1 blocks"),
        (with_launch(scale_add_plan(), grid=(1, 1, 65536)), "a grid of 65536 blocks"),
        (with_launch(scale_add_plan(), args=()), "it has no arguments"),
        (with_launch(scale_add_plan(), shared_bytes=-1), "-1 bytes of shared memory"),
        (with_launch(scale_add_plan(), shared_bytes=2**31), f"{2**31} bytes of shared memory"),
        (with_slot(scale_add_plan(), -1), "slot 0 has -1 bytes"),
        (with_slot(scale_add_plan(), INT64_MAX), f"slot 0 has {INT64_MAX} bytes"),
    ],
)
def test_what_is_known_when_an_artifact_is_opened(wrong: Plan, words: str) -> None:
    problem = validate_plan(wrong)
    assert problem is not None
    assert words in problem


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_for_host(tmp_path_factory.mktemp("contradictions"), {"pair": PAIR, "tiny": TINY})


def opened(path: Path) -> Artifact:
    return decode_artifact(path.read_bytes(), path)


class Changed:
    """An artifact with another plan, as the loader sees it."""

    def __init__(self, artifact: Artifact, plan: Plan) -> None:
        self.path, self.toolchain, self.plan, self.object_bytes = (
            artifact.path, artifact.toolchain, plan, artifact.object_bytes
        )  # fmt: skip


@pytest.mark.parametrize("size", [0, 1, ["sub", 0, 1], ["mul", 2**40, 2**40]])
def test_a_slot_smaller_than_its_tensor(folder: Path, size: Any) -> None:
    artifact = opened(folder / "pair.fuse")
    plan = load_artifact(Changed(artifact, with_slot(artifact.plan, size)), target="host")
    with pytest.raises(ValueError, match=r"workspace slot 0 has|exceeds 64 bits"):
        plan(torch.ones(3, 5))


@pytest.mark.parametrize(
    "change",
    [lambda args: args[1:], lambda args: (*args, args[0]), lambda args: (FormulaArg(1), *args[1:])],
)
def test_arguments_that_the_kernel_does_not_take(folder: Path, change: Any) -> None:
    artifact = opened(folder / "tiny.fuse")
    args = artifact.plan.targets[0].segments[0].variants[-1].launches[0].args
    assert any(isinstance(arg, TensorArg) for arg in args)
    last = artifact.plan.targets[0].segments[0].variants[-1]
    launch = msgspec.structs.replace(last.launches[0], args=change(args))
    segment = msgspec.structs.replace(
        artifact.plan.targets[0].segments[0],
        variants=(
            *artifact.plan.targets[0].segments[0].variants[:-1],
            msgspec.structs.replace(last, launches=(launch,)),
        ),
    )
    changed = with_target(artifact.plan, segments=(segment,))
    with pytest.raises(ArtifactError, match=r"and the plan gives it|is launched with"):
        load_artifact(Changed(artifact, changed), target="host")


def test_changes_are_the_same_for_the_same_number(folder: Path) -> None:
    members = dict(opened(folder / "pair.fuse").members)
    for number in range(50):
        assert plans.changed(members, plans.random.Random(number)) == plans.changed(
            members, plans.random.Random(number)
        )
