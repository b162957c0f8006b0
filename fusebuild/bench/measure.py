"""Measuring artifacts: kernel time and bytes per second, beside torch and beside copies, in one process.

Method: outputs are checked against the fp64 oracle first, and whatever is compared with must compute the same; the
errors of all are kept (:mod:`fusebuild.bench.exactness`). Inputs and outputs rotate over sets that together exceed
three times the L2 cache, so that nothing is warm, or over 64 for tiny cases. For each contender one CUDA graph holds
one call a set. The graphs, a copy of the same bytes and the large copy that sets the roof are timed in turns with
events, and the order rotates from turn to turn. A large copy that is not timed goes before each: it hides the host's
launches and leaves nothing in L2 of the sets, which contenders share (of tiny cases all stayed, and all but the first
found them there). Reported are medians, and the spread between the quartiles. Host time is that of calls outside of
graphs, which allocate their results.

Each contender is timed right behind a call of its own that is not timed, on one more set of inputs and outputs, which
never is; the large copy behind itself, for no cache holds it. Measured on an H200: lines that somebody left dirty in L2
(up to 30 MB) are written back at the cost of who comes next, 4 of 64 microseconds for a reduction behind a large copy;
behind its own call each pays for its own. A call on the timed tensors would favour whoever asks L2 to keep them: it
took another's 82 microseconds down to 65.

``least_bytes`` counts each distinct element of every input and output once; ``plan_bytes`` what the plan's segments
read and write.
"""

from __future__ import annotations

import gc
import logging
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from fusebuild.bench.ahead import Job, compile_ahead
from fusebuild.bench.contenders import (
    COPY,
    OURS,
    Lineup,
    equal_copy,
    input_sets,
    our_contender,
    output_errors,
    roof_copy,
    set_count,
    torch_contender,
    torch_forms,
    variants_taken,
)
from fusebuild.bench.device import CudaDevice, Device, Run, Timed
from fusebuild.bench.exactness import OutputErrors, our_deviations
from fusebuild.bench.faults import Faults, release
from fusebuild.bench.report import Measurement, Report, Sweep
from fusebuild.bench.timing import call_microseconds, side_by_side, timing
from fusebuild.bench.traffic import TrafficError, measured_traffic
from fusebuild.errors import UsageError, VerificationError
from fusebuild.ir.formula import evaluate
from fusebuild.oracle.verification import memory_named, read_recipe, recipe_trial, run_trial
from fusebuild.planning.expectation import hbm_bytes
from fusebuild.recipe.drawn import drawn_cases
from fusebuild.recipe.recipe import Recipe
from fusebuild.recipe.sizes import least_bytes, require_fitting, symbols_of
from fusebuild.runtime.loader import LoadedPlan, load

logger = logging.getLogger(__name__)

_ROOF = "roof"


@dataclass(frozen=True, slots=True, kw_only=True)
class BenchOptions:
    """What to measure. ``cases`` replace those of the recipes, and so do as many as ``sweep`` says, drawn with ``seed``
    for each; ``compare`` with torch, which ``jobs`` processes compile for ahead where there are any; ``ncu`` counts
    DRAM bytes."""

    cases: tuple[Mapping[str, int], ...] = ()
    sweep: int = 0
    jobs: int = 0
    compare: bool = True
    ncu: bool = False
    seed: int = 0


def bench_artifacts(
    paths: Sequence[Path], options: BenchOptions | None = None, *, device: Device | None = None
) -> Report:
    """Measure every artifact in ``paths`` on ``device``, the current CUDA device where there is none given: the cases
    of ``options``, else those of the recipe's ``bench`` section, else its first case.

    A case with wrong results is not timed; the report says so, and has the others. Raises :class:`UsageError` when
    there is no device or a case does not fit a recipe, before anything is measured at all, and
    :class:`OutOfMemoryError` where a case does not fit into memory. Of a sweep, whose cases nobody chose, the report
    names such a case too, and counts as wrong whatever else a case raises.
    """
    import torch

    options = options or BenchOptions()
    chosen: Device = device if device is not None else CudaDevice()
    work, skipped = list[_Work](), list[str]()
    for path in paths:
        recipe = read_recipe(path)
        cases = _cases(recipe, options)
        work += [_Work(path, recipe, case, options, chosen) for case in cases]
        skipped += [] if cases else [recipe.fusion.name]
    if options.compare and options.jobs:
        jobs = [Job(path=str(each.path), case=dict(each.case)) for each in work]
        compile_ahead(jobs, options.jobs, options.seed, chosen)
    found = _Found()
    roof = roof_copy(chosen)
    for index, each in enumerate(work):
        found.take(each, roof)
        if index == 0:
            gc.freeze()  # two collections a case took 0.37 s each, for 450,000 objects of torch's modules
    name, driver = chosen.description
    return Report(
        device=name,
        driver=driver,
        torch=str(torch.__version__),  # a subclass of str, which msgspec does not write
        date=date.today().isoformat(),
        measurements=tuple(found.measurements),
        wrong=tuple(found.faults.wrong),
        sweep=_sweep(options, skipped, found) if options.sweep else None,
    )


def _cases(recipe: Recipe, options: BenchOptions) -> tuple[Mapping[str, int], ...]:
    fusion = recipe.fusion
    if options.sweep:
        return drawn_cases(recipe, options.sweep, options.seed)
    for case in options.cases:
        require_fitting(fusion, case)
    if cases := options.cases or recipe.bench.cases or fusion.cases[:1]:
        return cases
    if symbols := symbols_of(fusion):
        raise UsageError(f"{fusion.name} has no cases; say with --case how large {', '.join(symbols)} are")
    return ({},)


