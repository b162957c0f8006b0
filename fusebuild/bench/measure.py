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

import logging
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

from fusebuild.artifact.plan import as_formula
from fusebuild.bench.contenders import (
    COPY,
    OURS,
    Field,
    add,
    equal_copy,
    input_sets,
    our_contender,
    output_errors,
    set_count,
    torch_contender,
    torch_rivals,
)
from fusebuild.bench.copies import roof_copy
from fusebuild.bench.device import CudaDevice, Device, Run, Timed
from fusebuild.bench.exactness import OutputErrors, our_deviations
from fusebuild.bench.report import Measurement, Report
from fusebuild.bench.timing import call_microseconds, side_by_side, timing
from fusebuild.bench.traffic import Traffic, TrafficError, measured_traffic
from fusebuild.errors import UsageError, VerificationError, nearest
from fusebuild.ir.formula import evaluate, total
from fusebuild.ir.fusion import Fusion
from fusebuild.ops.footprint import read_bytes
from fusebuild.oracle.verification import memory_named, read_recipe, recipe_trial, run_trial
from fusebuild.recipe.recipe import Recipe
from fusebuild.recipe.sections import broken_fact
from fusebuild.runtime.loader import LoadedPlan, load

logger = logging.getLogger(__name__)

_ROOF = "roof"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to measure. ``cases`` replace those of the recipes; ``compare`` with torch; ``ncu`` counts DRAM bytes."""

    cases: tuple[Mapping[str, int], ...] = ()
    compare: bool = True
    ncu: bool = False
    seed: int = 0


def bench_artifacts(paths: Sequence[Path], options: Options | None = None, *, device: Device | None = None) -> Report:
    """Measure every artifact in ``paths`` on ``device``, the current CUDA device where there is none given: the cases
    of ``options``, else those of the recipe's ``bench`` section, else its first case.

    A case with wrong results is not timed; the report says so, and has the others. Raises :class:`UsageError` when
    there is no device or a case does not fit a recipe, before anything is measured at all, and
    :class:`OutOfMemoryError` where a case does not fit into memory.
    """
    import torch

    options = options or Options()
    chosen: Device = device if device is not None else CudaDevice()
    work = []
    for path in paths:
        recipe = read_recipe(path)
        work += [(path, recipe, case) for case in _cases(recipe, options)]
    roof = roof_copy(chosen)
    measurements, wrong = list[Measurement](), list[str]()
    for path, recipe, case in work:
        try:
            with memory_named(path, recipe.fusion, case, chosen.torch_name, "--case measures other sizes"):
                measurements.append(_bench_case(path, recipe, case, options, chosen, roof))
        except VerificationError as error:
            wrong.append(str(error))
    name, driver = chosen.description
    return Report(
        device=name,
        driver=driver,
        torch=str(torch.__version__),  # a subclass of str, which msgspec does not write
        date=date.today().isoformat(),
        measurements=tuple(measurements),
        wrong=tuple(wrong),
    )


def _cases(recipe: Recipe, options: Options) -> tuple[Mapping[str, int], ...]:
    fusion = recipe.fusion
    for case in options.cases:
        require_fitting(fusion, case)
    if cases := options.cases or recipe.bench.cases or fusion.cases[:1]:
        return cases
    if symbols := _symbols(fusion):
        raise UsageError(f"{fusion.name} has no cases; say with --case how large {', '.join(symbols)} are")
    return ({},)


def _symbols(fusion: Fusion) -> list[str]:
    return list(dict.fromkeys(binding.extent for binding in fusion.extents if isinstance(binding.extent, str)))


def require_fitting(fusion: Fusion, case: Mapping[str, int]) -> None:
    """Raise :class:`UsageError` unless ``case`` gives each symbol of ``fusion`` a size that the recipe allows."""
    symbols = _symbols(fusion)
    shown = ",".join(f"{name}={size}" for name, size in case.items())
    for name in case:
        if name not in symbols:
            hint = nearest(name, symbols) or f"its symbols are {', '.join(symbols) or 'none'}"
            raise UsageError(f"case {shown}: {fusion.name} has no symbol {name}; {hint}")
    if absent := [symbol for symbol in symbols if symbol not in case]:
        raise UsageError(f"case {shown}: {fusion.name} needs a size for {', '.join(absent)}")
    for fact in fusion.facts:
        if broken := broken_fact(fact, case[fact.symbol]):
            raise UsageError(f"case {shown}: {fact.symbol} is {case[fact.symbol]}, but {broken}")


def _bench_case(
    path: Path, recipe: Recipe, case: Mapping[str, int], options: Options, device: Device, roof: Run
) -> Measurement:
    logger.info("%s %s", path, dict(case))
    plan, fusion = load(path, target=device.target), recipe.fusion
    found, outputs = _judged(plan, recipe, case, options, device)
    least = least_bytes(fusion, case)
    target = plan.plan.target(plan.target)
    assert target is not None
    timed = _timed(plan, recipe, case, options, device, roof, found)
    del found
    device.release()
    return Measurement(
        fusion=fusion.name,
        case=dict(case),
        segments=len(target.segments),
        least_bytes=least,
        plan_bytes=evaluate(total([as_formula(segment.hbm_bytes) for segment in target.segments]), case),
        gigabytes_per_second=least / timed["milliseconds"] / 1e6,
        error=max((output.largest for output in outputs), default=0.0),
        eager_error=max((e for output in outputs if (e := output.eager_largest) is not None), default=None),
        compile_error=max((e for output in outputs if (e := output.compile_largest) is not None), default=None),
        outputs=outputs,
        **_with_traffic(timed, path, case, options),
    )


def _judged(
    plan: LoadedPlan, recipe: Recipe, case: Mapping[str, int], options: Options, device: Device
) -> tuple[Field, tuple[OutputErrors, ...]]:
    """Who computes the same as ``plan``, and the errors of all of them on the first set of inputs. What the oracle
    gives is free again afterwards. Raises :class:`VerificationError` where our own results are wrong."""
    trial = recipe_trial(recipe, case, device.torch_name, options.seed)
    outcome = run_trial(plan, trial)
    verdict = outcome.verdict
    if not verdict.ok:
        raise VerificationError(
            f"{verdict.fusion} {dict(case)}: error {verdict.error} exceeds {verdict.bound} {verdict.problem}".rstrip()
        )
    ours = our_deviations(trial, outcome)
    del outcome
    device.release()
    found = torch_rivals(recipe, trial, device) if options.compare else Field()
    return found, output_errors(trial, ours, found.rivals)


def _timed(
    plan: LoadedPlan,
    recipe: Recipe,
    case: Mapping[str, int],
    options: Options,
    device: Device,
    roof: Run,
    found: Field,
) -> dict[str, Any]:
    """The fields of a :class:`Measurement` that are timed: those of the artifact, of the rivals in ``found``, and of
    copies. What is allocated for it is free again when ``found`` is."""
    fusion, least = recipe.fusion, least_bytes(recipe.fusion, case)
    count = set_count(least, device)
    sets = input_sets(recipe, case, count, options.seed, device)
    found.contenders.append(our_contender(plan, fusion, sets, device))
    for rival in found.rivals:
        add(found, rival.name, partial(torch_contender, rival, sets, device), device)
    add(found, COPY, lambda: equal_copy(least, count, device), device)
    timed = {contender.name: contender.timed for contender in found.contenders}
    times = side_by_side({**timed, _ROOF: Timed(run=roof, before=roof)}, roof, device)
    fields: dict[str, Any] = {
        "roof": device.roof_bytes / statistics.median(times[_ROOF]) / 1e6,
        "missing": found.missing,
    }
    if options.compare and "reference" not in found.missing:
        fields["reference"] = recipe.bench.reference.text if recipe.bench.reference else "fusion"
    for contender in found.contenders:
        prefix = "" if contender.name == OURS else f"{contender.name}_"
        own = timing(times[contender.name], count)
        fields |= {f"{prefix}milliseconds": own.milliseconds, f"{prefix}spread": own.spread}
        if contender.call is not None:
            fields[f"{prefix}call_microseconds"] = call_microseconds(contender.call, device)
    return fields


def _with_traffic(timed: dict[str, Any], path: Path, case: Mapping[str, int], options: Options) -> dict[str, Any]:
    """``timed``, with what ncu counted or why it did not."""
    if not options.ncu:
        return timed
    try:
        traffic: Traffic = measured_traffic(path, case, options.seed)
    except TrafficError as error:
        return {**timed, "missing": {**timed["missing"], "ncu": str(error)}}
    return {**timed, "dram_bytes_read": traffic.bytes_read, "dram_bytes_written": traffic.bytes_written}


def least_bytes(fusion: Fusion, case: Mapping[str, int]) -> int:
    """Bytes that any implementation must move: each distinct element of every input and output once, of inputs that
    only index ops read what they take."""
    inputs = [read_bytes(fusion, value.fid) for value in fusion.tensor_inputs]
    outputs = [fusion.value(fid).tensor for fid in fusion.output_fids]
    return evaluate(total([*inputs, *(output.nbytes for output in outputs)]), case)
