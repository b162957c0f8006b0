"""Kernels that begin at the end of their tensors: those of a family that ``walks_either_way``, where
:mod:`fusebuild.segmentation.directions` says so.

Blocks run in the order of their index, more or less, so that a kernel walks backwards whose blocks count from the last
one. What a block does to its share stays the same, and so do the results.
"""

from __future__ import annotations

from dataclasses import replace

from fusebuild.kernels.common.spec import KernelSpec, VariantSpec


def backwards(variant: VariantSpec) -> VariantSpec:
    """``variant`` with kernels that walk backwards."""

    def turned(kernel: KernelSpec) -> KernelSpec:
        return replace(kernel, order=replace(kernel.order, backwards=True))

    return replace(variant, launches=tuple(replace(each, kernel=turned(each.kernel)) for each in variant.launches))
