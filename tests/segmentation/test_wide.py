"""Recipes with very many inputs and outputs: twice as many take about twice the work, counted in lines of Python."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from fusebuild.artifact.plan import MOST_TABLE_BYTES, table_bytes
from fusebuild.build.toolchain import find_toolchain
from fusebuild.kernels.common.spec import PARAMETER_BYTES
from fusebuild.pipeline import plan_recipe
from fusebuild.recipe.recipe import parse_recipe
from fusebuild.segmentation.segmenter import MOST_REFINED
from fusebuild.system.resources import templates_dir
from fusebuild.target.table import TARGETS
from support.host_artifacts import require_toolchain

MOST = 2.2
MANY = 4000


def elementwise(count: int, shape: Callable[[int], str], factor: Callable[[int], int] = lambda i: 2) -> str:
    """So many tensors, each multiplied by itself, all by 2 where no other ``factor`` is given."""
    names = range(count)
    return "\n".join(
        [
            "fusion: wide",
            "inputs:",
            *(f"  x{i}: float[{shape(i)}]" for i in names),
            "body: |",
            *(f"  y{i} = x{i} * {factor(i)}.0" for i in names),
            "outputs:",
            *(f"  y{i}: float" for i in names),
        ]
    )


def steps(text: str) -> int:
    """How many lines of Python it takes to read and plan a recipe; a comprehension's count as often as it is run."""
    count = 0

    def step(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        count += 1
        return step

    before = sys.gettrace()
    sys.settrace(step)
    try:
        plan_recipe(parse_recipe(text, "wide.yaml"), [TARGETS["sm_90"]])
    finally:
        sys.settrace(before)
    return count


@pytest.mark.parametrize(
    ("shape", "few"),
    [
        pytest.param(lambda i: "N", 60, id="one size"),
        pytest.param(lambda i: "M, N", 60, id="two sizes", marks=pytest.mark.exhaustive),
        pytest.param(lambda i: f"N{i}", MOST_REFINED + 5, id="sizes of their own", marks=pytest.mark.exhaustive),
        pytest.param(lambda i: f"M, N{i % 7}", MOST_REFINED + 5, id="seven sizes"),
    ],
)
def test_twice_as_many_take_twice_the_work(shape: Callable[[int], str], few: int) -> None:
    """Up to 4,000, as the parabola goes through three counts that do not take as long."""
    steps(elementwise(3, shape))  # what is done once for a process
    first, second, third = (steps(elementwise(count, shape)) for count in (few, 2 * few, 3 * few))
    square = (third - 2 * second + first) / 2 / few**2
    each = (second - first) / few - 3 * square * few
    half, whole = (first + each * (count - few) + square * (count**2 - few**2) for count in (MANY // 2, MANY))
    assert whole <= MOST * half


def summed(count: int) -> str:
    """The sum of so many tensors, all in one expression."""
    names = [f"x{i}" for i in range(count)]
    inputs = [f"  {name}: float[N]" for name in names]
    sums = [f"  y{i + 1} = {f'y{i}' if i else 'x0'} + {name}" for i, name in enumerate(names[1:])]
    return "\n".join(["fusion: summed", "inputs:", *inputs, "body: |", *sums, "outputs:", f"  y{count - 1}: float"])


@pytest.mark.parametrize(
    ("text", "most"),
    [
        pytest.param(elementwise(2500, lambda i: "N", lambda i: i), 2, id="apart"),
        pytest.param(
            elementwise(2500, lambda i: "M, N", lambda i: i), 2, id="apart, of two sizes", marks=pytest.mark.exhaustive
        ),
        pytest.param(summed(4500), 2, id="in a chain", marks=pytest.mark.exhaustive),
    ],
)
def test_a_kernel_has_no_more_parameters_than_its_target_allows(text: str, most: int) -> None:
    recipe = plan_recipe(parse_recipe(text, "wide.yaml"), [TARGETS["sm_90"]])
    (target,) = recipe.plan.targets
    assert len(target.segments) <= most
    for kernel in recipe.kernels["sm_90"].values():
        assert PARAMETER_BYTES * len(kernel.parameters) <= TARGETS["sm_90"].parameter_bytes


def test_alike_ones_are_groups_whose_tables_are_no_larger() -> None:
    (target,) = plan_recipe(
        parse_recipe(elementwise(2500, lambda i: "N"), "wide.yaml"), [TARGETS["sm_90"]]
    ).plan.targets
    assert len({*target.together}) == 4
    launches = [launch for each in target.segments for variant in each.variants for launch in variant.launches]
    assert max(table_bytes(launch.members or 0, len(launch.args)) for launch in launches) <= MOST_TABLE_BYTES


def test_parameters_of_a_wide_fusion_compile_and_more_would_not(tmp_path: Path) -> None:
    """nvcc's own bound is the target's. The bodies of kernels so wide take minutes, and have no part in it."""
    require_toolchain("sm_90")
    target, nvcc = TARGETS["sm_90"], find_toolchain([TARGETS["sm_90"]]).nvcc
    assert nvcc is not None
    most = target.parameter_bytes // PARAMETER_BYTES
    planned = plan_recipe(parse_recipe(elementwise(2100, lambda i: "N", lambda i: i), "wide.yaml"), [target])
    (kernel, *_) = planned.kernels["sm_90"].values()
    head, end, _ = kernel.source.partition(") {")
    sources = {f"{head}{end}}}\n": True}
    for count in (most, most + 1):
        parameters = ", ".join(f"int* p{i}" for i in range(count))
        sources[f'extern "C" __global__ void takes({parameters}) {{}}\n'] = count == most
    for source, compiles in sources.items():
        (tmp_path / "a.cu").write_text(source)
        command = [nvcc, "-std=c++17", "-arch=sm_90", "-I", templates_dir() / "include", "-cubin", tmp_path / "a.cu"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (done.returncode == 0) == compiles, done.stderr
        assert compiles or "parameter space" in done.stderr
