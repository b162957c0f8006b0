"""Rows that are too few for all multiprocessors: which recipes get variants for them, and how threads load them."""

from __future__ import annotations

import pytest

from fusebuild.errors import KnobError
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.rows import RowThreads
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.persistent import FAMILY as PERSISTENT
from fusebuild.kernels.persistent.few_rows import FewRowsHeuristics
from fusebuild.pipeline import plan_recipe
from fusebuild.target.table import TARGETS
from support.small_recipes import recipe_of, text_of, whole

SM_90 = TARGETS["sm_90"]
INPUTS = {"x": "bfloat16[M, N]", "scale": "bfloat16[N]"}
BODY = "y = x / sum(x, dims=[1], keepdim=True)"
SCALED_BODY = f"{BODY}\nz = y * scale"
UNIT = whole({"x": INPUTS["x"]}, BODY, {"y": "bfloat16"})
SCALED = whole(INPUTS, SCALED_BODY, {"z": "bfloat16"})
SEVEN = dict.fromkeys("abcdefg", "float[M, N]")


def sum_and_add(inputs: dict[str, str]) -> Task:
    """Of the first input the rows' sums, with all others added."""
    first, *others = inputs
    added = " + ".join(["total", *others])
    return whole(inputs, f"total = sum({first}, dims=[1], keepdim=True)\ny = {added}", {"y": "float"})


def few(task: Task, tuned: dict[str, dict[str, int]] | None = None) -> list[VariantSpec]:
    sizes = {"M": 16384, "N": 8192}
    found = PERSISTENT.schedule(task, SM_90, sizes, tuned or {})
    chosen = [variant for variant in found if variant.for_few_rows]
    assert chosen == list(found[: len(chosen)])
    return chosen


def heuristics(variant: VariantSpec) -> FewRowsHeuristics:
    found = variant.launches[0].kernel.heuristics
    assert isinstance(found, FewRowsHeuristics)
    return found


class TestVariants:
    def test_what_rows_share_is_loaded_before_they_are_reduced(self) -> None:
        (variant,) = few(SCALED)
        assert variant.name == "few_rows_vec8_int32"
        assert heuristics(variant) == FewRowsHeuristics(
            threads=RowThreads(per_row=512, rows=1), storage="registers", chunks=2, cached=SCALED.fusion.inputs
        )

    def test_a_row_has_a_multiprocessor_and_a_last_vector(self) -> None:
        (variant,) = few(SCALED)
        rows = ("le", "M", SM_90.multiprocessors)
        assert variant.guard[-3:] == (rows, ("lt", 0, "N"), ("le", "N", 512 * 2 * 8))
        assert ("eq", ("mod", "N", 8), 0) in variant.guard

    def test_there_is_none_where_all_is_loaded_before_anyway(self) -> None:
        assert few(UNIT) == []

    def test_there_is_one_where_a_thread_has_registers_for_one_vector_of_each_input(self) -> None:
        (variant,) = few(sum_and_add(SEVEN))
        assert variant.name == "few_rows_vec4_int32"
        assert heuristics(variant).chunks == 1
        assert variant.guard[-1] == ("le", "N", 512 * 4)

    def test_threads_may_be_chosen(self) -> None:
        tuned = {"few_rows_vec8_int32": {"threads_per_row": 1024, "rows_per_block": 1, "min_blocks": 1}}
        (variant,) = few(SCALED, tuned)
        assert heuristics(variant).threads.per_row == 1024
        assert variant.guard[-1] == ("le", "N", 1024 * 2 * 8)

    def test_several_rows_do_not_share_a_block(self) -> None:
        tuned = {"few_rows_vec8_int32": {"threads_per_row": 32, "rows_per_block": 4, "min_blocks": 1}}
        message = "knob rows_per_block: it is 4, but rows of 32 threads share no block here"
        with pytest.raises(KnobError, match=f"^{message}$"):
            few(SCALED, tuned)


class TestKernels:
    def test_only_loads_of_few_rows_are_not_tested(self) -> None:
        planned = plan_recipe(recipe_of(text_of(INPUTS, SCALED_BODY, {"z": "bfloat16"}), "test.yaml"), [SM_90])
        (segment,) = planned.plan.targets[0].segments
        first, second, *_ = segment.variants
        texts = [planned.kernels["sm_90"][variant.launches[0].kernel].source for variant in (first, second)]
        loads = [text.partition("for (int c")[2].partition("}")[0] for text in texts]
        test, clamp = "if (col >= columns) break;", "const Index col = fb::smaller(wanted, columns - kVec);"
        for load, present, absent, count in zip(loads, (clamp, test), (test, clamp), (2, 1), strict=True):
            assert present in load
            assert absent not in load
            assert load.count("fb::load_packed<kVec>") == count
        assert [text.count(test) for text in texts] == [2, 3]
