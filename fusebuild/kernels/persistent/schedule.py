"""Reductions over the innermost axes whose results are broadcast back: softmax, norms, any number of levels.

Each level is one sweep over the row; every reduction of a level shares the sweep, one shuffle pass and one barrier.
Inputs that several sweeps read are kept on chip, in one of :data:`WAYS`, which are the modules of this folder. Values
between inputs and outputs are recomputed in each sweep that needs them, since arithmetic is free beside memory
(nvFuser's inner persistent scheduler projects its buffers to inputs likewise); all but costly ones, such as the
exponentials of a softmax, which are kept where registers last."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.common.sweeps import cached_inputs, kept_values
from fusebuild.kernels.persistent import (
    beyond_registers,
    cluster,
    edged_tiles,
    few_rows,
    long_rows,
    many_samples,
    registers,
    short_rows,
    split_rows,
    staged_rows,
    threaded,
    tiled,
    trailing_rows,
)
from fusebuild.kernels.persistent.way import RowTask, Way

WAYS: tuple[type[Way], ...] = (
    few_rows.LoadedAhead,  # rows that are too few for all multiprocessors
    long_rows.Resident,  # very long rows, in blocks that stay with what all rows share
    short_rows.ShortRows,  # short rows, in the registers of a part of a warp
    registers.WholeVectors,  # rows in the registers of one block
    cluster.Cluster,  # longer rows, in the registers of a cluster of blocks
    edged_tiles.EdgedTiles,  # short odd ones of a known length: many in shared memory, read by aligned vectors
    long_rows.Edged,  # those of any length, by aligned vectors and the elements beside those
    many_samples.ManySamples,  # longer ones, where samples have many and share much
    staged_rows.Staged,  # longer ones of several axes, in the shared memory of a cluster
    trailing_rows.Trailing,  # those of several axes that no cluster keeps, in parts
    beyond_registers.Shared,  # rows in the shared memory of one block
    # Rows whose length is no multiple of a vector's:
    threaded.Threaded,  # of a few elements, whose number is known: a thread has whole rows
    tiled.Tiled,  # short ones of any length: many in shared memory, read by elements
    registers.ShiftedVectors,  # in registers, by vectors that begin before the row
    # What vectors do not fit, or no memory on chip:
    split_rows.Anywhere,  # rows of any length, wherever their tensors begin
    short_rows.ShortElements,
    registers.Elements,
    beyond_registers.Elements,
)
"""The ways to keep rows, the preferred ones first. The last one takes all rows."""


def variants(planner: Planner) -> list[VariantSpec]:
    rows = RowTask.of(
        planner,
        columns=planner.domain.points(planner.domain.reduced),
        size=planner.expected(planner.domain.reduced),
        vec=planner.vector_width(planner.domain.inner),
        cached=cached_inputs(planner.task, planner.domain),
        kept=tuple(kept_values(planner.task, planner.domain)),
    )
    found: dict[type[Way], tuple[VariantSpec, ...]] = {}
    for each in WAYS:
        way = each.of(rows)
        if way.applies(found) and (variants := way.variants()):
            found[each] = variants
    return _named_apart(variant for variants in found.values() for variant in variants)


def _named_apart(variants: Iterable[VariantSpec]) -> list[VariantSpec]:
    """``variants`` with names of their own. Two ways may have kernels for rows of the same length, and call them by it:
    of doubles a thread has fewer than of other numbers."""
    named, names = list[VariantSpec](), Counter[str]()
    for variant in variants:
        names[variant.name] += 1
        is_again = names[variant.name] > 1
        named.append(replace(variant, name=f"{variant.name}_{names[variant.name]}") if is_again else variant)
    return named
