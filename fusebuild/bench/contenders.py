"""Who is measured: the artifact, eager torch and torch.compile, each on the same sets of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fusebuild.bench.copies import equal_copies
from fusebuild.bench.device import Device, Run
from fusebuild.errors import FusebuildError, NoReferenceError, VerificationError
from fusebuild.ir import Fusion
from fusebuild.recipe import Recipe
from fusebuild.reference import bound_for, compare, torch_dtype
from fusebuild.runtime.loader import LoadedPlan
from fusebuild.verification import recipe_inputs

OURS, EAGER, COMPILE, COPY = "ours", "eager", "compile", "copy"
LENIENCE = 16
"""How far a contender's results may be from ours, in bounds of the oracle's comparison: it must compute the same thing,
but may round every intermediate."""

Inputs = Sequence[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """Something to time. ``run`` does one call a set of inputs on the device; ``call`` is what a user would write, and
    what is timed on the host where there is one."""

    name: str
    run: Run
    call: Run | None = None


@dataclass(slots=True, kw_only=True)
class Field:
    """Everybody who can be measured, and why the others cannot."""

    contenders: list[Contender]
    missing: dict[str, str] = field(default_factory=dict)


def input_sets(recipe: Recipe, case: Mapping[str, int], count: int, seed: int, device: Device) -> list[Inputs]:
    """``count`` sets of inputs. All have the scalars of the first: torch.compile specializes on numbers."""
    sets: list[list[Any]] = [
        recipe_inputs(recipe, case, seed=seed + index, device=device.torch_name) for index in range(count)
    ]
    for other in sets[1:]:
        for position, fid in enumerate(recipe.fusion.inputs):
            if not recipe.fusion.value(fid).is_tensor:
                other[position] = sets[0][position]
    return list(sets)


def our_contender(plan: LoadedPlan, fusion: Fusion, sets: Sequence[Inputs], device: Device) -> Contender:
    """``plan``, with outputs of its own for each set."""
    calls = [_into_own_outputs(plan, fusion, inputs) for inputs in sets]
    return Contender(name=OURS, run=device.captured(calls), call=lambda: plan(*sets[0]))


def _into_own_outputs(plan: LoadedPlan, fusion: Fusion, inputs: Inputs) -> Run:
    made = as_results(plan(*inputs))
    given = tuple(None if output.alias is not None else own for output, own in zip(fusion.outputs, made, strict=True))
    return lambda: plan(*inputs, out=given)


def add_torch(found: Field, plan: LoadedPlan, recipe: Recipe, sets: Sequence[Inputs], device: Device) -> None:
    """Add eager torch and torch.compile to ``found``, or the reasons why they are not there."""
    try:
        module = reference_module(recipe)
    except NoReferenceError as error:
        found.missing["reference"] = error.diagnostics[0].message
        return

    def contender(name: str, function: Callable[..., Any]) -> Contender:
        return _torch_contender(name, function, plan, recipe.fusion, sets, device)

    # Plain functions: a module's own call costs microseconds that users can do without.
    add(found, EAGER, lambda: contender(EAGER, module.forward), device)
    add(found, COMPILE, lambda: contender(COMPILE, device.compiled(module.forward)), device)


def add(found: Field, name: str, make: Callable[[], Contender], device: Device) -> None:
    """Add what ``make`` makes to ``found``, or the reason why it cannot be measured."""
    try:
        found.contenders.append(make())
    except Exception as error:  # whatever torch raises: it did not run, and the report says why
        found.missing[name] = reason(error)
    if name in found.missing:
        device.release()  # what it allocated is free only now that nobody holds the error


def equal_copy(least: int, count: int, device: Device) -> Contender:
    """``count`` copies of ``least`` bytes each."""
    return Contender(name=COPY, run=device.captured(equal_copies(least, count, device)))


def reference_module(recipe: Recipe) -> Any:
    """What torch is measured on: the recipe's reference, else its fusion op by op."""
    if recipe.bench.reference is not None:
        from fusebuild.bench.torch_expression import expression_module

        return expression_module(recipe.fusion, recipe.bench.reference)
    from fusebuild.bench.torch_module import torch_module

    return torch_module(recipe.fusion)


def _torch_contender(
    name: str, module: Callable[..., Any], plan: LoadedPlan, fusion: Fusion, sets: Sequence[Inputs], device: Device
) -> Contender:
    def call_of(inputs: Inputs) -> Run:
        return lambda: module(*inputs)

    _require_same_results(module, plan, fusion, sets[0])
    calls = [call_of(inputs) for inputs in sets]
    return Contender(name=name, run=device.captured(calls), call=calls[0])


def _require_same_results(module: Callable[..., Any], plan: LoadedPlan, fusion: Fusion, inputs: Inputs) -> None:
    """Raise :class:`VerificationError` unless the module's results are our first outputs, in order. What follows from
    random numbers need only be distributed like ours."""
    from fusebuild.bench.torch_random import random_fids, same_distribution

    overwritten = {output.alias for output in fusion.outputs}

    def results(run: Callable[..., Any]) -> tuple[Any, ...]:
        pairs = zip(fusion.inputs, inputs, strict=True)
        return as_results(run(*[value.clone() if fid in overwritten else value for fid, value in pairs]))

    ours, theirs, drawn = results(plan), results(module), random_fids(fusion)
    if len(theirs) > len(ours):
        raise VerificationError(f"the reference has {len(theirs)} results, the fusion {len(ours)} outputs")
    for output, own, other in zip(fusion.outputs, ours, theirs, strict=False):
        dtype = fusion.value(output.fid).dtype
        if other.dtype != torch_dtype(dtype):
            raise VerificationError(f"the reference gives {other.dtype} for {output.name}, which is {dtype.value}")
        if other.numel() != own.numel():
            shapes = f"{tuple(other.shape)} for {output.name}, which is {tuple(own.shape)}"
            raise VerificationError(f"the reference gives {shapes}")
        if output.fid in drawn:
            if not same_distribution(other.reshape(own.shape), own):
                raise VerificationError(f"the reference is another {output.name}: it is distributed otherwise")
            continue
        verdict = compare(other.reshape(own.shape), own, dtype, bound=LENIENCE * bound_for(fusion, output.fid))
        if not verdict.ok:
            raise VerificationError(f"the reference is another {output.name}: error {verdict.error:.1e}")


def as_results(made: Any) -> tuple[Any, ...]:
    """The tensors in what a call gave: one, or several, nested or not."""
    if isinstance(made, tuple | list):
        return tuple(result for item in made for result in as_results(item))
    return (made,)


def reason(error: Exception) -> str:
    """``error`` in one line."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if isinstance(error, FusebuildError):
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
