"""Reductions along rows and down columns in one pass: what is taken, why the rest is refused, how it is launched."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from math import gcd

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusebuild.artifact.plan import FormulaArg, as_formula
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.finish import FinishGroup, FinishHeuristics
from fusebuild.kernels.common.spec import LaunchSpec, Rejection, VariantSpec, axis_domain
from fusebuild.kernels.common.specialization import taken_variant, used_symbols
from fusebuild.kernels.families import first_accepting, view_of
from fusebuild.kernels.inner_outer import FAMILY as INNER_OUTER
from fusebuild.kernels.inner_outer.axes import InnerOuterParts, inner_outer_parts
from fusebuild.kernels.inner_outer.planner import IN_BLOCK
from fusebuild.kernels.inner_outer.rungs import RUNGS
from fusebuild.kernels.inner_outer.shape import InnerOuterHeuristics
from fusebuild.pipeline import plan_recipe, read_recipes
from fusebuild.recipe.recipe import Recipe
from fusebuild.target.table import TARGETS, Target
from support.places import ROOT
from support.small_recipes import recipe_of, text_of, whole

SM_90 = TARGETS["sm_90"]
ADALN = ROOT / "recipes" / "adaln_backward.yaml"


def lines_of(recipe: Recipe) -> Iterator[str]:
    """The lines of all its kernels."""
    for kernel in plan_recipe(recipe, [SM_90]).kernels["sm_90"].values():
        yield from (line.strip() for line in kernel.source.splitlines())


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


@functools.cache
def norm_variants(columns: int) -> tuple[VariantSpec, ...]:
    """Those of ``NORM`` where the first case has so many columns."""
    return variants(NORM, M=7, N=columns)


def chosen(task: Task, target: Target = SM_90, **sizes: int) -> VariantSpec:
    """The variant that aligned tensors of these sizes take, whatever the first case is."""
    return taken_variant(variants(task, target, M=7, N=1001), task.fusion, sizes)


def walking(task: Task, target: Target = SM_90, **sizes: int) -> list[VariantSpec]:
    """The variants whose blocks walk rows, all but the one for short rows."""
    return [each for each in variants(task, target, **sizes) if isinstance(_own(each), InnerOuterHeuristics)]


def _own(variant: VariantSpec) -> object:
    return variant.launches[0].kernel.heuristics


def blocks(launch: LaunchSpec, multiprocessors: int = 132, **sizes: int) -> int:
    """Those of its grid, which lie along x."""
    assert launch.grid[1:] == (1, 1)
    return evaluate(launch.grid[0], {**sizes, MULTIPROCESSORS: multiprocessors})


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
        """A ladder of rows that vectors hold, of odd ones, and what is left."""
        found = variants(NORM, M=16384, N=4096)
        assert [each.name for each in found] == [
            "tiled_vec8_int32",
            *(f"registers{most}_vec8_int32" for most in RUNGS[1:9]),
            "staged2_16384_vec8_int32", "staged4_32768_vec8_int32", "staged8_131072_vec8_int32",
            "tiled_scalar_int32",
            *(f"shifted{most}_vec8_int32" for most in (512, 1024, 2048, 4096, 8192, 16384, 32768, 131072)),
            "scratch_scalar_int64",
        ]  # fmt: skip
        assert [each.guard[-1] for each in found[:9]] == [("le", "N", most) for most in RUNGS[:9]]
        assert found[-1].guard == ()

    @pytest.mark.parametrize("target", ["sm_80", "sm_89", "sm_90", "sm_120", "host"])
    @pytest.mark.parametrize("task", [NORM, LEVELS, PREFIXES], ids=["norm", "levels", "prefixes"])
    def test_rungs_are_longer_and_longer_and_there_is_one_for_all_common_rows(self, task: Task, target: str) -> None:
        found = variants(task, TARGETS[target], M=16384, N=4096)
        for ways in (("registers", "staged"), ("striped", "shifted")):
            held = [each.guard[-1] for each in found if each.name.startswith(ways) and "_vec1_" not in each.name]
            most = [guard[2] for guard in held if isinstance(guard, tuple)]
            assert most == sorted({*most})
            assert most[-1] >= 4096 - 7  # what is shifted has up to 7 elements before it

    def test_odd_rows_are_striped_only_where_they_follow_each_other(self) -> None:
        """Rows of one outer index do, and those that begin alike are not among them."""
        pair = {"x": "bfloat16[B, S, D]", "g": "bfloat16[B, S, D]"}
        body = "y = g - mean(g, dims=[2], keepdim=True)\na = sum(g * x, dims=[{}])"
        for dims, layout in (("0, 1", "shifted"), ("1", "striped")):
            task = whole(pair, body.format(dims), {"y": "bfloat16", "a": "float"})
            names = [each.name for each in walking(task) if each.name.startswith(("shifted", "striped"))]
            assert names
            assert all(name.startswith(layout) for name in names)

    def test_odd_rows_whose_columns_are_counted_are_taken_one_by_one(self) -> None:
        """Where rows are counted, they need not be."""
        body = "y = g - mean(g, dims=[2], keepdim=True)\na = sum(g * {}, dims=[1])"
        for size, expected in (("iota(D)", "_vec1_"), ("broadcast(iota(B), [False, True, True])", "striped")):
            counted = body.format(f"cast({size}, float)")
            task = whole({"g": "float[B, S, D]"}, counted, {"y": "float", "a": "float"})
            odd = [each.name for each in walking(task) if "_vec1_" in each.name or each.name.startswith("striped")]
            assert odd
            assert all(expected in name for name in odd)

    def test_odd_rows_of_one_block_are_of_one_kind_where_there_are_enough_of_them(self) -> None:
        launch = chosen(NORM, M=10_000, N=2931).launches[0]
        assert chosen(NORM, M=10_000, N=2931).name == "shifted4096_vec8_int32"
        for multiprocessors, expected in ((132, 264), (78, 152), (3, 6)):
            assert blocks(launch, multiprocessors, M=10_000, N=2931) == expected

    @pytest.mark.parametrize(
        ("rows", "expected"), [(9, 9), (131, 131), (263, 132), (264, 128), (277, 128), (1000, 248)]
    )
    def test_so_they_are_where_few_blocks_have_several_rows_each(self, rows: int, expected: int) -> None:
        assert blocks(chosen(NORM, M=rows, N=2931).launches[0], M=rows, N=2931) == expected

    @pytest.mark.parametrize(
        ("rows", "columns", "multiprocessors", "kinds"),
        [(10_000, 2931, 132, 1), (10_000, 2931, 2, 8), (15, 2931, 11, 8), (15, 2930, 11, 4), (15, 2936, 11, 1)],
    )
    def test_each_kind_of_odd_rows_after_the_first_leaves_one_part_more_where_blocks_are_no_multiple_of_them(
        self, rows: int, columns: int, multiprocessors: int, kinds: int
    ) -> None:
        (own,) = (each for each in walking(NORM) if each.name == "shifted4096_vec8_int32")
        (parts,) = (each for each in own.launches[1].kernel.parameters if each.name == "splits")
        assert isinstance(parts.arg, FormulaArg)
        sizes = {"M": rows, "N": columns, MULTIPROCESSORS: multiprocessors}
        left = evaluate(as_formula(parts.arg.formula), sizes)
        assert left == blocks(own.launches[0], multiprocessors, M=rows, N=columns) + kinds - 1

    @pytest.mark.parametrize("multiprocessors", [1, 3, 78, 132])
    @pytest.mark.parametrize("columns", [2930, 2931])
    def test_so_many_are_counted_whatever_the_rows_are(self, columns: int, multiprocessors: int) -> None:
        for own in (each for each in walking(NORM) if each.name.startswith("shifted")):
            (parts,) = (each for each in own.launches[1].kernel.parameters if each.name == "splits")
            assert isinstance(parts.arg, FormulaArg)
            heuristics = own.launches[0].kernel.heuristics
            assert isinstance(heuristics, InnerOuterHeuristics)
            for rows in (*range(1, 150), *range(150, 1200, 7)):
                walkers = blocks(own.launches[0], multiprocessors, M=rows, N=columns) // heuristics.cluster
                kinds = 8 // gcd(8, columns) if rows > walkers and walkers % (8 // gcd(8, columns)) else 1
                sizes = {"M": rows, "N": columns, MULTIPROCESSORS: multiprocessors}
                assert evaluate(as_formula(parts.arg.formula), sizes) == walkers + kinds - 1, (own.name, rows)

    def test_odd_rows_of_which_each_block_has_one_leave_one_part_each(self) -> None:
        own = chosen(NORM, M=17, N=2931)
        (parts,) = (each for each in own.launches[1].kernel.parameters if each.name == "splits")
        assert isinstance(parts.arg, FormulaArg)
        assert evaluate(as_formula(parts.arg.formula), {"M": 17, "N": 2931, MULTIPROCESSORS: 132}) == 17

    @pytest.mark.parametrize(
        ("rows", "columns", "expected"),
        [(66, 8000, "staged2_16384"), (67, 8000, "registers8192"), (9, 4096, "registers4096"),
         (9, 4104, "staged2_16384"), (66, 8001, "shifted16384"), (67, 8001, "shifted8192"), (9, 4001, "shifted4096")],
    )  # fmt: skip
    def test_few_rows_are_shared_by_clusters_where_rows_twice_as_long_are(
        self, rows: int, columns: int, expected: str
    ) -> None:
        assert chosen(NORM, M=rows, N=columns).name == f"{expected}_vec8_int32"

    @settings(max_examples=200)
    @given(rows=st.integers(0, 2**24), columns=st.integers(1, 2**17), own=st.sampled_from([8, 1024, 5120, 100_000]))
    def test_what_the_first_case_is_decides_nothing(self, rows: int, columns: int, own: int) -> None:
        """Whole vectors are never left to the variant that has no guard, and their rows fit the blocks that take
        them with at most as many places to spare, from the shortest rung on, three times as many where rows are few."""
        columns = -(-columns // 8) * 8
        taken = taken_variant(norm_variants(own), NORM.fusion, {"M": rows, "N": columns})
        if columns <= 128 and rows > 0:
            assert taken.name == "tiled_vec8_int32"
            return
        chosen = heuristics(taken)
        held = chosen.cluster * chosen.columns(8)
        assert chosen.storage == "registers"
        assert columns <= held
        assert held in (RUNGS[1], RUNGS[-1]) or held < (2 if rows > SM_90.multiprocessors // 2 else 4) * columns + 8

    def test_rows_that_are_whole_vectors_need_no_kernels_for_odd_ones(self) -> None:
        task = whole(PAIR, BACKWARD, {"y": "bfloat16", "dw": "float"}, extents="N: {multiple_of: 8}")
        assert [each.name for each in variants(task, M=64, N=64) if "vec1" in each.name] == []

    def test_vector_access_asks_nothing_of_what_the_finish_writes(self) -> None:
        (dw,) = (output.fid for output in NORM.fusion.outputs if output.name == "dw")
        guarded = {guard[1] for guard in variants(NORM)[0].guard if isinstance(guard, tuple) and guard[0] == "aligned"}
        assert guarded
        assert dw not in guarded

    def test_blocks_fill_the_gpu_once(self) -> None:
        launch = chosen(NORM, M=16384, N=1024).launches[0]
        assert (launch.block, heuristics(chosen(NORM, M=16384, N=1024)).min_blocks) == ((128, 1, 1), 5)
        assert blocks(launch, M=16384) == 5 * 132
        assert blocks(launch, M=16384, multiprocessors=78) == 5 * 78

    @pytest.mark.parametrize(
        ("rows", "expected"), [(0, 1), (1, 1), (100, 100), (132, 132), (400, 132), (1000, 250), (2000, 264)]
    )
    def test_blocks_have_four_rows_at_least_where_no_multiprocessor_goes_without(
        self, rows: int, expected: int
    ) -> None:
        assert blocks(chosen(NORM, M=rows, N=4096).launches[0], M=rows) == expected

    def test_they_do_so_whatever_the_outer_indices_are(self) -> None:
        for sizes in ({"B": 56, "S": 1024}, {"B": 100_000, "S": 4}, {"B": 1, "S": 65536}):
            taken = chosen(PREFIXES, D=1024, **sizes)
            assert blocks(taken.launches[0], **sizes) == SM_90.multiprocessors * heuristics(taken).min_blocks

    def test_narrow_rows_share_a_block(self) -> None:
        taken = chosen(NORM, M=10_000, N=200)
        assert (taken.launches[0].block, heuristics(taken).threads.rows) == ((32, 4, 1), 4)

    @pytest.mark.parametrize("columns", [8, 40, 128, 1000, 1024, 4096, 8192])
    @pytest.mark.parametrize(("task", "steady", "fetched"), [(NORM, 4 + 4, 2 * 2), (PREFIXES, 4 + 4, 4)])
    def test_what_threads_keep_fits_the_registers_of_a_multiprocessor(
        self, task: Task, steady: int, fetched: int, columns: int
    ) -> None:
        for variant in walking(task, M=4096, N=columns, B=8, S=512, D=columns)[:-1]:
            chosen, vec = heuristics(variant), variant.launches[0].kernel.vec
            if chosen.storage == "registers" and chosen.stages == 1:
                words = chosen.chunks * (vec * steady + 2 * chosen.at_once * max(4, vec * fetched)) // 4
                assert (IN_BLOCK.base + words) * chosen.threads.block * chosen.min_blocks <= SM_90.registers

    def test_two_rows_at_once_where_registers_last(self) -> None:
        short, long = (heuristics(chosen(NORM, M=4096, N=columns)) for columns in (1024, 4096))
        assert (short.threads.block, short.chunks, short.at_once, short.min_blocks) == (128, 1, 2, 5)
        assert (long.threads.block, long.chunks, long.at_once, long.min_blocks) == (256, 2, 1, 2)

    def test_the_next_ones_of_longer_rows_wait_in_shared_memory(self) -> None:
        taken = chosen(NORM, M=8192, N=16384)
        own = heuristics(taken)
        assert taken.name == "staged2_16384_vec8_int32"
        assert (own.threads.per_row, own.cluster, own.chunks, own.stages) == (512, 2, 2, 4)
        assert taken.launches[0].shared_bytes == 4 * 16384 // 2 * 2 * 2
        assert taken.guard[-1] == ("le", "N", 16384)

    def test_the_blocks_of_a_cluster_share_them_and_there_are_as_many_as_run_at_a_time(self) -> None:
        launch = chosen(NORM, M=8192, N=16384).launches[0]
        assert (blocks(launch, M=8192), launch.block) == (2 * 66, (512, 1, 1))
        assert blocks(chosen(NORM, M=8192, N=65536).launches[0], M=8192) == 8 * 15
        assert blocks(chosen(NORM, M=3, N=65536).launches[0], M=3) == 8 * 3

    @pytest.mark.parametrize(
        ("columns", "threads", "cluster", "chunks", "blocks"),
        [(16384, 512, 2, 2, 1), (32768, 512, 4, 2, 1), (65536, 512, 8, 4, 1), (131072, 512, 8, 4, 1)],
    )
    def test_clusters_are_small_and_their_blocks_wide_while_most_threads_have_something_to_do(
        self, columns: int, threads: int, cluster: int, chunks: int, blocks: int
    ) -> None:
        own = heuristics(chosen(NORM, M=4096, N=columns))
        assert (own.threads.per_row, own.cluster, own.chunks) == (threads, cluster, chunks)
        assert own.min_blocks == blocks

    def test_what_stays_for_them_is_unpacked_for_each_row_where_registers_do_not_last(self) -> None:
        outputs = {"y": "bfloat16", "dw": "float", "db": "float"}
        task = whole(PAIR, f"{TWO_LEVELS}\ndb = sum(exp(cast(g, float)), dims=[0])", outputs)
        own, other = (heuristics(chosen(each, M=8192, N=16384)) for each in (task, LEVELS))
        assert [(len(each.resident), len(each.packed)) for each in (own, other)] == [(0, 1), (1, 0)]

    def test_simple_rows_leave_more_registers_for_what_stays(self) -> None:
        outputs = {"y": "bfloat16", "dw": "float", "db": "float"}
        task = whole(PAIR, f"{BACKWARD}\ndb = sum(cast(g, float), dims=[0])", outputs)
        own = heuristics(chosen(task, M=8192, N=16384))
        assert (own.threads.per_row, len(own.resident), len(own.packed)) == (512, 1, 0)

    def test_blocks_share_no_rows_with_a_second_level_of_reductions_nor_where_there_are_no_clusters(self) -> None:
        for task, target, cluster in ((NORM, SM_90, 2), (LEVELS, SM_90, 1), (NORM, TARGETS["sm_80"], 1)):
            own = heuristics(chosen(task, target, M=8192, N=12288))
            assert (own.stages > 1, own.cluster) == (True, cluster)

    def test_rows_that_no_block_can_own_accumulate_in_shared_memory_or_in_scratch(self) -> None:
        taken = chosen(LEVELS, M=8192, N=32768)
        assert [chosen(LEVELS, M=8192, N=columns).name for columns in (8192, 16384, 32768, 65536)] == [
            "registers8192_vec8_int32", "staged1_16384_vec8_int32", "shared_vec8_int32", "scratch_vec8_int64",
        ]  # fmt: skip
        assert taken.launches[0].shared_bytes == ("mul", 4, "N")
        assert ("le", ("mul", 4, "N"), SM_90.shared_bytes - 2048) in taken.guard
        assert heuristics(taken).chunks == 0

    def test_their_next_one_waits_in_registers_while_they_last(self) -> None:
        taken = chosen(NORM, TARGETS["sm_86"], M=8192, N=16384)
        assert (taken.name, len(heuristics(taken).fetched)) == ("shared16384_vec8_int32", 2)
        assert ("le", "N", 16384) in taken.guard

    def test_inputs_that_stay_and_inputs_that_are_loaded_ahead(self) -> None:
        own = heuristics(chosen(NORM, M=4096, N=1024))
        named = [[NORM.fusion.value(fid).name for fid in fids] for fids in (own.fetched, own.resident)]
        assert named == [["x", "g"], ["w"]]

    def test_what_only_an_epilogue_reads_does_not_stay(self) -> None:
        task = whole({**PAIR, "bias": "float[N]"}, f"{BACKWARD} + bias", {"y": "bfloat16", "dw": "float"})
        own = heuristics(chosen(task, M=4096, N=1024))
        assert [task.fusion.value(fid).name for fid in own.resident] == ["w"]

    def test_one_launch_finishes_every_set_of_kept_dims(self) -> None:
        """Those whose results have the most partial ones first."""
        variant = chosen(PREFIXES, B=56, S=1024, D=1024)
        assert [(group.kept, group.across, group.outer) for group in finished(variant)] == [
            ((2,), (), ()),
            ((0, 2), (), (0,)),
        ]
        (parts,) = (each for each in variant.launches[1].kernel.parameters if each.name == "parts")
        assert parts.arg == FormulaArg(formula=variant.launches[0].grid[0])
        assert [launch.starts_early for launch in variant.launches] == [False, True]

    @pytest.mark.parametrize("task", [NORM, PREFIXES, LEVELS], ids=["norm", "prefixes", "levels"])
    @settings(max_examples=100)
    @given(data=st.data())
    def test_scratch_holds_a_partial_result_for_each_block_that_makes_one(
        self, task: Task, data: st.DataObject
    ) -> None:
        """On every card, and at every size."""
        target = TARGETS[data.draw(st.sampled_from(["sm_80", "sm_90", "host"]))]
        symbols = used_symbols(task.fusion)
        sizes = {symbol: data.draw(st.integers(0, 2**18), symbol) for symbol in symbols}
        multiprocessors = data.draw(st.integers(1, 200), "multiprocessors")
        every = {**sizes, MULTIPROCESSORS: multiprocessors}
        *rows, columns = (sizes[symbol] for symbol in symbols)
        for variant in walking(task, target):
            own = heuristics(variant)
            fits = not own.chunks or columns <= own.cluster * own.columns(variant.launches[0].kernel.vec)
            clusters = blocks(variant.launches[0], multiprocessors, **sizes) // own.cluster
            kinds = 8 // gcd(8, columns) if variant.name.startswith("shifted") else 1
            left = [(clusters + kinds - 1) * columns, (clusters // max(1, rows[0]) + 2) * rows[0] * columns]
            for has, needed in zip(variant.scratch, left[::-1][-len(variant.scratch) :], strict=True):
                assert not fits or evaluate(has, every) >= 4 * needed

    def test_scratch_is_as_much_as_the_greediest_variant_needs(self) -> None:
        (scratch,) = {variant.scratch for variant in walking(NORM)}
        sizes = {"M": 32768, MULTIPROCESSORS: 132}
        for columns, owned in ((64, 8 * 64), (4096, 16384), (131072, 131072)):
            assert evaluate(scratch[0], {**sizes, "N": columns}) == 4 * (132 * owned + 7 * columns)

    def test_rows_of_the_next_outer_index_are_on_their_way_whatever_a_block_does_at_once(self) -> None:
        planned = plan_recipe(read_recipes([ADALN])[0], [SM_90])
        texts = [kernel.source for kernel in planned.kernels["sm_90"].values() if "kThreadsPerRow = " in kernel.source]
        several = [text for text in texts if "kRows = 2;" in text]
        assert several
        for text in several:
            assert "const int64_t following = are_left ? top + kRows * stride : last;" in text
            assert "fb::expect<kThreadsPerRow>(T2 + (outer + 1) * n2, lane, columns);" in text

    def test_the_finish_counts_partial_results_in_64_bits(self) -> None:
        """They may be more than 2**31: as many as there are outer indices, times the splits."""
        planned = plan_recipe(read_recipes([ADALN])[0], [SM_90])
        texts = [kernel.source for kernel in planned.kernels["sm_90"].values() if "reduction_finish" in kernel.name]
        across = [text for text in texts if ".most_parts * n0;" in text]
        assert across
        for text in across:
            assert "const int64_t splits =" in text
            assert "int64_t first =" in text
            assert "const int64_t stride =" in text
            assert "int64_t outer =" in text
            assert not re.search(r"\bint outer", text)
            narrowed = re.findall(r"\bint\((splits[^()]*)\)", text)  # where they are less than an int holds
            few = text.count("splits >= each * kAhead ? each : (int(splits)")
            assert narrowed.count("splits") == few
            assert narrowed.count("splits - first") == text.count(
                "splits - first < kAhead * apart ? int(splits - first)"
            )
            assert len(narrowed) == narrowed.count("splits") + narrowed.count("splits - first") > 0

    @pytest.mark.parametrize("depth", [0, 1, 3])
    def test_outer_indices_are_counted_in_32_bits_only_where_there_are_so_few(self, depth: int) -> None:
        """Each counts as one place at least: without rows, too, which a product of all extents does not show."""
        found = variants(PREFIXES, M=16384, N=4096)
        sizes = {"B": 2**31, "S": depth, "D": 24}
        taken = [each for each in found if all(evaluate(own, sizes, lambda fid, size: True) for own in each.guard)]
        assert {each.launches[0].kernel.index for each in taken} == {"int64_t"}

    def test_what_the_next_sample_has_is_asked_for_where_there_is_one(self) -> None:
        """Samples may have no rows; then there is no next one to tell by where the rows of this one end."""
        asked = [line for line in lines_of(read_recipes([ADALN])[0]) if "fb::expect<kThreadsPerRow>" in line]
        assert asked
        assert all(line.startswith("if (first < last && last < end) ") for line in asked)

    def test_what_heads_of_a_sample_share_is_not_asked_for(self) -> None:
        """It has fewer elements than the columns of a row, which would lead beyond its end."""
        inputs = {"scale": "bfloat16[B, 1, 1, D]", "g": "bfloat16[B, S, H, D]"}
        body = "a = g * scale\nb = sum(g, dims=[1])\ny = a - sum(a, dims=[2, 3], keepdim=True)"
        lines = [*lines_of(recipe_of(text_of(inputs, body, {"b": "float", "y": "float"})))]
        assert any("T0" in line for line in lines)
        assert not any("fb::expect" in line for line in lines)

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
        variant = chosen(task, A=2, B=3, S=1000, D=512)
        assert [(group.kept, group.across) for group in finished(variant)] == [((0, 3), (1,)), ((0, 1, 3), ())]


SAMPLES = {"x": "bfloat16[B, S, D]", "g": "bfloat16[B, S, D]", "c": "bfloat16[B, 1, D]", "w": "bfloat16[D]"}
OF_SAMPLES = (
    "y = g * c - mean(g, dims=[2], keepdim=True)\np = g * x\n"
    "s = sum(p, dims=[1])\na = s * w\nb = sum(c * p, dims=[0, 1])"
)
MODULATED = whole(SAMPLES, OF_SAMPLES, {"y": "bfloat16", "a": "bfloat16", "b": "bfloat16"})
"""A sum of each sample, and one of all samples that is scaled from those."""


class TestWholeIndices:
    @pytest.mark.parametrize(
        ("sizes", "are_whole"),
        [
            ({"B": 7296, "S": 2, "D": 384}, True), ({"B": 45, "S": 1, "D": 61824}, True),
            ({"B": 57, "S": 2, "D": 41408}, True), ({"B": 1111, "S": 3, "D": 21297}, True),
            ({"B": 217, "S": 19, "D": 1857}, False),
            ({"B": 8, "S": 4096, "D": 3072}, False), ({"B": 5, "S": 39, "D": 48955}, False),
            ({"B": 1, "S": 1, "D": 4096}, True), ({"B": 0, "S": 3, "D": 512}, False),
        ],
    )  # fmt: skip
    def test_are_finished_by_their_blocks_where_shares_are_even(self, sizes: dict[str, int], are_whole: bool) -> None:
        """Then a kernel combines what the blocks have of the sum over all samples; else one finishes everything."""
        walk, of_all, of_samples = chosen(MODULATED, **sizes).launches
        (told,) = (each.arg for each in walk.kernel.parameters if each.name == "whole")
        assert isinstance(told, FormulaArg)
        assert evaluate(told.formula, {**sizes, MULTIPROCESSORS: 132}) == are_whole
        assert (blocks(of_all, **sizes) > 0) == are_whole
        assert (blocks(of_samples, **sizes) > 0) == (not are_whole)

    def test_leave_one_part_a_block_of_what_is_summed_over_all(self) -> None:
        variant = chosen(MODULATED, B=45, S=1, D=61824)
        (splits,) = (each.arg for each in variant.launches[1].kernel.parameters if each.name == "splits")
        assert isinstance(splits, FormulaArg)
        for count, expected in ((1, 1), (7, 7), (4500, 15)):
            sizes = {"B": count, "S": 1, "D": 61824, MULTIPROCESSORS: 132}
            assert evaluate(splits.formula, sizes) == expected

    @pytest.mark.parametrize(
        ("body", "outputs"),
        [
            (f"{OF_SAMPLES}\nd = sum(x, dims=[0, 1])", {"d": "bfloat16"}),  # accumulated, and not scaled
            (OF_SAMPLES.replace("s * w", "s * w + cast(iota(D), bfloat16)"), {}),
        ],
    )
    def test_are_not_finished_so_where_something_else_is_needed(self, body: str, outputs: dict[str, str]) -> None:
        task = whole(SAMPLES, body, {"y": "bfloat16", "a": "bfloat16", "b": "bfloat16", **outputs})
        for variant in walking(task):
            assert all(each.name != "whole" for each in variant.launches[0].kernel.parameters)
            assert len(variant.launches) == 2

    def test_rows_that_are_striped_read_what_stays_wherever_it_begins(self) -> None:
        """Packed, too: what spills is tried so."""
        (way,) = (each.decision for each in walking(MODULATED) if each.name == "striped20480_vec8_int32")
        assert way is not None
        tuned = {way.way: {**way.choice.knobs, "unpacks": False}}
        found = SCHEDULER.schedule(MODULATED, SM_90, {"B": 7, "S": 9, "D": 4001}, tuned)
        (own,) = (each for each in found if each.name == "striped20480_vec8_int32")
        assert heuristics(own).packed
        loads = [line for sweep in view_of(own.launches[0].kernel).lifetimes for line in sweep.steady.loads]
        assert any("load_striped_up_to" in line for line in loads)
        assert not any("load_packed" in line for line in loads)
