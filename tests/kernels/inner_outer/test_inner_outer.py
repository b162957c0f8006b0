"""Reductions along rows and down columns in one pass: what is taken, why the rest is refused, how it is launched."""

from __future__ import annotations

import re

import pytest

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.finish import FinishGroup, FinishHeuristics
from fusebuild.kernels.common.spec import Rejection, VariantSpec, axis_domain
from fusebuild.kernels.families import first_accepting
from fusebuild.kernels.inner_outer import FAMILY as INNER_OUTER
from fusebuild.kernels.inner_outer.axes import InnerOuterParts, inner_outer_parts
from fusebuild.kernels.inner_outer.schedule import IN_BLOCK
from fusebuild.kernels.inner_outer.shape import InnerOuterHeuristics
from fusebuild.pipeline import plan_recipe, read_recipes
from fusebuild.target.table import TARGETS, Target
from support.places import ROOT
from support.small_recipes import whole

SM_90 = TARGETS["sm_90"]
ADALN = ROOT / "recipes" / "adaln_backward.yaml"
SCHEDULER = INNER_OUTER

PAIR = {"x": "bfloat16[M, N]", "g": "bfloat16[M, N]", "w": "bfloat16[N]"}
BACKWARD = "p = g * w\ny = p - mean(p, dims=[1], keepdim=True)\ndw = sum(g * x, dims=[0])"
NORM = whole(PAIR, BACKWARD, {"y": "bfloat16", "dw": "float"})
TWO_LEVELS = BACKWARD.replace("mean(p", "mean(q").replace("y = p -", "q = p - max(p, dims=[1], keepdim=True)\ny = q -")
LEVELS = whole(PAIR, TWO_LEVELS, {"y": "bfloat16", "dw": "float"})
RANK3 = {"x": "float[B, S, D]"}
PREFIXES = whole(RANK3, "y = -x\na = sum(x, dims=[1])\nb = sum(x, dims=[0, 1])",
                 {"y": "float", "a": "float", "b": "float"})  # fmt: skip


def parts_of(task: Task) -> InnerOuterParts:
    return inner_outer_parts(task, axis_domain(task))


def kept_of(task: Task) -> dict[str, tuple[int, ...]]:
    """The kept axes of each reduction down columns, by the name of its result."""
    exprs = task.fusion.exprs
    return {task.fusion.value(exprs[index].outputs[0]).name: kept for index, kept in parts_of(task).kept.items()}


def variants(task: Task, target: Target = SM_90, **sizes: int) -> tuple[VariantSpec, ...]:
    return SCHEDULER.schedule(task, target, sizes)


def finished(variant: VariantSpec) -> list[FinishGroup]:
    """The groups of reductions that the one finishing kernel finishes, in order."""
    _, finish = variant.launches
    assert isinstance(finish.kernel.heuristics, FinishHeuristics)
    return [part.group for part in finish.kernel.heuristics.parts]


def heuristics(variant: VariantSpec) -> InnerOuterHeuristics:
    found = variant.launches[0].kernel.heuristics
    assert isinstance(found, InnerOuterHeuristics)
    return found


