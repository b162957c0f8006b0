"""Reductions over the innermost axes whose results are broadcast back: rows stay on chip.

Its thirty modules are a seventh of what a process imports to plan.
"""

from __future__ import annotations

from fusebuild.kernels.common.family import Family, on_demand
from fusebuild.kernels.persistent.fit import check

_VIEWS = {
    "inner_persistent": "view",
    "inner_resident": "resident_view",
    "inner_sampled": "sampled_view",
    "inner_tiled": "tiled_view",
    "inner_edged_tiles": "edged_tiles_view",
    "inner_threaded": "threaded_view",
    "inner_split": "split_view",
    "inner_staged": "staged_view",
    "inner_trailing": "trailing_view",
}
"""The module of the view of each template, which is called like it."""

FAMILY = Family(
    folder="persistent",
    name="inner_persistent",
    check=check,
    variants=on_demand("fusebuild.kernels.persistent.schedule", "variants"),
    views={
        template: on_demand(f"fusebuild.kernels.persistent.{module}", template) for template, module in _VIEWS.items()
    },
)
