"""The recipe inside of an artifact, which says the same of inputs and outputs as the plan beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from fusebuild.artifact.file import PLAN, RECIPE, Artifact
from fusebuild.artifact.plan import Plan, PlanValue, as_formula
from fusebuild.errors import ArtifactError, RecipeError
from fusebuild.ir.formula import Formula, show
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Value
from fusebuild.recipe.recipe import Recipe, decode_recipe


def recipe_in(artifact: Artifact) -> Recipe:
    """The recipe in ``artifact``. Raises :class:`~fusebuild.errors.ArtifactError` where it is none, or is of another
    fusion than the plan."""
    path = str(artifact.path)
    try:
        recipe = decode_recipe(artifact.member(RECIPE), f"{path}/{RECIPE}")
    except RecipeError as error:
        raise ArtifactError(path, f"it is no recipe\n{error}", RECIPE) from error
    for difference in differences(artifact.plan, recipe.fusion):
        raise ArtifactError(path, difference, RECIPE)
    return recipe


def differences(plan: Plan, fusion: Fusion) -> Iterator[str]:
    """What a recipe of ``fusion`` says otherwise than ``plan``."""
    for what, said, planned in _pairs(plan, fusion):
        if said != planned:
            yield f"{what} is {said or 'none'}, and {planned or 'none'} in {PLAN}"


def _pairs(plan: Plan, fusion: Fusion) -> Iterator[tuple[str, str, str]]:
    """What is compared, as the recipe and as the plan have it; empty where one has nothing there."""
    yield "the fusion", fusion.name, plan.fusion
    yield from _numbered("input", _inputs_of(fusion), _planned_inputs(plan))
    yield from _numbered("output", _outputs_of(fusion), _planned_outputs(plan))


def _numbered(what: str, said: Iterable[str], planned: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    for place, (own, other) in enumerate(zip_longest(said, planned, fillvalue="")):
        yield f"{what} {place}", own, other


def _inputs_of(fusion: Fusion) -> list[str]:
    return [_input_of(fusion.value(fid)) for fid in fusion.inputs]


def _input_of(value: Value) -> str:
    if not value.is_tensor:
        return f"{value.name}: {value.dtype.value}"
    tensor = value.tensor
    return _tensor_text(value.name, value.dtype.value, tensor.shape, tensor.strides, tensor.cpu)


def _planned_inputs(plan: Plan) -> list[str]:
    return [_planned_input(plan.value(fid)) for fid in plan.inputs]


def _planned_input(value: PlanValue) -> str:
    if value.kind == "scalar":
        return f"{value.name}: {value.dtype}"
    shape = [as_formula(size) for size in value.shape]
    strides = [None if stride is None else as_formula(stride) for stride in value.strides]
    return _tensor_text(value.name, value.dtype, shape, strides, value.cpu)


def _tensor_text(name: str, dtype: str, shape: Sequence[Formula], strides: Sequence[Formula | None], cpu: bool) -> str:
    sizes = ", ".join(map(show, shape))
    steps = ", ".join("any" if stride is None else show(stride) for stride in strides)
    return f"{name}: {dtype}[{sizes}] with strides [{steps}]{' on cpu' if cpu else ''}"


def _outputs_of(fusion: Fusion) -> list[str]:
    """Sizes of outputs are left out: passes may say the same size in another way."""
    return [
        _output_text(
            output.name,
            fusion.value(output.fid).dtype.value,
            fusion.value(output.fid).tensor.rank,
            "" if output.alias is None else fusion.value(output.alias).name,
        )
        for output in fusion.outputs
    ]


def _planned_outputs(plan: Plan) -> list[str]:
    return [
        _output_text(
            output.name,
            plan.value(output.fid).dtype,
            len(plan.value(output.fid).shape),
            "" if output.alias is None else plan.value(output.alias).name,
        )
        for output in plan.outputs
    ]


def _output_text(name: str, dtype: str, rank: int, overwritten: str) -> str:
    return f"{name}: {dtype} of rank {rank}{f' in the memory of {overwritten}' if overwritten else ''}"
