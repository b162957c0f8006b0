"""The report of ``fusebuild bench``: as JSON, and as tables."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from fusebuild.artifact.json_types import json_value
from fusebuild.bench.exactness import OutputErrors

ABSENT = "–"
"""Shown in a table where nothing was measured."""


class Measurement(msgspec.Struct, frozen=True, kw_only=True):
    """One case of one artifact. Times are per call: milliseconds on the device, microseconds on the host, and spreads
    the distance between the quartiles over the median. Rates are GB/s of ``least_bytes``. What was not measured is
    None; where it should have been, ``missing`` has the reason, under ``reference``, ``eager``, ``compile``, ``copy``,
    ``errors`` or ``ncu``.

    ``reference`` says what eager torch and torch.compile ran: the recipe's expression, or ``fusion``, op by op.
    ``copy_milliseconds`` is a copy that moves ``least_bytes``, half read and half written. ``dram_*`` are ncu's counts.
    ``error``, ``eager_error`` and ``compile_error`` are the largest of any output that each gives, against the fp64
    oracle on the same inputs; ``outputs`` has those of each, and RMS errors. ``variants`` names what each segment ran:
    the variant that was taken, or its scheduler where it has none.
    """

    fusion: str
    case: dict[str, int]
    segments: int
    milliseconds: float
    spread: float
    least_bytes: int
    plan_bytes: int
    gigabytes_per_second: float
    roof: float
    error: float
    eager_error: float | None = None
    compile_error: float | None = None
    outputs: tuple[OutputErrors, ...] = ()
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
    variants: tuple[str, ...] = ()
    missing: dict[str, str] = {}

    @property
    def ratio(self) -> float:
        """The rate over the copy roof measured in the same run."""
        return self.gigabytes_per_second / self.roof

    @property
    def copy_ratio(self) -> float | None:
        """The rate over that of a copy of the same bytes."""
        return None if self.copy_milliseconds is None else self.copy_milliseconds / self.milliseconds

    @property
    def eager_ratio(self) -> float | None:
        """How many times as fast as eager torch."""
        return None if self.eager_milliseconds is None else self.eager_milliseconds / self.milliseconds

    @property
    def compile_ratio(self) -> float | None:
        """How many times as fast as torch.compile."""
        return None if self.compile_milliseconds is None else self.compile_milliseconds / self.milliseconds

    @property
    def error_ratio(self) -> float | None:
        """The RMS error over eager's, of the output where that is most."""
        return max((ratio for output in self.outputs if (ratio := output.ratio) is not None), default=None)

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


