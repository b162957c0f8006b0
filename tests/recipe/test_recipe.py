"""Recipes: what they mean, and exactly what is said about those that mean nothing."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fusebuild.errors import RecipeError, UsageError
from fusebuild.ir.dtype import DType
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.text import print_fusion
from fusebuild.ir.values import ExtentFact
from fusebuild.planning.assembly import fusion_digest
from fusebuild.recipe.files import MAX_BYTES
from fusebuild.recipe.names import name_problem
from fusebuild.recipe.recipe import Recipe, load_recipe, parse_recipe
from fusebuild.recipe.text import MAX_DIAGNOSTICS, MAX_LINE_LENGTH
from support.places import GOLDEN, RECIPES, ROOT, TESTS
from support.small_recipes import recipe_of, text_of

BAD = sorted((TESTS / "recipe" / "bad").glob("*.yaml"))
Golden = Callable[[Path, str], None]


def recipe(body: str, inputs: str = "x: float[M, N]", outputs: str = "y:", more: str = "") -> Recipe:
    """A recipe with ``body`` from line 3 on."""

    def block(text: str) -> str:
        return "\n".join(f"  {line}" for line in text.split("\n"))

    sections = f"body: |\n{block(body)}\ninputs:\n{block(inputs)}\noutputs:\n{block(outputs)}\n{more}"
    return parse_recipe(f"fusion: f\n{sections}", "f.yaml")


def lines(body: str, **sections: str) -> list[str]:
    """Constants and exprs of a recipe with ``body``, printed."""
    text = print_fusion(recipe(body, **sections).fusion)
    return [line.strip() for line in text.splitlines()[1:] if not line.startswith(("  input", "  output"))]


def message(text: str) -> str:
    with pytest.raises(RecipeError) as caught:
        parse_recipe(text, "f.yaml")
    return str(caught.value)


@pytest.mark.parametrize("path", BAD, ids=[path.stem for path in BAD])
def test_bad_recipe_is_refused_with_this_text(path: Path, golden: Golden) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, root=TESTS / "recipe")
    assert caught.value.exit_code == 2
    golden(path.with_suffix(".txt"), f"{caught.value}\n")


MISTAKES = {
    "extents:\n  M: {min: 4, max: 3}\n": "f.yaml:9:6: error: min of M is 4, more than its max 3",
    "extents:\n  K: {min: 4}\n": "f.yaml:9:3: error: 'K' is no dim of any input",
    "cases:\n  - {M: -1}\n": "f.yaml:9:9: error: the size of M is -1, less than 0",
    "cases:\n  - 8\n": "f.yaml:9:5: error: expected a case, such as {M: 16, N: 8}, not '8'",
    "doc: []\n": "f.yaml:8:6: error: expected a text, not a list",
    "doc: &d f\n": "f.yaml:8:6: error: anchor '&d' is not accepted",
    "doc: !!str f\n": "f.yaml:8:6: error: YAML tags are not accepted",
    "allow_spills: no\n": "f.yaml:8:15: error: allow_spills is 'no'",
    "bench:\n  reference: x +\n": "f.yaml:9:14: error: the reference cannot be read: invalid syntax",
    "bench:\n  cases: [{M: -1}]\n": "f.yaml:9:15: error: the size of M is -1, less than 0",
    "expect: {bytes: 4*M +}\n": "f.yaml:8:17: error: the formula cannot be read: invalid syntax",
    "odd: 1\n": "f.yaml:8:1: error: unknown key 'odd'",
    "composites:\n  c:\n    inputs: [a]\n    body: b = (\n    results: [b]\n":
        "f.yaml:11:15: error: the body cannot be read: '(' was never closed",
    "lambdas:\n  c:\n    left: {a: float}\n    right: {b: float}\n    body: r = (\n    results: [r]\n":
        "f.yaml:12:15: error: the body cannot be read: '(' was never closed",
}  # fmt: skip
"""A section from line 8 on, and what is wrong with it."""


@pytest.mark.parametrize("section", MISTAKES)
def test_a_mistake_in_a_section_hides_none_in_the_body(section: str) -> None:
    said = message(
        f'fusion: f\ninputs: {{x: "float[M]"}}\nbody: |\n  y = rsqr(x)\n  z = e\noutputs: {{y: , z: }}\n\n{section}'
    )
    assert [line for line in said.splitlines() if ": error: " in line] == [
        "f.yaml:4:7: error: unknown op 'rsqr'",
        "f.yaml:5:7: error: undefined name 'e'",
        MISTAKES[section],
    ]


def test_a_mistake_that_is_made_twice_at_one_place_is_told_once() -> None:
    said = message(
        'fusion: f\ninputs: {x: "float[M]"}\nextents: {M: {max: 3, values: [8, 8]}}\nbody: y = x + 1\noutputs: {y: }\n'
    )
    assert said.count("M has the value 8, but extents says max: 3") == 1


@pytest.mark.parametrize("path", RECIPES, ids=[path.stem for path in RECIPES])
def test_shipped_recipe_means_this_fusion(path: Path, golden: Golden) -> None:
    fusion = load_recipe(path, root=ROOT).fusion
    assert fusion.name == path.stem
    assert fusion.doc
    golden(GOLDEN / "fusion" / f"{path.stem}.txt", print_fusion(fusion))


@pytest.mark.parametrize("path", RECIPES, ids=[path.stem for path in RECIPES])
def test_shipped_recipe_has_a_large_an_odd_and_a_degenerate_case(path: Path) -> None:
    cases = load_recipe(path).fusion.cases
    if path.stem == "reduction_pointwise_epilogue":
        assert cases == ({},)
        return
    assert len(cases) >= 3
    assert math.prod(cases[0].values()) >= 2**20
    assert any(size % 2 for case in cases[1:] for size in case.values())
    assert any(size in (0, 1) for case in cases[2:] for size in case.values())


def test_a_range_belongs_to_the_recipe_and_not_to_its_fusion() -> None:
    inputs = 'a: {{type: "int64[M, N]"{}}}\nb: {{type: "int32[N]"{}}}'
    plain = recipe("y = a + b", inputs=inputs.format("", ""))
    drawn = recipe("y = a + b", inputs=inputs.format(", range: [0, N]", ", range: [-3, 4]"))
    assert drawn.ranges == {0: (0, "N"), 1: (-3, 4)}
    assert plain.ranges == {}
    assert fusion_digest(plain.fusion) == fusion_digest(drawn.fusion)


def test_fids_run_through_inputs_then_scalars_then_body_and_casts_on_store() -> None:
    fusion = recipe(
        "a = x * 2.0 + eps\ny = -a",
        inputs="x: bfloat16[M, N]",
        outputs="y: bfloat16",
        more="scalars:\n  eps: {dtype: double, value: 1e-5}\n",
    ).fusion
    assert print_fusion(fusion) == (
        "fusion f\n"
        "  input  %0 x: bfloat16[M, N]\n"
        "  const  %1 = 1e-05: double\n"
        "  const  %2 = 2.0: double\n"
        "  %3 t3: float[M, N] = mul(%0, %2)\n"
        "  %4 a: float[M, N] = add(%3, %1)\n"
        "  %5 y: float[M, N] = neg(%4)\n"
        "  %6 t6: bfloat16[M, N] = cast(%5, dtype=bfloat16)\n"
        "  output %6 y\n"
    )
    assert fusion.recorded == 7


def test_scalar_without_a_value_is_an_input() -> None:
    fusion = recipe("y = x * scale", more="scalars:\n  scale: float\n").fusion
    assert [fusion.value(fid).name for fid in fusion.inputs] == ["x", "scale"]
    assert fusion.value(1).dtype is DType.FLOAT


def test_constants_take_their_fids_right_before_the_expr_that_reads_them() -> None:
    assert lines("y = 1.0 + exp(x)") == [
        "const  %2 = 1.0: double",
        "%1 t1: float[M, N] = exp(%0)",
        "%3 y: float[M, N] = add(%2, %1)",
    ]


@pytest.mark.parametrize(
    ("expression", "op"),
    [
        ("x + x", "add"), ("x - x", "sub"), ("x * x", "mul"), ("x / x", "div"), ("x % x", "mod"), ("x ** x", "pow"),
        ("n & n", "bitwise_and"), ("n | n", "bitwise_or"), ("n ^ n", "bitwise_xor"), ("~n", "bitwise_not"),
        ("n << n", "bitwise_left_shift"), ("n >> n", "bitwise_right_shift"), ("-x", "neg"), ("x == x", "eq"),
        ("x != x", "ne"), ("x < x", "lt"), ("x <= x", "le"), ("x > x", "gt"), ("x >= x", "ge"),
    ],
)  # fmt: skip
def test_operators_are_ops(expression: str, op: str) -> None:
    more = "n: int32[M, N]" if "n" in expression else "x: float[M, N]"
    assert recipe(f"y = {expression}", inputs=more).fusion.exprs[0].op == op


def test_a_minus_sign_belongs_to_its_number() -> None:
    assert lines("y = x * -2")[0] == "const  %1 = -2: int64"
    assert lines("y = x + -9223372036854775808")[0] == "const  %1 = -9223372036854775808: int64"


def test_a_bare_name_is_another_name_and_takes_no_fid() -> None:
    fusion = recipe("a = exp(x)\ny = a").fusion
    assert len(fusion.exprs) == 1
    assert (fusion.outputs[0].fid, fusion.outputs[0].name) == (1, "y")


def test_several_results_are_unpacked_and_underscore_discards_one() -> None:
    assert lines("_, y = var_mean(x, dims=1)") == [
        "%1 t1: float[M], %2 y: float[M] = var_mean(%0, correction=1, dims=[1], keepdim=false)"
    ]


def test_arguments_may_be_positional_or_named() -> None:
    by_position = lines("y = sum(x, [1], True)")
    assert by_position == lines("y = sum(keepdim=True, dims=(-1,), x=x)")
    assert lines("y = sum(x)") == lines("y = sum(x, dims=None, dtype=None)")


def test_shapes_hold_symbols_numbers_and_minus_one() -> None:
    inputs = "x: float[M, N]\nrow: float[N]"
    expanded = lines("r = broadcast(row, is_broadcast_dim=[True, False])\ny = expand(r, [M, -1]) + x", inputs=inputs)
    assert expanded[1] == "%3 t3: float[M~, N] = expand(%2, shape=[M, -1])"
    placed = lines("y = broadcast_in_dim(row, [M, N], [1]) + x", inputs=inputs)
    assert placed[0] == "%2 t2: float[M~, N] = broadcast_in_dim(%1, broadcast_dims=[1], shape=[M, N])"


def test_defaults_that_are_values_become_constants() -> None:
    assert lines("y = x + iota(N)") == [
        "const  %1 = 0: int64",
        "const  %2 = 1: int64",
        "%3 t3: int64[N] = iota(%1, %2, dtype=None, length=N)",
        "%4 y: float[M, N] = add(%0, %3)",
    ]


def test_a_fusion_may_have_no_inputs() -> None:
    text = "fusion: f\nbody: y = full([2, 3], 1.5, dtype=float)\noutputs: {y: }\n"
    assert parse_recipe(text, "f.yaml").fusion.inputs == ()


def test_an_output_that_is_an_input_or_given_twice_is_a_copy() -> None:
    fusion = recipe("a = exp(x)\ny = a\nz = a", outputs="x:\ny:\nz:").fusion
    assert [expr.op for expr in fusion.exprs] == ["exp", "set", "set"]
    assert len(set(fusion.output_fids) | set(fusion.inputs)) == 4


def test_long_forms() -> None:
    fusion = recipe(
        "y = exp(x) * w * s",
        inputs='x: {dtype: "float[M, N]", contiguity: [false, true]}\n'
        'w: {type: "float[M, N]", stride_order: [0, 1], contiguity: [null, true]}\n'
        's: {type: "float[]", cpu: true}',
        outputs="y: {dtype: float, alias: x}",
    ).fusion
    assert [str(value.type) for value in fusion.tensor_inputs] == [
        "float[M?, N]",
        "float[M~, N] stride_order=[0, 1]",
        "float[] cpu",
    ]
    assert fusion.outputs[0].alias == 0


def test_facts_cases_and_bench_are_kept() -> None:
    result = recipe(
        "y = exp(x)",
        more="extents:\n  N: {multiple_of: 8, min: 8, max: 64, values: [16, 32]}\n"
        "cases:\n  - {M: 0, N: 16}\n  - {N: 24, M: 7}\nbench:\n  reference: torch.exp(x)\n"
        "  cases:\n    - {M: 1, N: 32}\n",
    )
    assert result.fusion.facts == (ExtentFact(symbol="N", multiple_of=8, min=8, max=64, values=(16, 32)),)
    assert result.fusion.cases == ({"M": 0, "N": 16}, {"M": 7, "N": 24})
    assert result.bench.reference is not None
    assert result.bench.reference.text == "torch.exp(x)"
    assert result.bench.reference.place.text == "  reference: torch.exp(x)"
    assert result.bench.cases == ({"M": 1, "N": 32},)


def test_no_fusion_depends_on_how_it_is_measured() -> None:
    more = "cases:\n  - {M: 2, N: 16}\n"
    bench = "bench:\n  reference: torch.exp(x)\n  cases:\n    - {M: 1, N: 32}\n"
    assert recipe("y = exp(x)", more=more + bench).fusion == recipe("y = exp(x)", more=more).fusion


def test_numbers_are_read_as_people_mean_them_not_as_yaml_1_1_does() -> None:
    for text, value in (("1e-5", 1e-5), ("1", 1.0), (".5", 0.5), ("-.inf", float("-inf"))):
        fusion = recipe("y = x + eps", more=f"scalars:\n  eps: {{dtype: double, value: {text}}}\n").fusion
        assert fusion.value(1).literal == value
    assert "expected a whole number for the value, not '010'" in message(
        "fusion: f\ninputs: {x: 'float[M]'}\nscalars: {n: {dtype: int64, value: 010}}\n"
        "body: y = x + n\noutputs: {y: }\n"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "hint"),
    [("-inf", "-.inf"), ("inf", ".inf"), ("Infinity", ".inf"), ("-infinity", "-.inf"), ("NaN", ".nan"), ("half", "")],
)
def test_numbers_that_are_not_finite_are_spelled_as_yaml_does(text: str, hint: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recipe("y = x + eps", more=f"scalars:\n  eps: {{dtype: float, value: {text}}}\n")
    assert [(each.message, each.hint) for each in caught.value.diagnostics] == [
        (f"expected a number, not '{text}'", f"did you mean '{hint}'?" if hint else "")
    ]


def test_an_op_is_no_value() -> None:
    with pytest.raises(RecipeError) as caught:
        recipe("y = x + relu")
    (only,) = caught.value.diagnostics
    assert (only.message, only.hint) == ("'relu' is an op, not a value", "call it: relu(x)")


def test_every_value_and_expr_knows_its_place_in_the_file() -> None:
    fusion = recipe("# a comment\na = exp(x) + 2.0\n\ny = a").fusion
    assert str(fusion.value(0).location) == "f.yaml:8:3"
    assert str(fusion.exprs[0].location) == "f.yaml:4:7"
    assert fusion.exprs[0].location.width == len("exp(x)")
    assert fusion.exprs[1].location.text == "  a = exp(x) + 2.0"
    assert fusion.exprs[1].location.short == "f.yaml:4"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ("body: y = exp(q)\n", "2:15"),
        ("body: 'y = exp(q)'\n", "2:16"),
        ("body: |2\n  y = exp(q)\n", "3:11"),
        ("body: |-  # as is\n\n      y = exp(\n         q)\n", "5:10"),
    ],
)
def test_places_in_every_style_of_body(body: str, place: str) -> None:
    text = message(f"fusion: f\n{body}outputs: {{y: }}\n")
    assert text.startswith(f"f.yaml:{place}: error: undefined name 'q'")


def test_columns_count_characters_and_lines_may_end_in_carriage_returns() -> None:
    text = message("fusion: f\r\nbody: |\r\n  a = 'ß' + q\r\n  y = a\r\noutputs: {y: }\r\n")
    assert "f.yaml:3:13: error: undefined name 'q'\n    a = 'ß' + q\n              ^" in text


def test_all_errors_of_a_stage_come_at_once_in_order() -> None:
    text = message("fusion: 1\ndocs: x\ninputs: {x: 'float[M, -1]'}\noutputs: {y: floot}\n")
    assert [line.split(" error:")[0] for line in text.splitlines() if "error:" in line] == [
        "f.yaml:1:1:", "f.yaml:1:9:", "f.yaml:2:1:", "f.yaml:3:23:", "f.yaml:4:14:",
    ]  # fmt: skip


def test_too_large_a_file_is_refused_before_it_is_parsed(tmp_path: Path) -> None:
    path = tmp_path / "large.yaml"
    path.write_bytes(b"#" * (MAX_BYTES + 1))
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, root=tmp_path)
    text = "large.yaml:1:1: error: the recipe has more than 1048576 bytes, which are the limit"
    assert str(caught.value) == text
    assert message("#" * (MAX_BYTES + 1)) == "f.yaml:1:1: error: the recipe has 1048577 bytes; 1048576 are the limit"


def test_too_long_a_line_is_refused() -> None:
    text = message("fusion: f\ndoc: " + "x" * MAX_LINE_LENGTH + "\n")
    assert text == "f.yaml:2:4101: error: the line has 4101 characters; 4096 are the limit"


def test_control_characters_are_refused() -> None:
    assert message("fusion: f\ndoc: a\x1b[31m\n") == "f.yaml:2:7: error: character U+001B is not accepted in a recipe"
    assert message("a\u2028b").startswith("f.yaml:1:2: error: character U+2028")


def test_errors_are_counted_when_they_are_very_many() -> None:
    text = message("fusion: f\nbody: |\n" + "  z\n" * 300 + "outputs: {y: }\n")
    assert text.count("error:") == MAX_DIAGNOSTICS + 1
    last = [line for line in text.splitlines() if "error:" in line][-1]
    assert last == "f.yaml:103:3: error: too many errors: 201 are not shown"


def test_more_values_than_a_recipe_has_are_refused() -> None:
    text = message("fusion: f\ncases:\n  - {" + "a: 1,\n" * 25_000 + "}\n")
    assert text.startswith("f.yaml:10001:4: error: the YAML has more than 20000 values")


def test_reading_ends_after_the_five_hundredth_error() -> None:
    text = message("fusion: f\nbody: |\n" + "  z\n" * 5000 + "outputs: {y: }\n")
    last = [line for line in text.splitlines() if "error:" in line][-1]
    assert last == "f.yaml:103:3: error: too many errors: 400 are not shown"


@pytest.mark.parametrize(("count", "hint"), [(10, "\n  hint: did you mean 'value'?"), (1100, "")])
def test_what_was_meant_is_not_searched_among_thousands_of_names(count: int, hint: str) -> None:
    names = "".join(f"  a{number} = x\n" for number in range(count))
    text = message(
        f"fusion: f\ninputs: {{x: 'float[N]'}}\nbody: |\n  value = x\n{names}  y = valeu\n"
        "outputs:\n  y:\n  value:\n" + "".join(f"  a{number}:\n" for number in range(count))
    )
    assert text.endswith(f": error: undefined name 'valeu'\n    y = valeu\n        ^~~~~{hint}")


def test_a_file_that_is_not_text_or_not_there(tmp_path: Path) -> None:
    path = tmp_path / "binary.yaml"
    path.write_bytes(b"fusion: f\r\nd\xc3\xb6c: \xff\n")
    with pytest.raises(RecipeError) as caught:
        load_recipe(path, root=tmp_path)
    assert str(caught.value) == "binary.yaml:2:6: error: the recipe is not UTF-8: byte 17 is 0xff"
    with pytest.raises(UsageError) as missing:
        load_recipe(tmp_path / "none.yaml", root=tmp_path)
    assert str(missing.value) == "cannot read none.yaml: No such file or directory"


@pytest.mark.parametrize("body", ["y = " + "-" * 4000 + "x", "y = (" + "x+\n   " * 5000 + "x)", "y = " + "(" * 300])
def test_deep_expressions_are_errors_and_not_crashes(body: str) -> None:
    with pytest.raises(RecipeError):
        recipe(body)


FRAGMENTS = [
    "", "\t", "[", "]", "{", "}", ":", "- ", "&a ", "*a", "|", "'", '"', "\n", "  ", "M", "_", "(", ")", "=", "**",
    "-1", "1e999", "no", "~", "!!int ", "<<: ", "lambda: ", "x.", "é", "\\", "%", "...", "None",
]  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_is_broken_in_a_recipe_the_answer_is_a_recipe_error(data: st.DataObject) -> None:
    text = (ROOT / "recipes" / "layernorm.yaml").read_text(encoding="utf-8")
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(text)))
        stop = start + data.draw(st.integers(0, 6))
        text = text[:start] + data.draw(st.sampled_from(FRAGMENTS)) + text[stop:]
    with contextlib.suppress(RecipeError):
        assert parse_recipe(text, "f.yaml").fusion.outputs


def test_reading_recipes_imports_neither_torch_nor_a_compiler() -> None:
    unwanted = {"torch", "jinja2", "networkx", "tvm_ffi", "msgspec"}
    check = f"import sys, fusebuild.recipe.recipe; sys.exit(bool({unwanted} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", check], cwd=ROOT).returncode == 0


def seed_003(torch: Any, inputs: list[Any]) -> tuple[Any, ...]:
    """``nvfuser_fusion_id1`` of the seed in fp64, without its last casts; its 1024 is the width."""

    def rounded(x: Any) -> Any:
        return x.to(torch.bfloat16).double()

    t0, t1, t2, t3, t4, t5, t6 = (tensor.double() for tensor in inputs)
    batch, sequence, width = t6.shape
    full = (batch, sequence, width)
    t17 = t4[:, :, None].expand(full)
    t18 = t6 - t17
    t23 = t5.expand(full)
    t24 = t18 * t23
    t28 = t24 * t0 + t1
    t38 = rounded(1.0 + t2).expand(full)
    t48 = rounded(t3.sum(1))[:, None, :].sum(1)
    t50 = t38 * t3
    t60 = rounded((t28 * t3).sum(1))[:, None, :].sum(1)
    t62 = t50.sum((0, 1))
    t64 = t0 * t50
    t66 = (t24 * t50).sum((0, 1))
    t68 = t23 * t64
    t75 = (t18 * t64).sum(2)[:, :, None]
    t82 = (-t68).sum(2)[:, :, None]
    t87 = -0.5 * t75 * t5**3.0
    t101 = 1 / width * t82.sum(2)[:, :, None].expand(full)
    t111 = t87.sum(2)[:, :, None].expand(full)
    t128 = 2.0 * t111 * (t6 - t17) * (1 / width)
    return t48, t60, t62, t66, t68 + (t101 + t128)


ADALN_CASES = [{"B": 3, "S": 5, "D": 17}, {"B": 1, "S": 1, "D": 1}, {"B": 2, "S": 0, "D": 8}]


@pytest.mark.parametrize("case", ADALN_CASES)
def test_adaln_as_recorded_computes_what_the_seed_computes(case: dict[str, int]) -> None:
    torch = pytest.importorskip("torch")
    reference = pytest.importorskip("fusebuild.oracle.reference")
    fusion: Fusion = load_recipe(TESTS / "fusions" / "adaln_as_recorded.yaml").fusion
    inputs = reference.random_inputs(fusion, case, seed=3)
    for got, want in zip(reference.evaluate_fp64(fusion, inputs), seed_003(torch, inputs), strict=True):
        # The width's reciprocal is rounded to float where it meets floats.
        torch.testing.assert_close(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", ADALN_CASES)
def test_adaln_backward_computes_what_the_seed_computes(case: dict[str, int]) -> None:
    """Up to the last rounding of the first two outputs, which the seed sums once more."""
    torch = pytest.importorskip("torch")
    reference = pytest.importorskip("fusebuild.oracle.reference")
    fusion: Fusion = load_recipe(ROOT / "recipes" / "adaln_backward.yaml").fusion
    weight, bias, *others = inputs = reference.random_inputs(fusion, case, seed=3)
    expanded = [row.expand(case["B"], case["S"], case["D"]) for row in (weight, bias)]
    wanted = seed_003(torch, [*expanded, *others])
    for place, (got, want) in enumerate(zip(reference.evaluate_fp64(fusion, inputs), wanted, strict=True)):
        tolerance = 2**-8 if place < 2 else 1e-6
        torch.testing.assert_close(got, want, rtol=tolerance, atol=1e-6)


def test_the_name_of_device_functions_is_no_word_of_cuda() -> None:
    message, hint = name_problem("fb")
    assert message == "'fb' is a reserved word of kernels, which call their own functions by it"
    assert hint.startswith("call it 'fb_'")


@pytest.mark.parametrize(
    ("written", "number"), [("inf", math.inf), ("-inf", -math.inf), ("nan", math.nan), ("-nan", math.nan)]
)
def test_inf_and_nan_are_numbers_in_a_body(written: str, number: float) -> None:
    (expr,) = recipe(f"y = maximum(x, {written})").fusion.exprs
    constant = recipe(f"y = maximum(x, {written})").fusion.value(expr.inputs[1])
    assert constant.literal == pytest.approx(number, nan_ok=True)


def test_infinity_is_an_identity_of_a_lambda() -> None:
    largest = (
        "lambdas:\n  largest:\n    left: {a: float}\n    right: {b: float}\n"
        "    body: |\n      r = where(b > a, b, maximum(a, -inf))\n    results: [r]\n"
    )
    read = recipe("y = reduce(x, init=-inf, combine=largest, dims=[1])", more=largest)
    assert read.fusion.value(read.fusion.exprs[0].inputs[1]).literal == -math.inf


@pytest.mark.parametrize(
    ("body", "inputs", "want"),
    [
        ("y = x + inf", "x: float[M, N]\ninf: float[N]", "add(%0, %1)"),
        ("inf = exp(x)\ny = x + inf", "x: float[M, N]", "add(%0, %1)"),
        ("y = x + cast(size(nan), float)", "x: float[M, nan]", "size(extent=nan)"),
    ],
)
def test_the_recipes_own_inf_wins(body: str, inputs: str, want: str) -> None:
    assert want in print_fusion(recipe(body, inputs=inputs).fusion)


def test_a_number_too_large_is_no_infinity() -> None:
    with pytest.raises(RecipeError) as caught:
        recipe("y = x + 1e999")
    (only,) = caught.value.diagnostics
    assert (only.message, only.hint) == ("the number is too large for a double", "infinity is inf")


def test_a_mistyped_call_is_compared_with_everything_that_the_recipe_has() -> None:
    composite = (
        "composites:\n  softmax:\n    inputs: [a]\n    body: |\n      r = exp(a)\n    results: [r]\n"
        "lambdas:\n  counting:\n    left: {a: float}\n    right: {b: float}\n"
        "    body: |\n      r = a + b\n    results: [r]\n"
    )
    for call, hint in (
        ("softmx(x)", "did you mean 'softmax'?"),
        ("sigmod(x)", "did you mean 'sigmoid'?"),
        ("countin(x)", "did you mean 'counting'?"),
        ("counting(x)", "'counting' is a lambda: write combine=counting in a reduce or scan"),
    ):
        with pytest.raises(RecipeError) as caught:
            recipe(f"y = {call}", more=composite)
        assert hint in [each.hint for each in caught.value.diagnostics]


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("x.sum()", "write sum(…)"),
        ("torch.exp(x)", "write exp(…)"),
        ("x.sqr()", "did you mean 'sqrt'?"),
        ("x[0]", "use slice(x, start_indices, end_indices), or take(x, index, dim)"),
        ("[v for v in x]", "ops work on whole tensors"),
        ("sum(x, axis=1)", "did you mean 'dims'?"),
        ("mean(x, [1], true)", "did you mean 'True'?"),
        ("x + Infinity", "did you mean 'inf'?"),
        ("x + NaN", "did you mean 'nan'?"),
        ("float(x)", "write cast(x, float)"),
    ],
)
def test_habits_from_elsewhere_get_a_hint(expression: str, hint: str) -> None:
    with pytest.raises(RecipeError) as caught:
        recipe(f"y = {expression}")
    assert hint in [each.hint for each in caught.value.diagnostics]


def test_an_input_that_alone_says_a_size_is_used() -> None:
    """Its elements are not read, as those of the table whose gradient is computed."""
    inputs = {"x": "float[N]", "like": "half[M, N]"}
    fusion = recipe_of(text_of(inputs, "y = x + full([M, 1], 1.0, float)", {"y": "float"})).fusion
    assert [fusion.value(fid).name for fid in fusion.inputs] == ["x", "like"]
    with pytest.raises(RecipeError, match="input 'like' is never used"):
        recipe_of(text_of(inputs, "y = x * 2.0", {"y": "float"}))
    with pytest.raises(RecipeError, match="input 'like' is never used"):
        recipe_of(text_of(inputs | {"x": "float[M, N]"}, "y = x * 2.0", {"y": "float"}))
    with_size = recipe_of(text_of(inputs | {"x": "float[N]"}, "y = x * size(M)", {"y": "float"})).fusion
    assert len(with_size.inputs) == 2
