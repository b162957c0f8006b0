"""FusionDefinition: nvFuser's own scripts and tests, sizes that become known, printing and recipes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import fusebuild
from fusebuild.definition import DataType, FusionDefinition, Scalar, Tensor
from fusebuild.definition.text import PythonText, RecipeText, Written
from fusebuild.errors import NOWHERE, RecipeError, UsageError
from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr
from fusebuild.ops.table import OPS, Kind
from fusebuild.oracle.bounds import compare
from fusebuild.oracle.reference import evaluate, evaluate_fp64, random_inputs
from fusebuild.oracle.verification import largest_tensor
from fusebuild.recipe.recipe import load_recipe, parse_recipe
from support.places import FUSIONS, RECIPES
from support.recorded import Record, recorded
from support.seed_003 import nvfuser_fusion_id1

torch = pytest.importorskip("torch")


def without_places(fusion: Fusion) -> Fusion:
    return replace(
        fusion,
        values={fid: replace(value, location=NOWHERE) for fid, value in fusion.values.items()},
        exprs=tuple(replace(expr, location=NOWHERE) for expr in fusion.exprs),
        outputs=tuple(replace(output, location=NOWHERE) for output in fusion.outputs),
    )


def matrices(fd: FusionDefinition, count: int, shape: Sequence[int] = (-1, -1)) -> list[Tensor]:
    return [fd.define_tensor(shape=list(shape), contiguity=True) for _ in range(count)]


# What nvFuser's own tests record


def add_mul_sum(fd: FusionDefinition) -> None:
    example = torch.ones(2, 4, 8)
    t0 = fd.from_pytorch(example)
    t1 = fd.from_pytorch(example)
    c2 = fd.define_scalar(3.0)
    t3 = fd.ops.add(t0, t1)
    t4 = fd.ops.mul(t3, c2)
    t5 = fd.ops.sum(t4, [-1], False, DataType.Float)
    fd.add_output(t5)


def reduction_then_add(fd: FusionDefinition) -> None:
    t0 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
    t1 = fd.define_tensor(shape=[-1, -1], contiguity=[True, True], dtype=DataType.Float)
    t2 = fd.ops.sum(t0, dims=[1], keepdim=True, dtype=DataType.Float)
    fd.add_output(fd.ops.add(t1, t2))


def reduction_broadcast_add(fd: FusionDefinition) -> None:
    t0 = fd.define_tensor(shape=[2, 32], contiguity=[True, True], dtype=DataType.Float)
    t1 = fd.define_tensor(shape=[2, 128], contiguity=[True, True], dtype=DataType.Float)
    t2 = fd.ops.sum(t0, dims=[1], keepdim=False, dtype=DataType.Float)
    t3 = fd.ops.broadcast_in_dim(t2, shape=[2, 1], broadcast_dims=[0])
    fd.add_output(fd.ops.add(t1, t3))


def test_fids_of_inputs_outputs_and_extents_are_nvfusers() -> None:
    fd = recorded(add_mul_sum)
    assert fd.inputs() == [0, 1]
    assert fd.outputs() == [5]
    assert fd.extents() == [-1, -2, -3, -4, -5, -6]


@pytest.mark.parametrize(
    ("record", "first", "second"),
    [
        (reduction_then_add, {0: 0, 2: 2}, {0: 1, 1: 2, 2: 3}),
        (reduction_broadcast_add, {0: 0, 2: 3}, {0: 1, 1: 3, 2: 4}),
    ],
)
def test_segments_and_their_index_space_maps(record: Record, first: dict[int, int], second: dict[int, int]) -> None:
    fd = recorded(record)
    assert fd.segment() == 2
    assert [fd.segment_index_space_maps[segment] for segment in fd.segments] == [first, second]
    assert [(segment.inputs(), segment.outputs()) for segment in fd.segments] == [([0], [2]), ([0, 1], [2])]


@pytest.mark.parametrize("record", [add_mul_sum, reduction_then_add, reduction_broadcast_add])
def test_segments_run_in_order_compute_what_the_whole_does(record: Record) -> None:
    fd = recorded(record)
    fd.segment([torch.ones(1)])
    sizes = {"i0": 2, "i1": 4, "i2": 8}
    inputs = random_inputs(fd.fusion, sizes, seed=1)
    known: dict[int, Any] = dict(zip(fd.inputs(), inputs, strict=True))
    for segment in fd.segments:
        fids = fd.segment_index_space_maps[segment]
        arguments = [known[fids[fid]] for fid in segment.inputs()]
        results = evaluate(segment.fusion, arguments, given=sizes)
        known |= {fids[fid]: result for fid, result in zip(segment.outputs(), results, strict=True)}
    (want,) = evaluate(fd.fusion, inputs)
    assert torch.equal(known[fd.outputs()[0]], want)


def test_the_steps_of_segmentation_one_by_one() -> None:
    fd = recorded(reduction_broadcast_add)
    with pytest.raises(UsageError, match="there is no segmentation: call setup_segmentation first"):
        fd.build_segment(FusionDefinition(), 0)
    assert fd.setup_segmentation(target="sm_80") == 2
    second = FusionDefinition()
    assert fd.build_segment(second, 1) == {0: 1, 1: 3, 2: 4}
    with pytest.raises(UsageError, match="there is no segment 2, only 2"):
        fd.build_segment(FusionDefinition(), 2)
    with pytest.raises(UsageError, match="a segment is built into a new definition"):
        fd.build_segment(second, 0)
    fd.finalize_segmentation()
    assert second.inputs() == [0, 1]
    assert "T2 = fd.ops.add(T0, T1)" in str(second)


# Seed 003


class Eager:
    """Runs a definition as it is recorded, in float64, with roundings only where it casts: an oracle of its own."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._inputs = iter(inputs)
        self.ops = self
        self.outputs: list[Any] = []

    def define_tensor(self, **_: object) -> Any:
        return next(self._inputs).double()

    def define_scalar(self, value: float, dtype: DataType) -> float:
        return value

    def define_vector(self, values: list[int], dtype: DataType) -> list[int]:
        return values

    def cast(self, x: Any, dtype: DataType) -> Any:
        return x.to(torch.bfloat16).double() if dtype is DataType.BFloat16 else x

    def broadcast_in_dim(self, x: Any, shape: list[int], broadcast_dims: list[int]) -> Any:
        own = [x.shape[broadcast_dims.index(dim)] if dim in broadcast_dims else 1 for dim in range(len(shape))]
        return x.reshape(own).expand(shape)

    def sum(self, x: Any, dims: list[int], keepdim: bool, dtype: DataType) -> Any:
        return x.sum(dims, keepdim)

    def reciprocal(self, x: float) -> float:
        return 1 / x

    def add_output(self, x: Any) -> None:
        self.outputs.append(x)

    add, sub, mul, pow, neg = (
        staticmethod(op) for op in (operator.add, operator.sub, operator.mul, operator.pow, operator.neg)
    )


