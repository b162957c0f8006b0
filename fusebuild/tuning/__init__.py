"""Tuning: kernels measured beside their neighbours, one step of one knob at a time; ``climb.py`` says how."""

from __future__ import annotations

from fusebuild.tuning.climb import MOST_NEIGHBOURS
from fusebuild.tuning.place import Place, find_place
from fusebuild.tuning.report import MeasuredKernel, TuneReport
from fusebuild.tuning.tune import TuneOptions, tune_recipes

__all__ = ["MOST_NEIGHBOURS", "MeasuredKernel", "Place", "TuneOptions", "TuneReport", "find_place", "tune_recipes"]
