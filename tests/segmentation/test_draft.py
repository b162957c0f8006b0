"""Drafts: a change is priced and refused before it is made, and whatever is made leaves a sound cover."""

from __future__ import annotations

import pytest

from fusebuild.ir.fusion import Fusion
from fusebuild.segmentation.dependencies import dependencies_of
from fusebuild.segmentation.draft import Draft, Problem
from fusebuild.segmentation.merge import RANKS, merge
from fusebuild.segmentation.refine import refine
from fusebuild.segmentation.rematerialize import rematerialize
from fusebuild.segmentation.segmented import dense_outputs
from fusebuild.target.table import TARGETS
from support.random_fusions import random_fusion
from support.sampled import sampled
from support.small_recipes import primitive, text_of

SM_90 = TARGETS["sm_90"]
ANY_COST = 1.0


def problem_of(fusion: Fusion) -> Problem:
    return Problem.of(fusion, SM_90)


def check_sound(draft: Draft) -> None:
    """Every expr is held where it is at home, every value read is written by its owner, and places fit the edges."""
    fusion = draft.problem.dependencies.fusion
    for index, name in draft.home.items():
        assert index in draft.parts[name].exprs
    for name, part in draft.parts.items():
        assert part.reads == draft.problem.reads_of(part.exprs)
        for fid in part.reads:
            owner = draft.owner(fid)
            assert owner is None or (fid in draft.parts[owner].writes and draft.place(owner) < draft.place(name))
    written = {fid for part in draft.parts.values() for fid in part.writes}
    assert {*fusion.output_fids} <= written | {*fusion.inputs}
    assert sorted(draft.in_order()) == sorted(draft.parts)


CHAIN = text_of({"x": "float[M, N]"}, "a = exp(x)\nb = a * 2.0\nc = -b\nd = a + c", {"d": "float"})


class TestCycles:
    def test_a_task_between_two_forbids_their_merge(self) -> None:
        draft = Draft.apart(problem_of(primitive(CHAIN)), range(4))
        assert draft.propose({0: frozenset({0, 3}), 3: frozenset()}, {3: 0}, ANY_COST) is None
        assert draft.between(0, 3) == {1, 2}

    def test_an_expr_is_not_handed_to_a_task_that_would_wait_for_its_operand(self) -> None:
        """Task 1 computes ``a`` for itself; task 2 would read it from task 0, which reads from task 2."""
        held = {0: frozenset({0, 3}), 1: frozenset({0, 1}), 2: frozenset({2})}
        draft = Draft(problem_of(primitive(CHAIN)), held, {0: 0, 3: 0, 1: 1, 2: 2})
        assert draft.propose({1: frozenset({0}), 2: frozenset({1, 2})}, {1: 2}, ANY_COST) is None
        assert draft.propose({1: frozenset(), 2: frozenset({0, 1, 2})}, {1: 2}, ANY_COST) is not None

    def test_tasks_that_overwrite_what_the_other_reads_stay_apart(self) -> None:
        inputs = {"x": "float[M]", "y": "float[M]"}
        body = "a = y * 2.0\nb = x * 3.0\nc = a + 1.0"
        outputs = {"b": "{dtype: float, alias: y}", "c": "{dtype: float, alias: x}"}
        fusion = dense_outputs(primitive(text_of(inputs, body, outputs)))
        mul_y, mul_x, add = (
            next(i for i, e in enumerate(fusion.exprs) if e.op == op and fid in e.inputs)
            for op, fid in (("mul", 1), ("mul", 0), ("add", fusion.exprs[0].outputs[0]))
        )
        draft = Draft.apart(problem_of(fusion), range(len(fusion.exprs)))
        assert draft.place(mul_y) < draft.place(mul_x) < draft.place(add)
        assert draft.propose({mul_y: frozenset({mul_y, add}), add: frozenset()}, {add: mul_y}, ANY_COST) is None


class TestPrices:
    def test_what_nothing_needs_any_more_is_dropped(self) -> None:
        body = "a = exp(x)\nr = sum(a, dims=[1])\nc = sum(a, dims=[0])"
        draft = Draft.apart(
            problem_of(primitive(text_of({"x": "float[M, N]"}, body, {"r": "float", "c": "float"}))), range(3)
        )
        before = draft.seconds
        proposal = draft.weigh({1: frozenset({0, 1}), 2: frozenset({0, 2})})
        assert proposal is not None
        assert proposal.parts[0] is None
        draft.commit(proposal)
        assert sorted(draft.parts) == [1, 2]
        assert draft.seconds == pytest.approx(before + proposal.seconds)
        check_sound(draft)

    def test_what_saves_nothing_is_refused(self) -> None:
        draft = Draft.apart(problem_of(primitive(CHAIN)), range(4))
        assert draft.weigh({}) is None

    def test_a_copy_changes_on_its_own(self) -> None:
        draft = Draft.apart(problem_of(primitive(CHAIN)), range(4))
        twin = draft.copy()
        merge(twin)
        assert (len(draft.parts), len(twin.parts)) == (4, 1)
        check_sound(draft)


@pytest.mark.parametrize("seed", sampled([222, *range(20), 3376], 3))
@pytest.mark.parametrize("rank", RANKS)
def test_every_step_leaves_a_sound_cover(seed: int, rank: object) -> None:
    fusion = random_fusion(seed)
    draft = Draft.apart(problem_of(fusion), dependencies_of(fusion).exprs)
    merge(draft, rank)  # type: ignore[arg-type]
    check_sound(draft)
    rematerialize(draft)
    check_sound(draft)
    before = draft.seconds
    refined = refine(draft)
    check_sound(refined)
    assert refined.seconds <= before
