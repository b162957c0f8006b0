"""What was measured, as data, as JSON and as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

ABSENT = "–"
"""What a table shows where nothing was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One case of one artifact. Times are per call: milliseconds on the device, microseconds on the host, and spreads
    the distance between the quartiles over the median. Rates are GB/s of ``least_bytes``. What was not measured is
    None; where it should have been, ``missing`` has the reason, under ``reference``, ``eager``, ``compile``, ``copy``
    or ``ncu``.

    ``reference`` says what eager torch and torch.compile ran: the recipe's expression, or ``fusion``, op by op.
    ``copy_milliseconds`` is a copy that moves ``least_bytes``, half read and half written. ``dram_*`` are ncu's counts.
    """

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
    reference: str = ""
    eager_milliseconds: float | None = None
    eager_spread: float | None = None
    compile_milliseconds: float | None = None
    compile_spread: float | None = None
    copy_milliseconds: float | None = None
    copy_spread: float | None = None
    call_microseconds: float | None = None
    eager_call_microseconds: float | None = None
    compile_call_microseconds: float | None = None
    dram_bytes_read: int | None = None
    dram_bytes_written: int | None = None
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """The rate over the copy roof measured in the same run."""
        return self.gigabytes_per_second / self.roof

    @property
    def copy_ratio(self) -> float | None:
        """The rate over that of a copy of the same bytes."""
        return None if self.copy_milliseconds is None else self.copy_milliseconds / self.milliseconds

    @property
    def compile_ratio(self) -> float | None:
        """How many times as fast as torch.compile."""
        return None if self.compile_milliseconds is None else self.compile_milliseconds / self.milliseconds

    @property
    def dram_ratio(self) -> float | None:
        """The measured traffic over ``least_bytes``."""
        if self.dram_bytes_read is None or self.dram_bytes_written is None:
            return None
        return (self.dram_bytes_read + self.dram_bytes_written) / max(self.least_bytes, 1)

    @property
    def label(self) -> str:
        """The sizes as a person writes them."""
        return " ".join(f"{name}={size}" for name, size in self.case.items()) or "constant"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All measurements of one run, with what they were measured on; ``wrong`` says which cases were not timed because
    their results are wrong."""

    device: str
    driver: str
    torch: str
    date: str
    measurements: tuple[Measurement, ...]
    wrong: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        """Where and when it was measured, in one line."""
        return f"{self.device}, driver {self.driver}, torch {self.torch}, {self.date}"


def write_report(report: Report, path: Path) -> None:
    """``report`` as JSON."""
    path.write_text(json.dumps(asdict(report), indent=2) + "\n")


def read_report(path: Path) -> Report:
    """The report that :func:`write_report` wrote, by this version or by one that measured less."""
    data = json.loads(path.read_text())
    measurements = tuple(Measurement(**item) for item in data.pop("measurements"))
    return Report(measurements=measurements, wrong=tuple(data.pop("wrong", ())), **data)


_SPELLED = {"reference": "torch reference", "eager": "eager torch", "compile": "torch.compile",
            "copy": "equal copy", "ncu": "DRAM bytes"}  # fmt: skip
_HEAD = (
    "recipe", "case", "segments", "ms", "eager ms", "compile ms", "GB/s", "of the copy roof", "of an equal copy",
    "times compile", "call µs", "plan bytes / least bytes", "DRAM bytes / least bytes", "error",
)  # fmt: skip


def markdown_table(report: Report) -> str:
    """The table that the README shows, and below it what could not be measured and why."""
    lines = [
        f"{report.origin}. "
        "Kernel time by CUDA events over graph replays, L2-cold; GB/s counts the least bytes; the roof is a 1 GiB "
        "device copy in the same run, an equal copy moves the same bytes. Eager torch and torch.compile run the "
        "recipe's reference, else the fusion op by op. Call: host time, ours / eager / compiled.",
        "",
        f"| {' | '.join(_HEAD)} |",
        f"|---|---|{'---:|' * (len(_HEAD) - 2)}",
    ]
    lines += [f"| {' | '.join(_row(each))} |" for each in report.measurements]
    reasons = [
        f"- {each.fusion} {each.label}: no {_SPELLED.get(what, what)}: {why}"
        for each in report.measurements
        for what, why in each.missing.items()
    ]
    return "\n".join([*lines, *([""] if reasons else []), *reasons]) + "\n"


def _row(each: Measurement) -> list[str]:
    calls = (each.call_microseconds, each.eager_call_microseconds, each.compile_call_microseconds)
    return [
        each.fusion,
        each.label,
        str(each.segments),
        f"{each.milliseconds:.4f}",
        _shown(each.eager_milliseconds, ".4f"),
        _shown(each.compile_milliseconds, ".4f"),
        f"{each.gigabytes_per_second:.0f}",
        f"{each.ratio:.2f}",
        _shown(each.copy_ratio, ".2f"),
        _shown(each.compile_ratio, ".2f"),
        ABSENT if calls == (None,) * 3 else " / ".join(_shown(call, ".1f") for call in calls),
        f"{each.plan_bytes / max(each.least_bytes, 1):.2f}",
        _shown(each.dram_ratio, ".2f"),
        f"{each.error:.1e}",
    ]


def _shown(number: float | None, form: str) -> str:
    return ABSENT if number is None else format(number, form)
