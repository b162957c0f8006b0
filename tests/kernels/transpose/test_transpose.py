"""Transposing kernels: which variant takes which sizes, and how squares are folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from fusebuild.artifact.plan import FormulaArg, as_formula
from fusebuild.errors import KnobError
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import LaunchSpec, VariantSpec
from fusebuild.kernels.transpose import FAMILY as TRANSPOSE
from fusebuild.kernels.transpose.narrow import NarrowHeuristics
from fusebuild.target.table import TARGETS
from support.small_recipes import whole

SM_90 = TARGETS["sm_90"]
ADDED = whole({"x": "bfloat16[M, N]", "y": "bfloat16[N, M]"}, "z = x + permute(y, [1, 0])", {"z": "bfloat16"})
TURNED = whole({"y": "float[N, M]"}, "z = permute(y, [1, 0]) * 2.0", {"z": "float"})
BATCH = whole({"y": "bfloat16[B, N, M]"}, "z = permute(y, [0, 2, 1]) * 2.0", {"z": "bfloat16"})
BOTH_WAYS = whole(
    {"x": "bfloat16[M, N]", "y": "bfloat16[N, M]"}, "z = x + permute(y, [1, 0])\nw = permute(z, [1, 0])",
    {"z": "bfloat16", "w": "bfloat16"},
)  # fmt: skip
EVEN = whole({"y": "float[64, 4096]"}, "z = permute(y, [1, 0]) * 2.0", {"z": "float"})


def variants(task: Task) -> tuple[VariantSpec, ...]:
    return TRANSPOSE.schedule(task, SM_90, {})


def names(task: Task) -> list[str]:
    return [each.name for each in variants(task)]


def taken(task: Task, *, aligned: bool = True, **sizes: int) -> str:
    """The name of the first variant whose guard holds."""
    return next(
        each.name
        for each in variants(task)
        if all(evaluate(guard, sizes, lambda fid, size: aligned) for guard in each.guard)
    )


class TestWhichVariantTakesWhat:
    @pytest.mark.parametrize(
        ("task", "sizes", "name"),
        [
            (ADDED, {"M": 16384, "N": 8192}, "vec8_int32"),
            (ADDED, {"M": 4099, "N": 5001}, "shifted_vec8_int32"),
            (ADDED, {"M": 4099, "N": 5008}, "shifted_vec8_int32"),
            (ADDED, {"M": 40, "N": 800003}, "shifted_vec8_int32"),
            (ADDED, {"M": 3, "N": 800003}, "lanes_int32"),
            (ADDED, {"M": 800003, "N": 3}, "narrow_vec8_int32"),
            (ADDED, {"M": 800003, "N": 63}, "narrow_vec8_int32"),
            (ADDED, {"M": 800003, "N": 1}, "lanes_int32"),
            (ADDED, {"M": 31, "N": 80003}, "lanes_int32"),
            (ADDED, {"M": 800003, "N": 65}, "narrow_vec8_int32"),
            (ADDED, {"M": 56879, "N": 127}, "narrow_vec8_int32"),
            (ADDED, {"M": 800003, "N": 255}, "narrow_vec8_int32"),
            (ADDED, {"M": 800003, "N": 257}, "shifted_vec8_int32"),
            (ADDED, {"M": 8, "N": 4000000}, "vec8_int32"),
            (ADDED, {"M": 401, "N": 403}, "small_scalar_int64"),
            (BATCH, {"B": 1, "M": 401, "N": 403}, "scalar_int32"),  # too few to fill a GPU with large tiles
            (ADDED, {"M": 256, "N": 512}, "few_lanes_int32"),
            (ADDED, {"M": 256, "N": 520}, "vec8_int32"),
            (ADDED, {"M": 2**16 + 1, "N": 2**15}, "scalar_int64"),
            (TURNED, {"M": 2297, "N": 10481}, "shifted_vec4_int32"),
            (BATCH, {"B": 120000, "M": 16, "N": 16}, "lanes_int32"),
            (BATCH, {"B": 120000, "M": 5, "N": 7}, "lanes_int32"),
            (BATCH, {"B": 24, "M": 945, "N": 1755}, "shifted_vec8_int32"),
        ],
    )
    def test_by_sizes(self, task: Task, sizes: dict[str, int], name: str) -> None:
        assert taken(task, **sizes) == name

    def test_pointers_where_no_vector_may_begin_take_scalar_squares(self) -> None:
        assert taken(ADDED, aligned=False, M=4096, N=4096) == "scalar_int64"
        assert taken(ADDED, aligned=False, M=400000, N=31) == "lanes_int32"
        assert taken(BATCH, aligned=False, B=2, M=4096, N=4096) == "scalar_int32"

    def test_the_last_one_has_no_guard(self) -> None:
        for task in (ADDED, TURNED, BATCH, BOTH_WAYS):
            assert [bool(each.guard) for each in variants(task)].index(False) == len(variants(task)) - 1

    @pytest.mark.parametrize("task", [BOTH_WAYS, EVEN])
    def test_no_shifted_tiles_for_results_both_ways_and_whole_vectors(self, task: Task) -> None:
        assert not [name for name in names(task) if "shifted" in name]


class TestFoldedSquares:
    @pytest.mark.parametrize("name", ["vec8_int32", "scalar_int64"])
    @pytest.mark.parametrize(
        ("rows", "columns"),
        [(8, 1000), (1000, 8), (24, 600), (600, 40), (16, 16), (64, 64), (200, 136), (0, 8), (8, 0)],
    )
    def test_every_element_is_of_one_block(self, rows: int, columns: int, name: str) -> None:
        variant = next(each for each in variants(ADDED) if each.name == name)
        (launch,) = variant.launches
        sizes = {"M": rows, "N": columns}
        row_bits, column_bits = (self.bits(launch, name, sizes) for name in ("row_bits", "column_bits"))
        tile = {"vec8_int32": 64, "scalar_int64": 32}[name]
        reached_rows, reached_columns = tile * tile >> column_bits, tile * tile >> row_bits
        row_tiles, column_tiles = -(-rows // reached_rows), -(-columns // reached_columns)
        assert evaluate(launch.grid[0], sizes) == row_tiles * column_tiles
        found = Counter(
            (row_tile * reached_rows + place(row, row_bits) + (column >> column_bits) * tile,
             column_tile * reached_columns + place(column, column_bits) + (row >> row_bits) * tile)
            for row_tile in range(row_tiles) for column_tile in range(column_tiles)
            for row in range(tile) for column in range(tile)
        )  # fmt: skip
        inside = {at: count for at, count in found.items() if at[0] < rows and at[1] < columns}
        assert len(inside) == rows * columns
        assert set(inside.values()) <= {1}

    @staticmethod
    def bits(launch: LaunchSpec, name: str, sizes: Mapping[str, int]) -> int:
        (parameter,) = (each for each in launch.kernel.parameters if each.name == name)
        assert isinstance(parameter.arg, FormulaArg)
        return evaluate(as_formula(parameter.arg.formula), sizes)


def place(own: int, bits: int) -> int:
    """Where element ``own`` of a tile's side is, of which 2 to the power of ``bits`` are not folded."""
    return own & ((1 << bits) - 1)


