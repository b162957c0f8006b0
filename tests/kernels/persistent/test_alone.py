"""Rows of one element: how many of them a thread and a block have, what is loaded first, and what comes of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from support.small_recipes import text_of, whole

torch = pytest.importorskip("torch")

from fusebuild.artifact.plan import FormulaArg  # noqa: E402
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate  # noqa: E402
from fusebuild.kernels.common.spec import VariantSpec  # noqa: E402
from fusebuild.kernels.persistent import FAMILY as PERSISTENT  # noqa: E402
from fusebuild.kernels.persistent.tiled import TiledHeuristics  # noqa: E402
from fusebuild.kernels.render import Origin, render  # noqa: E402
from fusebuild.runtime.loader import load  # noqa: E402
from fusebuild.target.table import TARGETS  # noqa: E402
from support.host_artifacts import chosen, compile_for_host  # noqa: E402

INPUTS = {"x": "bfloat16[A, B, C, K]", "w": "float[B, K]", "z": "int64[A, C]", "v": "float[A, B, C]"}
BODY = """\
weight = broadcast(w, is_broadcast_dim=[True, False, True, False])
moved = cast(broadcast(z, is_broadcast_dim=[False, True, False, True]), float)
own = broadcast(v, is_broadcast_dim=[False, False, False, True])
place = cast(broadcast(iota(B), is_broadcast_dim=[True, False, True, True]), float)
m = sum(cast(x, float), dims=[3], keepdim=True)
y = (cast(x, float) + m) * weight + moved + own + place
rest = squeeze(m, dims=[3]) * 2.0
"""
OUTPUTS = {"y": "float", "rest": "float"}
CHANNELS = {"x": "bfloat16[A, C, K, L]", "w": "float[C, K]"}
CHANNELS_BODY = """\
weight = broadcast(w, is_broadcast_dim=[True, False, False, True])
m = max(x, dims=[2, 3], keepdim=True)
y = (cast(x, float) - m) * weight
top = squeeze(m, dims=[2, 3])
"""
CHANNELS_OUTPUTS = {"y": "float", "top": "bfloat16"}


def tiled(inputs: dict[str, str], body: str, outputs: dict[str, str], extents: str = "") -> VariantSpec:
    found = PERSISTENT.schedule(whole(inputs, body, outputs, extents=extents), TARGETS["sm_90"], {}, {})
    return next(variant for variant in found if variant.name.startswith("tiled_"))


def alone(variant: VariantSpec) -> int:
    heuristics = variant.launches[0].kernel.heuristics
    assert isinstance(heuristics, TiledHeuristics)
    return heuristics.alone


def rows_and_blocks(variant: VariantSpec, **sizes: int) -> tuple[int, int]:
    """The rows of a block, and the blocks."""
    (launch,) = variant.launches
    formulas = {p.name: p.arg.formula for p in launch.kernel.parameters if isinstance(p.arg, FormulaArg)}
    sizes[MULTIPROCESSORS] = 132
    return evaluate(formulas["tile_rows"], sizes), evaluate(launch.grid[0], sizes)  # type: ignore[return-value]


def text(variant: VariantSpec) -> str:
    origin = Origin(recipe="test", segment=0, fid_map={}, scheduler="inner_persistent", variant=variant.name)
    return render(variant.launches[0].kernel, origin).source


@pytest.mark.parametrize(
    ("inputs", "body", "outputs", "extents", "rows"),
    [
        ({"x": "float[M, N]"}, "y = x - max(x, dims=[1], keepdim=True)", {"y": "float"}, "", 8),
        ({"x": "float[M, N]", "w": "float[N]"}, "y = x * w - max(x, dims=[1], keepdim=True)", {"y": "float"}, "", 8),
        ({"x": "float[M, N]"}, "m = max(x, dims=[1], keepdim=True)\ny = x - m", {"y": "float", "m": "float"}, "", 8),
        ({"x": "float[M, N]"}, "m = max(x, dims=[1], keepdim=True)\ny = x - m", {"y": "float", "m": "float"},
         "N: {min: 2}", 0),
        (INPUTS, BODY, OUTPUTS, "", 8),
    ],
)  # fmt: skip
def test_threads_have_rows_to_themselves_where_some_have_one_element(
    inputs: dict[str, str], body: str, outputs: dict[str, str], extents: str, rows: int
) -> None:
    variant = tiled(inputs, body, outputs, extents)
    assert alone(variant) == rows
    assert ("if (alone_rows > 0)" in text(variant)) == (rows > 0)


@pytest.mark.parametrize("outputs", [{"y": "float"}, {"y": "float", "m": "float"}])
@pytest.mark.parametrize("rows", [1, 127, 128, 129, 1 << 16, 1 << 18, 1 << 20, 10**7])
def test_blocks_take_all_rows_and_threads_have_vectors_of_them_where_each_has_more_than_two(
    rows: int, outputs: dict[str, str]
) -> None:
    variant = tiled({"x": "float[M, N]"}, "m = max(x, dims=[1], keepdim=True)\ny = x - m", outputs)
    of_block, blocks = rows_and_blocks(variant, M=rows, N=1)
    threads = 132 * 128 * (variant.launches[0].kernel.min_blocks or 1)
    assert of_block == (1024 if rows > 2 * threads else 128)
    assert blocks == -(-rows // of_block)


def test_a_thread_takes_what_channels_of_its_run_have_before_the_row_is_reduced() -> None:
    source = text(tiled(CHANNELS, CHANNELS_BODY, CHANNELS_OUTPUTS))
    tiles = source[source.index("fb::copy_flat") :]
    assert tiles.index("const auto run1 = pieces.load(held, load1);") < tiles.index("fb::Max::identity")
    assert "fb::vector_of<kVec>(run1, pieces.left(col - first))" in tiles
    assert "pieces" not in text(tiled({"x": "float[M, N]"}, "y = x - max(x, dims=[1], keepdim=True)", {"y": "float"}))


def test_all_rows_of_a_thread_are_loaded_before_the_first_is_computed_and_sizes_are_known() -> None:
    source = text(tiled(INPUTS, BODY, OUTPUTS))
    section = source[source.index("if (alone_rows > 0)") : source.index("if (without_tile > 0)")]
    first, second = section.split("for (int u = 0; u < kRows; ++u) {")[1:]
    for fid in range(4):
        assert re.search(rf"\bT{fid}\b", first)
        assert not re.search(rf"\bT{fid}\b", second)
    assert "constexpr int64_t n3 = 1;" in section
    assert section.count("at.step();") == 2  # y depends on a coordinate
    assert "%" not in section
    assert " / " not in section


FLAT = {"x": "bfloat16[M, N]", "z": "bfloat16[M, N]", "w": "float[N]"}
FLAT_BODY = "m = max(x, dims=[1], keepdim=True)\ny = (cast(x, float) + m) * w + cast(z, float)"


@pytest.mark.parametrize(
    ("outputs", "vectors"), [({"y": "float"}, ["T0", "T1", "T{y}"]), ({"y": "float", "m": "bfloat16"}, [])]
)
def test_what_rows_have_side_by_side_moves_by_vectors_where_that_is_all(
    outputs: dict[str, str], vectors: list[str]
) -> None:
    """Other rows of a thread are as many apart as a block has threads, which read what lies side by side then."""
    task = whole(FLAT, FLAT_BODY, outputs)
    source = text(tiled(FLAT, FLAT_BODY, outputs))
    section = source[source.index("if (alone_rows > 0)") : source.index("if (without_tile > 0)")]
    tensors = ", ".join(vectors).format(y=task.outputs[0])
    assert (f"fb::begin_vectors<kMostRows>({tensors})" in section) == bool(vectors)
    assert ("constexpr int kStep = 1;" in section) == bool(vectors)
    assert section.count("fb::load_packed<kRows>(") == len(vectors[:-1])


def test_what_channels_have_is_loaded_before_the_first_element_is_computed_with_tiles_or_without() -> None:
    source = text(tiled(CHANNELS, CHANNELS_BODY, CHANNELS_OUTPUTS))
    single, few = source.index("if (alone_rows > 0)"), source.index("if (without_tile > 0)")
    rows_alone, untiled = source[single:few], source[few : source.index("fb::copy_flat")]
    assert rows_alone.count("e1[u] = r1[i2];") == untiled.count("e1[c] = r1[i2];") == 1
    assert rows_alone.count("= e1[u];") == untiled.count("= e1[c];") == 1
    assert untiled.count(" / size3") == 1


# --- What runs


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    channels = text_of(CHANNELS, CHANNELS_BODY, CHANNELS_OUTPUTS, name="channels", cases="A: 2, C: 3, K: 5, L: 7")
    texts = {
        "several": text_of(INPUTS, BODY, OUTPUTS, name="several", cases="A: 2, B: 3, C: 4, K: 15"),
        "channels": channels,
        "flat": text_of(FLAT, FLAT_BODY, {"y": "float"}, name="flat", cases="M: 2, N: 3"),
    }
    return compile_for_host(tmp_path_factory.mktemp("alone"), texts)


@pytest.mark.parametrize(
    "sizes",
    [(1, 1, 1), (1, 1, 128), (1, 129, 1), (127, 1, 1), (3, 7, 11), (5, 128, 2), (2, 129, 3), (2, 3, 400), (40, 2, 17),
     (3, 7, 191), (13, 11, 29)],
)  # fmt: skip
def test_coordinates_of_rows_on_three_axes(
    artifact: Path, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the largest, threads of one multiprocessor have several rows each."""
    monkeypatch.setenv("FUSEBUILD_MULTIPROCESSORS", "1")
    a, b, c = sizes
    plan = load(artifact / "several.fuse", target="host")
    random = torch.Generator().manual_seed(a * b * c)
    x = torch.randn(a, b, c, 1, generator=random).bfloat16()
    w, v = torch.randn(b, 1, generator=random), torch.randn(a, b, c, generator=random)
    z = torch.randint(-9, 9, (a, c), generator=random)
    assert chosen(plan, x, w, z, v).startswith("tiled_")
    y, rest = plan(x, w, z, v)
    wide = x.double()
    by_axis = torch.arange(b).view(1, b, 1, 1)
    expected = 2 * wide * w.view(1, b, 1, 1) + z.view(a, 1, c, 1) + v.view(a, b, c, 1) + by_axis
    torch.testing.assert_close(y.double(), expected.double(), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(rest.double(), 2 * wide.view(a, b, c), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("rows", [1, 8, 1537, 2047, 4096, 10001])
def test_vectors_of_rows(artifact: Path, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than 1536 rows are many for one multiprocessor."""
    monkeypatch.setenv("FUSEBUILD_MULTIPROCESSORS", "1")
    plan = load(artifact / "flat.fuse", target="host")
    random = torch.Generator().manual_seed(rows)
    x, z = (torch.randn(rows, 1, generator=random).bfloat16() for _ in range(2))
    w = torch.randn(1, generator=random)
    assert chosen(plan, x, z, w).startswith("tiled_")
    torch.testing.assert_close(plan(x, z, w).double(), 2 * x.double() * w + z.double(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, 1), (3, 129, 1, 1), (50, 7, 1, 1), (3, 7, 5, 1), (4, 9, 1, 3), (2, 3, 5, 7)]
)
def test_channels_of_any_number_of_pixels(artifact: Path, sizes: tuple[int, int, int, int]) -> None:
    a, c, k, pixels = sizes
    plan = load(artifact / "channels.fuse", target="host")
    random = torch.Generator().manual_seed(a * c * k)
    x = torch.randn(a, c, k, pixels, generator=random).bfloat16()
    w = torch.randn(c, k, generator=random)
    assert chosen(plan, x, w).startswith("tiled_")
    y, top = plan(x, w)
    expected = (x.double() - x.double().amax((2, 3), keepdim=True)) * w.double().view(1, c, k, 1)
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(top, x.amax((2, 3)))
