"""Where values lie: what index ops make of the memory of inputs, what they cannot, and what callers are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fusebuild.ir.formula import Formula
from fusebuild.ir.fusion import Task
from fusebuild.kernels.common.spec import any_domain
from fusebuild.kernels.common.storage import Storage, hidden, sources
from fusebuild.kernels.common.unfit import UnfitError
from fusebuild.kernels.pointwise import FAMILY as POINTWISE
from fusebuild.ops.indexing import reshaped_strides
from fusebuild.pipeline import compile_recipes, plan_recipe
from fusebuild.runtime.loader import load
from fusebuild.target.table import TARGETS
from support.small_recipes import recipe_of, text_of, whole

MATRIX = {"x": "float[M, N]"}


def source_of(body: str, inputs: dict[str, str] | None = None, output: str = "y") -> Storage:
    """Where the one index op of ``body`` reads."""
    (found,) = sources(whole(inputs or MATRIX, body, {output: ""})).values()
    return found


def reason(body: str, output: str, inputs: dict[str, str] | None = None) -> str:
    """Why one kernel cannot do all of ``body``."""
    with pytest.raises(UnfitError) as found:
        any_domain(whole(inputs or MATRIX, body, {"y": output}))
    return str(found.value)


class TestSources:
    def test_a_slice_has_steps_and_a_first_element(self) -> None:
        found = source_of("y = slice(x, [1, 2], [M, N], [3, 1])")
        assert found.strides == (("mul", 3, "N"), 1)
        assert found.offset == ("add", ("mul", ("min", 1, "M"), "N"), ("min", 2, "N"))

    def test_a_slice_of_a_slice_reads_the_first_ones_tensor(self) -> None:
        task = whole(MATRIX, "y = slice(slice(x, [0, 0], [M, N], [2, 1]), [0, 0], [1, N])", {"y": ""})
        (found,) = sources(task).values()
        assert found.tensor == task.fusion.inputs[0]
        assert len(hidden(task)) == 1

    def test_a_pad_has_bounds_and_a_fill(self) -> None:
        found = source_of("y = pad(x, [4, 0], 2.5)")
        assert found.bounds == ((1, 4, ("add", "N", 4)),)
        assert found.offset == -4
        assert found.fill is not None

    def test_an_index_adds_a_position(self) -> None:
        found = source_of("y = take(x, i, 0)", MATRIX | {"i": "int32[K]"})
        assert found.strides == (0, 1)
        assert found.position is not None
        assert (found.position.size, found.position.stride) == ("M", "N")

    def test_what_is_taken_along_an_axis_keeps_the_others(self) -> None:
        found = source_of("y = take_along_axis(x, i, 1)", MATRIX | {"i": "int64[M, K]"})
        assert found.strides == ("N", 0)


class TestReasons:
    def test_a_result_is_not_in_memory(self) -> None:
        assert reason("e = sum(x, dims=[0])\ny = take(e, iota(3), 0)", "float") == "take needs e in memory"

    def test_what_is_padded_is_not_in_memory(self) -> None:
        """A slice with steps is read from where no bounds shift alike."""
        assert reason("p = pad(x, [1, 1])\ny = slice(p, [0, 0], [M, 2], [1, 2])", "float") == "slice needs p in memory"

    def test_what_is_overwritten_is_read_where_it_is_written(self) -> None:
        text = "{dtype: float, alias: x}"
        assert reason("y = x + slice(x, [0, 0], [1, N])", text, {"x": "float[4, N]"}) == (
            "x is overwritten but read elsewhere than where it is written"
        )


def guards(task: Task) -> tuple[Formula, ...]:
    return POINTWISE.schedule(task, TARGETS["sm_90"], {})[0].guard


def test_vectors_need_every_distance_to_be_a_multiple_of_their_length() -> None:
    guard = guards(whole(MATRIX, "y = slice(x, [0, 3], [M, N])", {"y": ""}))
    assert ("eq", ("mod", ("min", 3, "N"), 4), 0) in guard
    assert ("eq", ("mod", "N", 4), 0) in guard
    guard = guards(whole(MATRIX | {"i": "int64[K]"}, "y = take(x, i, 0)", {"y": ""}))
    assert [each for each in guard if isinstance(each, tuple) and each[0] == "aligned"] == [
        ("aligned", 2, 16), ("aligned", 0, 16),
    ]  # fmt: skip


def test_vectors_of_what_is_never_a_neighbour_are_not_tried() -> None:
    variants = POINTWISE.schedule(
        whole({"x": "float[M, 8]"}, "y = slice(x, [0, 3], [M, 8])", {"y": ""}), TARGETS["sm_90"], {}
    )
    assert [variant.name for variant in variants] == ["runs_int32", "scalar_int32", "scalar_int64"]


@pytest.mark.parametrize(
    ("strides", "old", "new", "seen"),
    [
        (("N", 1), ("M", "N"), (("mul", "M", "N"),), (1,)),
        (("N", 1), ("M", "N"), ("M", 1, "N"), ("N", 0, 1)),
        ((12, 1), ("M", 12), ("M", 3, 4), (12, 4, 1)),
        ((0, 1), ("M", "N"), ("M", "N"), (0, 1)),
        ((0, 1), ("M", "N"), (("mul", "M", "N"),), None),
        ((1, "M"), ("M", "N"), (("mul", "M", "N"),), None),
        ((24, 2), ("M", 12), ("M", 3, 4), (24, 8, 2)),
    ],
)
def test_strides_of_what_is_reshaped(strides: Any, old: Any, new: Any, seen: Any) -> None:
    assert reshaped_strides(strides, old, new) == seen


def test_what_an_index_reads_from_has_elements() -> None:
    inputs = {"table": "float[V, D]", "x": "float[M, D]", "i": "int64[K]"}
    body = "y = embedding(table, i)\nz = take(slice(x, [1, 0], [M, D]), i, 0)"
    plan = plan_recipe(recipe_of(text_of(inputs, body, {"y": "", "z": ""})), [TARGETS["sm_90"]]).plan
    assert [(fact.symbol, fact.min) for fact in plan.facts] == [("V", 1)]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, compilers: None) -> Any:
    folder = tmp_path_factory.mktemp("storage")
    inputs = {"table": "float[V, D]", "x": "float[M, D]", "i": "int32[K]"}
    body = "y = embedding(table, i)\nz = take(slice(x, [1, 0], [M, D]), i, 0)\nw = iota(D - 3)"
    path = folder / "test.yaml"
    path.write_text(text_of(inputs, body, {"y": "", "z": "", "w": ""}))
    compile_recipes([path], [TARGETS["host"]], Path(folder))
    return load(folder / "test.fuse", target="host")


def test_nothing_is_read_from_an_empty_table(loaded: Any) -> None:
    torch = pytest.importorskip("torch")
    table, x, index = torch.arange(12.0).reshape(3, 4), torch.ones(2, 4), torch.tensor([2, -5, 9], dtype=torch.int32)
    y, z, w = loaded(table, x, index)
    assert torch.equal(y, table[[2, 0, 2]])
    assert torch.equal(z, torch.ones(3, 4))
    assert w.tolist() == [0]
    with pytest.raises(ValueError, match="test: take over dim 0 of 't4': there are no elements to choose from"):
        loaded(table, x[:1], index)
    with pytest.raises(ValueError, match="test: argument 0 'table': V=0 is below the minimum of 1"):
        loaded(table[:0], x, index)


def test_a_size_below_zero_is_refused(loaded: Any) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(ValueError, match="test: 'w': dim 0 would have -1 elements"):
        loaded(torch.ones(3, 2), torch.ones(1, 2), torch.zeros(1, dtype=torch.int32))
