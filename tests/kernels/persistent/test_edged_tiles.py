"""Short rows of known odd lengths: how threads share them, which rows have them, and what they read and write."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from support.small_recipes import NORM, NORM_INPUTS, text_of, whole

torch = pytest.importorskip("torch")

from fusebuild.artifact.plan import FormulaArg  # noqa: E402
from fusebuild.errors import KnobError  # noqa: E402
from fusebuild.ir.formula import evaluate  # noqa: E402
from fusebuild.ir.fusion import Task  # noqa: E402
from fusebuild.kernels.common.spec import VariantSpec  # noqa: E402
from fusebuild.kernels.persistent import FAMILY as PERSISTENT  # noqa: E402
from fusebuild.kernels.persistent import edged_tiles  # noqa: E402
from fusebuild.kernels.persistent.edged_tiles import EdgedTilesChoice, EdgedTilesHeuristics  # noqa: E402
from fusebuild.kernels.persistent.long_rows import EDGED_COLUMNS  # noqa: E402
from fusebuild.kernels.render import Origin, render  # noqa: E402
from fusebuild.runtime.loader import load  # noqa: E402
from fusebuild.target.table import TARGETS  # noqa: E402
from support.host_artifacts import check_that_rows_beside_stay, chosen, compile_for_host, norm_operands  # noqa: E402

SIZES = (65, 127, 138, 255, 383, 509)
NAMED = f"N: {{values: [{', '.join(map(str, SIZES))}]}}"
TWO = "N: {values: [127, 255]}"
SM_90 = TARGETS["sm_90"]


def norm(extents: str, x: str = "bfloat16[M, N]", y: str = "bfloat16") -> Task:
    return whole({**NORM_INPUTS, "x": x}, NORM, {"y": y}, extents=extents)


def variants(task: Task, tuned: Mapping[str, Mapping[str, int]] | None = None, **sizes: int) -> dict[str, VariantSpec]:
    found = PERSISTENT.schedule(task, SM_90, sizes, tuned or {})
    return {variant.name: variant for variant in found}


def edged(columns: int, dtype: str = "bfloat16") -> VariantSpec | None:
    task = norm(f"N: {{values: [{columns}]}}", f"{dtype}[M, N]", dtype)
    return variants(task, N=columns).get("edged_tiles_vec8_int32")


def heuristics_of(variant: VariantSpec) -> EdgedTilesHeuristics:
    heuristics = variant.launches[0].kernel.heuristics
    assert isinstance(heuristics, EdgedTilesHeuristics)
    return heuristics


def tile_of(variant: VariantSpec, **sizes: int) -> tuple[int, int, int]:
    """Rows of a tile, blocks, and bytes of shared memory of a block."""
    (launch,) = variant.launches
    formulas = {p.name: p.arg.formula for p in launch.kernel.parameters if isinstance(p.arg, FormulaArg)}
    rows = evaluate(formulas["tile_rows"], sizes)  # type: ignore[arg-type]
    return rows, evaluate(launch.grid[0], sizes), evaluate(launch.shared_bytes, sizes)


@pytest.mark.parametrize(
    ("columns", "per_row", "groups", "chunks"),
    [(65, 16, 8, 1), (127, 8, 16, 2), (138, 16, 8, 2), (255, 16, 8, 2), (383, 16, 8, 3), (509, 16, 8, 4)],
)
def test_threads_that_share_a_row(columns: int, per_row: int, groups: int, chunks: int) -> None:
    variant = edged(columns)
    assert variant is not None
    heuristics = heuristics_of(variant)
    assert (heuristics.threads.per_row, heuristics.threads.rows, heuristics.chunks) == (per_row, groups, chunks)


@pytest.mark.parametrize("dtype", ["bfloat16", "float"])
def test_threads_have_all_of_a_row_wherever_it_begins(dtype: str) -> None:
    for columns in range(65, EDGED_COLUMNS, 17):
        variant = edged(columns, dtype)
        assert (variant is None) == (columns % 8 == 0)
        if variant is None:
            continue
        heuristics = heuristics_of(variant)
        for first in range(8):
            before = -first % 8
            vectors, after = divmod(columns - before, 8)
            assert heuristics.threads.per_row * heuristics.chunks >= vectors
            assert heuristics.threads.per_row >= before + after
        assert heuristics.threads.rows % 8 == 0
        rows, _, shared = tile_of(variant, M=1 << 20, N=columns)
        assert shared >= rows * columns * (2 if dtype == "bfloat16" else 4)
        assert 2 * (shared + 1024) <= SM_90.shared_bytes


def test_only_rows_of_known_lengths_have_them() -> None:
    assert "edged_tiles_vec8_int32" not in variants(norm(""), N=127)
    assert "edged_tiles_vec8_int32" not in variants(norm(NAMED), N=129)
    constant = whole({"x": "bfloat16[M, 127]"}, "y = x - max(x, dims=[1], keepdim=True)", {"y": "bfloat16"})
    assert list(variants(constant)) == ["edged_tiles_vec8_int32", "anywhere_vec8_int64"]
    assert edged(63) is None
    assert edged(1039) is None


def test_where_a_length_is_named_others_have_variants_too() -> None:
    found = variants(norm(NAMED), M=4, N=127)
    assert ("eq", "N", 127) in found["edged_tiles_vec8_int32"].guard
    assert list(found).index("edged_tiles_vec8_int32") < list(found).index("tiled_vec8_int32")
    assert "edged1_vec8_int32" in found


def test_tiles_have_fewer_rows_where_blocks_would_be_few() -> None:
    variant = edged(127)
    assert variant is not None
    tiles = [tile_of(variant, M=rows, N=127)[:2] for rows in (10, 1 << 15, 1 << 20)]
    assert tiles == [(16, 1), (32, 1024), (64, 16384)]


def test_the_kernel_knows_the_length() -> None:
    variant = edged(127)
    assert variant is not None
    origin = Origin(recipe="test.yaml", segment=0, fid_map={}, scheduler="inner_persistent", variant=variant.name)
    kernel = render(variant.launches[0].kernel, origin)
    assert "constexpr Index columns = 127;" in kernel.text
    assert [each.name for each in kernel.parameters if isinstance(each.arg, FormulaArg)] == ["n0", "tile_rows"]


KNOBS = {"threads_per_row": 8, "rows_per_block": 16, "min_blocks": 4, "turns": 4, "holds_columns": True}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"threads_per_row": 64, "rows_per_block": 8}, "rows of 64 threads share no block here"),
        ({"rows_per_block": 20}, "rows 8 apart begin at the same place of a vector"),
        ({"turns": 64}, "bytes of shared memory are more than 232448"),
    ],
)
def test_a_choice_that_no_kernel_can_be_made_with_is_an_error(changed: dict[str, int], message: str) -> None:
    with pytest.raises(KnobError, match=message):
        variants(norm(NAMED), {"edged_tiles_vec8_int32": {**KNOBS, **changed}}, N=127)


def test_each_edge_needs_a_thread() -> None:
    with pytest.raises(KnobError, match="a row has up to 9 elements beside its vectors"):
        variants(norm(NAMED), {"edged_tiles_vec8_int32": KNOBS}, N=65)


def test_columns_that_are_held_have_to_be_there() -> None:
    task = whole({"x": "bfloat16[M, N]"}, "y = x - max(x, dims=[1], keepdim=True)", {"y": "bfloat16"}, extents=NAMED)
    with pytest.raises(KnobError, match="nothing changes along columns alone"):
        variants(task, {"edged_tiles_vec8_int32": KNOBS}, N=127)


def test_rows_of_a_block_stay_where_threads_change() -> None:
    choice = EdgedTilesChoice(**KNOBS)
    assert choice.stepped("threads_per_row", 16).rows_per_block == 16
    assert choice.stepped("threads_per_row", 16).min_blocks == 2
    assert choice.stepped("turns", 8).min_blocks == 4


# --- What runs


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of tiles that have all their rows, however few blocks there are."""
    draw = "r = rand_like(x, 3, 1)\nm = max(x, dims=[1], keepdim=True)\ny = where(r > 0.5, x - m, 0.0)"
    sums = "s = sum(x, dims=[1])\ny = x - broadcast(s, is_broadcast_dim=[False, True])"
    cases = "M: 4, N: 255"
    wide = {**NORM_INPUTS, "x": "float[M, N]"}
    texts = {
        "norm": text_of(NORM_INPUTS, NORM, {"y": "bfloat16"}, name="norm", cases=cases, extents=NAMED),
        "wide": text_of(wide, NORM, {"y": "float"}, name="wide", cases=cases, extents=NAMED),
        "drawn": text_of({"x": "float[M, N]"}, draw, {"y": "float"}, name="drawn", cases=cases, extents=TWO),
        "sums": text_of(
            {"x": "double[M, N]"}, sums, {"y": "float", "s": "double"}, name="sums", cases=cases, extents=TWO
        ),
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edged_tiles, "BLOCKS_WANTED", 1)
        return compile_for_host(tmp_path_factory.mktemp("edged_tiles"), texts)


