"""Random Fusions through everything that needs no compiler, and a sample of them on the CPU.

``FUSEBUILD_FUZZ=5000 pytest tests/end_to_end/test_fuzz.py`` (``make fuzz``) tries as many as that; a plain run tries
500.
"""

from __future__ import annotations

import os
import random
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings

from fusebuild.artifact.plan import decode, encode
from fusebuild.artifact.plan_check import validate_plan
from fusebuild.definition.text import RecipeText
from fusebuild.ir.fusion import Fusion
from fusebuild.oracle.reference import evaluate
from fusebuild.oracle.verification import VerifyOptions, verify_artifact
from fusebuild.passes import run_passes
from fusebuild.pipeline import compile_recipes
from fusebuild.planning.assembly import assemble, plan_target
from fusebuild.segmentation import SegmentedFusion, segment
from fusebuild.target.table import TARGETS
from support.argument_manager import run_segments
from support.random_fusions import random_fusion
from support.strategies import WITH_ORDER, exact_inputs, fusions

torch = pytest.importorskip("torch")

SM_90 = TARGETS["sm_90"]
EXAMPLES = int(os.environ.get("FUSEBUILD_FUZZ", "500"))
ON_THE_CPU = 4 if EXAMPLES <= 500 else EXAMPLES // 50
SMALL_SIZES = (1, 2, 5, 16, 24, 33, 64)
FUZZ = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def check_order(segmented: SegmentedFusion) -> None:
    """Segments read only what is there, write nothing twice, and deliver every output."""
    ready = {*segmented.fusion.inputs}
    for each in segmented.segments:
        assert {*each.inputs} <= ready
        assert ready.isdisjoint(each.outputs)
        ready |= {*each.outputs}
    assert {*segmented.fusion.output_fids} <= ready


def check_maps(segmented: SegmentedFusion) -> None:
    """Fid maps lead from exactly the segment's inputs and outputs, no two to one original."""
    for each in segmented.segments:
        assert {*each.fid_map} == {*each.fusion.inputs, *each.fusion.output_fids}
        assert len({*each.fid_map.values()}) == len(each.fid_map)


def check_plan(segmented: SegmentedFusion) -> None:
    """The plan is valid and its JSON reads back as itself."""
    plan = assemble({"sm_90": segmented}, [plan_target(segmented, SM_90, "random.yaml").target])
    assert not validate_plan(plan)
    assert encode(decode(encode(plan))) == encode(plan)


def check_numbers(segmented: SegmentedFusion) -> None:
    """Segment by segment through the oracle equals the whole, to the bit."""
    inputs = exact_inputs(segmented.fusion)
    done = run_segments(segmented, inputs)
    for got, want in zip(done.outputs, evaluate(segmented.fusion, inputs), strict=True):
        assert torch.equal(torch.isnan(got), torch.isnan(want))
        assert torch.equal(_without_nan(got), _without_nan(want))


def _without_nan(tensor: Any) -> Any:
    return tensor.nan_to_num() if tensor.is_floating_point() else tensor


@given(fusions(kinds=WITH_ORDER))
@FUZZ
@seed(20261121)
def test_any_fusion_is_planned_and_computes_the_same_in_segments(fusion: Fusion) -> None:
    segmented = segment(run_passes(fusion), SM_90)
    check_order(segmented)
    check_maps(segmented)
    check_plan(segmented)
    check_numbers(segmented)


@pytest.mark.parametrize("number", range(0, max(20, EXAMPLES // 10)))
def test_fusions_with_index_ops_are_planned(number: int) -> None:
    segmented = segment(random_fusion(number, indexed=True), SM_90)
    check_order(segmented)
    check_maps(segmented)
    check_plan(segmented)


def with_ranges(text: str) -> str:
    """The recipe ``text`` of a random Fusion, its integer inputs drawn from where they may point."""
    inputs, body, rest = text.partition("body: |\n")
    inputs = re.sub(r": (int\d+\[[^],]*\])$", r': {type: "\1", range: [0, M]}', inputs, flags=re.MULTILINE)
    return re.sub(r": (int\d+\[.*\])$", r': {type: "\1", range: [0, N]}', inputs, flags=re.MULTILINE) + body + rest


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory, compilers: None) -> list[Path]:
    """Artifacts for the CPU of some Fusions that look like real ones, at sizes that a CPU can do."""
    folder = tmp_path_factory.mktemp("fuzz")
    paths = []
    for number in range(ON_THE_CPU):
        path = folder / f"random_{number}.yaml"
        chance, fusion = random.Random(number), random_fusion(number, indexed=number % 2 == 1)
        symbols = sorted({str(binding.extent) for binding in fusion.extents if isinstance(binding.extent, str)})
        cases = tuple({symbol: chance.choice(SMALL_SIZES) for symbol in symbols} for _ in range(3))
        path.write_text(with_ranges(str(RecipeText(replace(fusion, cases=cases)))))
        paths.append(path)
    compile_recipes(paths, [TARGETS["host"]], folder / "build", jobs=2)
    return [folder / "build" / f"{path.stem}.fuse" for path in paths]


def test_a_sample_runs_on_the_cpu(sample: list[Path]) -> None:
    for path in sample:
        verdicts = list(verify_artifact(path, target="host", options=VerifyOptions(max_elements=100_000)))
        assert verdicts
        assert not [verdict for verdict in verdicts if not verdict.ok]
