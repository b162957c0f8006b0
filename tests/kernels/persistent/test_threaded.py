"""Rows of a few known elements: which of them threads have whole, and what is computed with them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from support.small_recipes import NORM, NORM_INPUTS, text_of, whole

torch = pytest.importorskip("torch")

from fusebuild.errors import KnobError  # noqa: E402
from fusebuild.ir.fusion import Task  # noqa: E402
from fusebuild.kernels.common.rows import next_power_of_two  # noqa: E402
from fusebuild.kernels.common.spec import VariantSpec  # noqa: E402
from fusebuild.kernels.persistent import FAMILY as PERSISTENT  # noqa: E402
from fusebuild.kernels.persistent.threaded import ThreadedHeuristics  # noqa: E402
from fusebuild.runtime.loader import load  # noqa: E402
from fusebuild.target.table import TARGETS  # noqa: E402
from support.host_artifacts import check_that_rows_beside_stay, chosen, compile_for_host, norm_operands  # noqa: E402

SIZES = (1, 2, 3, 7, 12, 15)
NAMED = f"N: {{values: {list(SIZES)}}}"
WAY = "threaded_vec8_int32"


def norm(x: str = "bfloat16[M, N]", y: str = "bfloat16", extents: str = NAMED) -> Task:
    return whole({**NORM_INPUTS, "x": x}, NORM, {"y": y}, extents=extents)


def variants(task: Task, columns: int, tuned: Mapping[str, Mapping[str, int]] | None = None) -> dict[str, VariantSpec]:
    scheduler = PERSISTENT
    found = scheduler.schedule(task, TARGETS["sm_90"], {"M": 1 << 20, "N": columns}, tuned or {})
    return {variant.name: variant for variant in found}


@pytest.mark.parametrize("columns", SIZES)
def test_a_thread_has_as_many_rows_as_a_vector_has_elements(columns: int) -> None:
    variant = variants(norm(), columns)[WAY]
    heuristics = variant.launches[0].kernel.heuristics
    assert isinstance(heuristics, ThreadedHeuristics)
    assert (heuristics.rows, heuristics.columns) == (8, columns)
    assert heuristics.vec == next_power_of_two(columns)
    assert variant.launches[0].shared_bytes == heuristics.threads * heuristics.rows * columns * 2
    assert variant.guard[0] == ("eq", "N", columns)
    assert [guard[0] for guard in variant.guard[1:] if isinstance(guard, tuple)] == ["aligned", "aligned"]


@pytest.mark.parametrize(("columns", "threads"), [(1, 128), (2, 64), (15, 64)])
def test_a_block_copies_two_kilobytes_at_least(columns: int, threads: int) -> None:
    task = whole({"x": "bfloat16[M, N]"}, "y = x - max(x, dims=[1], keepdim=True)", {"y": "bfloat16"}, extents=NAMED)
    assert variants(task, columns)[WAY].launches[0].block == (threads, 1, 1)


def test_sizes_that_nobody_names_are_not_known() -> None:
    assert WAY not in variants(norm(extents="N: {values: [3]}"), 7)
    assert WAY not in variants(norm(extents=""), 7)


def test_rows_that_are_too_long_or_take_too_many_registers_have_none() -> None:
    assert WAY not in variants(norm(extents="N: {values: [17]}"), 17)
    wide = whole({"x": "bfloat16[M, N]", "a": "double[M, N]"}, "y = x + a - max(a, dims=[1], keepdim=True)",
                 {"y": "double"}, extents=NAMED)  # fmt: skip
    assert WAY in variants(wide, 3)
    assert WAY not in variants(wide, 15)


def test_where_all_rows_are_such_nothing_else_is_made_but_for_tensors_that_begin_anywhere() -> None:
    body = "m = max(x, dims=[1], keepdim=True)\ny = exp(x - m)"
    task = whole({"x": "bfloat16[M, 7]"}, body, {"y": "bfloat16"})
    assert [*variants(task, 0)] == [WAY, "anywhere_vec8_int64"]


def test_a_choice_that_no_block_can_be_like_is_an_error() -> None:
    with pytest.raises(KnobError, match="no power of two from 32 to 1024"):
        variants(norm(), 7, {WAY: {"threads": 96, "min_blocks": 2}})
    with pytest.raises(KnobError, match="bytes of shared memory are more than 232448"):
        variants(norm(), 15, {WAY: {"threads": 1024, "min_blocks": 1}})


# --- What runs


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    draw = "r = rand_like(x, 3, 1)\nm = max(x, dims=[1], keepdim=True)\ny = where(r > 0.5, x - m, 0.0)"
    levels = (
        "m = logsumexp(x, dims=[1], keepdim=True)\nd = (x - m) * g\nplace = argmax(d, dim=1)\n"
        "y = exp(d - max(d, dims=[1], keepdim=True)) + z"
    )
    beside = {"x": "float[M, N]", "g": "float[M, 1]", "z": "float[1, N]"}
    recipes = {
        "norm": (NORM_INPUTS, NORM, {"y": "bfloat16"}, NAMED),
        "widened": (NORM_INPUTS, NORM, {"y": "float"}, "N: {values: [3, 15]}"),
        "drawn": ({"x": "float[M, N]"}, draw, {"y": "float"}, "N: {values: [3]}"),
        "levels": (beside, levels, {"y": "float", "place": "int64"}, "N: {values: [1, 2, 7]}"),
    }
    texts = {
        name: text_of(inputs, body, outputs, name=name, cases="M: 600, N: 9", extents=extents)
        for name, (inputs, body, outputs, extents) in recipes.items()
    }
    return compile_for_host(tmp_path_factory.mktemp("threaded"), texts)


def expected(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    wide = x.double()
    return (wide - wide.amax(1, keepdim=True)).exp() * w.double() + b.double()


@pytest.mark.parametrize(
    ("name", "columns"), [*(("norm", columns) for columns in SIZES), ("widened", 3), ("widened", 15)]
)
def test_any_number_of_rows(artifacts: Path, name: str, columns: int) -> None:
    plan = load(artifacts / f"{name}.fuse", target="host")
    for rows in (1, 5, 8, 511, 512, 1027):
        inputs = norm_operands(rows, columns)
        assert chosen(plan, *inputs).endswith(WAY)
        error = 1e-6 if name == "widened" else 8e-3
        torch.testing.assert_close(plan(*inputs).double(), expected(*inputs), rtol=error, atol=error)


@pytest.mark.parametrize("columns", [1, 7, 15])
def test_rows_beside_are_not_written(artifacts: Path, columns: int) -> None:
    plan = load(artifacts / "norm.fuse", target="host")
    check_that_rows_beside_stay(plan, *norm_operands(515, columns))


@pytest.mark.parametrize("columns", [1, 2, 7])
def test_several_levels_with_lambdas_and_what_is_one_element_a_row(artifacts: Path, columns: int) -> None:
    plan = load(artifacts / "levels.fuse", target="host")
    generator = torch.Generator().manual_seed(columns)
    for rows in (1, 6, 259):
        x, g = (torch.randn(rows, n, generator=generator) for n in (columns, 1))
        z = torch.randn(1, columns, generator=generator)
        assert chosen(plan, x, g, z).endswith("threaded_vec4_int32")
        y, place = plan(x, g, z)
        scaled = (x.double() - x.double().logsumexp(1, keepdim=True)) * g
        torch.testing.assert_close(y.double(), (scaled - scaled.amax(1, keepdim=True)).exp() + z, rtol=1e-5, atol=1e-5)
        assert torch.equal(place, scaled.argmax(1))


def test_what_is_drawn_is_what_other_variants_draw(artifacts: Path) -> None:
    plan = load(artifacts / "drawn.fuse", target="host")
    flat = torch.randn(901, generator=torch.Generator().manual_seed(3))
    x, elsewhere = flat[:-1].view(300, 3), torch.zeros_like(flat)[1:].view(300, 3)
    elsewhere.copy_(x)
    assert chosen(plan, x).endswith("threaded_vec4_int32")
    assert chosen(plan, elsewhere).startswith("anywhere_vec")
    assert torch.equal(plan(x), plan(elsewhere))
