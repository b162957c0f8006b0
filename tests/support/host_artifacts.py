"""Artifacts for the host that several test modules compile, and what they run them on."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from pathlib import Path

import pytest

from fusebuild.artifact.file import open_artifact, write_artifact
from fusebuild.build.toolchain import find_toolchain
from fusebuild.errors import ToolchainError
from fusebuild.pipeline import compile_recipes
from fusebuild.runtime.loader import LoadedPlan
from fusebuild.target.table import TARGETS

torch = pytest.importorskip("torch")


@functools.cache
def require_toolchain(name: str) -> None:
    """Skip where nothing compiles for the target ``name``. Compilers that were found stay where they are."""
    try:
        find_toolchain([TARGETS[name]])
    except ToolchainError as error:
        pytest.skip(f"no toolchain for {name}: {error}")


def compile_for_host(folder: Path, texts: Mapping[str, str]) -> Path:
    """``folder``, with an artifact for each of the recipes ``texts`` by their names."""
    require_toolchain("host")
    paths = [folder / f"{name}.yaml" for name in texts]
    for path, text in zip(paths, texts.values(), strict=True):
        path.write_text(text)
    compile_recipes(paths, [TARGETS["host"]], folder)
    return folder


def with_recipe(built: Path, path: Path, recipe: bytes) -> None:
    """The artifact at ``path`` is that at ``built``, and holds ``recipe``."""
    artifact = open_artifact(built)
    kernels = sorted(name.split("/")[1].removesuffix(".cu") for name in artifact.members if name.endswith(".cu"))
    write_artifact(
        path,
        plan=artifact.plan,
        recipe=recipe,
        kernels={kernel: artifact.kernel_text(kernel) for kernel in kernels},
        objects={("host", kernel): artifact.object_bytes("host", kernel) for kernel in kernels},
        toolchain=artifact.toolchain,
        sources=artifact.manifest.sources,
    )


def chosen(plan: LoadedPlan, *inputs: torch.Tensor) -> str:
    """The name of the variant that a call of a plan of one segment takes."""
    own = plan.plan.target("host").segments[0].variants
    return own[min(plan.variants_for(*inputs)[0])].name


def norm_operands(rows: int, columns: int) -> list[torch.Tensor]:
    """Those of ``small_recipes.NORM``."""
    generator = torch.Generator().manual_seed(columns)
    x = torch.randn(rows, columns, generator=generator).bfloat16()
    return [x, torch.randn(columns, generator=generator).half(), torch.randn(columns, generator=generator)]


def check_that_rows_beside_stay(plan: LoadedPlan, x: torch.Tensor, *others: torch.Tensor) -> None:
    """Where the result, which is like ``x``, goes amid other rows, it is as ever and those are as they were."""
    rows, columns = x.shape
    memory = x.new_full(((rows + 2) * columns + 64,), 7.0)
    start, end = 32, 32 + rows * columns
    out = memory[start:end].view(rows, columns)
    assert torch.equal(plan(x, *others, out=out), plan(x, *others))
    assert bool((memory[:start] == 7).all())
    assert bool((memory[end:] == 7).all())


def beginning(at: int, values: torch.Tensor) -> torch.Tensor:
    """``values``, so many elements behind where memory is aligned."""
    memory = values.new_full((at + values.numel() + 64,), 7)
    memory[at : at + values.numel()] = values.flatten()
    return memory[at : at + values.numel()].view(values.shape)
