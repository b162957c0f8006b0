"""Kernels that begin while what is before them ends: all wait, read nothing as constant, and some start early."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusebuild.artifact.plan import Launch, TargetPlan
from fusebuild.kernels.common.overlap import starting_next_early
from fusebuild.kernels.families import family_of
from support.places import FUSIONS, RECIPES
from support.sampled import sampled
from support.small_recipes import planned_file


@pytest.mark.parametrize(
    ("schedulers", "expected"),
    [
        ((), []),
        (("pointwise",), [False]),
        (("reduction", "pointwise"), [True, False]),
        (("pointwise", "transpose", "reduction"), [True, False, False]),
        (("reduction", "transpose", "pointwise"), [True, True, False]),
        (("reduction", "inner_outer_persistent"), [False, False]),
        (("reduction", "alias", "pointwise"), [True, False, False]),
        (("alias", "pointwise"), [False, False]),
        (("reduction", "library", "pointwise"), [False, False, False]),
        (("reduction", "alias", "library", "alias", "pointwise"), [False] * 5),
    ],
)
def test_whether_the_kernel_after_a_segment_starts_early(schedulers: tuple[str, ...], expected: list[bool]) -> None:
    assert starting_next_early([family_of(name) for name in schedulers]) == expected


def launches(target: TargetPlan) -> list[Launch]:
    return [launch for segment in target.segments for variant in segment.variants for launch in variant.launches]


@pytest.mark.parametrize("path", sampled([*RECIPES, *FUSIONS], 8), ids=lambda path: path.stem)
class TestEveryPlan:
    def test_all_launches_overlap(self, path: Path) -> None:
        found = launches(planned_file(path).plan.targets[0])
        assert all(launch.overlaps is True for launch in found)

    def test_every_kernel_waits(self, path: Path) -> None:
        for kernel in planned_file(path).kernels["sm_90"].values():
            assert "fb::wait_for_previous_kernel(" in kernel.source, kernel.name

    def test_no_kernel_reads_what_it_takes_for_constant(self, path: Path) -> None:
        for kernel in planned_file(path).kernels["sm_90"].values():
            declared = [parameter.declaration for parameter in kernel.parameters]
            assert [each for each in declared if each.startswith("const ") and "__restrict__" in each] == []

    def test_what_one_kernel_alone_writes_is_restricted(self, path: Path) -> None:
        planned = planned_file(path)
        if any(output.alias is not None for output in planned.plan.outputs):
            return
        for kernel in planned.kernels["sm_90"].values():
            pointers = [parameter.declaration for parameter in kernel.parameters if parameter.pointer is not None]
            assert [each for each in pointers if not each.startswith("const ") and "__restrict__" not in each] == []
