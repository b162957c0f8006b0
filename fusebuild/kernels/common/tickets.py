"""Rows that blocks which stay take as they get to them: the counters of their **tickets**.

Where each block has its rows by its number, all wait for those on the slowest multiprocessor. (On an H200, an RMS norm
of rows of 262144 elements: 0.92 of a copy's bandwidth then, 0.95 where blocks take the next row when they have done
one.) The first rows of a block are those of its number; a ticket, drawn from a counter in scratch, says which it takes
after that. Rows do not depend on each other, so their results do not depend on who computes them.

Scratch holds anything when a plan runs, so a kernel of one small block sets the counters to zero before. (A counter
that is part of the kernel's module and set back by the block that ends last would do without, but two launches on two
streams would share it.)

    Dynamic persistent tile schedulers of CUTLASS and FlashAttention-3 draw tiles from such a counter.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, product
from fusebuild.kernels.common.spec import KernelSpec, KnownSizes, LaunchSpec, VariantSpec, workspace_parameter
from fusebuild.kernels.common.statements import Body
from fusebuild.kernels.common.view import KernelView, make_view

COUNTERS = 32
"""A warp sets as many to zero: at least one for each place of a vector that rows may begin at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TicketCounters:
    """So many ``counters`` for each block that sets them to zero: where one does, the rows of each are handed out apart
    from those of others."""

    counters: int = COUNTERS

    def serving(self, variant: VariantSpec, blocks: Formula = 1) -> VariantSpec:
        """``variant``, whose only kernel counts, with the counters of so many ``blocks`` after its other scratch, and
        the kernel that sets them to zero."""
        (launch,) = variant.launches
        slot = len(variant.scratch)
        counters = workspace_parameter("counters", DType.INT32, slot, const=False, comment="which begin with 0")
        first = KernelSpec(
            template="ticket_counters",
            task=launch.kernel.task,
            domain=launch.kernel.domain,
            parameters=(counters,),
            index="int32_t",
            vec=1,
            heuristics=self,
            min_blocks=1,
            sizes=KnownSizes(help=False),
        )
        drawing = replace(launch.kernel, parameters=(*launch.kernel.parameters, counters))
        launches = (
            LaunchSpec(kernel=first, grid=(blocks, 1, 1), block=(self.counters, 1, 1)),
            replace(launch, kernel=drawing, starts_early=True),
        )
        counted = product([self.counters * DType.INT32.bytes, blocks])
        return replace(variant, launches=launches, scratch=(*variant.scratch, counted))


def ticket_counters(spec: KernelSpec) -> KernelView:
    """The view of the kernel that sets counters to zero: it has nothing but them."""
    return make_view(Body(spec), ())