def test_seed_003_records_and_its_sizes_become_known() -> None:
    fd = recorded(nvfuser_fusion_id1)
    assert fd.inputs() == [0, 1, 2, 3, 4, 5, 6]
    assert fd.outputs() == [49, 61, 63, 67, 131]
    shapes = [value.tensor.shape for value in fd.fusion.tensor_inputs]
    large, row, column = (56, 1024, 1024), (56, 1, 1024), (56, 1024, 1)
    assert shapes == [large, large, row, large, (56, 1024), column, large]
    assert fd.segment() == 1


def test_seed_003_computes_what_torch_computes_in_fp64() -> None:
    sizes = 3, 5, 8
    fd = recorded(lambda fd: nvfuser_fusion_id1(fd, *sizes))
    inputs = random_inputs(fd.fusion, {}, seed=3)
    eager = Eager(inputs)
    nvfuser_fusion_id1(eager, *sizes)  # type: ignore[arg-type]
    for got, want in zip(evaluate_fp64(fd.fusion, inputs), eager.outputs, strict=True):
        assert compare(got, want, DType.BFLOAT16).ok


# Sizes that become known


def test_sizes_that_meet_are_one_symbol() -> None:
    def record(fd: FusionDefinition) -> None:
        a, b, c = matrices(fd, 3)
        fd.add_output(a + c)
        fd.add_output(b * 2.0)

    shapes = [value.tensor.shape for value in recorded(record).fusion.tensor_inputs]
    assert shapes == [("i0", "i1"), ("i2", "i3"), ("i0", "i1")]


