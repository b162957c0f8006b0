"""Which reductions combine their elements a batch at a time, and which one by one."""

from __future__ import annotations

import re

import pytest

from fusebuild.ir.dtype import DType
from fusebuild.ops.built_in_lambdas import BUILT_IN, recognized
from fusebuild.ops.lambdas import lambda_form
from fusebuild.pipeline import plan_recipe
from fusebuild.recipe.recipe import load_recipe
from fusebuild.target.table import TARGETS
from support.places import ROOT, TESTS
from support.small_recipes import recipe_of, text_of

FLAT = {"x": "bfloat16[M, N]"}
PLACED = {"x": "bfloat16[M, N]", "at": "int64[M, 1]"}


def first_kernel(text: str, name: str = "test.yaml", variant: int = 0) -> str:
    """The first kernel of the widest variant that the recipe ``text`` has on sm_90, or of another ``variant``."""
    drafts = plan_recipe(recipe_of(text, name), [TARGETS["sm_90"]])
    launch = drafts.plan.targets[0].segments[0].variants[variant].launches[0]
    return drafts.kernels["sm_90"][launch.kernel].text


def kernel_of(inputs: dict[str, str], body: str, outputs: dict[str, str], sizes: str = "M: 16384, N: 8192") -> str:
    return first_kernel(text_of(inputs, body, outputs, cases=sizes))


class TestRecognized:
    @pytest.mark.parametrize("dtype", [DType.FLOAT, DType.DOUBLE, DType.INT32, DType.INT64, DType.BOOL])
    @pytest.mark.parametrize("op", ["argmax", "argmin"])
    def test_lambdas_of_ops_are_their_own(self, op: str, dtype: DType) -> None:
        found = recognized(BUILT_IN[op](op, dtype).body)
        assert found is not None
        assert found[0] == op
        assert found[1].identity == BUILT_IN[op](op, dtype).identity

    @pytest.mark.parametrize("op", ["any", "cumsum"])
    def test_others_are_not(self, op: str) -> None:
        assert recognized(BUILT_IN[op](op, DType.BOOL if op == "any" else DType.FLOAT).body) is None

    @pytest.mark.parametrize(("name", "lambda_", "op"), [("argmax", "larger", "argmax"),
                                                         ("logsumexp", "shifted_sum", "logsumexp")])  # fmt: skip
    def test_an_authors_lambda_that_says_the_same_is_one(self, name: str, lambda_: str, op: str) -> None:
        found = recognized(load_recipe(ROOT / "recipes" / f"{name}.yaml").fusion.lambdas[lambda_])
        assert found is not None
        assert found[0] == op

    def test_the_order_of_operands_counts_where_it_matters(self) -> None:
        fusion = load_recipe(TESTS / "fusions" / "batches_inner.yaml").fusion
        found = recognized(fusion.lambdas["earlier"])
        assert found is not None
        assert found[0] == "argmin"
        forms = {lambda_form(BUILT_IN[op](op, DType.FLOAT).body) for op in ("argmax", "argmin", "logsumexp")}
        assert len(forms) == 3

    def test_another_body_is_another_lambda(self) -> None:
        recipe = load_recipe(TESTS / "fusions" / "lambdas_persistent.yaml")
        assert recognized(recipe.fusion.lambdas["shifted_sum"]) is None  # without its care for infinities
        assert recognized(recipe.fusion.lambdas["welford"]) is None


