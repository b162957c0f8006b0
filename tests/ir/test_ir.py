"""The IR: fids, extents, tasks as views, tensor layouts, the verifier's messages, and the printed form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from fusebuild.errors import InvalidFusionError
from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion, Task, task_definitions, task_uses
from fusebuild.ir.text import print_fusion
from fusebuild.ir.types import ScalarType, TensorType, VectorType, tensor_type
from fusebuild.ir.values import Expr, ExtentBinding, Output, Value, attributes
from fusebuild.ir.verify import verify
from fusebuild.ops.builder import FusionBuilder
from fusebuild.recipe.recipe import load_recipe
from support.golden import Golden
from support.places import GOLDEN, ROOT

F32, BF16, F64, I64, BOOL = DType.FLOAT, DType.BFLOAT16, DType.DOUBLE, DType.INT64, DType.BOOL


def diamond() -> Fusion:
    """a = x * 2; b = a + row; c = relu(a); d = b * c, with b and d as outputs. Exprs 0 to 3 in that order."""
    b = FusionBuilder("diamond")
    x, row = b.tensor(F32, ("M", "N"), name="x"), b.tensor(F32, ("N",), name="row")
    two = b.constant(2.0)
    (a,) = b.call("mul", [x, two], names=["a"])
    (left,) = b.call("add", [a, row], names=["b"])
    (right,) = b.call("relu", [a], names=["c"])
    (d,) = b.call("mul", [left, right], names=["d"])
    b.output(left)
    b.output(d)
    return b.finish()


class TestFids:
    def test_inputs_constants_and_results_share_one_space_in_order(self) -> None:
        fusion = diamond()
        assert [(fid, value.name) for fid, value in fusion.values.items()] == [
            (0, "x"), (1, "row"), (2, "s2"), (3, "a"), (4, "b"), (5, "c"), (6, "d"),
        ]  # fmt: skip
        assert (fusion.inputs, fusion.output_fids) == ((0, 1), (4, 6))
        assert (fusion.next_fid, fusion.recorded) == (7, 7)

    def test_recorded_keeps_the_authors_fids_from_being_given_again(self) -> None:
        fusion = diamond()
        assert replace(fusion, recorded=20).next_fid == 20
        assert replace(fusion, recorded=3).next_fid == 7

    def test_uses_and_definitions(self) -> None:
        fusion = diamond()
        assert fusion.definition(3) == 0
        assert fusion.definition(0) is None
        assert fusion.definition(2) is None
        assert fusion.uses(3) == (1, 2)
        assert fusion.uses(6) == ()

    def test_a_value_read_twice_by_one_expr_is_used_once(self) -> None:
        b = FusionBuilder("square")
        x = b.tensor(F32, ("M",))
        b.output(b.call("mul", [x, x])[0])
        assert b.finish().uses(0) == (0,)

    def test_everything_is_frozen(self) -> None:
        fusion = diamond()
        with pytest.raises(FrozenInstanceError):
            fusion.name = "other"  # type: ignore[misc]
        with pytest.raises(FrozenInstanceError):
            fusion.value(0).fid = 3  # type: ignore[misc]


class TestExtents:
    def test_negative_fids_walk_inputs_and_dims(self) -> None:
        b = FusionBuilder("extents")
        x, scale = b.tensor(F32, ("M", "N")), b.scalar(F64)
        bias = b.tensor(F32, ("N",))
        four = b.tensor(F32, (4, 1, "M"))
        b.output(b.call("add", [b.call("mul", [x, scale])[0], bias])[0])
        b.output(b.call("neg", [four])[0])
        assert b.finish().extents == (
            ExtentBinding(fid=-1, input=0, dim=0, extent="M"),
            ExtentBinding(fid=-2, input=0, dim=1, extent="N"),
            ExtentBinding(fid=-3, input=2, dim=0, extent="N"),
            ExtentBinding(fid=-4, input=3, dim=0, extent=4),
            ExtentBinding(fid=-5, input=3, dim=1, extent=1),
            ExtentBinding(fid=-6, input=3, dim=2, extent="M"),
        )


class TestTask:
    @pytest.mark.parametrize(
        ("exprs", "inputs", "outputs"),
        [
            ((0, 1, 2, 3), (0, 1), (4, 6)),
            ((0,), (0,), (3,)),
            ((0, 1), (0, 1), (3, 4)),
            ((1, 2), (1, 3), (4, 5)),
            ((3,), (4, 5), (6,)),
            ((0, 2), (0,), (3, 5)),
            ((), (), ()),
        ],
    )
    def test_inputs_and_outputs_follow_from_uses(
        self, exprs: tuple[int, ...], inputs: tuple[int, ...], outputs: tuple[int, ...]
    ) -> None:
        task = Task(fusion=diamond(), exprs=exprs)
        assert (task.inputs, task.outputs) == (inputs, outputs)

    def test_constants_are_no_inputs_and_scalars_no_outputs(self) -> None:
        b = FusionBuilder("scalars")
        x, eps = b.tensor(F32, ("M",)), b.scalar(F64)
        (twice,) = b.call("add", [eps, eps])
        b.output(b.call("mul", [x, twice])[0])
        fusion = b.finish()
        assert Task(fusion=fusion, exprs=(0,)).inputs == (1,)
        assert Task(fusion=fusion, exprs=(0,)).outputs == ()
        assert Task(fusion=fusion, exprs=(1,)).inputs == (0, 2)

    def test_union(self) -> None:
        fusion = diamond()
        first, second = Task(fusion=fusion, exprs=(0, 2)), Task(fusion=fusion, exprs=(0, 1))
        assert first.union(second).exprs == (0, 1, 2)
        assert first.union(first) == first

    def test_the_whole_fusion_is_a_task(self) -> None:
        fusion = diamond()
        assert fusion.whole() == Task(fusion=fusion, exprs=(0, 1, 2, 3))

    def test_uses_and_definitions_among_overlapping_tasks(self) -> None:
        fusion = diamond()
        left = Task(fusion=fusion, exprs=(0, 1))  # both compute a
        right = Task(fusion=fusion, exprs=(0, 2))
        last = Task(fusion=fusion, exprs=(3,))
        tasks = (left, right, last)
        assert task_uses(0, tasks) == (left, right)
        assert task_uses(4, tasks) == (last,)
        assert task_definitions(3, tasks) == (left, right)
        assert task_definitions(5, tasks) == (right,)
        assert task_definitions(0, tasks) == ()

    def test_nested_tasks(self) -> None:
        fusion = diamond()
        inner, outer = Task(fusion=fusion, exprs=(3,)), fusion.whole()
        assert task_definitions(6, (inner, outer)) == (inner, outer)
        assert task_uses(4, (inner, outer)) == (inner,)


class TestTensorType:
    def test_row_major_strides(self) -> None:
        type_ = tensor_type(F32, ("B", "M", "N"))
        assert type_.strides == (("mul", "M", "N"), "N", 1)
        assert (type_.numel, type_.nbytes) == (("mul", "B", "M", "N"), ("mul", 4, "B", "M", "N"))
        assert type_.is_row_major
        assert type_.rank == 3

    def test_constant_sizes_fold(self) -> None:
        type_ = tensor_type(BF16, (4, "M", 8))
        assert type_.strides == (("mul", 8, "M"), 8, 1)
        assert type_.nbytes == ("mul", 64, "M")

    def test_size_one_is_a_broadcast_dim(self) -> None:
        type_ = tensor_type(F32, ("M", 1, "N"))
        assert type_.contiguity == (True, None, True)
        assert type_.strides == ("N", 0, 1)

    def test_expanded_dims_have_stride_0_and_no_bytes(self) -> None:
        type_ = tensor_type(BF16, ("B", "S", "D"), broadcast=(0, 1))
        assert type_.strides == (0, 0, 1)
        assert type_.stored_shape == (1, 1, "D")
        assert type_.numel == ("mul", "B", "S", "D")
        assert type_.nbytes == ("mul", 2, "D")

    def test_an_expanded_inner_dim_does_not_widen_the_outer_stride(self) -> None:
        assert tensor_type(F32, ("M", "N"), broadcast=(1,)).strides == (1, 0)

    def test_strides_outside_a_dim_of_unknown_stride_are_unknown(self) -> None:
        type_ = replace(tensor_type(F32, ("B", "M", "N")), contiguity=(True, False, True))
        assert type_.strides == (None, None, 1)

    def test_other_orders_are_known_at_run_time_only(self) -> None:
        type_ = replace(tensor_type(F32, ("M", "N")), stride_order=(0, 1))
        assert not type_.is_row_major
        assert type_.strides == (None, None)

    def test_zero_dims(self) -> None:
        type_ = tensor_type(F64, ())
        assert (type_.strides, type_.numel, type_.nbytes, type_.rank) == ((), 1, 8, 0)

    @pytest.mark.parametrize(
        ("type_", "text"),
        [
            (tensor_type(F32, ("M", 1, 4)), "float[M, 1, 4]"),
            (tensor_type(BF16, ("B", "D"), broadcast=(0,)), "bfloat16[B~, D]"),
            (replace(tensor_type(F32, ("M", "N")), contiguity=(False, True)), "float[M?, N]"),
            (replace(tensor_type(F32, ("M", "N")), stride_order=(0, 1)), "float[M, N] stride_order=[0, 1]"),
            (tensor_type(F64, (), cpu=True), "double[] cpu"),
            (ScalarType(dtype=I64), "int64"),
            (VectorType(dtype=I64, length=3), "int64<3>"),
        ],
    )
    def test_text(self, type_: Any, text: str) -> None:
        assert str(type_) == text


@pytest.mark.parametrize(
    ("dtype", "size", "floating", "reduced", "integer"),
    [
        (DType.DOUBLE, 8, True, False, False),
        (DType.FLOAT, 4, True, False, False),
        (DType.HALF, 2, True, True, False),
        (DType.BFLOAT16, 2, True, True, False),
        (DType.INT64, 8, False, False, True),
        (DType.INT32, 4, False, False, True),
        (DType.BOOL, 1, False, False, False),
    ],
)
def test_dtypes(dtype: DType, size: int, floating: bool, reduced: bool, integer: bool) -> None:
    found = (dtype.bytes, dtype.is_floating, dtype.is_reduced_precision, dtype.is_integer)
    assert found == (size, floating, reduced, integer)


def _with_value(fusion: Fusion, key: int, **changes: Any) -> Fusion:
    return replace(fusion, values=dict(fusion.values) | {key: replace(fusion.value(key), **changes)})


def _with_expr(fusion: Fusion, index: int, **changes: Any) -> Fusion:
    exprs = list(fusion.exprs)
    exprs[index] = replace(exprs[index], **changes)
    return replace(fusion, exprs=tuple(exprs))


def _alias(fusion: Fusion, target: int) -> Fusion:
    return replace(fusion, outputs=(Output(fid=6, name="d", alias=target),))


BROKEN: list[tuple[str, Callable[[Fusion], Fusion]]] = [
    ("value 9 is filed under fid 3", lambda f: _with_value(f, 3, fid=9)),
    ("fid 12 is an input or output but no value", lambda f: replace(f, inputs=(0, 1, 12))),
    ("fid 13 is an input or output but no value", lambda f: replace(f, outputs=(Output(fid=13, name="z"),))),
    ("mul reads fid 6 before it is defined", lambda f: _with_expr(f, 0, inputs=(6, 2))),
    ("fid 4 is defined twice", lambda f: _with_expr(f, 2, outputs=(4,))),
    ("fid 0 is defined twice", lambda f: _with_expr(f, 0, outputs=(0,))),
    ("relu defines fid 30, which is no value", lambda f: _with_expr(f, 2, outputs=(30,))),
    ("output fid 6 is never defined", lambda f: replace(f, exprs=f.exprs[:3])),
    (
        "fid 3 has 2 dims but other numbers of contiguity flags or strides",
        lambda f: _with_value(f, 3, type=replace(f.value(3).tensor, contiguity=(True,))),
    ),
    ("symbol Q of fid 5 is no dim of any input", lambda f: _with_value(f, 5, type=tensor_type(F32, ("M", "Q")))),
    (
        "symbol Q of fid 5 is no dim of any input",
        lambda f: _with_value(f, 5, type=tensor_type(F32, ("M", ("mul", 2, "Q")))),
    ),
    ("output d aliases fid 3, which is no input", lambda f: _alias(f, 3)),
    ("output d does not fit the input that it aliases", lambda f: _alias(f, 1)),
]


@pytest.mark.parametrize(("message", "breaks"), BROKEN, ids=[message for message, _ in BROKEN])
def test_verify_names_what_is_broken(message: str, breaks: Callable[[Fusion], Fusion]) -> None:
    with pytest.raises(InvalidFusionError) as caught:
        verify(breaks(diamond()))
    assert str(caught.value) == f"fusion diamond: {message}"


class TestVerify:
    def test_returns_a_sound_fusion_itself(self) -> None:
        fusion = diamond()
        assert verify(fusion) is fusion

    def test_an_aliased_scalar_does_not_fit(self) -> None:
        fusion = diamond()
        scalar = Value(fid=1, name="s", type=ScalarType(dtype=F32))
        values = dict(fusion.values) | {1: scalar}
        broken = replace(_alias(fusion, 1), values=values)
        with pytest.raises(InvalidFusionError, match="output d does not fit the input that it aliases"):
            verify(broken)

    def test_given_symbols_need_no_input(self) -> None:
        fusion = _with_value(diamond(), 5, type=tensor_type(F32, ("M", "Q")))
        assert verify(replace(fusion, given=("Q",)))

    def test_an_input_may_be_an_output(self) -> None:
        b = FusionBuilder("through")
        b.output(b.tensor(F32, ("M",)))
        assert b.finish().output_fids == (0,)


class TestExpr:
    def test_attributes_are_sorted(self) -> None:
        assert attributes(keepdim=True, dims=(1,)) == (("dims", (1,)), ("keepdim", True))

    def test_missing_attribute_is_a_key_error(self) -> None:
        expr = Expr(op="sum", inputs=(0,), outputs=(1,), attributes=attributes(dims=(1, 2)))
        assert expr.dims == (1, 2)
        with pytest.raises(KeyError, match="dtype"):
            expr.attribute("dtype")


def test_with_exprs_drops_what_nothing_defines_or_reads() -> None:
    fusion = replace(diamond(), outputs=(Output(fid=4, name="b"),))
    smaller = fusion.with_exprs(fusion.exprs[:2])
    assert sorted(smaller.values) == [0, 1, 2, 3, 4]
    assert verify(smaller) is smaller


class TestPrinted:
    def test_every_kind_of_line(self) -> None:
        b = FusionBuilder("kinds")
        x, eps = b.tensor(F32, ("M", "N"), name="x"), b.scalar(F64, name="eps")
        yes = b.constant(True)
        size = b.call("size", [], {"extent": "M"}, names=["rows"])[0]
        total = b.call("sum", [x], {"dims": (-1,), "keepdim": True, "dtype": F64}, names=["total"])[0]
        spread = b.call("broadcast", [total], {"is_broadcast_dim": (False, True, False)})[0]
        wide = b.call("expand", [spread], {"shape": ("M", ("mul", 2, "N"), 1)})[0]
        picked = b.call("where", [yes, b.call("add", [wide, size])[0], eps], names=["picked"])[0]
        b.output(picked)
        b.output(b.call("neg", [x])[0], name="negative", alias=x)
        assert print_fusion(b.finish()) == (
            "fusion kinds\n"
            "  input  %0 x: float[M, N]\n"
            "  input  %1 eps: double\n"
            "  const  %2 = true: bool\n"
            "  %3 rows: int64 = size(extent=M)\n"
            "  %4 total: double[M, 1] = sum(%0, dims=[1], dtype=double, keepdim=true)\n"
            "  %5 t5: double[M, 1, 1] = broadcast(%4, is_broadcast_dim=[false, true, false])\n"
            "  %6 t6: double[M, 2*N~, 1] = expand(%5, shape=[M, 2*N, 1])\n"
            "  %7 t7: double[M, 2*N~, 1] = add(%6, %3)\n"
            "  %8 picked: double[M, 2*N~, 1] = where(%2, %7, %1)\n"
            "  %9 t9: float[M, N] = neg(%0)\n"
            "  output %8 picked\n"
            "  output %9 negative alias %0\n"
        )

    @pytest.mark.parametrize("name", ["adaln_backward", "layernorm"])
    def test_recipes(self, name: str, golden: Golden) -> None:
        fusion = load_recipe(ROOT / "recipes" / f"{name}.yaml").fusion
        golden(GOLDEN / "fusion" / f"{name}.txt", print_fusion(fusion))


def test_a_tensor_is_known_by_its_type() -> None:
    value = Value(fid=3, name="s", type=ScalarType(dtype=BOOL), literal=False)
    assert value.is_constant
    assert not value.is_tensor
    assert value.dtype is BOOL
    with pytest.raises(AssertionError, match="fid 3 is not a tensor"):
        _ = value.tensor
    assert isinstance(diamond().value(0).tensor, TensorType)