def test_a_number_makes_every_size_that_met_it_known_earlier_too() -> None:
    def record(fd: FusionDefinition) -> None:
        a, b, c = matrices(fd, 3)
        total = a + b
        fd.add_output(fd.ops.expand(c, [-1, 7]))
        fd.add_output(fd.ops.sum(b, [0]) + fd.define_tensor([7]))
        fd.add_output(total)

    fd = recorded(record)
    shapes = [value.tensor.shape for value in fd.fusion.tensor_inputs]
    assert shapes == [("i0", 7), ("i0", 7), ("i1", 7), (7,)]
    assert fd.fusion.value(fd.outputs()[2]).tensor.shape == ("i0", 7)


def test_a_dim_of_1_is_broadcast_and_makes_nothing_known() -> None:
    def record(fd: FusionDefinition) -> None:
        a, b = fd.define_tensor([-1, 1]), fd.define_tensor([1, -1])
        fd.add_output(a + b)

    fd = recorded(record)
    assert fd.fusion.value(fd.outputs()[0]).tensor.shape == ("i0", "i1")


def test_an_overwritten_input_has_the_size_of_its_output() -> None:
    def record(fd: FusionDefinition) -> None:
        a, b = matrices(fd, 2)
        fd.add_output(b * 2.0, alias_input=a)

    fd = recorded(record)
    assert [value.tensor.shape for value in fd.fusion.tensor_inputs] == [("i0", "i1"), ("i0", "i1")]
    assert fd.fusion.outputs[0].alias == 0


def test_sizes_of_tensors_make_shapes() -> None:
    def record(fd: FusionDefinition) -> None:
        a, b = fd.define_tensor([-1, -1], contiguity=True), fd.define_tensor([-1], contiguity=True)
        rows = a.size(0)
        v = fd.define_vector([rows, 1])
        column = fd.ops.broadcast_in_dim(b, shape=v, broadcast_dims=[0])
        fd.add_output(fd.ops.broadcast_in_dim(column, a.shape(), [0, 1]))
        fd.add_output(fd.ops.iota(fd.ops.size(a, -1), 0, 1, DataType.Int))
        fd.add_output(fd.ops.full(shape=[rows, 3], fill_value=fd.define_scalar(None), dtype=DataType.Float))

    fd = recorded(record)
    fusion = fd.fusion
    assert [value.tensor.shape for value in fusion.tensor_inputs] == [("i0", "i1"), ("i0",)]
    assert [fusion.value(fid).tensor.shape for fid in fd.outputs()] == [("i0", "i1"), ("i1",), ("i0", 3)]


# Printing and recipes


def every_kind_of_value(fd: FusionDefinition) -> None:
    x = fd.define_tensor(shape=[-1, -1, 4], contiguity=[None, False, True], stride_order=[1, 2, 0])
    mask = fd.define_tensor(shape=[-1, -1, 4], contiguity=True, dtype=DataType.Bool)
    spare = fd.define_tensor(1, dtype=DataType.Half)
    step = fd.define_tensor(shape=[], dtype=DataType.Double, is_cpu=True)
    scale = fd.define_scalar(None, dtype=DataType.Float)
    half = fd.define_scalar(0.5, dtype=DataType.Float)
    infinity = fd.define_scalar(float("-inf"))
    flag, count = fd.define_scalar(True), fd.define_constant(3, dtype=DataType.Int32)
    clipped = fd.ops.where(mask & flag, x * scale + half, infinity)
    _, mean = fd.ops.var_mean(fd.ops.cast(x, DataType.Double), [2], 0, True)
    column = fd.ops.squeeze(fd.ops.max(clipped, dims=-1, keepdim=True), dims=[2])
    again = fd.ops.expand(fd.ops.broadcast(column, [False, False, True]), clipped.shape())
    ignored = fd.ops.sum(x, [0, 1])
    assert isinstance(ignored, Tensor)
    fd.add_output(fd.ops.segment_set(again) + step)
    fd.add_output(mean / count)
    fd.add_output(x)
    fd.add_output(fd.ops.iota(fd.ops.size(x, 1), dtype=DataType.Int32))
    fd.add_output(fd.ops.full([2, clipped.size(2)], half, DataType.BFloat16))
    assert spare.ndim == 1


