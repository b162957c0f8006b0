"""Pointwise kernels whose threads have runs of neighbouring elements: how runs are shared out, what is made, what
runs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
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
TURNED = {"x": "bfloat16[B, S, H, D]"}, "y = permute(x, [0, 2, 1, 3])"
HALVES = (
    {"x": "bfloat16[B, S, H, D]", "c": "float[S, D]"},
    (
        "h = cat([-slice(x, [0, 0, 0, D // 2], [B, S, H, D]), slice(x, [0, 0, 0, 0], [B, S, H, D // 2])], 3)\n"
        "y = x + h * broadcast(c, [True, False, True, False])"
    ),
)
FOUND = {"table": "bfloat16[V, D]", "p": "bfloat16[S, D]", "ids": "int64[B, S]"}, "y = embedding(table, ids) + p"


def variants(inputs: dict[str, str], body: str) -> dict[str, VariantSpec]:
    return {each.name: each for each in POINTWISE.schedule(whole(inputs, body, {"y": "bfloat16"}), SM_90, {}, {})}


def argument(variant: VariantSpec, name: str) -> Formula:
    (launch,) = variant.launches
    (found,) = [each.arg for each in launch.kernel.parameters if each.name == name]
    assert isinstance(found, FormulaArg)
    return as_formula(found.formula)


def text(variant: VariantSpec) -> str:
    (launch,) = variant.launches
    return render(launch.kernel, Origin(recipe="test", segment=0, fid_map={}, scheduler="pointwise", variant="v")).text


class TestHowRunsAreSharedOut:
    own = variants(*TURNED)

    @given(st.integers(1, 3000), st.integers(1, 5000), st.integers(1, 40), st.integers(1, 40))
    def test_each_element_is_of_one_run_or_has_a_thread(self, batch: int, rows: int, heads: int, columns: int) -> None:
        variant = self.own["runs_int32"]
        call = {"B": batch, "S": rows, "H": heads, "D": columns, MULTIPROCESSORS: 132}
        points, within = batch * rows * heads * columns, rows * heads * columns
        starts, step, batches = (evaluate(argument(variant, name), call) for name in ("starts", "step", "batches"))
        assert step == min(points, batches * within)
        assert step == points or step % 8 == 0  # all runs begin where vectors may
        assert starts == step // 8
        assert points // 8 <= max(1, starts)  # runs of a thread: nothing is the same for several
        (launch,) = variant.launches
        assert evaluate(launch.grid[0], call) == -(-(starts + points % 8) // 128)

    def test_threads_get_several_runs_where_there_are_enough(self) -> None:
        def runs(batch: int) -> float:
            call = {"B": batch, "S": 1024, "H": 128, "D": 11, MULTIPROCESSORS: 132}
            return batch * 1024 * 128 * 11 / evaluate(argument(variants(*HALVES)["runs_int32"], "step"), call)

        assert [runs(batch) for batch in (1, 2, 4, 8, 64)] == [1, 2, 4, 8, 8]

    def test_all_have_an_element_where_that_may_be_anywhere(self) -> None:
        variant = self.own["scalar_int32"]
        call = {"B": 3, "S": 5, "H": 7, "D": 11, MULTIPROCESSORS: 132}
        (launch,) = variant.launches
        assert argument(variant, "starts") == 0
        assert evaluate(launch.grid[0], call) == -(-3 * 5 * 7 * 11 // 128)
        assert text(variant) == text(self.own["runs_int32"])  # one kernel for both


class TestWhichTasksHaveRuns:
    def test_outputs_have_to_be_neighbours_in_memory(self) -> None:
        gaps = '{dtype: "float[A, M, N]", contiguity: [true, false, true]}'
        task = whole({"x": gaps, "c": "float[A, N]"}, "y = x + broadcast(c, [False, True, False])",
                     {"y": "{dtype: float, alias: x}"})  # fmt: skip
        names = [each.name for each in POINTWISE.schedule(task, SM_90, {}, {})]
        assert "scalar_int32" in names
        assert "runs_int32" not in names

    @pytest.mark.parametrize(("inputs", "body"), [
        ({"x": "bfloat16[M]"}, "y = -x"),  # one axis
        ({"x": "bfloat16[M, N]", "w": "bfloat16[N]"}, "y = x * w"),  # shifted vectors move more
    ])  # fmt: skip
    def test_rows_of_any_length_that_move_by_vectors_have_none(self, inputs: dict[str, str], body: str) -> None:
        assert "runs_int32" not in variants(inputs, body)

    @pytest.mark.parametrize(("batch", "heads", "columns", "taken"), [
        (1, 8, 191, True), (1, 8, 192, False), (16, 8, 192, True), (1, 3, 1001, True),
    ])  # fmt: skip
    def test_long_rows_are_walked_along_heads_where_batches_are_few(
        self, batch: int, heads: int, columns: int, taken: bool
    ) -> None:
        guard = variants(*HALVES)["runs_int32"].guard[-1]
        assert bool(evaluate(guard, {"B": batch, "S": 512, "H": heads, "D": columns})) is taken

    def test_few_elements_have_none(self) -> None:
        assert ("gt", ("mul", "B", "H", "S", "D"), 132 * 2048) in variants(*TURNED)["runs_int32"].guard

    def test_rows_that_an_index_finds_are_no_shorter_than_a_run(self) -> None:
        found = variants(*FOUND)
        assert {("ge", "D", 8), ("lt", "D", 256)} <= {*found["runs_int32"].guard}
        assert [*found].index("runs_int32") < [*found].index("strips_vec8_int32")
        assert found["scalar_int32"].launches[0].kernel.template == "pointwise_columns"


class TestTexts:
    def test_where_elements_lie_is_found_before_the_first_run(self) -> None:
        before, _, of_runs = text(variants(*TURNED)["runs_int32"]).partition("for (Index left")
        assert "fb::count_on(" in before
        assert "fb::divided(" not in of_runs
        assert "fb::count_on(" not in of_runs
        assert "T0 += int64_t(batches) * Index(T0_stride0);" in of_runs

    def test_what_all_runs_read_is_loaded_before_the_first_one(self) -> None:
        before, _, of_runs = text(variants(*HALVES)["runs_int32"]).partition("for (Index left")
        assert "p1[u] = fb::load_packed<kVec>(T1" in before
        assert "T1" not in of_runs

    def test_rows_that_an_index_finds_are_two(self) -> None:
        _, _, of_runs = text(variants(*FOUND)["runs_int32"]).partition("for (Index left")
        assert of_runs.count("fb::near_inside(") == 1  # in a loop over both

    def test_an_index_that_more_is_computed_from_is_read_for_each_element(self) -> None:
        inputs, body = FOUND
        named = body + " * cast(broadcast(ids, [False, False, True]), bfloat16)"
        _, _, of_runs = text(variants(inputs, named)["runs_int32"]).partition("for (Index left")
        assert "later" not in of_runs
        assert "const int64_t t" in of_runs


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weighed = FOUND[0], f"{FOUND[1]} * cast(broadcast(ids, [False, False, True]), bfloat16)"
    same = {"x": "bfloat16[B, S, D]", "table": "bfloat16[V, D]", "ids": "int64[S]"}, "y = x + embedding(table, ids)"
    tasks = {"same": same, "turned": TURNED, "halves": HALVES, "found": FOUND, "weighed": weighed}
    texts = {name: text_of(*task, {"y": "bfloat16"}, name=name) for name, task in tasks.items()}
    return compile_for_host(tmp_path_factory.mktemp("runs"), texts)


SHAPES = [(1, 37, 5, 11), (64, 23, 9, 1), (9, 31, 2, 2), (17, 3, 41, 7), (2, 600, 1, 3), (1031, 1, 1, 3), (8, 5, 7, 9),
          (40, 3, 3, 15), (3, 1, 1, 1001)]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_rows_that_change_places(artifacts: Path, shape: tuple[int, ...]) -> None:
    plan, x = load(artifacts / "turned.fuse", target="host"), torch.randn(shape).bfloat16()
    assert chosen(plan, x) == ("runs_int32" if min(shape[1:3]) > 1 else "copy_vec8_int32")
    assert torch.equal(plan(x), x.permute(0, 2, 1, 3))


@pytest.mark.parametrize("shape", SHAPES)
def test_halves_that_change_places(artifacts: Path, shape: tuple[int, ...]) -> None:
    plan, x, c = load(artifacts / "halves.fuse", target="host"), torch.randn(shape).bfloat16(), torch.randn(shape[1::2])
    assert chosen(plan, x, c) == "runs_int32"
    half = shape[3] // 2
    turned = torch.cat([-x[..., half:].float(), x[..., :half].float()], 3)
    assert torch.equal(plan(x, c), (x.float() + turned * c[:, None]).bfloat16())


@pytest.mark.parametrize("columns", [8, 9, 11, 19, 27, 30, 31])
@pytest.mark.parametrize(("batch", "rows"), [(1, 4570), (3, 1550), (2, 4001), (601, 23), (4099, 1)])
def test_rows_that_an_index_finds(artifacts: Path, batch: int, rows: int, columns: int) -> None:
    plan = load(artifacts / "found.fuse", target="host")
    table, p = torch.randn(33, columns).bfloat16(), torch.randn(rows, columns).bfloat16()
    ids = torch.randint(0, 33, (batch, rows))
    assert chosen(plan, table, p, ids) == ("rows_vec8_int32" if columns == 8 else "runs_int32")
    assert torch.equal(plan(table, p, ids), embedding(ids, table) + p)
    plan = load(artifacts / "weighed.fuse", target="host")
    wanted = embedding(ids, table).float() + p.float() * ids[:, :, None]
    assert torch.equal(plan(table, p, ids), wanted.bfloat16())


def test_rows_that_an_index_finds_for_all_batches(artifacts: Path) -> None:
    plan, x = load(artifacts / "same.fuse", target="host"), torch.randn(9, 311, 19).bfloat16()
    table, ids = torch.randn(33, 19).bfloat16(), torch.randint(0, 33, (311,))
    assert chosen(plan, x, table, ids) == "runs_int32"
    assert torch.equal(plan(x, table, ids), x + embedding(ids, table))


def test_tensors_that_begin_anywhere(artifacts: Path) -> None:
    plan, memory = load(artifacts / "halves.fuse", target="host"), torch.randn(1 + 9 * 5 * 7 * 11).bfloat16()
    x, c = memory[1:].view(9, 5, 7, 11), torch.randn(5, 11)
    assert chosen(plan, x, c) == "scalar_int32"
    assert torch.equal(plan(x, c), plan(x.clone(), c))
