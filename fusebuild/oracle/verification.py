"""Verification: an artifact's kernels against the fp64 oracle, on fresh random inputs, outputs poisoned first.

The oracle evaluates the recipe as it was written, before any pass, so that passes, segmentation, schedules, templates,
compiler and executor are all under test.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from fusebuild.artifact.file import open_artifact
from fusebuild.artifact.json_types import Sizes
from fusebuild.errors import NothingVerifiedError, OutOfMemoryError, UsageError, counted, one_line
from fusebuild.ir.formula import evaluate
from fusebuild.ir.fusion import Fusion
from fusebuild.oracle.bounds import Comparison, bound_for, compare
from fusebuild.oracle.reference import evaluate_fp64, random_inputs, torch_dtype
from fusebuild.oracle.rounding import reaches
from fusebuild.planning.expectation import excess
from fusebuild.recipe.drawn import drawn_cases
from fusebuild.recipe.inside import recipe_in
from fusebuild.recipe.recipe import Recipe
from fusebuild.recipe.sizes import numels_of, require_fitting, shown_case, symbols_of
from fusebuild.runtime.loader import LoadedPlan, load

logger = logging.getLogger(__name__)


class VerifiedCase(msgspec.Struct, frozen=True, kw_only=True):
    """``fusebuild verify --json``: one way of one case, or a case that was skipped; ``error`` is null where it is no
    number"""

    fusion: str
    target: str
    case: Sizes
    variant: Annotated[int | None, Meta(description="the one that was forced; null where guards chose")]
    layout: Annotated[
        str, Meta(description="how the inputs lay in memory; plan: nothing ran, it has more than its recipe expects")
    ]
    error: Annotated[float | None, Meta(description="the largest against fp64")]
    bound: float
    ok: Annotated[bool, Meta(description="nothing was found to be wrong; so of a skipped case, too: see state")]
    problem: str
    state: Annotated[
        Literal["passed", "failed", "skipped"], Meta(description="skipped: larger than --max-elements, nothing ran")
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One case run one way. ``variant`` is the forced index, None for the executor's own choice; ``error`` and
    ``bound`` are those of the output nearest to failing. ``problem`` says what went wrong, and where. A case that was
    not run has its largest tensor's number of ``skipped_elements``; nothing was found to be wrong with it."""

    fusion: str
    target: str
    case: Mapping[str, int]
    variant: int | None = None
    layout: str = "aligned"
    error: float = math.inf
    bound: float = 0.0
    problem: str = ""
    skipped_elements: int = 0

    @property
    def ok(self) -> bool:
        return bool(self.skipped_elements) or (not self.problem and self.error <= self.bound)

    @property
    def complaint(self) -> str:
        """What is wrong with a case that is not ``ok``."""
        return f"error {self.error} exceeds {self.bound} {self.problem}".rstrip()

    def reported(self) -> VerifiedCase:
        """The verdict in the report of ``fusebuild verify``."""
        return VerifiedCase(
            fusion=self.fusion,
            target=self.target,
            case=dict(self.case),
            variant=self.variant,
            layout=self.layout,
            error=self.error if math.isfinite(self.error) else None,
            bound=self.bound,
            ok=self.ok,
            problem=self.problem,
            state="skipped" if self.skipped_elements else "passed" if self.ok else "failed",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One case on fresh inputs. ``wanted`` are the outputs by the fp64 oracle, which takes long and is asked once for
    everybody who is compared with it; ``reaches`` gives how far rounding moves them, found when it is first asked."""

    fusion: Fusion
    case: Mapping[str, int]
    inputs: Sequence[Any]
    wanted: Sequence[Any]
    reaches: Callable[[], Sequence[Any]]

    def arguments(self) -> list[Any]:
        """The inputs for one call: copies of those that it overwrites."""
        return [
            value.clone() if _is_overwritten(self.fusion, index) else value for index, value in enumerate(self.inputs)
        ]

    def compared(self, results: Sequence[Any]) -> list[Comparison]:
        """Each of ``results``, one for each output, with what was wanted."""
        return [
            compare(
                got,
                want,
                self.fusion.value(output.fid).dtype,
                bound=bound_for(self.fusion, output.fid),
                reach=partial(self.reach, index),
            )
            for index, (got, want, output) in enumerate(zip(results, self.wanted, self.fusion.outputs, strict=True))
        ]

    def reach(self, index: int) -> Any:
        """How far rounding moves each element of the output ``index``."""
        return self.reaches()[index]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialOutcome:
    """What one run gave: a tensor and a comparison for each output, in order, and the verdict on all of them."""

    results: Sequence[Any]
    comparisons: Sequence[Comparison]
    verdict: Verdict


_NO_CASES = "its recipe names no cases; --sweep draws some, --case names one"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifyOptions:
    """What to verify. ``cases`` replace those of the recipes, and so do as many as ``sweep`` says, drawn with ``seed``
    as :func:`~fusebuild.recipe.drawn.drawn_cases` does within ``max_elements``; a case is run where its largest tensor
    has at most ``max_elements`` elements, ``runs`` times on the same inputs."""

    cases: tuple[Mapping[str, int], ...] = ()
    sweep: int = 0
    max_elements: int | None = None
    seed: int = 0
    runs: int = 1

    def cases_of(self, recipe: Recipe) -> tuple[Mapping[str, int], ...]:
        """The sizes to run. Where all sizes are known there is nothing to name or to draw. Raises
        :class:`UsageError` where ``recipe`` does not allow a case that was given."""
        fusion = recipe.fusion
        for case in self.cases:
            require_fitting(fusion, case)
        if self.cases:
            return self.cases
        drawn = drawn_cases(recipe, self.sweep, self.seed, max_elements=self.max_elements)
        if 0 < len(drawn) < self.sweep:
            logger.warning("%s: only %s of %d to be drawn", fusion.name, counted(len(drawn), "case"), self.sweep)
        return drawn or fusion.cases or (() if symbols_of(fusion) else ({},))

    def allows(self, elements: int) -> bool:
        """Whether a case whose largest tensor has so many ``elements`` is run."""
        return self.max_elements is None or elements <= self.max_elements

    def why_none(self, cases: Sequence[Mapping[str, int]]) -> str:
        """Why none of ``cases`` was run."""
        if self.sweep:
            return f"its recipe allows no sizes whose tensors all have at most {self.max_elements:,} elements"
        count = "its only case" if len(cases) == 1 else f"each of its {len(cases)} cases"
        return f"{count} has a tensor of more than {self.max_elements:,} elements"


def verify_artifact(path: Path, *, target: str | None, options: VerifyOptions | None = None) -> Iterator[Verdict]:
    """Run every case of the artifact at ``path`` that ``options`` ask for: with the variant that the executor chooses,
    with each other variant whose guards hold, and with misaligned inputs. Every run of these has to give the same bits.

    ``target=None`` is the current CUDA device. Raises :class:`ArtifactError` when nothing in the artifact fits,
    :class:`UsageError` for a case that the recipe does not allow, :class:`OutOfMemoryError` for one that does not fit
    into memory, and :class:`NothingVerifiedError` when there is no case to run.
    """
    verdicts = verify_or_skip(path, target=target, options=options)
    return (verdict for verdict in verdicts if not verdict.skipped_elements)


def verify_or_skip(path: Path, *, target: str | None, options: VerifyOptions | None = None) -> Iterator[Verdict]:
    """:func:`verify_artifact`, which says of each larger case that it is skipped."""
    options = options or VerifyOptions()
    plan = load(path, target=target)
    recipe = read_recipe(path)
    device = "cpu" if plan.target.startswith("host") else "cuda"
    cases = options.cases_of(recipe)
    logger.info("%s: run on %s", path, plan.target)
    yield from _unexpected(plan, recipe)
    was_run = False
    for index, case in enumerate(cases):
        elements = largest_tensor(recipe.fusion, case)
        if not options.allows(elements):
            yield Verdict(fusion=recipe.fusion.name, target=plan.target, case=case, skipped_elements=elements)
            continue
        was_run = True
        with memory_named(path, recipe.fusion, case, device, f"--max-elements {elements - 1} skips this case"):
            yield from verify_case(plan, recipe, case, device, options.seed + 1000 * index, runs=options.runs)
    if not was_run:
        why = options.why_none(cases) if cases else _NO_CASES
        raise NothingVerifiedError(f"{one_line(path)}: nothing was verified: {why}")


def _unexpected(plan: LoadedPlan, recipe: Recipe) -> Iterator[Verdict]:
    """What the plan has more of than its recipe expects, at the recipe's own cases."""
    target, cases = plan.plan.target(plan.target), recipe.fusion.cases or ({},)
    assert target is not None
    for each in excess(recipe.expected, target, cases):
        case = cases[0] if each.case is None else each.case
        yield Verdict(
            fusion=recipe.fusion.name,
            target=plan.target,
            case=case,
            layout="plan",
            error=0.0,
            problem=f"the plan {each.message}",
        )


OUT_OF_MEMORY = ("out of memory", "can't allocate memory", "not enough memory", "storage size calculation overflowed")
"""Parts of torch's messages, in lower case, when memory does not suffice. On the CPU torch then raises a plain
``RuntimeError``."""


@contextmanager
def memory_named(path: Path, fusion: Fusion, case: Mapping[str, int], device: str, hint: str) -> Iterator[None]:
    """Raise :class:`OutOfMemoryError`, which names the case of the artifact at ``path``, where memory does not
    suffice."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and not any(words in str(error).lower() for words in OUT_OF_MEMORY):
            raise
        sizes = " ".join(f"{name}={size}" for name, size in case.items())
        elements = largest_tensor(fusion, case)
        raise OutOfMemoryError(
            f"{path}: {fusion.name} {sizes}: out of memory on {device}: the largest tensor has {elements:,} elements\n"
            f"  hint: {hint}"
        ) from error


def read_recipe(path: Path) -> Recipe:
    """The recipe inside the artifact at ``path``; raises :class:`ArtifactError` as :func:`recipe_in` does."""
    return recipe_in(open_artifact(path))


def largest_tensor(fusion: Fusion, case: Mapping[str, int]) -> int:
    """Elements of the largest tensor anywhere in ``fusion``: what the oracle has to hold."""
    return max((evaluate(numel, case) for numel in numels_of(fusion)), default=0)


def recipe_inputs(recipe: Recipe, case: Mapping[str, int], *, seed: int, device: str) -> list[Any]:
    """Fresh inputs for ``recipe``, integers in the ranges that it asks for."""
    return random_inputs(recipe.fusion, case, seed=seed, device=device, ranges=recipe.ranges)


def recipe_trial(recipe: Recipe, case: Mapping[str, int], device: str, seed: int) -> Trial:
    """``case`` on fresh inputs, with what the oracle makes of them."""
    return trial_on(recipe.fusion, case, recipe_inputs(recipe, case, seed=seed, device=device))


def trial_on(fusion: Fusion, case: Mapping[str, int], inputs: Sequence[Any]) -> Trial:
    """``case`` on ``inputs``, with what the oracle makes of them."""
    return Trial(
        fusion=fusion,
        case=case,
        inputs=inputs,
        wanted=evaluate_fp64(fusion, inputs),
        reaches=cache(partial(reaches, fusion, inputs)),
    )


def verify_case(
    plan: LoadedPlan, recipe: Recipe, case: Mapping[str, int], device: str, seed: int, *, runs: int = 1
) -> Iterator[Verdict]:
    """Every way to run one case, each so many ``runs``. Raises :class:`UsageError` for one that the plan refuses, such
    as the largest of no elements."""
    inputs = recipe_inputs(recipe, case, seed=seed, device=device)
    try:
        variants = possible_variants(plan, inputs)
    except ValueError as error:
        raise UsageError(f"case {shown_case(case)}: {error}") from error
    trial = trial_on(recipe.fusion, case, inputs)
    yield repeat_trial(plan, trial, runs)
    for variant in variants:
        yield repeat_trial(plan, trial, runs, variant=variant)
    misaligned = replace(trial, inputs=[_misaligned(value) for value in trial.inputs])
    yield repeat_trial(plan, misaligned, runs, layout="misaligned")


def repeat_trial(
    plan: LoadedPlan, trial: Trial, runs: int, *, variant: int | None = None, layout: str = "aligned"
) -> Verdict:
    """:func:`run_trial`, and as many more runs until there are ``runs``: it is a problem when one gives other bits."""
    first = run_trial(plan, trial, variant=variant, layout=layout)
    if runs == 1 or not first.verdict.ok:
        return first.verdict
    names, wanted = [output.name for output in trial.fusion.outputs], [bits_of(result) for result in first.results]
    for run in range(2, runs + 1):
        for name, bits, result in zip(names, wanted, _run(plan, trial, variant), strict=True):
            if not bits.equal(bits_of(result)):
                return replace(first.verdict, problem=f"{name} has other bits in run {run} than in the first")
    return first.verdict


def possible_variants(plan: LoadedPlan, inputs: Sequence[Any]) -> list[int]:
    """Variant indices that can be forced on every segment that has them."""
    chosen = plan.plan.target(plan.target)
    assert chosen is not None
    valid = plan.variants_for(*inputs)
    counts = [len(segment.variants) for segment in chosen.segments]
    return [
        index
        for index in range(max(counts, default=0))
        if all(index in own or index >= count for own, count in zip(valid, counts, strict=True))
    ]


def run_trial(plan: LoadedPlan, trial: Trial, *, variant: int | None = None, layout: str = "aligned") -> TrialOutcome:
    """Run ``plan`` once on poisoned outputs, with the variant of that index, else the executor's choice."""
    fusion = trial.fusion
    before = [value.clone() if hasattr(value, "clone") else value for value in trial.inputs]
    results = _run(plan, trial, variant)
    comparisons = trial.compared(results)
    output, worst = max(zip(fusion.outputs, comparisons, strict=True), key=lambda each: _nearness(each[1]))
    changed = [
        fusion.value(fid).name
        for index, fid in enumerate(fusion.inputs)
        if not _is_overwritten(fusion, index) and not _same(before[index], trial.inputs[index])
    ]
    overwritten = f"input {changed[0]} was overwritten" if changed else ""
    wrong = f"{output.name}{worst.problem}" if worst.problem else ""
    verdict = Verdict(
        fusion=fusion.name,
        target=plan.target,
        case=trial.case,
        variant=variant,
        layout=layout,
        error=worst.error,
        bound=worst.bound,
        problem="; ".join(filter(None, [overwritten, wrong])),
    )
    return TrialOutcome(results=results, comparisons=comparisons, verdict=verdict)


def _nearness(comparison: Comparison) -> float:
    """The error over the bound: how near a result is to failing. It fails above 1."""
    if not comparison.bound:
        return math.inf if comparison.error else 0.0
    return comparison.error / comparison.bound


def _run(plan: LoadedPlan, trial: Trial, variant: int | None) -> tuple[Any, ...]:
    """The outputs of one run, which were poisoned before."""
    fusion = trial.fusion
    out = [
        _poisoned(fusion, output.fid, output.alias, want)
        for output, want in zip(fusion.outputs, trial.wanted, strict=True)
    ]
    with _poisoned_memory():
        results = plan(*trial.arguments(), out=out[0] if len(out) == 1 else tuple(out), variant=variant)
    return results if isinstance(results, tuple) else (results,)


def _is_overwritten(fusion: Fusion, index: int) -> bool:
    return fusion.inputs[index] in {output.alias for output in fusion.outputs}


def _poisoned(fusion: Fusion, fid: int, alias: int | None, want: Any) -> Any:
    """A tensor to write into, full of what no kernel would write; None where an input is overwritten."""
    import torch

    if alias is not None:
        return None
    dtype = torch_dtype(fusion.value(fid).dtype)
    poison = math.nan if dtype.is_floating_point else True if dtype is torch.bool else torch.iinfo(dtype).min
    return torch.full(want.shape, poison, dtype=dtype, device=want.device)


@contextmanager
def _poisoned_memory() -> Iterator[None]:
    """The workspace is full of NaN where no kernel has written. The executor allocates it with torch, which fills new
    memory with bytes of all ones in its deterministic mode
    (``torch.utils.deterministic.fill_uninitialized_memory``)."""
    import torch

    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")  # use_deterministic_algorithms imports torch.compile: 0.9 s
    try:
        yield
    finally:
        torch.set_deterministic_debug_mode(before)


def _misaligned(value: Any) -> Any:
    """A copy of ``value`` in memory that starts one element past an aligned address, so that no kernel may access it in
    vectors. Numbers stay as they are."""
    import torch

    if not hasattr(value, "stride") or not value.numel():
        return value
    span = 1 + sum((size - 1) * stride for size, stride in zip(value.shape, value.stride(), strict=True))
    buffer = torch.empty(span + 1, dtype=value.dtype, device=value.device)
    moved = buffer[1:].as_strided(value.shape, value.stride())
    moved.as_strided((span,), (1,)).copy_(value.as_strided((span,), (1,)))
    return moved


def _same(before: Any, after: Any) -> bool:
    """Whether two inputs, numbers or tensors, are the same."""
    return bool(bits_of(before).equal(bits_of(after)) if hasattr(before, "stride") else before == after)


def bits_of(tensor: Any) -> Any:
    """The bytes of ``tensor``: compared as these, NaN equals NaN, and 0.0 differs from -0.0. They are those of a copy,
    since a contiguous tensor may have any stride along dims of size 1."""
    import torch

    return tensor.clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)
