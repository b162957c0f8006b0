"""Lambdas: how they are recorded, how large their states are, what a probe refuses, and that their text says it all."""

from __future__ import annotations

import ctypes
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusebuild.definition.text import RecipeText
from fusebuild.errors import NOWHERE, InvalidFusionError, RecipeError, SourceLocation
from fusebuild.ir.dtype import SCALAR_DTYPES, DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.text import print_expr, print_fusion
from fusebuild.ir.values import Value
from fusebuild.ir.verify import verify
from fusebuild.ops.builder import FusionBuilder
from fusebuild.ops.built_in_lambdas import BUILT_IN
from fusebuild.ops.lambda_checks import ScalarLambda, check_lambdas
from fusebuild.ops.lambdas import MAX_STATE_BYTES, LambdaBuilder, is_scalar_op, state_bytes, state_dtypes
from fusebuild.ops.table import OPS, Kind, OpDef, Rule, _binary, _unary
from fusebuild.ops.type_rules import TypeRuleError
from fusebuild.passes import run_passes
from fusebuild.passes.dead_code import dead_code
from fusebuild.recipe.recipe import load_recipe
from support.places import FUSIONS, RECIPES
from support.small_recipes import AFFINE, COUNTED_SUM, WELFORD, recipe_of, text_of, text_with_lambdas

F64, F32, BF16, I64, I32, BOOL = (
    DType.DOUBLE, DType.FLOAT, DType.BFLOAT16, DType.INT64, DType.INT32, DType.BOOL,
)  # fmt: skip


def body_of(line: str, dtype: str = "float", init: str = "0") -> Fusion:
    """The lambda of ``a`` and ``b`` with this statement, which gives ``r``."""
    return recipe_of(recipe_with("f", f"a: {dtype}", f"b: {dtype}", [line], "r", init=init)).fusion.lambdas["f"]


def recipe_with(name: str, left: str, right: str, lines: Sequence[str], results: str, **use: str) -> str:
    """A recipe that reduces ``use['inputs']`` with one lambda."""
    ordered = use.get("ordered", "true")
    entry = [
        f"{name}:",
        f"  left: {{{left}}}",
        f"  right: {{{right}}}",
        "  body: |",
        *(f"    {line}" for line in lines),
    ]
    entry += [f"  results: [{results}]", f"  ordered: {ordered}"]
    count = results.count(",") + 1
    names = ", ".join(f"y{index}" for index in range(count))
    inputs, init = use.get("inputs", ", ".join(["x"] * count)), use.get("init", ", ".join(["0"] * count))
    call = f"{names} = reduce([{inputs}], init=[{init}], combine={name}, dims=[1])"
    outputs = {f"y{index}": "" for index in range(count)}
    body = "\n".join(filter(None, [use.get("before", ""), call]))
    return text_with_lambdas({"x": "float[M, N]"}, body, outputs, "\n".join(entry))


def exprs(fusion: Fusion) -> list[str]:
    return [print_expr(fusion, expr) for expr in fusion.exprs]


