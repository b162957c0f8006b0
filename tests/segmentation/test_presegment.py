"""Presegmentation: marks cut, everything else is tried whole, and only what is rejected is searched further."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from fusebuild.segmentation import SegmentedFusion, segment, segmenter
from fusebuild.segmentation.dependencies import dependencies_of
from fusebuild.segmentation.draft import Draft, Problem
from fusebuild.segmentation.presegment import presegment
from fusebuild.target.table import TARGETS
from support.small_recipes import primitive, text_of

SM_90 = TARGETS["sm_90"]
MATRIX = {"x": "float[M, N]"}
CUBE = {"x": "float[M, N, K]"}


def cut(body: str, outputs: str, inputs: dict[str, str] = MATRIX, dtype: str = "float") -> SegmentedFusion:
    return segment(primitive(text_of(inputs, body, dict.fromkeys(outputs.split(), dtype))), SM_90)


def ops(segmented: SegmentedFusion) -> list[list[str]]:
    """The ops of each segment, those it only recomputes included."""
    return [[expr.op for expr in each.fusion.exprs] for each in segmented.segments]


def crossing(segmented: SegmentedFusion) -> list[str]:
    """Name and dtype of what crosses."""
    values = [segmented.fusion.value(fid) for fid in segmented.boundaries]
    return [f"{value.name}: {value.dtype.value}" for value in values]


class TestMarks:
    def test_one_mark_cuts_what_would_be_one_kernel(self) -> None:
        assert ops(cut("a = exp(x)\nb = segment_set(a)\ny = b * 2.0", "y")) == [["exp", "segment_set"], ["mul"]]

    def test_two_marks_in_one_segment(self) -> None:
        segmented = cut("a = segment_set(exp(x))\nb = segment_set(sin(x))\ny = a + b", "y")
        assert [sorted(each) for each in ops(segmented)] == [["exp", "segment_set", "segment_set", "sin"], ["add"]]
        assert crossing(segmented) == ["a: float", "b: float"]

    def test_a_mark_that_does_not_cut_is_tried_with_the_whole(self) -> None:
        segmented = cut("a = exp(x)\nb = segment_set(a)\ny = a + b", "y")
        assert ops(segmented) == [["exp", "segment_set", "add"]]
        assert segmented.boundaries == ()

    def test_what_is_marked_is_never_computed_again(self) -> None:
        body = "a = segment_set(cast(x, float))\ny = a * 2.0\nz = sum(a, dims=[0])"
        segmented = cut(body, "y z", {"x": "bfloat16[M, N]"})
        assert crossing(segmented) == ["a: float"]

    def test_the_groups_are_maximal_and_in_run_order(self) -> None:
        text = text_of(MATRIX, "a = exp(x)\nb = segment_set(a)\nc = b * 2.0\ny = c + a", {"y": "float"})
        groups, dependencies = presegment(dependencies_of(primitive(text)))
        assert groups == ((0, 1), (2, 3))
        assert dependencies.marked == {(1, 2)}


class TestShattering:
    def test_only_the_rejected_group_is_searched(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """No kernel reduces ``p`` along both dims; what follows the mark is taken as it is."""
        searched: list[list[str]] = []
        of_parts = Draft.of_parts.__func__  # type: ignore[attr-defined]

        def spy(cls: type[Draft], problem: Problem, parts: Iterable[tuple[int, ...]]) -> Draft:
            fusion, apart = problem.dependencies.fusion, list(parts)
            searched.append([fusion.exprs[index].op for part in apart for index in part])
            return of_parts(cls, problem, apart)  # type: ignore[no-any-return]

        monkeypatch.setattr(segmenter.Draft, "of_parts", classmethod(spy))
        body = "p = exp(x)\nr = sum(p, dims=[2])\nc = sum(p, dims=[0])\nm = segment_set(r)\ny = m * 2.0 + 1.0"
        segmented = cut(body, "c y", CUBE)
        assert {tuple(each) for each in searched} == {("exp", "sum", "sum", "segment_set")}
        assert ops(segmented)[-1] == ["mul", "add"]

    def test_an_accepted_group_is_searched_by_nobody(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(segmenter.Draft, "of_parts", classmethod(lambda *_: pytest.fail("searched")))
        cut("a = exp(x)\nb = segment_set(a)\ny = b * 2.0", "y")


class TestWhatCrosses:
    """No kernel reduces the last dim and the first of three, so each pair below is two segments."""

    def test_unary_chains_of_inputs_are_forwarded(self) -> None:
        body = "p = neg(exp(cast(x, float)))\nr = sum(p * w, dims=[2])\nc = max(p, dims=[0])"
        segmented = cut(body, "r c", {"x": "bfloat16[M, N, K]", "w": "float[K]"})
        assert len(segmented.segments) == 2
        assert crossing(segmented) == []
        assert all({"cast", "exp", "neg"} <= {*each} for each in ops(segmented))

    def test_upcasts_are_private_so_the_narrow_one_crosses(self) -> None:
        body = (
            "s = exp(x - max(x, dims=[2], keepdim=True))\nh = cast(s, bfloat16)\nwide = cast(h, float)\n"
            "r = sum(wide * wide, dims=[2])\nc = max(wide, dims=[0])"
        )
        segmented = cut(body, "r c", CUBE)
        assert crossing(segmented) == ["h: bfloat16"]
        (wide,) = [value.fid for value in segmented.fusion.values.values() if value.name == "wide"]
        assert segmented.segments[1].rematerialized == (wide,)

    def test_full_is_made_again_by_everyone(self) -> None:
        body = "f = full([M, N, K], 3.0, dtype=float)\nr = sum(x * f, dims=[2])\nc = max(x + f, dims=[0])"
        segmented = cut(body, "r c", CUBE)
        assert len(segmented.segments) == 2
        assert crossing(segmented) == []

    def test_an_overwritten_input_is_not_read_again(self) -> None:
        text = text_of(
            {"x": "float[M, N, K]", "w": "float[K]"},
            "y = x * w\nr = sum(y, dims=[2])\nc = max(y, dims=[0])",
            {"y": "{dtype: float, alias: x}", "r": "float", "c": "float"},
        )
        segmented = segment(primitive(text), SM_90)
        x = segmented.fusion.inputs[0]
        writer = next(each.id for each in segmented.segments if "mul" in [e.op for e in each.fusion.exprs])
        assert writer == 0
        assert [each.id for each in segmented.segments if x in each.inputs] == [0]
        assert all(segmented.fusion.output_fids[0] in each.inputs for each in segmented.segments[1:])