def unroll_of(variant: VariantSpec) -> int:
    (launch,) = variant.launches
    assert isinstance(launch.kernel.heuristics, NarrowHeuristics)
    return launch.kernel.heuristics.unroll


class TestRowsOfFewColumns:
    @pytest.mark.parametrize("columns", [2, 3, 8, 25, 31, 32, 33, 63, 65, 127, 255])
    @pytest.mark.parametrize("rows", [1, 16, 17, 5003, 1059575, 30_000_000])
    def test_a_block_has_no_more_vectors_than_its_threads_hold(self, rows: int, columns: int) -> None:
        variant = next(each for each in variants(ADDED) if each.name == "narrow_vec8_int32")
        (launch,) = variant.launches
        sizes = {"M": rows, "N": columns, MULTIPROCESSORS: 132}
        vectors = 1 << TestFoldedSquares.bits(launch, "bits", sizes)
        assert 2 <= vectors <= 256 * 4 // columns
        assert evaluate(launch.grid[0], sizes) == -(-rows // (8 * vectors))
        assert vectors == 2 or rows >= 8 * vectors * 2 * 132  # multiprocessors have blocks before blocks have rows

    def test_no_columns_that_are_known_to_be_many(self) -> None:
        wide = whole({"x": "float[M, 256]", "y": "float[256, M]"}, "z = x + permute(y, [1, 0])", {"z": "float"})
        few = whole({"x": "float[M, 255]", "y": "float[255, M]"}, "z = x + permute(y, [1, 0])", {"z": "float"})
        assert not [name for name in names(wide) if "narrow" in name]
        assert "narrow_vec4_int32" in names(few)

    @pytest.mark.parametrize(("count", "unroll"), [(1, 4), (2, 4), (3, 2), (4, 0)])
    def test_blocks_have_less_rows_where_they_have_more_tiles(self, count: int, unroll: int) -> None:
        inputs = {f"y{number}": "bfloat16[N, M]" for number in range(count)}
        added = " + ".join(f"permute({name}, [1, 0])" for name in inputs)
        task = whole({"x": "bfloat16[M, N]", **inputs}, f"z = x + {added}", {"z": "bfloat16"})
        found = [each for each in variants(task) if each.name == "narrow_vec8_int32"]
        assert [unroll_of(each) for each in found] == ([unroll] if unroll else [])

    def test_a_choice_whose_tiles_do_not_fit_is_refused(self) -> None:
        choices = {"narrow_vec8_int32": {"threads": 1024, "unroll": 16, "min_blocks": 1}}
        with pytest.raises(KnobError, match="tiles of so many vectors take 266752 bytes of shared memory, of 49152"):
            TRANSPOSE.schedule(ADDED, SM_90, {}, choices)


def test_tiles_fit_with_what_lies_beside_their_rows() -> None:
    knobs = {"threads": 256, "tile": 256, "min_blocks": 1}
    with pytest.raises(KnobError, match="bytes of shared memory"):
        TRANSPOSE.schedule(ADDED, SM_90, {}, {"shifted_vec8_int32": knobs})
