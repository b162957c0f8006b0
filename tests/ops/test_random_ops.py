"""Random ops: their types and messages, what they mean, how they are written and recorded, and where they are drawn."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusebuild.definition import DataType, FusionDefinition
from fusebuild.definition.text import RecipeText
from fusebuild.errors import RecipeError
from fusebuild.ir.dtype import DType
from fusebuild.ops.builder import FusionBuilder
from fusebuild.ops.random import philox4x32_10
from fusebuild.oracle.bounds import BOUNDS
from fusebuild.oracle.reference import evaluate, evaluate_fp64, torch_dtype
from fusebuild.pipeline import compile_recipes, plan_recipe
from fusebuild.runtime.loader import LoadedPlan, load
from fusebuild.segmentation import segment
from fusebuild.target.table import TARGETS
from support.host_artifacts import compile_for_host
from support.op_calls import Operand, result_types
from support.places import TESTS
from support.small_recipes import primitive, recipe_of, text_of

torch = pytest.importorskip("torch")

F64, F32, F16, BF16, I64, I32, BOOL = (
    DType.DOUBLE, DType.FLOAT, DType.HALF, DType.BFLOAT16, DType.INT64, DType.INT32, DType.BOOL,
)  # fmt: skip
MATRIX: Operand = (F32, ("M", "N"))
SEEDS: tuple[Operand, ...] = (I64, 0)


class TestTypes:
    def test_draws_are_float(self) -> None:
        assert result_types("philox_uniform", [(I32, ("M", 1)), *SEEDS]) == ["float[M, 1]"]
        assert result_types("philox_normal", [(I64, ("M", 1)), *SEEDS]) == ["float[M, 1]"]
        assert result_types("uniform_between", [MATRIX, 0, F64]) == ["float[M, N]"]
        assert result_types("normal_around", [MATRIX, 0, F64]) == ["float[M, N]"]
        assert result_types("linear_index", [], shape=("M", 3)) == ["int64[M, 3]"]

    @pytest.mark.parametrize("dtype", [F64, F32, F16, BF16])
    def test_numbers_like_a_tensor_have_its_dtype(self, dtype: DType) -> None:
        assert result_types("rand_like", [(dtype, ("M", "N")), *SEEDS]) == [f"{dtype.value}[M, N]"]
        assert result_types("randn_like", [(dtype, ("M", "N")), *SEEDS]) == [f"{dtype.value}[M, N]"]
        for op in ("uniform", "normal"):
            assert result_types(op, [0.0, F64, *SEEDS], shape=("M", 1), dtype=dtype) == [f"{dtype.value}[M, 1]"]

    def test_an_expanded_tensor_gets_a_number_for_each_element(self) -> None:
        builder = FusionBuilder("test")
        (x,) = builder.call("expand", [builder.tensor(F32, ("M", 1))], {"shape": ("M", "N")})
        seeds = [builder.constant(1), builder.constant(0)]
        assert builder.call("rand_like", [x, *seeds])[0].tensor.contiguity == (True, True)
        assert builder.call("dropout", [x, builder.constant(0.5), *seeds])[1].tensor.contiguity == (True, True)

    def test_dropout_computes_like_every_pointwise_op(self) -> None:
        assert result_types("dropout", [MATRIX, 0.5, *SEEDS]) == ["float[M, N]", "bool[M, N]"]
        assert result_types("dropout", [(BF16, ("N",)), F64, I32, I32]) == ["float[N]", "bool[N]"]
        assert result_types("dropout", [(F64, ("N",)), 0, *SEEDS]) == ["double[N]", "bool[N]"]


# The oracle


def drawn(op: str, dtype: DType, sizes: Sequence[int], seed: int, offset: int, *operands: float, **named: Any) -> Any:
    """What the oracle draws, and the same in float64."""
    builder = FusionBuilder("test")
    x = builder.tensor(dtype, tuple(sizes))
    given = [builder.constant(each) for each in (*operands, seed, offset)]
    results = builder.call(op, [*([] if op in ("uniform", "normal") else [x]), *given], named)
    for result in results:
        builder.output(result)
    ones = torch.ones(*sizes, dtype=torch_dtype(dtype))
    return evaluate(builder.finish(), [ones]), evaluate_fp64(builder.finish(), [ones])


def word(index: int, seed: int, offset: int) -> int:
    """The word of an element, as the documentation says."""
    low, high = 0xFFFFFFFF, 32
    group, key, part = index // 4, seed % 2**64, offset % 2**64
    counter = (group & low, group >> high, part & low, part >> high)
    return int(philox4x32_10(counter, (key & low, key >> high))[index % 4])


SIZES = (3, 5, 7)


@pytest.mark.parametrize(("seed", "offset"), [(0, 0), (1234, 5), (-1, 2**40), (2**63 - 1, -(2**63))])
@pytest.mark.parametrize(("dtype", "bits"), [(F32, 24), (F64, 24), (F16, 11), (BF16, 8)])
def test_an_element_is_the_upper_bits_of_its_word(dtype: DType, bits: int, seed: int, offset: int) -> None:
    want = [(word(index, seed, offset) >> (32 - bits)) / 2**bits for index in range(105)]
    for (got,) in drawn("rand_like", dtype, SIZES, seed, offset):
        assert got.shape == SIZES
        assert got.flatten().double().tolist() == want


def test_dropout_keeps_what_is_not_below_p() -> None:
    words = torch.tensor([word(index, 9, 4) >> 8 for index in range(105)]).reshape(SIZES) / 2**24
    for y, kept in drawn("dropout", BF16, SIZES, 9, 4, 0.3):
        assert torch.equal(kept, words >= torch.tensor(0.3))
        torch.testing.assert_close(y.double(), kept.double() / 0.7, rtol=1e-7, atol=0)
    (y, kept), _ = drawn("dropout", F32, SIZES, 9, 4, 0)
    assert bool(kept.all() & (y == 1).all())


def test_what_is_dropped_is_0_whatever_it_was() -> None:
    builder = FusionBuilder("test")
    x = builder.tensor(F32, (64,))
    for result in builder.call("dropout", [x, *map(builder.constant, (0.5, 1, 0))]):
        builder.output(result)
    y, kept = evaluate(builder.finish(), [torch.full((64,), float("inf"))])
    assert bool((y[~kept] == 0).all() & (y[kept] == float("inf")).all())
    assert 0 < int(kept.sum()) < 64


def test_draws_are_uniform() -> None:
    """Mean, variance, 256 cells and neighbours, all at a fixed seed: each within four standard deviations."""
    count = 2**20
    ((u,), _) = drawn("rand_like", F32, (count,), 2011, 0)
    x = u.double()
    assert 0 <= float(x.min()) < 1e-5 < 1 - 1e-5 < float(x.max()) < 1
    assert abs(float(x.mean()) - 0.5) < 4 * (1 / 12 / count) ** 0.5
    assert abs(float(x.var()) - 1 / 12) < 4 * (1 / 180 / count) ** 0.5
    for distance in (1, 2, 4, 1024):
        pairs = torch.bincount((x * 16).long()[:-distance] * 16 + (x * 16).long()[distance:], minlength=256)
        expected = (count - distance) / 256
        statistic = float(((pairs - expected) ** 2 / expected).sum())
        assert abs(statistic - 255) < 4 * (2 * 255) ** 0.5
    cells = torch.bincount((u.double() * 2**24).long() % 256, minlength=256)
    assert abs(float(((cells - count / 256) ** 2 / (count / 256)).sum()) - 255) < 4 * (2 * 255) ** 0.5


def test_seeds_and_offsets_are_unrelated() -> None:
    sets = [drawn("rand_like", F32, (65536,), *seeds)[0][0].double() for seeds in ((1, 0), (2, 0), (1, 1), (-1, 0))]
    correlations = torch.corrcoef(torch.stack(sets)) - torch.eye(4)
    assert float(correlations.abs().max()) < 4 / 256


def test_bounds() -> None:
    for (got,) in drawn("uniform", F32, (4096,), 5, 0, -2.0, 6.0, shape=(4096,)):
        assert float(got.min()) >= -2
        assert float(got.max()) <= 6
        assert abs(float(got.mean()) - 2) < 4 * (64 / 12 / 4096) ** 0.5


def normal_of(index: int, seed: int, offset: int) -> float:
    """The normal number of an element, as the documentation says."""
    first, second = (word(index & -2 | part, seed, offset) for part in (0, 1))
    share = torch.tensor(float(torch.tensor(first).float()) * 2.0**-32 + 2.0**-33, dtype=torch.float64).float()
    radius, angle = math.sqrt(-2 * math.log(float(share))), 2 * math.pi * (second >> 8) / 2**24
    return radius * (math.sin(angle) if index % 2 else math.cos(angle))


@pytest.mark.parametrize(("seed", "offset"), [(0, 0), (1234, 5), (-1, 2**40), (2**63 - 1, -(2**63))])
@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16])
def test_a_normal_number_is_made_of_its_pairs_words(dtype: DType, seed: int, offset: int) -> None:
    want = torch.tensor([normal_of(index, seed, offset) for index in range(105)], dtype=torch.float64).reshape(SIZES)
    typed, wide = (results[0] for results in drawn("randn_like", dtype, SIZES, seed, offset))
    torch.testing.assert_close(wide, want, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(typed.double(), want, rtol=BOUNDS[dtype], atol=1e-12)


def test_normal_numbers_are_normal() -> None:
    """Moments, 64 cells of equal probability, pairs and neighbours, at a fixed seed: each within four deviations."""
    count = 2**20
    ((z,), _) = drawn("randn_like", F32, (count,), 2011, 0)
    x = z.double()
    assert 4.5 < float(x.abs().max()) < 6.77
    for power, (mean, variance) in {1: (0, 1), 2: (1, 2), 3: (0, 15), 4: (3, 96)}.items():
        assert abs(float((x**power).mean()) - mean) < 4 * (variance / count) ** 0.5
    cells = (torch.special.ndtr(x) * 8).long().clamp(max=7)
    for distance in (1, 2, 3, 4, 1024):
        pairs = torch.bincount(cells[:-distance] * 8 + cells[distance:], minlength=64)
        expected = (count - distance) / 64
        assert abs(float(((pairs - expected) ** 2 / expected).sum()) - 63) < 4 * (2 * 63) ** 0.5
    squares = torch.corrcoef(torch.stack([x[::2] ** 2, x[1::2] ** 2]))[0, 1]
    assert abs(float(squares)) < 4 * (2 / count) ** 0.5


def test_mean_and_deviation() -> None:
    ((z,), _) = drawn("normal", F32, (4096,), 5, 0, 0, 1, shape=(4096,))
    for got in (each[0] for each in drawn("normal", F32, (4096,), 5, 0, -2.0, 0.25, shape=(4096,))):
        torch.testing.assert_close(got.double(), z.double() * 0.25 - 2, rtol=1e-6, atol=1e-6)
    ((same,), _) = drawn("normal", F32, (64,), 5, 0, 3.0, 0.0, shape=(64,))
    assert bool((same == 3).all())


# Passes


def ops(body: str, outputs: dict[str, str], **scalars: str) -> list[str]:
    fusion = primitive(
        text_of({"x": "bfloat16[M, N]"}, body, outputs, scalars={"s": "int64", "p": "double", **scalars})
    )
    return [expr.op for expr in fusion.exprs]


class TestPasses:
    def test_dropout_in_primitives(self) -> None:
        found = ops("y, m = dropout(x, p, s)", {"y": "bfloat16", "m": "bool"})
        assert found == ["linear_index", "philox_uniform", "ge", "sub", "truediv", "mul", "where", "cast"]

    def test_normal_numbers_in_primitives(self) -> None:
        found = ops("y = normal(p, 2.0, [M, N], s)\n_ = set(x)", {"y": "half"})
        assert found == ["linear_index", "philox_normal", "normal_around", "cast"]
        assert ops("y = normal(0, 1, [M, N], s) + p\n_ = set(x)", {"y": "float"}) == [*found[:2], "add"]

    def test_a_known_p_is_folded(self) -> None:
        body, outputs = "y, m = dropout(x, {}, s)\n_ = set(p)", {"y": "bfloat16", "m": "bool"}
        assert ops(body.format(0.25), outputs) == ["linear_index", "philox_uniform", "ge", "mul", "where", "cast"]

    def test_equal_draws_are_one_and_others_are_not(self) -> None:
        body = "a = rand_like(cast(x, float), s, {})\nb = uniform(0, 1, [M, N], s, {})\ny = a - b + p"
        assert ops(body.format(1, 1), {"y": "float"}).count("philox_uniform") == 1
        assert ops(body.format(1, 2), {"y": "float"}).count("philox_uniform") == 2
        assert ops(body.format("s", 0), {"y": "float"}).count("philox_uniform") == 2

    def test_no_move_goes_through_a_draw(self) -> None:
        body = "u = rand_like(cast(x, float), s)\ny = slice(u * p, [0, 0], [M, 2]) + 0.0\nz = u + 1.0"
        found = ops(body, {"y": "float", "z": "float"})
        assert found.count("philox_uniform") == 1
        assert found.index("philox_uniform") < found.index("slice")

    def test_draws_are_stored_and_not_made_again(self) -> None:
        body = "u = rand_like(cast(x, float), s)\na = segment_set(sum(u, dims=[0])) + p\ny = u * a"
        fusion = primitive(text_of({"x": "bfloat16[M, N]"}, body, {"y": "float"}, scalars={"s": "int64", "p": "double"},
                                   cases="M: 4096, N: 4096"))  # fmt: skip
        cut = segment(fusion, TARGETS["sm_90"])
        made = [expr.op for each in cut.segments for expr in each.fusion.exprs]
        assert len(cut.segments) > 1
        assert made.count("philox_uniform") == 1


# Definitions


def with_random(fd: FusionDefinition) -> None:
    x = fd.define_tensor([-1, -1], dtype=DataType.BFloat16)
    seed, offset = fd.define_scalar(None, dtype=DataType.Int), fd.define_scalar(3)
    like = fd.ops.rand_like(x, rng_seed=seed, rng_offset=offset)
    drawn = fd.ops.uniform(fd.define_scalar(0.0), 2.0, x.shape(), DataType.BFloat16, rng_seed=seed, rng_offset=offset)
    kept, mask = fd.ops.dropout(drawn, 0.1, seed)
    normal = fd.ops.normal(fd.define_scalar(0.0), 0.5, x.shape(), rng_seed=seed, rng_offset=offset)
    for output in (like, fd.ops.cast(kept, DataType.Half), mask, fd.ops.add(normal, fd.ops.randn_like(x, seed))):
        fd.add_output(output)


def test_definitions_are_printed_and_recorded_again() -> None:
    with FusionDefinition() as fd:
        with_random(fd)
    space: dict[str, Any] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(str(fd), space)
    with FusionDefinition() as copy:
        space[fd.fusion.name](copy)
    assert str(copy) == str(fd)
    recipe = recipe_of(str(RecipeText(fd.fusion))).fusion
    inputs = [torch.zeros(5, 7, dtype=torch.bfloat16), 11]
    found = evaluate(fd.fusion, inputs)
    assert [each.dtype for each in found] == [torch.bfloat16, torch.float16, torch.bool, torch.float32]
    for one, other in zip(found, evaluate(recipe, inputs), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize(
    ("record", "message", "hint"),
    [
        (lambda fd, x: fd.ops.rand_like(x, 0.5), "rand_like takes an integer scalar as rng_seed, not double", ""),
        (lambda fd, x: fd.ops.dropout(x, 1.5, 0), "dropout: p is 1.5, not in [0, 1)",
         "p is the part that becomes 0"),
    ],
)  # fmt: skip
def test_definitions_are_told_what_is_wrong(record: Any, message: str, hint: str) -> None:
    fd = FusionDefinition()
    with pytest.raises(RecipeError) as caught, fd:
        record(fd, fd.define_tensor([-1], dtype=DataType.Float))
    (found,) = caught.value.diagnostics
    assert (found.message, found.hint) == (message, hint)


# Kernels: where a number is drawn does not matter

SCHEDULES = {
    "flat": ("y = rand_like(x, seed, offset)", "float"),
    "in_rows": ("u = rand_like(x, seed, offset)\ny = u + 0.0 * max(u, dims=[2], keepdim=True)", "float"),
    "in_columns": ("u = rand_like(x, seed, offset)\ny = u + 0.0 * max(u, dims=[0, 1], keepdim=True)", "float"),
    "turned": ("y = where(t < 0.0, 0.0, permute(rand_like(x, seed, offset), permutation=[2, 0, 1]))", "float"),
    "reshaped": ("y = uniform(0, 1, [A * B * C], seed, offset)\n_ = set(x)", "float"),
    "normal_flat": ("y = randn_like(x, seed, offset)", "float"),
    "normal_in_rows": ("u = randn_like(x, seed, offset)\ny = u + 0.0 * max(u, dims=[2], keepdim=True)", "float"),
    "normal_turned": ("y = where(t < 0.0, 0.0, permute(randn_like(x, seed, offset), permutation=[2, 0, 1]))", "float"),
    "by_place": ("y = philox_uniform(linear_index([A, B, C]), seed, offset)\n_ = set(x)", "float"),
}


@pytest.fixture(scope="module")
def plans(tmp_path_factory: pytest.TempPathFactory) -> dict[str, LoadedPlan]:
    """One artifact for each of :data:`SCHEDULES`."""
    texts = dict[str, str]()
    for name, (body, dtype) in SCHEDULES.items():
        inputs = {"x": "float[A, B, C]", **({"t": "float[C, A, B]"} if name.endswith("turned") else {})}
        texts[name] = text_of(inputs, body, {"y": dtype}, name=name, scalars={"seed": "int64", "offset": "int64"},
                              cases="A: 4, B: 16, C: 64")  # fmt: skip
    folder = compile_for_host(tmp_path_factory.mktemp("random"), texts)
    return {name: load(folder / f"{name}.fuse", target="host") for name in SCHEDULES}


integers = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    sizes=st.tuples(st.integers(1, 4), st.integers(1, 9), st.sampled_from([1, 3, 8, 17, 32, 64, 100])),
    seed=integers, offset=integers,
)  # fmt: skip
def test_draws_do_not_depend_on_the_kernel(
    plans: dict[str, LoadedPlan], sizes: tuple[int, int, int], seed: int, offset: int
) -> None:
    ((uniform,), _), ((normal,), _) = (drawn(op, F32, sizes, seed, offset) for op in ("rand_like", "randn_like"))
    x = torch.zeros(*sizes)
    for name, plan in plans.items():
        is_turned = name.endswith("turned")
        tensors = [x, torch.zeros(sizes[2], *sizes[:2])] if is_turned else [x]
        got = plan(*tensors, seed, offset)
        got = got[0] if isinstance(got, tuple) else got
        got = got.permute(1, 2, 0) if is_turned else got.reshape(sizes)
        if name.startswith("normal"):
            torch.testing.assert_close(got, normal, rtol=1e-6, atol=1e-6, msg=name)
        else:
            assert torch.equal(got, uniform), name


def test_neighbours_in_a_vector_are_told_by_one_aligned_place() -> None:
    """What a compiler needs to see to draw for four neighbours at once."""
    text = text_of({"x": "float[M, N]"}, "y = rand_like(x, 1)", {"y": "float"}, cases="M: 512, N: 512")
    planned = plan_recipe(recipe_of(text), [TARGETS["sm_90"]])
    lines = [line.strip() for kernel in planned.kernels["sm_90"].values() for line in kernel.text.splitlines()]
    places = [line.partition(" = ")[2].split(";")[0] for line in lines if line.startswith("const int64_t t")]
    assert sorted(places) == ["fb::vector_element<kVec>(i, k)"] * 2 + ["i"]


@pytest.mark.exhaustive
@pytest.mark.usefixtures("compilers")
def test_threads_that_draw_do_not_spill(tmp_path: Path) -> None:
    """Spills are errors of a build."""
    compile_recipes([TESTS / "fusions" / "random_numbers.yaml"], [TARGETS["sm_90"]], tmp_path)
