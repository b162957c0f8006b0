"""Rematerialization: what a consumer computes again, and what that saves."""

from __future__ import annotations

from fusebuild import FusionDefinition
from fusebuild.ir.fusion import Fusion, Task
from fusebuild.passes import run_passes
from fusebuild.passes.dead_code import dead_code
from fusebuild.passes.decompose import decompose
from fusebuild.segmentation import segment
from fusebuild.segmentation.acceptance import Acceptance
from fusebuild.segmentation.cost import CostModel
from fusebuild.segmentation.dependencies import dependencies_of
from fusebuild.segmentation.draft import Draft, Problem
from fusebuild.segmentation.rematerialize import rematerialize
from fusebuild.segmentation.segmented import dense_outputs
from fusebuild.segmentation.strangers import strangers_in
from fusebuild.target.table import TARGETS
from support.covers import total_hbm_bytes
from support.seed_003 import nvfuser_fusion_id1

SM_90 = TARGETS["sm_90"]


class AnyTask(Acceptance):
    """Accepts whatever is asked: for cuts that are given by hand."""

    def scheduler(self, exprs: object, results: object = None) -> str:
        return "by_hand"


def seed_003() -> Fusion:
    """The definition of seed 003 in primitive ops, with nothing shared that its author did not share."""
    with FusionDefinition() as fd:
        nvfuser_fusion_id1(fd)
    return dense_outputs(dead_code(decompose(fd.fusion)))


def closure(fusion: Fusion, fids: set[int], stop: frozenset[int] = frozenset()) -> frozenset[int]:
    """The tensor exprs that ``fids`` are computed from, where the values ``stop`` are given."""
    exprs: set[int] = set()
    waiting = list(fids)
    while waiting:
        fid = waiting.pop()
        index = fusion.definition(fid)
        if fid in stop or index is None or index in exprs or not fusion.value(fid).is_tensor:
            continue
        exprs.add(index)
        waiting += fusion.exprs[index].inputs
    return frozenset(exprs)


class TestSeed003:
    """The cut that the thread publishes: T12, T14 and T15 of its dump cross, t18, t23 and t24 of its script."""

    CROSSING = frozenset({18, 23, 24})

    def draft(self) -> Draft:
        fusion = seed_003()
        t33, t42, t44, t48, t82 = fusion.output_fids
        first = closure(fusion, {t33, t42, *self.CROSSING})
        second = closure(fusion, {t44, t48, t82}, self.CROSSING)
        problem = Problem(
            dependencies=dependencies_of(fusion),
            acceptance=AnyTask(fusion, SM_90),
            costs=CostModel(fusion, SM_90),
            strangers=strangers_in(fusion),
        )
        home = dict.fromkeys(second, 1) | dict.fromkeys(first, 0)
        return Draft(problem, {0: first, 1: second}, home)

    @staticmethod
    def hbm_bytes(draft: Draft) -> int:
        costs = draft.problem.costs
        return sum(costs.total_bytes(part.reads) + costs.total_bytes(part.writes) for part in draft.parts.values())

    def test_the_published_cut_as_two_tasks(self) -> None:
        draft = self.draft()
        assert draft.parts[1].reads & draft.parts[0].writes == self.CROSSING
        assert self.hbm_bytes(draft) == 1_528_457_216

    def test_after_rematerialization(self) -> None:
        draft = self.draft()
        before = {name: part.reads for name, part in draft.parts.items()}
        rematerialize(draft)
        gone = {name: {fid for fid in before[name] - part.reads if draft.fusion.definition(fid) in part.exprs}
                for name, part in draft.parts.items()}  # fmt: skip
        assert gone == {0: set(), 1: self.CROSSING}
        assert not draft.parts[1].reads & draft.parts[0].writes
        assert self.hbm_bytes(draft) == 588_474_368

    def test_our_own_plan_reads_and_writes_every_tensor_once(self) -> None:
        with FusionDefinition() as fd:
            nvfuser_fusion_id1(fd)
        segmented = segment(run_passes(fd.fusion), SM_90)
        assert [each.scheduler for each in segmented.segments] == ["inner_outer_persistent"]
        assert total_hbm_bytes(segmented) == 353_132_544
        assert total_hbm_bytes(segmented) <= 588_474_368
        assert not segmented.boundaries

    def test_a_broadcast_that_crosses_counts_at_its_footprint(self) -> None:
        fusion = seed_003()
        assert CostModel(fusion, SM_90).bytes_of(23) == 56 * 1024 * 4

    def test_the_tasks_are_views_of_one_fusion(self) -> None:
        draft = self.draft()
        fusion = draft.problem.dependencies.fusion
        tasks = [Task(fusion=fusion, exprs=tuple(sorted(p.exprs)), results=p.writes) for p in draft.parts.values()]
        assert {*tasks[0].outputs} >= self.CROSSING
        assert {*tasks[1].inputs} >= self.CROSSING