def shapes_of_other_tensors(fd: FusionDefinition) -> None:
    a, b = matrices(fd, 2)
    of_b, of_a = b.shape(), a.shape()
    assert len(of_a) == len(of_b) == 2
    fd.add_output(fd.ops.expand(a, of_b))


DEFINITIONS = [
    add_mul_sum,
    reduction_then_add,
    reduction_broadcast_add,
    nvfuser_fusion_id1,
    every_kind_of_value,
    shapes_of_other_tensors,
]


@pytest.mark.parametrize("record", DEFINITIONS)
def test_what_a_definition_prints_records_an_equal_fusion(record: Record) -> None:
    fd = recorded(record)
    names: dict[str, Any] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(str(fd), names)
    again = recorded(names["nvfuser_fusion_id0"])
    assert without_places(again.fusion) == without_places(fd.fusion)
    assert str(again) == str(fd)


def small_definitions() -> list[Record]:
    return [*DEFINITIONS[:3], lambda fd: nvfuser_fusion_id1(fd, 2, 3, 4), *DEFINITIONS[4:]]


@pytest.mark.parametrize("record", small_definitions())
def test_the_recipe_of_a_definition_computes_the_same(record: Record) -> None:
    fusion = recorded(record).fusion
    recipe = parse_recipe(recorded(record).to_yaml(), "definition.yaml")
    inputs = random_inputs(fusion, {"i0": 2, "i1": 3, "i2": 5}, seed=7)
    is_tensor = [fusion.value(fid).is_tensor for fid in fusion.inputs]
    ordered = [given for given, tensor in zip(inputs, is_tensor, strict=True) if tensor]
    ordered += [given for given, tensor in zip(inputs, is_tensor, strict=True) if not tensor]
    for got, want in zip(evaluate(recipe.fusion, ordered), evaluate(fusion, inputs), strict=True):
        assert got.dtype == want.dtype
        assert torch.equal(got, want)


def test_a_definition_as_text() -> None:
    layout = "contiguity=[True, True], dtype=DataType.Float, is_cpu=False, stride_order=[1, 0]"
    assert str(recorded(reduction_broadcast_add)) == (
        "def nvfuser_fusion_id0(fd : FusionDefinition) -> None :\n"
        f"    T0 = fd.define_tensor(shape=[2, 32], {layout})\n"
        f"    T1 = fd.define_tensor(shape=[2, 128], {layout})\n"
        "    T2 = fd.ops.sum(T0, dims=[1], keepdim=False, dtype=DataType.Float)\n"
        "    T3 = fd.ops.broadcast_in_dim(T2, shape=[2, 1], broadcast_dims=[0])\n"
        "    T4 = fd.ops.add(T1, T3)\n"
        "    fd.add_output(T4)\n"
    )


def test_a_recipe_as_text() -> None:
    def record(fd: FusionDefinition) -> None:
        scale = fd.define_scalar(dtype=DataType.Double)
        x, bias = fd.define_tensor([-1, 8], True, DataType.Half), fd.define_tensor([8], True, stride_order=[0])
        fd.define_tensor([-1], False)
        fd.add_output(fd.ops.cast(x * scale + bias, DataType.Half), alias_input=x)

    assert (
        recorded(record).to_yaml()
        == """\
fusion: nvfuser_fusion_id0
inputs:
  t1: half[i0, 8]
  t2: float[8]
  t3: {type: "float[i1]", contiguity: [false]}
scalars:
  s0: double
body: |
  _ = set(t3)
  t4 = mul(t1, s0)
  t5 = add(t4, t2)
  t6 = cast(t5, dtype=half)
outputs:
  t6: {dtype: half, alias: t1}
"""
    )


