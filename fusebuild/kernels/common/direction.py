"""Kernels that can begin at either end of their tensors; :mod:`fusebuild.segmentation.directions` says where they do.

Blocks run in the order of their index, more or less, so that a kernel walks backwards whose blocks count from the last
one. What a block does to its share stays the same, and so do the results.
"""

from __future__ import annotations

from dataclasses import replace

from fusebuild.kernels.common.spec import VariantSpec

TURNING = frozenset({"pointwise"})
"""Families whose kernels can walk backwards."""


def backwards(variant: VariantSpec) -> VariantSpec:
    """``variant``, which is of one of those families, with kernels that walk backwards."""
    launches = tuple(replace(each, kernel=replace(each.kernel, backwards=True)) for each in variant.launches)
    return replace(variant, launches=launches)
