"""Measuring artifacts on a GPU: kernel time and bytes per second, beside the copy roof of the same run.

Method: outputs are checked against the fp64 oracle first. Inputs and outputs rotate over sets that together exceed
three times the L2 cache, so that nothing is warm. One CUDA graph holds one call per set; its replays are timed with
events, interleaved with a large device copy. Reported are medians, and the spread between the quartiles.
``least_bytes`` counts each distinct element of every input and output once; ``plan_bytes`` what the plan's segments
read and write.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from typing import Any

from fusebuild.errors import UsageError, VerificationError
from fusebuild.formula import evaluate, total
from fusebuild.ir import Fusion
from fusebuild.plan import as_formula
from fusebuild.reference import random_inputs
from fusebuild.runtime.loader import LoadedPlan, load
from fusebuild.verification import read_recipe, verify_case

REPLAYS = 20
ROOF_BYTES = 2 * 2**30
"""The copy that sets the roof reads and writes 1 GiB each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One case of one artifact. Times are milliseconds per call, rates GB/s of ``least_bytes``."""

    fusion: str
    case: Mapping[str, int]
    segments: int
    milliseconds: float
    spread: float
    least_bytes: int
    plan_bytes: int
    gigabytes_per_second: float
    roof: float
    error: float

    @property
    def ratio(self) -> float:
        """The rate over the copy roof measured in the same run."""
        return self.gigabytes_per_second / self.roof


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All measurements of one run, with what they were measured on."""

    device: str
    driver: str
    torch: str
    date: str
    measurements: tuple[Measurement, ...]


def bench_artifacts(paths: Sequence[Path], *, seed: int = 0) -> Report:
    """Measure the first case of every artifact in ``paths`` on the current CUDA device.

    Raises :class:`VerificationError` when a result is wrong, before anything is timed.
    """
    import torch

    if not torch.cuda.is_available():
        raise UsageError("bench needs a CUDA device, and torch sees none")
    measurements = tuple(measured for path in paths for measured in _bench_artifact(path, seed))
    return Report(
        device=torch.cuda.get_device_name(),
        driver=_driver_version(),
        torch=torch.__version__,
        date=date.today().isoformat(),
        measurements=measurements,
    )


def _bench_artifact(path: Path, seed: int) -> list[Measurement]:
    plan, fusion = load(path), read_recipe(path).fusion
    return [_bench_case(plan, fusion, case, seed) for case in fusion.cases[:1]]


def _bench_case(plan: LoadedPlan, fusion: Fusion, case: Mapping[str, int], seed: int) -> Measurement:
    verdict = next(verify_case(plan, fusion, case, "cuda", seed))
    if not verdict.ok:
        raise VerificationError(
            f"{fusion.name} {dict(case)}: error {verdict.error} exceeds {verdict.bound} {verdict.problem}"
        )
    least = least_bytes(fusion, case)
    calls = [_call(plan, fusion, case, seed + index) for index in range(_input_sets(least))]
    ours, roof = _interleaved(_graph(calls).replay, _roof_copy())
    per_call = [time / len(calls) for time in ours]
    milliseconds = statistics.median(per_call)
    quartiles = statistics.quantiles(per_call, n=4)
    target = plan.plan.target(plan.target)
    assert target is not None
    plan_bytes = total([as_formula(segment.hbm_bytes) for segment in target.segments])
    return Measurement(
        fusion=fusion.name,
        case=dict(case),
        segments=len(target.segments),
        milliseconds=milliseconds,
        spread=(quartiles[2] - quartiles[0]) / milliseconds,
        least_bytes=least,
        plan_bytes=evaluate(plan_bytes, case),
        gigabytes_per_second=least / milliseconds / 1e6,
        roof=ROOF_BYTES / statistics.median(roof) / 1e6,
        error=verdict.error,
    )


def least_bytes(fusion: Fusion, case: Mapping[str, int]) -> int:
    """Bytes that any implementation must move: each distinct element of every input and output once."""
    inputs = [value.tensor.nbytes for value in fusion.tensor_inputs]
    outputs = [fusion.value(fid).tensor for fid in fusion.output_fids]
    return evaluate(total([*inputs, *(output.nbytes for output in outputs)]), case)


def _input_sets(least: int) -> int:
    """How many sets of tensors exceed three L2 caches; at most 64, for tiny cases."""
    import torch

    cache = torch.cuda.get_device_properties(torch.cuda.current_device()).L2_cache_size
    return min(64, max(2, -(-3 * cache // max(least, 1))))


def _call(plan: LoadedPlan, fusion: Fusion, case: Mapping[str, int], seed: int) -> Callable[[], object]:
    """A call of ``plan`` on tensors of its own, outputs included."""
    inputs = random_inputs(fusion, case, seed=seed, device="cuda")
    first = plan(*inputs)
    out = first if isinstance(first, tuple) else (first,)
    given = tuple(None if output.alias is not None else own for output, own in zip(fusion.outputs, out, strict=True))
    return lambda: plan(*inputs, out=given)


def _roof_copy() -> Callable[[], object]:
    """The copy whose rate is the roof. Not in a graph: there a copy is a memcpy node, which is slower."""
    import torch

    source = torch.zeros(ROOF_BYTES // 2, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def _graph(calls: Sequence[Callable[[], object]]) -> Any:
    """A CUDA graph of ``calls``, each run once beforehand."""
    import torch

    cuda: Any = torch.cuda
    side = cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for call in calls:
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def _interleaved(*runs: Callable[[], object]) -> list[list[float]]:
    """Milliseconds of each execution of each of ``runs``, taken in turns: A B A B. The first three are not counted."""
    import torch

    cuda: Any = torch.cuda
    times: list[list[float]] = [[] for _ in runs]
    for turn in range(REPLAYS + 3):
        for run, own in zip(runs, times, strict=True):
            start, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
            start.record()
            run()
            end.record()
            end.synchronize()
            if turn >= 3:
                own.append(start.elapsed_time(end))
    return times


def _driver_version() -> str:
    """The kernel driver's version, from the file it shows; empty where there is none."""
    path = Path("/proc/driver/nvidia/version")
    words = path.read_text().split() if path.is_file() else []
    return next((word for word in words if word[0].isdigit() and word.count(".") >= 1), "")


def write_report(report: Report, path: Path) -> None:
    """``report`` as JSON."""
    path.write_text(json.dumps(asdict(report), indent=2) + "\n")


def read_report(path: Path) -> Report:
    """The report that :func:`write_report` wrote."""
    data = json.loads(path.read_text())
    measurements = tuple(Measurement(**item) for item in data.pop("measurements"))
    return Report(measurements=measurements, **data)


def markdown_table(report: Report) -> str:
    """The table that the README shows."""
    lines = [
        f"{report.device}, driver {report.driver}, torch {report.torch}, {report.date}. "
        "Kernel time by CUDA events over graph replays, L2-cold; GB/s counts the least bytes; "
        "the roof is a 1 GiB device copy in the same run.",
        "",
        "| recipe | case | segments | ms | GB/s | of the copy roof | plan bytes / least bytes | error |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for each in report.measurements:
        case = " ".join(f"{name}={size}" for name, size in each.case.items()) or "constant"
        lines.append(
            f"| {each.fusion} | {case} | {each.segments} | {each.milliseconds:.4f} | {each.gigabytes_per_second:.0f} "
            f"| {each.ratio:.2f} | {each.plan_bytes / each.least_bytes:.2f} | {each.error:.1e} |"
        )
    return "\n".join(lines) + "\n"