def expected(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    wide = x.double()
    return (wide - wide.amax(1, keepdim=True)).exp() * w.double() + b.double()


@pytest.mark.parametrize("columns", SIZES)
@pytest.mark.parametrize("name", ["norm", "wide"])
def test_any_number_of_rows(artifacts: Path, name: str, columns: int) -> None:
    plan = load(artifacts / f"{name}.fuse", target="host")
    for rows in (1, 3, 33, 139):
        x, *others = norm_operands(rows, columns)
        inputs = [x.float() if name == "wide" else x, *others]
        assert chosen(plan, *inputs).endswith("edged_tiles_vec8_int32")
        y = plan(*inputs)
        error = 1e-6 if name == "wide" else 8e-3
        torch.testing.assert_close(y.double(), expected(*inputs), rtol=error, atol=error)


@pytest.mark.parametrize("columns", SIZES)
def test_rows_beside_are_not_written(artifacts: Path, columns: int) -> None:
    plan = load(artifacts / "norm.fuse", target="host")
    check_that_rows_beside_stay(plan, *norm_operands(37, columns))


@pytest.mark.parametrize("name", ["norm", "wide"])
def test_weights_that_begin_anywhere_are_another_ways(artifacts: Path, name: str) -> None:
    plan = load(artifacts / f"{name}.fuse", target="host")
    x, w, b = norm_operands(9, 127)
    x = x.float() if name == "wide" else x
    for by in (1, 3, 6):
        moved = [torch.cat([each.new_zeros(by), each])[by:] for each in (w, b)]
        assert chosen(plan, x, *moved) == "tiled_vec8_int32"
        error = 8e-3 if name == "norm" else 1e-6
        torch.testing.assert_close(plan(x, *moved), plan(x, w, b), rtol=error, atol=error)


def test_results_of_rows_leave_side_by_side(artifacts: Path) -> None:
    plan = load(artifacts / "sums.fuse", target="host")
    for columns in (127, 255):
        x = torch.randint(-9, 9, (77, columns), generator=torch.Generator().manual_seed(columns)).double()
        assert chosen(plan, x).endswith("edged_tiles_vec4_int32")
        y, s = plan(x)
        assert torch.equal(s, x.sum(1))
        assert torch.equal(y, (x - x.sum(1, keepdim=True)).float())


def test_what_is_drawn_is_what_other_variants_draw(artifacts: Path) -> None:
    plan = load(artifacts / "drawn.fuse", target="host")
    for columns in (127, 255):
        flat = torch.randn(19 * columns + 1, generator=torch.Generator().manual_seed(columns))
        x, elsewhere = flat[: 19 * columns].view(19, columns), flat.new_zeros(19 * columns + 1)[1:].view(19, columns)
        elsewhere.copy_(x)
        assert chosen(plan, x).endswith("edged_tiles_vec4_int32")
        assert chosen(plan, elsewhere).startswith("anywhere_vec")
        assert torch.equal(plan(x), plan(elsewhere))
