"""Reshapes of computed values sink to what writes them, nothing that is computed changes, and no kernel is added."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusebuild.ir.dtype import DType
from fusebuild.ir.formula import Formula, product
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.text import print_fusion
from fusebuild.ir.values import Value
from fusebuild.ir.verify import verify
from fusebuild.ops.builder import FusionBuilder
from fusebuild.ops.type_rules import TypeRuleError
from fusebuild.passes import run_passes
from fusebuild.passes.dead_code import dead_code
from fusebuild.passes.decompose import decompose
from fusebuild.passes.sink_reshapes import sink_reshapes
from fusebuild.passes.views import views
from fusebuild.pipeline import plan_recipe
from fusebuild.target.table import TARGETS
from support.same_results import assert_equal
from support.small_recipes import recipe_of, text_of

pytest.importorskip("torch")

SIZES = {"M": 4, "N": 6, "K": 3}
INPUTS = {"x": "float[M, K, 8]", "b": "float[M, K, 1]", "v": "float[8]"}


def fusion_of(body: str, *outputs: str, inputs: Mapping[str, str] = INPUTS) -> Fusion:
    words = re.findall(r"\w+", body)
    used = {name: type_ for name, type_ in inputs.items() if name in words}
    return decompose(recipe_of(text_of(used, body, dict.fromkeys(outputs or ("y",), ""))).fusion)


def sunk(fusion: Fusion) -> Fusion:
    """``fusion`` after the pass, which changes no result and has nothing left to do, without dead code."""
    after = dead_code(verify(sink_reshapes(fusion)))
    assert print_fusion(sink_reshapes(after)) == print_fusion(after)
    for sizes in (SIZES, dict.fromkeys(SIZES, 1), SIZES | {"M": 0}):
        assert_equal(after, fusion, sizes)
    return after


def ops(fusion: Fusion) -> list[str]:
    return [expr.op for expr in fusion.exprs if expr.op not in ("size", "set")]


def segments(body: str, *outputs: str, inputs: Mapping[str, str] = INPUTS) -> int:
    used = {name: type_ for name, type_ in inputs.items() if name in re.findall(r"\w+", body)}
    recipe = recipe_of(text_of(used, body, dict.fromkeys(outputs or ("y",), "")))
    return len(plan_recipe(recipe, [TARGETS["sm_90"]]).plan.targets[0].segments)


class TestSinks:
    def test_to_an_output_that_says_its_shape(self) -> None:
        after = sunk(fusion_of("y = reshape(exp(x) * b, [M, K*8])"))
        assert "reshape" not in ops(after)
        (output,) = after.outputs
        assert str(after.value(output.fid).type) == "float[M, K, 8]"
        assert output.shape == ("M", ("mul", 8, "K"))
        assert f"output %{output.fid} y as [M, 8*K]" in print_fusion(after)

    @pytest.mark.parametrize(
        "body",
        [
            "r = reshape(exp(x), [M, K*8])\ny = relu(r) * 2.0",
            "r = reshape(exp(x), [M, K*8])\ny = r + reshape(x, [M, K*8])",
            "r = reshape(exp(x), [M*K, 8])\ny = r * v",
            "r = reshape(exp(x), [M, K*8])\ny = sum(r, dims=[0])",
            "r = reshape(exp(x), [M, K*8])\ny = sum(r, dims=[1], keepdim=True) + 1.0",
            "r = reshape(exp(x), [M, K*8])\ny = var(r, dims=[1], correction=0)",
            "r = reshape(exp(x), [M, K*8])\ny = permute(r, [1, 0])",
            "r = reshape(exp(x), [M, K*8])\ny = broadcast(r, [False, True, False]) + 1.0",
            "r = reshape(exp(b), [M*K, 1])\ny = expand(r, [M*K, 5]) + 1.0",
            "r = reshape(exp(b), [M*K, 1])\ny = squeeze(r, [1]) + 1.0",
            "r = reshape(permute(x, [1, 0, 2]), [K*M, 8])\ny = exp(r)",
            "y = reshape(reshape(exp(x), [M*K, 8]), [M*K*8])",
            "y = exp(reshape(reshape(x * 2.0, [M*K, 8]), [M, K, 8]))",
        ],
    )
    def test_through(self, body: str) -> None:
        after = sunk(fusion_of(body))
        assert [expr for expr in after.exprs if expr.op == "reshape" and after.expr_of(expr.inputs[0])] == []

    def test_an_operand_beside_it_is_split_where_that_moves_nothing(self) -> None:
        body = "q = reshape(broadcast(w + 1, [False, False, False, True]) * e, [N, K*8*8])\ny = max(q, dims=[1])"
        inputs = {"w": "int32[N, K, 8]", "e": "int32[8]"}
        assert "reshape" not in ops(sunk(fusion_of(body, inputs=inputs)))

    def test_an_output_is_read_on_in_the_dims_that_it_has(self) -> None:
        after = sunk(fusion_of("y = reshape(exp(x), [M, K*8])\nz = sum(y, dims=[1])", "y", "z"))
        assert "reshape" not in ops(after)

    def test_two_outputs_of_one_value(self) -> None:
        after = sunk(fusion_of("e = exp(x)\ny = reshape(e, [M*K, 8])\nz = reshape(e, [M, K*8])", "e", "y", "z"))
        assert [output.shape for output in after.outputs] == [None, (("mul", "M", "K"), 8), ("M", ("mul", 8, "K"))]


class TestSplitInputs:
    """Splits that no read of memory can do are done where inputs are read, and all is computed in the finer dims."""

    inputs: ClassVar = {"z": "float[M, 16]", "u": "float[16]", "g": "float[M, 1]"}
    norm = "n = z * rsqrt(sum(z * z, dims=[1], keepdim=True)) * u\n"

    @pytest.mark.parametrize(
        "body",
        [
            norm + "y = reshape(n, [M, 2, 8])",
            norm + "y = exp(reshape(n, [M, 4, 2, 2]))",
            norm + "y = reshape(n, [M, 2, 8])\nw = n + 1.0",
            "y = reshape(sum(z * g, dims=[0]) * u, [4, 4])",
        ],
    )
    def test_one_kernel(self, body: str) -> None:
        outputs = ("y", "w") if "w =" in body else ("y",)
        after = sunk(fusion_of(body, *outputs, inputs=self.inputs))
        read = [after.value(expr.inputs[0]).name for expr in after.exprs if expr.op == "reshape"]
        assert {*read} <= {"z", "u"}
        assert segments(body, *outputs, inputs=self.inputs) == 1

    @pytest.mark.parametrize(
        "body",
        [
            norm + "y = reshape(n, [M, 2, 8])\nw = reshape(n, [M, 4, 4])",
            "c = cumsum(z, 1)\ny = reshape(c / sum(c, dims=[1], keepdim=True), [M, 2, 8])",
            "s = slice(z, [0, 0], [M, 8])\ny = reshape(s / sum(s, dims=[1], keepdim=True), [M, 2, 4])",
        ],
    )
    def test_not_where_inputs_cannot_or_would_have_to_twice(self, body: str) -> None:
        outputs = ("y", "w") if "w =" in body else ("y",)
        after = sunk(fusion_of(body, *outputs, inputs=self.inputs))
        assert [expr for expr in after.exprs if expr.op == "reshape" and expr.inputs[0] in after.inputs] == []

    def test_dims_that_two_shapes_have_in_common(self) -> None:
        """Groups of channels are normalized, and each channel is scaled by its own weight."""
        inputs = {"x": "float[M, 6, K]", "w": "float[6]"}
        body = (
            "g = reshape(x, [M, 2, 3 * K])\nn = g / sum(g, dims=[2], keepdim=True)\n"
            "y = reshape(n, [M, 6, K]) * broadcast(w, [False, True])"
        )
        sunk(fusion_of(body, inputs=inputs))
        assert segments(body, inputs=inputs) == 1

    def test_not_of_an_input_whose_strides_are_the_callers(self) -> None:
        inputs = {"z": '{type: "float[M, 16]", contiguity: [false, false]}'}
        after = sunk(fusion_of("y = reshape(z / sum(z, dims=[1], keepdim=True), [M, 2, 8])", inputs=inputs))
        assert after.value(after.exprs[0].inputs[0]).tensor.rank == 2


class TestLands:
    @pytest.mark.parametrize(
        "reader", ["slice(r, [0, 1], [M, K])", "cumsum(r, 1)", "take(r, iota(3), 1)", "pad(r, [1, 0])",
                   "reshape(r, [M, 2, K*4])", "segment_set(r)"],
    )  # fmt: skip
    def test_where_merged_dims_are_needed(self, reader: str) -> None:
        after = sunk(fusion_of(f"r = reshape(exp(x), [M, K*8])\ny = {reader}"))
        assert "reshape" in ops(after)

    def test_once_for_all_who_need_it(self) -> None:
        after = sunk(fusion_of("r = reshape(exp(x), [M, K*8])\ny = cumsum(r, 1)\nz = cumsum(r, 0)", "y", "z"))
        assert ops(after).count("reshape") == 1

    def test_beside_an_operand_in_other_dims(self) -> None:
        inputs = INPUTS | {"u": "float[M, 4, K, 2]"}
        body = "y = reshape(exp(x), [M, K*8]) + reshape(exp(u), [M, K*8])"
        assert "reshape" in ops(sunk(fusion_of(body, inputs=inputs)))

    def test_an_output_that_overwrites(self) -> None:
        recipe = recipe_of(
            "fusion: f\ninputs: {p: 'float[M, 8]', g: 'float[M, 2, 4]'}\nbody: |\n"
            "  q = p - reshape(exp(g), [M, 8])\noutputs: {q: {dtype: float, alias: p}}\n"
        )
        after = run_passes(recipe.fusion)
        assert after.outputs[0].shape is None
        assert_equal(after, recipe.fusion, {"M": 3})


class TestSegments:
    """One kernel where it took a trip through memory."""

    @pytest.mark.parametrize(
        "body",
        [
            "y = reshape(exp(x) * v, [M, K*8])",
            "y = reshape(x / sum(x, dims=[2], keepdim=True), [M, K*8])",
            "y = reshape(permute(exp(x), [1, 0, 2]), [K*M, 8])",
            "y = cast(reshape(permute(exp(x), [0, 2, 1]), [M, 8*K]), bfloat16)",
            "y = sum(reshape(exp(x) * b, [M, K*8]), dims=[1])",
        ],
    )
    def test_one(self, body: str) -> None:
        assert segments(body) == 1


# Random programs


@st.composite
def programs(draw: st.DrawFn) -> Fusion:
    """Pointwise ops, reductions, views and reshapes, in any order."""
    builder = FusionBuilder("program")
    live = [builder.tensor(DType.FLOAT, ("M", "N", 4), name="x"), builder.tensor(DType.FLOAT, ("M", "N", 1), name="b")]
    for _ in range(draw(st.integers(2, 9))):
        x = draw(st.sampled_from(live))
        try:
            live.append(_step(draw, builder, x, live))
        except TypeRuleError:
            continue
    for place, value in enumerate(draw(st.lists(st.sampled_from(live[2:] or live), min_size=1, max_size=3))):
        builder.output(builder.call("neg", [value])[0] if draw(st.booleans()) else value, name=f"y{place}")
    return builder.finish()


def _step(draw: st.DrawFn, builder: FusionBuilder, x: Value, live: list[Value]) -> Value:
    shape = x.tensor.shape
    kind = draw(st.sampled_from(("merge", "merge", "merge", "split", "unary", "binary", "sum", "keep", "permute",
                                 "broadcast", "expand", "slice", "cumsum")))  # fmt: skip
    dim = draw(st.integers(0, max(len(shape) - 1, 0)))
    match kind:
        case "merge":
            end = draw(st.integers(dim, len(shape)))
            merged: list[Formula] = [*shape[:dim], product(shape[dim:end]), *shape[end:]]
            return builder.call("reshape", [x], {"shape": tuple(merged)})[0]
        case "split":
            return builder.call("reshape", [x], {"shape": (*shape[:dim], *_factors(shape[dim]), *shape[dim + 1 :])})[0]
        case "unary":
            return builder.call(draw(st.sampled_from(("abs", "neg", "sigmoid"))), [x])[0]
        case "binary":
            return builder.call(draw(st.sampled_from(("add", "mul"))), [x, draw(st.sampled_from(live))])[0]
        case "sum":
            return builder.call("sum", [x], {"dims": (dim,)})[0]
        case "keep":
            return builder.call("max", [x], {"dims": (dim,), "keepdim": True})[0]
        case "permute":
            return builder.call("permute", [x], {"permutation": tuple(draw(st.permutations(range(len(shape)))))})[0]
        case "broadcast":
            mask = [False] * len(shape)
            mask.insert(dim, True)
            return builder.call("broadcast", [x], {"is_broadcast_dim": tuple(mask)})[0]
        case "expand":
            return builder.call("expand", [x], {"shape": tuple(3 if size == 1 else size for size in shape)})[0]
        case "slice":
            named = {"start_indices": (0,) * len(shape), "end_indices": (*shape[:dim], 2, *shape[dim + 1 :])}
            return builder.call("slice", [x], named)[0]
    return builder.call("cumsum", [x], {"dim": dim})[0]


def _factors(extent: Formula) -> tuple[Formula, ...]:
    """The factors of a product, or two of a number."""
    if isinstance(extent, tuple) and extent[0] == "mul":
        return extent[1:]  # type: ignore[return-value]
    return (2, extent // 2) if isinstance(extent, int) and extent % 2 == 0 else (extent,)


@given(programs())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
def test_random_programs_compute_the_same(fusion: Fusion) -> None:
    before = views(decompose(fusion))
    after = sunk(before)
    assert_equal(run_passes(fusion), fusion, SIZES)
    assert [output.name for output in after.outputs] == [output.name for output in fusion.outputs]
