"""The scattering family: what it takes, which kernels it launches, and what they move."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fusebuild.ir.formula import evaluate
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import Rejection
from fusebuild.kernels.scatter import FAMILY as SCATTER
from fusebuild.segmentation import SegmentedFusion, segment
from fusebuild.target.table import TARGETS
from support.small_recipes import primitive, text_of, whole

SM_90 = TARGETS["sm_90"]
ROWS = {"x": "float[S, D]", "i": "int64[K]", "u": "float[K, D]"}
CELLS = {"x": "float[M, S]", "i": "int64[M, K]", "u": "float[M, K]"}
ONES = {"x": "float[M, S]", "i": "int64[M, 1]", "u": "float[M, 1]"}
IN_PLACE = {"y": "{dtype: float, alias: x}"}


def scattered(body: str, inputs: Mapping[str, str] = ROWS, outputs: Mapping[str, str] | None = None) -> Task:
    return whole(inputs, body, outputs or {"y": "float"})


def templates(task: Task) -> list[str]:
    """The templates of the kernels that the last variant launches."""
    return [launch.kernel.template for launch in SCATTER.schedule(task, SM_90, {})[-1].launches]


def segmented(body: str, inputs: Mapping[str, str], outputs: Mapping[str, str]) -> SegmentedFusion:
    return segment(primitive(text_of(inputs, body, outputs)), SM_90)


def schedulers(found: SegmentedFusion) -> list[str]:
    return [each.scheduler for each in found.segments]


OVER_PLACES = ["scatter_clear", "scatter_list", "scatter_places"]
LAUNCHES = {
    "one update along the dim": (scattered("y = scatter(x, i, u, dim=1)", ONES, IN_PLACE), ["scatter_updates"]),
    "no place twice, as promised": (
        scattered("y = index_copy(x, i, u, dim=0, unique_indices=True)", outputs=IN_PLACE),
        ["scatter_updates"],
    ),
    "the last update of each place": (
        scattered("y = index_copy(x, i, u, dim=0)", outputs=IN_PLACE),
        ["scatter_list", "scatter_list", "scatter_updates"],
    ),
    "a copy with updates": (scattered("y = index_copy(x, i, u, dim=0)"), OVER_PLACES),
    "a sum": (scattered("y = index_add(x, i, u, dim=0)"), OVER_PLACES),
    "a sum in place": (scattered("y = index_add(x, i, u, dim=0)", outputs=IN_PLACE), OVER_PLACES),
}


@pytest.mark.parametrize("name", LAUNCHES)
def test_it_launches(name: str) -> None:
    task, expected = LAUNCHES[name]
    assert SCATTER.accepts(task, SM_90) is None
    assert templates(task) == expected


def test_rows_have_one_list_for_all_of_their_elements() -> None:
    variant = SCATTER.schedule(scattered("y = index_add(x, i, u, dim=0)"), SM_90, {})[-1]
    assert [evaluate(size, {"S": 10, "D": 1000, "K": 7}) for size in variant.scratch] == [8 * 10, 8 * 7]


def test_elements_have_lists_of_their_own_where_the_index_has() -> None:
    variant = SCATTER.schedule(scattered("y = scatter_add(x, i, u, dim=1)", CELLS), SM_90, {})[-1]
    assert [evaluate(size, {"M": 10, "S": 100, "K": 7}) for size in variant.scratch] == [8 * 1000, 8 * 70]


def test_vectors_go_to_neighbouring_places() -> None:
    names = [each.name for each in SCATTER.schedule(scattered("y = index_add(x, i, u, dim=0)"), SM_90, {})]
    assert names == ["vec4_int32", "scalar_int32", "scalar_int64"]
    names = [each.name for each in SCATTER.schedule(scattered("y = scatter_add(x, i, u, dim=1)", CELLS), SM_90, {})]
    assert names == ["scalar_int32", "scalar_int64"]


BYTES = {
    "in place, what is written alone": ("y = index_copy(x, i, u, dim=0)", IN_PLACE, "2 * 4 * K * D + 8 * K"),
    "a sum in place, what it is added to": ("y = index_add(x, i, u, dim=0)", IN_PLACE, "3 * 4 * K * D + 8 * K"),
    "all of a copy": ("y = index_copy(x, i, u, dim=0)", {"y": "float"}, "4 * K * D + 8 * K + 2 * 4 * S * D"),
}


@pytest.mark.parametrize("name", BYTES)
def test_bytes_are(name: str) -> None:
    body, outputs, expected = BYTES[name]
    (only,) = segmented(body, ROWS, outputs).segments
    sizes = {"S": 1000, "D": 16, "K": 7}
    assert evaluate(only.hbm_bytes, sizes) == eval(expected, dict(sizes))


def test_what_comes_before_is_part_of_it_and_what_comes_after_is_not() -> None:
    body = "v = exp(u) * 0.5\ny = index_add(x, i, v, dim=0)\nz = y * 2.0"
    assert schedulers(segmented(body, ROWS, {"y": "float", "z": "float"})) == ["scatter", "pointwise"]


def test_a_sum_is_rounded_once() -> None:
    inputs = {"x": "bfloat16[S, D]", "i": "int64[K]", "u": "bfloat16[K, D]"}
    body = "y = index_add(cast(x, float), i, cast(u, float), dim=0)"
    assert schedulers(segmented(body, inputs, {"y": "{dtype: bfloat16, alias: x}"})) == ["scatter"]


def test_keys_and_values_are_appended_by_one_kernel() -> None:
    inputs = {"k": "half[B, S, D]", "v": "half[B, S, D]", "i": "int64[B, 1, 1]",
              "a": "half[B, 1, D]", "b": "half[B, 1, D]"}  # fmt: skip
    body = "j = expand(i, [B, 1, D])\nkn = scatter(k, j, a, dim=1)\nvn = scatter(v, j, b, dim=1)"
    outputs = {"kn": "{dtype: half, alias: k}", "vn": "{dtype: half, alias: v}"}
    found = segmented(body, inputs, outputs)
    assert schedulers(found) == ["scatter"]


def test_what_is_overwritten_is_not_read_for_updates_by_the_same_kernel() -> None:
    """Another thread may have written there."""
    inputs = {"x": "float[S, D]", "i": "int64[S]"}
    found = segmented("y = index_copy(x, i, x * 2.0, dim=0)", inputs, IN_PLACE)
    assert schedulers(found) == ["pointwise", "scatter"]
    shifted = segmented(
        "y = index_copy(x, i, slice(x, [1, 0], [S, D]), dim=0)", inputs | {"i": "int64[S - 1]"}, IN_PLACE
    )
    assert schedulers(shifted) == ["pointwise", "scatter"]


def test_what_is_scattered_into_itself_is_copied() -> None:
    inputs = {"x": "float[S, D]", "i": "int64[S]"}
    assert schedulers(segmented("y = index_add(x, i, x, dim=0)", inputs, {"y": "float"})) == ["pointwise", "scatter"]
    assert schedulers(segmented("y = index_copy(x, i, x, dim=0)", inputs, IN_PLACE)) == ["pointwise", "scatter"]


def test_updates_may_be_what_is_overwritten() -> None:
    inputs = {"x": "float[S, D]", "i": "int64[S]", "u": "float[S, D]"}
    body, over_updates = "y = index_copy(x, i, u, dim=0)", {"y": "{dtype: float, alias: u}"}
    assert schedulers(segmented(body, inputs, over_updates)) == ["scatter", "pointwise"]
    computed = segmented(body.replace("u,", "u * 2.0,"), inputs, over_updates)
    assert schedulers(computed) == ["pointwise", "scatter"]


def test_whoever_reads_the_old_tensor_does_so_before() -> None:
    body = "y = index_copy(x, i, u, dim=0)\nz = sum(x, dims=[1])"
    assert schedulers(segmented(body, ROWS, IN_PLACE | {"z": "float"})) == ["reduction", "scatter"]


def test_strides_that_only_a_call_knows_are_copied_first() -> None:
    inputs = ROWS | {"x": '{type: "float[S, D]", contiguity: [false, true]}'}
    assert schedulers(segmented("y = index_copy(x, i, u, dim=0)", inputs, {"y": "float"})) == ["pointwise", "scatter"]
    found = segmented("y = index_copy(x, i, u, dim=0)", inputs, IN_PLACE)
    assert schedulers(found) == ["pointwise", "scatter", "pointwise"]


REFUSED = {
    "a reduction": (scattered("y = index_add(x, i, u, dim=0)\nz = sum(u, dims=[1])", outputs={"y": "", "z": ""}),
                    "sum is a reduction"),
    "a reader": (scattered("y = index_add(x, i, u, dim=0)\nz = y * 2.0", outputs={"z": ""}),
                 "mul reads what is scattered"),
    "another output": (scattered("y = index_add(x, i, u, dim=0)\nz = u * 2.0", outputs={"y": "", "z": ""}),
                       "z is not scattered"),
    "a computed tensor": (scattered("y = index_add(x * 2.0, i, u, dim=0)"), "scatter_add needs t4 in memory"),
    "two sums": (scattered("y = index_add(x, i, u, dim=0)\nz = index_add(x, i, u * 2.0, dim=0)",
                           outputs={"y": "", "z": ""}), "x is scattered into and read elsewhere"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_it_refuses(name: str) -> None:
    task, reason = REFUSED[name]
    found = SCATTER.accepts(task, SM_90)
    assert isinstance(found, Rejection)
    assert found.reason == reason
