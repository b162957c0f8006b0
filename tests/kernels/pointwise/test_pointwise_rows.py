"""Pointwise kernels whose threads keep columns and walk rows: when they are made, their layout, what they say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fusebuild.errors import KnobError
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.pointwise import FAMILY as POINTWISE
from fusebuild.kernels.pointwise.rows import PointwiseRowsHeuristics, RowsChoice
from fusebuild.kernels.pointwise.schedule import PointwiseHeuristics
from fusebuild.kernels.render import Origin, render
from fusebuild.target.table import TARGETS
from support.small_recipes import whole

SM_90 = TARGETS["sm_90"]
BIAS = whole({"x": "bfloat16[M, N]", "b": "bfloat16[N]"}, "y = x + b", {"y": "bfloat16"})
PER_BATCH = whole({"x": "bfloat16[B, H, N]", "b": "bfloat16[B, 1, N]"}, "y = x + b", {"y": "bfloat16"})
BATCHED = whole(
    {"x": "bfloat16[B, S, D]", "scale": "float[B, 1, D]", "bias": "bfloat16[D]"},
    "y = x * scale + bias",
    {"y": "bfloat16"},
)
HEADS = whole(
    {"x": "float[B, S, H, D]", "cos": "float[S, 1, D]"}, "y = x * broadcast(cos, [True, False, False, False])",
    {"y": "float"},
)  # fmt: skip


def first(task: Task, **sizes: int) -> VariantSpec:
    return POINTWISE.schedule(task, SM_90, sizes)[0]


def rows(task: Task, **sizes: int) -> PointwiseRowsHeuristics:
    heuristics = first(task, **sizes).launches[0].kernel.heuristics
    assert isinstance(heuristics, PointwiseRowsHeuristics)
    return heuristics


def text(task: Task, **sizes: int) -> str:
    origin = Origin(recipe="test", segment=0, fid_map={}, scheduler="pointwise", variant="rows")
    return render(first(task, **sizes).launches[0].kernel, origin).text


class TestWhichAxisIsWalked:
    @pytest.mark.parametrize(
        ("task", "sizes", "walked"),
        [
            (BIAS, {"M": 4096, "N": 4096}, 0),
            (BATCHED, {"B": 8, "S": 4096, "D": 1024}, 1),  # scale and bias repeat along S, bias alone along B
            (HEADS, {"B": 8, "S": 4096, "H": 32, "D": 128}, 2),  # along B and along H; H is nearer
            (HEADS, {"B": 8, "S": 4096, "H": 2, "D": 128}, 0),  # two heads are too few
        ],
    )
    def test_the_one_along_which_most_bytes_repeat(self, task: Task, sizes: dict[str, int], walked: int) -> None:
        assert rows(task, **sizes).walked == walked

    @pytest.mark.parametrize(
        ("inputs", "body"),
        [
            ({"x": "float[M, N]"}, "y = -x"),  # nothing repeats
            ({"x": "float[M, N]", "r": "float[M, 1]"}, "y = x + r"),  # one number a row
            ({"x": "float[M, N]", "s": "float[1, 1]"}, "y = x + s"),
        ],
    )
    def test_none_where_no_vector_repeats(self, inputs: dict[str, str], body: str) -> None:
        found = first(whole(inputs, body, {"y": "float"}), M=4096, N=4096)
        assert isinstance(found.launches[0].kernel.heuristics, PointwiseHeuristics)

    def test_none_where_what_repeats_stays_near(self) -> None:
        assert first(BIAS, M=65536, N=2048).name == "vec8_int32"
        assert first(BIAS, M=65536, N=2056).name == "rows_vec8_int32"

    def test_none_where_rows_are_few(self) -> None:
        assert first(BIAS, M=3, N=4096).name == "vec8_int32"
        assert first(BIAS, M=4, N=4096).name == "rows_vec8_int32"


class TestLayout:
    def test_the_whole_of_it(self) -> None:
        assert rows(BIAS, M=65536, N=4096) == PointwiseRowsHeuristics(
            threads_x=128, threads_y=1, rows=8, unroll=1, min_blocks=11, walked=0
        )

    @pytest.mark.parametrize(
        ("columns", "threads_x"), [(8, 1), (64, 8), (768, 32), (1024, 128), (4096, 128), (5120, 128), (8 * 255, 128)]
    )
    def test_few_threads_have_no_columns(self, columns: int, threads_x: int) -> None:
        found = rows(PER_BATCH, B=4096, H=4096, N=columns)
        assert (found.threads_x, found.threads_x * found.threads_y) == (threads_x, 128)

    def test_blocks_are_smaller_where_rows_are_few(self) -> None:
        found = rows(HEADS, B=8, S=4096, H=32, D=128)
        assert (found.threads_x, found.threads_y, found.rows) == (32, 4, 8)

    def test_rows_are_shared_out_where_blocks_are_few(self) -> None:
        assert rows(BIAS, M=512, N=4096).rows == 2
        assert rows(BIAS, M=65536, N=4096).rows == 8

    def test_what_is_kept_takes_registers_from_other_blocks(self) -> None:
        names = [f"b{index}" for index in range(6)]
        inputs = {"x": "float[M, N]", **dict.fromkeys(names, "float[N]")}
        kept = whole(inputs, "y = x" + "".join(f" + {name}" for name in names), {"y": "float"})
        assert rows(kept, M=65536, N=4096).min_blocks == 8
        assert rows(BIAS, M=65536, N=4096).min_blocks == 11

    def test_a_block_has_a_tile_of_rows_and_columns(self) -> None:
        (launch,) = first(BATCHED, B=8, S=4096, D=1024).launches
        assert launch.block == (128, 1, 1)
        assert launch.grid == (("mul", ("ceil_div", "D", 1024), ("ceil_div", "S", 8), "B"), 1, 1)


class TestText:
    def test_what_repeats_is_loaded_before_the_rows(self) -> None:
        before, _, walk = text(BATCHED, B=8, S=4096, D=1024).partition("for (Index top")
        assert "v1 = fb::load<kVec>(T1 + before * n2 + i);" in before
        assert "v2 = fb::load<kVec>(T2 + i);" in before
        assert "T1" not in walk
        assert "p0[u] = fb::load_packed<kVec>(T0 + (before * n1 + row) * n2 + i);" in walk

    def test_what_follows_from_it_alone_is_computed_before_the_rows(self) -> None:
        task = whole({"x": "float[M, N]", "v": "float[N]"}, "y = x * rsqrt(v + 1.0)", {"y": "float"})
        before, _, walk = text(task, M=4096, N=4096).partition("for (Index top")
        assert "fb::rsqrt" in before
        assert "fb::rsqrt" not in walk

    def test_a_row_has_numbers_of_its_own(self) -> None:
        task = whole({"x": "float[M, N]", "v": "float[N]", "r": "float[M, 1]"}, "y = x * v + r", {"y": "float"})
        _, _, walk = text(task, M=4096, N=4096).partition("for (Index top")
        assert "const float t2 = T2[row];  // r" in walk

    def test_an_index_is_taken_apart_once(self) -> None:
        task = whole(
            {"x": "float[B, S, D]", "bias": "float[S, D]", "row": "float[S, 1]"}, "y = x * row + bias", {"y": "float"}
        )
        before, _, walk = text(task, B=64, S=128, D=1024).partition("for (Index top")
        assert "const Index i1 = i / Index(n2);" in before
        assert "const float t2 = T2[i1];  // row" in before
        assert "/" not in walk.replace("//", "")

    def test_other_variants_of_the_same_task_are_flat(self) -> None:
        names = [variant.name for variant in POINTWISE.schedule(BIAS, SM_90, {"M": 4096, "N": 4096})]
        assert names == ["rows_vec8_int32", "shifted_vec8_int32", "scalar_int64"]


class TestChoice:
    def test_the_one_next_to_it_has_as_many_threads_on_a_multiprocessor(self) -> None:
        choice = RowsChoice(threads_x=64, threads_y=4, rows=8, unroll=4, min_blocks=4)
        assert choice.stepped("threads_x", 128) == replace(choice, threads_x=128, threads_y=2)
        assert choice.stepped("threads_y", 8) == replace(choice, threads_y=8, min_blocks=2)
        assert choice.stepped("rows", 16) == replace(choice, rows=16)

    def test_a_choice_that_is_given_makes_the_kernel(self) -> None:
        given = {"threads_x": 32, "threads_y": 2, "rows": 16, "unroll": 2, "min_blocks": 8}
        found = POINTWISE.schedule(BIAS, SM_90, {"M": 4096, "N": 4096}, {"rows_vec8_int32": given})[0]
        assert found.launches[0].block == (32, 2, 1)
        assert found.launches[0].grid == (("mul", ("ceil_div", "N", 256), ("ceil_div", "M", 32)), 1, 1)
        assert found.launches[0].kernel.heuristics == PointwiseRowsHeuristics(**given, walked=0)

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"threads_x": 24}, "threads_x: it is 24, no power of two from 1 to 1024"),
            ({"threads_x": 8, "threads_y": 2}, "threads_y: a block would have 16 threads, no whole number of warps"),
            ({"threads_x": 64, "threads_y": 32}, "threads_y: a block would have 2048 threads, at most 1024"),
            ({"rows": 65}, "rows: it is 65, but a thread has at most 64 rows"),
            ({"unroll": 16}, "unroll: it is 16, but a thread has 8 rows"),
            ({"min_blocks": 16}, "min_blocks: 16 blocks of 256 threads are more than the 2048 threads of a"
                                 " multiprocessor"),
        ],
    )  # fmt: skip
    def test_one_that_no_kernel_can_be_made_with_is_an_error(self, changed: dict[str, int], message: str) -> None:
        given = {"threads_x": 64, "threads_y": 4, "rows": 8, "unroll": 4, "min_blocks": 4} | changed
        with pytest.raises(KnobError) as caught:
            POINTWISE.schedule(BIAS, SM_90, {"M": 4096, "N": 4096}, {"rows_vec8_int32": given})
        assert f"{caught.value.knob}: {caught.value.reason}" == message
