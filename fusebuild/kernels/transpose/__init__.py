"""Elementwise tasks whose tensors are dense along different dims: tiles in shared memory turn them around.

It takes what :mod:`fusebuild.kernels.pointwise` takes or less, and imports that family alone.
"""

from __future__ import annotations

from fusebuild.kernels.common.family import Family
from fusebuild.kernels.transpose.narrow_view import transpose_narrow
from fusebuild.kernels.transpose.schedule import check, variants
from fusebuild.kernels.transpose.view import transpose, transpose_shifted

FAMILY = Family(
    folder="transpose",
    name="transpose",
    check=check,
    variants=variants,
    views={"transpose": transpose, "transpose_narrow": transpose_narrow, "transpose_shifted": transpose_shifted},
    rejects_in_its_own_words=False,
    has_short_blocks=True,
    reads_slices_by_vectors=True,
)
