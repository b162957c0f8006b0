"""Sizes that no vector divides: columns whose vectors begin anywhere, rows in pieces, rows of up to four elements."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.host_artifacts import chosen, compile_for_host
from support.places import ROOT
from support.small_recipes import recipe_of, text_of

torch = pytest.importorskip("torch")

from fusebuild.pipeline import plan_recipe  # noqa: E402
from fusebuild.runtime.loader import LoadedPlan, load  # noqa: E402
from fusebuild.target.table import TARGETS  # noqa: E402

MOMENTS = "m, s, _ = welford(x, dims=[{}])"
FLOATS = {"m": "float", "s": "float"}
OF_COLUMNS = f"{MOMENTS.format(0)}\ntotal = sum(x, dims=[0])\ntop = max(x, dims=[0])"
OF_EACH = {**FLOATS, "total": "float", "top": "bfloat16"}
BESIDE = """
y = sum(x * broadcast(w, is_broadcast_dim=[True, False, True]), dims=[0])
z = sum(x * broadcast(u, is_broadcast_dim=[True, True, False]), dims=[0])
"""
CENTERED = "y = sum(x - broadcast(c, is_broadcast_dim=[True, False, True]), dims=[0, 2])\nz = sum(x, dims=[0, 2])"
GROUPED = """\
weight = broadcast(w, is_broadcast_dim=[False, True, False])
y = sum(x * weight - broadcast(c, is_broadcast_dim=[False, False, True]), dims=[2])
"""
OF_ROWS = "m, s, _ = welford(x, dims=[0, 2])\ntotal = sum(x, dims=[0, 2])\ntop = max(x, dims=[0, 2])"


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    three = {"x": "bfloat16[N, C, H]"}
    texts = {
        "columns": text_of({"x": "bfloat16[M, N]"}, MOMENTS.format(0), FLOATS, name="columns"),
        "scaled": text_of(
            {"x": "half[M, N]", "w": "float[N]"}, "y = sum(x * w, dims=[0])", {"y": "float"}, name="scaled"
        ),
        "several": text_of({"x": "bfloat16[M, N]"}, OF_COLUMNS, OF_EACH, name="several"),
        "between": text_of({"x": "bfloat16[A, M, N]"}, "y = sum(x, dims=[1])", {"y": "float"}, name="between"),
        "inner": text_of({"x": "bfloat16[A, M, N]"}, MOMENTS.format(1), FLOATS, name="inner"),
        "beside": text_of(
            {"x": "half[N, C, H]", "w": "float[C]", "u": "float[H]"},
            BESIDE,
            {"y": "float", "z": "float"},
            name="beside",
        ),
        "centered": text_of({**three, "c": "float[C]"}, CENTERED, {"y": "float", "z": "float"}, name="centered"),
        "grouped": text_of(
            {"x": "bfloat16[A, M, N]", "w": "float[A, N]", "c": "float[A, M]"}, GROUPED, {"y": "float"}, name="grouped"
        ),
        "sums": text_of({"x": "float[M, N]"}, "t = sum(x, dims=[1])", {"t": "float"}, name="sums"),
        "images": text_of(three, OF_ROWS, OF_EACH, name="images"),
        "channels": text_of(three, MOMENTS.format("0, 2"), FLOATS, name="channels"),
        **{name: (ROOT / "recipes" / f"{name}.yaml").read_text() for name in ("welford", "argmax")},
    }
    return compile_for_host(tmp_path_factory.mktemp("odd"), texts)


def numbers(*shape: int, dtype: Any = torch.bfloat16) -> Any:
    """Numbers whose mean is far from zero."""
    return (torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))) + 9.0).to(dtype)


def floats(count: int) -> Any:
    return numbers(count, dtype=torch.float)


def check_moments(x: Any, mean: Any, squares: Any, *dims: int) -> None:
    exact = x.double()
    torch.testing.assert_close(mean.double(), exact.mean(dims), rtol=1e-6, atol=0)
    wanted = ((exact - exact.mean(dims, keepdim=True)) ** 2).sum(dims)
    torch.testing.assert_close(squares.double(), wanted, rtol=1e-5, atol=1e-9)


def opened(artifacts: Path, name: str) -> LoadedPlan:
    return load(artifacts / f"{name}.fuse", target="host")


def run(plan: LoadedPlan, name: str, *inputs: Any) -> Any:
    """What the variant called ``name`` of a plan of one segment makes of ``inputs``, which have to fit it."""
    names = [variant.name for variant in plan.plan.target("host").segments[0].variants]
    return plan(*inputs, variant=names.index(name))


class TestColumns:
    def test_any_variant_that_may_have_rows_without_columns_gives_no_sums(self, artifacts: Path) -> None:
        plan, x = opened(artifacts, "scaled"), numbers(9000, 0, dtype=torch.half)
        (allowed,) = plan.variants_for(x, floats(0))
        assert len(allowed) > 1
        for variant in allowed:
            assert plan(x, floats(0), variant=variant).shape == (0,)

    def test_narrow_rows_are_folded_where_shared_memory_has_room(self) -> None:
        """nvcc counts 0xc800 bytes for the second one, of 0xc000 that a kernel may declare."""
        sums = "total = sum(x, dims=[0])\ntop = max(x, dims=[0])"
        more = f"{sums}\nnans = sum(isnan(x), dims=[0])\ninfs = sum(isinf(x), dims=[0])"
        few, many = {"total": "float", "top": "bfloat16"}, {"nans": "int64", "infs": "int64"}
        for body, outputs, is_folded in ((sums, few, True), (more, {**few, **many}, False)):
            recipe = recipe_of(text_of({"x": "bfloat16[M, N]"}, body, outputs))
            (segment,) = plan_recipe(recipe, [TARGETS["sm_90"]]).plan.targets[0].segments
            assert any(variant.name.startswith("folded") for variant in segment.variants) == is_folded

    @pytest.mark.parametrize(("rows", "columns"), [(1, 1), (5, 9), (700, 27), (3, 2001), (2049, 131), (40, 15)])
    def test_moments_of_vectors_that_begin_anywhere(self, artifacts: Path, rows: int, columns: int) -> None:
        plan, x = opened(artifacts, "columns"), numbers(rows, columns)
        check_moments(x, *run(plan, "realigned_vec8_int32", x), 0)
        check_moments(x, *plan(x), 0)

    @pytest.mark.parametrize(
        ("rows", "columns"), [(512, 1), (515, 3), (9001, 15), (4099, 7), (1027, 2), (16384, 1), (70001, 9)]
    )
    def test_moments_of_narrow_ones_that_are_folded(self, artifacts: Path, rows: int, columns: int) -> None:
        plan, x = opened(artifacts, "columns"), numbers(rows, columns)
        check_moments(x, *run(plan, "folded_vec8_int32", x), 0)

    def test_which_columns_are_folded(self, artifacts: Path) -> None:
        plan = opened(artifacts, "columns")
        assert chosen(plan, numbers(2**18, 1)) == "small_scalar_int64"
        assert chosen(plan, numbers(2**18 + 1, 1)) == "single_scalar_int64"
        assert chosen(plan, numbers(2**23, 1)) == "single_scalar_int64"
        assert chosen(plan, numbers(2**23 + 1, 1)) == "folded_vec8_int32"
        assert chosen(plan, numbers(2**18 + 1, 33)) == "realigned_vec8_int32"

    @pytest.mark.parametrize(("rows", "columns"), [(7, 1), (33, 77), (600, 129)])
    def test_what_is_read_beside_them_begins_anywhere_too(self, artifacts: Path, rows: int, columns: int) -> None:
        plan, x, w = opened(artifacts, "scaled"), numbers(rows, columns, dtype=torch.half), floats(columns)
        wanted = (x.double() * w.double()).sum(0)
        for name in ("realigned_vec8_int32", "small_scalar_int64"):
            # All terms are positive: each of the additions rounds by at most 2^-24 of the sum.
            torch.testing.assert_close(run(plan, name, x, w).double(), wanted, rtol=rows * 2**-24, atol=0)

    @pytest.mark.parametrize(
        "sizes", [(1, 512, 1), (3, 515, 7), (11, 600, 3), (2, 512, 63), (70, 513, 1), (9, 777, 33), (2, 40001, 5)]
    )
    def test_rows_on_both_sides_that_are_folded(self, artifacts: Path, sizes: tuple[int, int, int]) -> None:
        plan, x = opened(artifacts, "between"), numbers(*sizes)
        torch.testing.assert_close(run(plan, "folded_vec8_int32", x).double(), x.double().sum(1))

    @pytest.mark.parametrize("sizes", [(3, 5, 7), (2, 300, 33), (5, 1, 1), (3, 511, 3)])
    def test_rows_on_both_sides(self, artifacts: Path, sizes: tuple[int, int, int]) -> None:
        x = numbers(*sizes)
        for name in ("realigned_vec8_int32", "small_scalar_int64"):
            torch.testing.assert_close(run(opened(artifacts, "between"), name, x).double(), x.double().sum(1))
            check_moments(x, *run(opened(artifacts, "inner"), name, x), 1)

    @pytest.mark.parametrize("sizes", [(1, 1, 1), (130, 66, 1), (200, 9, 31), (7, 3, 1001), (513, 3, 5), (3, 77, 99)])
    def test_vectors_lie_across_no_rows_of_columns_that_differ(
        self, artifacts: Path, sizes: tuple[int, int, int]
    ) -> None:
        """A value of one of the columns' two axes is not next to that of the next column where the other axis ends."""
        plan, (_, channels, height) = opened(artifacts, "beside"), sizes
        x, w, u = numbers(*sizes, dtype=torch.half), floats(channels), floats(height)
        for variant in plan.variants_for(x, w, u)[0]:
            y, z = plan(x, w, u, variant=variant)
            torch.testing.assert_close(y.double(), (x.double() * w[:, None]).sum(0), rtol=1e-5, atol=1e-4)
            torch.testing.assert_close(z.double(), (x.double() * u).sum(0), rtol=1e-5, atol=1e-4)

    @pytest.mark.parametrize("columns", [16, 64, 72])
    def test_narrow_blocks_where_rows_are_few(self, artifacts: Path, columns: int) -> None:
        plan = opened(artifacts, "columns")
        for rows in (1, 33, 65, 129, 257, 600):
            x = numbers(rows, columns)
            check_moments(x, *run(plan, "vec8_int32", x), 0)

    @pytest.mark.parametrize("rows", [127, 128, 129, 1024, 1025, 2049, 4096, 4097])
    @pytest.mark.parametrize("columns", [1, 5, 33])
    def test_few_elements_are_read_one_by_one(self, artifacts: Path, rows: int, columns: int) -> None:
        plan, x = opened(artifacts, "columns"), numbers(rows, columns)
        assert chosen(plan, x) == "small_scalar_int64"
        check_moments(x, *plan(x), 0)

    @pytest.mark.parametrize("columns", [1, 2, 3, 8, 16, 24, 32, 64, 128, 129])
    @pytest.mark.parametrize("rows", [7, 700, 3001])
    def test_lanes_share_out_what_columns_have(self, artifacts: Path, rows: int, columns: int) -> None:
        plan, x = opened(artifacts, "several"), numbers(rows, columns)
        for variant in plan.variants_for(x)[0]:
            mean, squares, total, top = plan(x, variant=variant)
            check_moments(x, mean, squares, 0)
            torch.testing.assert_close(total.double(), x.double().sum(0))
            assert torch.equal(top, x.amax(0))