def test_a_definition_prints_what_is_recorded_so_far() -> None:
    fd = FusionDefinition(id=4)
    assert str(fd) == "def nvfuser_fusion_id4(fd : FusionDefinition) -> None :\n    pass\n"
    fd.define_scalar(1)
    assert "S0 = fd.define_scalar(1, dtype=DataType.Int)" in repr(fd)
    fd.define_scalar(2)
    assert "S1" in repr(fd)


SHIPPED = sorted([*RECIPES, *FUSIONS])


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_the_text_of_every_fusion_there_is_computes_the_same(path: Path) -> None:
    fusion = load_recipe(path).fusion
    case = min((case for case in fusion.cases if 0 not in case.values()), key=partial(largest_tensor, fusion))
    inputs = random_inputs(fusion, case, seed=5)
    wanted = evaluate(fusion, inputs)
    texts = [parse_recipe(str(RecipeText(fusion)), "again.yaml").fusion]
    names: dict[str, Any] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    sized = any(not isinstance(extent, int) for expr in fusion.exprs for extent in shape_of(expr))
    if not sized and not fusion.lambdas:
        exec(str(PythonText(fusion, Written())), names)
        texts.append(recorded(names[fusion.name]).fusion)
    for again in texts:
        for got, want in zip(evaluate(again, inputs), wanted, strict=True):
            assert got.dtype == want.dtype
            assert torch.equal(got.nan_to_num(), want.nan_to_num())


def shape_of(expr: Expr) -> Sequence[object]:
    """The extents that ``expr`` is written with."""
    named = dict(expr.attributes)
    shapes = [named[p.name] or () for p in OPS[expr.op].parameters if p.kind == "shape"]
    extents = [named[p.name] for p in OPS[expr.op].parameters if p.kind == "extent"]
    return [*extents, *(extent for shape in shapes if isinstance(shape, tuple) for extent in shape)]


# Operators, ops and their arguments


@pytest.mark.parametrize(
    ("operation", "op"),
    [
        (operator.add, "add"), (operator.sub, "sub"), (operator.mul, "mul"), (operator.truediv, "div"),
        (operator.mod, "mod"), (operator.pow, "pow"), (operator.and_, "bitwise_and"), (operator.or_, "bitwise_or"),
        (operator.xor, "bitwise_xor"), (operator.lshift, "bitwise_left_shift"),
        (operator.rshift, "bitwise_right_shift"), (operator.eq, "eq"), (operator.ne, "ne"), (operator.lt, "lt"),
        (operator.le, "le"), (operator.gt, "gt"), (operator.ge, "ge"),
    ],
)  # fmt: skip
def test_binary_operators(operation: Callable[[Any, Any], Any], op: str) -> None:
    fd = FusionDefinition()
    x = fd.define_tensor([4], dtype=DataType.Int)
    swapped = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(op, op)
    for left, right, wanted in ((x, x, op), (x, 2, op), (2, x, swapped)):
        result = operation(left, right)
        expr = fd._recorder.builder.exprs[-1]
        assert isinstance(result, Tensor)
        assert expr.op == wanted
        is_reflected = left is not x and swapped == op and op not in ("eq", "ne")
        assert expr.inputs[1 if is_reflected else 0] == x.index
        assert expr.outputs == (result.index,)


@pytest.mark.parametrize(
    ("operation", "op"), [(operator.neg, "neg"), (operator.invert, "bitwise_not"), (operator.abs, "abs")]
)
def test_unary_operators(operation: Callable[[Any], Any], op: str) -> None:
    fd = FusionDefinition()
    scalar = operation(fd.define_scalar(None, DataType.Int))
    assert isinstance(scalar, Scalar)
    assert fd._recorder.builder.exprs[-1].op == op


