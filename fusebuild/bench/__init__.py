"""Measuring artifacts on a GPU, beside eager torch, torch.compile and copies; ``measure.py`` says how."""

from __future__ import annotations

from fusebuild.bench.measure import Options, bench_artifacts, least_bytes
from fusebuild.bench.plot import require_plot, write_plot
from fusebuild.bench.report import Measurement, Report, markdown_table, read_report, summary_table, write_report

__all__ = [
    "Measurement",
    "Options",
    "Report",
    "bench_artifacts",
    "least_bytes",
    "markdown_table",
    "read_report",
    "require_plot",
    "summary_table",
    "write_plot",
    "write_report",
]
