"""Elementwise tasks with any broadcast pattern."""

from __future__ import annotations

from fusebuild.kernels.common.family import Family
from fusebuild.kernels.pointwise.columns_view import pointwise_columns
from fusebuild.kernels.pointwise.folded_view import pointwise_folded
from fusebuild.kernels.pointwise.rows_view import pointwise_rows, pointwise_walks
from fusebuild.kernels.pointwise.runs_view import pointwise_runs
from fusebuild.kernels.pointwise.schedule import check, check_repeating, repeating_variants, variants
from fusebuild.kernels.pointwise.strips_view import pointwise_strips
from fusebuild.kernels.pointwise.view import pointwise

FAMILY = Family(
    folder="pointwise",
    name="pointwise",
    check=check,
    variants=variants,
    views={
        "pointwise": pointwise,
        "pointwise_columns": pointwise_columns,
        "pointwise_folded": pointwise_folded,
        "pointwise_rows": pointwise_rows,
        "pointwise_runs": pointwise_runs,
        "pointwise_strips": pointwise_strips,
        "pointwise_walks": pointwise_walks,
    },
    has_short_blocks=True,
    reads_slices_by_vectors=True,
    takes_members=True,
    walks_either_way=True,
)

REPEATING = Family(
    folder="pointwise",
    name="repeating_pointwise",
    check=check_repeating,
    variants=repeating_variants,
    rejects_in_its_own_words=False,
    has_short_blocks=True,
    reads_slices_by_vectors=True,
)
"""The same kernels for tasks with outputs that lack the innermost dims, too."""
