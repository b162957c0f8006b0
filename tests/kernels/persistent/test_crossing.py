"""Rows of several axes by vectors that cross from one axis' end to its next beginning, in blocks, in tiles, and in
parts where they are very long; and rows of tiles that share what groups of them have."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.small_recipes import text_of, whole

torch = pytest.importorskip("torch")

from fusebuild.artifact.plan import FormulaArg  # noqa: E402
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate  # noqa: E402
from fusebuild.kernels.common.spec import LaunchSpec, VariantSpec  # noqa: E402
from fusebuild.kernels.persistent import FAMILY as PERSISTENT  # noqa: E402
from fusebuild.kernels.persistent.long_rows import FEWEST_COLUMNS  # noqa: E402
from fusebuild.kernels.persistent.tiled import TiledHeuristics  # noqa: E402
from fusebuild.runtime.loader import load  # noqa: E402
from fusebuild.target.table import TARGETS  # noqa: E402
from support.host_artifacts import chosen, compile_for_host  # noqa: E402

SM_90 = TARGETS["sm_90"]

INPUTS = {"x": "bfloat16[N, G, K, P]", "w": "bfloat16[G, K, 1]", "b": "float[1, K, 1]"}
GROUPS = """\
m = mean(x, dims=[2, 3], keepdim=True)
d = x - m
v = mean(d * d, dims=[2, 3], keepdim=True)
y = d * rsqrt(v + 1.0) * w + b
s = squeeze(v, dims=[2, 3])"""
OUTPUTS = {"y": "bfloat16", "s": "float"}

SAMPLED = {"x": "bfloat16[B, S, N]", "c": "bfloat16[B, 1, N]", "t": "float[B, S, 1]", "w": "bfloat16[N]"}
SCALED = """\
m = mean(x * t, dims=[2], keepdim=True)
y = (x - m) * w * c
z = squeeze(m, dims=[2])"""

NESTED = {"x": "bfloat16[N, A, B, P]", "w": "float[A, 1, 1]", "u": "bfloat16[B, 1]", "z": "bool[A, B, 1]"}
OF_NESTED = """\
m = mean(where(z, x, 0.0) * u, dims=[1, 2, 3], keepdim=True)
y = (x - m) * w + u"""


SEVERAL = """\
d = x - max(x, dims=[1, 2], keepdim=True)
y = exp(d) / mean(exp(d), dims=[1, 2], keepdim=True) * w"""


def groups(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What GROUPS says, in double."""
    x, w, b = x.double(), w.double(), b.double()
    d = x - x.mean((2, 3), keepdim=True)
    v = (d * d).mean((2, 3), keepdim=True)
    return d * (v + 1).rsqrt() * w + b, v[:, :, 0, 0]


