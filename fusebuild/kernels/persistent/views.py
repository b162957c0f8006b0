"""The views of this family's templates."""

from __future__ import annotations

from fusebuild.kernels.common.family import View
from fusebuild.kernels.persistent.edged_tiles_view import inner_edged_tiles
from fusebuild.kernels.persistent.resident_view import inner_resident
from fusebuild.kernels.persistent.sampled_view import inner_sampled
from fusebuild.kernels.persistent.split_view import inner_split
from fusebuild.kernels.persistent.staged_view import inner_staged
from fusebuild.kernels.persistent.threaded_view import inner_threaded
from fusebuild.kernels.persistent.tiled_view import inner_tiled
from fusebuild.kernels.persistent.trailing_view import inner_trailing
from fusebuild.kernels.persistent.view import inner_persistent

VIEWS: dict[str, View] = {
    "inner_persistent": inner_persistent,
    "inner_resident": inner_resident,
    "inner_sampled": inner_sampled,
    "inner_tiled": inner_tiled,
    "inner_edged_tiles": inner_edged_tiles,
    "inner_threaded": inner_threaded,
    "inner_split": inner_split,
    "inner_staged": inner_staged,
    "inner_trailing": inner_trailing,
}
"""By the name that ``KernelSpec.template`` has."""
