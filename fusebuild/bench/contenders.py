"""Who is measured: the artifact, eager torch and torch.compile, each on the same sets of inputs; and copies, which run
at the rate that the device's memory alone allows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

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
class TorchForm:
    """Torch's way to compute what an artifact does, and how exact its results are, as :func:`torch_deviations` says."""

    name: str
    function: Callable[..., Any]
    deviations: Sequence[Deviation | None]


@dataclass(slots=True, kw_only=True)
class Lineup:
    """Torch's forms and the contenders that can be measured, and the reason for each that cannot, by name."""

    forms: list[TorchForm] = field(default_factory=list)
    contenders: list[Contender] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)

    def attempt(self, name: str, make: Callable[[], Made], device: Device) -> list[Made]:
        """The result of ``make``; nothing where it raises, with the reason in ``missing``."""
        try:
            return [make()]
        except Exception as error:  # whatever torch raises: it did not run, and the report says why
            self.missing[name] = reason(error)
        device.release()  # what it allocated is free only now that nobody holds the error
        return []


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


def our_contender(
    plan: LoadedPlan, fusion: Fusion, sets: InputSets, device: Device, *, variant: int | None = None
) -> Contender:
    """``plan``, with outputs of its own for each set; with the variant of that index, else the executor's choice."""
    run = partial(plan, variant=variant)
    timed = _timed(lambda inputs: _into_own_outputs(run, fusion, inputs), sets, device)
    return Contender(name=OURS, timed=timed, call=lambda: run(*sets.timed[0]))


def variants_taken(plan: LoadedPlan, inputs: Inputs, *, variant: int | None = None) -> tuple[str, ...]:
    """What each segment of ``plan`` runs on ``inputs``: the name of the variant, or of its scheduler where it has none.
    The ``variant`` of that index is forced on segments that have so many; the others run the executor's choice."""
    target = plan.plan.target(plan.target)
    assert target is not None
    names = []
    for segment, valid in zip(target.segments, plan.variants_for(*inputs), strict=True):
        taken = valid[:1] if variant is None or variant >= len(segment.variants) else (variant,)
        names += [segment.variants[index].name for index in taken] or [segment.scheduler]
    return tuple(names)


def _timed(call_of: Callable[[Inputs], Run], sets: InputSets, device: Device) -> Timed:
    """The calls on all ``sets``, ready to be enqueued."""
    run = device.captured([call_of(inputs) for inputs in sets.timed])
    return Timed(run=run, before=device.captured([call_of(sets.before)]))


def _into_own_outputs(run: Callable[..., Any], fusion: Fusion, inputs: Inputs) -> Run:
    made = as_results(run(*inputs))
    given = tuple(None if output.alias is not None else own for output, own in zip(fusion.outputs, made, strict=True))
    return lambda: run(*inputs, out=given)


def torch_forms(recipe: Recipe, trial: Trial, device: Device) -> Lineup:
    """Eager torch and torch.compile, where they give what ``trial`` wants, or the reasons why they are not there."""
    found = Lineup()
    try:
        module = reference_module(recipe)
    except NoReferenceError as error:
        found.missing["reference"] = error.diagnostics[0].message
        return found

    def form(name: str, make: Callable[[], Callable[..., Any]]) -> TorchForm:
        function = make()
        return TorchForm(name=name, function=function, deviations=torch_deviations(function, trial))

    # Plain functions: a module's own call costs microseconds that users can do without.
    makers = {EAGER: lambda: module.forward, COMPILE: lambda: device.compiled(module.forward)}
    for name, make in makers.items():
        found.forms += found.attempt(name, partial(form, name, make), device)
    pairs = [pair for form in found.forms for pair in zip(trial.fusion.outputs, form.deviations, strict=False)]
    if drawn := dict.fromkeys(output.name for output, deviation in pairs if deviation is None):
        found.missing["errors"] = f"torch draws other random numbers for {', '.join(drawn)}"
    return found


def output_errors(trial: Trial, ours: Sequence[Deviation], forms: Sequence[TorchForm]) -> tuple[OutputErrors, ...]:
    """A row for each output of ``trial``: our errors, and those of torch's forms that give it."""
    rows = []
    for place, (output, own) in enumerate(zip(trial.fusion.outputs, ours, strict=True)):
        fields: dict[str, float] = {"rms": own.rms, "largest": own.largest}
        for form in forms:
            given = form.deviations[place] if place < len(form.deviations) else None
            if given is not None:
                fields |= {f"{form.name}_rms": given.rms, f"{form.name}_largest": given.largest}
        dtype = trial.fusion.value(output.fid).dtype.value
        rows.append(OutputErrors(output=output.name, dtype=dtype, elements=trial.wanted[place].numel(), **fields))
    return tuple(rows)


def torch_contender(form: TorchForm, sets: InputSets, device: Device) -> Contender:
    """``form`` on each set."""

    def call_of(inputs: Inputs) -> Run:
        return lambda: form.function(*inputs)

    return Contender(name=form.name, timed=_timed(call_of, sets, device), call=call_of(sets.timed[0]))


def roof_copy(device: Device) -> Run:
    """The copy whose rate is the roof. Not for a graph: there a copy is a memcpy node, which is slower."""
    import torch

    source = torch.zeros(device.roof_bytes // 2, dtype=torch.uint8, device=device.torch_name)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def equal_copy(least: int, count: int, device: Device) -> Contender:
    """``count`` copies in memory of their own, behind one more that is not timed; each reads and writes half of
    ``least`` bytes, since small tensors do not reach the roof of large ones. Each is a kernel (a negation), so that it
    can be part of a graph."""
    import torch

    def copy() -> Run:
        source = torch.zeros(max(1, least // 8), dtype=torch.int32, device=device.torch_name)
        target = torch.empty_like(source)
        return lambda: torch.neg(source, out=target)

    *copies, before = (copy() for _ in range(count + 1))
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
