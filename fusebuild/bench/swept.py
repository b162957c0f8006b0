"""The table of a sweep: what the ratios of drawn cases are like, and the worst case of each recipe by name."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fusebuild.bench.report import ABSENT, SPELLED, Measurement, Report
from fusebuild.errors import counted
from fusebuild.recipe.drawn import LARGE

Ratio = Callable[[Measurement], float | None]

RATIOS: dict[str, Ratio] = {
    "times compile": lambda each: each.compile_ratio,
    "times eager": lambda each: each.eager_ratio,
    "of an equal copy": lambda each: each.copy_ratio,
}
"""The ratios that a sweep tells of, each more the better."""

_HEAD = ("recipe", "sizes", "cases", *RATIOS, "worst case")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The large cases of a recipe, or the small ones: those that move less than the fewest bytes of a large one."""

    fusion: str
    sizes: str
    measurements: Sequence[Measurement]

    @property
    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        ratios = (summary_of(self.measurements, ratio) for ratio in RATIOS.values())
        return self.fusion, self.sizes, str(len(self.measurements)), *ratios, worst_case(self.measurements)


def sweep_table(report: Report) -> str:
    """The table of a report whose ``sweep`` is there, and below it what was not measured and why."""
    sweep = report.sweep
    assert sweep is not None
    head = [
        f"{report.origin}. {sweep.count} sizes of each recipe, drawn with seed {sweep.seed}; large cases move "
        f"{LARGE[0] // 10**6} to {LARGE[1] // 10**6} MB, small ones less. How many times as fast as torch.compile and "
        "eager torch, and the share of the rate of a copy of the same bytes: median / tenth percentile / least. The "
        "worst case is that of the least ratio to torch.",
        "",
        _row(_HEAD),
        "|---|---|---:|---:|---:|---:|---|",
        *(_row(group.cells) for group in groups_of(report)),
    ]
    reasons = Counter((each.fusion, what, why) for each in report.measurements for what, why in each.missing.items())
    notes = [
        *(f"- {name}: skipped, none of its sizes is free" for name in sweep.skipped),
        *(f"- {line}" for line in (*sweep.too_large, *report.wrong)),
        *(
            f"- {fusion}, {counted(count, 'case')}: no {SPELLED.get(what, what)}: {why}"
            for (fusion, what, why), count in reasons.items()
        ),
    ]
    return "\n\n".join("\n".join(part) for part in (head, notes) if part) + "\n"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def groups_of(report: Report) -> list[Group]:
    """The cases of ``report`` by recipe, the large ones before the small ones."""
    fusions = dict.fromkeys(each.fusion for each in report.measurements)
    groups = [
        Group(
            fusion=fusion,
            sizes=sizes,
            measurements=[
                each
                for each in report.measurements
                if each.fusion == fusion and (each.least_bytes >= LARGE[0]) == (sizes == "large")
            ],
        )
        for fusion in fusions
        for sizes in ("large", "small")
    ]
    return [group for group in groups if group.measurements]


def summary_of(measurements: Sequence[Measurement], ratio: Ratio) -> str:
    """The median, the tenth percentile and the least of ``ratio``, where it was measured."""
    found = [value for each in measurements if (value := ratio(each)) is not None]
    if not found:
        return ABSENT
    tenth = statistics.quantiles(found, n=10, method="inclusive")[0] if len(found) > 1 else found[0]
    return " / ".join(f"{value:.2f}" for value in (statistics.median(found), tenth, min(found)))


def worst_case(measurements: Sequence[Measurement]) -> str:
    """The case of the least ratio to torch, of that to a copy where torch ran none: its sizes, the ratio, its time and
    the variants that ran."""
    *torchs, copy = RATIOS
    for names in (torchs, [copy]):
        found = [(value, name, each) for each in measurements for name in names if (value := RATIOS[name](each))]
        if found:
            value, name, each = min(found, key=lambda entry: entry[0])
            variants = f", {', '.join(each.variants)}" if each.variants else ""
            return f"{each.label}: {value:.2f} {name}, {each.milliseconds:.4f} ms{variants}"
    return ABSENT
