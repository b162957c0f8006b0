"""The oracle agrees with torch code that a person would write, op family by op family."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

from fusebuild.errors import UsageError
from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Value
from fusebuild.ops.builder import FusionBuilder
from fusebuild.oracle.bounds import bound_for, compare
from fusebuild.oracle.reference import bind_extents, evaluate, evaluate_fp64, random_inputs
from support.small_recipes import recipe_of, text_of

F32, F64, BF16, F16 = DType.FLOAT, DType.DOUBLE, DType.BFLOAT16, DType.HALF
I32, I64, BOOL = DType.INT32, DType.INT64, DType.BOOL
EXTENTS = {"M": 5, "N": 12, "K": 3}


def one_op(op: str, inputs: Sequence[tuple[DType, tuple[Any, ...]]], **named: Any) -> Fusion:
    builder = FusionBuilder("one")
    operands = [builder.tensor(dtype, shape) for dtype, shape in inputs]
    for result in builder.call(op, operands, named):
        builder.output(result)
    return builder.finish()


def with_scalars(op: str, dtype: DType, *scalars: Any) -> Fusion:
    builder = FusionBuilder("scalars")
    x = builder.tensor(dtype, ("M", "N"))
    (result,) = builder.call(op, [x, *(builder.constant(scalar) for scalar in scalars)])
    builder.output(result)
    return builder.finish()


def check(fusion: Fusion, direct: Callable[..., Any], inputs: list[Any] | None = None) -> None:
    """Both evaluations agree with ``direct``, in dtype as well."""
    arguments = random_inputs(fusion, EXTENTS, seed=1) if inputs is None else inputs
    want = direct(*arguments)
    wanted = want if isinstance(want, tuple) else (want,)
    wide = direct(*(a.double() if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in arguments))
    wide_wanted = wide if isinstance(wide, tuple) else (wide,)
    for output, got, expected in zip(fusion.outputs, evaluate(fusion, arguments), wanted, strict=True):
        assert got.dtype == expected.dtype
        assert compare(got, expected, fusion.value(output.fid).dtype).ok
    for got, expected in zip(evaluate_fp64(fusion, arguments), wide_wanted, strict=True):
        assert got.dtype == (torch.float64 if expected.is_floating_point() else expected.dtype)
        assert compare(got, expected, F64 if got.is_floating_point() else I64).ok


@pytest.mark.parametrize("op", ["exp", "sin", "sqrt", "tanh", "sigmoid", "erf", "log1p", "rsqrt", "reciprocal", "frac"])
def test_unary_floating_ops_are_torchs(op: str) -> None:
    check(one_op(op, [(F32, ("M", "N"))]), getattr(torch, op))


def test_unary_ops_of_half_stay_float_until_a_cast() -> None:
    check(one_op("exp", [(F16, ("M", "N"))]), lambda x: x.to(torch.promote_types(x.dtype, torch.float32)).exp())


def test_unary_floating_ops_of_integers_are_float() -> None:
    fusion = one_op("exp", [(I32, ("N",))])
    (x,) = arguments = random_inputs(fusion, EXTENTS, seed=1)
    assert compare(evaluate(fusion, arguments)[0], x.float().exp(), F32).ok  # type: ignore[union-attr]


@pytest.mark.parametrize("op", ["add", "sub", "mul", "maximum", "minimum", "atan2", "lt", "eq", "ge"])
def test_binary_ops_broadcast_from_the_right(op: str) -> None:
    check(one_op(op, [(F32, ("M", "N")), (F32, ("N",))]), getattr(torch, op))
    check(one_op(op, [(F32, ("M", 1)), (F32, (1, "N"))]), getattr(torch, op))


def test_mixed_dtypes_promote_as_in_torch() -> None:
    check(one_op("add", [(I32, ("M", "N")), (I64, ("N",))]), torch.add)
    check(one_op("add", [(F32, ("M", "N")), (F64, ())]), lambda x, y: x + y.to(x.dtype))
    check(one_op("where", [(BOOL, ("M", "N")), (F32, ("N",)), (I64, ("M", 1))]), torch.where)


def test_integer_division_truncates_and_by_zero_is_zero() -> None:
    fusion = one_op("div", [(I64, ("N",)), (I64, ("N",))])
    x, y = torch.tensor([-7, 7, 5]), torch.tensor([2, -2, 0])
    assert evaluate(fusion, [x, y])[0].tolist() == [-3, -3, 0]


def test_pointwise_ops_with_scalars() -> None:
    check(with_scalars("clamp", F32, -0.5, 0.5), lambda x: torch.clamp(x, -0.5, 0.5))
    check(with_scalars("lerp", F32, 2.0, 0.25), lambda x: torch.lerp(x, torch.full_like(x, 2.0), 0.25))
    check(with_scalars("add", I32, 1), lambda x: x + 1)
    check(with_scalars("mul", I32, 0.5), lambda x: x * 0.5)
    check(with_scalars("threshold", F32, 0.1, 2.0), lambda x: torch.nn.functional.threshold(x, _float(x, 0.1), 2.0))


def _float(like: Any, number: float) -> float:
    """A double scalar meets floats as a float, in either evaluation."""
    return float(torch.tensor(number, dtype=torch.float32))


def test_views() -> None:
    check(one_op("broadcast", [(F32, ("M",))], is_broadcast_dim=(True, False, True)), lambda x: x[None, :, None])
    check(
        one_op("broadcast_in_dim", [(F32, ("M",))], shape=("M", 7), broadcast_dims=(0,)),
        lambda x: x[:, None].expand(-1, 7),
    )
    check(one_op("expand", [(F32, ("M", 1))], shape=(-1, 3)), lambda x: x.expand(-1, 3))
    check(one_op("squeeze", [(F32, (1, "M", 1))], dims=(0, 2)), lambda x: x[0, :, 0])
    check(one_op("squeeze", [(F32, (1, "M"))], dims=()), lambda x: x)


@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("dims", [(1,), (0, 2), (0, 1, 2), (-1,)])
def test_reductions(dims: tuple[int, ...], keepdim: bool) -> None:
    x = [(F32, ("M", "N", "K"))]
    named = {"dims": dims, "keepdim": keepdim}
    check(one_op("sum", x, **named), lambda x: torch.sum(x, dims, keepdim))
    check(one_op("max", x, **named), lambda x: torch.amax(x, dims, keepdim))
    check(one_op("min", x, **named), lambda x: torch.amin(x, dims, keepdim))
    check(one_op("mean", x, **named), lambda x: torch.mean(x, dims, keepdim))
    check(one_op("var", x, **named, correction=1), lambda x: torch.var(x, dims, correction=1, keepdim=keepdim))
    check(
        one_op("var_mean", x, **named, correction=0), lambda x: torch.var_mean(x, dims, correction=0, keepdim=keepdim)
    )

    def moments(x: Any) -> tuple[Any, ...]:
        variance, mean = torch.var_mean(x, dims, correction=0, keepdim=keepdim)
        count = x.numel() // mean.numel()
        return mean, variance * count, torch.full_like(mean, count, dtype=torch.int64)

    check(one_op("welford", x, **named), moments)


def test_reductions_over_all_dims_over_none_and_in_other_dtypes() -> None:
    check(one_op("sum", [(F32, ("M", "N"))]), torch.sum)
    check(one_op("prod", [(F64, ("M", "N"))]), lambda x: x.prod(1).prod(0))
    check(one_op("sum", [(F32, ("M",))], dims=()), lambda x: x)
    check(one_op("sum", [(I32, ("M",))]), lambda x: x.sum())
    check(one_op("sum", [(BOOL, ("M",))]), lambda x: x.sum())
    check(one_op("sum", [(I64, ("M",))], dtype=F32), lambda x: x.float().sum())
    check(one_op("max", [(I32, ("M", "N"))], dims=(1,)), lambda x: x.amax(1))
    check(one_op("sum", [(BF16, ("M", "N"))], dims=(1,)), lambda x: x.to(_wide(x)).sum(1))


def _wide(x: Any) -> Any:
    return torch.promote_types(x.dtype, torch.float32)


def test_extremes_keep_nan_and_are_the_identity_over_no_elements() -> None:
    fusion = one_op("max", [(F32, ("M", "N"))], dims=(1,))
    x = torch.tensor([[1.0, math.nan], [3.0, 2.0]])
    assert torch.equal(evaluate(fusion, [x])[0].isnan(), torch.tensor([True, False]))
    assert evaluate(fusion, [torch.empty(2, 0)])[0].tolist() == [-math.inf, -math.inf]


def test_variance_with_too_little_data_is_nan_or_inf() -> None:
    fusion = one_op("var", [(F32, ("M",))], correction=1)
    assert evaluate(fusion, [torch.ones(1)])[0].isnan()
    fusion = one_op("var", [(F32, ("M",))], correction=2)
    assert evaluate(fusion, [torch.tensor([1.0, 2.0])])[0].item() == math.inf


def test_creation() -> None:
    builder = FusionBuilder("made")
    builder.tensor(F32, ("M", "N"), name="x")
    (full,) = builder.call("full", [builder.constant(2)], {"shape": ("N", 3), "dtype": BF16})
    (iota,) = builder.call("iota", [builder.constant(5), builder.constant(-2)], {"length": "M"})
    (size,) = builder.call("size", [], {"extent": ("mul", "M", "N")})
    (scaled,) = builder.call("mul", [iota, size])
    for value in (full, iota, scaled):
        builder.output(value)
    full_, iota_, scaled_ = evaluate(builder.finish(), [torch.ones(4, 2)])
    assert torch.equal(full_, torch.full((2, 3), 2.0, dtype=torch.bfloat16))
    assert iota_.tolist() == [5, 3, 1, -1]
    assert scaled_.tolist() == [40, 24, 8, -8]


def rounding_fusion(*, is_last: bool) -> Fusion:
    """``x + 1`` rounded to bfloat16, as the output itself or as a step before one."""
    builder = FusionBuilder("rounding")
    x = builder.tensor(F32, ("M",))
    (wide,) = builder.call("add", [x, builder.constant(1.0)])
    (rounded,) = builder.call("cast", [wide], {"dtype": BF16})
    (result,) = builder.call("set", [rounded]) if is_last else builder.call("cast", [rounded], {"dtype": F32})
    builder.output(result)
    return builder.finish()


def test_fp64_skips_the_last_rounding_and_keeps_those_before() -> None:
    x = torch.tensor([2.0**-20])
    (last,) = evaluate_fp64(rounding_fusion(is_last=True), [x])
    (before,) = evaluate_fp64(rounding_fusion(is_last=False), [x])
    assert last.dtype == before.dtype == torch.float64
    assert last.item() == 1 + 2.0**-20
    assert before.item() == 1.0


def test_outputs_are_fresh_and_inputs_stay() -> None:
    builder = FusionBuilder("alias")
    x = builder.tensor(F32, ("M",))
    (doubled,) = builder.call("add", [x, x])
    builder.output(doubled, alias=x)
    builder.output(x, name="copy")
    argument = torch.ones(3)
    doubled_, copy = evaluate(builder.finish(), [argument])
    copy += 1
    assert argument.tolist() == [1, 1, 1]
    assert doubled_.tolist() == [2, 2, 2]


def test_extents_come_from_the_inputs_and_must_agree() -> None:
    fusion = one_op("add", [(F32, ("M", "N")), (F32, ("N",))])
    assert bind_extents(fusion, [torch.ones(2, 3), torch.ones(3)]) == {"M": 2, "N": 3}
    with pytest.raises(UsageError, match=r"^dim 0 of input t1 is N = 3, got 4$"):
        evaluate(fusion, [torch.ones(2, 3), torch.ones(4)])
    with pytest.raises(UsageError, match=r"^input t1 has 1 dim, got 2$"):
        evaluate(fusion, [torch.ones(2, 3), torch.ones(3, 1)])
    with pytest.raises(UsageError, match=r"^fusion one takes 2 inputs, not 1$"):
        evaluate(fusion, [torch.ones(2, 3)])
    with pytest.raises(UsageError, match=r"^input t1 is torch.float32, got torch.float64$"):
        evaluate(fusion, [torch.ones(2, 3), torch.ones(3, dtype=torch.float64)])


def layout_inputs(seed: int = 2) -> tuple[Fusion, list[Any]]:
    builder = FusionBuilder("layouts")
    values: list[Value] = [
        builder.tensor(F32, ("M", "N"), contiguity=(True, False)),
        builder.tensor(BF16, ("M", "N"), contiguity=(False, True)),
        builder.tensor(F32, ("M", "N"), stride_order=(0, 1)),
        builder.tensor(I32, ("M", "N"), contiguity=(None, True)),
        builder.tensor(F64, (), cpu=True),
    ]
    builder.scalar(F64)
    builder.scalar(I64)
    builder.scalar(BOOL)
    builder.output(values[0])
    fusion = builder.finish()
    return fusion, random_inputs(fusion, EXTENTS, seed=seed)


def test_random_inputs_have_the_declared_layout() -> None:
    _, (inner, outer, column_major, expanded, cpu, real, whole, truth) = layout_inputs()
    assert [t.stride() for t in (inner, outer, column_major, expanded)] == [(24, 2), (13, 1), (1, 5), (0, 1)]
    assert [t.dtype for t in (outer, expanded, cpu)] == [torch.bfloat16, torch.int32, torch.float64]
    assert not inner.isnan().any()
    assert torch.as_strided(inner, (12,), (1,)).isnan().any(), "gaps are poisoned"
    assert cpu.shape == ()
    assert isinstance(real, float)
    assert real > 0
    assert isinstance(whole, int)
    assert isinstance(truth, bool)


def test_every_other_seed_has_strides_that_vectors_may_take() -> None:
    _, (inner, outer, column_major, expanded, *_) = layout_inputs(seed=3)
    assert [t.stride() for t in (inner, outer, column_major, expanded)] == [(96, 8), (16, 1), (1, 5), (0, 1)]


def test_random_integers_lie_in_the_range_that_is_asked_for() -> None:
    fusion = one_op("add", [(I64, ("M", "N")), (I64, ("M", "N"))])
    sizes = {"M": 64, "N": 3}
    usual, narrow = random_inputs(fusion, sizes, seed=1, ranges={fusion.inputs[1]: (-1, "N")})
    assert (usual.min(), usual.max()) == (-8, 8)  # type: ignore[union-attr]
    assert (narrow.min(), narrow.max()) == (-1, 2)  # type: ignore[union-attr]


def test_random_inputs_repeat_for_a_seed_only() -> None:
    fusion = one_op("add", [(F32, ("M", "N")), (F32, ("N",))])
    first, again = random_inputs(fusion, EXTENTS, seed=1), random_inputs(fusion, EXTENTS, seed=1)
    other = random_inputs(fusion, EXTENTS, seed=2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))  # type: ignore[arg-type]
    assert not torch.equal(first[0], other[0])  # type: ignore[arg-type]


def test_comparison_measures_small_elements_against_the_typical_one() -> None:
    want = torch.tensor([1000.0, 1e-9], dtype=torch.float64)
    assert compare(torch.tensor([1000.0, 0.0]), want, F32).ok
    assert not compare(torch.tensor([1000.1, 0.0]), want, F32).ok
    assert compare(torch.zeros(2), torch.zeros(2), F32).error == 0


def test_comparison_wants_nan_and_inf_where_they_belong() -> None:
    want = torch.tensor([math.nan, math.inf, 1.0])
    assert compare(want.clone(), want, F32).ok
    for wrong in ([math.nan, -math.inf, 1.0], [0.0, math.inf, 1.0], [math.nan, math.inf, math.nan]):
        assert compare(torch.tensor(wrong), want, F32).error == math.inf
    assert compare(torch.ones(2), torch.ones(3), F32).error == math.inf


def test_comparison_of_integers_is_exact() -> None:
    assert compare(torch.tensor([1, 2]), torch.tensor([1, 2]), I64).ok
    assert not compare(torch.tensor([1, 2]), torch.tensor([1, 3]), I64).ok


def test_the_bound_grows_with_each_library_product_on_the_way() -> None:
    text = text_of(
        {"x": "bfloat16[M, K]", "w": "bfloat16[K, K]"},
        "h = matmul(x, w)\ny = matmul(h, w)\nz = matmul(x, w) + matmul(y, w)\np = x + 1.0",
        {"y": "bfloat16", "z": "bfloat16", "p": "bfloat16"},
    )
    fusion = recipe_of(text).fusion
    assert [bound_for(fusion, fid) / 2.0**-7 for fid in fusion.output_fids] == [3, 4, 1]


def test_the_bound_of_a_narrow_output_grows_with_each_narrow_cast_before_its_own() -> None:
    text = text_of(
        {"x": "bfloat16[M, K]"},
        "h = cast(exp(x), bfloat16)\ny = h * 3.0\nz = cast(cast(y, bfloat16) * 3.0, bfloat16)\nf = h * 2.0\n"
        "n = h * 2.0",
        {"h": "bfloat16", "y": "bfloat16", "z": "bfloat16", "f": "float", "n": "half"},
    )
    fusion = recipe_of(text).fusion
    assert [bound_for(fusion, fid) for fid in fusion.output_fids] == [2.0**-7, 1.5 * 2**-7, 2.5 * 2**-7, 1e-5, 2.0**-9]
