"""Rows in blocks that stay: which rows, how they are shared out, what a kernel of them may be asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from small_recipes import recipe_of, text_of, whole

from fusebuild.errors import KnobError
from fusebuild.formula import evaluate
from fusebuild.ir import Task
from fusebuild.schedule.inner_persistent import CLUSTER_ROW_BYTES, InnerPersistentScheduler, StagedHeuristics
from fusebuild.schedule.kernel import VariantSpec
from fusebuild.schedule.rows import RowThreads
from fusebuild.schedule.staged import (
    RESERVED_BYTES,
    SHARE_BYTES,
    STAGED_ROW_BYTES,
    SYSTEM_BYTES,
    THREAD_BYTES,
    walkers,
)
from fusebuild.target import TARGETS, Target

SM_90 = TARGETS["sm_90"]
SOFTMAX_BODY = "m = max(x, dims=[1], keepdim=True)\ne = exp(x - m)\ns = sum(e, dims=[1], keepdim=True)\ny = e / s"
SOFTMAX = whole({"x": "bfloat16[M, N]"}, SOFTMAX_BODY, {"y": "bfloat16"})


def variants(
    task: Task, target: Target = SM_90, tuned: Mapping[str, int] | None = None, **sizes: int
) -> tuple[VariantSpec, ...]:
    given = {"staged_vec8_int32": tuned} if tuned else {}
    return InnerPersistentScheduler().schedule(task, target, sizes, given)


def heuristics_of(variant: VariantSpec) -> StagedHeuristics:
    found = variant.launches[0].kernel.heuristics
    assert isinstance(found, StagedHeuristics)
    return found


def staged(task: Task, target: Target = SM_90, **sizes: int) -> dict[str, StagedHeuristics]:
    """The variants of ``task`` whose blocks stay, by name."""
    found = variants(task, target, **sizes)
    is_staged = [isinstance(variant.launches[0].kernel.heuristics, StagedHeuristics) for variant in found]
    return {variant.name: heuristics_of(variant) for variant, own in zip(found, is_staged, strict=True) if own}


class TestShares:
    @pytest.mark.parametrize(
        ("columns", "cluster", "threads", "chunks", "stages", "walkers"),
        [
            (16384, 1, 256, 8, 2, 264),
            (32768, 1, 512, 8, 2, 132),
            (32768 + 8, 2, 512, 8, 2, 66),  # a share of 64 KiB and more
            (65536, 2, 512, 8, 2, 66),
            (100000, 4, 512, 8, 2, 32),
            (131072, 4, 512, 8, 2, 32),
            (262144, 8, 512, 8, 2, 16),
            (524288, 8, 1024, 8, 1, 16),
        ],
    )
    def test_are_sized_for_the_first_case(
        self, columns: int, cluster: int, threads: int, chunks: int, stages: int, walkers: int
    ) -> None:
        ((name, found),) = staged(SOFTMAX, M=1024, N=columns).items()
        assert name == f"staged{cluster}_vec8_int32"
        assert (found.cluster, found.threads, found.chunks) == (cluster, RowThreads(per_row=threads, rows=1), chunks)
        assert (found.stages, found.walkers) == (stages, walkers)
        assert columns <= found.capacity * 8
        assert 2 * 8 * chunks <= THREAD_BYTES
        assert cluster == 8 or 2 * columns <= cluster * SHARE_BYTES

    @pytest.mark.parametrize("columns", [1, 4096, 16384 - 8, 524288 + 8, 2**24])
    def test_are_of_long_rows_that_registers_hold(self, columns: int) -> None:
        assert staged(SOFTMAX, M=1024, N=columns) == {}

    @pytest.mark.parametrize("name", TARGETS)
    @pytest.mark.parametrize("columns", [16384, 65536, 262144])
    def test_leave_room_for_the_rows_on_their_way(self, name: str, columns: int) -> None:
        target = TARGETS[name]
        for variant in variants(SOFTMAX, target, M=16, N=columns):
            if not variant.name.startswith("staged"):
                continue
            found, blocks = heuristics_of(variant), variant.launches[0].kernel.min_blocks
            needed = found.stages * found.threads.per_row * found.chunks * 16
            assert variant.launches[0].shared_bytes == needed
            assert blocks * (needed + RESERVED_BYTES + SYSTEM_BYTES) <= target.shared_bytes + SYSTEM_BYTES
            assert found.cluster <= target.cluster

    def test_are_of_blocks_where_there_are_no_clusters(self) -> None:
        for name in ("sm_80", "sm_86", "sm_89"):
            assert list(staged(SOFTMAX, TARGETS[name], M=16, N=16384)) == ["staged1_vec8_int32"]
            assert staged(SOFTMAX, TARGETS[name], M=16, N=131072) == {}

    def test_are_smaller_where_shared_memory_is(self) -> None:
        for name in ("sm_120", "host"):
            ((variant, found),) = staged(SOFTMAX, TARGETS[name], M=16, N=65536).items()
            assert (variant, found.stages) == ("staged4_vec8_int32", 2)

    def test_keep_costly_values_where_one_block_has_the_registers(self) -> None:
        kept = {size: staged(SOFTMAX, M=16, N=size).popitem()[1].kept for size in (16384, 65536, 262144, 524288)}
        assert [len(fids) for fids in kept.values()] == [1, 1, 1, 0]

    def test_are_of_all_that_is_kept(self) -> None:
        body = "m = mean(x * z, dims=[1], keepdim=True)\ny = x * z - m"
        task = whole({"x": "float[M, N]", "z": "float[M, N]"}, body, {"y": "float"})
        ((name, found),) = staged(task, M=16, N=16384).items()
        assert (name, found.threads.per_row, found.chunks) == ("staged2_vec4_int32", 512, 4)

    def test_nothing_is_on_its_way_where_nothing_is_kept(self) -> None:
        strided = '{dtype: "float[M, N]", contiguity: [true, false]}'
        task = whole({"x": strided}, SOFTMAX_BODY, {"y": "float"})
        assert staged(task, M=16, N=100000) == {}


class TestVariants:
    def test_go_before_the_others(self) -> None:
        found = variants(SOFTMAX, M=1024, N=65536)
        assert [variant.name for variant in found] == [
            "staged2_vec8_int32", "registers_vec8_int32", "shared_vec8_int32", "shifted_vec8_int32",
            "reread_scalar_int64",
        ]  # fmt: skip
        assert found[0].guard[-2:] == (("lt", CLUSTER_ROW_BYTES, ("mul", 2, "N")), ("le", "N", 65536))
        assert found[0].guard[:-2] == found[1].guard[:-1]
        (launch,) = found[0].launches
        assert (launch.grid[0], launch.block) == (("mul", 2, ("min", "M", 66)), (512, 1, 1))

    def test_take_rows_that_are_shorter_than_what_they_are_made_for(self) -> None:
        for size, above in ((16384, ("le", STAGED_ROW_BYTES)), (49152, ("le", STAGED_ROW_BYTES)),
                            (49160, ("lt", CLUSTER_ROW_BYTES))):  # fmt: skip
            assert variants(SOFTMAX, M=1024, N=size)[0].guard[-2] == (*above, ("mul", 2, "N"))

    def test_leave_the_others_as_they_are(self) -> None:
        without = variants(SOFTMAX, TARGETS["sm_86"], M=1024, N=65536)
        assert [variant.launches[0].kernel.heuristics for variant in without if variant.name[:6] != "reread"] == [
            variant.launches[0].kernel.heuristics
            for variant in variants(SOFTMAX, M=1024, N=65536)[1:]
            if variant.name[:6] != "reread"
        ]

    @pytest.mark.parametrize(("rows", "blocks"), [(0, 0), (1, 2), (66, 132), (4096, 132)])
    def test_no_more_blocks_than_rows_nor_than_run_at_a_time(self, rows: int, blocks: int) -> None:
        (launch,) = variants(SOFTMAX, M=1024, N=65536)[0].launches
        assert evaluate(launch.grid[0], {"M": rows}) == blocks

    def test_a_whole_tensor_is_one_row(self) -> None:
        task = whole({"x": "float[256, 256]"}, "y = x / max(abs(x))", {"y": "float"})
        variant = variants(task)[0]
        assert (variant.name, variant.launches[0].grid) == ("staged4_vec4_int32", (4, 1, 1))

    @pytest.mark.parametrize(
        ("facts", "first", "expected"),
        [
            ("{max: 262144}", 4096, "staged8_vec8_int32"),
            ("{max: 262144}", 65536, "staged2_vec8_int32"),
            ("{values: [768, 65536]}", 768, None),  # sizes that are named have variants of their own
            ("{max: 16376}", 4096, None),
            ("{multiple_of: 8}", 4096, None),
        ],
    )
    def test_facts_tell_of_long_rows_where_the_first_case_does_not(
        self, facts: str, first: int, expected: str | None
    ) -> None:
        text = text_of({"x": "bfloat16[M, N]"}, SOFTMAX_BODY, {"y": "bfloat16"}, name="facts")
        task = recipe_of(text.replace("inputs:", f"extents:\n  N: {facts}\ninputs:", 1)).fusion.whole()
        assert list(staged(task, M=16, N=first)) == ([expected] if expected else [])


def test_walkers_fill_a_gpu_once() -> None:
    """Clusters of more than two blocks leave multiprocessors of a GPC alone where they do not divide them."""
    assert [walkers(SM_90, cluster, 1) for cluster in (1, 2, 4, 8)] == [132, 66, 32, 16]
    assert [walkers(SM_90, cluster, 2) for cluster in (1, 2, 4, 8)] == [264, 132, 64, 32]
    assert [walkers(TARGETS["sm_100"], cluster, 1) for cluster in (1, 2, 4, 8)] == [148, 74, 32, 16]
    assert walkers(TARGETS["host"], 8, 1) == 1


class TestChoices:
    def knobs(self, **changed: int) -> dict[str, int]:
        decision = variants(SOFTMAX, M=1024, N=65536)[0].decision
        assert decision is not None
        assert decision.way == "staged_vec8_int32"
        return {**decision.choice.knobs, **changed}

    def given(self, **changed: int) -> VariantSpec:
        return variants(SOFTMAX, tuned=self.knobs(**changed), M=1024, N=65536)[0]

    def test_are_made_as_given(self) -> None:
        found = self.given(cluster=4, threads_per_row=256, stages=3, min_blocks=2, walkers=64)
        assert found.name == "staged4_vec8_int32"
        assert heuristics_of(found).chunks == 8
        assert found.launches[0].shared_bytes == 3 * 32 * 1024
        assert found.launches[0].kernel.min_blocks == 2
        assert found.launches[0].grid[0] == ("mul", 4, ("min", "M", 64))

    def test_threads_may_keep_more_of_a_row_where_there_are_fewer(self) -> None:
        assert heuristics_of(self.given(threads_per_row=256)).chunks == 16

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"cluster": 16}, "knob cluster: it is 16, no power of two from 1 to 8"),
            ({"cluster": 1, "threads_per_row": 128, "stages": 1},
             "knob cluster: 1 blocks of 128 threads do not hold a row of 65536 elements, or their partial results do "
             "not fit"),
            ({"stages": 4},
             "knob stages: it is 4, but shared memory of 1 blocks on a multiprocessor has room for 3 of 65536 bytes "
             "each"),
            ({"min_blocks": 2},
             "knob stages: it is 2, but shared memory of 2 blocks on a multiprocessor has room for 1 of 65536 bytes "
             "each"),
            ({"walkers": 0}, "knob walkers: it is 0, but at least 1"),
            ({"rows_per_block": 2}, "knob rows_per_block: it is 2, but rows of 512 threads share no block here"),
        ],
    )  # fmt: skip
    def test_are_refused_by_their_knob(self, changed: dict[str, int], message: str) -> None:
        with pytest.raises(KnobError, match=f"^{re.escape(message)}$"):
            self.given(**changed)

    def test_walkers_follow_what_decides_how_many_there_is_room_for(self) -> None:
        decision = variants(SOFTMAX, M=1024, N=65536)[0].decision
        assert decision is not None
        steps = {(knob, step.knobs[knob]): step.knobs["walkers"]
                 for step in decision.choice.steps()
                 for knob, value in decision.choice.knobs.items() if step.knobs[knob] != value}  # fmt: skip
        assert steps["cluster", 4] == 33
        assert steps["cluster", 1] == 132
        assert steps["min_blocks", 2] == 132
        assert steps["stages", 1] == 66
        assert steps["walkers", 33] == 33
