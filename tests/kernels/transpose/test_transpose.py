"""Transposing kernels: which variant takes which sizes, and what the boxes of thin and tiny matrices are."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fusebuild.errors import KnobError
from fusebuild.ir.formula import evaluate
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import VariantSpec, any_domain
from fusebuild.kernels.transpose import FAMILY as TRANSPOSE
from fusebuild.kernels.transpose.boxes import box_formulas
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
            (ADDED, {"M": 3, "N": 800003}, "boxes_int32"),
            (ADDED, {"M": 800003, "N": 3}, "boxes_int32"),
            (ADDED, {"M": 8, "N": 4000000}, "vec8_int32"),
            (ADDED, {"M": 101, "N": 103}, "scalar_int32"),  # too few to fill a GPU with large tiles
            (ADDED, {"M": 2**16 + 1, "N": 2**15}, "scalar_int64"),
            (TURNED, {"M": 2297, "N": 10481}, "shifted_vec4_int32"),
            (BATCH, {"B": 120000, "M": 16, "N": 16}, "boxes_int32"),
            (BATCH, {"B": 120000, "M": 5, "N": 7}, "boxes_int32"),
            (BATCH, {"B": 24, "M": 945, "N": 1755}, "shifted_vec8_int32"),
        ],
    )
    def test_by_sizes(self, task: Task, sizes: dict[str, int], name: str) -> None:
        assert taken(task, **sizes) == name

    def test_pointers_where_no_vector_may_begin_take_scalar_squares(self) -> None:
        assert taken(ADDED, aligned=False, M=4096, N=4096) == "scalar_int32"

    def test_the_last_one_has_no_guard(self) -> None:
        for task in (ADDED, TURNED, BATCH, BOTH_WAYS):
            assert [bool(each.guard) for each in variants(task)].index(False) == len(variants(task)) - 1

    @pytest.mark.parametrize("task", [BOTH_WAYS, EVEN])
    def test_no_shifted_tiles_for_results_both_ways_and_whole_vectors(self, task: Task) -> None:
        assert not [name for name in names(task) if "shifted" in name]


class TestBoxes:
    @pytest.mark.parametrize("many", [False, True])
    @pytest.mark.parametrize(
        ("rows", "columns", "matrices"),
        [(3, 10**6, 1), (10**6, 3, 1), (1, 1, 10**6), (5, 7, 10**6), (16, 16, 10**6), (33, 31, 10**5), (40, 10**6, 1),
         (64, 64, 1000), (65, 127, 1000), (1, 10**7, 1), (10**7, 1, 1)],
    )  # fmt: skip
    def test_they_are_full_and_no_fuller(self, rows: int, columns: int, matrices: int, many: bool) -> None:
        sizes = {"M": rows, "N": columns, "B": matrices if many else 1}
        sides = self.sides(sizes)
        most = 4096 if rows * columns * sizes["B"] >= 2**20 else 1024
        size = sides[0] * sides[1] * sides[2]
        assert size <= most
        assert size > most // 2 or size == rows * columns * sizes["B"]

    @pytest.mark.parametrize("sizes", [{"M": 0, "N": 7, "B": 3}, {"M": 7, "N": 0, "B": 3}, {"M": 7, "N": 3, "B": 0}])
    def test_no_side_is_zero(self, sizes: dict[str, int]) -> None:
        assert min(self.sides(sizes)) >= 1

    @staticmethod
    def sides(sizes: Mapping[str, int]) -> list[int]:
        domain = any_domain(BATCH)
        return [evaluate(side, sizes) for side in box_formulas(domain, domain.inner - 1, 64)]


def test_tiles_fit_with_what_lies_beside_their_rows() -> None:
    knobs = {"threads": 256, "tile": 256, "min_blocks": 1}
    with pytest.raises(KnobError, match="bytes of shared memory"):
        TRANSPOSE.schedule(ADDED, SM_90, {}, {"shifted_vec8_int32": knobs})
