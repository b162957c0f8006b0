"""Elements that are written to places which an index names."""

from __future__ import annotations

from fusebuild.kernels.common.family import Family, on_demand
from fusebuild.kernels.common.storage import scatters

_VIEWS = {
    "scatter_clear": "lists_view",
    "scatter_list": "lists_view",
    "scatter_places": "places_view",
    "scatter_updates": "updates_view",
}
"""The module of the view of each template, which is called like it."""

FAMILY = Family(
    folder="scatter",
    name="scatter",
    check=on_demand("fusebuild.kernels.scatter.schedule", "check"),
    variants=on_demand("fusebuild.kernels.scatter.schedule", "variants"),
    views={template: on_demand(f"fusebuild.kernels.scatter.{module}", template) for template, module in _VIEWS.items()},
    exclusive=scatters,
    has_short_blocks=True,
    reads_slices_by_vectors=True,
)