class TestBuilder:
    def test_operands_promote_as_elements_and_a_constant_takes_the_dtype_of_what_it_meets(self) -> None:
        write = LambdaBuilder("f")
        a, b = write.scalar(F32, name="a"), write.scalar(I64, name="b")
        (half,) = write.call("mul", [a, write.constant(0.5)])
        (more,) = write.call("add", [b, write.constant(1)])
        (both,) = write.call("add", [half, more])
        assert [value.dtype for value in (half, more, both)] == [F32, I64, F32]
        body = write.finish_lambda([both, more])
        assert [value.type.dtype for value in body.values.values() if value.is_constant] == [F32, I64]
        assert exprs(body) == ["%4 s4: float = mul(%0, %3)", "%6 s6: int64 = add(%1, %5)", "%7 s7: float = add(%4, %6)"]

    def test_an_integer_part_meets_a_fraction_as_a_float(self) -> None:
        write = LambdaBuilder("f")
        (result,) = write.call("mul", [write.scalar(I32), write.constant(0.5)])
        assert result.dtype is F32

    @pytest.mark.parametrize(
        ("literal", "dtype", "kept"), [(2, F32, 2.0), (True, F64, 1.0), (3, BOOL, True), (1, I32, 1), (1.5, I64, 1.5)]
    )
    def test_constants_become_what_the_op_takes(self, literal: Any, dtype: DType, kept: Any) -> None:
        write = LambdaBuilder("f")
        value = write._constant_as(write.constant(literal), dtype)
        assert (value.literal, type(value.literal)) == (kept, type(kept))

    @pytest.mark.parametrize(
        "op",
        ["sum", "broadcast", "iota", "size", "reduce", "cumsum", "matmul", "segment_set", "imag", "philox_uniform"],
    )
    def test_what_is_no_op_on_scalars(self, op: str) -> None:
        write = LambdaBuilder("f")
        with pytest.raises(TypeRuleError) as caught:
            write.call(op, [write.scalar(F32)])
        assert (caught.value.message, caught.value.hint) == (
            f"{op} is no op on scalars",
            "a lambda's body holds elementwise ops only",
        )

    def test_what_nothing_reads_is_dropped_unless_it_is_a_part(self) -> None:
        write = LambdaBuilder("f")
        a, b = write.scalar(F32, name="a"), write.scalar(F32, name="b")
        (total,) = write.call("add", [a, b])
        write.constant(4.0)
        body = write.finish_lambda([total])
        assert print_fusion(body) == (
            "fusion f\n  input  %0 a: float\n  input  %1 b: float\n  %2 s2: float = add(%0, %1)\n  output %2 s2\n"
        )

    def test_a_state_that_differs_from_what_is_combined_is_no_lambda_of_a_fusion(self) -> None:
        write = LambdaBuilder("f")
        a, b = write.scalar(F32), write.scalar(I64)
        (total,) = write.call("add", [a, b])
        host = recipe_of(recipe_with("f", "a: float", "b: float", ["r = a + b"], "r")).fusion
        with pytest.raises(
            InvalidFusionError, match=r"^fusion test: lambda f does not make a state of two of its kind$"
        ):
            verify(replace(host, lambdas={"f": write.finish_lambda([total])}))


class TestState:
    def test_dtypes_are_those_of_the_results(self) -> None:
        text = recipe_with(
            "f", "a: double, b: bool", "c: double, d: bool", ["r = a + c", "s = logical_or(b, d)"], "r, s"
        )
        assert state_dtypes(recipe_of(text).fusion.lambdas["f"]) == (F64, BOOL)

    @given(st.lists(st.sampled_from(SCALAR_DTYPES), min_size=1, max_size=9))
    @settings(max_examples=200, deadline=None)
    def test_bytes_are_those_of_the_struct_that_a_compiler_makes(self, dtypes: list[DType]) -> None:
        c_types = [getattr(ctypes, f"c_{dtype.row.c_type.removesuffix('_t')}") for dtype in dtypes]
        fields = [(f"v{index}", c_type) for index, c_type in enumerate(c_types)]
        assert state_bytes(dtypes) == ctypes.sizeof(type("State", (ctypes.Structure,), {"_fields_": fields}))

    def test_the_largest_state_is_accepted_and_one_byte_more_is_not(self) -> None:
        def text(count: int, last: str) -> str:
            names = [f"p{index}" for index in range(count)]
            left = ", ".join(f"{name}a: {last if name == names[-1] else 'double'}" for name in names)
            lines = [f"{name} = {name}a + {name}b" if last != "bool" or name != names[-1] else
                     f"{name} = logical_or({name}a, {name}b)" for name in names]  # fmt: skip
            return recipe_with("f", left, left.replace("a:", "b:"), lines, ", ".join(names))

        assert state_bytes([F64] * 8) == MAX_STATE_BYTES
        assert len(recipe_of(text(8, "double")).fusion.exprs) == 1
        with pytest.raises(RecipeError, match="the state of 'f' has 72 bytes; 64 are the limit"):
            recipe_of(text(9, "bool"))


