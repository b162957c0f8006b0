"""Rows of cells as lines of text whose columns are aligned."""

from __future__ import annotations

from collections.abc import Collection, Sequence


def aligned(rows: Sequence[Sequence[str]], *, names: Collection[int]) -> list[str]:
    """A line for each of ``rows``. Cells in the columns ``names`` are aligned to the left; others hold numbers, which
    are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    placed = (
        [cell.ljust(width) if column in names else cell.rjust(width) for column, (cell, width) in enumerate(cells)]
        for cells in (zip(row, widths, strict=True) for row in rows)
    )
    return ["  ".join(cells).rstrip() for cells in placed]