class TestParts:
    def test_rows_and_columns(self) -> None:
        parts = parts_of(NORM)
        assert (parts.rows, parts.columns, parts.outer, parts.depth) == ((0,), (1,), (), (0,))
        assert (len(parts.along), len(parts.down)) == (1, 1)

    def test_what_is_reduced_by_different_reductions_stays_apart(self) -> None:
        """Rows and columns of a contiguous tensor are one dim in memory; the kernel walks them apart."""
        task = whole({"x": "float[M, N]"}, "y = x - max(x, dims=[1], keepdim=True)\nc = sum(x, dims=[0])",
                     {"y": "float", "c": "float"})  # fmt: skip
        assert [axis.extent for axis in axis_domain(task).axes] == ["M", "N"]

    def test_each_reduction_keeps_its_own_prefix_of_the_rows(self) -> None:
        assert kept_of(PREFIXES) == {"a": (0,), "b": ()}
        assert (parts_of(PREFIXES).outer, parts_of(PREFIXES).depth) == ((0,), (1,))

    def test_prefixes_between_the_longest_and_none(self) -> None:
        body = "y = -x\na = sum(x, dims=[2])\nb = sum(x, dims=[1, 2])\nc = sum(x, dims=[0, 1, 2])"
        task = whole({"x": "float[A, B, S, D]"}, body, {"y": "float", "a": "float", "b": "float", "c": "float"})
        assert kept_of(task) == {"a": (0, 1), "b": (0,), "c": ()}

    def test_epilogues_follow_their_reduction(self) -> None:
        task = whole({**PAIR, "bias": "float[N]"}, f"{BACKWARD} + bias", {"y": "bfloat16", "dw": "float"})
        parts = parts_of(task)
        names = {output.fid: output.name for output in task.fusion.outputs}
        assert [names[fid] for fid in parts.written_by_rows(task)] == ["y"]

    def test_without_reductions_along_rows_the_columns_are_what_is_inside(self) -> None:
        task = whole({"x": "float[M, N, K]"}, "y = -x\nc = sum(x, dims=[0])", {"y": "float", "c": "float"})
        parts = parts_of(task)
        assert (parts.along, parts.rows, parts.columns) == ((), (0,), (1,))


REJECTIONS: list[tuple[str, str, Task]] = [
    ("there is no reduction", "test.yaml:5:7", whole({"x": "float[M]"}, "y = -x", {"y": "float"})),
    ("no reduction runs over outer dims alone", "test.yaml:5:7",
     whole({"x": "float[M, N]"}, "y = sum(x, dims=[1])", {"y": "float"})),
    ("y is a scan", "test.yaml:5:7", whole({"x": "float[M, N]"}, "y = cumsum(x, dim=0)", {"y": "float"})),
    ("b reduces over other dims than the others along rows", "test.yaml:6:7",
     whole(RANK3, "a = sum(x, dims=[1, 2])\nb = sum(x, dims=[2])\nc = sum(x, dims=[0])",
           {"a": "float", "b": "float", "c": "float"})),
    ("a keeps a dim inside of those that it reduces", "test.yaml:5:7",
     whole(RANK3, "a = sum(x, dims=[0])\nb = sum(x, dims=[0, 1])", {"a": "float", "b": "float"})),
    ("y brings a reduced column back to the rows", "test.yaml:6:7",
     whole({"x": "float[M, N]"}, "c = sum(x, dims=[0], keepdim=True)\ny = x - c", {"y": "float"})),
    ("the task iterates over dims that the reduction d does not have", "test.yaml:6:7",
     whole(RANK3, "c = sum(x, dims=[1])\nd = max(c, dims=[0])\ny = -x", {"d": "float", "y": "float"})),
    ("d needs columns reduced over different dims", "test.yaml:7:7",
     whole(RANK3, "a = sum(x, dims=[1])\nb = sum(x, dims=[0, 1])\nd = a + b", {"d": "float"})),
    ("r overwrites s, which all threads of a row read", "test.yaml:7:7",
     whole({"x": "float[M, N]", "s": "float[M]"},
           "y = x * broadcast(s, [False, True])\nr = sum(y, dims=[1])\nc = sum(y, dims=[0])",
           {"y": "float", "r": "{dtype: float, alias: s}", "c": "float"})),
    ("moved overwrites u, which another finishing kernel reads", "test.yaml:10:11",
     whole({**RANK3, "u": "float[D]"},
           "y = -x\nsquares = sum(x * x, dims=[1])\ntwice = u * 2.0\nc = squares * twice\n"
           "moved = u - sum(x, dims=[0, 1])",
           {"y": "float", "c": "float", "moved": "{dtype: float, alias: u}"})),
    ("z has other dims than this family writes", "test.yaml:6:7",
     whole({"x": "float[M, N]", "w": "float[N]"}, "z = -w\nc = sum(x * z, dims=[0])\ny = x * z",
           {"z": "float", "c": "float", "y": "float"})),
]  # fmt: skip


