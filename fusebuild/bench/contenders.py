"""Who is measured: the artifact, eager torch and torch.compile, each on the same sets of inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from fusebuild.bench.copies import equal_copies
from fusebuild.bench.device import Device, Run, Timed
from fusebuild.bench.exactness import Deviation, OutputErrors, as_results, torch_deviations
from fusebuild.errors import FusebuildError, NoReferenceError
from fusebuild.ir.fusion import Fusion
from fusebuild.oracle.verification import Trial, recipe_inputs
from fusebuild.recipe.recipe import Recipe
from fusebuild.runtime.loader import LoadedPlan

OURS, EAGER, COMPILE, COPY = "ours", "eager", "compile", "copy"
MOST_SETS = 64
Inputs = Sequence[Any]
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """Something to time. ``timed`` makes one call for each set of inputs on the device, behind a call on a set that is
    kept for that. ``call`` is what a user would write; where there is one, the host time of it is measured."""

    name: str
    timed: Timed
    call: Run | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class InputSets:
    """The inputs of the calls that are ``timed``, one set a call, and the set for the call ``before`` them, which is
    not timed."""

    timed: Sequence[Inputs]
    before: Inputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """Torch's way to compute what an artifact does, and how exact its results are, as :func:`torch_deviations` says."""

    name: str
    function: Callable[..., Any]
    deviations: Sequence[Deviation | None]


@dataclass(slots=True, kw_only=True)
class Field:
    """The contenders and rivals that can be measured, and the reason for each that cannot, by name."""

    rivals: list[Rival] = field(default_factory=list)
    contenders: list[Contender] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


def set_count(least: int, device: Device) -> int:
    """How many sets of ``least`` bytes exceed the cache three times: two at least, :data:`MOST_SETS` at most."""
    return min(MOST_SETS, max(2, -(-3 * device.cache_bytes // max(least, 1))))


def input_sets(recipe: Recipe, case: Mapping[str, int], count: int, seed: int, device: Device) -> InputSets:
    """``count`` sets of inputs to time, and one more. All have the scalars of the first: torch.compile specializes on
    numbers."""
    sets: list[list[Any]] = [
        recipe_inputs(recipe, case, seed=seed + index, device=device.torch_name) for index in range(count + 1)
    ]
    for other in sets[1:]:
        for position, fid in enumerate(recipe.fusion.inputs):
            if not recipe.fusion.value(fid).is_tensor:
                other[position] = sets[0][position]
    return InputSets(timed=sets[:-1], before=sets[-1])


def our_contender(plan: LoadedPlan, fusion: Fusion, sets: InputSets, device: Device) -> Contender:
    """``plan``, with outputs of its own for each set."""
    timed = _timed(lambda inputs: _into_own_outputs(plan, fusion, inputs), sets, device)
    return Contender(name=OURS, timed=timed, call=lambda: plan(*sets.timed[0]))


def _timed(call_of: Callable[[Inputs], Run], sets: InputSets, device: Device) -> Timed:
    """The calls on all ``sets``, ready to be enqueued."""
    run = device.captured([call_of(inputs) for inputs in sets.timed])
    return Timed(run=run, before=device.captured([call_of(sets.before)]))


def _into_own_outputs(plan: LoadedPlan, fusion: Fusion, inputs: Inputs) -> Run:
    made = as_results(plan(*inputs))
    given = tuple(None if output.alias is not None else own for output, own in zip(fusion.outputs, made, strict=True))
    return lambda: plan(*inputs, out=given)


def torch_rivals(recipe: Recipe, trial: Trial, device: Device) -> Field:
    """Eager torch and torch.compile, where they give what ``trial`` wants, or the reasons why they are not there."""
    found = Field()
    try:
        module = reference_module(recipe)
    except NoReferenceError as error:
        found.missing["reference"] = error.diagnostics[0].message
        return found

    def rival(name: str, make: Callable[[], Callable[..., Any]]) -> Rival:
        function = make()
        return Rival(name=name, function=function, deviations=torch_deviations(function, trial))

    # Plain functions: a module's own call costs microseconds that users can do without.
    makers = {EAGER: lambda: module.forward, COMPILE: lambda: device.compiled(module.forward)}
    for name, make in makers.items():
        if (made := attempt(found, name, partial(rival, name, make), device)) is not None:
            found.rivals.append(made)
    if drawn := _drawn(trial, found.rivals):
        found.missing["errors"] = f"torch draws other random numbers for {', '.join(drawn)}"
    return found


def _drawn(trial: Trial, rivals: Sequence[Rival]) -> list[str]:
    """The outputs that a rival gives and that have no errors because they were drawn."""
    given = [rival.deviations for rival in rivals]
    pairs = [pair for deviations in given for pair in zip(trial.fusion.outputs, deviations, strict=False)]
    return list(dict.fromkeys(output.name for output, deviation in pairs if deviation is None))


def output_errors(trial: Trial, ours: Sequence[Deviation], rivals: Sequence[Rival]) -> tuple[OutputErrors, ...]:
    """A row for each output of ``trial``: our errors, and those of the rivals that give it."""
    rows = []
    for place, (output, own) in enumerate(zip(trial.fusion.outputs, ours, strict=True)):
        fields: dict[str, float] = {"rms": own.rms, "largest": own.largest}
        for rival in rivals:
            given = rival.deviations[place] if place < len(rival.deviations) else None
            if given is not None:
                fields |= {f"{rival.name}_rms": given.rms, f"{rival.name}_largest": given.largest}
        dtype = trial.fusion.value(output.fid).dtype.value
        rows.append(OutputErrors(output=output.name, dtype=dtype, elements=trial.wanted[place].numel(), **fields))
    return tuple(rows)


def torch_contender(rival: Rival, sets: InputSets, device: Device) -> Contender:
    """``rival`` on each set."""

    def call_of(inputs: Inputs) -> Run:
        return lambda: rival.function(*inputs)

    return Contender(name=rival.name, timed=_timed(call_of, sets, device), call=call_of(sets.timed[0]))


def add(found: Field, name: str, make: Callable[[], Contender], device: Device) -> None:
    """Add what ``make`` makes to ``found``, or the reason why it cannot be measured."""
    if (contender := attempt(found, name, make, device)) is not None:
        found.contenders.append(contender)


def attempt(found: Field, name: str, make: Callable[[], Made], device: Device) -> Made | None:
    """The result of ``make``; None where it raises, with the reason in ``found``."""
    try:
        return make()
    except Exception as error:  # whatever torch raises: it did not run, and the report says why
        found.missing[name] = reason(error)
    device.release()  # what it allocated is free only now that nobody holds the error
    return None


def equal_copy(least: int, count: int, device: Device) -> Contender:
    """``count`` copies that move ``least`` bytes each, behind one more that is not timed."""
    *copies, before = equal_copies(least, count + 1, device)
    return Contender(name=COPY, timed=Timed(run=device.captured(copies), before=device.captured([before])))


def reference_module(recipe: Recipe) -> Any:
    """The module that torch runs: the recipe's reference, or else its fusion op by op."""
    if recipe.bench.reference is not None:
        from fusebuild.bench.torch_expression import expression_module

        return expression_module(recipe.fusion, recipe.bench.reference)
    from fusebuild.bench.torch_module import torch_module

    return torch_module(recipe.fusion)


def reason(error: Exception) -> str:
    """``error`` in one line."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    if isinstance(error, FusebuildError):
        return first
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
