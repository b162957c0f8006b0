"""Views: a task that moves no data runs no kernel."""

from __future__ import annotations

from fusebuild.kernels.alias.schedule import check, variants
from fusebuild.kernels.common.family import Family, Runs

FAMILY = Family(folder="alias", name="alias", check=check, variants=variants, runs=Runs.NOTHING)