@pytest.mark.parametrize("name", [op.name for op in OPS.values() if op.kind is Kind.POINTWISE and op.name != "imag"])
def test_every_pointwise_op_can_be_recorded_and_said_as_a_recipe(name: str) -> None:
    def record(fd: FusionDefinition) -> None:
        for dtype in (DataType.Float, DataType.Int, DataType.Bool):
            operands = [fd.define_tensor([3], True, dtype) for _ in OPS[name].operands]
            if name == "where":
                operands[0] = operands[0] != operands[1]
            if name in ("philox_uniform", "philox_normal", "uniform_between", "normal_around"):
                operands[1:] = [fd.define_scalar(None, dtype) for _ in operands[1:]]
            try:
                result = getattr(fd.ops, name)(*operands, **({"dtype": DataType.Half} if name == "cast" else {}))
            except RecipeError:
                continue
            fd.add_output(result)

    fd = recorded(record)
    assert name in {expr.op for expr in parse_recipe(fd.to_yaml(), "definition.yaml").fusion.exprs}


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "var"])
@pytest.mark.parametrize("keepdim", ["keepdim", "keep_dim"])
@pytest.mark.parametrize("dims", ["dims", "dim", "axes", "axis"])
def test_reductions_take_the_names_of_every_frontend(name: str, keepdim: str, dims: str) -> None:
    fd = FusionDefinition()
    (x,) = matrices(fd, 1)
    named: dict[str, Any] = {dims: [1], keepdim: True}
    assert getattr(fd.ops, name)(arg=x, **named).extents == ("i0", 1)


def test_nvfusers_own_argument_names() -> None:
    fd = FusionDefinition()
    a, b = matrices(fd, 2)
    assert fd.ops.add(arg1=a, arg2=b).ndim == 2
    assert fd.ops.broadcast_in_dim(fd.define_tensor([5]), output_shape=[2, 5], broadcast_dims=[1]).extents == (2, 5)
    assert fd.ops.max(a, dims=[0], keepdim=False, dtype=DataType.Null).dtype is DataType.Float
    assert fd.ops.var(a, [1], 0, True).extents == ("i0", 1)
    assert {"add", "shape", "size", "var_mean"} <= set(dir(fd.ops))
    assert not hasattr(fd.ops, "no_such_op")


def test_numbers_become_constants_with_fids_right_before_the_result() -> None:
    fd = FusionDefinition()
    x = fd.define_tensor([4])
    y = fd.ops.clamp(x, -1.0, 1.0)
    assert (x.index, y.index) == (0, 3)
    assert [fd._recorder.value(fid).literal for fid in (1, 2)] == [-1.0, 1.0]


def test_vectors_and_the_numbers_in_them_take_fids_and_lists_as_shapes_take_none() -> None:
    fd = FusionDefinition()
    x = fd.define_tensor([4])
    assert fd.ops.broadcast_in_dim(x, shape=[2, 4], broadcast_dims=[1]).index == 1
    vector = fd.define_vector([2, fd.define_scalar(4)])
    assert (vector.index, len(vector)) == (4, 2)
    assert fd.ops.broadcast_in_dim(x, shape=vector, broadcast_dims=[1]).index == 5
    assert x.shape().index == 6


def test_values_have_no_truth() -> None:
    fd = FusionDefinition()
    x = fd.define_tensor([4])
    with pytest.raises(TypeError, match=r"a value has no truth while it is recorded; use fd\.ops\.where"):
        assert x > 0.0
    assert repr(x) == "Tensor(index=0, float[4?])"


# Inputs


@pytest.mark.parametrize(
    ("sizes", "strides", "contiguity", "stride_order"),
    [
        # From nvFuser's test of compute_tensor_descriptor.
        ([2, 1, 3, 1, 4, 3], [12, 4, 4, 4, 1, 0], [True, None, True, None, True, None], [5, 4, 3, 2, 1, 0]),
        ([2, 3, 1, 5, 4], [28, 4, 14, 0, 1], [False, None, True, None, True], [4, 2, 3, 1, 0]),
        ([2, 2, 1, 1, 2, 2, 2], [8, 4, 3, 9, 2, 0, 1], [None, True, True, None, True, None, True],
         [5, 4, 3, 6, 2, 1, 0]),
        ([2, 2, 1, 2, 4, 2], [2, 32, 1, 8, 0, 4], [False, True, True, False, None, None], [2, 5, 0, 4, 1, 3]),
        ([2, 2, 2, 2], [8, 4, 2, 1], [True, True, True, True], [3, 2, 1, 0]),
    ],
)  # fmt: skip
def test_layouts_are_read_from_tensors_as_nvfuser_reads_them(
    sizes: list[int], strides: list[int], contiguity: list[bool | None], stride_order: list[int]
) -> None:
    fd = FusionDefinition()
    fd.define_tensor(sizes=sizes, strides=strides, dtype=DataType.Float)
    shape = [1 if size == 1 else -1 for size in sizes]
    line = f"shape={shape}, contiguity={contiguity}, dtype=DataType.Float, is_cpu=False, stride_order={stride_order}"
    assert line in str(fd)


