"""Blocks that share rows or columns: how many there are, which turns they take, and how their results are combined."""

from __future__ import annotations

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


def names(task: Task, **sizes: int) -> list[str]:
    return [variant.name for variant in variants(task, **sizes)]


def texts(task: Task, **sizes: int) -> list[str]:
    """The kernels of the first variant."""
    origin = Origin(recipe="test", segment=0, fid_map={}, scheduler="reduction", variant="first")
    return [render(launch.kernel, origin).text for launch in variants(task, **sizes)[0].launches]


class TestHowMany:
    def test_as_many_share_columns_of_moments_as_run_at_once(self) -> None:
        wide = moments("bfloat16")
        assert names(wide, M=65536, N=1024) == ["vec8_int32_split66", "scalar_int32_split16", "scalar_int64_split16"]
        assert names(wide, M=65536, N=1280)[0] == "vec8_int32_split52"  # 5 * 52 of 2 * 132 blocks
        assert names(moments("float"), M=65536, N=1024)[0] == "vec4_int32_split66"

    def test_threads_with_moments_load_more_rows_at_once_where_registers_leave_less_in_flight(self) -> None:
        """Of bfloat16, 3 blocks with 4 rows each would load 48 KiB at once, 2 with 8 load 64; of float, 4 with 4 do."""
        loaded = []
        for dtype in ("bfloat16", "float"):
            chosen = variants(moments(dtype), M=65536, N=1024)[0].launches[0].kernel.heuristics
            assert isinstance(chosen, OuterHeuristics)
            loaded.append(chosen.unroll)
        assert loaded == [8, 4]

    def test_other_blocks_are_at_least_as_many_as_run_at_once(self) -> None:
        assert names(COLUMN_SUM, M=65536, N=1280)[0] == "vec8_int32_split106"  # 5 * 106 for 4 * 132 blocks


class TestTurns:
    def test_columns(self) -> None:
        text, _ = texts(moments("bfloat16"), M=65536, N=1024)
        assert "const Index first = Index(split) * (kUnroll * kBlockY) + fb::thread_y();" in text
        assert "for (Index top = first; top < end; top += kSplits * kUnroll * kBlockY) {" in text
        assert "fb::recenter(centered, (top - first) / (kSplits * kBlockY), w1);" in text
        assert "fb::steps_in_turns<Index>(first, end, kBlockY, kUnroll, kSplits);" in text

    def test_rows(self) -> None:
        text, _ = texts(SUM, M=2**22)
        assert "for (Index col = (Index(split) * kThreadsPerRow + lane) * kVec; col < columns;" in text
        assert "col += kSplits * kThreadsPerRow * kVec) {" in text

    def test_a_step_over_the_rows_of_others_fits_its_index(self) -> None:
        knobs = {"block_x": 1, "block_y": 1024, "unroll": 16, "splits": 1024, "min_blocks": 1}
        given = {"vec8_int32": knobs, "scalar_int64": knobs}
        found = REDUCTION.schedule(COLUMN_SUM, SM_90, {"M": 32768, "N": 4096}, given)
        guards = {variant.decision.way: variant.guard for variant in found if variant.decision}
        assert guards["vec8_int32"][-1] == ("lt", "M", 2**31 - 1024 * 16 * 1024)
        assert guards["scalar_int64"] == ()
        assert guards["scalar_int32"] == (("lt", ("mul", "M", "N"), INDEX_HEADROOM),)

    def test_a_step_over_the_vectors_of_others_fits_its_index(self) -> None:
        assert variants(SUM, M=2**22)[0].guard[-1] == ("aligned", 0, 16)
        assert ("lt", "M", INDEX_HEADROOM) in variants(SUM, M=2**22)[0].guard
        many = whole({"x": "half[M]"}, "y = sum(x)", {"y": "float"})
        guard = variants(many, M=2**24)[0].guard
        assert guard[-1] == ("lt", "M", 2**31 - 528 * 256 * 8)
        assert ("lt", "M", INDEX_HEADROOM) not in guard


class TestFinish:
    def test_all_partial_results_of_a_thread_are_loaded_before_one_is_combined(self) -> None:
        _, text = texts(COLUMN_SUM, M=32768, N=4096)
        before, _, combined = text.partition(
            "a1 = fb::Sum::combine(a1, is_there ? p1[u] : fb::Sum::identity<float>());"
        )
        assert "p1[u] = P1[place];\n      }\n" in before
        assert before.count("FUSEBUILD_UNROLL\n      for (int u = 0; u < kAhead; ++u) {") == 2
        assert "P1[" not in combined

    def test_what_else_is_read_is_loaded_before_them(self) -> None:
        _, text = texts(SCALED, M=32768, N=4096)
        before, _, after = text.partition("if (kept < results) {")
        assert "const bool writes = y == 0 && kept < results;" in before
        assert "const __half t1 = writes ? T1[kept] : __half{};  // w" in before
        assert "T1[" not in after