class TestPieces:
    @pytest.mark.parametrize(
        "sizes", [(1, 1, 1), (2, 3, 7), (3, 5, 9), (7, 64, 1), (8, 9, 9), (1, 17, 255), (130, 3, 11), (2, 2, 20001)]
    )
    def test_each_piece_has_aligned_vectors_around_it(self, artifacts: Path, sizes: tuple[int, int, int]) -> None:
        plan, x = opened(artifacts, "images"), numbers(*sizes)
        assert chosen(plan, x) == "pieces_vec8_int32"
        mean, squares, total, top = plan(x)
        check_moments(x, mean, squares, 0, 2)
        torch.testing.assert_close(total.double(), x.double().sum((0, 2)))
        assert torch.equal(top, x.amax((0, 2)))

    @pytest.mark.parametrize("sizes", [(8, 64, 1), (9, 64, 7), (200, 61, 2), (131, 75, 17), (300, 8, 8), (32, 5, 32)])
    def test_columns_of_many_short_pieces_are_reduced_first(self, artifacts: Path, sizes: tuple[int, int, int]) -> None:
        plan, x = opened(artifacts, "channels"), numbers(*sizes)
        assert chosen(plan, x) == "columns_vec8_int32"
        check_moments(x, *plan(x), 0, 2)

    @pytest.mark.parametrize("sizes", [(1, 1, 1), (3, 5, 7), (130, 66, 1), (200, 9, 31), (7, 3, 1001), (2, 129, 33)])
    def test_a_row_has_values_of_its_own(self, artifacts: Path, sizes: tuple[int, int, int]) -> None:
        plan, x, center = opened(artifacts, "centered"), numbers(*sizes), floats(sizes[1])
        assert chosen(plan, x, center) == "pieces_vec8_int32"
        for variant in plan.variants_for(x, center)[0]:
            y, z = plan(x, center, variant=variant)
            torch.testing.assert_close(z.double(), x.double().sum((0, 2)))
            wanted = (x.double() - center[:, None]).sum((0, 2))
            torch.testing.assert_close(y.double(), wanted, rtol=1e-5, atol=1e-3)


