"""Whatever a scheduler makes runs on the CPU: each of its templates, by each kind of variant, in some case of some
fusion that ``test_numerics.py`` compares with the oracle."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from small_recipes import RECIPES, ROOT

from fusebuild.formula import Formula, evaluate
from fusebuild.pipeline import plan_recipe
from fusebuild.plan import PlanSegment, Variant, as_formula
from fusebuild.recipe import load_recipe
from fusebuild.schedule import SCHEDULERS
from fusebuild.target import TARGETS
from fusebuild.verification import largest_tensor

LIMIT = 300_000
"""Elements that ``test_numerics.py`` takes at most."""

FUSIONS = sorted((ROOT / "tests" / "fusions").glob("*.yaml"))
TARGET_NAMES = ("sm_80", "sm_90", "sm_100", "host")
SIZED = re.compile(
    r"^(?:(?!(?:cluster|resident|edged)\d+_vec|rows_vec)[A-Za-z_]\w*?\d+_)+?"
    r"(?=registers|staged|cluster|resident|edged|shared|tiled|shifted|reread|rows|scratch|vec|scalar)"
)
"""What stands before the name of a variant for sizes that a recipe names: ``N768_``."""

Kind = tuple[str, str]
"""A scheduler, and its templates with the name of a variant whose numbers are left out."""


def kind_of(segment: PlanSegment, variant: Variant) -> Kind:
    templates = dict.fromkeys(launch.kernel.rsplit("_", 1)[0] for launch in variant.launches)
    name = SIZED.sub("", variant.name, count=1)
    counted = r"(vec|cluster|resident|edged|split)(\d+)"
    name = re.sub(counted, lambda match: match[1] + ("1" if match[2] == "1" else "N"), name)
    return segment.scheduler, " ".join([*templates, name])


def is_sized(variant: Variant) -> bool:
    return SIZED.match(variant.name) is not None


def holds(guard: Formula, sizes: Mapping[str, int]) -> bool:
    """For tensors that are aligned."""
    return (isinstance(guard, tuple) and guard[0] == "aligned") or bool(evaluate(guard, sizes))


@pytest.fixture(scope="module")
def kinds() -> tuple[set[Kind], set[Kind]]:
    """What is made for any target, and what of it some small case runs on the CPU; with ``sized`` beside the scheduler
    where a size is named."""
    made, run = set[Kind](), set[Kind]()
    for path in (*RECIPES, *FUSIONS):
        recipe = load_recipe(path)
        planned = plan_recipe(recipe, [TARGETS[name] for name in TARGET_NAMES])
        cases = [case for case in recipe.fusion.cases if largest_tensor(recipe.fusion, case) <= LIMIT]
        for target in planned.plan.targets:
            for segment in target.segments:
                for variant in segment.variants:
                    found = {kind_of(segment, variant)}
                    found |= {(segment.scheduler, "sized")} if is_sized(variant) else set()
                    made |= found
                    guards = [as_formula(guard) for guard in variant.guard]
                    if target.target == "host" and any(all(holds(each, case) for each in guards) for case in cases):
                        run |= found
    return made, run


def test_names_say_the_kind() -> None:
    def of(name: str) -> str:
        return kind_of(PlanSegment(id=0, scheduler="s", fid_map={}, inputs=(), outputs=()),
                       Variant(name=name, guard=(), launches=()))[1]  # fmt: skip

    assert of("registers_vec8_int32") == of("N768_registers_vec4_int32") == "registers_vecN_int32"
    assert of("M3_N48_registers_vec1_int32") == "registers_vec1_int32"
    assert of("cluster4_vec8_int32") == of("N65536_cluster8_vec8_int32") == "clusterN_vecN_int32"
    assert of("edged1_vec8_int32") == of("N5003_edged1_vec4_int32") == "edged1_vecN_int32"
    assert of("scalar_int64_split16") == "scalar_int64_splitN"


def test_every_kind_of_variant_runs_on_the_cpu(kinds: tuple[set[Kind], set[Kind]]) -> None:
    made, run = kinds
    assert made - run == set()


def test_every_scheduler_and_every_way_is_among_them(kinds: tuple[set[Kind], set[Kind]]) -> None:
    _, run = kinds
    assert {scheduler for scheduler, _ in run} >= {scheduler.name for scheduler in SCHEDULERS} - {"library"}
    rows = {name for scheduler, name in run if scheduler == "inner_persistent"}
    ways = ("few_rows_vecN_int32", "short_vecN_int32", "registers_vecN_int32", "registers_vec1_int32",
            "shifted_vecN_int32", "clusterN_vecN_int32", "shared_vecN_int32", "shared_vec1_int32",
            "reread_vecN_int32", "reread_scalar_int64")  # fmt: skip
    tiled = "inner_tiled tiled_vecN_int32"
    walked = ("residentN_vecN_int32", "edged1_vecN_int32", "edgedN_vecN_int32")
    assert rows == {
        "sized",
        tiled,
        *(f"inner_persistent {way}" for way in ways),
        *(f"inner_resident {way}" for way in walked),
    }
    both = {name.split()[-1] for scheduler, name in run if scheduler == "inner_outer_persistent"}
    assert both == {"sized", "registers_vecN_int32", "registers_vec1_int32", "staged_vecN_int32", "shared_vecN_int32",
                    "scratch_vecN_int64", "scratch_scalar_int64"}  # fmt: skip
    assert {name for scheduler, name in run if scheduler in ("pointwise", "transpose")} == {
        "pointwise vecN_int32", "pointwise shifted_vecN_int32", "pointwise scalar_int32", "pointwise scalar_int64",
        "pointwise_rows rows_vecN_int32", "transpose vecN_int32", "transpose scalar_int32", "transpose scalar_int64",
    }  # fmt: skip
