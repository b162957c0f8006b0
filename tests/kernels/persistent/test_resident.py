"""Rows by whole aligned vectors and in blocks that stay: which recipes get such variants, how rows lie over blocks, and
which choices are refused."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from fusebuild.errors import KnobError
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.filling import running_clusters
from fusebuild.kernels.common.rows import CLUSTER_BUFFER_BYTES, fits_exchange
from fusebuild.kernels.common.spec import VariantSpec, axis_domain
from fusebuild.kernels.common.view import KernelView, Sweep
from fusebuild.kernels.families import view_of
from fusebuild.kernels.persistent import FAMILY as PERSISTENT
from fusebuild.kernels.persistent.long_rows import (
    EDGED_COLUMNS,
    EDGED_ROWS,
    EDGED_RUNGS,
    FEWEST_COLUMNS,
    RESIDENT_ROW_BYTES,
    SAMPLED_RUNGS,
    THREAD_BYTES,
    WEIGHTED_ROW_BYTES,
    ResidentHeuristics,
    SampledHeuristics,
    shared_by_rows,
    shared_by_some,
)
from fusebuild.kernels.persistent.many_samples import LONGEST, THREADS
from fusebuild.kernels.persistent.resident_view import inner_resident
from fusebuild.kernels.persistent.trailing_view import inner_trailing
from fusebuild.target.table import TARGETS, Target
from support.places import TEMPLATES
from support.small_recipes import whole

SM_90 = TARGETS["sm_90"]
STEPS = sorted({*EDGED_RUNGS, 65536})
SOFTMAX_BODY = "m = max(x, dims=[1], keepdim=True)\ne = exp(x - m)\ny = e / sum(e, dims=[1], keepdim=True)"
NORM_BODY = "v, m = var_mean(x, dims=[1], correction=0, keepdim=True)\ny = (x - m) * rsqrt(v + 0.01) * w + b"
SCALE_BODY = "y = x * rsqrt(mean(x * x, dims=[1], keepdim=True) + 0.01) * w"
X = {"x": "bfloat16[M, N]"}
SOFTMAX = whole(X, SOFTMAX_BODY, {"y": "bfloat16"})
SCALE = whole({**X, "w": "bfloat16[N]"}, SCALE_BODY, {"y": "bfloat16"})
NORM = whole({**X, "w": "bfloat16[N]", "b": "bfloat16[N]"}, NORM_BODY, {"y": "bfloat16"})


def walked(
    task: Task, columns: int, target: Target = SM_90, *, tuned: dict[str, dict[str, int]] | None = None
) -> dict[str, VariantSpec]:
    """The variants of ``task`` whose kernels are those of this family, by name."""
    found = PERSISTENT.schedule(task, target, {"M": 4096, "N": columns}, tuned or {})
    return {
        variant.name: variant
        for variant in found
        if isinstance(variant.launches[-1].kernel.heuristics, ResidentHeuristics)
    }


def own(task: Task, columns: int, target: Target = SM_90) -> tuple[str, VariantSpec]:
    """The variant with edges that is planned for rows of the first case, and its name."""
    found = walked(task, columns, target)
    (name,) = (name for name in found if name.startswith("edged") and name.partition("_")[0][5:] in "1248")
    return name, found[name]


LONGER = ("lt", EDGED_COLUMNS, ("add", "N", ("mul", EDGED_COLUMNS - FEWEST_COLUMNS, ("le", "M", EDGED_ROWS))))
"""What says that rows are so long that they have edges, or less long and few."""


def longest(variant: VariantSpec) -> int:
    """The elements of the longest row that a variant with edges holds."""
    fits = variant.guard[-1]
    assert isinstance(fits, tuple)
    return int(str(fits[2]))


def heuristics_of(variant: VariantSpec) -> ResidentHeuristics:
    heuristics = variant.launches[-1].kernel.heuristics
    assert isinstance(heuristics, ResidentHeuristics)
    return heuristics


class TestEdgedRows:
    @pytest.mark.parametrize(
        ("columns", "cluster", "threads", "chunks"),
        [(1025, 1, 32, 4), (5003, 1, 128, 5), (8191, 1, 128, 8), (12289, 1, 256, 6), (50257, 2, 512, 7)],
    )
    def test_that_share_nothing_have_a_block_each(self, columns: int, cluster: int, threads: int, chunks: int) -> None:
        name, variant = own(SOFTMAX, columns)
        found = heuristics_of(variant)
        assert name == f"edged{cluster}_vec8_int32"
        assert (found.cluster, found.threads.per_row, found.chunks) == (cluster, threads, chunks)
        assert (found.walkers, found.resident, found.ahead) == (0, (), False)
        assert variant.launches[-1].grid[0] == ("M" if cluster == 1 else ("mul", cluster, "M"))
        assert variant.launches[-1].shared_bytes == 0

    @pytest.mark.parametrize(
        ("task", "columns", "walkers"),
        [(NORM, 33001, 88), (NORM, 50257, 64), (SCALE, 50257, 64), (NORM, 100003, 24)],
    )
    def test_that_share_weights_in_clusters_are_walked(self, task: Task, columns: int, walkers: int) -> None:
        """As many walkers for each place that rows begin at as run at a time."""
        _, variant = own(task, columns)
        (_, launch), found = variant.launches, heuristics_of(variant)
        assert (found.walkers, found.ahead) == (walkers, True)
        blocks = found.cluster * found.threads.per_row * found.chunks * 2 * len(found.resident) * 8
        assert launch.shared_bytes == blocks // found.cluster
        for rows in (0, 1, walkers, 10 * walkers):
            for multiprocessors, of_device in ((132, walkers), (66, walkers // 16 * 8), (1, 8)):
                sizes = {"M": rows, MULTIPROCESSORS: multiprocessors}
                assert evaluate(launch.grid[0], sizes) == found.cluster * min(rows, of_device)
                assert evaluate(found.walkers_of_device, sizes) == of_device

    @pytest.mark.parametrize(
        ("task", "columns", "threads", "chunks", "blocks"),
        [(NORM, 1001, 32, 4, 24), (NORM, 5003, 128, 5, 8), (NORM, 12289, 256, 6, 4), (SCALE, 8191, 128, 8, 7)],
    )
    def test_that_share_weights_cut_them_in_one_block(
        self, task: Task, columns: int, threads: int, chunks: int, blocks: int
    ) -> None:
        _, variant = own(task, columns)
        (launch,), found = variant.launches, heuristics_of(variant)
        assert (found.threads.per_row, found.chunks, launch.kernel.min_blocks) == (threads, chunks, blocks)
        assert (found.walkers, found.resident, launch.grid[0], launch.shared_bytes) == (0, (), "M", 0)

    @pytest.mark.parametrize("task", [SOFTMAX, SCALE, NORM])
    @pytest.mark.parametrize("columns", [1025, 2049, 5003, 7919, 12289, 32749, 50257, 100003])
    @pytest.mark.parametrize("name", ["sm_80", "sm_90", "sm_120", "host"])
    def test_have_room_for_the_rows_that_they_are_made_for(self, task: Task, columns: int, name: str) -> None:
        target = TARGETS[name]
        for name, variant in walked(task, columns, target).items():
            if not name.startswith("edged"):
                continue
            launch, found = variant.launches[-1], heuristics_of(variant)
            threads, _, _ = launch.block
            assert isinstance(threads, int)
            held = found.cluster * threads * found.chunks * 8 + 15
            assert longest(variant) == held
            planned = name.partition("_")[0][5:]
            assert (columns if len(planned) == 1 and columns % 8 else int(planned)) <= held
            assert 16 * found.chunks <= THREAD_BYTES
            assert found.walkers % 8 == 0
            assert isinstance(launch.shared_bytes, int)
            assert launch.kernel.min_blocks * launch.shared_bytes < target.shared_bytes
            assert launch.kernel.min_blocks * found.threads.block <= target.threads_per_multiprocessor

    @pytest.mark.parametrize("columns", [1, 100, 8192, 131072])
    def test_are_a_ladder_whatever_the_first_case_is(self, columns: int) -> None:
        """One kernel of it takes two steps."""
        found = walked(SOFTMAX, columns)
        assert [longest(variant) for variant in found.values()] == [rung + 15 for rung in STEPS]
        kernels = [variant.launches[-1].kernel for variant in found.values()]
        assert sum(kernel not in kernels[:at] for at, kernel in enumerate(kernels)) == len(EDGED_RUNGS)

    def test_have_half_of_the_threads_where_rows_are_half_as_long(self) -> None:
        """Where the step before would take rows of a quarter: with as much of a row to each thread."""
        found = walked(SOFTMAX, 8192)
        (whole_rows,), (halves,) = found["edged131072_vec8_int32"].launches, found["edged65536_vec8_int32"].launches
        assert (whole_rows.block, halves.block) == ((512, 1, 1), (256, 1, 1))
        assert (whole_rows.kernel, whole_rows.grid) == (halves.kernel, halves.grid)
        assert found["edged65536_vec8_int32"].decision is None
        text = "\n".join(line for sweep in inner_resident(halves.kernel).sweeps for line in [sweep.reduce])
        assert text.count("fb::reduce_row_of_threads<kMostThreads, kCluster>(phase, threads, ") == 2

    def test_leave_few_long_rows_to_more_blocks(self) -> None:
        """Each takes rows of half the length that it holds, or a quarter, where all blocks of the next one run."""
        found = [*walked(SOFTMAX, 4096).values()]
        for shorter, longer in pairwise(found):
            found_of = heuristics_of(longer)
            at_a_time = max(2, 512 // found_of.threads.per_row)  # small blocks of a multiprocessor are more
            few, held = at_a_time * 132 // found_of.cluster, longest(shorter)
            for rows, most in ((few // 2, held // 4), (few // 2 + 1, held // 2), (few, held // 2), (few + 1, held)):
                fits = [evaluate(shorter.guard[-1], {"M": rows, "N": columns}) for columns in (most, most + 1)]
                assert fits == [1, 0]
        assert found[-1].guard[-1] == ("le", "N", EDGED_RUNGS[-1] + 15)

    @pytest.mark.parametrize(("rows", "least"), [(EDGED_ROWS, FEWEST_COLUMNS), (EDGED_ROWS + 1, EDGED_COLUMNS)])
    def test_are_longer_than_those_in_tiles(self, rows: int, least: int) -> None:
        (longer,) = {variant.guard[-2] for variant in walked(SOFTMAX, 4096).values()}
        assert [evaluate(longer, {"M": rows, "N": columns}) for columns in (least, least + 1)] == [0, 1]

    def test_are_planned_for_the_longest_rows_whether_or_not_those_are_odd(self) -> None:
        assert longest(own(SOFTMAX, 524288)[1]) == 524288 + 15

    def test_take_aligned_rows_and_weights_that_are_cut(self) -> None:
        x, w, b, y = (("aligned", fid, 16) for fid in (0, 1, 2, *NORM.outputs))
        assert own(NORM, 5003)[1].guard[1:-1] == (x, y, LONGER, w, b)

    def test_take_aligned_weights_that_stay(self) -> None:
        x, w, b, y = (("aligned", fid, 16) for fid in (0, 1, 2, *NORM.outputs))
        _, variant = own(NORM, 50257)
        assert variant.guard[1:-1] == (x, y, LONGER, w, b, ("lt", 16, "M"))

    def test_stay_where_rows_are_more_than_run_at_a_time_without(self) -> None:
        """Else there is no second row for what stays: a cluster of the next step takes each."""
        found = walked(NORM, 8192)
        walkers = {name: heuristics_of(variant).walkers for name, variant in found.items()}
        assert [name for name, number in walkers.items() if number] == [f"edged{N}_vec8_int32" for N in (32768, 131072)]
        for columns in (8209, 33001, 131087):
            for rows in (1, 16):
                sizes = {"M": rows, "N": columns}
                taken = next(
                    name
                    for name, each in found.items()
                    if all(evaluate(guard, sizes, lambda fid, size: True) for guard in each.guard)
                )
                assert taken == "edged262144_vec8_int32"

    def test_two_kept_inputs_share_registers(self) -> None:
        body = "m = mean(x * z, dims=[1], keepdim=True)\ny = x * z - m"
        task = whole({**X, "z": "float[M, N]"}, body, {"y": "float"})
        found = heuristics_of(walked(task, 5003)["edged1_vec8_int32"])
        assert 48 * found.chunks <= THREAD_BYTES


class TestResidentRows:
    @pytest.mark.parametrize(
        ("task", "columns", "chunks", "blocks", "walkers", "ahead"),
        [
            (NORM, 131072, 4, 2, 30, True),
            (NORM, 262144, 8, 1, 15, True),
            (SCALE, 131072, 4, 2, 30, True),
            (SCALE, 262144, 8, 2, 30, False),  # with the next row, too, a multiprocessor would have a block only
        ],
    )
    def test_are_in_clusters_that_leave_room_for_two_blocks(
        self, task: Task, columns: int, chunks: int, blocks: int, walkers: int, ahead: bool
    ) -> None:
        variant = walked(task, columns)["resident8_vec8_int32"]
        found = heuristics_of(variant)
        assert (found.threads.per_row, found.chunks, found.walkers, found.ahead) == (512, chunks, walkers, ahead)
        assert variant.launches[-1].kernel.min_blocks == blocks
        least = WEIGHTED_ROW_BYTES if task is NORM else RESIDENT_ROW_BYTES
        assert variant.guard[-2:] == (("le", least, ("mul", 2, "N")), ("le", "N", columns))
        assert variant.launches[-1].grid[0] == ("mul", 8, ("min", "M", found.walkers_of_device))
        assert evaluate(found.walkers_of_device, {MULTIPROCESSORS: 132}) == walkers

    def test_go_before_the_variants_for_shorter_rows(self) -> None:
        found = PERSISTENT.schedule(NORM, SM_90, {"M": 1024, "N": 262144})
        names = [variant.name for variant in found]
        assert names.index("resident8_vec8_int32") < names.index("short_vec8_int32")

    @pytest.mark.parametrize(
        ("task", "columns"), [(NORM, 65536 - 8), (NORM, 262144 + 8), (SCALE, 65536), (SCALE, 131072 - 8)]
    )
    def test_are_very_long_and_fit(self, task: Task, columns: int) -> None:
        assert not any(name.startswith("resident") for name in walked(task, columns))

    def test_are_shorter_where_weights_are_more_than_a_row(self) -> None:
        found = heuristics_of(walked(NORM, 65536)["resident4_vec8_int32"])
        assert (found.threads.per_row, found.chunks, found.walkers, found.ahead) == (512, 4, 60, True)

    def test_are_no_shorter_where_the_next_row_finds_no_registers(self) -> None:
        """An input that is not kept takes them, or an op of many instructions."""
        gated = whole({**X, "z": "bfloat16[M, N]", "w": "bfloat16[N]", "b": "bfloat16[N]"},
                      NORM_BODY + " * z", {"y": "bfloat16"})  # fmt: skip
        costly = whole({**X, "w": "bfloat16[N]", "b": "bfloat16[N]"}, NORM_BODY.replace("y =", "u =") + "\ny = tanh(u)",
                       {"y": "bfloat16"})  # fmt: skip
        for task in (gated, costly):
            assert not any(name.startswith("resident") for name in walked(task, 65536))
            assert any(name.startswith("resident") for name in walked(task, 262144))

    def test_share_something(self) -> None:
        assert "resident8_vec8_int32" not in walked(SOFTMAX, 262144)

    def test_leave_costly_values_to_others(self) -> None:
        body = "e = exp(x)\nm = mean(e, dims=[1], keepdim=True)\ny = (e - m) * w"
        task = whole({**X, "w": "bfloat16[N]"}, body, {"y": "bfloat16"})
        assert "resident8_vec8_int32" not in walked(task, 262144)

    def test_need_clusters(self) -> None:
        assert not any(name.startswith("resident") for name in walked(NORM, 262144, TARGETS["sm_80"]))


def clusters_of(target: Target, cluster: int, blocks: int) -> int:
    return evaluate(running_clusters(cluster, blocks), {MULTIPROCESSORS: target.multiprocessors})


def test_clusters_that_surely_fit() -> None:
    """Of what an H200 was measured to run at a time, in clusters of 2, 4 and 8 blocks: the most, or a little less."""
    measured = {(2, 1): 66, (2, 2): 132, (4, 1): 30, (4, 2): 62, (4, 3): 92, (8, 1): 15, (8, 2): 30, (8, 3): 45}
    for (cluster, blocks), most in measured.items():
        assert most - 2 <= clusters_of(SM_90, cluster, blocks) <= most
    assert (clusters_of(SM_90, 1, 3), clusters_of(TARGETS["host"], 8, 1)) == (3 * 132, 1)


def test_partial_results_have_as_much_room_as_the_device_header_gives_them() -> None:
    header = (TEMPLATES / "include/fusebuild/cluster.cuh").read_text()
    (size,) = re.findall(r"kClusterBufferBytes = (\d+) \* 1024;", header)
    assert int(size) * 1024 == CLUSTER_BUFFER_BYTES
    assert [fits_exchange(warps) for warps in (1, 1024, 1025)] == [True, True, False]
    assert [fits_exchange(warps, parts=3) for warps in (341, 342)] == [True, False]


class TestShared:
    def of(self, inputs: dict[str, str], body: str, outputs: dict[str, str], *, edges: bool) -> tuple[int, ...] | None:
        task = whole(inputs, body, outputs)
        return shared_by_rows(task, axis_domain(task), has_edges=edges)

    def test_is_what_all_rows_read(self) -> None:
        inputs = {**X, "w": "float[N]", "r": "float[M, 1]", "z": "half[M, N]"}
        body = "m = mean(x, dims=[1], keepdim=True)\ny = (x - m) * w * r + z"
        assert self.of(inputs, body, {"y": "half"}, edges=True) == (1,)

    def test_is_nothing_without_rows(self) -> None:
        assert self.of({"x": "float[4096]"}, "y = x / max(x)", {"y": "float"}, edges=True) is None

    def test_is_nothing_where_no_output_has_columns(self) -> None:
        body = "m = mean(x, dims=[1], keepdim=True)\ny = mean((x - m) * (x - m), dims=[1])"
        assert self.of(X, body, {"y": "float"}, edges=True) is None

    def test_is_nothing_where_lambdas_combine_in_blocks_that_stay(self) -> None:
        body = "y = x - logsumexp(x, dims=[1], keepdim=True)"
        assert self.of(X, body, {"y": "float"}, edges=False) is None
        assert self.of(X, body, {"y": "float"}, edges=True) == ()

    def test_is_not_what_differs_from_sample_to_sample(self) -> None:
        body = "m = mean(x, dims=[2], keepdim=True)\ny = (x - m) * w + z"
        inputs = {"x": "half[B, M, N]", "w": "float[N]", "z": "half[B, 1, N]"}
        task = whole(inputs, body, {"y": "half"})
        assert shared_by_some(task, axis_domain(task)) == (2,)
        for edges in (True, False):
            assert self.of(inputs, body, {"y": "half"}, edges=edges) == (1,)

    def test_is_nothing_where_rows_of_outputs_begin_at_different_places(self) -> None:
        body = "m = mean(x, dims=[1], keepdim=True)\ny = x - m"
        assert self.of({"x": "half[M, N, K]"}, f"{body}\nz = sum(y, dims=[1])", {"z": "half"}, edges=True) is None


SAMPLES = {"x": "bfloat16[B, S, N]", "w": "bfloat16[N]", "scale": "bfloat16[B, 1, N]"}
MODULATED = "m = mean(x, dims=[2], keepdim=True)\ny = (x - m) * w * scale"


class TestSamples:
    """Rows that read what differs from sample to sample, which begins anywhere in a vector."""

    def test_have_a_vector_more_of_edges(self) -> None:
        task = whole(SAMPLES, MODULATED, {"y": "bfloat16"})
        for variant in (found := walked(task, 20257)).values():
            heuristics = heuristics_of(variant)
            held = heuristics.cluster * heuristics.threads.per_row * heuristics.chunks * 8
            assert heuristics.room == 2
            assert longest(variant) == held + 23
            assert ("aligned", 2, 16) in variant.guard
        assert len(found) == len(SAMPLED_RUNGS) + len((*THREADS, LONGEST)) + 1

    @pytest.mark.parametrize("columns", [4096, 8192, 16384, 32768])
    @pytest.mark.parametrize("name", ["sm_90", "sm_100"])
    def test_are_walked_by_blocks_that_keep_what_a_sample_shares(self, columns: int, name: str) -> None:
        """As many walkers as run at a time, wherever rows begin, without tickets."""
        target = TARGETS[name]
        found = walked(whole(SAMPLES, MODULATED, {"y": "bfloat16"}), 4096, target).values()
        variant = next(each for each in found if longest(each) >= columns)
        (launch,), heuristics = variant.launches, heuristics_of(variant)
        assert isinstance(heuristics, SampledHeuristics)
        assert (heuristics.resident, heuristics.of_samples, heuristics.ahead) == ((1,), (2,), True)
        assert launch.kernel.template == "inner_sampled"
        assert launch.shared_bytes == (heuristics.threads.per_row + 1) * heuristics.chunks * 8 * 4
        blocks = launch.kernel.min_blocks
        assert blocks >= 2
        running = running_clusters(heuristics.cluster, blocks)
        assert heuristics.walkers == evaluate(running, {MULTIPROCESSORS: target.multiprocessors})

    def test_are_not_walked_where_a_warp_has_them(self) -> None:
        found = walked(whole(SAMPLES, MODULATED, {"y": "bfloat16"}), 4096)
        walkers = {longest(variant): heuristics_of(variant).walkers for variant in found.values()}
        assert [longest for longest, number in walkers.items() if not number] == [SAMPLED_RUNGS[0] + 23]

    def test_take_rows_of_whole_vectors_that_one_block_does_not_keep(self) -> None:
        found = [each.name for each in PERSISTENT.schedule(whole(SAMPLES, MODULATED, {"y": "bfloat16"}), SM_90, {}, {})]
        assert "registers16384_vec8_int32" in found
        assert "cluster65536_vec8_int32" not in found

    @pytest.mark.parametrize("columns", [1025, 3269, 22465, 32791])
    def test_stay_on_chip(self, columns: int) -> None:
        task = whole(SAMPLES, MODULATED, {"y": "bfloat16"})
        assert any(longest(variant) >= columns for variant in walked(task, 4096).values())

    @pytest.mark.parametrize(
        ("samples", "rows", "columns", "stays"),
        [
            (211, 640, 91648, True),
            (211, 4, 91648, True),
            (211, 3, 91648, False),
            (211, 32, 70901, True),
            (211, 31, 70901, False),
            (211, 5, 70901, False),
            (3, 1, 40075, True),
            (60, 1, 70901, True),
            (61, 1, 70901, False),
        ],
    )
    def test_stay_in_long_rows_where_samples_have_many_or_there_are_few(
        self, samples: int, rows: int, columns: int, stays: bool
    ) -> None:
        guard = walked(whole(SAMPLES, MODULATED, {"y": "bfloat16"}), 4096)["edged98304_vec8_int32"].guard
        sizes = {"B": samples, "S": rows, "N": columns}
        assert all(evaluate(each, sizes, lambda fid, size: True) for each in guard) == stays

    def test_have_as_many_threads_as_long_rows_ask_for(self) -> None:
        """One kernel whose launches say how many, and one for the longest, which knows."""
        found = [*walked(whole(SAMPLES, MODULATED, {"y": "bfloat16"}), 4096).values()][-4:]
        launches = [variant.launches[-1] for variant in found]
        assert [launch.block for launch in launches] == [(128, 1, 1), (160, 1, 1), (256, 1, 1), (512, 1, 1)]
        texts = ["\n".join(sweep.reduce for sweep in view_of(launch.kernel).sweeps) for launch in launches]
        assert all("fb::reduce_row_of_threads<kMostThreads, kCluster>(phase, threads, " in text for text in texts[:3])
        assert "fb::reduce_row_in_cluster<kThreadsPerRow, kCluster>(phase, " in texts[3]
        for launch, blocks in zip(launches, (4, 3, 2, 1), strict=True):
            assert isinstance(launch.shared_bytes, int)
            assert blocks * launch.shared_bytes < SM_90.shared_bytes
            heuristics = launch.kernel.heuristics
            assert isinstance(heuristics, SampledHeuristics)
            assert heuristics.walkers == evaluate(running_clusters(8, blocks), {MULTIPROCESSORS: 132})

    @pytest.mark.parametrize(
        ("rows", "columns", "threads"),
        [(46, 40000, 128), (45, 40000, 160), (31, 40000, 160), (30, 40000, 256), (14, 40000, 256), (100, 49545, 160),
         (100, 65245, 256), (14, 100000, 512)],
    )  # fmt: skip
    def test_have_more_threads_where_rows_are_few(self, rows: int, columns: int, threads: int) -> None:
        found = walked(whole(SAMPLES, MODULATED, {"y": "bfloat16"}), 4096).values()
        sizes = {"B": 1, "S": rows, "N": columns - columns % 8}
        taken = next(
            each for each in found if all(evaluate(guard, sizes, lambda fid, size: True) for guard in each.guard)
        )
        assert taken.launches[-1].block == (threads, 1, 1)

    def test_trail_where_they_are_longer(self) -> None:
        """In vectors that are aligned in the row, and cut out of words in what rows share."""
        task = whole(SAMPLES, MODULATED, {"y": "bfloat16"})
        found = {each.name: each for each in PERSISTENT.schedule(task, SM_90, {"B": 8, "S": 8, "N": 4096}, {})}
        assert not [name for name in found if name.startswith("cluster")]
        launch = found["trailing_vec8_int32"].launches[-1]
        view = inner_trailing(launch.kernel)
        assert {("aligned", fid, 16) for fid in (0, 1, 2)} <= {*found["trailing_vec8_int32"].guard}
        loads = "\n".join(view.sweeps[-1].vector)
        assert "fb::load_cut<kVec>(r1 + col, edges.before)" in loads
        assert "fb::load_cut<kVec>(r2 + col, fb::beyond_word<kVec>(r2 + start))" in loads


class TestLoadedAhead:
    """What rows with edges share, where their blocks do not stay."""

    def view(self, body: str, columns: int) -> KernelView:
        inputs = {**X, "w": "bfloat16[N]", "b": "bfloat16[N]"}
        _, variant = own(whole(inputs, body, {"y": "bfloat16"}), columns)
        return inner_resident(variant.launches[-1].kernel)

    def test_is_what_the_last_sweep_takes(self) -> None:
        """A thread's first vectors, and an element beside them, with the row."""
        view = self.view(NORM_BODY, 5003)
        loaded = [re.sub(r" = .*", "", line) for line in (*view.ahead.loads, *view.ahead.merged, *view.ahead.element)]
        assert loaded == ["w1[c]", "w2[c]", "p1[c]", "p2[c]", "e1", "e2"]
        taken = [[line for line in sweep.loads if "kAhead" in line] for sweep in view.sweeps]
        assert [len(lines) for lines in taken] == [0, 0, 2]

    @pytest.mark.parametrize(("columns", "vectors"), [(1025, 2), (5003, 1), (200001, 4)])
    def test_is_as_much_as_registers_have_room_for(self, columns: int, vectors: int) -> None:
        (line,) = self.view(NORM_BODY, columns).ahead.coordinates
        assert line.startswith(f"constexpr int kAhead = {vectors};")

    def test_is_not_what_a_reduction_takes(self) -> None:
        view = self.view("y = x * sum(x * w, dims=[1], keepdim=True) + b", 5003)
        assert [re.sub(r" = .*", "", line) for line in view.ahead.loads] == ["w2[c]"]
        assert any("r1 + start" in line for line in view.sweeps[0].loads)

    def test_is_nothing_where_it_stays(self) -> None:
        assert self.view(NORM_BODY, 33001).ahead == Sweep()