def test_contiguity_is_listed_from_the_outermost_dim_in_memory() -> None:
    fd = FusionDefinition()
    x = fd.define_tensor([2, 3, 4], contiguity=[False, None, True], stride_order=[0, 1, 2])
    assert fd._recorder.value(x.index).tensor.contiguity == (True, None, False)


@pytest.mark.parametrize("static", [True, False])
def test_from_pytorch_keeps_layout_and_dtype(static: bool) -> None:
    fd = FusionDefinition()
    x = fd.from_pytorch(torch.zeros(4, 1, 6, dtype=torch.bfloat16).transpose(0, 2), static_sizes=static)
    type_ = fd._recorder.value(x.index).tensor
    assert type_.shape == ((6, 1, 4) if static else ("i0", 1, "i1"))
    assert (type_.dtype, type_.contiguity) == (DType.BFLOAT16, (True, None, True))
    assert fd._recorder.value(fd.from_pytorch(torch.tensor(1.0)).index).tensor.cpu


def test_older_spellings_of_define_tensor() -> None:
    fd = FusionDefinition()
    for x in (fd.define_tensor(2), fd.define_tensor(ndim=2), fd.define_tensor(ndims=2),
              fd.define_tensor(symbolic_sizes=[-1, -1], contiguity=[True, True])):  # fmt: skip
        assert x.ndim == 2
    scalar = fd.define_scalar(DataType.Bool)
    assert scalar.dtype is DataType.Bool


def test_what_is_an_input_or_an_output_already_is_copied() -> None:
    def record(fd: FusionDefinition) -> None:
        (x,) = matrices(fd, 1)
        y = x + 1.0
        fd.add_output(y)
        fd.add_output(y)
        fd.add_output(x)

    fd = recorded(record)
    assert fd.outputs() == [2, 3, 4]
    assert [expr.op for expr in fd.fusion.exprs] == ["add", "set", "set"]


def test_a_subclass_records_itself_on_first_use() -> None:
    class Doubled(FusionDefinition):
        def definition(self) -> None:
            self.x = self.define_tensor([-1], True)
            self.add_output(self.ops.mul(self.x, self.define_scalar(2.0)))

    assert Doubled().outputs() == [2]
    assert "T2 = fd.ops.mul(T0, S1)" in str(Doubled())


def test_the_package_offers_both_names() -> None:
    assert fusebuild.FusionDefinition is FusionDefinition
    assert fusebuild.DataType is DataType


def test_a_segment_that_needs_a_size_of_another_input_is_no_recipe() -> None:
    def record(fd: FusionDefinition) -> None:
        a, b = fd.define_tensor([-1, -1], True), fd.define_tensor([-1], True)
        column = fd.ops.broadcast_in_dim(fd.ops.sum(a, [1]), [a.size(0), 1], [0])
        wide = fd.ops.expand(column, [-1, b.size(0)])
        fd.add_output(fd.ops.segment_set(wide) + 1.0)
        fd.add_output(b + 1.0)

    fd = recorded(record)
    fd.segment()
    texts = [str(segment) for segment in fd.segments]
    assert any("# i2 is a size of an input that is not read here" in text for text in texts)
    first = fd.segments[next(index for index, text in enumerate(texts) if "#" in text)]
    with pytest.raises(UsageError, match="is a size of an input that it does not read"):
        first.to_yaml()
