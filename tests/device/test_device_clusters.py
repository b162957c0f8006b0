"""Reductions across the blocks of a cluster: the device header's, on the CPU unless told otherwise, and its guards.

``test_device_header.py`` runs this file again under AddressSanitizer and UBSan, and on a GPU.
"""

from __future__ import annotations

import math
import re
import subprocess

import pytest
import torch

from fusebuild.target.table import find_target
from support.device_harness import (
    INCLUDE_FOLDER,
    IS_SANITIZED,
    MISUSED,
    NAN,
    TARGET,
    HostLibrary,
    compile_kernels,
    cuda_folder,
    library,
    only_on_the_host,
    run_misuse,
    same_values,
    sample,
    statistics,
)
from support.places import DEVICE

pytestmark = pytest.mark.skipif(TARGET.cluster == 1, reason="there are no clusters")

CLUSTER_SOURCE = (DEVICE / "cluster.cu").read_text()
CLUSTER_SHAPES = re.findall(r"^CLUSTER_KERNEL\((\d+), (\d+)\)", CLUSTER_SOURCE, re.MULTILINE)
CLUSTER_STATISTICS = re.findall(r"^STATISTICS_KERNEL\((\d+), (\d+)\)", CLUSTER_SOURCE, re.MULTILINE)


def run_clusters(name: str, blocks: int, threads: int, x: torch.Tensor, values: int, *args: int) -> torch.Tensor:
    """What a kernel of clusters leaves, ``values`` doubles a thread: the same twice over."""
    out = torch.full((blocks * threads, values), -7.0, dtype=torch.float64)
    again = torch.zeros_like(out)
    for result in (out, again):
        library("cluster").run(name, (blocks,), (threads,), x, result, *args)
    assert same_values(out, again)
    return out


