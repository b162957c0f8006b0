"""A picture of a report: bars of each case's rate, ours beside eager torch and torch.compile, under the copy roof; of
a sweep, how many times as fast as they, over the bytes of each case."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from fusebuild.bench.report import Measurement, Report
from fusebuild.errors import UsageError
from fusebuild.recipe.drawn import LARGE, SMALL

ENDINGS = (".png", ".svg")
_COLORS = {"eager": "#b8bec7", "torch.compile": "#e49b3f", "fusebuild": "#2f7d4f"}
_RATIOS: dict[str, Callable[[Measurement], float | None]] = {
    "eager": lambda each: each.eager_ratio,
    "torch.compile": lambda each: each.compile_ratio,
}
_COLUMNS = 5
"""Panels side by side."""


def require_plot(path: Path) -> None:
    """Raise :class:`UsageError` unless :func:`write_plot` can write ``path``: asked before anything is measured."""
    if path.suffix not in ENDINGS:
        raise UsageError(f"--plot writes {' or '.join(ENDINGS)}, not '{path.name}'")
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise UsageError("--plot needs matplotlib: pip install 'fusebuild[plot]'") from None


def write_plot(report: Report, path: Path) -> None:
    """``report`` as a picture in the format that ``path`` ends in. Raises :class:`UsageError` as
    :func:`require_plot` does."""
    require_plot(path)
    import matplotlib
    from matplotlib.figure import Figure

    figure: Any = Figure(layout="constrained")
    (_draw_bars if report.sweep is None else _draw_sweep)(figure, report)
    with matplotlib.rc_context({"svg.hashsalt": "fusebuild"}):  # equal reports are equal bytes
        figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)


def _draw_bars(figure: Any, report: Report) -> None:
    """A group of bars for each case: its rates, under the copy roof."""
    rows = report.measurements
    figure.set_size_inches(8, 1.6 + 0.55 * len(rows))
    axes = figure.subplots()
    for index, (name, color) in enumerate(_COLORS.items()):
        places = [row + (index - 1) * 0.27 for row in range(len(rows))]
        axes.barh(places, [_rate(each, name) for each in rows], height=0.25, color=color, label=name)
    for row, each in enumerate(rows):
        label = "copy roof" if row == 0 else None
        axes.plot([each.roof, each.roof], [row - 0.45, row + 0.45], color="#222222", linewidth=1.2, label=label)
    axes.set_yticks(range(len(rows)), [f"{each.fusion}\n{each.label}" for each in rows], fontsize=8)
    axes.set_ylim(len(rows) - 0.4, -0.6)  # the first on top
    axes.set_xlabel("GB/s of the least bytes")
    axes.set_title(report.origin, fontsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=4, fontsize=8, frameon=False)


def _draw_sweep(figure: Any, report: Report) -> None:
    """A panel for each recipe: how many times as fast as torch each case is, over the bytes that it moves."""
    fusions = list(dict.fromkeys(each.fusion for each in report.measurements))
    columns = min(_COLUMNS, max(1, len(fusions)))
    rows = max(1, -(-len(fusions) // columns))
    figure.set_size_inches(0.8 + 2.6 * columns, 1.2 + 2.2 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for axes in panels[len(fusions) :]:
        axes.set_visible(False)
    for axes, fusion in zip(panels, fusions, strict=False):
        _draw_ratios(axes, [each for each in report.measurements if each.fusion == fusion])
        axes.set_title(fusion, fontsize=8)
    figure.supxlabel("MB that a case moves at least", fontsize=8)
    figure.supylabel("times as fast", fontsize=8)
    figure.suptitle(report.origin, fontsize=9)
    if fusions:
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=8)


def _draw_ratios(axes: Any, cases: Sequence[Measurement]) -> None:
    """A dot for each ratio of each of ``cases``; above the line at 1 we are faster."""
    for name, ratio in _RATIOS.items():
        points = [(each.least_bytes / 1e6, value) for each in cases if (value := ratio(each)) is not None]
        axes.plot([x for x, _ in points], [y for _, y in points], ".", color=_COLORS[name], label=name)
    axes.axhline(1.0, color="#222222", linewidth=0.8)
    axes.set(xscale="log", yscale="log", xlim=(SMALL[0] / 1e6, LARGE[1] / 1e6))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.tick_params(which="both", labelsize=6)
    axes.spines[["top", "right"]].set_visible(False)


def _rate(each: Measurement, name: str) -> float:
    """GB/s; 0, no bar, where it was not measured."""
    if name == "fusebuild":
        return each.gigabytes_per_second
    taken = each.eager_milliseconds if name == "eager" else each.compile_milliseconds
    return 0.0 if not taken else each.least_bytes / taken / 1e6