class TestExponentials:
    def test_rows_take_a_vector_at_a_time(self) -> None:
        text = kernel_of(FLAT, "y = logsumexp(x, dims=[1])", {"y": "float"})
        assert "    fb::Vec<float, kVec> e4;\n" in text
        assert "        e4[k] = fb::cast<float>(t0);\n      }\n      fb::add_exponentials(a4, e4);\n" in text
        assert "combine(a4, {" not in text

    def test_doubles_beside_narrow_inputs_are_taken_singly(self) -> None:
        body = "y = logsumexp(d, dims=[1])\nz = argmax(d, dim=1)\nw = max(x, dims=[1])"
        outputs = {"y": "double", "z": "int64", "w": "bfloat16"}
        text = kernel_of({"d": "double[M, N]", **FLAT}, body, outputs)
        assert "kVec = 8;" in text
        assert re.search(r"      fb::add_exponentials\(a\d+, fb::Vec<double, 1>\{t0\}\);\n", text)
        assert re.search(r"      w\d+\.add\(fb::Vec<double, 1>\{t0\}, col \+ k\);\n", text)

    def test_columns_take_the_rows_in_flight(self) -> None:
        text = kernel_of(FLAT, "y = logsumexp(x, dims=[0])", {"y": "float"})
        assert "e4 = fb::splat<kVec>(fb::splat<kUnroll>(float(-INFINITY)));\n" in text
        assert "      fb::add_exponentials(a4[k], e4[k]);\n" in text

    def test_columns_take_a_row_where_registers_do_not_hold_several(self) -> None:
        body = "\n".join(f"y{part} = logsumexp(x * {part}.0, dims=[0])" for part in (1, 2, 3))
        text = kernel_of({"x": "double[M, N]"}, body, dict.fromkeys(("y1", "y2", "y3"), "double"))
        assert len(re.findall(r"fb::add_exponentials\(a\d+\[k\], fb::Vec<double, 1>\{t\d+\}\);", text)) == 3
        assert "kUnroll>, kVec>" not in text

    @pytest.mark.parametrize("sizes", ["M: 16384, N: 4096", "M: 512, N: 65536", "M: 512, N: 131072"])
    def test_rows_on_chip_do_too(self, sizes: str) -> None:
        body = "top, total = online_softmax_statistics(x, dims=[1], keepdim=True)\ny = exp(x - top) / total"
        text = kernel_of(FLAT, body, {"y": "bfloat16"}, sizes)
        assert "inner_persistent_" in text
        assert re.search(r"    fb::add_exponentials\(a(\d+), e\1\);\n", text)

    def test_partial_sums_are_merged_one_by_one(self) -> None:
        lambdas = (ROOT / "recipes" / "logsumexp.yaml").read_text().replace("reduce([x, 1.0]", "reduce([x, x * x]")
        text = first_kernel(lambdas, "logsumexp.yaml")
        assert "add_exponentials" not in text
        assert "fb::ExpSum<float>::combine(a4, {" in text

    def test_so_are_those_that_begin_elsewhere(self) -> None:
        lambdas = (ROOT / "recipes" / "logsumexp.yaml").read_text().replace("value: -.inf", "value: -1.0e30")
        assert "add_exponentials" not in first_kernel(lambdas, "logsumexp.yaml")


class TestLongSums:
    def test_a_thread_adds_a_vector_at_a_time_and_keeps_what_it_loses(self) -> None:
        text = kernel_of(FLAT, "xf = cast(x, float)\ny = sum(xf * xf, dims=[0, 1])", {"y": "float"})
        assert "  fb::LongSum w3;\n" in text
        assert "        e3[k] = t2;\n      }\n      w3.add(e3);\n" in text
        assert "  float a3 = w3.total();\n  fb::reduce_row_of<" in text

    def test_elements_beside_a_row_are_zero(self) -> None:
        text = first_kernel(text_of(FLAT, "y = sum(x, dims=[1])", {"y": "float"}, cases="M: 8, N: 1001"), variant=2)
        assert "variant shifted_vec8_int32" in text
        assert "      fb::Vec<float, kVec> e1 = fb::splat<kVec>(0.0f);\n" in text
        assert "        if (fb::is_inside(inside, k)) e1[k] = fb::cast<float>(t0);\n" in text

    def test_without_vectors_it_adds_elements(self) -> None:
        text = first_kernel(text_of(FLAT, "y = sum(x, dims=[1])", {"y": "float"}, cases="M: 8, N: 1001"), variant=-1)
        assert "kVec = 1;" in text
        assert "      w1.add(fb::Vec<float, 1>{fb::cast<float>(t0)});\n" in text

    @pytest.mark.parametrize(
        ("body", "dtype"),
        [
            ("y = sum(cast(x, double), dims=[1])", "double"),
            ("y = sum(cast(x, int64), dims=[1])", "int64"),
            ("y = max(x, dims=[1])", "bfloat16"),
            ("y = prod(x, dims=[1])", "float"),
            ("y = sum(x, dims=[0])", "float"),
            ("y = x / sum(x, dims=[1], keepdim=True)", "float"),
        ],
    )
    def test_other_reductions_and_short_sums_are_plain(self, body: str, dtype: str) -> None:
        assert "LongSum" not in kernel_of(FLAT, body, {"y": dtype})