def combined(body: Fusion, *elements: tuple[Any, ...]) -> tuple[Any, ...]:
    """All ``elements``, one after another."""
    state = elements[0]
    for element in elements[1:]:
        state = ScalarLambda(body)(state, element)
    return state


class TestApply:
    def test_welford_gives_the_mean_and_squared_deviations_of_a_sample(self) -> None:
        body = recipe_of(welford_text()).fusion.lambdas["welford"]
        sample = [1.0, 4.0, -2.0, 7.0]
        mean, m2, count = combined(body, *((x, 0.0, 1.0) for x in sample))
        assert (mean, count) == (pytest.approx(2.5), 4.0)
        assert m2 == pytest.approx(sum((x - 2.5) ** 2 for x in sample))

    def test_integers_wrap_and_floats_round_as_their_dtypes_do(self) -> None:
        product = body_of("r = a * b", "int32", "1")
        assert ScalarLambda(product)((2**30,), (4,)) == (0,)
        assert ScalarLambda(product)((2**31 - 1,), (2,)) == (-2,)
        total = body_of("r = a + b")
        assert ScalarLambda(total)((2.0**24,), (1.0,)) == (2.0**24,)
        assert ScalarLambda(total)((3e38,), (3e38,)) == (math.inf,)

    def test_parts_of_several_dtypes_and_constants(self) -> None:
        write = LambdaBuilder("f")
        a, c, b, d = (write.scalar(dtype) for dtype in (F32, BOOL, F32, BOOL))
        (doubled,) = write.call("mul", [b, write.constant(2)])
        (chosen,) = write.call("where", [d, a, doubled])
        body = write.finish_lambda([chosen, *write.call("logical_not", [c])])
        assert ScalarLambda(body)((1.0, False), (3.0, False)) == (6.0, True)
        assert ScalarLambda(body)((1.0, True), (3.0, True)) == (1.0, False)


def welford_text(inputs: str = "x, 0.0, 1.0", init: str = "0.0, 0.0, 0.0") -> str:
    body = f"mean, m2, n = reduce([{inputs}], init=[{init}], combine=welford, dims=[1])"
    return text_with_lambdas({"x": "float[M, N]"}, body, {"mean": "", "m2": "", "n": ""}, WELFORD)


def problem(text: str) -> str:
    """What reading ``text`` says: the first line without its place, and the hint."""
    with pytest.raises(RecipeError) as caught:
        recipe_of(text)
    (only,) = caught.value.diagnostics
    return f"{only.message} ({only.hint})"


LAMBDA_PLACE = "test.yaml:5:3"