class Sweep(msgspec.Struct, frozen=True, kw_only=True):
    """How the cases of a report were drawn: ``count`` for each recipe, with ``seed``. ``skipped`` names the recipes of
    which no size is free, and ``too_large`` says which cases did not fit into memory."""

    count: int
    seed: int
    skipped: tuple[str, ...] = ()
    too_large: tuple[str, ...] = ()


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All measurements of one run, with what they were measured on; ``wrong`` says which cases were not timed because
    their results are wrong. ``sweep`` is there where the cases were drawn."""

    device: str
    driver: str
    torch: str
    date: str
    measurements: tuple[Measurement, ...]
    wrong: tuple[str, ...] = ()
    sweep: Sweep | None = None

    @property
    def origin(self) -> str:
        """Where and when it was measured, in one line."""
        return f"{self.device}, driver {self.driver}, torch {self.torch}, {self.date}"


Column = Callable[[Measurement], str]
"""The cell that a column of a table has for a measurement."""


def write_report(report: Report, path: Path) -> None:
    """``report`` as JSON."""
    path.write_text(json.dumps(json_value(report), indent=2) + "\n")


SPELLED = {"reference": "torch reference", "eager": "eager torch", "compile": "torch.compile",
            "copy": "equal copy", "errors": "errors of eager", "ncu": "DRAM bytes"}  # fmt: skip
"""What is missing, by its name in :attr:`Measurement.missing`, as people call it."""


def markdown_table(report: Report) -> str:
    """The table that ``docs/measured.md`` shows, and below it whose errors exceed eager's, and what could not be
    measured and why."""
    lines = [
        f"{report.origin}. "
        "Kernel time by CUDA events over graph replays, L2-cold; GB/s counts the least bytes; the roof is a 1 GiB "
        "device copy in the same run, an equal copy moves the same bytes. Eager torch and torch.compile run the "
        "recipe's reference, else the fusion op by op. Call: host time, ours / eager / compiled. "
        "Error: the largest against fp64, ours / eager / compiled.",
        "",
        *_table(_COLUMNS, report.measurements),
    ]
    reasons = [
        f"- {each.fusion} {each.label}: no {SPELLED.get(what, what)}: {why}"
        for each in report.measurements
        for what, why in each.missing.items()
    ]
    parts = ["\n".join(part) for part in (lines, _exactness(report), reasons) if part]
    return "\n\n".join(parts) + "\n"


def summary_table(report: Report) -> str:
    """The table that the README shows: the first case of each recipe."""
    first = {each.fusion: each for each in reversed(report.measurements)}
    lines = [f"{report.origin}.", "", *_table(_SUMMARY_COLUMNS, [each for _, each in sorted(first.items())])]
    return "\n".join(lines) + "\n"


def _table(columns: Mapping[str, Column], measurements: Sequence[Measurement]) -> list[str]:
    """The first two of ``columns`` are names, the others numbers."""
    rows = [columns, *([column(each) for column in columns.values()] for each in measurements)]
    head, *cells = (f"| {' | '.join(row)} |" for row in rows)
    return [head, f"|---|---|{'---:|' * (len(columns) - 2)}", *cells]


def _exactness(report: Report) -> list[str]:
    """How our RMS errors compare with eager's, and each output that is worse; nothing where none was compared."""
    compared = [(each, output) for each in report.measurements for output in each.outputs if output.ratio is not None]
    if not compared:
        return []
    worse = [
        f"- {each.fusion} {each.label}: the RMS error of {output.output} ({output.dtype}) is {output.rms:.1e}, "
        f"eager's {shown(output.eager_rms, '.1e')}"
        for each, output in compared
        if output.is_worse
    ]
    count = f"{len(compared) - len(worse)} of {len(compared)}"
    claim = f"RMS errors against fp64 are no worse than eager's in {count} outputs that both give"
    return [f"{claim}:", "", *worse] if worse else [f"{claim}."]


def shown(number: float | None, form: str) -> str:
    """``number`` in a cell of a table, in the format ``form``."""
    return ABSENT if number is None else format(number, form)


def _calls(each: Measurement) -> str:
    calls = (each.call_microseconds, each.eager_call_microseconds, each.compile_call_microseconds)
    return ABSENT if calls == (None,) * 3 else " / ".join(shown(call, ".1f") for call in calls)


def _errors(each: Measurement) -> str:
    torchs = (each.eager_error, each.compile_error)
    errors = (each.error,) if torchs == (None, None) else (each.error, *torchs)
    return " / ".join(shown(error, ".1e") for error in errors)


_COLUMNS: dict[str, Column] = {
    "recipe": lambda each: each.fusion,
    "case": lambda each: each.label,
    "segments": lambda each: str(each.segments),
    "ms": lambda each: f"{each.milliseconds:.4f}",
    "eager ms": lambda each: shown(each.eager_milliseconds, ".4f"),
    "compile ms": lambda each: shown(each.compile_milliseconds, ".4f"),
    "GB/s": lambda each: f"{each.gigabytes_per_second:.0f}",
    "of the copy roof": lambda each: f"{each.ratio:.2f}",
    "of an equal copy": lambda each: shown(each.copy_ratio, ".2f"),
    "times compile": lambda each: shown(each.compile_ratio, ".2f"),
    "call µs": _calls,
    "plan bytes / least bytes": lambda each: f"{each.plan_bytes / max(each.least_bytes, 1):.2f}",
    "DRAM bytes / least bytes": lambda each: shown(each.dram_ratio, ".2f"),
    "error": _errors,
    "RMS error / eager's": lambda each: shown(each.error_ratio, ".2f"),
}

_SUMMARY_COLUMNS: dict[str, Column] = {
    **{name: _COLUMNS[name] for name in ("recipe", "case", "ms")},
    "times eager": lambda each: shown(each.eager_ratio, ".2f"),
    "times compile": _COLUMNS["times compile"],
    "times a copy": _COLUMNS["of an equal copy"],
}
