"""Matrix products: a call of a library, not a kernel."""

from __future__ import annotations

from fusebuild.kernels.common.family import Family, Runs
from fusebuild.kernels.library.schedule import LibraryScheduler, has_library_call

FAMILY = Family(folder="library", scheduler=LibraryScheduler(), runs=Runs.LIBRARY, exclusive=has_library_call)
