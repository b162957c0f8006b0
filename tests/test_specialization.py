"""Sizes that a recipe names get kernels of their own."""

from __future__ import annotations

from pathlib import Path

from fusebuild.formula import evaluate, substitute
from fusebuild.pipeline import plan_recipe, read_recipes
from fusebuild.plan import Variant, as_formula
from fusebuild.schedule.specialization import named_sizes, specialized
from fusebuild.target import TARGETS

SOFTMAX = """
fusion: softmax
extents:
  N: {facts}
inputs:
  x: bfloat16[M, N]
body: |
  shifted = exp(x - max(x, dims=[1], keepdim=True))
  y = shifted / sum(shifted, dims=[1], keepdim=True)
outputs:
  y: bfloat16
cases:
  - {{M: 64, N: 4096}}
  - {{M: 9, N: 768}}
"""


def variants(folder: Path, facts: str, target: str = "sm_90") -> tuple[tuple[Variant, ...], dict[str, str]]:
    """The variants of a softmax with these facts about N, and the text of its kernels."""
    path = folder / "softmax.yaml"
    path.write_text(SOFTMAX.format(facts=facts))
    planned = plan_recipe(read_recipes([path])[0], [TARGETS[target]])
    (segment,) = planned.plan.targets[0].segments
    return segment.variants, {name: kernel.text for name, kernel in planned.kernels[target].items()}


class TestVariants:
    def test_a_named_size_comes_first_and_is_guarded_by_that_size(self, tmp_path: Path) -> None:
        own, _ = variants(tmp_path, "{values: [768, 128]}")
        assert [variant.name for variant in own[:2]] == ["N768_registers_vec8_int32", "N128_registers_vec8_int32"]
        guards = [[as_formula(guard) for guard in variant.guard] for variant in own[:2]]
        assert [guard[0] for guard in guards] == [("eq", "N", 768), ("eq", "N", 128)]
        assert all(guard[0] == "aligned" for each in guards for guard in each[1:]), "the number decides all others"

    def test_the_variants_for_any_size_stay_as_they_are(self, tmp_path: Path) -> None:
        plain, _ = variants(tmp_path, "{min: 1}")
        own, _ = variants(tmp_path, "{values: [768]}")
        assert own[1:] == plain

    def test_a_kernel_for_a_size_says_the_number(self, tmp_path: Path) -> None:
        own, texts = variants(tmp_path, "{values: [768]}")
        text = texts[own[0].launches[0].kernel]
        assert "const Index columns = 768;" in text
        assert "int64_t n1" not in text

    def test_threads_follow_the_size_and_not_the_first_case(self, tmp_path: Path) -> None:
        own, texts = variants(tmp_path, "{values: [768]}")
        text = texts[own[0].launches[0].kernel]
        assert "constexpr int kThreadsPerRow = 32;" in text
        assert "constexpr int kChunks = 3;" in text, "as many as the row needs, not a power of two"

    def test_a_size_that_no_vector_divides_keeps_the_variant_that_it_would_get(self, tmp_path: Path) -> None:
        own, _ = variants(tmp_path, "{values: [1001]}")
        assert own[0].name == "N1001_registers_vec1_int32"
        assert [as_formula(guard) for guard in own[0].guard] == [("eq", "N", 1001)]

    def test_a_size_of_one_is_left_to_the_others(self, tmp_path: Path) -> None:
        own, _ = variants(tmp_path, "{values: [1]}")
        assert not any(variant.name.startswith("N1_") for variant in own)


class TestSpecialized:
    def test_every_shape_and_attribute_says_the_number(self) -> None:
        recipe = read_recipes([Path(__file__).parent / "fusions" / "specialized.yaml"])[0]
        fusion = specialized(recipe.fusion, {"M": 3, "N": 48})
        assert all(
            isinstance(extent, int)
            for value in fusion.values.values()
            if value.is_tensor
            for extent in value.tensor.shape
        )
        assert [expr.attribute("shape") for expr in fusion.exprs if expr.op == "full"] == [(3, 48)]

    def test_all_combinations_are_named(self) -> None:
        recipe = read_recipes([Path(__file__).parent / "fusions" / "specialized.yaml"])[0]
        assert [tuple(sizes.values()) for sizes in named_sizes(recipe.fusion)] == [(48, 3), (48, 5), (200, 3), (200, 5)]


class TestSubstitute:
    def test_formulas_fold_as_far_as_they_can(self) -> None:
        formula = ("add", ("mul", 2, "M", "N"), ("ceil_div", "N", 8), ("floor_div", "M", 3))
        assert substitute(formula, {"N": 16}) == ("add", ("mul", 32, "M"), ("floor_div", "M", 3), 2)
        assert substitute(formula, {"N": 16, "M": 7}) == evaluate(formula, {"N": 16, "M": 7})

    def test_what_only_tensors_decide_stays(self) -> None:
        assert substitute(("aligned", 3, 16), {"N": 4}) == ("aligned", 3, 16)