@pytest.mark.parametrize(("threads", "cluster"), [(int(threads), int(cluster)) for threads, cluster in CLUSTER_SHAPES])
def test_cluster_reductions_share_a_turn_and_agree_in_every_thread_of_every_block(threads, cluster):
    rows, columns = 3, threads * cluster
    x = sample(torch.float32, rows * columns).view(rows, columns)
    x[0, columns // 2] = NAN
    out = run_clusters(f"rows_{threads}x{cluster}", rows * cluster, threads, x, 4).view(rows, columns, 4)
    assert same_values(out, out[:, :1].expand_as(out).contiguous()), "threads of a row disagree"
    exact = x.double()
    expected = torch.stack([exact.sum(1), exact.amax(1), exact.amin(1), exact.prod(1)], dim=1)
    assert torch.allclose(out[:, 0], expected, rtol=1e-11, atol=1e-11, equal_nan=True)


@pytest.mark.parametrize("threads", [128, 160, 256, 384, 512])
def test_a_launch_says_how_many_threads_a_block_has(threads):
    x = sample(torch.float32, 16 * threads).view(2, 8 * threads)
    out = run_clusters("rows_of_threads", 16, threads, x, 2).view(2, 8 * threads, 2)
    assert same_values(out, out[:, :1].expand_as(out).contiguous()), "threads of a row disagree"
    expected = torch.stack([x.double().sum(1), x.double().amax(1)], dim=1)
    assert torch.allclose(out[:, 0], expected, rtol=1e-11, atol=1e-11)


def test_cluster_reductions_of_integers_wrap_and_of_bools_ask_any_and_all():
    x = sample(torch.int64, 256, seed=1) + 2**62
    for values, any_is_3, all_are_not_3 in ((x, 0, 1), (x.index_fill(0, torch.tensor([177]), 3), 1, 0)):
        out = torch.zeros(256, 6, dtype=torch.int64)
        library("cluster").run("rows_of_integers", (4,), (64,), values, out)
        narrow = values.to(torch.int32)
        product = torch.tensor(math.prod(narrow.tolist()) % 2**32).to(torch.int32)
        expected = [values.sum(), product, narrow.amax(), narrow.amin(), any_is_3, all_are_not_3]
        assert out.tolist() == [[int(value) for value in expected]] * 256


@pytest.mark.parametrize("width", [1, 2, 5, 8, 16])
def test_the_first_block_has_what_all_have_of_a_column(width):
    x, height = sample(torch.float32, 2 * 8 * 64, seed=width), 64 // width
    out, again = (torch.full((2 * width, 3), -7.0, dtype=torch.float64) for _ in range(2))
    for result in (out, again):
        library("cluster").run("columns_in_first_block", (16,), (64,), x, result, width)
    assert same_values(out, again)
    own = x.double().view(2, 8, 64)[:, :, : width * height].reshape(2, 8 * height, width)
    expected = torch.stack([own.sum(1), 2 * own.sum(1), own.amax(1)], dim=2).view(2 * width, 3)
    assert torch.allclose(out, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("place", [None, 0, 31, 32, 63])
def test_a_single_byte_crosses_a_cluster(place):
    x, out = torch.zeros(64, dtype=torch.int64), torch.full((64,), -1)
    if place is not None:
        x[place] = 3
    library("cluster").run("any_is_three", (2,), (32,), x, out)
    assert out.tolist() == [int(place is not None)] * 64


def test_more_values_than_a_buffer_holds_take_several_turns():
    x = sample(torch.float32, 2 * 8192).view(2, 8192)
    out = run_clusters("many_sums", 16, 1024, x, 9).view(2, 8192, 9)
    assert same_values(out, out[:, :1].expand_as(out).contiguous())
    factors = torch.arange(1, 10, dtype=torch.float32)
    expected = (x[..., None] * factors).double().sum(1)
    assert torch.allclose(out[:, 0], expected, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(("threads", "cluster"), [(64, 2), (32, 8)])
@pytest.mark.parametrize(("rows", "walkers"), [(1, 1), (3, 3), (4, 3), (5, 1), (29, 3), (64, 7)])
def test_clusters_take_every_row_once(threads, cluster, rows, walkers):
    """However they share them: a cluster draws a ticket before it knows that there is nothing left for it."""
    x = sample(torch.float32, rows * threads * cluster).view(rows, threads * cluster)
    for _ in range(2):
        out, counter = torch.zeros_like(x, dtype=torch.float64), torch.zeros(1, dtype=torch.int32)
        grid = (walkers * cluster,)
        library("cluster").run(f"take_rows_{threads}x{cluster}", grid, (threads,), x, out, counter, rows)
        assert torch.allclose(out, x.double().sum(1, keepdim=True).expand_as(out), rtol=1e-5, atol=1e-4)
        assert counter.item() == rows + walkers


def test_dependent_cluster_reductions_run_back_to_back():
    x = sample(torch.float32, 3 * 256).view(3, 256)
    out = torch.full_like(x, NAN)
    library("cluster").run("softmax", (12,), (64,), x, out, 7)
    expected = x.double()
    for _ in range(7):
        expected = expected.softmax(1)
    assert torch.allclose(out.double(), expected, rtol=1e-5)


@pytest.mark.parametrize(("threads", "cluster"), [tuple(map(int, shape)) for shape in CLUSTER_STATISTICS])
def test_cluster_reductions_with_lambdas_leave_the_same_bits_in_every_thread(threads, cluster):
    columns = threads * cluster
    x = sample(torch.float32, 3 * columns).view(3, columns)
    out = run_clusters(f"statistics_{threads}x{cluster}", 3 * cluster, threads, x, 9).view(3, columns, 9)
    assert same_values(out, out[:, :1].expand_as(out).contiguous()), "threads of a row disagree"
    assert torch.allclose(out[:, 0, :3], statistics(x, 1), rtol=1e-5, atol=1e-5)
    assert torch.equal(out[:, 0, 3], x.amax(1).double())
    flags = [(x > 0).sum(1) % 2, (x > 1).any(1), (x > 2).all(1), (x > 1.5).sum(1) % 2, (x > 50).any(1)]
    assert torch.equal(out[:, 0, 4:], torch.stack([flag.double() for flag in flags], dim=1))


def test_what_a_block_wrote_before_the_barrier_its_peers_see_after_it():
    scratch, out = torch.zeros(2 * 4 * 64, dtype=torch.int64), torch.zeros(2, 4, 64, dtype=torch.int64)
    library("cluster").run("pass_on", (8,), (64,), scratch, out)
    assert torch.equal(out, scratch.view(2, 4, 64).roll(-1, 1).flip(2))


# --- Guards

MISUSES_OF_CLUSTERS = {
    "arrives_twice": "it arrives at a barrier of its cluster again before it waits",
    "waits_without_arriving": "it waits at a barrier of its cluster before it arrives",
    "sends_through_no_barrier": "it uses a transfer barrier that none prepared",
    "sends_to_blocks_that_may_not_have_started": "it reaches for block 0 of its cluster before any barrier of theirs",
    "sends_to_a_block_that_has_returned": "it reaches for block 1 of its cluster, which has returned",
    "sends_beyond_its_cluster": "it reaches for block 2 of its cluster of 2",
    "expects_twice": "it expects transfers twice in one phase",
}
"""Kernel of misuse.cu, and what is said of a thread of the two blocks of its cluster."""


@only_on_the_host
@pytest.mark.parametrize("name", MISUSES_OF_CLUSTERS)
def test_misuse_of_a_cluster_ends_its_launch_and_says_where(name):
    result = run_misuse(library("misuse").path, name, blocks=2)
    assert result.returncode == MISUSED
    where = rf"fusebuild host: kernel {name}, block \([01], 0, 0\), thread \(\d+, 0, 0\): "
    assert re.fullmatch(where + re.escape(MISUSES_OF_CLUSTERS[name]) + "\n", result.stderr)


@only_on_the_host
@pytest.mark.parametrize(
    ("name", "states"),
    [
        (
            "returns_before_its_cluster_meets",
            (
                "64 at wait_cluster (the first is thread (0, 0, 0))",
                "60 at wait_cluster (the first is thread (0, 0, 0)), 4 returned (the first is thread (60, 0, 0))",
            ),
        ),
        (
            "waits_for_what_none_sends",
            (
                "63 at wait_transfers (the first is thread (0, 0, 0)), 1 returned (the first is thread (63, 0, 0))",
                "64 returned (the first is thread (0, 0, 0))",
            ),
        ),
    ],
)
def test_a_cluster_that_waits_forever_ends_its_launch_and_says_where_each_block_is(name, states):
    result = run_misuse(library("misuse").path, name, blocks=2)
    assert result.returncode == MISUSED
    assert result.stderr == "".join(
        f"fusebuild host: kernel {name}, block ({rank}, 0, 0): its threads diverged and wait forever: {state}\n"
        for rank, state in enumerate(states)
    )


@only_on_the_host
def test_a_grid_that_is_no_multiple_of_its_cluster_is_refused():
    cluster = library("cluster")
    assert isinstance(cluster, HostLibrary)
    out = torch.full((96,), -1)
    assert cluster.status("any_is_three", (3,), (32,), torch.zeros(96).long(), out) == 1
    assert (out == -1).all()


WRONG_CLUSTERS = [
    ("reduce_row_in_cluster<64, 3>(phase, accumulator<Sum>(x))", "blocks per cluster: 2, 4 or 8"),
    ("reduce_row_in_cluster<64, 16>(phase, accumulator<Sum>(x))", "blocks per cluster: 2, 4 or 8"),
    ("reduce_row_in_cluster<64, 1>(phase, accumulator<Sum>(x))", "blocks per cluster: 2, 4 or 8"),
    ("reduce_row_in_cluster<16, 2>(phase, accumulator<Sum>(x))", "a power of two from 32 to 1024"),
    ("reduce_row_in_cluster<96, 2>(phase, accumulator<Sum>(x))", "a power of two from 32 to 1024"),
    ("reduce_row_in_cluster<1024, 8>(phase, accumulator<Wide>(wide))", "a value, once for each warp of the cluster"),
]


@pytest.mark.skipif(IS_SANITIZED or not TARGET.is_host, reason="compiles without running")
@pytest.mark.parametrize(("call", "message"), WRONG_CLUSTERS)
def test_a_cluster_of_a_wrong_shape_does_not_compile(tmp_path, call, message):
    source = tmp_path / "wrong.cu"
    source.write_text(
        "#include <fusebuild/kernel.cuh>\nusing namespace fusebuild;\n"
        "struct Wide {\n  struct State {\n    double v[5];\n  };\n"
        "  static State combine(const State& a, const State&) { return a; }\n};\n"
        f"void kernel(ClusterPhase& phase, float& x, Wide::State& wide) {{\n  {call};\n}}\n"
    )
    includes = ["-I", str(INCLUDE_FOLDER), "-isystem", str(cuda_folder() / "include")]
    command = ["g++", "-x", "c++", "-std=c++17", "-fsyntax-only", "-DFUSEBUILD_HOST", *includes, str(source)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert f"static assertion failed: {message}" in result.stderr.replace("threads per row and block: ", "")


# --- nvcc


@pytest.mark.parametrize("architecture", ["sm_90", "sm_100", "sm_120"])
def test_nvcc_compiles_clusters_without_spills(tmp_path, architecture):
    report = compile_kernels(DEVICE / "cluster.cu", tmp_path / "kernels.cubin", find_target(architecture))
    assert set(re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", report)) == {("0", "0")}
