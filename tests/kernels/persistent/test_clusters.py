"""Rows that the blocks of a cluster share: when there are such kernels, and how rows lie over them."""

from __future__ import annotations

import pytest

from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.rows import RowThreads
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.persistent import FAMILY as PERSISTENT
from fusebuild.kernels.persistent.cluster import CLUSTER_SHARE_BYTES, ClusterHeuristics
from fusebuild.kernels.persistent.registers import REGISTER_BYTES
from fusebuild.target.table import TARGETS, Target
from support.small_recipes import primitive, recipe_of, text_of, whole

SM_90 = TARGETS["sm_90"]
SOFTMAX_BODY = "m = max(x, dims=[1], keepdim=True)\ne = exp(x - m)\ns = sum(e, dims=[1], keepdim=True)\ny = e / s"
EDGED = ("edged1", "edged8192", "edged32768", "edged65536", "edged131072", "edged262144")
SOFTMAX = whole({"x": "bfloat16[M, N]"}, SOFTMAX_BODY, {"y": "bfloat16"})


def variants(task: Task, **sizes: int) -> tuple[VariantSpec, ...]:
    return PERSISTENT.schedule(task, SM_90, sizes)


def clusters(task: Task, target: Target = SM_90, **sizes: int) -> dict[str, ClusterHeuristics]:
    """The variants of ``task`` that run in clusters, by name."""
    found = PERSISTENT.schedule(task, target, sizes)
    specs = {variant.name: variant.launches[0].kernel.heuristics for variant in found}
    return {name: heuristics for name, heuristics in specs.items() if isinstance(heuristics, ClusterHeuristics)}


