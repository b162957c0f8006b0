"""Blocks that share rows or columns: how many there are, which turns they take, and how their results are combined."""

from __future__ import annotations

import pytest

from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import INDEX_HEADROOM, VariantSpec
from fusebuild.kernels.reduction import FAMILY as REDUCTION
from fusebuild.kernels.reduction.schedule import OuterHeuristics
from fusebuild.kernels.render import Origin, render
from fusebuild.target.table import TARGETS
from support.small_recipes import whole

SM_90 = TARGETS["sm_90"]
COLUMN_SUM = whole({"x": "bfloat16[M, N]"}, "y = sum(x, dims=[0])", {"y": "float"})
SUM = whole({"x": "float[M]"}, "y = sum(x)", {"y": "float"})
SCALED = whole({"x": "float[M, N]", "w": "half[N]"}, "y = sum(x, dims=[0]) * w", {"y": "float"})


def moments(dtype: str) -> Task:
    return whole({"x": f"{dtype}[M, N]"}, "m, s, _ = welford(x, dims=[0])", {"m": "float", "s": "float"})


def variants(task: Task, **sizes: int) -> tuple[VariantSpec, ...]:
    return REDUCTION.schedule(task, SM_90, sizes)


def texts(task: Task, way: str, **sizes: int) -> list[str]:
    """The kernels of the variant ``way``."""
    origin = Origin(recipe="test", segment=0, fid_map={}, scheduler="reduction", variant=way)
    chosen = next(each for each in variants(task, **sizes) if each.name == way)
    return [render(launch.kernel, origin).text for launch in chosen.launches]


class TestHowMany:
    @pytest.mark.parametrize(
        ("dtype", "columns", "way", "splits"),
        [("bfloat16", 1024, "vec8_int32", 99), ("bfloat16", 1280, "vec8_int32", 79), ("float", 1024, "vec4_int32", 66)],
    )
    def test_as_many_share_columns_of_moments_as_run_at_once(
        self, dtype: str, columns: int, way: str, splits: int
    ) -> None:
        """Of 1280 columns of bfloat16 5 * 79 of 3 * 132 blocks."""
        found = {each.name: each for each in variants(moments(dtype), M=7, N=7)}
        sizes = {"M": 65536, "N": columns, MULTIPROCESSORS: 132}
        assert evaluate(found[way].launches[0].grid[1], sizes) == splits

    @pytest.mark.parametrize(("dtype", "way", "blocks"), [("bfloat16", "vec8_int32", 3), ("float", "vec4_int32", 4)])
    def test_threads_with_moments_load_four_rows_at_once(self, dtype: str, way: str, blocks: int) -> None:
        """Of bfloat16, 3 blocks with 4 rows each have 48 KiB on their way; of float, 4 have 64."""
        (variant,) = (each for each in variants(moments(dtype), M=65536, N=1024) if each.name == way)
        kernel = variant.launches[0].kernel
        assert isinstance(kernel.heuristics, OuterHeuristics)
        assert (kernel.heuristics.unroll, kernel.min_blocks) == (4, blocks)


class TestTurns:
    def test_columns(self) -> None:
        text, _ = texts(moments("bfloat16"), "vec8_int32", M=65536, N=1024)
        assert "const Index first = Index(split) * (kUnroll * height) + y;" in text
        assert "const Index step = Index(splits) * kUnroll * height;" in text
        assert "for (Index top = first; top < end; top += step) {" in text
        assert "    fb::recenter(centered, read, w1);\n    read += kUnroll;\n" in text
        assert "fb::steps_in_turns<Index>(first, end, height, kUnroll, splits);" in text

    def test_rows(self) -> None:
        text, _ = texts(SUM, "vec4_int32", M=2**22)
        loop = text.partition("for (Index first = ")[2].partition("{")[0]
        start, end, step = " ".join(loop.split()).split("; ")
        assert start == "(Index(split) * (kUnroll * width) + lane) * kVec"
        assert (end, step) == ("first < columns", "first += Index(splits) * kUnroll * step)")

    def test_a_step_over_what_others_take_fits_its_index(self) -> None:
        """It is half of all at most."""
        guards = {each.name: each.guard for each in variants(COLUMN_SUM, M=32768, N=4096)}
        assert guards["vec8_int32"][-1] == ("lt", "M", 2**30)
        assert guards["scalar_int64"] == ()
        small = ("lt", ("mul", "M", "N"), INDEX_HEADROOM)
        assert guards["realigned_vec8_int32"] == (small, ("aligned", 0, 16), ("lt", "M", 2**30))
        guard = variants(SUM, M=2**22)[0].guard
        assert guard[-1] == ("lt", "M", 2**30)
        assert ("lt", "M", INDEX_HEADROOM) not in guard


class TestFinish:
    def test_all_partial_results_of_a_thread_are_loaded_before_one_is_combined(self) -> None:
        _, text = texts(COLUMN_SUM, "vec8_int32", M=32768, N=4096)
        before, _, combined = text.partition(
            "a1 = fb::Sum::combine(a1, is_there ? p1[u] : fb::Sum::identity<float>());"
        )
        assert "if (is_there) {\n          p1[u] = *q1;\n        }\n        q1 += stride;\n      }\n" in before
        assert before.count("FUSEBUILD_UNROLL\n      for (int u = 0; u < kAhead; ++u) {") == 2
        assert "P1[" not in combined

    def test_what_else_is_read_is_loaded_before_them(self) -> None:
        _, text = texts(SCALED, "vec8_int32", M=32768, N=4096)
        before, _, after = text.partition("if (kept < results && y < height) {")
        assert "const bool writes = y == 0 && kept < results;" in before
        assert "const __half t1 = writes ? T1[kept] : __half{};  // w" in before
        assert "T1[" not in after
