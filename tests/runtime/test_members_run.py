"""Many tensors at a time on the CPU: what members of a group compute, and how a plan that is wrong about them fails."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from fusebuild.artifact.file import decode_artifact
from fusebuild.artifact.plan import Launch, Plan
from fusebuild.errors import ArtifactError
from fusebuild.runtime.loader import LoadedPlan, load_artifact
from support.changed_plans import with_target
from support.host_artifacts import beginning, compile_for_host
from support.many_tensors import clip_text, decay_text

torch = pytest.importorskip("torch")

COUNT = 20
SYMBOLS = [f"N{i}" for i in range(COUNT)]
FEW, ROWS = 40, 4099
"""Elements of small tensors, and of ones that several blocks share."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {
        "many": decay_text(SYMBOLS, name="many"),
        "alone": decay_text(["N"], name="alone"),
        "clip": clip_text(SYMBOLS, name="clip"),
    }
    return compile_for_host(tmp_path_factory.mktemp("members"), texts)


def loaded(folder: Path, name: str) -> LoadedPlan:
    return load_artifact(decode_artifact((folder / f"{name}.fuse").read_bytes(), folder / name), target="host")


def drawn(seed: int) -> list[torch.Tensor]:
    """Tensors of random sizes, some of them empty, and some that begin where no vector does."""
    chooser, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    sizes = [chooser.choice([0, 1, chooser.randrange(FEW), chooser.randrange(ROWS)]) for _ in range(COUNT)]
    tensors = [torch.randn(size, generator=generator) for size in sizes]
    return [beginning(chooser.choice([0, 0, 1]), tensor) for tensor in tensors]


@pytest.mark.parametrize("seed", range(12))
def test_each_is_computed_as_it_is_alone_bit_by_bit(folder: Path, seed: int) -> None:
    many, alone, tensors = loaded(folder, "many"), loaded(folder, "alone"), drawn(seed)
    expected = [tensor.clone() for tensor in tensors]
    for tensor in expected:
        alone(tensor, 0.25)
    many(*tensors, 0.25)
    for tensor, other in zip(tensors, expected, strict=True):
        assert torch.equal(tensor, other)


@pytest.mark.parametrize("seed", range(12))
def test_a_norm_over_all(folder: Path, seed: int) -> None:
    tensors = drawn(seed)
    *scaled, length = loaded(folder, "clip")(*tensors)
    expected = sum(float((tensor.double() ** 2).sum()) for tensor in tensors) ** 0.5 + 1.0
    assert float(length) == pytest.approx(expected, rel=1e-5)
    for tensor, own in zip(tensors, scaled, strict=True):
        torch.testing.assert_close(own, (tensor.double() / expected).float(), rtol=1e-5, atol=0)


def test_a_call_that_comes_again_gives_the_same(folder: Path) -> None:
    clip, tensors = loaded(folder, "clip"), drawn(3)
    first = clip(*tensors)
    for _ in range(3):
        assert all(torch.equal(one, other) for one, other in zip(first, clip(*tensors), strict=True))


def test_nothing_is_launched_for_empty_tensors(folder: Path) -> None:
    empty = [torch.empty(0) for _ in range(COUNT)]
    loaded(folder, "many")(*empty, 0.5)
    *_, length = loaded(folder, "clip")(*empty)
    assert float(length) == 1.0


class TestTensorsThatOverlap:
    """Those of many are found by where they lie, and told of as those of few are."""

    def test_two_that_are_overwritten(self, folder: Path) -> None:
        tensors, memory = [torch.randn(30) for _ in range(COUNT)], torch.randn(50)
        tensors[4], tensors[15] = memory[:30], memory[29:]
        message = r"many: argument 15 'x15': overlaps argument 4 'x4', which output 'y4' overwrites"
        with pytest.raises(ValueError, match=message):
            loaded(folder, "many")(*tensors, 0.5)

    def test_neighbours_do_not(self, folder: Path) -> None:
        memory = torch.randn(COUNT, 30)
        expected = memory - memory * 0.5
        loaded(folder, "many")(*memory, 0.5)
        torch.testing.assert_close(memory, expected)

    def test_those_that_are_only_read_may(self, folder: Path) -> None:
        same = torch.ones(30)
        *_, length = loaded(folder, "clip")(*[same] * COUNT)
        assert float(length) == pytest.approx((30 * COUNT) ** 0.5 + 1)


class TestPlansThatAreWrong:
    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"members": 0}, "expected 1 to"),
            ({"members": 5000}, "expected 1 to"),
            ({"members": COUNT + 1}, "and the plan gives it"),
            ({"members": msgspec.UNSET}, "and the plan gives it"),
            ({"grid": (1, 2, 1)}, "rows of blocks"),
            ({"cluster": 2}, "rows of blocks"),
            ({"shared_bytes": "N0"}, "rows of blocks"),
        ],
    )
    def test_the_executor_refuses_to_load_them(self, folder: Path, changes: dict[str, Any], words: str) -> None:
        with pytest.raises(ArtifactError, match=words):
            changed(folder, lambda launch: msgspec.structs.replace(launch, **changes))

    def test_a_grid_beyond_the_largest_is_told_of_by_its_kernel(self, folder: Path) -> None:
        plan = changed(folder, lambda launch: msgspec.structs.replace(launch, grid=(2**31, 1, 1)))
        with pytest.raises(ValueError, match=r"kernel pointwise_\w+: grid \(2147483648, 1, 1\) exceeds the largest"):
            plan(*drawn(0), 0.5)

    def test_that_nothing_is_launched_is_told(self, folder: Path) -> None:
        plan = changed(folder, lambda launch: msgspec.structs.replace(launch, grid=(0, 1, 1)))
        with pytest.raises(ValueError, match=r"launches nothing, and no tensor is empty"):
            plan(*(torch.ones(3) for _ in range(COUNT)), 0.5)

    def test_a_group_of_one_runs(self, folder: Path) -> None:
        """Where segments are in groups of their own, each table has one member."""
        plan = decode_artifact((folder / "many.fuse").read_bytes(), folder / "many").plan
        apart = [msgspec.structs.replace(each, group=each.id) for each in plan.targets[0].segments]
        tensors = drawn(5)
        expected = [tensor - tensor * 0.25 for tensor in tensors]
        with_plan(folder, with_target(plan, segments=tuple(apart)))(*tensors, 0.25)
        for tensor, other in zip(tensors, expected, strict=True):
            torch.testing.assert_close(tensor, other)


class Changed:
    """An artifact with another plan, as the loader sees it."""

    def __init__(self, artifact: Any, plan: Plan) -> None:
        self.path, self.toolchain, self.plan, self.object_bytes = (
            artifact.path, artifact.toolchain, plan, artifact.object_bytes
        )  # fmt: skip


def with_plan(folder: Path, plan: Plan) -> LoadedPlan:
    artifact = decode_artifact((folder / "many.fuse").read_bytes(), folder / "many")
    return load_artifact(Changed(artifact, plan), target="host")


def changed(folder: Path, change: Callable[[Launch], Launch]) -> LoadedPlan:
    """The plan of ``many`` with all launches ``changed``."""
    plan = decode_artifact((folder / "many.fuse").read_bytes(), folder / "many").plan
    segments = [
        msgspec.structs.replace(
            each,
            variants=tuple(
                msgspec.structs.replace(variant, launches=tuple(map(change, variant.launches)))
                for variant in each.variants
            ),
        )
        for each in plan.targets[0].segments
    ]
    return with_plan(folder, with_target(plan, segments=tuple(segments)))
