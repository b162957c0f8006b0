"""The device header's platform layer, reductions and scans on the CPU, its guards, and that nvcc takes the same text.

Two tests run all the files of the header's tests again: under AddressSanitizer and UBSan, and on a GPU.
"""

from __future__ import annotations

import concurrent.futures
import itertools
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fusebuild.target.table import find_target
from support.device_harness import (
    DTYPES,
    INCLUDE_FOLDER,
    INF,
    IS_SANITIZED,
    MISUSED,
    NAN,
    HostLibrary,
    compile_kernels,
    library,
    only_on_the_host,
    ptx_of,
    run_misuse,
    same_values,
    sample,
    statistics,
)
from support.places import DEVICE, GOLDEN, ROOT
from support.sampled import sampled

# --- The platform layer


def test_indices_count_in_three_dimensions():
    grid, block = (3, 2, 2), (4, 3, 2)
    out = torch.full((12 * 24, 10), -1, dtype=torch.int32)
    library("platform").run("indices", grid, block, out, *block)
    expected = [
        [*thread, *where, *grid, thread[0] + 4 * (thread[1] + 3 * thread[2])]
        for where in itertools.product(range(3), range(2), range(2))
        for thread in itertools.product(range(4), range(3), range(2))
    ]
    assert sorted(out.tolist()) == sorted(expected)


@pytest.mark.parametrize("count", [4, 256, 1024, 5000])
def test_copies_go_on_while_their_thread_works(count):
    x = sample(torch.float32, count)
    out = torch.full((count,), NAN)
    library("platform").run("pipeline", (1,), (64,), x, out, count, shared_bytes=3 * 64 * 16)
    assert torch.equal(out, x + 1)


@only_on_the_host
def test_copies_arrive_as_late_as_they_may():
    out = torch.zeros(2, dtype=torch.int32)
    library("platform").run("copy_and_look", (1,), (1,), torch.tensor([7], dtype=torch.int32), out, shared_bytes=4)
    assert out.tolist() == [-1, 7]