class TestProbes:
    @pytest.mark.parametrize(
        ("lines", "use", "wanted"),
        [
            (
                ["r = a - b"],
                {"ordered": "false"},
                "lambda 'f' is not commutative: combine(a, b) gives 1.76496 for 'r', and combine(b, a) -1.76496 "
                "(say ordered: true, to combine in the order of indices)",
            ),
            (
                ["r = b"],
                {"ordered": "false"},
                "lambda 'f' is not commutative: combine(a, b) gives -0.833468 for 'r', and combine(b, a) -0.112873 "
                "(say ordered: true, to combine in the order of indices)",
            ),
            (
                ["r = a - b"],
                {},
                "lambda 'f' has no identity in init: combine(init, b) gives -0.93149 for 'r', where b has 0.93149 "
                "(init must change nothing, like 0 in a sum)",
            ),
            (
                ["r = a + b"],
                {"init": "1.0"},
                "lambda 'f' has no identity in init: combine(init, b) gives 1.70574 for 'r', where b has 0.705743 "
                "(init must change nothing, like 0 in a sum)",
            ),
            (
                ["r = where(b == 0.0, 0.0, b)"],
                {},
                "lambda 'f' has no identity in init: combine(b, init) gives 0 for 'r', where b has -0.112873 "
                "(init must change nothing, like 0 in a sum)",
            ),
            (
                ["r = a + b + a * a * b * b"],
                {"ordered": "false"},
                "lambda 'f' is not associative: 'r' is 2.2338e+13 or 4.01237e+28, depending on what is combined first "
                "(parts of a row are combined before they meet: no other order can be had)",
            ),
        ],
    )
    def test_what_is_wrong_with_a_lambda(self, lines: list[str], use: dict[str, str], wanted: str) -> None:
        assert problem(recipe_with("f", "a: float", "b: float", lines, "r", **use)) == wanted

    def test_the_part_is_named_and_integers_are_exact(self) -> None:
        text = recipe_with("f", "a: int64, i: int64", "b: int64, j: int64", ["r = a + b", "s = i + j + a * a * b * b"],
                           "r, s", inputs="cast(x, int64), cast(x, int64)", ordered="false")  # fmt: skip
        assert problem(text) == (
            "lambda 'f' is not associative: 's' is 21 or 9, depending on what is combined first "
            "(parts of a row are combined before they meet: no other order can be had)"
        )

    def test_a_problem_of_a_lambda_is_told_where_it_is_defined_and_once(self) -> None:
        text = recipe_with("f", "a: float", "b: float", ["r = a - b"], "r", ordered="false",
                           before="z = reduce(x, init=0, combine=f, dims=[0])")  # fmt: skip
        text = text.replace("outputs:\n", "outputs:\n  z: \n")
        with pytest.raises(RecipeError) as caught:
            recipe_of(text)
        assert [str(each.location) for each in caught.value.diagnostics] == [LAMBDA_PLACE]

    def test_init_must_be_constant(self) -> None:
        text = welford_text(init="0.0, start, 0.0").replace("lambdas:", "scalars:\n  start: float\nlambdas:")
        assert problem(text) == "reduce: init must be known now (it is the identity of the lambda, not a start)"

    @pytest.mark.parametrize("lines", [["r = b"], ["r = a"], ["r = where(b == 0.0, a, b)"]])
    def test_ordered_lambdas_need_not_commute_but_need_an_identity(self, lines: list[str]) -> None:
        text = recipe_with("f", "a: float", "b: float", lines, "r")
        if "where" in lines[0]:
            assert recipe_of(text).fusion.exprs[0].is_ordered
        else:
            assert "has no identity in init" in problem(text)

    def test_a_scan_is_ordered_whatever_its_lambda_says(self) -> None:
        body = "s, o = scan([n, n], init=[1, 0], combine=affine, dim=1)"
        text = text_with_lambdas(
            {"n": "int64[M, N]"}, body, {"s": "", "o": ""}, AFFINE.replace("  ordered: true\n", "")
        )
        (expr,) = recipe_of(text).fusion.exprs
        assert expr.is_ordered
        assert "is not commutative" in problem(text.replace("scan([", "reduce([").replace("dim=1", "dims=[1]"))

    def test_elements_are_made_as_the_use_makes_them(self) -> None:
        """Counts and deviations of any sign are no states of Welford's: only what the recipe combines is tried."""
        assert recipe_of(welford_text()).fusion.lambdas
        assert "is not commutative" in problem(welford_text(inputs="x, x, x"))

    def test_the_ops_above_a_component_are_taken_into_account(self) -> None:
        largest = ["r = maximum(a, b)"]
        for component, init, fits in (("abs(x)", "0.0", True), ("x", "0.0", False), ("-abs(x)", "0.0", False)):
            text = recipe_with("f", "a: float", "b: float", largest, "r", inputs=component, init=init, ordered="false")
            if fits:
                assert recipe_of(text).fusion.lambdas
            else:
                assert "has no identity in init" in problem(text)

    def test_what_is_always_nan_shows_nothing(self) -> None:
        text = recipe_with("f", "a: float", "b: float", ["r = a - b"], "r", inputs="log(-abs(x) - 1.0)")
        assert recipe_of(text).fusion.lambdas

    def test_probing_is_the_same_on_every_run_and_leaves_pythons_random_numbers_alone(self) -> None:
        text = recipe_with("f", "a: float", "b: float", ["r = a + b + sin(a) * sin(b)"], "r", ordered="false")
        state = random.getstate()
        first = problem(text)
        assert random.getstate() == state
        random.seed(5)
        assert problem(text) == first

    @pytest.mark.parametrize("op", sorted(BUILT_IN))
    @pytest.mark.parametrize("dtype", SCALAR_DTYPES, ids=lambda dtype: dtype.value)
    def test_lambdas_of_built_in_ops_are_held_to_the_same(self, op: str, dtype: DType) -> None:
        where: dict[str, Any] = {"dim": 1} if is_along_one(op) else {"dims": (1,)}
        builder = FusionBuilder("built_in")
        for result in builder.call(op, [builder.tensor(dtype, ("M", "N"))], where):
            builder.output(result)
        fusion = run_passes(builder.finish())
        assert len(fusion.lambdas) == 1
        found: list[tuple[SourceLocation, str, str]] = []
        check_lambdas(fusion, dict.fromkeys(fusion.lambdas, NOWHERE), lambda *what: found.append(what))
        assert found == []


