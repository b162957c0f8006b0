"""What a Python program asks of a fusion: to be compiled and called, and, without tensors, without torch and without a
GPU, where its cuts are.

::

    plan = fusebuild.compile("recipes/layernorm.yaml")               # into the cache, once
    y, mean, rstd = plan(x, weight, bias)

    for boundary in fusebuild.boundaries("recipes/softmax_then_sum.yaml", target="sm_90"):
        print(boundary)                                          # %9 y: float[M, N]  4*M*N bytes, segment 0 -> 1, 2
        print(evaluate(boundary.bytes, {"M": 128, "N": 1024}))   # 524288

The latter is the query that a tracer's rematerialization and memory estimate need (NVIDIA/Fuser issue 2473): where the
cuts are, and what the intermediates at them weigh.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from fusebuild.errors import ForkError, UsageError, one_line
from fusebuild.ir.fid import OriginalFid
from fusebuild.ir.formula import Formula, show
from fusebuild.ir.fusion import Fusion
from fusebuild.passes import run_passes
from fusebuild.segmentation import SegmentedFusion, segment
from fusebuild.target.table import Target, find_target

if TYPE_CHECKING:
    from fusebuild.definition import FusionDefinition
    from fusebuild.recipe.recipe import Recipe
    from fusebuild.runtime.loader import LoadedPlan

    Source: TypeAlias = "Fusion | FusionDefinition | str | os.PathLike[str]"
    """A Fusion, a definition that was recorded, or the path of a recipe."""


def compile(source: Source, *, target: str | None = None) -> LoadedPlan:
    """``source`` ready to be called, for programs and notebooks that ship no artifact. What is compiled stays in
    ``$FUSEBUILD_CACHE_DIR`` (``~/.cache/fusebuild``), and no compiler is looked for where it is there and fresh.

    ``target=None`` compiles for the current CUDA device. Inputs are those of the recipe in its order; those of a
    definition or a Fusion are its tensors, then its scalars. Raises what ``fusebuild compile`` and :func:`load` do:
    :class:`RecipeError`, :class:`ScheduleError`, :class:`ToolchainError`, :class:`CompileError`;
    and :class:`UsageError` for an unknown target, for what is no fusion, and where there is no GPU to compile for.
    """
    named = None if target is None else find_target(target)
    if isinstance(source, str | os.PathLike):
        recipe = _recipe_at(Path(source))
        return _compiled_recipe(recipe, named or _own_target())
    from fusebuild.definition.run import definitions

    fusion = _fusion_of(source)
    return definitions.loaded(fusion, named or _own_target())


def _own_target() -> Target:
    """The target for the current CUDA device."""
    from fusebuild.runtime.loader import current_capability
    from fusebuild.target.device import target_of

    try:
        capability = current_capability()
    except ForkError:
        raise
    except RuntimeError as error:
        raise UsageError(f"no GPU to compile for ({error}); target='host' compiles for the CPU") from error
    return target_of(capability)


def _recipe_at(path: Path) -> Recipe:
    from fusebuild.pipeline import read_recipes

    if path.is_dir():
        raise UsageError(f"{one_line(path)} is a folder: expected the path of a recipe")
    (recipe,) = read_recipes([path])
    return recipe


def _compiled_recipe(recipe: Recipe, target: Target) -> LoadedPlan:
    from fusebuild.build.toolchain import find_toolchain
    from fusebuild.freshness.cached import cache_folder, cached_artifact
    from fusebuild.pipeline import plan_recipe, tuned_beside
    from fusebuild.runtime.loader import load

    tuned = tuned_beside(recipe)
    toolchain = None if tuned is None else find_toolchain([target])  # tuned choices hold for one alone
    planned = plan_recipe(recipe, [target], tuned=tuned, toolchain=toolchain)
    digest = recipe.digest
    return load(cached_artifact(planned, target, cache_folder("recipes", digest, target)), target=target.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Boundary:
    """An intermediate in global memory: segment ``producer`` writes it and each of ``consumers`` reads it.

    ``shape`` and ``bytes`` are formulas over the symbols of the inputs (see :mod:`fusebuild.ir.formula`); ``bytes``
    counts stride-0 dims once. ``view_of`` is the value whose memory it shares, for an intermediate that owns none."""

    fid: OriginalFid
    name: str
    dtype: str
    shape: tuple[Formula, ...]
    bytes: Formula
    producer: int
    consumers: tuple[int, ...]
    view_of: OriginalFid | None = None

    def __str__(self) -> str:
        shape = ", ".join(map(show, self.shape))
        readers = ", ".join(map(str, self.consumers))
        return (
            f"%{self.fid} {self.name}: {self.dtype}[{shape}]  {show(self.bytes)} bytes, "
            f"segment {self.producer} -> {readers}"
        )


def boundaries(source: Source, target: str = "sm_90") -> tuple[Boundary, ...]:
    """What the segments of ``source`` keep in global memory for each other on ``target``, by fid.

    No tensors are needed, and no GPU: sizes stay symbols. Raises :class:`UsageError` for an unknown target and for what
    is no fusion, :class:`RecipeError` for a recipe that is none and :class:`ScheduleError` for what no scheduler takes.
    """
    chosen = find_target(target)
    return boundaries_of(segment(run_passes(_fusion_of(source)), chosen))


def boundaries_of(segmented: SegmentedFusion) -> tuple[Boundary, ...]:
    """:func:`boundaries`, of a Fusion that is segmented already."""
    viewed = {view: source for each in segmented.segments for view, source in each.views.items()}
    found = []
    for fid in segmented.boundaries:
        value = segmented.fusion.value(fid)
        found.append(
            Boundary(
                fid=fid,
                name=value.name,
                dtype=value.dtype.value,
                shape=value.tensor.shape,
                bytes=value.tensor.nbytes,
                producer=next(each.id for each in segmented.segments if fid in each.outputs),
                consumers=tuple(each.id for each in segmented.segments if fid in each.inputs),
                view_of=viewed.get(fid),
            )
        )
    return tuple(found)


def _fusion_of(source: object) -> Fusion:
    if isinstance(source, Fusion):
        return source
    if isinstance(source, str | os.PathLike):
        from fusebuild.recipe.recipe import load_recipe

        return load_recipe(Path(source)).fusion
    from fusebuild.definition import FusionDefinition

    if isinstance(source, FusionDefinition):
        return source.fusion
    raise UsageError(f"expected a Fusion, a FusionDefinition or a recipe's path, got {type(source).__name__}")