@pytest.mark.parametrize(("rows", "cols"), [(32, 32), (65, 33), (1, 100)])
def test_static_shared_memory_carries_a_tile_across_a_barrier(rows, cols):
    x = sample(torch.float32, rows * cols).view(rows, cols)
    out = torch.full((cols, rows), NAN)
    library("platform").run("transpose_tile", (-(-cols // 32), -(-rows // 32)), (32, 8), x, out, rows, cols)
    assert torch.equal(out, x.T)


@pytest.mark.parametrize("threads", [1, 7, 64, 1024])
def test_dynamic_shared_memory_carries_values_across_barriers(threads):
    x = sample(torch.float64, 3 * threads)
    out = torch.full_like(x, NAN)
    library("platform").run("reverse_blocks", (3,), (threads,), x, out, threads, 5, shared_bytes=8 * threads)
    assert torch.equal(out.view(3, threads), x.view(3, threads).flip(1))


@only_on_the_host
def test_shared_memory_starts_poisoned_in_every_block():
    out = torch.zeros(3, 64, dtype=torch.int32)
    library("platform").run("read_unwritten_shared", (3,), (32,), out, shared_bytes=128)
    assert (out == -1).all()


@pytest.mark.parametrize("dtype", ["float", "double", "bfloat16", "int64", "bool"])
@pytest.mark.parametrize("width", [4, 16, 32])
def test_shuffles_read_the_lanes_that_cuda_says(dtype, width):
    x = sample(DTYPES[dtype], 64)
    out = torch.zeros(3, 64, dtype=DTYPES[dtype])
    library("platform").run(f"shuffle_{dtype}_{width}", (1,), (64,), x, out)
    lanes = torch.arange(64)
    down = torch.where(lanes % width + 2 < width, lanes + 2, lanes)
    assert torch.equal(out[0], x[lanes ^ 3])
    assert torch.equal(out[1], x[down])
    assert torch.equal(out[2], x[lanes // width * width + width - 1])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
def test_vectors_are_loaded_and_stored_in_order(dtype, width):
    quarter = 16 * 70
    x = sample(DTYPES[dtype], 4 * quarter)
    out = torch.zeros_like(x)
    library("platform").run(f"copy_{dtype}_{width}", (-(-quarter // width // 64),), (64,), x, out, quarter)
    kept = x[2 * quarter : 3 * quarter].view(-1, width).clone()
    kept[:, [0, -1]] = kept[:, [-1, 0]]
    assert torch.equal(out, torch.cat([x[: 2 * quarter], kept.view(-1), x[3 * quarter :]]))


@only_on_the_host
def test_an_empty_grid_runs_nothing_and_sizes_beyond_cudas_are_refused():
    out = torch.full((10,), -1, dtype=torch.int32)
    platform = library("platform")
    assert isinstance(platform, HostLibrary)
    assert platform.status("indices", (0, 5), (32,), out, 32, 1, 1) == 0
    for grid, block in [((1,), (0,)), ((1,), (1025,)), ((1,), (32, 33)), ((-1,), (1,)), ((1, 65536), (1,))]:
        assert platform.status("indices", grid, block, out, *block, 1, 1) == 1
    assert platform.status("indices", (1,), (1,), out, 1, 1, 1, shared_bytes=-1) == 1
    assert (out == -1).all()


@only_on_the_host
def test_several_os_threads_may_run_kernels_at_once():
    reduce = library("reduce")

    def work(seed: int) -> bool:
        x = sample(torch.float32, 16 * 256, seed)
        out = torch.empty(16 * 256, 4, dtype=torch.float64)
        for _ in range(5):
            reduce.run("rows_256x1", (16,), (256,), x, out)
        expected = x.view(16, 256).amax(1).double()
        return torch.equal(out[:, 1].view(16, 256), expected[:, None].expand(16, 256))

    with concurrent.futures.ThreadPoolExecutor(max_workers=6) as pool:
        assert all(pool.map(work, range(24)))


# --- Reductions

ROW_SHAPES = re.findall(r"ROW_KERNEL\((\d+), (\d+)\)", (DEVICE / "reduce.cu").read_text())
COLUMN_SHAPES = re.findall(r"COLUMN_KERNEL\((\d+), (\d+), (\d+)\)", (DEVICE / "reduce.cu").read_text())


@pytest.mark.parametrize(("threads", "rows"), [(int(threads), int(rows)) for threads, rows in ROW_SHAPES])
def test_row_reductions_share_a_pass_and_agree_in_every_thread(threads, rows):
    blocks = 3
    x = sample(torch.float32, blocks * rows * threads).view(blocks * rows, threads)
    x[0, threads // 2] = NAN
    out = torch.full((blocks * rows, threads, 4), -7.0, dtype=torch.float64)
    again = torch.zeros_like(out)
    for result in (out, again):
        library("reduce").run(f"rows_{threads}x{rows}", (blocks,), (threads * rows,), x, result)
    assert same_values(out, again)
    assert same_values(out, out[:, :1].expand_as(out).contiguous()), "threads of a row disagree"
    exact = x.double()
    expected = torch.stack([exact.sum(1), exact.amax(1), exact.amin(1), exact.prod(1)], dim=1)
    assert torch.allclose(out[:, 0], expected, rtol=1e-12, atol=1e-12, equal_nan=True)


def test_row_reductions_of_integers_wrap_and_of_bools_ask_any_and_all():
    x = sample(torch.int64, 128, seed=1) + 2**62
    for values, any_is_3, all_are_not_3 in ((x, 0, 1), (x.index_fill(0, torch.tensor([77]), 3), 1, 0)):
        out = torch.zeros(128, 6, dtype=torch.int64)
        library("reduce").run("rows_of_integers", (1,), (128,), values, out)
        narrow = values.to(torch.int32)
        product = torch.tensor(math.prod(narrow.tolist()) % 2**32).to(torch.int32)
        expected = [values.sum(), product, narrow.amax(), narrow.amin(), any_is_3, all_are_not_3]
        assert out.tolist() == [[int(value) for value in expected]] * 128


def test_identities_leave_every_value_as_it_is():
    out = torch.zeros(12, dtype=torch.float64)
    library("reduce").run("identities", (1,), (1,), out)
    assert out.tolist() == [0, 1, -INF, INF, -INF, INF, 0, 1, -(2**31), 2**31 - 1, 0, 1]


@pytest.mark.parametrize("name", ["softmax", "softmax_alternating"])
def test_dependent_row_reductions_run_back_to_back(name):
    x = sample(torch.float32, 4 * 256).view(4, 256)
    out = torch.full_like(x, NAN)
    library("reduce").run(name, (4,), (256,), x, out, 5)
    expected = x.double()
    for _ in range(5):
        expected = expected.softmax(1)
    assert torch.allclose(out.double(), expected, rtol=1e-5)


@pytest.mark.parametrize(("x", "y", "n"), [tuple(map(int, shape)) for shape in COLUMN_SHAPES])
def test_column_reductions_combine_over_y(x, y, n):
    rows = 2 * y + 3
    values = sample(torch.float32, rows * x * n).view(rows, x * n)
    sums, extremes = torch.full((x * n,), NAN), torch.full((x * n + x,), NAN)
    again = torch.full((x * n,), NAN)
    for result in (sums, again):
        library("reduce").run(f"columns_{x}x{y}_{n}", (1,), (x, y), values, result, extremes, rows, 2)
    assert torch.equal(sums, again)
    assert torch.allclose(sums.double(), values.double().sum(0), rtol=1e-5, atol=1e-5)
    assert torch.equal(extremes[: x * n], values.amax(0))
    assert torch.equal(extremes[x * n :], values.view(rows, x, n).amin((0, 2)))


# --- Scans, and reductions with lambdas

SCANS = re.findall(r"SCAN_KERNEL\((\w+), (\d+), (\d+)\)", (DEVICE / "scan.cu").read_text())
STATISTICS = re.findall(r"^STATISTICS_KERNEL\((\d+), (\d+)\)", (DEVICE / "scan.cu").read_text(), re.MULTILINE)
COLUMN_STATISTICS = re.findall(r"COLUMN_STATISTICS_KERNEL\((\d+), (\d+), (\d+)\)", (DEVICE / "scan.cu").read_text())


def wrapped(value: int, bits: int) -> int:
    return (value + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def affine(state: list[int], x: int) -> list[int]:
    slope = x % 4 * 2 + 1
    return [wrapped(state[0] * slope, 64), wrapped(state[1] * slope + x, 64)]


def matrix(state: list[int], x: int) -> list[int]:
    a, b, c, d, odd = state
    p, q, r, s = x % 7, 1, x % 7 - 3, x % 5
    product = (a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s)
    return [*(wrapped(part, 32) for part in product), odd ^ x % 2]


def seen(state: list[int], x: int) -> list[int]:
    return [int(state[0] or x % 97 == 0)]


SCANNED = {"Affine": (affine, [1, 0]), "Matrix": (matrix, [1, 0, 0, 1, 0]), "Seen": (seen, [0])}


@pytest.mark.parametrize(("op", "threads", "items"), SCANS)
def test_block_scans_combine_in_order_across_lanes_warps_and_tiles(op, threads, items):
    step, identity = SCANNED[op]
    tile = int(threads) * int(items)
    for columns in (1, tile - 1, 3 * tile + tile // 2 + 1):
        x = sample(torch.int64, 2 * columns, seed=columns).view(2, columns)
        out = torch.full((2, columns, len(identity)), -7)
        totals = torch.full((2, int(threads), len(identity)), -7)
        library("scan").run(f"scan_{op}_{threads}x{items}", (2,), (int(threads),), x, out, totals, columns)
        for row in range(2):
            expected = list(itertools.accumulate(x[row].tolist(), step, initial=identity))
            assert out[row].tolist() == expected[1:]
            assert totals[row].tolist() == [expected[-1]] * int(threads), "threads disagree on the total"


def test_a_block_scan_of_no_elements_leaves_the_identity():
    totals = torch.full((1, 64, 2), -7)
    library("scan").run("scan_Affine_64x2", (1,), (64,), torch.empty(0).long(), torch.empty(0).long(), totals, 0)
    assert totals[0].tolist() == [[1, 0]] * 64


def test_a_warp_scan_keeps_to_its_warp():
    x = sample(torch.int64, 64)
    out = torch.full((64, 5), -7)
    library("scan").run("scan_each_warp", (1,), (64,), x, out)
    for warp in (0, 32):
        numbers = x[warp : warp + 32].tolist()
        assert (
            out[warp : warp + 32].tolist() == list(itertools.accumulate(numbers, matrix, initial=[1, 0, 0, 1, 0]))[1:]
        )


@pytest.mark.parametrize(("threads", "rows"), [(int(threads), int(rows)) for threads, rows in STATISTICS])
def test_row_reductions_with_a_lambda_leave_the_same_bits_in_every_thread(threads, rows):
    x = sample(torch.float32, 3 * rows * threads).view(3 * rows, threads)
    out = torch.full((3 * rows, threads, 4), -7.0, dtype=torch.float64)
    again = torch.zeros_like(out)
    for result in (out, again):
        library("scan").run(f"statistics_{threads}x{rows}", (3,), (threads * rows,), x, result)
    assert same_values(out, again)
    assert same_values(out, out[:, :1].expand_as(out).contiguous()), "threads of a row disagree"
    assert torch.allclose(out[:, 0, :3], statistics(x, 1), rtol=1e-5, atol=1e-5)
    assert torch.equal(out[:, 0, 3], x.amax(1).double())


@pytest.mark.parametrize(("x", "y", "n"), [tuple(map(int, shape)) for shape in COLUMN_STATISTICS])
def test_column_reductions_with_a_lambda_combine_over_y(x, y, n):
    rows = 2 * y + 3
    values = sample(torch.float32, rows * x * n).view(rows, x * n)
    out, again = torch.full((x * n, 3), NAN, dtype=torch.float64), torch.zeros(x * n, 3, dtype=torch.float64)
    for result in (out, again):
        library("scan").run(f"column_statistics_{x}x{y}_{n}", (1,), (x, y), values, result, rows)
    assert torch.equal(out, again)
    assert torch.allclose(out, statistics(values, 0), rtol=1e-5, atol=1e-5)


# --- Mean and variance in one read

WELFORD = [("float", 1), ("float", 32), ("float", 256), ("double", 64)]


def hard_to_average(name: str, dtype: torch.dtype, count: int) -> torch.Tensor:
    x = sample(torch.float64, count).to(dtype)
    if name == "far from zero":
        return x + 1e4
    if name == "the same everywhere":
        return torch.full((count,), 0.1, dtype=dtype) * 12345
    if name == "an outlier first":
        x[0] = 1e5
    if name == "an outlier last":
        x[-1] = -1e5
    if name == "two clusters":
        x[count // 2 :] += 3e4
    return x


CASES = ["normal", "far from zero", "the same everywhere", "an outlier first", "an outlier last", "two clusters"]


def welford_of(dtype: str, threads: int, x: torch.Tensor) -> torch.Tensor:
    out = torch.full((threads, 3), -7.0, dtype=torch.float64)
    library("welford").run(f"welford_{dtype}_{threads}", (1,), (threads,), x, out, x.numel())
    return out


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(("dtype", "threads"), WELFORD)
def test_one_read_gives_the_variance_whatever_the_mean(dtype, threads, name):
    for count in (1, 2, threads, threads + 1, 20 * threads + 3, 1000 * threads + 1):
        x = hard_to_average(name, DTYPES[dtype], count)
        out = welford_of(dtype, threads, x)
        assert same_values(out, out[:1].expand_as(out).contiguous()), "threads disagree"
        assert same_values(out, welford_of(dtype, threads, x))
        mean, m2, n = out[0]
        epsilon = torch.finfo(DTYPES[dtype]).eps
        assert n == count
        growth = max(2, count / threads) ** 0.5
        assert abs(mean - x.double().mean()) <= 2 * growth * epsilon * x.double().abs().max()
        wanted = ((x.double() - x.double().mean()) ** 2).sum()
        # Rounding grows with the number of elements that a thread adds up, and is magnified 16-fold where its first is
        # the only one that deviates. Doubles have no wider means to merge.
        bound = 1e-9 if dtype == "double" else 16 * growth * epsilon
        assert abs(m2 - wanted) <= bound * wanted
        assert m2 >= 0
        if name == "the same everywhere":
            assert m2 == 0


def test_narrow_elements_are_not_rounded_the_same_way_each_time():
    """They share low bits once a shift is taken from them, and so do their squares: errors would add up."""
    for seed in range(20):
        x = torch.randn(482, generator=torch.Generator().manual_seed(seed)).bfloat16().float()
        mean, m2, _ = welford_of("float", 1, x)[0]
        assert abs(mean - x.double().mean()) <= 2**-27
        wanted = ((x.double() - x.double().mean()) ** 2).sum()
        assert abs(m2 - wanted) <= 2**-19 * wanted


def test_of_nothing_the_mean_is_nan_and_the_deviations_are_zero():
    out = welford_of("float", 32, torch.empty(0))
    assert out[0].tolist() == [pytest.approx(NAN, nan_ok=True), 0, 0]


@pytest.mark.parametrize("rows", [0, 1, 15, 16, 17, 100, 1000])
def test_columns_have_their_own_means(rows):
    x = sample(torch.float32, rows * 8).view(rows, 8) + 1000 * torch.arange(8)
    out = torch.full((8, 3), -7.0, dtype=torch.float64)
    library("welford").run("welford_columns", (1,), (4, 16), x, out, rows)
    mean = x.double().mean(0)
    assert torch.allclose(out[:, 0], mean, rtol=1e-6, equal_nan=True)
    assert torch.allclose(out[:, 1], ((x.double() - mean) ** 2).sum(0), rtol=1e-5)
    assert out[:, 2].tolist() == [rows] * 8


def test_shares_are_rounded_as_quotients_are():
    draw = torch.Generator().manual_seed(3)
    whole = torch.cat([torch.randint(1, 2**power, (1000,), generator=draw) for power in (3, 8, 16, 24, 40, 62)]).float()
    part = (whole * torch.rand(len(whole), generator=draw)).round()
    out = torch.empty(len(whole))
    library("welford").run("shares", (1,), (1,), torch.stack([part, whole], 1), out, len(whole))
    assert torch.equal(out, part / whole)


@pytest.mark.parametrize("loop", [(0, 10, 3), (0, 9, 3), (3, 3, 1), (5, 3, 8), (7, 8, 256), (-4, 2, 2)])
def test_steps_counts_what_a_loop_does(loop):
    out = torch.zeros(2, dtype=torch.int32)
    library("welford").run("count_steps", (1,), (1,), torch.tensor(loop, dtype=torch.int32), out)
    assert out[0] == out[1]


@pytest.mark.parametrize("end", [0, 1, 2, 7, 8, 9, 23, 24, 25, 100, 101, 1003])
@pytest.mark.parametrize(("step", "unroll", "turns"), [(1, 1, 1), (2, 4, 1), (2, 4, 3), (8, 2, 5), (1, 3, 7)])
def test_loops_in_turns_take_every_row_once_and_know_how_many(end, step, unroll, turns):
    rows, counts = torch.zeros(end + 1, dtype=torch.int32), torch.zeros(turns * step, 2, dtype=torch.int32)
    sizes = torch.tensor((end, step, unroll, turns), dtype=torch.int32)
    library("welford").run("take_turns", (1,), (1,), sizes, rows, counts)
    assert rows.tolist() == [1] * end + [0]
    assert counts[:, 0].equal(counts[:, 1])


# --- Guards

MISUSES = {
    "returns_before_sync": "its threads diverged and wait forever: 63 at sync_block (the first is thread (0, 0, 0)), "
    "1 returned (the first is thread (5, 0, 0))",
    "returns_before_shuffle": "its threads diverged and wait forever: 8 at a shuffle (the first is thread (32, 0, 0)), "
    "56 returned (the first is thread (0, 0, 0))",
    "shuffles_while_others_sync": "its threads diverged and wait forever: 32 at sync_block (the first is thread "
    "(0, 0, 0)), 32 at a shuffle (the first is thread (1, 0, 0))",
    "shuffles_by_two_widths": "thread (16, 0, 0): the lanes of a warp meet at different shuffles",
    "shuffles_while_others_sync_warp": "thread (16, 0, 0): the lanes of a warp meet at a shuffle and at sync_warp",
    "loads_unaligned": "thread (0, 0, 0): misaligned 16-byte load, its address modulo 16 is 4",
    "stores_unaligned": "thread (0, 0, 0): misaligned 16-byte store, its address modulo 16 is 8",
    "needs_a_huge_stack": "",  # a segmentation fault or a message, as the frame falls
}
"""Kernel of misuse.cu, and what is said of its block (0, 0, 0)."""


@only_on_the_host
@pytest.mark.parametrize("name", MISUSES)
def test_misuse_ends_its_launch_and_says_where(name):
    result = run_misuse(library("misuse").path, name)
    if name == "needs_a_huge_stack":  # nothing can go on after that
        assert result.returncode < 0 or (IS_SANITIZED and result.returncode != 0)
    else:
        assert result.returncode == MISUSED
    if MISUSES[name]:
        where = f"fusebuild host: kernel {name}, block (0, 0, 0)"
        separator = ": " if MISUSES[name].startswith("its") else ", "
        assert f"{where}{separator}{MISUSES[name]}\n" in result.stderr


@only_on_the_host
def test_a_shuffle_from_a_lane_that_is_not_there_ends_its_launch():
    result = run_misuse(library("misuse").path, "reads_a_lane_that_is_not_there", threads=16)
    assert result.returncode == MISUSED
    assert "thread (15, 0, 0): a shuffle reads lane 31, but the warp has 16\n" in result.stderr


# --- The sanitizers, which see what the guards do not


@pytest.mark.exhaustive
@only_on_the_host
def test_everything_again_under_the_sanitizers():
    if IS_SANITIZED:
        pytest.skip("this is the second run")
    command = ["g++", "-print-file-name=libasan.so"]
    sanitizer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    if not Path(sanitizer).is_absolute():
        pytest.skip("g++ comes without AddressSanitizer")
    # Python was not linked with the sanitizer, so its library has to be loaded before everything else.
    run_again(FUSEBUILD_TEST_TARGET="host-asan", LD_PRELOAD=sanitizer, ASAN_OPTIONS="detect_leaks=0")


def run_again(**environment: str) -> None:
    """Runs these tests, but for those of nvcc, in another process."""
    files = [
        str(DEVICE / name)
        for name in (
            "test_device_header.py",
            "test_device_alike.py",
            "test_device_batch.py",
            "test_device_clusters.py",
            "test_device_divide.py",
            "test_device_divisor.py",
            "test_device_pieces.py",
            "test_device_exchange.py",
            "test_device_math.py",
            "test_device_partition.py",
            "test_device_random.py",
            "test_device_row_results.py",
            "test_device_shifted.py",
            "test_device_stepping.py",
            "test_device_tile.py",
            "test_device_striped.py",
            "test_device_warp_tiles.py",
        )
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-k", "not nvcc and not again"]
    environment = os.environ | environment
    result = subprocess.run([*command, *files], env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[:8000]


@pytest.mark.skipif(not IS_SANITIZED, reason="runs within test_everything_again_under_the_sanitizers")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("leaves_static_shared", "index 64 out of bounds for type 'int [64]'"),
        ("leaves_dynamic_shared", "AddressSanitizer: heap-buffer-overflow"),
        ("leaves_its_tensor", "AddressSanitizer: heap-buffer-overflow"),
    ],
)
def test_an_access_out_of_bounds_ends_the_process(name, message):
    result = run_misuse(library("misuse").path, name, first=10, shared_bytes=256)
    assert result.returncode != 0
    assert message in result.stderr


# --- nvcc


@pytest.mark.parametrize(
    "name",
    sampled(
        ["reduce", "platform", "casts", "divide", "math", "partition", "scan", "welford", "shifted", "batch", "random"],
        11,
    ),
)
@pytest.mark.parametrize("architecture", sampled(["sm_90", "sm_80", "sm_100"], 3))
def test_nvcc_compiles_every_kernel_without_spills(tmp_path, name, architecture):
    report = compile_kernels(DEVICE / f"{name}.cu", tmp_path / "kernels.cubin", find_target(architecture))
    spills = re.findall(r"(\d+) bytes spill stores, (\d+) bytes spill loads", report)
    assert len(spills) >= len(re.findall("Compiling entry function", report)) > 0
    assert set(spills) == {("0", "0")}


def test_nvcc_keeps_the_states_of_lambdas_in_registers(tmp_path):
    report = compile_kernels(DEVICE / "scan.cu", tmp_path / "kernels.cubin", find_target("sm_90"))
    assert set(re.findall(r"(\d+) bytes stack frame", report)) == {"0"}


@pytest.mark.parametrize("name", sampled(["math", "random", "reduce", "scan", "cluster", "welford", "batch"], 7))
def test_nvcc_makes_the_same_bytes_in_every_directory(tmp_path, name):
    cubins = []
    for folder in (tmp_path / "here", tmp_path / "a" / "longer" / "path"):
        shutil.copytree(INCLUDE_FOLDER, folder / "include")
        source, output = folder / f"{name}.cu", folder / f"{name}.cubin"
        shutil.copy(DEVICE / source.name, source)
        compile_kernels(source, output, find_target("sm_90"), include=folder / "include")
        cubins.append(output.read_bytes())
    assert cubins[0] == cubins[1]


@pytest.fixture(scope="module")
def ptx_of_platform(tmp_path_factory):
    return ptx_of(DEVICE / "platform.cu", tmp_path_factory.mktemp("platform"))


@pytest.mark.parametrize("name", ["copy_bfloat16_8", "copy_half_16", "copy_float_4", "copy_double_2", "copy_bool_16"])
def test_nvcc_moves_vectors_sixteen_bytes_at_a_time(ptx_of_platform, name):
    kernel = ptx_of_platform.split(f".entry {name}(")[1].split(".entry")[0]
    accesses = re.findall(r"(?:ld|st)\.global\S+", kernel)
    assert len(accesses) >= 6
    assert all(re.search(r"\.(v4\.[uf]32|v2\.[uf]64)$", access) for access in accesses), accesses
    wide = [access for access in accesses if access.startswith("ld.global.L2::256B.")]
    assert 0 < len(wide) < len(accesses) / 4  # one of four ways to load


FINISHES = [
    "adaln_backward/0_registers1024_vec8_int32_finish",
    "batchnorm_train/0_vec8_int32_rows_vec8_int32_finish",
    "sum_squares/0_vec8_int32_finish",
    "inner_outer_finishes/0_registers1024_vec4_int32_finish",
]


@pytest.mark.parametrize("kernel", sampled(FINISHES, 2))
@pytest.mark.parametrize("architecture", sampled(["sm_90", "sm_80", "sm_100"], 3))
def test_nvcc_reads_partial_results_after_the_wait_for_them(tmp_path, kernel, architecture):
    """They are the floats and doubles that these kernels read; what is read as constant (``nc``) may be read at any
    time. Before sm_90 nothing waits."""
    source = GOLDEN / "kernels" / f"{kernel}.cu"
    report = compile_kernels(source, tmp_path / "kernel.cubin", find_target(architecture))
    assert "0 bytes spill stores, 0 bytes spill loads" in report
    before, *after = ptx_of(source, tmp_path, architecture).split(".entry")[1].split("griddepcontrol.wait;")
    assert bool(after) == (architecture != "sm_80")
    for text in after:
        assert not re.search(r"(?:ld|st)\.global", before)
        assert re.search(r"ld\.global\.f32", text)
        assert not re.search(r"ld\.global\.nc\.f(?:32|64)", text)


def test_nvcc_reads_nothing_before_the_wait_and_nothing_as_constant(tmp_path):
    source = GOLDEN / "kernels" / "outer_normalization" / "4_rows_vec8_int32.cu"
    before, after = ptx_of(source, tmp_path).split(".entry")[1].split("griddepcontrol.wait;")
    assert not re.search(r"ld\.global\.(?!nc)|st\.global", before)
    vectors = re.findall(r"ld\.global(\.nc)?\.v4", after)
    assert (vectors.count(""), vectors.count(".nc")) == (14, 0)


@pytest.mark.parametrize("kernel", ["adaln_backward/0_registers1024_vec8_int32", "column_sum/0_folded_vec8_int32"])
@pytest.mark.parametrize(("architecture", "count"), sampled([("sm_80", 0), ("sm_100", 1), ("sm_90", 1)], 2))
def test_nvcc_lets_finishing_kernels_begin_early(tmp_path, kernel, architecture, count):
    source = GOLDEN / "kernels" / f"{kernel}.cu"
    compile_kernels(source, tmp_path / "kernel.cubin", find_target(architecture))
    assert ptx_of(source, tmp_path, architecture).count("griddepcontrol.launch_dependents;") == count


# --- A GPU


@pytest.mark.gpu
def test_everything_again_on_the_gpu():
    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")
    major, minor = torch.cuda.get_device_capability()
    run_again(FUSEBUILD_TEST_TARGET=f"sm_{major}{minor}")
