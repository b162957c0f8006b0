"""Choices of the families: what is given instead, what lies one step beside, what no kernel is made of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fusebuild.errors import KnobError
from fusebuild.ir.fusion import Fusion, Task
from fusebuild.kernels.common.choice import Choice, fewer_blocks
from fusebuild.kernels.common.family import Family
from fusebuild.kernels.common.neighbours import neighbours
from fusebuild.kernels.common.rows import RowChoice
from fusebuild.kernels.common.specialization import hinted_sizes, named_sizes, taken_variant
from fusebuild.kernels.families import FAMILIES
from fusebuild.kernels.persistent.registers import RegisterChoice
from fusebuild.kernels.pointwise.thread_elements import PointwiseHeuristics
from fusebuild.passes import run_passes
from fusebuild.pipeline import read_recipes
from fusebuild.segmentation import segment
from fusebuild.target.table import TARGETS, Target
from support.places import ROOT
from support.random_fusions import random_fusion
from support.sampled import sampled
from support.small_recipes import whole

SM_90, HOST = TARGETS["sm_90"], TARGETS["host"]
BY_NAME: dict[str, Family] = {family.name: family for family in FAMILIES}
TARGET_NAMES = ("sm_80", "sm_90", "host")

SOFTMAX = whole(
    {"x": "bfloat16[M, N]"},
    "e = exp(x - max(x, dims=[1], keepdim=True))\ny = e / sum(e, dims=[1], keepdim=True)",
    {"y": "bfloat16"},
)
NORM_BACKWARD = whole(
    {"g": "bfloat16[M, N]", "x": "bfloat16[M, N]"},
    "d = g - mean(g * x, dims=[1], keepdim=True)\nw = sum(g * x, dims=[0])",
    {"d": "bfloat16", "w": "bfloat16"},
)
POSITIONS = whole(
    {"x": "bfloat16[M, N]"},
    "xf = cast(x, float)\nv = max(xf, dims=[1])\ni = argmax(x, dim=1)\nj = argmin(x, dim=0)\n"
    "l = logsumexp(xf, dims=[1])",
    {"v": "float", "i": "int64", "j": "int64", "l": "float"},
)
SCANNED = whole({"x": "float[M, N]"}, "y = cumsum(x, dim=1)", {"y": "float"})
COLUMN_SUM = whole({"x": "bfloat16[M, N]"}, "y = sum(cast(x, float), dims=[0])", {"y": "float"})
ROW_SUM = whole({"x": "float[M, N]"}, "y = sum(x, dims=[1])", {"y": "float"})
SCALED = whole({"x": "float[M, N]"}, "y = x * 2.0", {"y": "float"})
TURNED = whole({"x": "bfloat16[M, N]", "z": "bfloat16[N, M]"}, "y = x + permute(z, [1, 0])", {"y": "bfloat16"})
EXAMPLES = {
    "softmax": ("inner_persistent", SOFTMAX),
    "norm_backward": ("inner_outer_persistent", NORM_BACKWARD),
    "positions": ("inner_outer_persistent", POSITIONS),
    "scanned": ("scan", SCANNED),
    "column_sum": ("reduction", COLUMN_SUM),
    "row_sum": ("reduction", ROW_SUM),
    "scaled": ("pointwise", SCALED),
    "turned": ("transpose", TURNED),
}


def scheduled(fusion: Fusion, target: Target) -> Iterator[tuple[Fusion, Family, Mapping[str, int]]]:
    """Each segment with its scheduler and the sizes of the first case."""
    for each in segment(fusion, target).segments:
        yield each.fusion, BY_NAME[each.scheduler], hinted_sizes(each.fusion, {})


def check_own_choices(fusion: Fusion, family: Family, target: Target, sizes: Mapping[str, int]) -> None:
    """What a family proposes for the variant that runs is legal when it is given, and then makes the same kernels."""
    own = family.schedule(fusion.whole(), target, sizes)
    if not own or own[0].decision is None:
        assert not any(variant.launches for variant in own)
        return
    decided = taken_variant(own, fusion, sizes).decision
    assert decided is not None
    assert not decided.tuned
    again = family.schedule(fusion.whole(), target, sizes, {decided.way: decided.choice.knobs})
    assert [each.launches for each in again] == [each.launches for each in own]
    tuned = [each.decision.way for each in again if each.decision is not None and each.decision.tuned]
    assert {*tuned} == {decided.way}  # variants for few elements share the kernel of another, and its choice


def check_neighbours(fusion: Fusion, family: Family, target: Target, sizes: Mapping[str, int]) -> None:
    """Neighbours are legal, other kernels than their origin and each other, and one step away."""
    own = family.schedule(fusion.whole(), target, sizes)
    if not own:
        return
    variant = taken_variant(own, fusion, sizes)
    found = neighbours(fusion, family, target, sizes, variant)
    if variant.decision is None:
        assert found == ()
        return
    steps = [step.knobs for step in variant.decision.choice.steps()]
    for index, each in enumerate(found):
        assert each.decision is not None
        assert each.decision.way == variant.decision.way
        assert each.decision.tuned
        assert each.decision.choice.knobs in steps
        assert all(each.launches != other.launches for other in (variant, *found[:index]))
        for launch in each.launches:
            x, y, z = launch.block
            assert 32 <= x * y * z <= 1024
            assert x * y * z % 32 == 0
        x, y, z = each.launches[0].block
        assert each.decision.choice.knobs.get("min_blocks", 1) * x * y * z <= max(
            1536, target.threads_per_multiprocessor
        )


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 10**6), st.sampled_from(TARGET_NAMES))
def test_random_fusions_have_legal_choices_and_legal_unique_neighbours(seed: int, target: str) -> None:
    for fusion, family, sizes in scheduled(random_fusion(seed), TARGETS[target]):
        check_own_choices(fusion, family, TARGETS[target], sizes)
        check_neighbours(fusion, family, TARGETS[target], sizes)


@pytest.mark.parametrize("target", sampled(TARGET_NAMES, 3))
def test_every_recipe_has_legal_choices_and_legal_unique_neighbours(target: str) -> None:
    for recipe in read_recipes([ROOT / "recipes"]):
        for each in segment(run_passes(recipe.fusion), TARGETS[target]).segments:
            for named in ({}, *named_sizes(each.fusion)):
                sizes = hinted_sizes(each.fusion, named)
                check_own_choices(each.fusion, BY_NAME[each.scheduler], TARGETS[target], sizes)
                check_neighbours(each.fusion, BY_NAME[each.scheduler], TARGETS[target], sizes)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_family_has_neighbours_on_a_gpu(name: str) -> None:
    family, task = EXAMPLES[name]
    sizes = {"M": 4096, "N": 4096}
    variant = taken_variant(BY_NAME[family].schedule(task, SM_90, sizes), task.fusion, sizes)
    assert len(neighbours(task.fusion, BY_NAME[family], SM_90, sizes, variant)) >= 2


class TestSteps:
    def test_a_knob_goes_up_then_down_and_a_switch_turns(self) -> None:
        choice = RegisterChoice(threads_per_row=64, rows_per_block=1, min_blocks=2, keeps=True)
        found = [{knob: value for knob, value in step.knobs.items() if value != choice.knobs[knob]}
                 for step in choice.steps()]  # fmt: skip
        assert found == [
            {"threads_per_row": 128, "min_blocks": 1},
            {"threads_per_row": 32, "rows_per_block": 2},
            {"rows_per_block": 2, "min_blocks": 1},
            {"min_blocks": 4},
            {"min_blocks": 1},
            {"keeps": False},
        ]

    def test_no_number_goes_below_one(self) -> None:
        choice = PointwiseHeuristics(threads=1, unroll=1, min_blocks=1)
        assert all(value >= 1 for step in choice.steps() for value in step.knobs.values())

    def test_larger_blocks_are_fewer(self) -> None:
        choice = PointwiseHeuristics(threads=256, unroll=1, min_blocks=4)
        assert choice.stepped("threads", 512) == replace(choice, threads=512, min_blocks=2)
        assert choice.stepped("threads", 128) == replace(choice, threads=128, min_blocks=8)
        assert choice.stepped("unroll", 2) == replace(choice, unroll=2)

    def test_rows_fill_a_block(self) -> None:
        choice = RowChoice(threads_per_row=32, rows_per_block=4, min_blocks=2)
        assert choice.stepped("threads_per_row", 16) == replace(choice, threads_per_row=16, rows_per_block=8)
        assert choice.stepped("threads_per_row", 64) == replace(choice, threads_per_row=64, rows_per_block=1)

    @pytest.mark.parametrize(
        ("blocks", "threads", "others", "left"), [(4, 128, 256, 2), (4, 128, 64, 4), (1, 64, 128, 1)]
    )
    def test_blocks_take_no_more_threads_than_before(self, blocks: int, threads: int, others: int, left: int) -> None:
        assert fewer_blocks(blocks, threads, others) == left


def refusal(name: str, way: str, changed: Mapping[str, int], *, without: str = "", **sizes: int) -> str:
    """What the family says to its own choice with ``changed`` knobs."""
    family, task = EXAMPLES[name]
    known = {"M": 4096, "N": 4096, **sizes}
    own = next(v.decision for v in BY_NAME[family].schedule(task, SM_90, known) if v.decision and v.decision.way == way)
    knobs = {knob: value for knob, value in {**own.choice.knobs, **changed}.items() if knob != without}
    with pytest.raises(KnobError) as caught:
        BY_NAME[family].schedule(task, SM_90, known, {way: knobs})
    return str(caught.value)


class TestWhatNoKernelIsMadeOf:
    @pytest.mark.parametrize(
        ("name", "way", "changed", "message"),
        [
            ("scaled", "vec4_int32", {"threads": 96}, "knob threads: it is 96, no power of two from 32 to 1024"),
            ("scaled", "vec4_int32", {"threads": 2048}, "knob threads: it is 2048, no power of two from 32 to 1024"),
            ("scaled", "vec4_int32", {"unroll": 32}, "knob unroll: it is 32, no power of two from 1 to 16"),
            ("scaled", "vec4_int32", {"unroll": 0}, "knob unroll: it is 0, but at least 1"),
            ("scaled", "vec4_int32", {"min_blocks": 17},
             "knob min_blocks: 17 blocks of 128 threads are more than the 2048 threads of a multiprocessor"),
            ("scaled", "vec4_int32", {"unrol": 2}, "knob unrol: vec4_int32 has no such knob; did you mean 'unroll'?"),
            ("scaled", "vec4_int32", {"unroll": True}, "knob unroll: it is a number"),
            ("softmax", "registers_vec8_int32", {"keeps": 1}, "knob keeps: it is true or false"),
            ("softmax", "registers_vec8_int32", {"threads_per_row": 32},
             "knob threads_per_row: 32 threads hold 2048 elements of a row of 4096"),
            ("softmax", "registers_vec8_int32", {"rows_per_block": 2},
             "knob rows_per_block: it is 2, but rows of 128 threads share no block here"),
            ("softmax", "edged8192_vec8_int32", {"threads_per_row": 16},
             "knob threads_per_row: it is 16, no power of two from 32 to 1024"),
            ("softmax", "short_vec8_int32", {"threads": 96}, "knob threads: it is 96, no power of two from 32 to 1024"),
            ("softmax", "short_vec8_int32", {"held": 16},
             "knob held: it is 16, but a thread has registers for 8 vectors of a row"),
            ("row_sum", "vec4_int32", {"blocks": 17},
             "knob blocks: 17 blocks of 128 threads are more than the 2048 threads of a multiprocessor"),
            ("row_sum", "vec4_int32", {"threads": 2048},
             "knob threads: it is 2048, no power of two from 32 to 1024"),
            ("column_sum", "vec8_int32", {"block_y": 512},
             "knob block_y: it is 512, no power of two from 1 to 256"),
            ("column_sum", "vec8_int32", {"unroll": 32}, "knob unroll: it is 32, no power of two from 1 to 16"),
            ("column_sum", "folded_vec8_int32", {"threads": 32},
             "knob threads: up to 63 columns of folded rows lie side by side"),
            ("turned", "vec8_int32", {"tile": 256},
             "knob tile: tiles of 256 rows take 131072 bytes of shared memory, of 49152"),
            ("turned", "vec8_int32", {"threads": 1024},
             "knob threads: a tile of 64 rows has 512 vectors for 1024 threads"),
            ("scanned", "vec4_int32", {"threads": 48}, "knob threads: it is 48, no power of two from 32 to 1024"),
            ("positions", "shifted32768_vec8_int32", {"threads_per_row": 1024, "cluster": 8, "min_blocks": 1},
             "knob cluster: partial results take 115712 of 49152 bytes"),
            ("norm_backward", "registers4096_vec8_int32", {"at_once": 8},
             "knob at_once: it is 8, but a thread works on 4 rows at most"),
        ],
    )  # fmt: skip
    def test_is_refused_by_its_knob(self, name: str, way: str, changed: dict[str, int], message: str) -> None:
        assert refusal(name, way, changed) == message

    def test_a_knob_that_is_absent(self) -> None:
        assert refusal("scaled", "vec4_int32", {}, without="unroll") == "knob unroll: vec4_int32 needs a value for it"

    def test_a_cluster_that_does_not_hold_the_row(self) -> None:
        message = refusal("softmax", "cluster_vec8_int32", {"cluster": 2}, N=262144)
        assert message == (
            "knob cluster: 2 blocks of 512 threads do not hold a row of 262144 elements, "
            "or their partial results do not fit"
        )

    def test_other_ways_are_not_touched(self) -> None:
        sizes = {"M": 4096, "N": 4096}
        own = BY_NAME["pointwise"].schedule(SCALED, SM_90, sizes)
        given = {"vec4_int32": {"threads": 128, "unroll": 4, "min_blocks": 8}, "no_such_way": {"threads": 3}}
        changed = BY_NAME["pointwise"].schedule(SCALED, SM_90, sizes, given)
        assert [each.name for each in changed] == [each.name for each in own]
        (tuned,) = (each for each, before in zip(changed, own, strict=True) if each != before)
        assert tuned.name == "vec4_int32"
        assert tuned.launches[0].kernel.heuristics == PointwiseHeuristics(threads=128, unroll=4, min_blocks=8)


def test_choices_follow_the_sizes_of_their_bucket() -> None:
    """What a choice leaves open, such as vectors to a thread, is taken from the row at hand."""
    knobs = {"threads_per_row": 256, "rows_per_block": 1, "min_blocks": 2, "keeps": False}
    for columns, chunks in ((4096, 2), (6000, 4)):
        sizes = {"M": 4096, "N": columns}
        found = BY_NAME["inner_persistent"].schedule(SOFTMAX, SM_90, sizes, {"registers_vec8_int32": knobs})
        first = next(variant for variant in found if variant.name == "registers_vec8_int32")
        assert first.launches[0].kernel.heuristics.chunks == chunks  # type: ignore[attr-defined]


def test_a_task_is_not_changed_by_asking() -> None:
    task: Task = SOFTMAX
    before = BY_NAME["inner_persistent"].schedule(task, SM_90, {"M": 64, "N": 4096})
    neighbours(task.fusion, BY_NAME["inner_persistent"], SM_90, {"M": 64, "N": 4096}, before[0])
    assert BY_NAME["inner_persistent"].schedule(task, SM_90, {"M": 64, "N": 4096}) == before


def test_choice_is_the_base_of_all() -> None:
    for family, task in EXAMPLES.values():
        variants = BY_NAME[family].schedule(task, HOST, {"M": 64, "N": 64})
        decisions = [variant.decision for variant in variants if variant.decision is not None]
        assert decisions
        assert all(isinstance(decision.choice, Choice) for decision in decisions)