class TestChoices:
    def knobs(self, way: str, columns: int, **changed: int) -> dict[str, dict[str, int]]:
        (variant,) = (each for each in walked(NORM, columns).values()
                      if each.decision is not None and each.decision.way == way)  # fmt: skip
        assert variant.decision is not None
        return {way: {**variant.decision.choice.knobs, **changed}}

    def test_are_made_as_given(self) -> None:
        tuned = self.knobs(
            "edged_vec8_int32", 50257, threads_per_row=512, cluster=2, walkers=64, min_blocks=1, ahead=True
        )
        variant = walked(NORM, 50257, tuned=tuned)["edged2_vec8_int32"]
        found = heuristics_of(variant)
        assert (variant.name, found.threads.per_row, found.chunks, found.walkers) == ("edged2_vec8_int32", 512, 7, 64)
        assert found.ahead
        assert variant.launches[-1].kernel.min_blocks == 1
        assert variant.launches[-1].shared_bytes == 512 * 7 * 32

    @pytest.mark.parametrize(
        ("columns", "changed", "message"),
        [
            (50257, {"walkers": 100},
             "knob walkers: it is 100, but rows 8 apart begin at the same place of a vector"),
            (5003, {"cluster": 16}, "knob cluster: it is 16, no power of two from 1 to 8"),
            (5003, {"threads_per_row": 16}, "knob threads_per_row: it is 16, no power of two from 32 to 1024"),
            (12289, {"threads_per_row": 32},
             "knob threads_per_row: a thread would keep 48 vectors of a row in 232 registers"),
            (60001, {"cluster": 1, "threads_per_row": 1024, "min_blocks": 1},
             "knob cluster: it is 1, but clusters take these rows"),
            (5003, {"cluster": 2}, "knob cluster: it is 2, but blocks on their own take these rows"),
            (130001, {"cluster": 2, "threads_per_row": 1024, "min_blocks": 1, "ahead": False},
             "knob cluster: what stays takes 267264 bytes of shared memory of each of 2 blocks"),
            (5003, {"rows_per_block": 2}, "knob rows_per_block: it is 2, but rows of 128 threads share no block here"),
        ],
    )  # fmt: skip
    def test_are_refused_by_their_knob(self, columns: int, changed: dict[str, int], message: str) -> None:
        tuned = self.knobs("edged_vec8_int32", columns, **changed)
        with pytest.raises(KnobError, match=f"^{re.escape(message)}$"):
            walked(NORM, columns, tuned=tuned)

    def test_walkers_follow_what_decides_how_many_there_is_room_for(self) -> None:
        decision = walked(NORM, 33001)["edged4_vec8_int32"].decision
        assert decision is not None
        steps = {(knob, step.knobs[knob]): step.knobs["walkers"]
                 for step in decision.choice.steps()
                 for knob, value in decision.choice.knobs.items() if step.knobs[knob] != value}  # fmt: skip
        assert steps["cluster", 8] == 40
        assert steps["cluster", 2] == 176
        assert steps["ahead", False] == 88
        assert steps["walkers", 44] == 44
        assert all(walkers % 8 == 0 for (knob, _), walkers in steps.items() if knob != "walkers")
