"""The argument manager: segments run one by one give what the whole does, and hold no more than they must."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, reject, settings

from fusebuild.definition import DataType, FusionDefinition
from fusebuild.errors import ScheduleError, UsageError
from fusebuild.ir.fusion import Fusion
from fusebuild.oracle.bounds import compare
from fusebuild.oracle.reference import evaluate, random_inputs
from fusebuild.oracle.verification import largest_tensor
from fusebuild.passes import run_passes
from fusebuild.pipeline import compile_recipes
from fusebuild.planning.assembly import plan_target
from fusebuild.recipe.recipe import load_recipe
from fusebuild.runtime.loader import load
from fusebuild.segmentation import SegmentedFusion, segment
from fusebuild.target.table import TARGETS
from support.argument_manager import last_reads, run_segments
from support.places import FUSIONS, RECIPES
from support.sampled import sampled
from support.small_recipes import primitive, recipe_of, text_of
from support.strategies import exact_inputs, fusions

torch = pytest.importorskip("torch")

SM_90 = TARGETS["sm_90"]
LARGEST = 100_000
"""Elements of the largest tensor of a small case."""


def segmented_of(fusion: Fusion) -> SegmentedFusion:
    return segment(run_passes(fusion), SM_90)


def cut(text: str) -> SegmentedFusion:
    return segment(primitive(text), SM_90)


def frees_of_plan(segmented: SegmentedFusion) -> list[tuple[int, ...]]:
    return [each.frees for each in plan_target(segmented, SM_90, "test.yaml").target.segments]


@pytest.mark.parametrize("path", sampled([*RECIPES, *FUSIONS], 27), ids=lambda path: path.stem)
def test_segments_of_every_recipe_give_what_the_whole_does(path: Path) -> None:
    fusion = load_recipe(path).fusion
    segmented = segmented_of(fusion)
    cases = [case for case in fusion.cases if largest_tensor(fusion, case) <= LARGEST]
    assert cases
    for seed, case in enumerate(cases):
        inputs = random_inputs(fusion, case, seed=seed)
        wanted = evaluate(fusion, inputs)
        for frees in (None, frees_of_plan(segmented)):
            got = run_segments(segmented, inputs, frees=frees).outputs
            for output, result, want in zip(fusion.outputs, got, wanted, strict=True):
                assert compare(result, want, fusion.value(output.fid).dtype).ok


@given(fusion=fusions())
@settings(max_examples=200, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
def test_segments_of_any_fusion_give_the_same_numbers_as_the_whole(fusion: Fusion) -> None:
    try:
        segmented = segmented_of(fusion)
    except ScheduleError:
        reject()  # no scheduler takes some expr even alone
    inputs = exact_inputs(fusion)
    wanted = evaluate(segmented.fusion, inputs)
    done = run_segments(segmented, inputs)
    assert frees_of_plan(segmented) == list(last_reads(segmented))
    assert done.most_live <= liveness_bound(segmented)
    for got, want in zip(done.outputs, wanted, strict=True):
        assert torch.equal(torch.isnan(got), torch.isnan(want))
        assert torch.equal(got.nan_to_num() if got.is_floating_point() else got,
                           want.nan_to_num() if want.is_floating_point() else want)  # fmt: skip


CHAIN = text_of(
    {"x": "float[M, N]"},
    "\n".join(
        ["a0 = segment_set(exp(x))", *(f"a{i} = segment_set(a{i - 1} * {i}.5)" for i in range(1, 5)), "y = a4 + x"]
    ),
    {"y": "float"},
    name="chain",
    cases="M: 4, N: 8",
)
"""Six segments, each reading what the one before wrote."""
SKIPS = text_of(
    {"x": "float[M, N]"},
    "a = segment_set(exp(x))\nb = segment_set(a * 2.0)\nc = segment_set(b * 3.0)\ny = a + c",
    {"y": "float", "b": "float"},
)
"""``a`` lives across two segments, and ``b`` is an output as well."""


def liveness_bound(segmented: SegmentedFusion) -> int:
    """The most intermediates that some segment writes, reads, or runs between the writer and a reader of."""
    lives = [
        (
            next(each.id for each in segmented.segments if fid in each.outputs),
            max(each.id for each in segmented.segments if fid in each.inputs),
        )
        for fid in segmented.boundaries
        if fid not in segmented.fusion.output_fids
    ]
    return max((sum(first <= each.id <= last for first, last in lives) for each in segmented.segments), default=0)


class TestLives:
    @pytest.mark.parametrize(("text", "segments", "bound"), [(CHAIN, 6, 2), (SKIPS, 4, 2)], ids=["chain", "skips"])
    def test_no_more_is_held_than_the_lives_overlap(self, text: str, segments: int, bound: int) -> None:
        segmented = cut(text)
        assert len(segmented.segments) == segments
        assert liveness_bound(segmented) == bound
        inputs = random_inputs(segmented.fusion, {"M": 4, "N": 8}, seed=0)
        done = run_segments(segmented, inputs)
        assert done.most_live == bound
        assert done.most_live_bytes == bound * 4 * 8 * 4
        assert torch.equal(done.outputs[0], evaluate(segmented.fusion, inputs)[0])

    def test_the_workspace_of_the_plan_holds_no_more_either(self) -> None:
        slots = plan_target(cut(CHAIN), SM_90, "test.yaml").target.workspace
        assert len(slots) == 5
        assert max(sum(slot.first <= each <= slot.last for slot in slots) for each in range(6)) == 2

    def test_the_executor_runs_the_chain_in_that_workspace(self, compilers: None, tmp_path: Path) -> None:
        path = tmp_path / "chain.yaml"
        path.write_text(CHAIN)
        compile_recipes([path], [TARGETS["host"]], tmp_path, jobs=2)
        plan = load(tmp_path / "chain.fuse", target="host")
        inputs = random_inputs(recipe_of(CHAIN).fusion, {"M": 4, "N": 8}, seed=1)
        (want,) = run_segments(cut(CHAIN), inputs).outputs
        assert torch.allclose(plan(*inputs), want)

    def test_what_is_let_go_too_early_is_missed(self) -> None:
        segmented = cut(CHAIN)
        early = [segmented.segments[0].outputs, *last_reads(segmented)[1:]]
        with pytest.raises(KeyError, match=str(segmented.segments[0].outputs[0])):
            run_segments(segmented, random_inputs(segmented.fusion, {"M": 1, "N": 1}, seed=0), frees=early)

    def test_what_is_never_let_go_is_counted(self) -> None:
        segmented = cut(CHAIN)
        inputs = random_inputs(segmented.fusion, {"M": 1, "N": 1}, seed=0)
        assert run_segments(segmented, inputs, frees=[()] * 6).most_live == 5


class TestArguments:
    def test_an_overwritten_input_is_gone_for_later_segments(self) -> None:
        text = text_of({"x": "float[M, N]"}, "y = x * 2.0\na = x @ permute(x, [1, 0])",
                       {"y": "{dtype: float, alias: x}", "a": "float"})  # fmt: skip
        segmented = cut(text)
        inputs = random_inputs(segmented.fusion, {"M": 3, "N": 4}, seed=0)
        before = inputs[0].clone()
        done = run_segments(segmented, inputs)
        assert torch.equal(inputs[0], before)
        assert torch.equal(done.outputs[0], before * 2)
        wrong = SegmentedFusion(fusion=segmented.fusion, segments=tuple(reversed(segmented.segments)))
        with pytest.raises(KeyError, match="0"):
            run_segments(wrong, inputs)

    def test_sizes_that_a_segment_does_not_read_are_handed_over(self) -> None:
        text = text_of(
            {"x": "float[M, N]", "w": "float[K]"},
            "s = segment_set(sum(w, dims=[0]))\na = sum(x, dims=[1]) * cast(size(K), float)\ny = segment_set(a) * s",
            {"y": "float"},
        )
        segmented = cut(text)
        inputs = random_inputs(segmented.fusion, {"M": 3, "N": 4, "K": 5}, seed=0)
        given: list[tuple[str, dict[str, int]]] = []

        def run(fusion: Fusion, arguments: Sequence[Any], *, given_to: list[Any] = given, **sizes: Any) -> Any:
            given_to.append((fusion.name, sizes["given"]))
            return evaluate(fusion, arguments, **sizes)

        (got,) = run_segments(segmented, inputs, run=run).outputs
        assert torch.allclose(got, evaluate(segmented.fusion, inputs)[0])
        assert given == [(each.fusion.name, {"M": 3, "N": 4, "K": 5}) for each in segmented.segments]

    def test_inputs_that_do_not_fit_are_refused(self) -> None:
        with pytest.raises(UsageError, match="fusion chain takes 1 input, not 0"):
            run_segments(cut(CHAIN), [])


class TestDefinition:
    """A definition's segments, run by hand on the CPU, give what the definition gives."""

    def test_segments_run_by_hand(self, compilers: None, empty_store: Path) -> None:
        with FusionDefinition() as fd:
            scale = fd.define_scalar(None, DataType.Double)
            x = fd.define_tensor([-1, -1, -1], True)
            column = fd.ops.sum(x, dims=[2], keepdim=True)
            row = fd.ops.sum(fd.ops.mul(x, x), dims=[0])
            fd.add_output(fd.ops.add(x * scale, column))
            fd.add_output(row)
        inputs = [2.5, torch.randn(6, 3, 40)]
        assert fd.segment(inputs) > 1
        known: dict[int, Any] = dict(zip(fd.inputs(), inputs, strict=True))
        for each in fd.segments:
            fids = fd.segment_index_space_maps[each]
            results = each.execute([known[fids[fid]] for fid in each.inputs()])
            known |= {fids[fid]: result for fid, result in zip(each.outputs(), results, strict=True)}
        for fid, want in zip(fd.outputs(), fd.execute(inputs), strict=True):
            assert torch.equal(known[fid], want)