def is_along_one(op: str) -> bool:
    """Whether the op goes along one dim and takes no list of them."""
    return any(parameter.name == "dim" for parameter in OPS[op].parameters)


def without_names(fusion: Fusion) -> Fusion:
    """``fusion`` without what its text may say otherwise: names and places."""

    def plain(value: Value) -> Value:
        return replace(value, name="", location=NOWHERE)

    return replace(
        fusion,
        name="",
        doc="",
        values={fid: plain(value) for fid, value in fusion.values.items()},
        exprs=tuple(replace(expr, location=NOWHERE) for expr in fusion.exprs),
        outputs=tuple(replace(output, name="", location=NOWHERE) for output in fusion.outputs),
        lambdas={name: without_names(body) for name, body in fusion.lambdas.items()},
    )


WITH_LAMBDAS = [path for path in sorted([*RECIPES, *FUSIONS]) if "\nlambdas:\n" in path.read_text(encoding="utf-8")]


class TestText:
    def test_a_fusion_with_lambdas_as_a_recipe(self) -> None:
        body = "t, n = reduce([x, 1], init=[0.0, 0], combine=counted_sum, dims=[1])\ny = t / n"
        text = text_with_lambdas({"x": "float[M, N]"}, body, {"y": ""}, COUNTED_SUM)
        assert str(RecipeText(recipe_of(text).fusion)) == (
            "fusion: test\n"
            "inputs:\n"
            "  t0: float[M, N]\n"
            "lambdas:\n"
            "  counted_sum:\n"
            "    left: {s0: float, s1: int64}\n"
            "    right: {s2: float, s3: int64}\n"
            "    body: |\n"
            "      s4 = add(s0, s2)\n"
            "      s5 = add(s1, s3)\n"
            "    results: [s4, s5]\n"
            "    ordered: false\n"
            "body: |\n"
            "  t4, t5 = reduce(inputs=[t0, 1], init=[0.0, 0], combine=counted_sum, dims=[1], keepdim=False)\n"
            "  t6 = div(t4, t5)\n"
            "outputs:\n"
            "  t6: float\n"
        )

    @pytest.mark.parametrize("path", WITH_LAMBDAS, ids=lambda path: path.stem)
    def test_it_reads_back_as_the_same_lambdas_and_the_same_exprs(self, path: Any) -> None:
        fusion = load_recipe(path).fusion
        again = recipe_of(str(RecipeText(fusion))).fusion
        assert without_names(again).lambdas == without_names(fusion).lambdas
        for got, want in zip(again.exprs, dead_code(fusion).exprs, strict=True):
            assert (got.op, got.attributes) == (want.op, want.attributes)
        assert str(RecipeText(again)).count("\n") == str(RecipeText(fusion)).count("\n")

    def test_a_text_without_listed_constants_reads_back_fid_by_fid(self) -> None:
        body = (
            "a, b = scan([n, n], init=[1, 0], combine=affine, dim=0)\n"
            "c, d = reduce([a, b], init=[1, 0], combine=affine)"
        )
        fusion = recipe_of(text_with_lambdas({"n": "int64[M, N]"}, body, dict.fromkeys("abcd", ""), AFFINE)).fusion
        assert without_names(recipe_of(str(RecipeText(fusion))).fusion) == without_names(fusion)

    @pytest.mark.parametrize("op", sorted(BUILT_IN))
    def test_what_the_passes_make_of_a_built_in_op_is_a_recipe_too(self, op: str) -> None:
        where = "dim=1" if is_along_one(op) else "dims=[1]"
        names = "y, z" if OPS[op].results == 2 else "y"
        text = text_of({"x": "float[M, N]"}, f"{names} = {op}(x, {where})", dict.fromkeys(names.split(", "), ""))
        fusion = run_passes(recipe_of(text).fusion)
        again = recipe_of(str(RecipeText(fusion))).fusion
        assert without_names(again).lambdas == without_names(fusion).lambdas
        assert [expr.op for expr in again.exprs] == [expr.op for expr in fusion.exprs]


