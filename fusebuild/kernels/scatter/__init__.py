"""Elements that are written to places which an index names."""

from __future__ import annotations

from fusebuild.kernels.common.family import Family
from fusebuild.kernels.common.storage import scatters
from fusebuild.kernels.scatter.lists_view import scatter_clear, scatter_list
from fusebuild.kernels.scatter.places_view import scatter_places
from fusebuild.kernels.scatter.schedule import check, variants
from fusebuild.kernels.scatter.updates_view import scatter_updates

FAMILY = Family(
    folder="scatter",
    name="scatter",
    check=check,
    variants=variants,
    views={
        "scatter_clear": scatter_clear,
        "scatter_list": scatter_list,
        "scatter_places": scatter_places,
        "scatter_updates": scatter_updates,
    },
    exclusive=scatters,
    has_short_blocks=True,
    reads_slices_by_vectors=True,
)