class TestShortRows:
    @pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 6, 7, 8, 11, 16, 17, 31, 33, 63, 64, 65, 127, 129, 255, 256])
    @pytest.mark.parametrize("rows", [1, 9, 127, 131])
    def test_a_block_has_them_in_shared_memory(self, artifacts: Path, rows: int, columns: int) -> None:
        self.check(artifacts, numbers(rows, columns))

    @pytest.mark.parametrize(("rows", "columns"), [(16383, 65), (16384, 3), (16385, 65), (16387, 129), (16411, 64)])
    def test_as_many_threads_share_one_as_there_are_for_it(self, artifacts: Path, rows: int, columns: int) -> None:
        self.check(artifacts, numbers(rows, columns))

    @pytest.mark.parametrize("columns", [1, 2, 3, 7, 9])
    @pytest.mark.parametrize("turns", [1, 2, 3, 4, 8])
    def test_a_thread_has_several_where_rows_are_many(self, artifacts: Path, columns: int, turns: int) -> None:
        rows_at_once = 128 * 8  # of the host, which has one multiprocessor
        self.check(artifacts, numbers(turns * rows_at_once + 5, columns))

    def test_they_begin_anywhere_in_memory(self, artifacts: Path) -> None:
        for begin in (1, 2, 5, 8, 15):
            self.check(artifacts, numbers(33 * 35)[begin : begin + 31 * 33].view(31, 33))

    def test_any_variant_that_may_have_rows_of_no_elements_gives_their_sums(self, artifacts: Path) -> None:
        plan, x = opened(artifacts, "sums"), torch.empty(3, 0)
        (allowed,) = plan.variants_for(x)
        assert len(allowed) > 1
        for variant in allowed:
            assert plan(x, variant=variant).tolist() == [0.0] * 3

    def check(self, artifacts: Path, x: Any) -> None:
        variance, mean = run(opened(artifacts, "welford"), "tiled_int64", x)
        check_moments(x, mean, variance * x.shape[1], 1)
        assert torch.equal(run(opened(artifacts, "argmax"), "tiled_int64", x), x.float().argmax(1))