def test_scalar_ops_are_pointwise() -> None:
    assert {op.name for op in OPS.values() if is_scalar_op(op.name)} < {
        op.name for op in OPS.values() if op.kind is Kind.POINTWISE
    }
    assert is_scalar_op("erfinv")
    assert is_scalar_op("where")


def added(name: str, reference: Callable[..., object], **more: Any) -> OpDef:
    """A floating op as docs/extending.md adds one."""
    return _unary(name, Rule.FLOATING, "{0} * {0} * {0}", reference=reference, **more)


def cubed_text(component: str = "x", line: str = "r = where(cubed(a) > cubed(b), a, b)") -> str:
    """A recipe that finds the largest number by its cube."""
    return recipe_with("largest", "a: float", "b: float", [line], "r", init="-1000.0", ordered="false",
                       inputs=component)  # fmt: skip


def test_ops_that_are_added_are_tried_by_their_references(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS, "cubed", added("cubed", lambda torch, x: x**3))
    assert "largest" in recipe_of(cubed_text()).fusion.lambdas


def test_ops_that_need_torch_are_tried_by_their_own_scalar(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(
        OPS, "cubed", added("cubed", lambda torch, x: torch.pow(x, 3), scalar=lambda dtype, x: x * x * x)
    )
    assert "largest" in recipe_of(cubed_text()).fusion.lambdas


def test_ops_that_need_torch_have_no_meaning_for_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS, "cubed", added("cubed", lambda torch, x: torch.pow(x, 3)))
    assert OPS["cubed"].scalar is None
    assert "calls cubed, which has no meaning for single numbers" in problem(cubed_text())


