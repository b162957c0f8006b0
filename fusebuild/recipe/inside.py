"""The recipe inside of an artifact, which says the same of inputs and outputs as the plan beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from fusebuild.artifact.file import INCLUDED, PLAN, RECIPE, Artifact
from fusebuild.artifact.plan import Plan, PlanOutput, PlanValue, as_formula
from fusebuild.errors import ArtifactError, RecipeError, one_line
from fusebuild.ir.formula import Formula, show
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Output, Value
from fusebuild.recipe.include import among
from fusebuild.recipe.recipe import Recipe, decode_recipe


def recipe_in(artifact: Artifact) -> Recipe:
    """The recipe in ``artifact``. Raises :class:`~fusebuild.errors.ArtifactError` where it is none, or is of another
    fusion than the plan."""
    path = str(artifact.path)
    try:
        recipe = decode_recipe(artifact.member(RECIPE), f"{path}/{RECIPE}", among(artifact.included))
    except RecipeError as error:
        raise ArtifactError(path, f"it is no recipe\n{error}", RECIPE) from error
    for unused in artifact.included.keys() - recipe.included.keys():
        raise ArtifactError(path, f"the recipe does not include '{one_line(unused)}'", INCLUDED)
    for difference in differences(artifact.plan, recipe.fusion):
        raise ArtifactError(path, difference, RECIPE)
    return recipe


def differences(plan: Plan, fusion: Fusion) -> list[str]:
    """What a recipe of ``fusion`` says otherwise than ``plan``."""
    pairs = [(what, said or "none", planned or "none") for what, said, planned in _pairs(plan, fusion)]
    return [f"{what} is {said}, and {planned} in {PLAN}" for what, said, planned in pairs if said != planned]


def _pairs(plan: Plan, fusion: Fusion) -> Iterator[tuple[str, str, str]]:
    """What is compared, as the recipe and as the plan have it; empty where one has nothing there. Sizes of outputs are
    left out: passes may say the same size in another way."""
    yield "the fusion", fusion.name, plan.fusion
    inputs = [_input_of(fusion.value(fid)) for fid in fusion.inputs]
    yield from _numbered("input", inputs, [_planned_input(plan.value(fid)) for fid in plan.inputs])
    outputs = [_output_of(fusion, output) for output in fusion.outputs]
    yield from _numbered("output", outputs, [_planned_output(plan, output) for output in plan.outputs])


def _numbered(what: str, said: Iterable[str], planned: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    for place, (own, other) in enumerate(zip_longest(said, planned, fillvalue="")):
        yield f"{what} {place}", own, other


def _input_of(value: Value) -> str:
    if not value.is_tensor:
        return f"{value.name}: {value.dtype.value}"
    tensor = value.tensor
    return _tensor_text(value.name, value.dtype.value, tensor.shape, tensor.strides, tensor.cpu)


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


def _output_of(fusion: Fusion, output: Output) -> str:
    overwritten = "" if output.alias is None else fusion.value(output.alias).name
    value = fusion.value(output.fid)
    return _output_text(output.name, value.dtype.value, value.tensor.rank, overwritten)


def _planned_output(plan: Plan, output: PlanOutput) -> str:
    overwritten = "" if output.alias is None else plan.value(output.alias).name
    value = plan.value(output.fid)
    return _output_text(output.name, value.dtype, len(value.shape), overwritten)


def _output_text(name: str, dtype: str, rank: int, overwritten: str) -> str:
    return f"{name}: {dtype} of rank {rank}{f' in the memory of {overwritten}' if overwritten else ''}"
