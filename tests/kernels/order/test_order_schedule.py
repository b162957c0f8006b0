"""The sorting family: what it takes and why it refuses the rest, and its variants."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import Rejection
from fusebuild.kernels.families import family_of, first_accepting
from fusebuild.kernels.order import FAMILY as ORDER
from fusebuild.kernels.order.schedule import LONGEST_IN_SHARED
from fusebuild.segmentation import segment
from fusebuild.target.table import TARGETS
from support.small_recipes import primitive, text_of, whole

SM_90, SM_86 = TARGETS["sm_90"], TARGETS["sm_86"]
FLOATS = {"x": "float[M, N]"}


def task_of(body: str, *outputs: str, inputs: Mapping[str, str] = FLOATS, **aliases: str) -> Task:
    """The task of a recipe; a result of a sort that nothing needs has no name."""
    given = dict.fromkeys(outputs, "") | aliases
    for name in ("v", "i"):
        if name not in given and len(re.findall(rf"\b{name}\b", body)) == 1:
            body = re.sub(rf"\b{name}\b", "_", body)
    return whole(inputs, body, given)


ACCEPTED = {
    "rows": task_of("v, i = sort(x, dim=1)", "v", "i"),
    "columns": task_of("i = argsort(x, dim=0)", "i"),
    "the middle dim": task_of("v, i = sort(x, dim=1)", "v", inputs={"x": "float[A, B, C]"}),
    "elementwise before and after": task_of(
        "v, i = sort(x * b + unsqueeze(s, 1), dim=1)\ny = v * 2.0 + unsqueeze(s, 1)", "y", "i",
        inputs=FLOATS | {"b": "float[N]", "s": "float[M]"}),
    "what was sorted beside the result": task_of("y = x * 2.0\nv, i = sort(y, dim=1)\ngap = v - y", "y", "gap"),
    "the first of rows": task_of("v, i = topk(x, 4, dim=1)\ny = exp(v)", "y", "i"),
    "the first one": task_of("v, i = topk(x, 1, dim=1)\ny = v + 1.0", "y", "i"),
    "the logits too": task_of("y = x * 2.0\nv, i = topk(y, 4, dim=1)", "y", "i"),
    "what it names of another tensor": task_of(
        "v, i = topk(x, 4, dim=1)\nw = take_along_axis(z, i, dim=1)", "w", inputs=FLOATS | {"z": "half[M, N]"}),
    "a strided tensor": task_of("v, i = sort(x, dim=1)", "v",
                                inputs={"x": "{type: 'float[M, N]', contiguity: [true, false]}"}),
    "over its input": task_of("v, i = sort(x, dim=1)", "i", v="{dtype: float, alias: x}"),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_accepts(name: str) -> None:
    family = first_accepting(ACCEPTED[name], SM_90)
    assert family is ORDER
    assert family_of("order") is ORDER


REJECTED = {
    "a reduction": (task_of("v, i = sort(x, dim=1)\ns = sum(x, dims=[1])", "v", "s"), "s is a reduction"),
    "two sorts": (task_of("v, i = sort(x, dim=1)\ns = argsort(x * 2.0, dim=1)", "v", "s"),
                  "s_values is another sort"),
    "something else": (
        task_of("v, i = topk(x, 4, dim=1)\ny = b * 2.0", "v", "y", inputs=FLOATS | {"b": "float[N]"}),
        "y has other dims than this family writes"),
    "an input that is overwritten before it is read": (
        task_of("y = x * 2.0\nv, i = sort(y, dim=1)\ngap = v - x", "gap", y="{dtype: float, alias: x}"),
        "x is overwritten by y before all of it is read"),
}  # fmt: skip


@pytest.mark.parametrize("name", REJECTED)
def test_rejects(name: str) -> None:
    task, reason = REJECTED[name]
    answer = first_accepting(task, SM_90)
    assert isinstance(answer, tuple)
    assert [each.reason for each in answer] == [reason]


def test_a_scan_is_no_part_of_it() -> None:
    task = task_of("v, i = sort(x, dim=1)\ns = cumsum(x, dim=1)", "v", "s")
    answer = first_accepting(task, SM_90)
    assert isinstance(answer, tuple)
    assert [str(each.reason) for each in answer] == ["v is a sort", "s is a scan"]
    assert {each.scheduler for each in segment(task.fusion, SM_90).segments} == {"order", "scan"}


@pytest.mark.parametrize("name", REJECTED)
def test_what_is_rejected_runs_in_parts(name: str) -> None:
    task, _ = REJECTED[name]
    cut = segment(task.fusion, SM_90)
    assert len(cut.segments) > 1
    assert "order" in {each.scheduler for each in cut.segments}


def test_no_other_family_takes_a_sort() -> None:
    answer = first_accepting(task_of("v, i = sort(x, dim=1)\ns = sum(x)", "v", "s"), SM_90)
    assert isinstance(answer, tuple)
    assert all(isinstance(each, Rejection) and each.scheduler == "order" for each in answer)


def names(task: Task, target: str = "sm_90") -> list[str]:
    return [variant.name for variant in ORDER.schedule(task, TARGETS[target], {})]


class TestVariants:
    def test_rows_of_any_length(self) -> None:
        found = ORDER.schedule(ACCEPTED["rows"], SM_90, {})
        assert [variant.name for variant in found] == [
            "row_of_32", "row_of_128", "row_of_512", "row_of_2048", "row_of_8192", "in_shared", "in_workspace",
        ]  # fmt: skip
        assert [variant.guard for variant in found[:2]] == [(("le", "N", 32),), (("le", "N", 128),)]
        assert found[-2].guard == (("le", "N", LONGEST_IN_SHARED),)
        assert found[-1].guard == ()
        assert found[-1].scratch == (("mul", 8, "N", ("min", "M", 512)),)

    def test_eight_bytes_take_more_room(self) -> None:
        task = task_of("v, i = sort(x, dim=1)", "v", inputs={"x": "double[M, N]"})
        assert names(task)[3:] == ["row_of_2048", "row_of_4096", "in_shared", "in_workspace"]
        *_, shared, workspace = ORDER.schedule(task, SM_90, {})
        assert shared.guard == (("le", "N", (227 - 1) * 1024 // 10),)
        assert workspace.scratch == (("mul", 16, "N", ("min", "M", 512)),)

    def test_shared_memory_of_the_target(self) -> None:
        *_, shared, _ = ORDER.schedule(ACCEPTED["rows"], SM_86, {})
        assert shared.guard == (("le", "N", (99 - 1) * 1024 // 6),)

    def test_all_that_is_launched_has_room(self) -> None:
        for target in TARGETS.values():
            for task in (ACCEPTED["rows"], task_of("v, i = sort(x, dim=1)", "v", inputs={"x": "int64[M, N]"})):
                for variant in ORDER.schedule(task, target, {}):
                    (launch,) = variant.launches
                    assert launch.block[0] <= 1024
                    if isinstance(launch.shared_bytes, int):
                        assert launch.shared_bytes <= target.shared_bytes

    def test_a_known_length_takes_what_holds_it_first(self) -> None:
        task = task_of("v, i = sort(x, dim=1)", "v", inputs={"x": "float[M, 300]"})
        assert names(task) == ["row_of_512"]

    def test_the_first_of_rows(self) -> None:
        found = ORDER.schedule(ACCEPTED["the first of rows"], SM_90, {})
        assert [(variant.name, variant.guard) for variant in found] == [
            ("top_by_32", (("le", "N", 1024),)), ("top_by_256", (("le", "N", 32768),)), ("top_by_1024", ()),
        ]  # fmt: skip
        assert found[0].launches[0].grid == (("ceil_div", "M", 4), 1, 1)


def test_results_are_never_computed_twice() -> None:
    """Rows of two other lengths need them: they are read from memory."""
    body = "v, _ = sort(x, dim=1)\na = sum(v, dims=[1])\nb = max(v * 2.0, dims=[0])"
    fusion = primitive(text_of(FLOATS, body, {"a": "", "b": ""}))
    made = [expr.op for each in segment(fusion, SM_90).segments for expr in each.fusion.exprs]
    assert made.count("sort") == 1