def assert_groups(artifacts: Path, shape: tuple[int, ...], variant: str) -> None:
    """That the variant that random groups of this ``shape`` take is the one so called and right, and the same again."""
    generator = torch.Generator().manual_seed(sum(shape))
    x = torch.randn(shape, generator=generator).bfloat16()
    w = torch.randn(shape[1], shape[2], 1, generator=generator).bfloat16()
    b = torch.randn(1, shape[2], 1, generator=generator)
    plan = load(artifacts / "groups.fuse", target="host")
    assert chosen(plan, x, w, b).startswith(variant)
    (y, s), (wanted, spread) = plan(x, w, b), groups(x, w, b)
    torch.testing.assert_close(y.double(), wanted, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(s.double(), spread, rtol=1e-4, atol=1e-5)
    assert all(torch.equal(first, again) for first, again in zip((y, s), plan(x, w, b), strict=True))


def of_groups() -> dict[str, VariantSpec]:
    found = PERSISTENT.schedule(whole(INPUTS, GROUPS, OUTPUTS), SM_90, {"N": 64, "G": 32, "K": 8, "P": 1024})
    return {variant.name: variant for variant in found}


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {
        "groups": text_of(INPUTS, GROUPS, OUTPUTS, name="groups"),
        "nested": text_of(NESTED, OF_NESTED, {"y": "bfloat16"}, name="nested"),
        "several": text_of(
            {"x": "bfloat16[N, K, P]", "w": "bfloat16[K, 1]"}, SEVERAL, {"y": "bfloat16"}, name="several"
        ),
        "scaled": text_of(SAMPLED, SCALED, {"y": "bfloat16", "z": "float"}, name="scaled"),
    }
    return compile_for_host(tmp_path_factory.mktemp("crossing"), texts)


@pytest.mark.parametrize(
    ("shape", "variant"),
    [
        ((3, 2, 5, 3), "tiled"),
        ((3, 2, 8, 3), "short"),
        ((2, 5, 8, 1), "short"),
        ((7, 2, 4, 62), "short"),
        ((40, 3, 1, 1), "tiled"),
        ((2, 3, 7, 31), "edged"),
        ((2, 3, 4, 31), "tiled"),
        ((5, 2, 41, 13), "edged"),
        ((2, 2, 300, 1), "edged"),
        ((2, 2, 127, 1), "tiled"),
        ((2, 1, 1, 541), "edged"),
        ((2, 1, 1856, 1), "edged"),
        ((1, 2, 257, 131), "edged"),
        ((2, 1, 300, 901), "staged"),
        ((1, 3, 3, 90_001), "staged"),
        ((1, 2, 3, 294_913), "trailing"),
        ((1, 1, 901, 1009), "trailing"),
    ],
)
def test_rows_of_several_axes_of_any_length(artifacts: Path, shape: tuple[int, ...], variant: str) -> None:
    assert_groups(artifacts, shape, variant)


@pytest.mark.parametrize("run", [1, 2, 3, 7, 8, 9, 15, 16, 17, 64])
@pytest.mark.parametrize(("outer", "inner"), [(1, 2003), (37, 19), (517, 1), (5, 4000)])
def test_what_runs_of_the_innermost_axis_share_is_theirs_alone(
    artifacts: Path, run: int, outer: int, inner: int
) -> None:
    generator = torch.Generator().manual_seed(run)
    x = torch.randn(2, outer, inner, run, generator=generator).bfloat16()
    w = torch.randn(outer, 1, 1, generator=generator)
    u = torch.randn(inner, 1, generator=generator).bfloat16()
    z = torch.rand(outer, inner, 1, generator=generator) < 0.5
    plan = load(artifacts / "nested.fuse", target="host")
    mean = (x.double() * z * u.double()).mean((1, 2, 3), keepdim=True)
    y = plan(x, w, u, z)
    torch.testing.assert_close(y.double(), (x.double() - mean) * w + u.double(), rtol=2e-2, atol=2e-2)
    assert chosen(plan, x, w, u, z).startswith(("edged", "staged", "trailing"))


@pytest.mark.parametrize("run", [1, 2, 3, 5, 7, 8, 9, 12, 17, 31])
def test_vectors_of_short_rows_cross_runs_of_the_innermost_axis(artifacts: Path, run: int) -> None:
    generator = torch.Generator().manual_seed(run)
    x = torch.randn(9, 4, 2, run, generator=generator).bfloat16()
    w = torch.randn(4, 1, 1, generator=generator)
    u = torch.randn(2, 1, generator=generator).bfloat16()
    z = torch.rand(4, 2, 1, generator=generator) < 0.5
    plan = load(artifacts / "nested.fuse", target="host")
    mean = (x.double() * z * u.double()).mean((1, 2, 3), keepdim=True)
    torch.testing.assert_close(plan(x, w, u, z).double(), (x.double() - mean) * w + u.double(), rtol=2e-2, atol=2e-2)
    assert chosen(plan, x, w, u, z).startswith("short")


def test_short_rows_are_whole_vectors_whatever_their_runs_are() -> None:
    guard = of_groups()["short_vec8_int32"].guard
    for channels, pixels, taken in [(64, 3, True), (63, 3, False), (63, 8, True), (1, 64, True), (2, 4, True)]:
        sizes = sizes_of(5000, pixels) | {"K": channels}
        assert all(evaluate(each, sizes, lambda fid, size: True) for each in guard) == taken


def test_no_rows_are_no_work(artifacts: Path) -> None:
    plan = load(artifacts / "groups.fuse", target="host")
    y, s = plan(torch.ones(0, 2, 3, 5).bfloat16(), torch.ones(2, 3, 1).bfloat16(), torch.ones(1, 3, 1))
    assert (y.shape, s.shape) == ((0, 2, 3, 5), (0, 2))


def sizes_of(rows: int, columns: int) -> dict[str, int]:
    return {"N": rows, "G": 1, "K": 1, "P": columns, MULTIPROCESSORS: 132}


def argument(launch: LaunchSpec, name: str, sizes: dict[str, int]) -> int:
    (arg,) = (parameter.arg for parameter in launch.kernel.parameters if parameter.name == name)
    assert isinstance(arg, FormulaArg)
    return evaluate(arg.formula, sizes)


@pytest.mark.parametrize("rows", [0, 1, 5, 28, 4096])
@pytest.mark.parametrize("columns", [131_080, 262_160, 4_505_600, 1 << 30])
def test_each_part_is_read_by_a_block_and_stored_by_a_later_one(rows: int, columns: int) -> None:
    trailing, sizes = of_groups()["trailing_vec8_int32"], sizes_of(rows, columns)
    zeros, launch = trailing.launches
    parts, trail = (argument(launch, name, sizes) for name in ("parts", "trail"))
    assert (parts - 1) * 256 * 8 * 8 < columns <= parts * 256 * 8 * 8
    assert trail == parts + 132  # a row is known by then, if blocks are not slow
    assert evaluate(launch.grid[0], sizes) == (rows * parts + trail if rows else 0)
    *partials, counters = (evaluate(each, sizes) for each in trailing.scratch)
    assert partials == [4 * rows * (parts + 1)] * 2
    assert counters == 128 * evaluate(zeros.grid[0], sizes) >= 4 * (rows + 1)


@pytest.mark.parametrize(
    ("body", "readings"),
    [
        (
            "m = mean(x, dims=[1, 2], keepdim=True)\ny = x * rsqrt(mean((x - m) * (x - m), dims=[1, 2], keepdim=True))",
            1,
        ),
        ("m = mean(x, dims=[1, 2], keepdim=True)\nd = x - m\ny = d / sum(d * d, dims=[1, 2], keepdim=True)", 1),
        ("m = max(x, dims=[1, 2], keepdim=True)\nd = x - m\ny = d / sum(d * d, dims=[1, 2], keepdim=True)", 2),
        ("m = mean(x, dims=[1, 2], keepdim=True)\nd = x - m\ny = d / sum(d * x, dims=[1, 2], keepdim=True)", 2),
        ("m = mean(x, dims=[1, 2], keepdim=True)\nd = m - x\ny = d / sum(d * d, dims=[1, 2], keepdim=True)", 2),
        ("y = x - mean(x * x, dims=[1, 2], keepdim=True)", 1),
    ],
)
def test_a_sum_and_the_squares_around_what_follows_from_it_take_one_reading(body: str, readings: int) -> None:
    task = whole({"x": "bfloat16[N, K, P]", "w": "bfloat16[K, 1]"}, f"{body}\nz = y * w", {"z": "bfloat16"})
    found = PERSISTENT.schedule(task, SM_90, {"N": 64, "K": 8, "P": 1024})
    (launch,) = (
        launch
        for variant in found
        for launch in variant.launches
        if variant.name.startswith("trailing") and launch.kernel.template == "inner_trailing"
    )
    sizes = {"N": 3, "K": 1, "P": 1 << 20, MULTIPROCESSORS: 132}
    parts, trail = (argument(launch, name, sizes) for name in ("parts", "trail"))
    assert evaluate(launch.grid[0], sizes) == 3 * parts + readings * trail


@pytest.mark.parametrize("way", ["staged", "trailing"])
def test_moments_of_elements_far_from_zero_are_as_exact_as_sums_around_their_mean(artifacts: Path, way: str) -> None:
    shape = (1, 2, 40, 8001) if way == "staged" else (1, 1, 120, 8001)
    x = (torch.randn(shape, generator=torch.Generator().manual_seed(5)) + 300).bfloat16()
    plan = load(artifacts / "groups.fuse", target="host")
    inputs = x, torch.ones(*shape[1:3], 1).bfloat16(), torch.zeros(1, shape[2], 1)
    assert chosen(plan, *inputs).startswith(way)
    torch.testing.assert_close(plan(*inputs)[1].double(), groups(*inputs)[1], rtol=1e-4, atol=1e-5)


def test_rows_are_kept_up_to_what_shared_memory_of_a_cluster_holds() -> None:
    guards = {name: variant.guard for name, variant in of_groups().items()}
    assert not [name for name in guards if "vec1" in name]
    assert ("le", ("mul", "K", "P"), 27 * 8 * 512 * 8) in guards["staged_vec8_int32"]
    assert "edged262144_vec8_int32" not in guards


@pytest.mark.parametrize(("columns", "blocks"), [(200_000, 2), (425_984, 2), (425_985, 1), (884_736, 1)])
@pytest.mark.parametrize("rows", [1, 29, 1000])
def test_clusters_walk_rows_in_as_much_shared_memory_as_there_is(columns: int, blocks: int, rows: int) -> None:
    staged = of_groups()["staged_vec8_int32"]
    (launch,) = staged.launches
    sizes = {"N": rows, "G": 1, "K": 1, "P": columns, MULTIPROCESSORS: 132}
    shared = evaluate(launch.shared_bytes, sizes)
    assert 2 * columns <= 8 * shared
    assert blocks * shared < SM_90.shared_bytes
    assert evaluate(launch.grid[0], sizes) == 8 * min(rows, 15 * blocks)


@pytest.mark.parametrize("shape", [(7, 1, 3, 87_383), (5, 1, 90_001, 3), (3, 2, 4, 70_000)])
def test_a_cluster_walks_rows_that_begin_anywhere(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...]
) -> None:
    monkeypatch.setenv("FUSEBUILD_MULTIPROCESSORS", "1")
    assert_groups(artifacts, shape, "staged")


