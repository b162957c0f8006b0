"""Sizes that a recipe names get kernels of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from fusebuild.artifact.plan import ExtentArg, Variant, as_formula
from fusebuild.kernels.common.specialization import named_sizes
from fusebuild.pipeline import plan_recipe, read_recipes
from fusebuild.target.table import TARGETS
from support.places import ROOT, TESTS

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

BIASED_RMSNORM = """
fusion: biased_rmsnorm
extents:
  N: {values: [128, 1000]}
inputs:
  x: bfloat16[M, N]
  weight: bfloat16[N]
  bias: bfloat16[N]
body: |
  y = x * rsqrt(mean(x * x, dims=[1], keepdim=True) + 1e-6) * weight + bias
outputs:
  y: bfloat16
cases:
  - {M: 65536, N: 4096}
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
        own, _ = variants(tmp_path, "{values: [2048, 1536]}")
        assert [variant.name for variant in own[:2]] == ["N2048_registers_vec8_int32", "N1536_registers_vec8_int32"]
        guards = [[as_formula(guard) for guard in variant.guard] for variant in own[:2]]
        assert [guard[0] for guard in guards] == [("eq", "N", 2048), ("eq", "N", 1536)]

    def test_the_variants_for_any_size_stay_as_they_are(self, tmp_path: Path) -> None:
        plain, _ = variants(tmp_path, "{min: 1}")
        own, _ = variants(tmp_path, "{values: [2048]}")
        assert own[1:] == plain

    def test_threads_follow_the_size_and_not_the_first_case(self, tmp_path: Path) -> None:
        own, texts = variants(tmp_path, "{values: [2048]}")
        assert "constexpr int kThreadsPerRow = 64;" in texts[own[0].launches[0].kernel]
        (any_size,) = (variant for variant in own if variant.name == "registers_vec8_int32")
        assert "constexpr int kThreadsPerRow = 128;" in texts[any_size.launches[0].kernel]

    def test_a_kernel_that_gains_from_its_size_knows_it(self, tmp_path: Path) -> None:
        own, texts = variants(tmp_path, "{values: [2048]}")
        (launch,) = own[0].launches
        assert "constexpr int64_t n1 = 2048;  // N" in texts[launch.kernel]
        assert not [arg for arg in launch.args if isinstance(arg, ExtentArg)]

    def test_a_cluster_is_given_it(self, tmp_path: Path) -> None:
        own, texts = variants(tmp_path, "{values: [100000]}")
        (launch,) = own[0].launches
        assert "constexpr int64_t" not in texts[launch.kernel]
        assert [arg for arg in launch.args if isinstance(arg, ExtentArg)]

    def test_a_size_that_no_vector_divides_keeps_the_variant_that_it_takes(self, tmp_path: Path) -> None:
        own, texts = variants(tmp_path, "{values: [1501]}")
        assert own[0].name == "N1501_edged1_vec8_int32"
        assert "constexpr int kThreadsPerRow = 32;" in texts[own[0].launches[0].kernel]
        assert "constexpr int64_t n1 = 1501;  // N" in texts[own[0].launches[0].kernel]

    def test_a_size_beyond_registers_takes_what_holds_it(self, tmp_path: Path) -> None:
        without_clusters, _ = variants(tmp_path, "{values: [100000]}", "sm_80")
        assert without_clusters == variants(tmp_path, "{min: 1}", "sm_80")[0]
        assert variants(tmp_path, "{values: [100000]}", "sm_90")[0][0].name == "N100000_cluster4_vec8_int32"

    @pytest.mark.parametrize("size", [256, 64])
    def test_a_size_that_is_served_as_well_already_has_no_variant(self, size: int, tmp_path: Path) -> None:
        own, _ = variants(tmp_path, f"{{values: [{size}]}}")
        plain, _ = variants(tmp_path, "{min: 1}")
        assert own == plain

    def test_rows_of_a_warp_load_what_the_last_sweep_reads_ahead_where_registers_last(self, tmp_path: Path) -> None:
        path = tmp_path / "biased_rmsnorm.yaml"
        path.write_text(BIASED_RMSNORM)
        planned = plan_recipe(read_recipes([path])[0], [TARGETS["sm_90"]])
        (segment,) = planned.plan.targets[0].segments
        texts = {own.name: planned.kernels["sm_90"][own.launches[-1].kernel].text for own in segment.variants}
        assert "constexpr int64_t n1 = 128;  // N" in texts["N128_registers_vec8_int32"]
        assert "cached=[0, 1, 2] " in texts["N128_registers_vec8_int32"]
        assert "cached=[0] " in texts["short_vec8_int32"]
        assert "N1000_registers_vec8_int32" not in texts  # too many registers: it is walked as one of any size

    def test_few_rows_go_before_sizes_that_are_named(self) -> None:
        recipe = read_recipes([ROOT / "recipes" / "rmsnorm.yaml"])[0]
        (segment,) = plan_recipe(recipe, [TARGETS["sm_90"]]).plan.targets[0].segments
        names = [variant.name for variant in segment.variants]
        assert names[:2] == ["few_rows_vec8_int32", "N128_registers_vec8_int32"]


def test_all_combinations_are_named() -> None:
    recipe = read_recipes([TESTS / "fusions" / "specialized.yaml"])[0]
    assert [tuple(sizes.values()) for sizes in named_sizes(recipe.fusion)] == [(48, 3), (48, 5), (200, 3), (200, 5)]
