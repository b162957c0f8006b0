"""Each pass: what it leaves, as goldens and exact statements, and that it changes no result."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusebuild.errors import InvalidFusionError, SourceLocation
from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.text import print_expr, print_fusion
from fusebuild.ir.values import Value
from fusebuild.ir.verify import verify
from fusebuild.ops.builder import FusionBuilder
from fusebuild.ops.scalar_math import fold
from fusebuild.ops.table import OPS, Kind
from fusebuild.passes import PASSES, Pass, run_passes
from fusebuild.passes.alias_outputs import alias_outputs
from fusebuild.passes.cast_chains import cast_chains
from fusebuild.passes.common_subexpressions import common_subexpressions
from fusebuild.passes.dead_code import dead_code
from fusebuild.passes.decompose import decompose
from fusebuild.passes.fold_constants import fold_constants
from fusebuild.passes.own_coordinates import own_coordinates
from fusebuild.passes.views import views
from support.places import GOLDEN
from support.strategies import EXTENTS, exact_inputs, fusions

F32, F64, BF16, F16 = DType.FLOAT, DType.DOUBLE, DType.BFLOAT16, DType.HALF
I32, I64, BOOL = DType.INT32, DType.INT64, DType.BOOL


class Recorder(FusionBuilder):
    """A builder with the one-result calls that tests want to read."""

    def op(self, name: str, *operands: Value | float, result: str = "", **named: Any) -> Value:
        values = [operand if isinstance(operand, Value) else self.constant(operand) for operand in operands]
        return self.call(name, values, named, names=[result])[0]

    def outputs_of(self, *values: Value) -> Fusion:
        for value in values:
            self.output(value)
        return self.finish()


def body(fusion: Fusion) -> list[str]:
    """The exprs of ``fusion`` as text."""
    return [print_expr(fusion, expr) for expr in fusion.exprs]


def ops(fusion: Fusion) -> list[str]:
    return [expr.op for expr in fusion.exprs]


def norm() -> Fusion:
    r = Recorder("layernorm")
    x, weight = r.tensor(BF16, ("M", "N"), name="x"), r.tensor(BF16, ("N",), name="weight")
    wide = r.op("cast", x, dtype=F32, result="xf")
    var, mean = r.call("var_mean", [wide], {"dims": (1,), "correction": 1, "keepdim": True}, names=["var", "mean"])
    rstd = r.op("rsqrt", r.op("add", var, 1e-5), result="rstd")
    y = r.op("mul", r.op("mul", r.op("sub", wide, mean), rstd), weight, result="scaled")
    return r.outputs_of(r.op("cast", y, dtype=BF16, result="y"), mean)


def convenience_forms() -> Fusion:
    r = Recorder("forms")
    x, scale = r.tensor(F16, ("M", "N", "K"), name="x"), r.tensor(F64, (), name="scale")
    kept = r.op("sum", x, dims=(0, 2), keepdim=True, dtype=F16, result="kept")
    mean = r.op("mean", x, dims=(1,), result="mean")
    spread = r.op("broadcast_in_dim", mean, shape=("M", 3, "K"), broadcast_dims=(0, 2), result="spread")
    largest = r.op("max", x, dims=(), result="largest")
    return r.outputs_of(kept, spread, r.op("mul", largest, scale, result="scaled"))


def scalars() -> Fusion:
    r = Recorder("scalars")
    x = r.tensor(F16, ("M", 4), name="x")
    count = r.call("size", [], {"extent": 4}, names=["count"])[0]
    third = r.op("div", 1.0, r.op("sub", count, 1), result="third")
    y = r.op("mul", r.op("mul", x, 1.0), third, result="y")
    z = r.op("neg", r.op("neg", r.op("sub", y, 0)), result="z")
    return r.outputs_of(r.op("pow", z, 3, result="cube"), r.op("add", z, 0.0, result="not_folded"))


def casts() -> Fusion:
    r = Recorder("casts")
    x = r.tensor(BF16, ("M",), name="x")
    wide = r.op("cast", r.op("cast", x, dtype=F32), dtype=F64, result="wide")
    back = r.op("cast", r.op("add", wide, wide), dtype=F32, result="back")
    rounded = r.op("cast", r.op("cast", back, dtype=BF16), dtype=F32, result="rounded")
    return r.outputs_of(r.op("exp", r.op("cast", rounded, dtype=F32)), r.op("cast", wide, dtype=BF16, result="same"))


def view_chains() -> Fusion:
    r = Recorder("views")
    x = r.tensor(F32, ("M", "N"), name="x")
    total = r.op("sum", x, dims=(1,), result="total")
    column = r.op("broadcast", total, is_broadcast_dim=(False, True), result="column")
    again = r.op("squeeze", column, dims=(1,), result="again")
    cube = r.op("broadcast", column, is_broadcast_dim=(True, False, False), result="cube")
    grown = r.op("expand", r.op("expand", cube, shape=(3, "M", 1)), shape=(3, "M", "N"), result="grown")
    summed = r.op("sum", column, dims=(1,), result="summed")
    same = r.op("set", r.op("add", r.op("set", again), summed), result="same")
    return r.outputs_of(grown, same)


def repeated() -> Fusion:
    r = Recorder("repeated")
    x, y = r.tensor(F32, ("M",), name="x"), r.tensor(F32, ("M",), name="y")
    left = r.op("mul", r.op("add", x, y), 2.0, result="left")
    right = r.op("mul", r.op("add", y, x), 2.0, result="right")
    difference = r.op("sub", r.op("sub", x, y), r.op("sub", y, x), result="difference")
    return r.outputs_of(left, right, r.op("add", difference, right, result="sum"))


def in_place() -> Fusion:
    r = Recorder("in_place")
    x = r.tensor(F32, ("M",), name="x")
    step = r.op("mul", x, 0.9, result="step")
    moved = r.op("sub", x, step, result="moved")
    r.output(step, alias=x)
    r.output(moved)
    r.output(moved, name="moved_again")
    r.output(x, name="old")
    return r.finish()


def square_mask() -> Fusion:
    r = Recorder("square_mask")
    scores = r.tensor(F32, ("B", "S", "S"), name="scores")
    place = r.op("iota", 0, 1, length="S", dtype=I64, result="place")
    column = r.op("cast", r.op("mul", place, 2), dtype=F32, result="column")
    row = r.op("broadcast", column, is_broadcast_dim=(False, True), result="row")
    distance = r.op("sub", column, row, result="distance")
    return r.outputs_of(r.op("add", scores, distance, result="y"), place)


GOLDENS: dict[str, tuple[Callable[[], Fusion], Callable[[Fusion], Fusion]]] = {
    "dead_code": (repeated, lambda fusion: dead_code(common_subexpressions(fusion))),
    "decompose_norm": (norm, decompose),
    "decompose_forms": (convenience_forms, decompose),
    "fold_constants": (scalars, lambda fusion: dead_code(fold_constants(fusion))),
    "cast_chains": (casts, cast_chains),
    "views": (view_chains, lambda fusion: dead_code(views(fusion))),
    "common_subexpressions": (repeated, common_subexpressions),
    "own_coordinates": (square_mask, lambda fusion: own_coordinates(decompose(fusion))),
    "alias_outputs": (in_place, alias_outputs),
    "all_passes": (norm, run_passes),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_pass_before_and_after(name: str, golden: Callable[[Path, str], None]) -> None:
    make, run = GOLDENS[name]
    before = make()
    golden(GOLDEN / "passes" / f"{name}.txt", f"{print_fusion(before)}\n{print_fusion(verify(run(before)))}")


def test_places_along_one_dim_stay_as_they_are() -> None:
    r = Recorder("mask")
    x, place = r.tensor(F32, ("M", "N")), r.op("iota", 0, 1, length="N", dtype=I64)
    fusion = decompose(r.outputs_of(r.op("add", x, place), r.op("mul", x, r.op("add", place, 1))))
    assert print_fusion(own_coordinates(fusion)) == print_fusion(fusion)


def test_places_that_a_reader_of_memory_takes_part_in_are_not_made_again() -> None:
    r = Recorder("mask")
    offset = r.tensor(I64, ("S",))
    place = r.op("add", r.op("iota", 0, 1, length="S", dtype=I64), offset)
    row = r.op("broadcast", place, is_broadcast_dim=(False, True))
    fusion = decompose(r.outputs_of(r.op("le", place, row)))
    assert print_fusion(own_coordinates(fusion)) == print_fusion(fusion)


def test_dead_code_keeps_inputs() -> None:
    r = Recorder("dead")
    x, unused = r.tensor(F32, ("M",)), r.tensor(F32, ("M",))
    r.op("exp", unused)
    fusion = dead_code(r.outputs_of(r.op("sin", x)))
    assert ops(fusion) == ["sin"]
    assert fusion.inputs == (0, 1)


def test_keepdim_leaves_the_fid_to_the_broadcast() -> None:
    r = Recorder("keepdim")
    t0 = r.tensor(F32, (2, 32))
    s1 = r.scalar(F64)
    assert s1.fid == 1
    fusion = decompose(r.outputs_of(r.op("sum", t0, dims=(1,), keepdim=True)))
    assert body(fusion) == [
        "%3 t2_sum: float[2] = sum(%0, dims=[1], dtype=None, keepdim=false)",
        "%2 t2: float[2, 1] = broadcast(%3, is_broadcast_dim=[false, true])",
    ]


def test_dims_apart_are_reduced_one_run_at_a_time_the_innermost_first() -> None:
    r = Recorder("runs")
    x = r.tensor(F32, ("A", "B", 1, "C", "D", "E"))
    fusion = decompose(r.outputs_of(r.op("sum", x, dims=(0, 3, 5))))
    assert [expr.dims for expr in fusion.exprs] == [(5,), (3,), (0,)]


def test_two_runs_outside_of_the_innermost_dim_are_reduced_one_at_a_time() -> None:
    r = Recorder("outside")
    x = r.tensor(F32, ("A", "B", "C", "D"))
    fusion = decompose(r.outputs_of(r.op("sum", x, dims=(0, 2))))
    assert [expr.dims for expr in fusion.exprs] == [(2,), (0,)]


def test_two_runs_of_dims_are_reduced_at_once_where_the_innermost_dim_is_one_of_them() -> None:
    r = Recorder("pieces")
    x = r.tensor(F32, ("A", "B", 1, "C", "D", "E", 1))
    fusion = decompose(r.outputs_of(r.op("sum", x, dims=(0, 1, 3, 5, 6))))
    assert [expr.dims for expr in fusion.exprs] == [(0, 1, 3, 5, 6)]


def test_size_one_dims_broadcast_without_an_expr_and_lower_ranks_with_one() -> None:
    r = Recorder("ranks")
    x, column, row = r.tensor(F32, ("M", "N")), r.tensor(F32, ("M", 1)), r.tensor(F32, ("N",))
    fusion = decompose(r.outputs_of(r.op("add", r.op("add", x, column), row), r.op("mul", x, row)))
    assert ops(fusion) == ["add", "broadcast", "add", "mul"]


def test_a_zero_dim_tensor_keeps_its_low_rank_in_promotion() -> None:
    r = Recorder("zero_dim")
    x, scale = r.tensor(F32, ("M",)), r.tensor(F64, (), cpu=True)
    fusion = decompose(r.outputs_of(r.op("mul", x, scale)))
    assert body(fusion) == [
        "%3 t1_float: float[] = cast(%1, dtype=float)",
        "%4 t1_broadcast: float[1] = broadcast(%3, is_broadcast_dim=[true])",
        "%2 t2: float[M] = mul(%0, %4)",
    ]


def test_new_exprs_stand_where_the_old_one_stood() -> None:
    place = SourceLocation(path="norm.yaml", line=9, column=3)
    r = Recorder("located")
    (mean,) = r.call("mean", [r.tensor(BF16, ("M", "N"))], {"dims": (1,), "keepdim": True}, location=place)
    fusion = decompose(r.outputs_of(mean))
    assert {expr.location for expr in fusion.exprs} == {place}


def test_explicit_dtypes_are_cast_before_and_halves_after() -> None:
    r = Recorder("dtypes")
    x = r.tensor(I32, ("M", "N"))
    fusion = decompose(r.outputs_of(r.op("sum", x, dims=(1,), dtype=BF16), r.op("sum", x, dims=(1,), dtype=F64)))
    assert [fusion.value(expr.outputs[0]).dtype for expr in fusion.exprs] == [F32, F32, BF16, F64, F64]
    assert ops(fusion) == ["cast", "sum", "cast", "cast", "sum"]


def folded(op: str, *operands: Any, dtype: DType = F32) -> Fusion:
    r = Recorder("folded")
    x = r.tensor(dtype, ("M",))
    return fold_constants(r.outputs_of(r.op("exp", r.op(op, *(x if o == "x" else o for o in operands)))))


@pytest.mark.parametrize(
    "case", [("mul", "x", 1.0), ("mul", 1, "x"), ("div", "x", 1), ("sub", "x", 0), ("add", "x", -0.0), ("pow", "x", 1)]
)
def test_arithmetic_that_changes_nothing_goes(case: tuple[Any, ...]) -> None:
    assert ops(folded(*case)) == ["exp"]


@pytest.mark.parametrize("case", [("add", "x", 0.0), ("mul", "x", 0.0), ("sub", "x", -0.0), ("sub", 0.0, "x")])
def test_arithmetic_that_changes_nan_or_the_sign_of_zero_stays(case: tuple[Any, ...]) -> None:
    assert ops(folded(*case)) == [case[0], "exp"]


def test_identities_keep_the_dtype_with_a_cast() -> None:
    assert ops(folded("mul", "x", 1.0, dtype=I32)) == ["cast", "exp"]
    assert ops(folded("mul", "x", 1, dtype=I32)) == ["exp"]
    assert ops(folded("add", "x", 0, dtype=I32)) == ["exp"]


def test_small_powers_are_products() -> None:
    assert ops(folded("pow", "x", 2.0)) == ["mul", "exp"]
    assert ops(folded("pow", "x", 3)) == ["mul", "mul", "exp"]
    assert ops(folded("pow", "x", 2.0, dtype=I32)) == ["cast", "mul", "exp"]
    assert ops(folded("pow", "x", 0.5)) == ["pow", "exp"]


def test_an_output_that_equals_an_input_keeps_its_fid() -> None:
    r = Recorder("output")
    x = r.tensor(F32, ("M",))
    same = r.op("mul", x, 1)
    fusion = fold_constants(r.outputs_of(same))
    assert ops(fusion) == ["set"]
    assert fusion.output_fids == (same.fid,)


def test_a_known_condition_selects_when_the_shape_stays() -> None:
    r = Recorder("where")
    x, column = r.tensor(F32, ("M", "N")), r.tensor(F32, ("M", 1))
    fusion = fold_constants(r.outputs_of(r.op("where", True, x, column), r.op("where", False, x, column)))
    assert ops(fusion) == ["set", "where"]


@pytest.mark.parametrize(
    ("op", "operands", "dtype", "want"),
    [
        ("add", (0.1, 0.2), F32, struct.unpack("f", struct.pack("f", 0.3))[0]),
        ("mul", (1e30, 1e30), F32, math.inf),
        ("add", (1.0, 2.0**-8), BF16, 1.0),
        ("add", (1.0, 3 * 2.0**-8), BF16, 1.0 + 2.0**-6),
        ("mul", (60000.0, 2.0), F16, math.inf),
        ("add", (2**31 - 1, 1), I32, -(2**31)),
        ("mul", (2**62, 2), I64, -(2**63)),
        ("div", (-7, 2), I64, -3),
        ("div", (7, 0), I64, 0),
        ("div", (-1.0, 0.0), F64, -math.inf),
        ("mod", (-7, 2), I64, -1),
        ("pow", (2, -1), I64, 0),
        ("erfinv", (0.5,), F64, 0.4769362762044699),
        ("imag", (0.5,), F64, None),
        ("cast", (2.9,), I64, None),
    ],
)
def test_scalar_arithmetic_rounds_and_wraps(op: str, operands: tuple[Any, ...], dtype: DType, want: Any) -> None:
    operand_dtypes = [F32 if dtype.is_reduced_precision else dtype] * len(operands)
    got = fold(op, operands, operand_dtypes, dtype)
    assert got == (2 if op == "cast" else want)


def test_the_root_of_a_negative_number_is_nan() -> None:
    got = fold("sqrt", (-1.0,), [F64], F64)
    assert isinstance(got, float)
    assert math.isnan(got)


def test_scalar_division_of_zero_by_zero_is_nan() -> None:
    got = fold("div", (0.0, 0.0), [F64, F64], F64)
    assert isinstance(got, float)
    assert math.isnan(got)


@pytest.mark.parametrize(
    ("dtypes", "left"),
    [
        ((F16, F32, F16), 0),
        ((BF16, F32, BF16), 0),
        ((I32, I64, F32), 1),
        ((I32, F64, I32), 0),
        ((BOOL, F16, I64), 1),
        ((F32, BF16, F32), 2),
        ((F16, BF16, F32), 2),
        ((I64, F64, I64), 2),
        ((I32, F32, I32), 2),
    ],
)
def test_only_casts_through_a_dtype_that_loses_nothing_join(dtypes: tuple[DType, ...], left: int) -> None:
    r = Recorder("chain")
    value = r.tensor(dtypes[0], ("M",))
    for dtype in dtypes[1:]:
        value = r.op("cast", value, dtype=dtype)
    fusion = dead_code(cast_chains(r.outputs_of(r.op("segment_set", value))))
    assert ops(fusion) == ["cast"] * left + ["segment_set"]


def test_views_keep_what_is_more_than_one_view() -> None:
    r = Recorder("two")
    x = r.tensor(F32, ("M", 1))
    moved = r.op("broadcast", r.op("squeeze", x, dims=(1,)), is_broadcast_dim=(True, False))
    assert ops(views(r.outputs_of(moved))) == ["squeeze", "broadcast"]


def test_a_reduction_over_size_one_dims_is_a_squeeze_in_the_result_dtype() -> None:
    r = Recorder("squeezed")
    x = r.tensor(I32, ("M", 1))
    fusion = views(r.outputs_of(r.op("sum", x, dims=(1,)), r.op("max", x, dims=(1,))))
    assert ops(fusion) == ["cast", "squeeze", "squeeze"]
    assert [fusion.value(fid).dtype for fid in fusion.output_fids] == [I64, I32]


def test_cuts_and_signed_zeros_are_never_shared() -> None:
    r = Recorder("distinct")
    x = r.tensor(F32, ("M",))
    cuts = r.op("segment_set", x), r.op("segment_set", x)
    sums = r.op("add", cuts[0], 0.0), r.op("add", cuts[0], -0.0), r.op("add", cuts[1], 0.0)
    fusion = common_subexpressions(r.outputs_of(*sums))
    assert ops(fusion) == ["segment_set", "segment_set", "add", "add", "add"]


def readers_after_overwriting(fusion: Fusion) -> list[str]:
    """Exprs that read an aliased input after its new value is defined."""
    return [
        print_expr(fusion, fusion.exprs[use])
        for output in fusion.outputs
        if output.alias is not None
        for use in fusion.uses(output.alias)
        if use > (fusion.definition(output.fid) or 0)
    ]


def test_an_overwriting_output_moves_behind_the_readers_of_its_input() -> None:
    r = Recorder("order")
    x = r.tensor(F32, ("M",))
    doubled = r.op("mul", x, 2.0)
    r.output(doubled, alias=x)
    r.output(r.op("exp", doubled))
    r.output(r.op("sin", x))
    fusion = alias_outputs(r.finish())
    assert ops(fusion) == ["sin", "mul", "exp"]
    assert not readers_after_overwriting(fusion)


def test_outputs_that_overwrite_each_others_inputs_need_one_copy() -> None:
    r = Recorder("swap")
    x, y = r.tensor(F32, ("M",)), r.tensor(F32, ("M",))
    r.output(r.op("add", y, 1.0), alias=x)
    r.output(r.op("add", x, 1.0), alias=y)
    fusion = verify(alias_outputs(r.finish()))
    assert ops(fusion) == ["add", "add", "set"]
    assert not readers_after_overwriting(fusion)


def test_every_output_is_a_value_of_its_own() -> None:
    fusion = alias_outputs(in_place())
    assert len(set(fusion.output_fids)) == len(fusion.outputs)
    assert not set(fusion.output_fids) & set(fusion.inputs)
    assert fusion.output_fids[:2] == in_place().output_fids[:2]


def test_run_passes_reports_every_pass_and_names_the_one_that_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    run_passes(norm(), lambda name, _: seen.append(name))
    assert seen == [each.__name__ for each in PASSES]

    def broken(fusion: Fusion) -> Fusion:
        return fusion.with_exprs(fusion.exprs[1:])

    monkeypatch.setattr("fusebuild.passes.PASSES", (broken,))
    with pytest.raises(InvalidFusionError, match=r"^after pass broken: fusion layernorm: var_mean reads fid 2 before"):
        run_passes(norm())


def test_the_authors_fids_end_where_they_ended() -> None:
    before = norm()
    after = run_passes(before)
    assert after.recorded == before.recorded
    assert after.output_fids == before.output_fids
    assert {fid for fid in after.values if fid < before.recorded} <= set(before.values)


def assert_equal_results(got: Any, want: Any) -> None:
    from fusebuild.oracle.bounds import compare

    for actual, expected in zip(got, want, strict=True):
        dtype = F64 if expected.is_floating_point() else I64
        assert compare(actual, expected, dtype, bound=1e-9 if dtype is F64 else 0.0).ok


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(fusion=fusions())
def test_every_pass_keeps_the_results_and_has_nothing_left_to_do(fusion: Fusion) -> None:
    from fusebuild.oracle.reference import evaluate_fp64

    inputs = exact_inputs(fusion)
    want = evaluate_fp64(fusion, inputs)
    for each in PASSES:
        fusion = verify(each(fusion))
        assert print_fusion(each(fusion)) == print_fusion(fusion), f"{each.__name__} is not idempotent"
        assert_equal_results(evaluate_fp64(fusion, inputs), want)
    assert not readers_after_overwriting(fusion)


@settings(max_examples=150, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(fusion=fusions())
def test_what_the_passes_leave_is_primitive_and_rightly_typed(fusion: Fusion) -> None:
    fusion = run_passes(fusion)
    for expr in fusion.exprs:
        types = [fusion.value(fid).type for fid in expr.inputs]
        op, named = OPS[expr.op], dict(expr.attributes)
        assert op.infer(types, named) == tuple(fusion.value(fid).type for fid in expr.outputs)
        assert op.kind is not Kind.COMPOSITE
        assert op.name != "broadcast_in_dim"
        if op.kind is Kind.POINTWISE:
            ranks = {fusion.value(fid).tensor.rank for fid in expr.inputs if fusion.value(fid).is_tensor}
            assert len(ranks) <= 1
        if op.kind is Kind.REDUCTION:
            assert not named["keepdim"]
            assert named.get("dtype") is None
            assert expr.dims


def long_fusion(count: int) -> Fusion:
    r = Recorder("long")
    x, weight = r.tensor(BF16, ("M", "N")), r.tensor(F32, ("N",))
    value = r.op("cast", x, dtype=F32)
    for index in range(count // 10):
        centered = r.op("sub", value, r.op("mean", value, dims=(1,), keepdim=True))
        scaled = r.op("mul", r.op("mul", centered, weight), r.op("add", 1.0, float(index)))
        view = r.op("squeeze", r.op("broadcast", scaled, is_broadcast_dim=(True, False, False)), dims=(0,))
        value = r.op("cast", r.op("cast", r.op("mul", view, 1.0), dtype=F64), dtype=F32)
    result = r.op("add", value, x)
    r.output(r.op("cast", result, dtype=BF16), alias=x)
    return r.finish()


def calls_of(run: Callable[[], object]) -> int:
    """The number of Python and C calls that ``run`` makes: its work, the same on every machine."""
    count = 0

    def note(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event.endswith("call")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("each", PASSES, ids=lambda each: each.__name__)
def test_a_pass_does_work_in_proportion_to_the_exprs(each: Pass) -> None:
    short, long = long_fusion(200), long_fusion(4000)
    assert calls_of(lambda: each(long)) < 25 * calls_of(lambda: each(short))


def test_ten_thousand_exprs_need_no_recursion() -> None:
    fusion = run_passes(long_fusion(10_000))
    assert len(fusion.exprs) == 6004


def test_extents_of_the_strategy_are_all_that_it_uses() -> None:
    assert set(EXTENTS) == {"M", "N", "K"}


@st.composite
def in_place_updates(draw: st.DrawFn) -> Fusion:
    """Elementwise updates of three inputs, most of which overwrite one of them."""
    r = Recorder("updates")
    inputs = [r.tensor(F32, ("M", "N")) for _ in range(3)]
    values = list(inputs)
    for _ in range(draw(st.integers(1, 8))):
        values.append(r.op("add", draw(st.sampled_from(values)), draw(st.sampled_from(values))))
    for x in inputs:
        overwrites = draw(st.booleans()) or draw(st.booleans())
        r.output(draw(st.sampled_from(values)), name=f"out{x.fid}", alias=x if overwrites else None)
    return r.finish()


@settings(max_examples=300, deadline=None, derandomize=True)
@given(fusion=in_place_updates())
def test_no_input_is_read_after_it_was_overwritten(fusion: Fusion) -> None:
    from fusebuild.oracle.reference import evaluate

    inputs = exact_inputs(fusion)
    want = evaluate(fusion, inputs)
    for after in (alias_outputs(fusion), run_passes(fusion)):
        assert not readers_after_overwriting(verify(after))
        assert print_fusion(alias_outputs(after)) == print_fusion(after)
        assert_equal_results(evaluate(after, inputs), want)
