"""Pointwise kernels whose threads have elements of one column: how rows are shared out, what is made, what runs."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
import torch
from torch.nn.functional import embedding

from fusebuild.artifact.plan import FormulaArg, as_formula
from fusebuild.ir.formula import MULTIPROCESSORS, Formula, evaluate
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.pointwise import FAMILY as POINTWISE
from fusebuild.kernels.render import Origin, render
from fusebuild.runtime.loader import load
from fusebuild.target.table import TARGETS
from support.host_artifacts import chosen, compile_for_host
from support.small_recipes import text_of, whole

SM_90 = TARGETS["sm_90"]
SHIFTED = {"x": "bfloat16[B, T, C]"}
"""Tokens that are read at another place than they are written to, which names the row's coordinates for both."""
GATHER = {"table": "bfloat16[V, D]", "p": "bfloat16[S, D]", "ids": "int64[B, S]"}


def variants() -> dict[str, VariantSpec]:
    task = whole(GATHER, "y = embedding(table, ids) + p", {"y": "bfloat16"})
    return {each.name: each for each in POINTWISE.schedule(task, SM_90, {}, {})}


def argument(variant: VariantSpec, name: str) -> Formula:
    (launch,) = variant.launches
    (found,) = [each.arg for each in launch.kernel.parameters if each.name == name]
    assert isinstance(found, FormulaArg)
    return as_formula(found.formula)


def sizes(batch: int, rows: int, columns: int) -> dict[str, int]:
    return {"B": batch, "S": rows, "D": columns, "V": 9, MULTIPROCESSORS: 132}


