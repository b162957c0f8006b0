"""Scans, and reductions that combine strictly in the order of indices.

Columns are laid out as those of :mod:`fusebuild.kernels.reduction`, the one family that is imported here.
"""

from __future__ import annotations

from fusebuild.kernels.common.family import Family
from fusebuild.kernels.scan.schedule import check, ordered, variants
from fusebuild.kernels.scan.view import scan, scan_outer

FAMILY = Family(
    folder="scan",
    name="scan",
    check=check,
    variants=variants,
    views={"scan": scan, "scan_outer": scan_outer},
    exclusive=ordered,
)
