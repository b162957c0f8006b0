"""Rows of any length by aligned vectors: which recipes get such variants, and what those read and write."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.small_recipes import NORM, NORM_INPUTS, text_of, whole

torch = pytest.importorskip("torch")

from fusebuild.ir.fusion import Task  # noqa: E402
from fusebuild.kernels.common.planner import FEW, Planner  # noqa: E402
from fusebuild.kernels.common.spec import VariantSpec, fits_int32  # noqa: E402
from fusebuild.kernels.families import FAMILIES  # noqa: E402
from fusebuild.kernels.persistent.way import PersistentHeuristics  # noqa: E402
from fusebuild.runtime.loader import load  # noqa: E402
from fusebuild.target.table import TARGETS  # noqa: E402
from support.host_artifacts import beginning, check_that_rows_beside_stay, chosen, compile_for_host, norm_operands  # noqa: E402

SM_90 = TARGETS["sm_90"]
BY_NAME = {scheduler.name: scheduler for scheduler in FAMILIES}

# --- Which recipes get them

SOFTMAX_BODY = "m = max(x, dims=[1], keepdim=True)\ne = exp(x - m)\ns = sum(e, dims=[1], keepdim=True)\ny = e / s"


def variants(scheduler: str, task: Task, **sizes: int) -> tuple[VariantSpec, ...]:
    return BY_NAME[scheduler].schedule(task, SM_90, sizes)


def planned(task: Task) -> Planner:
    return Planner(task=task, target=SM_90, sizes={}, tuned={})


def names(found: tuple[VariantSpec, ...]) -> list[str]:
    return [variant.name for variant in found]


def softmax(shape: str, extents: str = "") -> Task:
    return whole({"x": f"bfloat16[{shape}]"}, SOFTMAX_BODY, {"y": "bfloat16"}, extents=extents)


def read_once(shape: str, extents: str = "") -> Task:
    """Rows of which nothing is worth keeping: they have no kernels with edges."""
    inputs = {"x": f"bfloat16[{shape}]", "z": f"bfloat16[{shape}]"}
    return whole(inputs, "y = z - max(x, dims=[1], keepdim=True)", {"y": "bfloat16"}, extents=extents)


def test_only_rows_that_may_be_odd_have_shifted_variants() -> None:
    def of(shape: str, extents: str = "") -> list[str]:
        return names(variants("inner_persistent", read_once(shape, extents), M=64, N=500))

    assert "shifted_vec8_int32" in of("M, N")
    assert "shifted_vec8_int32" in of("M, N", "N: {multiple_of: 4}")
    assert "shifted_vec8_int32" not in of("M, N", "N: {multiple_of: 16}")
    assert "shifted_vec8_int32" not in of("M, 1024")


def test_odd_rows_of_a_known_length_have_one_variant() -> None:
    for columns, name in ((509, "edged_tiles"), (1009, "edged1")):
        found = variants("inner_persistent", softmax(f"M, {columns}"))
        assert names(found) == [f"{name}_vec8_int32", "anywhere_vec8_int64"]


def test_a_row_of_several_axes_has_none() -> None:
    body = "m = max(x + w, dims=[1, 2], keepdim=True)\ny = x - m"
    task = whole({"x": "float[A, B, C]", "w": "float[1, 1, C]"}, body, {"y": "float"})
    assert "registers_vec1_int32" in names(variants("inner_persistent", task))


def test_flat_tensors_alone_have_to_be_aligned() -> None:
    inputs = {"x": "bfloat16[M, N]", "w": "float[N]", "g": '{dtype: "float[M, N]", contiguity: [false, true]}'}
    body = "m = max(x, dims=[1], keepdim=True)\ny = (x - m) * w + g"
    task = whole(inputs, body, {"y": "float", "m": "bfloat16"})
    (y, _) = task.outputs
    planner = planned(task)
    assert planner.domain.flat == (0, y)
    assert planner.shifted_guard(8, "N") == (fits_int32("N"), ("aligned", 0, 16), ("aligned", y, 16))


def test_few_elements_of_known_size_have_none() -> None:
    def is_odd(size: int) -> bool:
        task = whole({"x": f"float[{size}]"}, "y = -x", {"y": "float"})
        return planned(task).has_odd_rows(4, size)

    assert (is_odd(FEW - 1), is_odd(FEW + 1), is_odd(FEW + 4)) == (False, True, False)


@pytest.mark.parametrize(("columns", "per_row", "chunks"), [(1501, 128, 2), (16001, 1024, 2)])
def test_a_row_of_the_first_case_has_room_however_it_is_shifted(columns: int, per_row: int, chunks: int) -> None:
    task = read_once("M, N")
    own = BY_NAME["inner_persistent"].schedule(task, TARGETS["sm_80"], {"M": 64, "N": columns})
    found = {variant.name: variant for variant in own}
    variant = found["shifted_vec8_int32"]
    heuristics = variant.launches[0].kernel.heuristics
    assert isinstance(heuristics, PersistentHeuristics)
    assert (heuristics.threads.per_row, heuristics.chunks) == (per_row, chunks)
    assert variant.guard[-1] == ("le", "N", per_row * chunks * 8 - 7)
    assert columns <= per_row * chunks * 8 - 7


def test_what_is_read_by_elements_outweighs_few_flat_tensors() -> None:
    def of(inputs: dict[str, str], body: str) -> list[str]:
        return names(variants("pointwise", whole(inputs, body, {"y": "float"})))

    gap, few = '{dtype: "float[M, N]", contiguity: [false, true]}', "few_scalar_int64"
    assert of({"x": "float[M, N]", "g": gap}, "y = x + g") == [few, "vec4_int32", "shifted_vec4_int32", "scalar_int64"]
    strips = ["vec4_int32", "strips_vec4_int32", "runs_int32", "scalar_int32", "scalar_int64"]
    assert of({"g": gap, "h": gap}, "y = h + g") == [few, *strips]
    assert "shifted_vec4_int32" in of({"x": "float[M, N]", "w": "float[N]", "v": "float[N]"}, "y = x * w + v")


# --- What runs


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {
        "norm": text_of(NORM_INPUTS, NORM, {"y": "bfloat16"}, name="norm", cases="M: 4, N: 1001"),
        "biased": text_of(NORM_INPUTS, "y = x * w + b", {"y": "bfloat16"}, name="biased", cases="M: 4, N: 1001"),
        "weighted": text_of(NORM_INPUTS, "y = sum(x * w + b, dims=[1])", {"y": "float"}, name="weighted"),
        "large": text_of({"x": "int64[M, N]"}, "y = max(x, dims=[1])", {"y": "int64"}, name="large"),
    }
    return compile_for_host(tmp_path_factory.mktemp("shifted"), texts)


@pytest.mark.parametrize("name", ["norm", "biased", "weighted"])
def test_weights_may_begin_anywhere(artifacts: Path, name: str) -> None:
    plan = load(artifacts / f"{name}.fuse", target="host")
    way = {"norm": "tiled_vec8_int32", "biased": "folded_vec8_int32", "weighted": "tiled_int64"}[name]
    for columns in (5, 8, 9, 64, 1001):
        way = "shifted_vec8_int32" if (name, columns) == ("weighted", 1001) else way
        x, w, b = norm_operands(205, columns)
        for moved_w, moved_b in ((beginning(1, w), b), (beginning(3, w), beginning(5, b))):
            assert chosen(plan, x, moved_w, moved_b) == way
            tolerance = 1e-5 if name == "weighted" else 0.0  # a reduction adds in another order there
            torch.testing.assert_close(plan(x, moved_w, moved_b), plan(x, w, b), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["norm", "biased", "weighted"])
def test_a_flat_tensor_that_begins_elsewhere_takes_the_last_variant(artifacts: Path, name: str) -> None:
    plan = load(artifacts / f"{name}.fuse", target="host")
    x, w, b = norm_operands(3, 101)
    lasts = {"norm": "anywhere_vec8_int64", "biased": "scalar_int64", "weighted": "tiled_int64"}  # short rows
    assert lasts[name] in chosen(plan, beginning(1, x), w, b)
    torch.testing.assert_close(plan(beginning(1, x), w, b), plan(x, w, b))


def test_rows_beside_do_not_leak_into_a_reduction(artifacts: Path) -> None:
    plan = load(artifacts / "large.fuse", target="host")
    for columns in (1, 2, 3, 5, 7, 9):
        x = torch.arange(11 * columns).view(11, columns)
        x[::2] = -x[::2] - 1
        assert chosen(plan, x) == ("tiled_int64" if columns % 2 else "vec2_int32")
        assert torch.equal(plan(x), x.amax(1))


@pytest.mark.parametrize("name", ["norm", "biased"])
@pytest.mark.parametrize("columns", [1, 7, 9, 1001])
def test_rows_beside_are_not_written(artifacts: Path, name: str, columns: int) -> None:
    plan = load(artifacts / f"{name}.fuse", target="host")
    check_that_rows_beside_stay(plan, *norm_operands(6, columns))
