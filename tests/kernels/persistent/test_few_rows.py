"""Rows that are too few for all multiprocessors: which recipes get variants for them, and how threads load them."""

from __future__ import annotations

import pytest

from fusebuild.errors import KnobError
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.rows import RowThreads
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.persistent import FAMILY as PERSISTENT
from fusebuild.kernels.persistent.few_rows import LOADED_BYTES, FewRowsHeuristics, ways_of_few_rows
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


class TestWays:
    def test_two_vectors_are_clamped_and_more_are_not(self) -> None:
        clamped = ("few_rows", 2, True)
        assert ways_of_few_rows(LOADED_BYTES // 8) == (
            clamped,
            ("few_long_rows", 8, False),
        )
        assert ways_of_few_rows(LOADED_BYTES // 4) == (
            clamped,
            ("few_long_rows", 4, False),
        )
        assert ways_of_few_rows(LOADED_BYTES // 2) == ways_of_few_rows(LOADED_BYTES // 4 + 1) == (clamped,)

    def test_one_vector_is_clamped(self) -> None:
        assert ways_of_few_rows(LOADED_BYTES) == (("few_rows", 1, True),)

    def test_there_is_none_for_more_bytes_than_a_thread_loads(self) -> None:
        assert ways_of_few_rows(LOADED_BYTES + 1) == ()


class TestVariants:
    def test_what_rows_share_is_loaded_before_they_are_reduced(self) -> None:
        short, long = few(SCALED)
        assert [short.name, long.name] == ["few_rows_vec8_int32", "few_long_rows_vec8_int32"]
        assert heuristics(short) == FewRowsHeuristics(
            threads=RowThreads(per_row=512, rows=1),
            storage="registers",
            chunks=2,
            cached=SCALED.fusion.inputs,
            clamped=True,
        )
        assert (heuristics(long).cached, heuristics(long).chunks) == (SCALED.fusion.inputs, 4)
        assert not heuristics(long).clamped

    def test_a_row_has_a_multiprocessor_and_clamped_ones_have_a_last_vector(self) -> None:
        short, long = few(SCALED)
        rows = ("le", "M", SM_90.multiprocessors)
        assert short.guard[-3:] == (rows, ("lt", 0, "N"), ("le", "N", 512 * 2 * 8))
        assert long.guard[-2:] == (rows, ("le", "N", 512 * 4 * 8))
        assert ("lt", 0, "N") not in long.guard
        assert ("eq", ("mod", "N", 8), 0) in short.guard

    def test_there_is_none_where_all_is_loaded_before_anyway(self) -> None:
        assert few(UNIT) == []

    def test_there_is_one_where_a_thread_has_registers_for_one_vector_of_each_input(self) -> None:
        (variant,) = few(sum_and_add(SEVEN))
        assert variant.name == "few_rows_vec4_int32"
        assert heuristics(variant).chunks == 1
        assert variant.guard[-1] == ("le", "N", 512 * 4)

    def test_each_way_is_chosen_for_itself(self) -> None:
        tuned = {"few_long_rows_vec8_int32": {"threads_per_row": 1024, "rows_per_block": 1, "min_blocks": 1}}
        short, long = few(SCALED, tuned)
        assert [heuristics(each).threads.per_row for each in (short, long)] == [512, 1024]
        assert long.guard[-1] == ("le", "N", 1024 * 4 * 8)

    def test_several_rows_do_not_share_a_block(self) -> None:
        tuned = {"few_rows_vec8_int32": {"threads_per_row": 32, "rows_per_block": 4, "min_blocks": 1}}
        message = "knob rows_per_block: it is 4, but rows of 32 threads share no block here"
        with pytest.raises(KnobError, match=f"^{message}$"):
            few(SCALED, tuned)


class TestKernels:
    def test_only_clamped_loads_are_not_tested(self) -> None:
        planned = plan_recipe(recipe_of(text_of(INPUTS, SCALED_BODY, {"z": "bfloat16"}), "test.yaml"), [SM_90])
        (segment,) = planned.plan.targets[0].segments
        first, second, *_ = segment.variants
        texts = [planned.kernels["sm_90"][variant.launches[0].kernel].source for variant in (first, second)]
        loads = [text.partition("for (int c")[2].partition("}")[0] for text in texts]
        test, clamp = "if (col >= columns) break;", "const Index col = fb::smaller(wanted, columns - kVec);"
        for load, present, absent in zip(loads, (clamp, test), (test, clamp), strict=True):
            assert present in load
            assert absent not in load
            assert load.count("fb::load_packed<kVec>") == 2
        assert [text.count(test) for text in texts] == [2, 3]