@dataclass(frozen=True, slots=True)
class _Work:
    """One case of one artifact to measure."""

    path: Path
    recipe: Recipe
    case: Mapping[str, int]
    options: BenchOptions
    device: Device

    @property
    def name(self) -> str:
        return f"{self.recipe.fusion.name} {dict(self.case)}"

    def measured(self, roof: Run) -> Measurement:
        """Raises :class:`VerificationError` where the artifact's results are wrong."""
        logger.info("%s %s", self.path, dict(self.case))
        plan, fusion = load(self.path, target=self.device.target), self.recipe.fusion
        lineup, outputs = self._judged(plan)
        least = least_bytes(fusion, self.case)
        target = plan.plan.target(plan.target)
        assert target is not None
        timed = self._timed(plan, roof, lineup)
        del lineup
        self.device.release()
        return Measurement(
            fusion=fusion.name,
            case=dict(self.case),
            segments=len(target.segments),
            least_bytes=least,
            plan_bytes=evaluate(hbm_bytes(target), self.case),
            gigabytes_per_second=least / timed["milliseconds"] / 1e6,
            error=max((output.largest for output in outputs), default=0.0),
            eager_error=max((e for output in outputs if (e := output.eager_largest) is not None), default=None),
            compile_error=max((e for output in outputs if (e := output.compile_largest) is not None), default=None),
            outputs=outputs,
            **self._with_traffic(timed),
        )

    def _judged(self, plan: LoadedPlan) -> tuple[Lineup, tuple[OutputErrors, ...]]:
        """Who computes the same as ``plan``, and the errors of all of them on the first set of inputs. What the oracle
        gives is free again afterwards."""
        trial = recipe_trial(self.recipe, self.case, self.device.torch_name, self.options.seed)
        outcome = run_trial(plan, trial)
        found = outcome.verdict
        if not found.ok:
            raise VerificationError(f"{self.name}: {found.complaint}")
        ours = our_deviations(trial, outcome)
        del outcome
        self.device.release()
        lineup = torch_forms(self.recipe, trial, self.device) if self.options.compare else Lineup()
        return lineup, output_errors(trial, ours, lineup.forms)

    def _timed(self, plan: LoadedPlan, roof: Run, lineup: Lineup) -> dict[str, Any]:
        """The fields of a :class:`Measurement` that are timed: those of the artifact, of torch's forms in ``lineup``,
        and of copies. What is allocated for it is free again when ``lineup`` is."""
        recipe, device = self.recipe, self.device
        least = least_bytes(recipe.fusion, self.case)
        count = set_count(least, device)
        sets = input_sets(recipe, self.case, count, self.options.seed, device)
        lineup.contenders.append(our_contender(plan, recipe.fusion, sets, device))
        makers = {form.name: partial(torch_contender, form, sets, device) for form in lineup.forms}
        for name, make in {**makers, COPY: partial(equal_copy, least, count, device)}.items():
            lineup.contenders += lineup.attempt(name, make, device)
        timed = {contender.name: contender.timed for contender in lineup.contenders}
        times = side_by_side({**timed, _ROOF: Timed(run=roof, before=roof)}, roof, device)
        fields: dict[str, Any] = {
            "roof": device.roof_bytes / statistics.median(times[_ROOF]) / 1e6,
            "missing": lineup.missing,
            "variants": variants_taken(plan, sets.timed[0]),
        }
        if self.options.compare and "reference" not in lineup.missing:
            fields["reference"] = recipe.bench.reference.text if recipe.bench.reference else "fusion"
        for contender in lineup.contenders:
            prefix = "" if contender.name == OURS else f"{contender.name}_"
            fields[f"{prefix}milliseconds"], fields[f"{prefix}spread"] = timing(times[contender.name], count)
            if contender.call is not None:
                fields[f"{prefix}call_microseconds"] = call_microseconds(contender.call, device)
        return fields

    def _with_traffic(self, timed: dict[str, Any]) -> dict[str, Any]:
        """``timed``, with what ncu counted or why it did not."""
        if not self.options.ncu:
            return timed
        try:
            traffic = measured_traffic(self.path, self.case, self.options.seed)
        except TrafficError as error:
            return {**timed, "missing": {**timed["missing"], "ncu": str(error)}}
        return {**timed, "dram_bytes_read": traffic.bytes_read, "dram_bytes_written": traffic.bytes_written}


@dataclass(frozen=True, slots=True)
class _Found:
    """What measuring found, case by case."""

    measurements: list[Measurement] = field(default_factory=list)
    faults: Faults = field(default_factory=Faults)

    def take(self, work: _Work, roof: Run) -> None:
        """Measure ``work``, or say why it was not. Raises what only a sweep goes on after."""
        hint, device = "--case measures other sizes", work.device
        kept = self.faults.all_kept(work.name) if work.options.sweep else self.faults.wrong_kept()
        with kept, memory_named(work.path, work.recipe.fusion, work.case, device.torch_name, hint):
            self.measurements.append(work.measured(roof))
            return
        release(device)  # what was allocated is free only now that nobody holds the error


def _sweep(options: BenchOptions, skipped: Sequence[str], found: _Found) -> Sweep:
    return Sweep(
        count=options.sweep, seed=options.seed, skipped=tuple(skipped), too_large=tuple(found.faults.too_large)
    )