@pytest.mark.parametrize(("shape", "multiprocessors"), [((3, 1, 3, 300_001), 3), ((2, 1, 300_001, 3), 132)])
def test_rows_trail_by_any_number_of_parts(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], multiprocessors: int
) -> None:
    monkeypatch.setenv("FUSEBUILD_MULTIPROCESSORS", str(multiprocessors))
    assert_groups(artifacts, shape, "trailing")


@pytest.mark.parametrize("multiprocessors", [1, 132])
def test_rows_that_are_reduced_several_times_are_read_as_often(
    artifacts: Path, monkeypatch: pytest.MonkeyPatch, multiprocessors: int
) -> None:
    monkeypatch.setenv("FUSEBUILD_MULTIPROCESSORS", str(multiprocessors))
    x = torch.randn(2, 7, 130_011, generator=torch.Generator().manual_seed(3)).bfloat16()
    w = torch.randn(7, 1).bfloat16()
    plan = load(artifacts / "several.fuse", target="host")
    assert chosen(plan, x, w).startswith("trailing")
    d = x.double() - x.double().amax((1, 2), keepdim=True)
    total = d.exp().sum((1, 2), keepdim=True)
    wanted = d.exp() / total * w.double() * x[0].numel()
    torch.testing.assert_close(plan(x, w).double(), wanted, rtol=2e-2, atol=2e-2)