@pytest.mark.parametrize(("text", "place", "task"), REJECTIONS, ids=[text for text, _, _ in REJECTIONS])
def test_rejections(text: str, place: str, task: Task) -> None:
    rejected = SCHEDULER.accepts(task, SM_90)
    assert isinstance(rejected, Rejection)
    assert (rejected.reason, str(rejected.location)) == (text, place)


def test_plain_reductions_are_left_to_the_family_that_makes_them_best() -> None:
    task = whole({"x": "float[M, N]"}, "y = sum(x, dims=[0])", {"y": "float"})
    found = first_accepting(task, SM_90)
    assert SCHEDULER.accepts(task, SM_90) is None
    assert not isinstance(found, tuple)
    assert found.name == "reduction"


class TestLaunches:
    def test_variants_from_the_fastest_to_the_one_that_always_works(self) -> None:
        found = variants(NORM, M=16384, N=4096)
        assert [each.name for each in found] == ["registers_vec8_int32", "registers_vec1_int32", "scratch_scalar_int64"]
        assert found[0].guard[-1] == ("le", "N", 4096)
        assert found[-1].guard == ()

    def test_vector_access_asks_nothing_of_what_the_finish_writes(self) -> None:
        (dw,) = (output.fid for output in NORM.fusion.outputs if output.name == "dw")
        guarded = {guard[1] for guard in variants(NORM)[0].guard if isinstance(guard, tuple) and guard[0] == "aligned"}
        assert guarded
        assert dw not in guarded

    def test_blocks_fill_the_gpu_once(self) -> None:
        chosen = heuristics(variants(NORM, M=16384, N=1024)[0])
        assert chosen.threads.block == 128
        assert chosen.blocks == SM_90.multiprocessors * chosen.min_blocks == 132 * 5

    def test_few_rows_are_not_split_into_blocks_of_less_than_four(self) -> None:
        assert heuristics(variants(NORM, M=16, N=4096)[0]).blocks == 4
        assert heuristics(variants(NORM, M=3, N=4096)[0]).blocks == 1

    def test_they_do_so_whatever_the_outer_indices_are(self) -> None:
        for sizes in ({"B": 56, "S": 1024}, {"B": 100_000, "S": 4}, {"B": 1, "S": 65536}):
            chosen = heuristics(variants(PREFIXES, D=1024, **sizes)[0])
            assert chosen.blocks == SM_90.multiprocessors * chosen.min_blocks

    def test_narrow_rows_share_a_block(self) -> None:
        launch = variants(NORM, M=10_000, N=64)[0].launches[0]
        assert (launch.block, heuristics(variants(NORM, M=10_000, N=64)[0]).threads.rows) == ((8, 16, 1), 16)

    @pytest.mark.parametrize("columns", [8, 40, 128, 1000, 1024, 4096, 8192])
    @pytest.mark.parametrize(("task", "steady", "fetched"), [(NORM, 4 + 4, 2 * 2), (PREFIXES, 4 + 4, 4)])
    def test_what_threads_keep_fits_the_registers_of_a_multiprocessor(
        self, task: Task, steady: int, fetched: int, columns: int
    ) -> None:
        for variant in variants(task, M=4096, N=columns, B=8, S=512, D=columns)[:-1]:
            chosen, vec = heuristics(variant), variant.launches[0].kernel.vec
            words = chosen.chunks * (vec * steady + 2 * chosen.at_once * max(4, vec * fetched)) // 4
            assert chosen.chunks * vec * chosen.threads.per_row >= columns
            assert (IN_BLOCK.base + words) * chosen.threads.block * chosen.min_blocks <= SM_90.registers

    def test_two_rows_at_once_where_registers_last(self) -> None:
        short, long = (heuristics(variants(NORM, M=4096, N=columns)[0]) for columns in (1024, 4096))
        assert (short.threads.block, short.chunks, short.at_once, short.min_blocks) == (128, 1, 2, 5)
        assert (long.threads.block, long.chunks, long.at_once, long.min_blocks) == (256, 2, 1, 2)

    def test_the_next_ones_of_longer_rows_wait_in_shared_memory(self) -> None:
        found = variants(NORM, M=8192, N=16384)
        chosen = heuristics(found[0])
        assert [each.name for each in found] == ["staged2_vec8_int32", "scratch_scalar_int64"]
        assert (chosen.threads.per_row, chosen.cluster, chosen.chunks, chosen.stages) == (512, 2, 2, 6)
        assert found[0].launches[0].shared_bytes == 6 * 16384 // 2 * 2 * 2
        assert found[0].guard[-1] == ("le", "N", 16384)

    def test_the_blocks_of_a_cluster_share_them_and_there_are_as_many_as_run_at_a_time(self) -> None:
        launch = variants(NORM, M=8192, N=16384)[0].launches[0]
        assert (launch.grid, launch.block) == ((2 * 66, 1, 1), (512, 1, 1))
        assert variants(NORM, M=8192, N=16384)[0].scratch == (("mul", 4 * 66, "N"),)
        assert variants(NORM, M=8192, N=65536)[0].launches[0].grid == (4 * 30, 1, 1)

    @pytest.mark.parametrize(
        ("columns", "threads", "cluster", "chunks", "blocks"),
        [(12288, 256, 2, 3, 2), (16384, 512, 2, 2, 1), (24576, 512, 2, 3, 1), (65536, 512, 4, 4, 1)],
    )
    def test_clusters_are_small_and_their_blocks_wide_while_most_threads_have_something_to_do(
        self, columns: int, threads: int, cluster: int, chunks: int, blocks: int
    ) -> None:
        chosen = heuristics(variants(NORM, M=4096, N=columns)[0])
        assert (chosen.threads.per_row, chosen.cluster, chosen.chunks) == (threads, cluster, chunks)
        assert chosen.min_blocks == blocks

    def test_what_stays_for_them_is_unpacked_for_each_row_where_registers_do_not_last(self) -> None:
        outputs = {"y": "bfloat16", "dw": "float", "db": "float"}
        task = whole(PAIR, f"{TWO_LEVELS}\ndb = sum(exp(cast(g, float)), dims=[0])", outputs)
        chosen, other = (heuristics(variants(each, M=8192, N=16384)[0]) for each in (task, LEVELS))
        assert [(len(each.resident), len(each.packed)) for each in (chosen, other)] == [(0, 1), (1, 0)]

    def test_simple_rows_leave_more_registers_for_what_stays(self) -> None:
        outputs = {"y": "bfloat16", "dw": "float", "db": "float"}
        task = whole(PAIR, f"{BACKWARD}\ndb = sum(cast(g, float), dims=[0])", outputs)
        chosen = heuristics(variants(task, M=8192, N=16384)[0])
        assert (chosen.threads.per_row, len(chosen.resident), len(chosen.packed)) == (512, 1, 0)

    def test_blocks_share_no_rows_with_a_second_level_of_reductions_nor_where_there_are_no_clusters(self) -> None:
        for task, target, cluster in ((NORM, SM_90, 2), (LEVELS, SM_90, 1), (NORM, TARGETS["sm_80"], 1)):
            chosen = heuristics(variants(task, target, M=8192, N=12288)[0])
            assert (chosen.stages > 1, chosen.cluster) == (True, cluster)

    def test_rows_that_no_block_can_own_accumulate_in_shared_memory_or_in_scratch(self) -> None:
        found = variants(LEVELS, M=8192, N=32768)
        assert [each.name for each in found] == ["shared_vec8_int32", "scratch_vec8_int64", "scratch_scalar_int64"]
        assert found[0].launches[0].shared_bytes == ("mul", 4, "N")
        assert ("le", ("mul", 4, "N"), SM_90.shared_bytes - 2048) in found[0].guard
        assert heuristics(found[0]).chunks == 0

    def test_their_next_one_waits_in_registers_while_they_last(self) -> None:
        (found, *_) = variants(NORM, TARGETS["sm_86"], M=8192, N=16384)
        assert (found.name, len(heuristics(found).fetched)) == ("shared_vec8_int32", 2)
        assert ("le", "N", 16384) in found.guard

    def test_inputs_that_stay_and_inputs_that_are_loaded_ahead(self) -> None:
        chosen = heuristics(variants(NORM, M=4096, N=1024)[0])
        named = [[NORM.fusion.value(fid).name for fid in fids] for fids in (chosen.fetched, chosen.resident)]
        assert named == [["x", "g"], ["w"]]

    def test_what_only_an_epilogue_reads_does_not_stay(self) -> None:
        task = whole({**PAIR, "bias": "float[N]"}, f"{BACKWARD} + bias", {"y": "bfloat16", "dw": "float"})
        chosen = heuristics(variants(task, M=4096, N=1024)[0])
        assert [task.fusion.value(fid).name for fid in chosen.resident] == ["w"]

    def test_one_launch_finishes_every_set_of_kept_dims(self) -> None:
        """Those whose results have the most partial ones first."""
        variant = variants(PREFIXES, B=56, S=1024, D=1024)[0]
        chosen = heuristics(variant)
        assert [(group.kept, group.splits, group.across, group.outer) for group in finished(variant)] == [
            ((2,), chosen.blocks, (), ()),
            ((0, 2), chosen.blocks, (), (0,)),
        ]
        assert [launch.overlaps for launch in variant.launches] == [False, True]

    def test_scratch_holds_a_partial_result_for_each_block_that_makes_one(self) -> None:
        variant = variants(PREFIXES, B=56, S=1024, D=1024)[0]
        chosen = heuristics(variant)
        parts = ("add", ("floor_div", chosen.blocks, ("max", "B", 1)), 2)
        assert variant.scratch == (("mul", 4, parts, "B", "D"), ("mul", 4 * chosen.blocks, "D"))

    def test_the_finish_counts_partial_results_in_64_bits(self) -> None:
        """They may be more than 2**31: as many as there are outer indices, times the splits."""
        planned = plan_recipe(read_recipes([ADALN])[0], [SM_90])
        texts = [kernel.source for kernel in planned.kernels["sm_90"].values() if "reduction_finish" in kernel.name]
        across = [text for text in texts if ".most_parts() * n0;" in text]
        assert across
        for text in across:
            assert "const int64_t splits =" in text
            assert "for (int64_t first =" in text
            assert "const int64_t left =" in text
            assert "const int64_t place =" in text
            assert "int64_t outer =" in text
            assert not re.search(r"\bint outer", text)
            assert re.findall(r"\bint\((\w+)\)", text) == ["left"] * text.count("left < kAhead ? int(left)")

    def test_a_sum_that_is_needed_with_others_is_not_scaled(self) -> None:
        """Scaled sums are finished on their own, and together all that one value needs."""
        inputs, body = {**RANK3, "w": "float[D]"}, "y = -x\na = sum(x, dims=[1])\nb = sum(x * w, dims=[1])"
        apart = whole(inputs, body, {"y": "float", "a": "float", "b": "float"})
        together = whole(inputs, f"{body}\nc = a + b", {"y": "float", "c": "float"})
        assert [len(parts_of(task).scaled) for task in (apart, together)] == [1, 0]
        assert [len(parts_of(task).finishes) for task in (apart, together)] == [2, 1]

    def test_dims_between_are_combined_by_the_finish(self) -> None:
        body = "y = -x\na = sum(x, dims=[2])\nb = sum(x, dims=[1, 2])"
        task = whole({"x": "float[A, B, S, D]"}, body, {"y": "float", "a": "float", "b": "float"})
        variant = variants(task, A=2, B=3, S=1000, D=512)[0]
        assert [(group.kept, group.across) for group in finished(variant)] == [((0, 3), (1,)), ((0, 1, 3), ())]
        parts = ("add", ("floor_div", heuristics(variant).blocks, ("max", ("mul", "A", "B"), 1)), 2)
        assert variant.scratch[1] == ("mul", 4, parts, "B", "A", "D")