class TestRowsOfOne:
    """A thread has up to eight of them to itself."""

    @pytest.mark.parametrize(
        "rows", [1, 7, 127, 129, 1023, 1024, 1025, 2 * 1024 + 1, 3 * 1024 + 5, 8 * 1024, 9 * 1024 + 7]
    )
    def test_any_number(self, artifacts: Path, rows: int) -> None:
        x = numbers(rows, 1)
        variance, mean = run(opened(artifacts, "welford"), "tiled_int64", x)
        assert torch.equal(mean, x[:, 0].float())
        assert torch.equal(variance, torch.zeros(rows))
        assert torch.equal(run(opened(artifacts, "argmax"), "tiled_int64", x), torch.zeros(rows, dtype=torch.int64))

    def test_they_begin_anywhere_in_memory(self, artifacts: Path) -> None:
        for begin in (1, 2, 5, 8, 15):
            x = numbers(2000)[begin : begin + 1100].view(1100, 1)
            assert torch.equal(run(opened(artifacts, "welford"), "tiled_int64", x)[1], x[:, 0].float())

    @pytest.mark.parametrize("rows", [5, 2049])
    def test_the_last_variants_kernel_takes_them_too(self, artifacts: Path, rows: int) -> None:
        x = numbers(rows, 1)
        assert torch.equal(run(opened(artifacts, "welford"), "scalar_int64", x)[1], x[:, 0].float())

    @pytest.mark.parametrize(("groups", "rows"), [(1, 1), (3, 43), (130, 1), (7, 300)])
    def test_what_groups_of_them_share_is_read_ahead_too(self, artifacts: Path, groups: int, rows: int) -> None:
        plan = opened(artifacts, "grouped")
        for columns in (1, 3):
            x, w = numbers(groups, rows, columns), floats(groups * columns).view(groups, columns)
            c = numbers(groups, rows, dtype=torch.float)
            wanted = (x.double() * w[:, None].double() - c[:, :, None].double()).sum(2)
            torch.testing.assert_close(run(plan, "tiled_int64", x, w, c).double(), wanted, rtol=1e-5, atol=1e-4)


class TestMoments:
    @pytest.mark.parametrize("columns", [5, 6, 62, 320, 2843])
    def test_vectors_are_merged_whatever_they_lack(self, artifacts: Path, columns: int) -> None:
        x = numbers(9, columns)
        variance, mean = opened(artifacts, "welford")(x)
        check_moments(x, mean, variance * columns, 1)
        same = torch.full((9, columns), 1000.0, dtype=torch.bfloat16)
        assert not opened(artifacts, "welford")(same)[0].any()
