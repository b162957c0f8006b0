"""Short rows in tiles: how many threads and rows a tile has, which rows it takes, and what it reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.small_recipes import NORM, NORM_INPUTS, text_of, whole

torch = pytest.importorskip("torch")

from fusebuild.artifact.plan import FormulaArg  # noqa: E402
from fusebuild.errors import KnobError  # noqa: E402
from fusebuild.ir.formula import MULTIPROCESSORS, Formula, evaluate  # noqa: E402
from fusebuild.ir.fusion import Task  # noqa: E402
from fusebuild.kernels.common.spec import VariantSpec  # noqa: E402
from fusebuild.kernels.persistent import FAMILY as PERSISTENT  # noqa: E402
from fusebuild.kernels.persistent.long_rows import FEWEST_COLUMNS  # noqa: E402
from fusebuild.kernels.persistent.tiled import WIDEST_TILE_BYTES, TiledHeuristics  # noqa: E402
from fusebuild.kernels.render import Origin, render  # noqa: E402
from fusebuild.runtime.loader import load  # noqa: E402
from fusebuild.target.table import TARGETS  # noqa: E402
from support.host_artifacts import check_that_rows_beside_stay, chosen, compile_for_host, norm_operands  # noqa: E402

SM_90 = TARGETS["sm_90"]


def norm(x: str = "bfloat16[M, N]", y: str = "bfloat16", extents: str = "") -> Task:
    return whole({**NORM_INPUTS, "x": x}, NORM, {"y": y}, extents=extents)


def tiled(task: Task, tuned: Mapping[str, Mapping[str, int]] | None = None) -> VariantSpec | None:
    found = PERSISTENT.schedule(task, SM_90, {}, tuned or {})
    return next((variant for variant in found if variant.name.startswith("tiled_")), None)


LONGEST_APART = 272
"""Elements of the longest rows that a warp takes several of, apart from each other, and that come in stages."""

NORM_LAUNCH = tiled(norm()).launches[0]  # type: ignore[union-attr]


def kernel_sizes(variant: VariantSpec, **sizes: int) -> tuple[int, int, int, int]:
    """Threads of a row, rows of a tile, blocks, and bytes of shared memory of a block."""
    (launch,) = variant.launches
    formulas = {p.name: p.arg.formula for p in launch.kernel.parameters if isinstance(p.arg, FormulaArg)}
    sizes[MULTIPROCESSORS] = 132
    shift, rows = (evaluate(formulas[name], sizes) for name in ("row_shift", "tile_rows"))  # type: ignore[arg-type]
    return 1 << shift, rows, evaluate(launch.grid[0], sizes), evaluate(launch.shared_bytes, sizes)


@pytest.mark.parametrize(
    ("columns", "threads"),
    [
        (1, 1),
        (34, 1),
        (35, 2),
        (68, 2),
        (69, 4),
        (136, 4),
        (137, 8),
        (272, 8),
        (273, 16),
        (544, 16),
        (545, 32),
        (1001, 32),
        (1088, 32),
    ],
)
def test_as_many_threads_share_a_row_as_hold_it(columns: int, threads: int) -> None:
    variant = tiled(norm())
    assert variant is not None
    rows = 1 << 20
    per_row, tile_rows, blocks, _ = kernel_sizes(variant, M=rows, N=columns)
    heuristics = variant.launches[0].kernel.heuristics
    assert isinstance(heuristics, TiledHeuristics)
    assert per_row == threads
    assert threads * heuristics.most >= columns
    assert tile_rows * threads % heuristics.threads == 0  # all threads have as many rows
    assert blocks == -(-rows // tile_rows)


def argument(name: str, rows: int, columns: int) -> int:
    """What the norm's kernel gets for its parameter ``name``."""
    (formula,) = (p.arg.formula for p in NORM_LAUNCH.kernel.parameters
                  if p.name == name and isinstance(p.arg, FormulaArg))  # fmt: skip
    return evaluate(formula, {"M": rows, "N": columns, MULTIPROCESSORS: 132})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("columns", "rows"),
    [(35, (64, 64)), (69, (32, 64)), (136, (32, 64)), (137, (16, 64)), (272, (16, 64))],
)
def test_rows_that_a_warp_takes_together_are_apart_where_there_are_many(columns: int, rows: tuple[int, int]) -> None:
    """Six turns of 64 rows for each multiprocessor are many."""
    assert tuple(argument("turn_rows", M, columns) for M in (6 * 64 * 132, 6 * 64 * 132 + 1)) == rows


