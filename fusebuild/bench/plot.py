"""A bar chart of a report: each case's rate, ours beside eager torch and torch.compile, under the copy roof."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fusebuild.bench.report import Measurement, Report
from fusebuild.errors import UsageError

ENDINGS = (".png", ".svg")
_COLORS = {"eager": "#b8bec7", "torch.compile": "#e49b3f", "fusebuild": "#2f7d4f"}


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

    rows = report.measurements
    figure: Any = Figure(figsize=(8, 1.6 + 0.55 * len(rows)), layout="constrained")
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
    with matplotlib.rc_context({"svg.hashsalt": "fusebuild"}):  # equal reports are equal bytes
        figure.savefig(path, dpi=160, metadata={"Date": None} if path.suffix == ".svg" else None)


def _rate(each: Measurement, name: str) -> float:
    """GB/s; 0, no bar, where it was not measured."""
    if name == "fusebuild":
        return each.gigabytes_per_second
    taken = each.eager_milliseconds if name == "eager" else each.compile_milliseconds
    return 0.0 if not taken else each.least_bytes / taken / 1e6