class TestHowRowsAreSharedOut:
    @pytest.mark.parametrize(("batch", "rows", "columns"), [
        (1, 1, 2), (1, 1, 10**8), (3, 5, 2), (19, 369767, 6), (1, 10188160, 8), (2, 1000, 1000), (1, 2**30 - 2**20, 2),
    ])  # fmt: skip
    def test_threads_have_all_rows_between_them(self, batch: int, rows: int, columns: int) -> None:
        variant, call = variants()["scalar_int32"], sizes(batch, rows, columns)
        step, (launch,) = evaluate(argument(variant, "step"), call), variant.launches
        assert 0 < step <= -(-batch * rows // 32) * 32
        assert evaluate(launch.grid[0], call) == -(-step * columns // 128)
        assert evaluate(argument(variant, "step1"), call) == step % rows
        assert 8 * step < 2**31  # what counts rows does not overflow

    def test_threads_have_up_to_sixteen_rows_which_begin_at_sectors(self) -> None:
        step = evaluate(argument(variants()["scalar_int32"], "step"), sizes(19, 369767, 5))
        assert step == 439104
        assert step % 32 == 0

    def test_few_elements_have_a_thread_each(self) -> None:
        assert evaluate(argument(variants()["scalar_int32"], "step"), sizes(3, 50, 5)) == 150

    def test_some_elements_are_spread_over_all_multiprocessors(self) -> None:
        step = evaluate(argument(variants()["scalar_int32"], "step"), sizes(7, 235, 69))
        assert step == -(-7 * 235 // 4 // 32) * 32


def test_coordinates_are_counted_on_where_loads_alone_read_them() -> None:
    (launch,) = variants()["scalar_int32"].launches
    origin = Origin(recipe="test", segment=0, fid_map={}, scheduler="pointwise", variant="scalar_int32")
    text = render(launch.kernel, origin).text
    assert text.count("fb::divided(") == 2  # the thread's column, and where in the batch its first row is
    assert text.count("fb::count_on(i1, Index(step1), Index(n1))") == 2


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    texts = {
        "gathered": text_of(GATHER, "y = embedding(table, ids) + p", {"y": "bfloat16"}, name="gathered"),
        "counted": text_of({"x": "float[A, B, C, N]", "c": "float[B, N]"},
                           "z = broadcast(c, [True, False, True, False])\n"
                           "y = slice(x, [0, 0, 0, 1], [A, B, C, N]) * slice(z, [0, 0, 0, 1], [1, B, 1, N])",
                           {"y": "float"}, name="counted"),
        "turned": text_of({"x": "float[A, B, N]", "c": "float[B, N]"},
                          "y = cat([-slice(x, [0, 0, N // 2], [A, B, N]), slice(x, [0, 0, 0], [A, B, N // 2])], 2)"
                          " * broadcast(c, [True, False, False])", {"y": "float"}, name="turned"),
    }  # fmt: skip
    return compile_for_host(tmp_path_factory.mktemp("columns"), texts)


@pytest.mark.parametrize("columns", [1, 2, 3, 5, 6, 7])
@pytest.mark.parametrize(("batch", "rows"), [(1, 1), (3, 5), (1, 9000), (2, 4001), (601, 13), (8192, 1)])
def test_rows_that_an_index_finds(artifacts: Path, batch: int, rows: int, columns: int) -> None:
    plan = load(artifacts / "gathered.fuse", target="host")
    table = torch.randn(33, columns).bfloat16()
    p = torch.randn(rows, columns).bfloat16()
    ids = torch.randint(0, 33, (batch, rows))
    assert chosen(plan, table, p, ids) == "scalar_int32"
    assert torch.equal(plan(table, p, ids), embedding(ids, table) + p)


@pytest.mark.parametrize("shape", [(3, 131, 57, 6), (35, 289, 3, 4), (48, 1, 209, 2), (2, 6, 2624, 3), (1, 1, 1, 31)])
def test_coordinates_that_carry_over_several_axes(artifacts: Path, shape: tuple[int, ...]) -> None:
    plan, x = load(artifacts / "counted.fuse", target="host"), torch.randn(shape)
    c = torch.randn(shape[1], shape[3])
    assert torch.equal(plan(x, c), x[..., 1:] * c[:, None, 1:])


class TestHalvesThatChangePlaces:
    """Two index ops that read between them all of a row have one load."""

    @staticmethod
    def loads(body: str) -> list[str]:
        inputs = {name: "float[A, B, N]" for name in "xz" if f"({name}," in body}
        gaps = '{dtype: "float[A, B, N]", contiguity: [true, false, true]}'
        task = whole({**inputs, "c": "float[B, N]", "g": gaps}, f"{body} + g", {"y": "{dtype: float, alias: g}"})
        (variant,) = [each for each in POINTWISE.schedule(task, SM_90, {}, {}) if each.name == "scalar_int32"]
        (launch,) = variant.launches
        assert launch.kernel.template == "pointwise_columns"
        text = render(launch.kernel, Origin(recipe="test", segment=0, fid_map={}, scheduler="pointwise", variant="v"))
        return [line for line in text.text.split("\n") if "_beside = " in line]

    def test_one_address_is_chosen_by_the_column(self) -> None:
        (line,) = self.loads(
            "y = cat([slice(x, [0, 0, N // 2], [A, B, N]), slice(x, [0, 0, 0], [A, B, N // 2])], 2)"
            " * broadcast(c, [True, False, False])"
        )
        assert "(i < Index(" in line
        assert line.count("_offset)") == 2

    def test_halves_of_two_tensors_have_a_load_each(self) -> None:
        lines = self.loads(
            "y = cat([slice(x, [0, 0, N // 2], [A, B, N]), slice(z, [0, 0, 0], [A, B, N // 2])], 2)"
            " * broadcast(c, [True, False, False])"
        )
        assert len(lines) == 2


@pytest.mark.parametrize("shape", [(3, 5, 7), (2, 3, 8), (1, 1, 1), (5, 2, 2), (4, 100, 33), (2, 3, 300), (0, 3, 5)])
def test_halves_that_change_places(artifacts: Path, shape: tuple[int, ...]) -> None:
    plan, x, c = load(artifacts / "turned.fuse", target="host"), torch.randn(shape), torch.randn(shape[1:])
    half = shape[2] // 2
    assert torch.equal(plan(x, c), torch.cat([-x[..., half:], x[..., :half]], 2) * c)


def test_loads_and_stores_that_name_the_same_coordinates(tmp_path: Path) -> None:
    """Where no thread has a second element both stand in one scope."""
    body = """
        before = take(x, maximum(iota(T) - 1, 0), dim=1)
        y = cast(x, float) - where(broadcast(iota(T) > 0, [False, True]), before, 0.0)"""
    folder = compile_for_host(
        tmp_path, {"test": text_of(SHIFTED, dedent(body), {"y": "float"}, cases="B: 2, T: 5, C: 7")}
    )
    plan = load(folder / "test.fuse", target="host")
    for sizes in ((2, 5, 7), (3, 1, 9), (2, 700, 33)):
        x = torch.randn(sizes, generator=torch.Generator().manual_seed(5)).bfloat16()
        wanted = x.float() - torch.nn.functional.pad(x.float()[:, :-1], [0, 0, 1, 0])
        for variant in (None, *set.intersection(*map(set, plan.variants_for(x)))):
            assert torch.equal(plan(x, variant=variant), wanted)
