"""Segmentation: which exprs run together, in which order, what crosses between them, and how long it lives."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fusebuild.artifact.plan import TargetPlan, as_formula
from fusebuild.errors import ScheduleError
from fusebuild.ir.formula import MULTIPROCESSORS, evaluate
from fusebuild.ir.fusion import Fusion, Task
from fusebuild.ir.types import tensor_type
from fusebuild.ir.verify import verify
from fusebuild.kernels import alias, families
from fusebuild.passes import run_passes
from fusebuild.planning.assembly import plan_target
from fusebuild.recipe.recipe import load_recipe
from fusebuild.segmentation import SegmentedFusion, extract, segment
from fusebuild.segmentation.cost import CostModel
from fusebuild.segmentation.segmented import dense_outputs
from fusebuild.target.table import TARGETS
from support.covers import total_hbm_bytes, with_scalars
from support.places import RECIPES, ROOT
from support.sampled import sampled
from support.small_recipes import PAIR, SUM_THEN_ADD, primitive, text_of

SM_90 = TARGETS["sm_90"]
EXPLICIT = text_of(
    {"t0": "float[2, 32]", "t1": "float[2, 128]"},
    "t2 = sum(t0, dims=[1])\nt3 = broadcast(t2, is_broadcast_dim=[False, True])\nt4 = t1 + t3",
    {"t4": "float"},
)


def cut(text: str) -> SegmentedFusion:
    return segment(primitive(text), SM_90)


def planned(text: str) -> TargetPlan:
    return plan_target(cut(text), SM_90, "test.yaml").target


def schedulers(segmented: SegmentedFusion) -> list[str]:
    return [each.scheduler for each in segmented.segments]


def writes(segmented: SegmentedFusion) -> list[list[str]]:
    """The names of what each segment writes."""
    return [[output.name for output in each.fusion.outputs] for each in segmented.segments]


@pytest.mark.parametrize("target", ["sm_90", "host"])
@pytest.mark.parametrize("rank", [7, 8, 64, 200])
@pytest.mark.parametrize(
    "body", ["x * 2.0", "x / sum(x, dims=[LAST], keepdim=True)", "permute(x, permutation=TURNED) + 1.0"]
)
def test_dims_whose_sizes_nobody_named_may_be_many(body: str, rank: int, target: str) -> None:
    """Together they would be of more bytes than there are, and than a float can count."""
    dims = ", ".join(f"D{dim}" for dim in range(rank))
    own = body.replace("LAST", str(rank - 1)).replace("TURNED", str([*reversed(range(rank))]))
    fusion = primitive(text_of({"x": f"'float[{dims}]'"}, f"y = {own}", {"y": "float"}))
    assert len(segment(fusion, TARGETS[target]).segments) == 1


def test_a_size_that_is_negative_where_nobody_named_it_costs_nothing() -> None:
    text = text_of({"x": "float[M, N]"}, "y = slice(x, [0, 100000], [M, N]) * 2.0", {"y": "float"})
    assert CostModel(primitive(text), SM_90).total_bytes(primitive(text).output_fids) == 0


class TestSeed000:
    """The smallest fusion that must be cut: ``[2, 32]`` is summed and added to ``[2, 128]``."""

    def test_with_keepdim(self) -> None:
        segmented = cut(SUM_THEN_ADD)
        assert [each.fid_map for each in segmented.segments] == [{0: 0, 2: 2}, {0: 1, 1: 2, 2: 3}]
        assert [(each.inputs, each.outputs) for each in segmented.segments] == [((0,), (2,)), ((1, 2), (3,))]

    def test_with_an_explicit_broadcast(self) -> None:
        assert [each.fid_map for each in cut(EXPLICIT).segments] == [{0: 0, 2: 3}, {0: 1, 1: 3, 2: 4}]

    @pytest.mark.parametrize(("text", "crossing"), [(SUM_THEN_ADD, 2), (EXPLICIT, 3)], ids=["keepdim", "explicit"])
    def test_the_broadcast_result_crosses(self, text: str, crossing: int) -> None:
        segmented = cut(text)
        assert segmented.boundaries == (crossing,)
        assert schedulers(segmented) == ["reduction", "pointwise"]
        assert [each.hbm_bytes for each in segmented.segments] == [2 * 32 * 4 + 8, 2 * 128 * 4 * 2 + 8]
        assert total_hbm_bytes(segmented) == 264 + 2056

    def test_says_why(self) -> None:
        first, second = cut(EXPLICIT).segments
        assert first.why == ()
        assert second.why == (
            "cut from segment 0: pointwise: sum is a reduction (test.yaml:6); "
            "reduction: the task iterates over dims that the reduction t2 does not have (test.yaml:6); "
            "inner_persistent: the task iterates over dims that the reduction t2 does not have (test.yaml:6); "
            "outer_persistent: the task iterates over dims that the reduction t2 does not have (test.yaml:6); "
            "inner_outer_persistent: no reduction runs over outer dims alone (test.yaml:6)",
        )


class TestCuts:
    def test_one_segment_where_one_scheduler_takes_all(self) -> None:
        segmented = cut(text_of({"x": "float[M, N]"}, "y = exp(x) * 2.0 + x", {"y": "float"}))
        assert (schedulers(segmented), segmented.boundaries) == (["pointwise"], ())

    def test_segment_set_forces_a_cut(self) -> None:
        segmented = cut(PAIR)
        assert schedulers(segmented) == ["reduction", "pointwise"]
        assert segmented.segments[1].why == ("cut from segment 0: segment_set",)

    def test_other_readers_of_the_same_value_stay(self) -> None:
        body = "a = exp(x)\nb = segment_set(a)\ny = b * 2.0\nz = a + 1.0"
        segmented = cut(text_of({"x": "float[M, N]"}, body, {"y": "float", "z": "float"}))
        assert [[expr.op for expr in each.fusion.exprs] for each in segmented.segments] == [
            ["exp", "segment_set", "add"],
            ["mul"],
        ]

    def test_a_view_of_an_intermediate_is_a_segment_without_a_kernel(self) -> None:
        body = "a = sum(x, dims=[1])\nv = segment_set(broadcast(a, is_broadcast_dim=[False, True]))\n"
        segmented = cut(text_of({"x": "float[M, N]"}, body + "y = segment_set(v) + x", {"y": "float"}))
        assert schedulers(segmented) == ["reduction", "alias", "pointwise"]

    def test_nothing_to_compute_is_a_copy(self) -> None:
        assert schedulers(cut(text_of({"x": "float[M]"}, "y = x", {"y": "float"}))) == ["pointwise"]

    def test_no_scheduler_takes_an_expr(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(families, "FAMILIES", (alias.FAMILY,))
        with pytest.raises(ScheduleError) as caught:
            cut(text_of({"x": "float[M]"}, "a = exp(x)\ny = a + 1.0", {"y": "float"}))
        assert str(caught.value) == (
            "test.yaml:5:7: error: no scheduler takes exp (alias: exp computes)\n"
            "    a = exp(x)\n"
            "        ^~~~~~\n"
            "test.yaml:6:7: error: no scheduler takes add (alias: add computes)\n"
            "    y = a + 1.0\n"
            "        ^~~~~~~"
        )


class TestOrder:
    def test_producers_run_first_and_earlier_exprs_first_among_the_ready(self) -> None:
        body = "a = sum(x, dims=[0])\nb = sum(y, dims=[0, 1])\nc = sum(x, dims=[2])"
        segmented = cut(text_of({"x": "float[M, N, K]", "y": "float[K, N]"}, body, dict.fromkeys("abc", "float")))
        assert writes(segmented) == [["a"], ["b"], ["c"]]

    def test_whoever_reads_an_input_runs_before_it_is_overwritten(self) -> None:
        body = "y = x * 2.0\na = sum(slice(x, [0, 0], [M // 2, N]))"
        segmented = cut(text_of({"x": "float[M, N]"}, body, {"y": "{dtype: float, alias: x}", "a": "float"}))
        assert writes(segmented) == [["a"], ["y"]]

    def test_no_order_is_needed_where_nothing_is_overwritten(self) -> None:
        body = "y = x * 2.0\na = sum(slice(x, [0, 0], [M // 2, N]))"
        segmented = cut(text_of({"x": "float[M, N]"}, body, {"y": "float", "a": "float"}))
        assert writes(segmented) == [["y"], ["a"]]


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
class TestEveryRecipe:
    def test_segments_cover_all_tensor_exprs_and_read_what_is_there(self, path: Path) -> None:
        segmented = self._cut(path)
        fusion = segmented.fusion
        tensors = [i for i, expr in enumerate(fusion.exprs) if fusion.value(expr.outputs[0]).is_tensor]
        covered = [i for each in segmented.segments for i in each.task.exprs if i in tensors]
        assert sorted({*covered}) == tensors
        written = [fid for each in segmented.segments for fid in each.outputs]
        assert len(written) == len({*written})
        ready = {*fusion.inputs}
        for each in segmented.segments:
            assert {*each.inputs} <= ready
            ready |= {*each.outputs}
        assert {*fusion.output_fids} <= ready

    def test_each_segment_is_a_sound_fusion_of_its_own(self, path: Path) -> None:
        segmented = self._cut(path)
        for position, each in enumerate(segmented.segments):
            assert verify(each.fusion).name == f"{segmented.fusion.name}_{position}"
            assert each.id == position
            for own, original in each.fid_map.items():
                assert each.fusion.value(own).type == segmented.fusion.value(original).type

    @staticmethod
    def _cut(path: Path) -> SegmentedFusion:
        return segment(run_passes(load_recipe(path).fusion), SM_90)


class TestScalars:
    TEXT = text_of(
        {"x": "float[M, N, K]"},
        "twice = eps * 2.0\na = sum(x, dims=[0])\nb = sum(x, dims=[2])\ny = b * twice\nz = a * twice",
        {"y": "float", "z": "float"},
        scalars={"eps": "{dtype: double}"},
    )

    def test_are_computed_again_in_every_segment(self) -> None:
        segmented = cut(self.TEXT)
        assert [sum(not each.fusion.value(e.outputs[0]).is_tensor for e in each.fusion.exprs)
                for each in segmented.segments] == [1, 1]  # fmt: skip
        assert segmented.boundaries == ()
        assert all(1 in each.inputs for each in segmented.segments)

    def test_with_scalars_takes_whole_chains(self) -> None:
        fusion = primitive(self.TEXT)
        last = max(i for i, expr in enumerate(fusion.exprs) if fusion.value(expr.outputs[0]).is_tensor)
        extended = with_scalars(Task(fusion=fusion, exprs=(last,)))
        assert last in extended.exprs
        assert len(extended.exprs) == 2


class TestDenseOutputs:
    def test_what_a_user_gets_has_no_stride_0_dims(self) -> None:
        text = text_of({"x": "float[M, N]", "v": "float[N]"}, "y = broadcast_in_dim(v, shape=[M, N], "
                       "broadcast_dims=[1]) * 2.0\nz = x + 1.0", {"y": "float", "z": "float"})  # fmt: skip
        fusion = primitive(text)
        y = fusion.output_fids[0]
        assert fusion.value(y).tensor.strides == (0, 1)
        assert dense_outputs(fusion).value(y).tensor == tensor_type(fusion.value(y).dtype, ("M", "N"))


class TestExtract:
    def test_inputs_come_first_then_values_in_order(self) -> None:
        fusion = primitive(SUM_THEN_ADD)
        extracted, fid_map = extract(Task(fusion=fusion, exprs=(2,)), "last")
        assert (extracted.inputs, extracted.output_fids, fid_map) == ((0, 1), (2,), {0: 1, 1: 2, 2: 3})

    def test_an_overwritten_input_is_an_input_though_nothing_here_reads_it(self) -> None:
        inputs = {"w": "float[M]", "x": "float[M]"}
        body = "z = sum(x, dims=[0])\ny = w * 2.0"
        fusion = primitive(text_of(inputs, body, {"y": "{dtype: float, alias: x}", "z": "float"}))
        writer = next(i for i, expr in enumerate(fusion.exprs) if expr.op == "mul")
        extracted, fid_map = extract(Task(fusion=fusion, exprs=(writer,)), "writer")
        assert [fid_map[fid] for fid in extracted.inputs] == [0, 1]  # type: ignore[index]
        assert extracted.outputs[0].alias == 1

    def test_symbols_of_the_whole_fusion_are_given(self) -> None:
        text = text_of({"x": "float[M]", "w": "float[K]"}, "y = x * cast(size(K), float)\nz = -w",
                       {"y": "float", "z": "float"})  # fmt: skip
        fusion = primitive(text)
        task = with_scalars(Task(fusion=fusion, exprs=(next(i for i, e in enumerate(fusion.exprs) if e.op == "mul"),)))
        extracted, _ = extract(task, "first")
        assert extracted.given == ("M", "K")


CHAIN = text_of(
    {"x": "float[M, N]"},
    "a = sum(x, dims=[1])\nb = segment_set(a) * 2.0\nc = segment_set(b) + segment_set(a)\ny = segment_set(c) * 3.0",
    {"y": "float"},
)


class TestLives:
    def test_frees_name_what_no_later_segment_reads(self) -> None:
        segmented = cut(CHAIN)
        plan = planned(CHAIN)
        crossing = {name: fid for fid in segmented.boundaries for name in [segmented.fusion.value(fid).name]}
        read_last = {
            fid: max(each.id for each in segmented.segments if fid in each.inputs) for fid in crossing.values()
        }
        assert len(plan.segments) > 2
        for each in plan.segments:
            assert each.frees == tuple(sorted(fid for fid, last in read_last.items() if last == each.id))

    def test_slots_live_from_the_writer_to_the_last_reader(self) -> None:
        segmented = cut(CHAIN)
        crossing = [slot for slot in planned(CHAIN).workspace if slot.fid is not None]
        assert {slot.fid for slot in crossing} == {*segmented.boundaries}
        for slot in crossing:
            assert slot.bytes == ("mul", 4, "M")
            assert [each.id for each in segmented.segments if slot.fid in each.outputs] == [slot.first]
            assert max(each.id for each in segmented.segments if slot.fid in each.inputs) == slot.last

    def test_outputs_own_no_slot_and_are_not_freed(self) -> None:
        body = "a = sum(x, dims=[1])\ny = segment_set(a) * 2.0"
        plan = planned(text_of({"x": "float[M, N]"}, body, {"a": "float", "y": "float"}))
        outputs = {fid for each in plan.segments for fid in each.outputs}
        assert not [slot for slot in plan.workspace if slot.fid is not None and slot.fid not in outputs]
        freed = {fid for each in plan.segments for fid in each.frees}
        assert freed == {slot.fid for slot in plan.workspace if slot.fid is not None}

    def test_what_a_view_shows_lives_as_long_as_the_view(self) -> None:
        body = "a = sum(x, dims=[1])\nv = segment_set(broadcast(a, is_broadcast_dim=[False, True]))\n"
        plan = planned(text_of({"x": "float[M, N]"}, body + "y = segment_set(v) + x", {"y": "float"}))
        (slot,) = [slot for slot in plan.workspace if slot.fid is not None]
        assert (slot.first, slot.last) == (0, 2)
        (view,) = [each for each in plan.segments if each.scheduler == "alias"]
        assert list(view.views.values()) == [slot.fid]
        assert view.hbm_bytes == 0

    def test_scratch_lives_in_its_segment_alone_and_fits_every_variant(self) -> None:
        text = text_of({"x": "bfloat16[M, N]"}, "y = sum(x, dims=[0])", {"y": "float"}, cases="M: 32768, N: 4096")
        (slot,) = planned(text).workspace
        assert (slot.fid, slot.first, slot.last) == (None, 0, 0)
        sizes = {"M": 32768, "N": 4096, MULTIPROCESSORS: 132}
        assert evaluate(as_formula(slot.bytes), sizes) == 33 * 4 * 4096


@pytest.mark.parametrize("part", sampled(range(5), 5))
def test_the_same_plans_whatever_the_hash_seed(part: int) -> None:
    script = (
        "import hashlib, sys; from pathlib import Path\n"
        "from fusebuild.pipeline import plan_recipe\nfrom fusebuild.artifact.plan import encode\n"
        "from fusebuild.recipe.recipe import load_recipe\nfrom fusebuild.target.table import TARGETS\n"
        "targets = [TARGETS['sm_90'], TARGETS['host']]\n"
        "for path in sys.argv[1:]:\n"
        "    planned = plan_recipe(load_recipe(Path(path)), targets)\n"
        "    texts = [k.text for by_name in planned.kernels.values() for k in by_name.values()]\n"
        "    print(path, hashlib.sha256(encode(planned.plan) + ''.join(texts).encode()).hexdigest())\n"
    )
    paths = [str(path) for path in RECIPES[part::5]]

    def run(seed: str) -> str:
        environ = os.environ | {"PYTHONHASHSEED": seed}
        return subprocess.run(
            [sys.executable, "-c", script, *paths], env=environ, cwd=ROOT, check=True, capture_output=True, text=True
        ).stdout

    first = run("0")
    assert len(first.splitlines()) == len(paths)
    assert run("1") == first
    assert run("4242") == first


def test_segmentation_reads_a_fusion_and_changes_none() -> None:
    fusion: Fusion = primitive(SUM_THEN_ADD)
    before = repr(fusion)
    segment(fusion, SM_90)
    assert repr(fusion) == before