def test_what_asks_where_it_is_crosses_nothing() -> None:
    place = "i = broadcast(iota(P), is_broadcast_dim=[True, False])\n"
    body = place + "y = x - sum(x * cast(i, float), dims=[1, 2], keepdim=True)"
    task = whole({"x": "bfloat16[N, K, P]"}, body, {"y": "bfloat16"})
    found = PERSISTENT.schedule(task, SM_90, {"N": 64, "K": 8, "P": 1024})
    names = [variant.name for variant in found]
    assert not [name for name in names if name.startswith(("edged", "tiled", "staged", "trailing"))]


@pytest.mark.parametrize(
    "shape", [(3, 5, 17), (1, 1, 1), (40, 1, 61), (2, 300, 3), (300, 7, 1), (3, 9, 501), (0, 4, 3)]
)
def test_groups_of_rows_share_what_a_tile_brings_for_them(artifacts: Path, shape: tuple[int, ...]) -> None:
    generator = torch.Generator().manual_seed(sum(shape))
    x, c = torch.randn(shape, generator=generator).bfloat16(), torch.randn(shape[0], 1, shape[2]).bfloat16()
    t, w = torch.randn(*shape[:2], 1, generator=generator), torch.randn(shape[2], generator=generator).bfloat16()
    plan = load(artifacts / "scaled.fuse", target="host")
    assert chosen(plan, x, c, t, w).startswith("tiled" if shape[2] <= FEWEST_COLUMNS else "edged") or not x.numel()
    y, z = plan(x, c, t, w)
    mean = (x.double() * t).mean(2, keepdim=True)
    torch.testing.assert_close(y.double(), (x.double() - mean) * w.double() * c.double(), rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(z.double(), mean[:, :, 0], rtol=1e-4, atol=1e-5)


def test_tiles_have_room_for_the_groups_of_their_rows() -> None:
    task = whole(SAMPLED, SCALED, {"y": "bfloat16", "z": "float"})
    found = {variant.name: variant for variant in PERSISTENT.schedule(task, SM_90, {"B": 64, "S": 64, "N": 63})}
    variant = found["tiled_vec8_int32"]
    heuristics = variant.launches[0].kernel.heuristics
    assert isinstance(heuristics, TiledHeuristics)
    assert (heuristics.of_groups, heuristics.outer, heuristics.resident) == ((1,), 1, (3,))

    assert (heuristics.of_rows[0], len(heuristics.of_rows)) == (2, 2)
    formulas = {p.name: p.arg.formula for p in variant.launches[0].kernel.parameters if isinstance(p.arg, FormulaArg)}
    for samples, rows in ((1 << 20, 1), (1 << 10, 35), (2, 1 << 20)):
        sizes = {"B": samples, "S": rows, "N": 63, MULTIPROCESSORS: 132}
        tile, most = (evaluate(formulas[name], sizes) for name in ("tile_rows", "tile_groups"))  # type: ignore[arg-type]
        reached = max((top + tile - 1) // rows - top // rows + 1 for top in range(0, 40 * tile, tile))
        assert reached <= most
        assert evaluate(variant.launches[0].shared_bytes, sizes) < SM_90.shared_bytes
