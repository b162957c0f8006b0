"""Matrix products: a call of a library, not a kernel."""

from __future__ import annotations

from fusebuild.kernels.common.family import Family, Runs
from fusebuild.kernels.library.product import has_library_call
from fusebuild.kernels.library.schedule import check, variants

FAMILY = Family(
    folder="library", name="library", check=check, variants=variants, runs=Runs.LIBRARY, exclusive=has_library_call
)