@pytest.mark.parametrize(
    ("rows", "columns", "turns"), [(100_000, 15, 1), (200_000, 15, 1), (400_000, 15, 1), (1_000_000, 15, 2)]
)
def test_as_few_tiles_as_run_at_a_time_take_all_rows(rows: int, columns: int, turns: int) -> None:
    """Or twice as many, where those would be too large."""
    variant = tiled(norm())
    assert variant is not None
    _, _, blocks, _ = kernel_sizes(variant, M=rows, N=columns)
    at_a_time = variant.launches[0].kernel.min_blocks * 132
    assert (turns - 1) * at_a_time < blocks <= turns * at_a_time


@given(rows=st.integers(1, 1 << 22), columns=st.integers(1, 1088))
def test_a_stage_is_whole_turns_of_a_blocks_threads_or_the_tile(rows: int, columns: int) -> None:
    shift, tile_rows, turn_rows = (argument(name, rows, columns) for name in ("row_shift", "tile_rows", "turn_rows"))
    assert turn_rows % (128 >> shift) == 0
    if columns > LONGEST_APART:
        assert turn_rows > tile_rows
    else:
        assert tile_rows % turn_rows == 0


def without_tiles(rows: int, columns: int) -> tuple[int, int]:
    """The threads of a row where it is in no tile, or 0, and the blocks."""
    variant = tiled(norm())
    assert variant is not None
    (launch,), sizes = variant.launches, {"M": rows, "N": columns, MULTIPROCESSORS: 132}
    (threads,) = (p.arg.formula for p in launch.kernel.parameters
                  if p.name == "without_tile" and isinstance(p.arg, FormulaArg))  # fmt: skip
    return evaluate(threads, sizes), evaluate(launch.grid[0], sizes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rows", "columns", "threads"),
    [
        (1000, 2, 2),
        (1000, 9, 16),
        (1000, 31, 32),
        (512 * 132, 4, 2),  # twice as many threads would take more than two turns
        (6 * 128 * 132 // 16, 127, 32),
        (6 * 128 * 132 // 16 + 1, 127, 16),
        (9088, 14, 8),  # twice as many would have less than two elements, and take a turn more
        (6 * 128 * 132 // 8 + 1, 60, 8),
        (10, 512, 32),
    ],
)
def test_few_rows_are_in_no_tiles(rows: int, columns: int, threads: int) -> None:
    assert without_tiles(rows, columns) == (threads, -(-rows * threads // 128))


@pytest.mark.parametrize(("rows", "columns"), [(512 * 132 + 1, 1), (10, 513), (60_000, 37), (60_000, 14), (8000, 127)])
def test_many_rows_and_long_ones_are_in_tiles(rows: int, columns: int) -> None:
    variant = tiled(norm())
    assert variant is not None
    _, tile_rows, blocks, _ = kernel_sizes(variant, M=rows, N=columns)
    assert without_tiles(rows, columns) == (0, blocks)
    assert blocks == -(-rows // tile_rows)


def test_threads_hold_no_more_of_a_row_than_they_have_registers_for() -> None:
    for inputs, most in ((NORM_INPUTS, 16), ({**NORM_INPUTS, "z": "bfloat16[M, N]", "u": "bfloat16[M, N]"}, 8)):
        body = f"{NORM}\nr = y * z * u" if "z" in inputs else NORM
        variant = tiled(whole(inputs, body, {"r" if "z" in inputs else "y": "bfloat16"}))
        assert variant is not None
        heuristics = variant.launches[0].kernel.heuristics
        assert isinstance(heuristics, TiledHeuristics)
        assert heuristics.untiled == most


def test_tiles_have_fewer_rows_where_blocks_would_be_few() -> None:
    variant = tiled(norm())
    assert variant is not None
    rows = [kernel_sizes(variant, M=rows, N=7)[1] for rows in (10, 1 << 18, 1 << 24)]
    assert rows == [128, 384, 2304]


@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
def test_blocks_have_room_for_whatever_they_copy(dtype: str) -> None:
    variant = tiled(norm(f"{dtype}[M, N]", dtype))
    assert variant is not None
    bytes_of = {"bfloat16": 2, "float": 4}[dtype]
    guard: Formula = variant.guard[-1]
    assert isinstance(guard, tuple)
    for columns in range(1, int(str(guard[2])) + 1):
        _, rows, _, shared = kernel_sizes(variant, M=1 << 24, N=columns)
        vectors = -(-(rows * columns + 7) // 8) * 8
        assert shared >= vectors * bytes_of + 8 * columns
        assert shared <= WIDEST_TILE_BYTES + 12 * columns


def test_rows_known_to_be_longer_have_none() -> None:
    assert tiled(norm(extents="N: {min: 1089}")) is None
    assert tiled(norm(extents="N: {min: 1088}")) is not None


def test_an_output_takes_the_place_of_an_input_as_wide() -> None:
    for dtype, is_in_place in (("bfloat16", True), ("float", False)):
        variant = tiled(norm(y=dtype))
        assert variant is not None
        heuristics = variant.launches[0].kernel.heuristics
        assert isinstance(heuristics, TiledHeuristics)
        assert bool(heuristics.in_place) == is_in_place


@pytest.mark.parametrize(
    ("body", "w", "x"),
    [
        ("y = (x - m) * w", "float", "float"),
        ("y = (x - m) * cast(w, float)", "float", "float"),
        ("y = (cast(x, double) - m) * cast(w, float)", "float", "__half"),
        ("y = (x - m) * cast(w, double)", "__half", "float"),
        ("y = (x - m) * w + cast(w, double)", "__half", "float"),
    ],
)
def test_threads_have_floats_of_what_they_take_as_floats_alone(body: str, w: str, x: str) -> None:
    task = whole({"x": "half[M, N]", "w": "half[N]"}, f"m = max(x, dims=[1], keepdim=True)\n{body}", {"y": "half"})
    variant = tiled(task)
    assert variant is not None
    origin = Origin(recipe="test.yaml", segment=0, fid_map={}, scheduler="inner_persistent", variant=variant.name)
    text = render(variant.launches[0].kernel, origin).text
    assert f"{w}* columns1 = " in text
    assert f"const fb::Vec<{w}, kVec> v1 = " in text
    assert f"const {w} t1 = v1[k];" in text
    assert "__half* tile0 = " in text
    assert f"const {x} t0 = v0[k];" in text


def test_a_warp_meets_before_the_place_of_what_one_thread_looked_up_is_taken() -> None:
    """Shuffles order no memory accesses (racecheck found a write after a read)."""
    body = "m = max(x, dims=[1], keepdim=True)\nhit = sum(where(iota(N) == labels, x, 0.0), dims=[1], keepdim=True)"
    inputs = {"x": "bfloat16[M, N]", "labels": "int64[M, 1]"}
    for dtype, meets in (("bfloat16", True), ("float", False)):
        task = whole(inputs, f"{body}\ny = x - m - hit", {"y": dtype})
        variant = tiled(task)
        assert variant is not None
        origin = Origin(recipe="test", segment=0, fid_map={}, scheduler="inner_persistent", variant=variant.name)
        text = render(variant.launches[0].kernel, origin).source
        assert ("fb::sync_warp();" in text) == meets


def test_a_choice_that_no_block_has_memory_for_is_an_error() -> None:
    knobs = {"threads": 128, "held": 32, "tile_bytes": 1 << 20, "min_blocks": 2}
    with pytest.raises(KnobError, match="bytes of shared memory are more than 232448"):
        tiled(norm(), {"tiled_vec8_int32": knobs})


# --- What runs


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = "r = rand_like(x, 3, 1)\nm = max(x, dims=[1], keepdim=True)\ny = where(r > 0.5, x - m, 0.0)"
    texts = {
        "norm": text_of(NORM_INPUTS, NORM, {"y": "bfloat16"}, name="norm", cases="M: 4, N: 511"),
        "widened": text_of(NORM_INPUTS, NORM, {"y": "float"}, name="widened", cases="M: 4, N: 511"),
        "drawn": text_of({"x": "float[M, N]"}, draw, {"y": "float"}, name="drawn", cases="M: 4, N: 511"),
    }
    return compile_for_host(tmp_path_factory.mktemp("tiled"), texts)


def expected(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    wide = x.double()
    return (wide - wide.amax(1, keepdim=True)).exp() * w.double() + b.double()


@pytest.mark.parametrize("columns", [1, 2, 3, 4, 7, 12, 31, 33, 34, 35, 63, 127, 138, 255, 271, 273, 513, 1001, 1087])
@pytest.mark.parametrize("name", ["norm", "widened"])
def test_rows_of_any_length_and_any_number_of_them(artifacts: Path, name: str, columns: int) -> None:
    plan = load(artifacts / f"{name}.fuse", target="host")
    (segment,) = plan.plan.target("host").segments
    index = [variant.name for variant in segment.variants].index("tiled_vec8_int32")
    for rows in (1, 5, 130, 277, *([1031] if columns < 64 else [])):
        inputs = norm_operands(rows, columns)
        assert (chosen(plan, *inputs) == "tiled_vec8_int32") == (columns <= FEWEST_COLUMNS)
        y = plan(*inputs, variant=index)
        error = 1e-6 if name == "widened" else 8e-3
        torch.testing.assert_close(y.double(), expected(*inputs), rtol=error, atol=error)


@pytest.mark.parametrize("columns", [2, 5, 9, 33, 70, 301])
def test_tiles_of_several_stages(artifacts: Path, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """One multiprocessor has few tiles, which are large."""
    monkeypatch.setenv("FUSEBUILD_MULTIPROCESSORS", "1")
    plan = load(artifacts / "norm.fuse", target="host")
    (segment,) = plan.plan.target("host").segments
    index = [variant.name for variant in segment.variants].index("tiled_vec8_int32")
    for rows in (643, 1500):
        inputs = norm_operands(rows, columns)
        torch.testing.assert_close(plan(*inputs, variant=index).double(), expected(*inputs), rtol=8e-3, atol=8e-3)


@pytest.mark.parametrize("columns", [1, 7, 9, 127, 1001])
def test_rows_beside_are_not_written(artifacts: Path, columns: int) -> None:
    plan = load(artifacts / "norm.fuse", target="host")
    check_that_rows_beside_stay(plan, *norm_operands(131, columns))


def test_what_is_drawn_is_what_other_variants_draw(artifacts: Path) -> None:
    plan = load(artifacts / "drawn.fuse", target="host")
    for columns in (3, 127, 501):
        flat = torch.randn(9 * columns + 1, generator=torch.Generator().manual_seed(columns))
        x, elsewhere = flat[: 9 * columns].view(9, columns), flat.new_zeros(9 * columns + 1)[1:].view(9, columns)
        elsewhere.copy_(x)
        assert chosen(plan, x) == f"{'tiled' if columns <= FEWEST_COLUMNS else 'edged1'}_vec4_int32"
        assert chosen(plan, elsewhere).startswith("anywhere_vec")
        assert torch.equal(plan(x), plan(elsewhere))