class TestFirstOfTheBest:
    def test_rows_keep_the_vector_that_has_it(self) -> None:
        text = kernel_of(FLAT, "y = argmin(x, dim=1)", {"y": "int64"})
        assert re.search(
            r"  fb::FirstBest<fb::Min, float, kVec, Index> (w\d+);\n(.*\n)*      \1\.add\(e\d+, col\);\n", text
        )
        assert re.search(r"  auto (a\d+) = w\d+\.state<.*\n  fb::reduce_row_of<[^;]*\(\1\)\);\n", text)
        assert "iota" not in text
        assert "int64_t(col" not in text

    def test_columns_keep_the_element(self) -> None:
        text = kernel_of(FLAT, "y = argmax(x, dim=0)", {"y": "int64"})
        assert re.search(r"  fb::FirstBest<fb::Max, float, 1, Index> (w\d+)\[kVec\];\n", text)
        assert re.search(r"w\d+\[k\]\.add\(fb::Vec<float, 1>\{fb::cast<float>\(t0\)\}, r\);\n", text)

    def test_so_do_rows_in_registers(self) -> None:
        body = "at = argmax(x, dim=1, keepdim=True)\ny = where(iota(N) == at, x, 0.0)"
        text = kernel_of(FLAT, body, {"y": "bfloat16"}, "M: 16384, N: 4096")
        assert re.search(r"w\d+\.add\(fb::Vec<float, 1>\{fb::cast<float>\(t0\)\}, col \+ k\);\n", text)

    @pytest.mark.parametrize("index", ["iota(N, 1)", "iota(N, 0, 2)", "cast(iota(N, dtype=int32), int64)"])
    def test_other_indices_are_compared_one_by_one(self, index: str) -> None:
        text = (ROOT / "recipes" / "argmax.yaml").read_text().replace("iota(N)", index)
        text = first_kernel(text, "argmax.yaml")
        assert "FirstBest" not in text
        assert "larger::combine(" in text


class TestOneElementOfARow:
    def test_a_sum_of_one_element_reads_it_alone(self) -> None:
        text = kernel_of(PLACED, "y = sum(where(iota(N) == at, cast(x, float), 0.0), dims=[1])\nz = max(x, dims=[1])",
                         {"y": "float", "z": "bfloat16"})  # fmt: skip
        loop = text.split("for (Index first")[1].split("reduce_row")[0]
        (total,) = {*re.findall(r"const bool has(\d+) = split == 0 && lane == 0 && t1 >= 0 && t1 < columns;\n", text)}
        assert f"q{total}_0 = has{total} ? r0[at{total}] : fb::cast<__nv_bfloat16>(0.0f);\n" in text
        assert f"  if (has{total}) {{\n" in loop.split("  }\n", 1)[1]
        assert "where" not in loop

    @pytest.mark.parametrize("width", ["N", "8191"])
    def test_where_nothing_else_is_asked_of_a_row_there_is_no_loop(self, width: str) -> None:
        inputs = {"x": f"bfloat16[M, {width}]", "at": "int64[M, 1]", "one": "float[N]"}
        body = f"y = sum(where(iota({width}) == at, x, 0.0), dims=[1])\nz = one + 1.0"
        text = kernel_of(inputs, body, {"y": "float", "z": "float"})
        assert re.search(r"const bool has\d+ = (split == 0 && )?lane == 0", text)
        assert "for (Index first" not in text

    def test_of_a_shared_row_the_first_block_reads_it(self) -> None:
        text = kernel_of(PLACED, "y = sum(where(at == iota(N), x, 0.0), dims=[1])", {"y": "float"}, "M: 2, N: 131072")
        assert re.search(r"const bool has\d+ = split == 0 && lane == 0 && t1 >= 0 && t1 < columns;\n", text)

    @pytest.mark.parametrize("chosen", ["where(iota(N) == at, x, 1.0)", "where(iota(N) != at, x, 0.0)",
                                        "where(iota(N) == iota(N) * 2, x, 0.0)", "where(iota(N, 1) == at, x, 0.0)",
                                        "where(iota(N) == at, 1.0, x)"])  # fmt: skip
    def test_other_sums_take_every_element(self, chosen: str) -> None:
        text = kernel_of(PLACED, f"y = sum(({chosen}) + 0.0 * at, dims=[1])", {"y": "float"})
        assert not re.search(r"\bhas\d+", text)
        text = kernel_of(PLACED, f"y = sum({chosen}, dims=[1])\nz = max(at + 0 * x, dims=[1])",
                         {"y": "float", "z": "float"})  # fmt: skip
        assert not re.search(r"\bhas\d+", text)

    def test_rows_of_two_dims_take_every_element(self) -> None:
        text = kernel_of({"x": "float[M, 3, N]", "at": "int64[M, 1, 1]"},
                         "y = sum(where(iota(N) == at, x, 0.0), dims=[1, 2])", {"y": "float"})  # fmt: skip
        assert not re.search(r"\bhas\d+", text)
        assert "fb::place_in<kVec>(t1, i" in text

    def test_whether_elements_are_at_a_position_is_found_once_a_vector(self) -> None:
        body = "top = max(x, dims=[1], keepdim=True)\ny = (x - top) * cast(iota(N) == at, float)"
        text = kernel_of(PLACED, body, {"y": "float"})
        assert re.search(r"    const int (h\d+) = fb::place_in<kVec>\(t1, col\);\n(.*\n)+?.* = \1 == k;", text)
        assert "int64_t(col" not in text