class TestClusters:
    @pytest.mark.parametrize(
        ("columns", "cluster", "threads", "chunks"),
        [
            (49152 + 8, 2, 512, 8),  # 96 KiB and one vector
            (65536, 2, 512, 8),
            (65536 + 8, 4, 512, 8),  # a share of 64 KiB and more
            (100000, 4, 512, 8),
            (131072, 4, 512, 8),
            (262144, 8, 512, 8),
            (524288, 8, 1024, 8),
        ],
    )
    def test_are_sized_for_the_first_case(self, columns: int, cluster: int, threads: int, chunks: int) -> None:
        ((name, found),) = clusters(SOFTMAX, M=1024, N=columns).items()
        assert name == f"cluster{cluster}_vec8_int32"
        assert (found.cluster, found.threads, found.chunks) == (cluster, RowThreads(per_row=threads, rows=1), chunks)
        assert columns <= found.capacity * 8
        assert 2 * 8 * chunks <= REGISTER_BYTES
        assert cluster == 8 or 2 * columns <= cluster * CLUSTER_SHARE_BYTES

    @pytest.mark.parametrize("columns", [1, 4096, 32768, 49152, 524288 + 8, 2**24])
    def test_are_for_rows_that_one_block_does_not_keep_well_and_a_cluster_does(self, columns: int) -> None:
        assert clusters(SOFTMAX, M=1024, N=columns) == {}

    @pytest.mark.parametrize("name", TARGETS)
    def test_run_where_the_target_has_them(self, name: str) -> None:
        assert bool(clusters(SOFTMAX, TARGETS[name], M=16, N=65536)) == (name not in ("sm_80", "sm_86", "sm_89"))

    def test_go_after_the_variants_for_shorter_rows(self) -> None:
        found = variants(SOFTMAX, M=1024, N=65536)
        ways = ("short", "registers", "cluster2", *EDGED, "tiled")
        assert [variant.name for variant in found] == [*(f"{way}_vec8_int32" for way in ways), "anywhere_vec8_int64"]
        assert found[2].guard[-1] == ("le", "N", 65536)
        assert found[2].guard[:-1] == (*found[1].guard[:-1], ("lt", 32768 + 15, "N"))  # others have edges or none
        (launch,) = found[2].launches
        assert (launch.grid, launch.block, launch.shared_bytes) == ((("mul", 2, "M"), 1, 1), (512, 1, 1), 0)

    @pytest.mark.parametrize(
        ("facts", "first", "expected"),
        [
            ("{max: 262144}", 4096, ["cluster8"]),  # shorter ones are taken by kernels for rows with edges
            ("{max: 262144}", 65536, ["cluster2", "cluster262144"]),
            ("{values: [768, 65536]}", 768, []),  # sizes that are named have variants of their own
            ("{max: 16384}", 4096, []),
            ("{multiple_of: 8}", 4096, ["cluster2", "cluster262144"]),
            ("{multiple_of: 8}", 262144, ["cluster65536", "cluster8"]),
            ("{multiple_of: 8, max: 16384}", 4096, []),
        ],
    )
    def test_facts_tell_of_long_rows_where_the_first_case_does_not(
        self, facts: str, first: int, expected: list[str]
    ) -> None:
        text = text_of({"x": "bfloat16[M, N]"}, SOFTMAX_BODY, {"y": "bfloat16"}, name="facts")
        task = recipe_of(text.replace("inputs:", f"extents:\n  N: {facts}\ninputs:", 1)).fusion.whole()
        assert [*clusters(task, M=16, N=first)] == [f"{name}_vec8_int32" for name in expected]

    def test_compute_costly_values_again_since_registers_hold_the_row(self) -> None:
        for size in (65536, 131072, 262144):
            assert clusters(SOFTMAX, M=16, N=size).popitem()[1].kept == ()

    @pytest.mark.parametrize("size", [16384, 131072])
    def test_keep_costly_values_that_take_the_place_of_inputs(self, size: int) -> None:
        body = """\
dropped, mask = dropout(x, 0.5, seed, offset)
a = cast(z + dropped, bfloat16)
y = a * rsqrt(mean(cast(a, float) * cast(a, float), dims=[1], keepdim=True) + 1.0)"""
        outputs = {"a": "bfloat16", "mask": "bool", "y": "bfloat16"}
        text = text_of({"x": "bfloat16[M, N]", "z": "bfloat16[M, N]"}, body, outputs, name="dropped")
        more = "extents:\n  N: {multiple_of: 8}\nscalars:\n  seed: int64\n  offset: int64\nbody:"
        task = primitive(text.replace("body:", more, 1)).whole()
        found = clusters(task, M=16, N=size)
        assert len(found) >= 2
        assert all([task.fusion.value(fid).name for fid in each.kept] == ["a"] for each in found.values())

    def test_leave_few_rows_to_the_next_step_where_its_blocks_have_registers_at_a_time(self) -> None:
        body = "a = x + z\ny = a * rsqrt(mean(a * a, dims=[1], keepdim=True) + 1.0)"
        text = text_of({"x": "bfloat16[M, N]", "z": "bfloat16[M, N]"}, body, {"y": "bfloat16"}, name="added")
        task = primitive(text.replace("body:", "extents:\n  N: {multiple_of: 8}\nbody:", 1)).whole()
        shorter, longer = (each for each in variants(task, M=16, N=4096) if each.name.startswith("cluster"))
        heuristics, blocks = longer.launches[0].kernel.heuristics, longer.launches[0].kernel.min_blocks
        assert isinstance(heuristics, ClusterHeuristics)
        assert (heuristics.cluster, blocks) == (8, 1)
        assert ("le", "M", 132 // 8) in shorter.guard[-1][1][1]  # type: ignore[index]

    def test_share_what_several_inputs_take(self) -> None:
        body = "m = mean(x * z, dims=[1], keepdim=True)\ny = x * z - m"
        task = whole({"x": "float[M, N]", "z": "float[M, N]"}, body, {"y": "float"})
        found = clusters(task, M=16, N=16384)["cluster2_vec4_int32"]
        assert (found.threads.per_row, found.chunks) == (512, 4)

    def test_nothing_is_spread_where_nothing_is_kept(self) -> None:
        strided = '{dtype: "float[M, N]", contiguity: [true, false]}'
        task = whole({"x": strided}, SOFTMAX_BODY, {"y": "float"})
        assert clusters(task, M=16, N=100000) == {}

    def test_a_whole_tensor_is_one_cluster(self) -> None:
        task = whole({"x": "float[256, 256]"}, "y = x / max(abs(x))", {"y": "float"})
        variant = variants(task)[0]
        assert (variant.name, variant.launches[0].grid) == ("cluster4_vec4_int32", (4, 1, 1))

    @pytest.mark.parametrize(("parts", "is_taken"), [(8, True), (9, False)])
    def test_states_of_lambdas_must_fit_where_they_meet(self, parts: int, is_taken: bool) -> None:
        names = [f"s{part}" for part in range(parts)]
        text = "\n".join([
            "fusion: states", "inputs:", "  x: bfloat16[M, N]", "lambdas:", "  sums:",
            f"    left: {{{', '.join(f'a{part}: float' for part in range(parts))}}}",
            f"    right: {{{', '.join(f'b{part}: float' for part in range(parts))}}}",
            "    body: |", *(f"      c{part} = a{part} + b{part}" for part in range(parts)),
            f"    results: [{', '.join(f'c{part}' for part in range(parts))}]",
            "body: |",
            f"  {', '.join(names)} = reduce([{', '.join(['x'] * parts)}], init=[{', '.join(['0.0'] * parts)}], "
            "combine=sums, dims=[1], keepdim=True)",
            f"  y = x - {' - '.join(names)}", "outputs:", "  y: bfloat16", "",
        ])  # fmt: skip
        task = primitive(text).whole()
        assert ("cluster8_vec8_int32" in clusters(task, M=16, N=262144)) == is_taken
