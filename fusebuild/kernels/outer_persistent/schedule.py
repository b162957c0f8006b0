"""Reductions over outer dims whose results are broadcast back along those: batch norms in training.

The domain is ``reduced x kept`` or ``reduced x kept x reduced``: what is kept are **channels**, and one number of each
is what the reductions give. Where a channel has few elements, blocks have channels of their own, whose elements they
read once: several each (:mod:`fusebuild.kernels.outer_persistent.whole`), or one, and of somewhat more elements a
cluster of blocks has one (:mod:`fusebuild.kernels.outer_persistent.alone`).

All else reads its tensors twice, by the kernels that reductions and elementwise tasks have: those of ``reduction`` find
the statistics, which are outputs, and one of ``pointwise`` reads them and walks backwards, so that it finds in L2 what
was read last. A variant here is one of each, and the first pair that fits has the first of each that fits.
"""

from __future__ import annotations

from dataclasses import replace

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.choice import NOT_TUNED
from fusebuild.kernels.common.planner import Planner
from fusebuild.kernels.common.spec import VariantSpec, usable
from fusebuild.kernels.outer_persistent.alone import alone_variants
from fusebuild.kernels.outer_persistent.parts import parts_of
from fusebuild.kernels.outer_persistent.whole import whole_variants
from fusebuild.kernels.pointwise import schedule as pointwise
from fusebuild.kernels.reduction import schedule as reduction


def check(task: Task) -> None:
    parts_of(task)


def variants(planner: Planner) -> list[VariantSpec]:
    parts = parts_of(planner.task)
    statistics = usable(reduction.variants(replace(planner, task=parts.statistics)))
    elements = usable(pointwise.variants(replace(planner, task=parts.elements, tuned=NOT_TUNED)))
    pairs = [
        _pair(first, second)
        for number, first in enumerate(statistics)
        for second in elements
        if number == 0 or not _takes_few(second)
    ]
    alone, clustered = alone_variants(planner)
    return [*alone, *whole_variants(planner), *clustered, *pairs]


def _takes_few(variant: VariantSpec) -> bool:
    """Whether ``variant`` takes few elements, however they lie: as the first statistics do, if any."""
    match variant.guard:
        case (("le", _, int()),):
            return True
    return False


def _pair(statistics: VariantSpec, elements: VariantSpec) -> VariantSpec:
    """Both, one after the other. What can be decided otherwise is about the first."""
    walked = elements.backwards()
    last = (replace(each, starts_early=True) for each in walked.launches)
    return replace(
        statistics,
        name=f"{statistics.name}_{elements.name}",
        guard=tuple(dict.fromkeys([*statistics.guard, *elements.guard])),
        launches=(*statistics.launches, *last),
    )
