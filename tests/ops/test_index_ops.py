"""Ops that move elements: their types and messages, how recipes write sizes, the oracle, and the recorder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusebuild.definition import DataType, FusionDefinition
from fusebuild.definition.text import RecipeText
from fusebuild.errors import RecipeError
from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, difference
from fusebuild.ir.formula import evaluate as evaluate_formula
from fusebuild.ir.fusion import Fusion
from fusebuild.ops.builder import FusionBuilder
from fusebuild.ops.indexing import reshape_groups, slice_bounds
from fusebuild.ops.type_rules import TypeRuleError
from fusebuild.oracle.reference import evaluate, random_inputs
from support.op_calls import Operand, result_types
from support.recorded import recorded
from support.small_recipes import recipe_of, text_of

torch = pytest.importorskip("torch")

F32, BF16, I64, I32, BOOL = DType.FLOAT, DType.BFLOAT16, DType.INT64, DType.INT32, DType.BOOL
HALF_OF_N: Formula = ("floor_div", "N", 2)
QUARTER_OF_N: Formula = ("floor_div", "N", 4)
MATRIX: Operand = (F32, ("M", "N"))
INDEX: Operand = (I64, ("K",))


def shape(op: str, operands: Sequence[Operand], **named: Any) -> str:
    """The type of what ``op`` makes of ``operands``."""
    (result,) = result_types(op, operands, **named)
    return result


class TestTypes:
    def test_permute_takes_dims_from_either_end(self) -> None:
        assert shape("permute", [(BF16, ("A", "B", "C"))], permutation=(2, 0, 1)) == "bfloat16[C, A, B]"
        assert shape("permute", [(BF16, ("A", "B", "C"))], permutation=(-1, -3, 1)) == "bfloat16[C, A, B]"
        assert shape("permute", [(F32, ())], permutation=()) == "float[]"

    def test_permute_and_slice_keep_expanded_dims_expanded(self) -> None:
        builder = FusionBuilder("test")
        x = builder.call("expand", [builder.tensor(F32, ("M", 1))], {"shape": ("M", "N")})[0]
        assert x.tensor.contiguity == (True, None)
        turned = builder.call("permute", [x], {"permutation": (1, 0)})[0]
        assert turned.tensor.contiguity == (None, True)
        part = builder.call("slice", [x], {"start_indices": (0, 0), "end_indices": ("M", 2)})[0]
        assert part.tensor.contiguity == (True, None)
        padded = builder.call("pad", [x, builder.constant(0)], {"pad_widths": (0, 1)})[0]
        assert padded.tensor.contiguity == (True, True)

    @pytest.mark.parametrize(
        ("starts", "ends", "strides", "result"),
        [
            ((0, 0), ("M", "N"), None, "float[M, N]"),
            ((0, 0), ("M", HALF_OF_N), None, "float[M, N // 2]"),
            ((0, HALF_OF_N), ("M", "N"), None, "float[M, N - (N // 2)]"),
            ((0, QUARTER_OF_N), ("M", HALF_OF_N), None, "float[M, (N // 2) - (N // 4)]"),
            ((0, HALF_OF_N), ("M", QUARTER_OF_N), None, "float[M, 0]"),
            ((0, 0), ("M", 3), None, "float[M, min(3, N)]"),
            ((0, 2), ("M", "N"), None, "float[M, N - min(2, N)]"),
            ((0, 0), ("M", difference("N", 2)), None, "float[M, max(N - 2, 0)]"),
            ((0, difference("N", 2)), ("M", "N"), None, "float[M, N - max(N - 2, 0)]"),
            ((0, "M"), ("M", "N"), None, "float[M, N - min(M, N)]"),
            ((0, "N"), ("M", "N"), None, "float[M, 0]"),
            ((0, 0), ("M", "N"), (2, 3), "float[ceil_div(M, 2), ceil_div(N, 3)]"),
            ((0, 0), ("M", 9), (1, 4), "float[M, ceil_div(min(9, N), 4)]"),
        ],
    )
    def test_slice(self, starts: Any, ends: Any, strides: Any, result: str) -> None:
        named = {"start_indices": starts, "end_indices": ends, "strides": strides}
        assert shape("slice", [MATRIX], **named) == result

    def test_slice_of_known_sizes(self) -> None:
        named = {"start_indices": (1, 2), "end_indices": (9, 9), "strides": (3, 2)}
        assert shape("slice", [(F32, (5, 6))], **named) == "float[2, 2]"
        assert shape("slice", [(F32, (2,))], start_indices=(5,), end_indices=(7,)) == "float[0]"

    @pytest.mark.parametrize(
        ("widths", "result"),
        [
            ((), "float[M, N]"),
            ((1, 2), "float[M, N + 3]"),
            ((1, "M", 3, 4), "float[M + 7, M + N + 1]"),
            ((0, difference("K", "N")), "float[M, K]"),
            ((0, difference("K", 3)), "float[M, max(N + K - 3, 0)]"),
        ],
    )
    def test_pad(self, widths: Any, result: str) -> None:
        builder = FusionBuilder("test")
        x, _ = builder.tensor(F32, ("M", "N")), builder.tensor(F32, ("K",))
        padded = builder.call("pad", [x, builder.constant(0)], {"pad_widths": widths})[0]
        assert str(padded.type) == result
        assert str(builder.call("place", [x], {"pad_widths": widths})[0].type) == result

    def test_cat(self) -> None:
        wide: Operand = (F32, ("M", "K"))
        assert shape("cat", [MATRIX, wide], dim=1) == "float[M, N + K]"
        assert shape("cat", [MATRIX, wide, (F32, ("M", 3)), MATRIX], dim=-1) == "float[M, 2*N + K + 3]"
        assert shape("cat", [(BF16, ("M", 1)), (BF16, ("M", 2))], dim=1) == "bfloat16[M, 3]"
        assert shape("cat", [(BF16, ("M", 1)), (F32, ("M", 2))], dim=1) == "float[M, 3]"
        assert shape("cat", [(BOOL, ("M", 1)), (I32, ("M", 2))], dim=1) == "int32[M, 3]"

    def test_reshape(self) -> None:
        assert shape("reshape", [MATRIX], shape=(("mul", "M", "N"),)) == "float[M*N]"
        assert shape("reshape", [MATRIX], shape=(1, "M", 1, "N", 1)) == "float[1, M, 1, N, 1]"
        assert shape("reshape", [(F32, ("M", 12))], shape=("M", 3, 4)) == "float[M, 3, 4]"
        assert shape("reshape", [(F32, ("M", 2, "N"))], shape=(("mul", 2, "M"), "N")) == "float[2*M, N]"
        assert shape("reshape", [(F32, ())], shape=(1, 1)) == "float[1, 1]"
        assert shape("reshape", [(F32, (0, 3))], shape=(0,)) == "float[0]"

    def test_take(self) -> None:
        assert shape("take", [MATRIX, INDEX], dim=0) == "float[K, N]"
        assert shape("take", [MATRIX, (I32, ("A", "B"))], dim=-1) == "float[M, A, B]"
        assert shape("take", [MATRIX, (I32, ())], dim=0) == "float[N]"
        assert shape("index_select", [MATRIX, INDEX], dim=1) == "float[M, K]"
        assert shape("embedding", [MATRIX, (I32, ("A", "B"))]) == "float[A, B, N]"

    @pytest.mark.parametrize("op", ["take_along_axis", "gather"])
    def test_take_along_axis_broadcasts_the_other_dims(self, op: str) -> None:
        assert shape(op, [MATRIX, (I64, ("M", "K"))], dim=1) == "float[M, K]"
        assert shape(op, [(F32, (1, "N")), (I64, ("M", "K"))], dim=1) == "float[M, K]"
        assert shape(op, [MATRIX, (I64, (1, "K"))], dim=-1) == "float[M, K]"

    def test_triangles_keep_type_and_shape(self) -> None:
        assert shape("triu", [(BOOL, ("A", "M", "N"))]) == "bool[A, M, N]"
        assert shape("tril", [MATRIX], diagonal=-2) == "float[M, N]"


# Sizes of slices: whatever the bounds are, nothing outside is ever named

terms = st.sampled_from([0, 1, 3, 7, "M", "N"])
bounds: st.SearchStrategy[Any] = (
    terms | st.builds(difference, terms, terms) | st.builds(lambda k: ("floor_div", "N", k), st.integers(1, 5))
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(
    extent=st.sampled_from([0, 1, 5, "M", "N", difference("N", 2)]), start=bounds, end=bounds, step=st.integers(1, 4),
    m=st.integers(0, 9), n=st.integers(2, 9),
)  # fmt: skip
def test_slices_lie_within_the_tensor(extent: Any, start: Any, end: Any, step: int, m: int, n: int) -> None:
    sizes = {"M": m, "N": n}
    named = {"start_indices": (start,), "end_indices": (end,), "strides": (step,)}
    try:
        ((first, count, _),) = slice_bounds([extent], named)
    except TypeRuleError:
        assert isinstance(start, int)
        assert isinstance(end, int)
        assert start > end
        return
    size, begin, stop = (evaluate_formula(each, sizes) for each in (extent, start, end))
    want = range(size)[max(begin, 0) : max(stop, 0) : step]
    assert evaluate_formula(count, sizes) == len(want)
    if len(want):
        assert evaluate_formula(first, sizes) == want[0]


def test_reshape_groups_are_the_shortest_runs() -> None:
    assert reshape_groups(("A", 2, 3, "B"), (("mul", 2, "A"), 3, "B")) == [
        (range(0, 2), range(0, 1)),
        (range(2, 3), range(1, 2)),
        (range(3, 4), range(2, 3)),
    ]
    assert reshape_groups(("A", "B"), (("mul", "B", "A"),)) == [(range(0, 2), range(0, 1))]
    assert reshape_groups(("A",), ("B",)) is None
    assert reshape_groups((0, "A"), (7, 0)) == [(range(0, 2), range(0, 2))]


# Sizes in recipes


def fusion_of(body: str, outputs: dict[str, str], **inputs: str) -> Fusion:
    return recipe_of(text_of(inputs or {"x": "float[M, N]"}, body, outputs)).fusion


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("N", "N"),
        ("N // 2", "N // 2"),
        ("N - 1 + 1", "N"),
        ("2 * (N + M) - 3", "2*M + 2*N - 3"),
        ("M * N // 4", "(M*N) // 4"),
        ("7 // 2", "3"),
        ("N - N", "0"),
    ],
)
def test_recipes_compute_with_extents(written: str, meant: str) -> None:
    fusion = fusion_of(f"_ = set(x)\ny = iota({written})", {"y": "int64"})
    assert str(fusion.value(fusion.output_fids[0]).type) == f"int64[{meant}]"
    again = recipe_of(str(RecipeText(fusion))).fusion
    assert again.value(again.output_fids[0]).type == fusion.value(fusion.output_fids[0]).type


def test_extents_are_no_deeper_than_plans_hold() -> None:
    written = "N"
    for _ in range(9):
        written = f"({written} + 1) // 2"
    with pytest.raises(RecipeError, match=r"test\.yaml:6:13: error: the extent is nested more than 16 deep"):
        fusion_of(f"_ = set(x)\ny = iota({written})", {"y": "int64"})


# The oracle


def oracle(
    op: str, operands: Sequence[Any], sizes: Sequence[tuple[Formula, ...]], dtypes: Sequence[DType], **named: Any
) -> Any:
    """What the oracle makes of ``operands``, tensors of ``sizes`` and numbers."""
    builder = FusionBuilder("test")
    shapes, kinds = iter(sizes), iter(dtypes)
    values = [
        builder.tensor(next(kinds), next(shapes)) if isinstance(each, torch.Tensor) else builder.constant(each)
        for each in operands
    ]
    builder.output(builder.call(op, values, named)[0], name="y")
    return evaluate(builder.finish(), [each for each in operands if isinstance(each, torch.Tensor)])[0]


small = st.integers(0, 5)
few = settings(max_examples=60, deadline=None, derandomize=True)


def numbers(*sizes: int) -> Any:
    return torch.arange(torch.Size(sizes).numel(), dtype=torch.float32).reshape(sizes) + 1


@few
@given(m=small, n=small, data=st.data())
def test_oracle_of_slice(m: int, n: int, data: st.DataObject) -> None:
    x, bounds = numbers(m, n), []
    for _ in range(2):
        start = data.draw(small)
        bounds.append((start, data.draw(st.integers(start, 7)), data.draw(st.integers(1, 3))))
    starts, ends, steps = zip(*bounds, strict=True)
    got = oracle("slice", [x], [("M", "N")], [F32], start_indices=starts, end_indices=ends, strides=steps)
    assert torch.equal(got, x[tuple(slice(*each) for each in bounds)])


@few
@given(m=small, n=small, widths=st.lists(small, min_size=2, max_size=4).filter(lambda w: len(w) % 2 == 0))
def test_oracle_of_pad(m: int, n: int, widths: list[int]) -> None:
    x = numbers(m, n)
    got = oracle("pad", [x, -2.5], [("M", "N")], [F32], pad_widths=tuple(widths))
    assert torch.equal(got, torch.nn.functional.pad(x, widths, value=-2.5))
    placed = oracle("place", [x], [("M", "N")], [F32], pad_widths=tuple(widths))
    assert torch.equal(placed.isnan(), torch.nn.functional.pad(torch.zeros(m, n), widths, value=1.0) == 1)


@few
@given(sizes=st.lists(small, min_size=1, max_size=3), other=small, dim=st.sampled_from([0, 1, -1, -2]))
def test_oracle_of_cat(sizes: list[int], other: int, dim: int) -> None:
    joined = [numbers(size, other) if dim % 2 == 0 else numbers(other, size) for size in sizes]
    shapes = [(f"A{i}", "N") if dim % 2 == 0 else ("N", f"A{i}") for i in range(len(sizes))]
    got = oracle("cat", joined, shapes, [F32] * len(sizes), dim=dim)
    assert torch.equal(got, torch.cat(joined, dim))


@few
@given(order=st.permutations(range(3)))
def test_oracle_of_permute(order: list[int]) -> None:
    x = numbers(2, 3, 4)
    got = oracle("permute", [x], [("A", "B", "C")], [F32], permutation=tuple(order))
    assert torch.equal(got, x.permute(order))


@few
@given(m=st.integers(1, 5), n=st.integers(1, 5), index=st.lists(st.integers(-3, 8), max_size=6),
       dim=st.sampled_from([0, 1, -1]), dtype=st.sampled_from([I64, I32]))  # fmt: skip
def test_oracle_of_take_reads_the_nearest_element(m: int, n: int, index: list[int], dim: int, dtype: DType) -> None:
    x = numbers(m, n)
    where_to = torch.tensor(index, dtype=torch.int64 if dtype is I64 else torch.int32)
    inside = where_to.long().clamp(0, x.shape[dim] - 1)
    for op in ("take", "index_select"):
        got = oracle(op, [x, where_to], [("M", "N"), ("K",)], [F32, dtype], dim=dim)
        assert torch.equal(got, x.index_select(dim, inside))
    looked_up = oracle("embedding", [x, where_to], [("M", "N"), ("K",)], [F32, dtype])
    assert torch.equal(looked_up, torch.nn.functional.embedding(where_to.long().clamp(0, m - 1), x))


@few
@given(m=st.integers(1, 5), n=st.integers(1, 5), k=st.integers(0, 5), seed=small)
def test_oracle_of_gather_is_torchs_inside(m: int, n: int, k: int, seed: int) -> None:
    x = numbers(m, n)
    index = torch.randint(-2, n + 2, (m, k), generator=torch.Generator().manual_seed(seed))
    for op in ("gather", "take_along_axis"):
        got = oracle(op, [x, index], [("M", "N"), ("M", "K")], [F32, I64], dim=1)
        assert torch.equal(got, torch.gather(x, 1, index.clamp(0, n - 1)))
    wide = oracle("take_along_axis", [x[:1], index], [(1, "N"), ("M", "K")], [F32, I64], dim=1)
    assert torch.equal(wide, torch.gather(x[:1].expand(m, n), 1, index.clamp(0, n - 1)))


@few
@given(m=small, n=small, diagonal=st.integers(-6, 6))
def test_oracle_of_triangles(m: int, n: int, diagonal: int) -> None:
    x = numbers(2, m, n)
    assert torch.equal(oracle("triu", [x], [("A", "M", "N")], [F32], diagonal=diagonal), torch.triu(x, diagonal))
    assert torch.equal(oracle("tril", [x], [("A", "M", "N")], [F32], diagonal=diagonal), torch.tril(x, diagonal))


def test_oracle_of_a_computed_size_of_zero_gives_zeros() -> None:
    body = "part = slice(x, [0, 2], [M, N])\ny = take(part, i, 1)\nz = take_along_axis(part, w, 1)"
    fusion = fusion_of(body, {"y": "", "z": ""}, x="float[M, N]", i="int64[K]", w="int64[M, K]")
    index, where_to = torch.tensor([0, 5, -1]), torch.zeros(2, 3, dtype=torch.int64)
    y, z = evaluate(fusion, [numbers(2, 1), index, where_to])
    assert torch.equal(y, torch.zeros(2, 3))
    assert torch.equal(z, torch.zeros(2, 3))


# The recorder


def names_of_nvfuser(fd: FusionDefinition) -> None:
    x = fd.define_tensor([-1, -1], contiguity=True)
    index = fd.define_tensor([-1], contiguity=True, dtype=DataType.Int)
    turned = fd.ops.permute(arg=x, dims=[1, 0])
    part = fd.ops.slice(x, start_indices=[0, 1], end_indices=[3, 9], strides=[1, 2])
    padded = fd.ops.pad(x, widths=[1, 2, 0, 3], value=None)
    filled = fd.ops.pad(arg=x, widths=[1, 1], value=fd.define_scalar(2.0))
    joined = fd.ops.cat([x, x, filled], dim=1)
    flat = fd.ops.reshape(x, new_shape=[x.size(0), 1, x.size(1)])
    rows = fd.ops.index_select(x, index, dim=0)
    columns = fd.ops.take(x, index, -1)
    looked_up = fd.ops.embedding(x, index)
    upper, lower = fd.ops.triu(x, 1), fd.ops.tril(x, diagonal=-1)
    for value in (turned, part, padded, filled, joined, flat, rows, columns, looked_up, upper, lower):
        fd.add_output(value)


def sizes_that_meet(fd: FusionDefinition) -> None:
    x, y, other = (fd.define_tensor([-1, -1], contiguity=True) for _ in range(3))
    index = fd.define_tensor([-1, -1], contiguity=True, dtype=DataType.Int)
    fd.add_output(fd.ops.cat([x, y], 1))
    fd.add_output(fd.ops.gather(other, index, 1))
    fd.add_output(fd.ops.take_along_axis(x, index, dim=1))
    fd.add_output(fd.ops.cat([fd.ops.slice(y, [0, 0], [7, 2]), fd.ops.slice(other, [0, 0], [7, 1])], 1))


DEFINITIONS = (names_of_nvfuser, sizes_that_meet)


@pytest.mark.parametrize("record", DEFINITIONS)
def test_definitions_are_printed_and_recorded_again(record: Callable[[FusionDefinition], None]) -> None:
    first = recorded(record)
    space: dict[str, Any] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(str(first), space)
    second = recorded(space[first.fusion.name])
    assert str(second) == str(first)
    assert second.fusion.extents == first.fusion.extents
    recipe = recipe_of(str(RecipeText(first.fusion))).fusion
    sizes = {str(binding.extent): 4 for binding in first.fusion.extents}
    inputs = random_inputs(first.fusion, sizes, seed=1)
    for one, other, third in zip(*(evaluate(each, inputs) for each in (first.fusion, second.fusion, recipe)),
                                 strict=True):  # fmt: skip
        assert torch.equal(one, other)
        assert torch.equal(one, third)


def test_sizes_that_become_known_change_formulas_too() -> None:
    fusion = recorded(sizes_that_meet).fusion
    shapes = [str(fusion.value(fid).type) for fid in (*fusion.inputs, *fusion.output_fids)]
    assert shapes == [
        "float[i0, i1]", "float[i0, i2]", "float[i0, i3]", "int64[i0, i4]",
        "float[i0, i1 + i2]", "float[i0, i4]", "float[i0, i4]", "float[min(7, i0), min(2, i2) + min(1, i3)]",
    ]  # fmt: skip


def test_a_symbol_that_meets_a_computed_size_is_that(compilers: None, empty_store: Path) -> None:
    with FusionDefinition(name="doubled") as fd:
        x, y = (fd.define_tensor([-1], contiguity=True) for _ in range(2))
        fd.add_output(fd.ops.cat([x, x], 0) + y)
    a, b = torch.rand(3), torch.rand(6)
    assert torch.equal(fd.execute([a, b])[0], torch.cat([a, a]) + b)
    with pytest.raises(ValueError, match=r"^doubled: argument 1 't1': dim 0 is 2\*i0 = 6, got 5$"):
        fd.execute([a, torch.rand(5)])


def test_definitions_run(compilers: None, empty_store: Path) -> None:
    with FusionDefinition() as fd:
        x = fd.define_tensor([-1, -1], contiguity=True)
        y = fd.define_tensor([-1, -1], contiguity=True)
        ids = fd.define_tensor([-1], contiguity=True, dtype=DataType.Int)
        fd.add_output(fd.ops.cat([fd.ops.neg(x), y], 1))
        fd.add_output(fd.ops.permute(fd.ops.embedding(x, ids), dims=[1, 0]))
    x, y, ids = torch.randn(5, 3), torch.randn(5, 4), torch.tensor([4, 0, 9])
    joined, looked_up = fd.execute([x, y, ids])
    assert torch.equal(joined, torch.cat([-x, y], 1))
    assert torch.equal(looked_up, x[[4, 0, 4]].T)
