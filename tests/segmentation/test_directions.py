"""Which segments walk backwards, and what their kernels say then."""

from __future__ import annotations

from fusebuild.kernels.pointwise import FAMILY as POINTWISE
from fusebuild.passes import run_passes
from fusebuild.pipeline import plan_recipe
from fusebuild.planning.assembly import plan_alone, plan_target
from fusebuild.recipe.recipe import load_recipe
from fusebuild.segmentation import SegmentedFusion, segment
from fusebuild.segmentation.directions import backward_segments
from fusebuild.target.table import TARGETS
from support.places import RECIPES, TESTS
from support.small_recipes import primitive, recipe_of, text_of

SM_90 = TARGETS["sm_90"]
BOTH_WAYS = TESTS / "fusions" / "both_ways.yaml"
X = {"x": "float[M, N]"}
BACKWARDS = "fb::grid_x() - 1 - fb::block_x()"


def segmented(inputs: dict[str, str], body: str, outputs: dict[str, str]) -> SegmentedFusion:
    return segment(primitive(text_of(inputs, body, outputs)), SM_90)


def directions(inputs: dict[str, str], body: str, outputs: dict[str, str]) -> list[str]:
    """The scheduler of each segment, with a < where it walks backwards."""
    found = segmented(inputs, body, outputs)
    backward = backward_segments(found)
    return [("<" if each.id in backward else "") + each.scheduler for each in found.segments]


class TestWhichSegmentsWalkBackwards:
    def test_no_recipe_has_one(self) -> None:
        found = {path.stem: backward_segments(segment(run_passes(load_recipe(path).fusion), SM_90)) for path in RECIPES}
        assert not any(found.values())

    def test_they_take_turns(self) -> None:
        body = "a = segment_set(x * 2.0)\nb = segment_set(-a)\nc = segment_set(abs(b))\nd = exp(c)"
        assert directions(X, body, {"d": "float"}) == ["pointwise", "<pointwise", "pointwise", "<pointwise"]

    def test_one_that_cannot_turn_leaves_the_end(self) -> None:
        body = "a = segment_set(x * 2.0)\nb = segment_set(-a)\ny = sum(b, dims=[0])\nz = b - y"
        found = directions(X, body, {"a": "float", "z": "float"})
        assert found == ["pointwise", "<pointwise", "reduction", "<pointwise"]

    def test_what_was_only_read_is_found_as_well(self) -> None:
        body = "y = sum(x, dims=[0])\nz = exp(x) - y"
        assert directions(X, body, {"z": "float"}) == ["reduction", "<pointwise"]

    def test_nothing_shared_turns_nothing(self) -> None:
        inputs = {**X, "v": "float[M, K]"}
        body = "y = segment_set(x * 2.0)\nz = segment_set(exp(v))"
        assert directions(inputs, body, {"y": "float", "z": "float"}) == ["pointwise", "pointwise"]

    def test_a_tensor_that_repeats_is_no_reason(self) -> None:
        body = "y = segment_set(b * 2.0)\nz = x + y"
        assert directions({**X, "b": "float[N]"}, body, {"y": "float", "z": "float"}) == ["pointwise", "pointwise"]

    def test_a_small_result_is_no_reason(self) -> None:
        body = "y = sum(x, dims=[1])\nz = segment_set(y) * r"
        assert directions({**X, "r": "float[M]"}, body, {"z": "float"}) == ["reduction", "pointwise"]

    def test_one_segment_further_nothing_is_left(self) -> None:
        inputs = {**X, "v": "float[M, K]"}
        body = "y = segment_set(x * 2.0)\nz = segment_set(exp(v))\nw = segment_set(-y)"
        found = segmented(inputs, body, {"z": "float", "w": "float"})
        assert [found.fusion.value(each.outputs[0]).name for each in found.segments] == ["y", "z", "w"]
        assert backward_segments(found) == set()

    def test_libraries_walk_as_they_like(self) -> None:
        inputs = {"a": "float[M, K]", "b": "float[K, N]"}
        assert directions(inputs, "y = matmul(a, b)\nz = exp(y)", {"z": "float"}) == ["library", "pointwise"]

    def test_other_orders_of_dims_are_other_walks(self) -> None:
        body = "y = segment_set(x * 2.0)\nz = permute(y, [1, 0])\nw = exp(z)"
        assert "<pointwise" not in directions(X, body, {"w": "float"})

    def test_only_pointwise_kernels_turn(self) -> None:
        body = "y = segment_set(x * 2.0)\nz = y - max(y, dims=[1], keepdim=True)"
        assert directions(X, body, {"z": "float"}) == ["pointwise", "inner_persistent"]


class TestKernels:
    def test_blocks_count_from_the_last_one_in_every_variant(self) -> None:
        planned = plan_recipe(load_recipe(BOTH_WAYS), [SM_90])
        turned = backward_segments(planned.segmented["sm_90"])
        assert turned
        for each in planned.plan.targets[0].segments:
            for variant in each.variants:
                text = planned.kernels["sm_90"][variant.launches[0].kernel].text
                assert (BACKWARDS in text) == (each.id in turned)
                assert (text.splitlines()[2].endswith(", backwards")) == (each.id in turned)

    def test_equal_segments_share_kernels_where_they_walk_the_same_way(self) -> None:
        body = "a = segment_set(abs(x))\nb = segment_set(abs(a))\nc = segment_set(abs(b))\nd = segment_set(abs(c))"
        planned = plan_recipe(recipe_of(text_of(X, f"{body}\ny = abs(d)", {"y": "float"})), [SM_90])
        names = [[launch.kernel for variant in each.variants for launch in variant.launches]
                 for each in planned.plan.targets[0].segments]  # fmt: skip
        assert names[1] == names[3] != names[2]

    def test_what_is_chosen_stays_the_same(self) -> None:
        found = segmented(X, "y = segment_set(x * 2.0)\nz = exp(y)", {"z": "float"})
        alone = POINTWISE.schedule(found.segments[1].fusion.whole(), SM_90, {})
        planned = plan_target(found, SM_90, "test.yaml").target.segments[1]
        assert [each.name for each in planned.variants] == [each.name for each in alone]
        assert [each.launches[0].grid for each in planned.variants] == [each.launches[0].grid for each in alone]

    def test_a_kernel_that_is_measured_alone_walks_forwards(self) -> None:
        found = segmented(X, "y = segment_set(x * 2.0)\nz = exp(y)", {"z": "float"})
        (variant, *_) = POINTWISE.schedule(found.segments[1].fusion.whole(), SM_90, {})
        _, kernels = plan_alone(found.segments[1], variant, SM_90, "test.yaml")
        assert not any(BACKWARDS in kernel.text for kernel in kernels.values())
