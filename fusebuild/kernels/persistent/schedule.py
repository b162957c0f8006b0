"""Reductions over the innermost axes whose results are broadcast back: softmax, norms, any number of levels.

Each level is one sweep over the row; every reduction of a level shares the sweep, one shuffle pass and one barrier.
Inputs that several sweeps read are kept on chip, in one of :data:`WAYS`, which are the modules of this folder. Values
between inputs and outputs are recomputed in each sweep that needs them, since arithmetic is free beside memory
(nvFuser's inner persistent scheduler projects its buffers to inputs likewise); all but costly ones, such as the
exponentials of a softmax, which are kept where registers last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import NOT_TUNED, Tuned
from fusebuild.kernels.common.domain import AxisDomain
from fusebuild.kernels.common.rows import check_outputs, check_reductions, check_running, kept_axes, reduced_axes
from fusebuild.kernels.common.spec import (
    Rejection,
    VariantSpec,
    axis_product,
    hint,
    rejection,
    try_domain,
    usable,
    vector_width,
)
from fusebuild.kernels.common.sweeps import cached_inputs, kept_values
from fusebuild.kernels.persistent import (
    cluster,
    edged,
    edged_tiles,
    few_rows,
    registers,
    reread,
    resident,
    shared,
    threaded,
    tiled,
)
from fusebuild.kernels.persistent.way import RowTask, Way
from fusebuild.target.table import Target

WAYS: tuple[type[Way], ...] = (
    few_rows.LoadedAhead,  # rows that are too few for all multiprocessors
    resident.Resident,  # very long rows, in blocks that stay with what all rows share
    cluster.Cluster,  # long rows, in the registers of a cluster of blocks
    registers.WholeVectors,  # rows in the registers of one block
    shared.Shared,  # rows in the shared memory of one block
    # Rows whose length is no multiple of a vector's:
    edged.Edged,  # long ones, by aligned vectors and the elements beside those
    threaded.Threaded,  # of a few elements, whose number is known: a thread has whole rows
    edged_tiles.EdgedTiles,  # short ones of a known length: many in shared memory, read by aligned vectors
    tiled.Tiled,  # short ones of any length: many in shared memory, read by elements
    registers.ShiftedVectors,  # in registers, by vectors that begin before the row
    # What vectors do not fit, or no memory on chip:
    registers.Elements,
    reread.Vectors,
    reread.Elements,
)
"""The ways to keep rows, the preferred ones first. The last one takes all rows."""

ONE_BLOCK = 65536
"""Elements of a tensor that one block reduces and walks again sooner than two more kernels start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InnerPersistentScheduler:
    name: str = "inner_persistent"

    def accepts(self, task: Task, target: Target) -> Rejection | None:
        domain = try_domain(self.name, task)
        if isinstance(domain, Rejection):
            return domain
        if rejected := check_reductions(self.name, task, domain) or check_running(self.name, task):
            return rejected
        kept, reduced = kept_axes(domain), reduced_axes(domain)
        if kept and reduced and max(kept) > min(reduced):
            return rejection(self.name, task, "the reduced dims are not the innermost ones")
        if not kept and not _fits_one_block(axis_product(domain, reduced)):
            return rejection(self.name, task, "every dim is reduced, and one block would walk the whole tensor")
        return check_outputs(self.name, task, domain, kept, (*kept, *reduced))

    def schedule(
        self, task: Task, target: Target, sizes: Mapping[str, int], tuned: Tuned = NOT_TUNED
    ) -> tuple[VariantSpec, ...]:
        domain = try_domain(self.name, task)
        assert isinstance(domain, AxisDomain)
        columns = axis_product(domain, reduced_axes(domain))
        rows = RowTask(
            task=task,
            target=target,
            domain=domain,
            columns=columns,
            size=hint(columns, sizes),
            sizes=sizes,
            vec=vector_width(task, domain, len(domain.axes) - 1),
            cached=cached_inputs(task, domain),
            kept=tuple(kept_values(task, domain)),
            tuned=tuned,
        )
        found: dict[type[Way], tuple[VariantSpec, ...]] = {}
        for each in WAYS:
            way = each.of(rows)
            if way.applies(found) and (variants := way.variants()):
                found[each] = variants
        return usable([variant for variants in found.values() for variant in variants])


def _fits_one_block(elements: Formula) -> bool:
    """False for sizes not known now: a tensor reduced as a whole is as large as a tensor can be."""
    return isinstance(elements, int) and elements <= ONE_BLOCK
