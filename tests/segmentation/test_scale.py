"""Large Fusions: what may grow with them, and what must not. Times are in ``tests/benchmarks/bench_scale.py``, not
here."""

from __future__ import annotations

import pytest

from fusebuild.passes import run_passes
from fusebuild.planning.assembly import plan_target
from fusebuild.segmentation import SegmentedFusion, segment
from fusebuild.segmentation.acceptance import Acceptance
from fusebuild.target.table import TARGETS
from support.transformer_stack import transformer_stack

SM_90 = TARGETS["sm_90"]


def cut(exprs: int) -> SegmentedFusion:
    return segment(run_passes(transformer_stack(exprs)), SM_90)


@pytest.fixture(scope="module")
def shallow() -> SegmentedFusion:
    return cut(300)


@pytest.fixture(scope="module")
def deep() -> SegmentedFusion:
    return cut(1200)


def test_equal_layers_share_their_kernels(shallow: SegmentedFusion, deep: SegmentedFusion) -> None:
    counts = [len(plan_target(each, SM_90, "stack").kernels) for each in (shallow, deep)]
    assert len(deep.segments) == 4 * len(shallow.segments)
    assert counts[0] == counts[1]


def test_equal_layers_are_cut_alike(deep: SegmentedFusion) -> None:
    """Every layer but the outermost two has the same segments as its neighbours."""
    kinds = [(each.scheduler, tuple(expr.op for expr in each.fusion.exprs)) for each in deep.segments]
    assert len({*kinds}) <= 16


def test_schedulers_are_not_asked_again_for_equal_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    scheduler = Acceptance.scheduler

    def spy(self: Acceptance, *arguments: object) -> str:
        name = scheduler(self, *arguments)  # type: ignore[arg-type]
        asked.append(self.asked)
        return name

    monkeypatch.setattr(Acceptance, "scheduler", spy)
    cut(300)
    few = max(asked)
    asked.clear()
    cut(1200)
    assert max(asked) <= 1.2 * few


def test_library_calls_are_segments_of_their_own(shallow: SegmentedFusion) -> None:
    for each in shallow.segments:
        calls = [expr.op for expr in each.fusion.exprs if expr.op in ("linear", "matmul")]
        assert (len(calls), len(each.fusion.exprs)) == (1, 1) if each.scheduler == "library" else not calls


def test_only_narrow_tensors_cross_a_layer(deep: SegmentedFusion) -> None:
    """No float activation is kept from the forward to the backward half, only bfloat16 ones and row statistics."""
    fusion = deep.fusion
    readers = {fid: [each.id for each in deep.segments if fid in each.inputs] for fid in deep.boundaries}
    far = [fid for fid, by in readers.items() if max(by) - min(by) > 20]
    assert far
    assert {fusion.value(fid).dtype.value for fid in far if len(fusion.value(fid).tensor.stored_shape) > 1
            and 1 not in fusion.value(fid).tensor.shape} == {"bfloat16"}  # fmt: skip