def test_ops_without_a_meaning_above_a_lambda_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its results were NaN, no probe ran, and a lambda with any mistake passed."""
    monkeypatch.setitem(OPS, "cubed", added("cubed", lambda torch, x: torch.pow(x, 3)))
    wanted = "lambda 'largest' cannot be tried here: cubed, which makes what it combines, has no meaning for single"
    assert wanted in problem(cubed_text("cubed(x)", "r = a - b"))


def test_ops_that_mean_nothing_for_numbers_of_the_dtype_at_hand_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS, "cubed", added("cubed", lambda torch, x: x & 7))
    assert OPS["cubed"].scalar is not None
    assert "calls cubed, which has no meaning for single numbers" in problem(cubed_text())


def raising(error: Exception) -> Callable[..., float]:
    def scalar(dtype: object, x: float) -> float:
        raise error

    return scalar


@pytest.mark.parametrize("error", [ValueError(), ZeroDivisionError(), KeyError(1), RuntimeError(), AssertionError()])
def test_ops_whose_meaning_always_fails_have_none(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS, "cubed", added("cubed", lambda torch, x: torch.pow(x, 3), scalar=raising(error)))
    assert "calls cubed, which has no meaning for single numbers" in problem(cubed_text())


@pytest.mark.parametrize(
    ("scalar", "said"),
    [
        (lambda dtype, x: [0.0, 1.0, 2.0][int(x)] if x >= -1 else {}[x], "fails: KeyError: -"),
        (lambda dtype, x: (x + 1.0) ** 0.5, ") fails: a complex is no number"),
        (lambda dtype, x: x if x in (1.0, 2.0, 0.5, -1.0, 0.0) else None, ") fails: a NoneType is no number"),
    ],
)
def test_ops_whose_meaning_fails_for_some_numbers_are_told_with_one(
    scalar: Callable[..., float], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(OPS, "cubed", added("cubed", lambda torch, x: torch.pow(x, 3), scalar=scalar))
    whole = problem(cubed_text())
    assert "lambda 'largest' cannot be tried: cubed(" in whole
    assert said in whole
    assert "cubed(2.5)" not in str(run_passes(recipe_of(ROOT_OF_A_NUMBER).fusion))  # a constant stays as it is


ROOT_OF_A_NUMBER = text_of({"x": "float[M]"}, "y = x * cubed(-7.25)", {"y": "float"})


def test_what_is_beyond_the_domain_of_an_op_is_no_number_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS, "cubed", added("cubed", lambda torch, x: math.log(x - 1.0)))
    text = cubed_text("x * x + 2.0").replace("-1000.0", "1.5")
    assert "largest" in recipe_of(text).fusion.lambdas


@pytest.mark.parametrize("name", ["rounded", "named", "is_defined", "Float", "DType", "Any", "struct"])
def test_ops_may_be_called_as_what_scalars_are_made_with(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS, name, added(name, lambda torch, x: x**3))
    assert "largest" in recipe_of(cubed_text().replace("cubed", name)).fusion.lambdas


@pytest.mark.parametrize("line", ["(a * a + 2) ** (b * b + 2)", "1 << (a * a + b * b) * 10**12", "a ** 10 ** 15 * b"])
def test_integers_in_references_wrap_before_they_fill_memory(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    op = _binary("grown", Rule.INTEGRAL, reference=eval(f"lambda torch, a, b: {line}"))
    monkeypatch.setitem(OPS, "grown", op)
    text = recipe_with("f", "a: int64", "b: int64", ["r = grown(a, b)"], "r", init="1", inputs="cast(x, int64)")
    assert "lambda 'f' " in problem(text)


@pytest.mark.parametrize("op", ["erfinv", "erfcinv"])
def test_inverses_may_stand_above_a_lambda_that_is_tried(op: str) -> None:
    text = recipe_with("f", "a: float", "b: float", ["r = a - b"], "r", inputs=f"{op}(x)")
    assert "has no identity in init" in problem(text)


@pytest.mark.parametrize(
    "component",
    [
        "contiguous(x)",
        "segment_set(x)",
        "philox_uniform(cast(x, int64), 7)",
        "uniform_between(x, 0.0, 1.0)",
        "x + linear_index([M, N])",
        "x + uniform(0.0, 1.0, [M, N], 7)",
    ],
)
def test_elements_of_copies_positions_and_chance_are_tried(component: str) -> None:
    text = recipe_with(
        "f", "a: float", "b: float", ["r = a - b"], "r", inputs="cast(z, float)", before=f"z = {component}"
    )
    assert "has no identity in init" in problem(text)
