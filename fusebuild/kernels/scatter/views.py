"""The views of this family's templates."""

from __future__ import annotations

from fusebuild.kernels.common.family import View
from fusebuild.kernels.scatter.lists_view import scatter_clear, scatter_list
from fusebuild.kernels.scatter.places_view import scatter_places
from fusebuild.kernels.scatter.updates_view import scatter_updates

VIEWS: dict[str, View] = {
    "scatter_clear": scatter_clear,
    "scatter_list": scatter_list,
    "scatter_places": scatter_places,
    "scatter_updates": scatter_updates,
}
"""By the name that ``KernelSpec.template`` has."""
