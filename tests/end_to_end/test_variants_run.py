"""Whatever a scheduler makes runs on the CPU: each of its templates, by each kind of variant, in some case of some
fusion that ``test_numerics.py`` compares with the oracle; and all of that under the sanitizers too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from fusebuild.artifact.plan import PlanSegment, Variant, as_formula
from fusebuild.kernels.families import FAMILIES
from fusebuild.oracle.verification import largest_tensor
from fusebuild.planning.planned import PlannedRecipe
from support.kinds import Kind, holds, is_sized, kind_of
from support.places import FUSIONS, RECIPES
from support.sanitized import SANITIZED
from support.small_recipes import planned_file

LIMIT = 300_000
"""Elements that ``test_numerics.py`` takes at most."""

TARGET_NAMES = ("sm_80", "sm_90", "sm_100", "host")
ACCESS = re.compile(r"fb::((?:load|store|copy|wait_c|reduce|scan|states|meet|partition|inside|view)\w*)")
"""Functions of the device header by which kernels reach memory, and each other. On the CPU none waits for the kernel
before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What is made for any target, what of it some small case runs on the CPU, and what of that the sanitizers see."""

    made: set[Kind] = field(default_factory=set)
    run: set[Kind] = field(default_factory=set)
    sanitized: set[Kind] = field(default_factory=set)


Found = Iterator[tuple[PlanSegment, Variant]]


def planned_for_all(path: Path) -> PlannedRecipe:
    """The recipe at ``path`` for every target, which is quicker than for one after another."""
    return planned_file(path, *TARGET_NAMES)


def made_by(path: Path, target: str) -> Found:
    """All variants of the recipe at ``path`` for one target."""
    own = planned_for_all(path).plan.target(target)
    assert own is not None
    return ((segment, variant) for segment in own.segments for variant in segment.variants)


def run_by(path: Path) -> Found:
    """Variants for the host that some small case of the recipe at ``path`` fits."""
    fusion = planned_for_all(path).recipe.fusion
    cases = [case for case in fusion.cases if largest_tensor(fusion, case) <= LIMIT]
    for segment, variant in made_by(path, "host"):
        guards = [as_formula(guard) for guard in variant.guard]
        if any(all(holds(each, case) for each in guards) for case in cases):
            yield segment, variant


def kinds_in(found: Found) -> set[Kind]:
    """With ``sized`` beside the scheduler where a size is named."""
    kinds = set()
    for segment, variant in found:
        kinds |= {kind_of(segment, variant)} | ({(segment.scheduler, "sized")} if is_sized(variant) else set())
    return kinds


def accesses_in(path: Path) -> set[Kind]:
    """Templates of small cases on the CPU, each with the functions by which its kernels reach memory and each other."""
    names = {launch.kernel for _, variant in run_by(path) for launch in variant.launches}
    kernels = planned_for_all(path).kernels["host"]
    return {(name.rsplit("_", 1)[0], function) for name in names for function in ACCESS.findall(kernels[name].text)}


def seen_everywhere() -> Seen:
    seen = Seen()
    for path in (*RECIPES, *FUSIONS):
        run = kinds_in(run_by(path))
        for target in TARGET_NAMES:
            seen.made.update(kinds_in(made_by(path, target)))
        seen.run.update(run)
        seen.sanitized.update(run if path in SANITIZED else ())
    return seen


def test_names_say_the_kind() -> None:
    def of(name: str) -> str:
        return kind_of(PlanSegment(id=0, scheduler="s", fid_map={}, inputs=(), outputs=()),
                       Variant(name=name, guard=(), launches=()))[1]  # fmt: skip

    assert of("registers_vec8_int32") == of("N768_registers_vec4_int32") == "registers_vecN_int32"
    assert of("M3_N48_registers_vec1_int32") == "registers_vec1_int32"
    assert of("cluster4_vec8_int32") == of("N65536_cluster8_vec8_int32") == "clusterN_vecN_int32"
    assert of("edged_tiles_vec8_int32") == of("N127_edged_tiles_vec4_int32") == "edged_tiles_vecN_int32"
    assert of("edged1_vec8_int32") == of("N5003_edged1_vec4_int32") == "edged1_vecN_int32"
    assert of("scalar_int64_split16") == "scalar_int64_splitN"


@pytest.mark.exhaustive
def test_all_that_is_made_runs_on_the_cpu_and_under_the_sanitizers() -> None:
    """One test, because whichever process runs a part of it has to plan every recipe first."""
    kinds = seen_everywhere()
    assert kinds.made - kinds.run == set()
    assert kinds.run - kinds.sanitized == set()
    check_ways(kinds.run)
    check_accesses()


def check_accesses() -> None:
    """Every way to reach memory runs under the sanitizers."""
    everywhere = set[Kind]().union(*(accesses_in(path) for path in (*RECIPES, *FUSIONS)))
    assert {"load", "load_packed_up_to", "store_inside", "copy_async", "reduce_row", "scan_block"} <= {
        function for _, function in everywhere
    }
    assert everywhere - set[Kind]().union(*map(accesses_in, SANITIZED)) == set()


def check_ways(run: set[Kind]) -> None:
    """Every scheduler, and every way to walk rows, is among what runs."""
    assert {scheduler for scheduler, _ in run} >= {scheduler.name for scheduler in FAMILIES} - {"library"}
    rows = {name for scheduler, name in run if scheduler == "inner_persistent"}
    ways = ("few_rows_vecN_int32", "short_vecN_int32", "short_vec1_int32",
            "registers_vecN_int32", "registersN_vecN_int32", "registers_vec1_int32", "shifted_vecN_int32",
            "shiftedN_vecN_int32", "clusterN_vecN_int32",
            "shared_vecN_int32", "shared_vec1_int32", "reread_scalar_int64")  # fmt: skip
    tiled = ("inner_tiled tiled_vecN_int32", "inner_edged_tiles edged_tiles_vecN_int32",
             "inner_threaded threaded_vecN_int32", "inner_staged staged_vecN_int32",
             "ticket_counters inner_trailing trailing_vecN_int32",
             "inner_split anywhere_vecN_int64")  # fmt: skip
    walked = ("ticket_counters inner_resident residentN_vecN_int32", "inner_resident edged1_vecN_int32",
              "inner_resident edgedN_vecN_int32", "ticket_counters inner_resident edgedN_vecN_int32")  # fmt: skip
    assert rows == {"sized", *tiled, *(f"inner_persistent {way}" for way in ways), *walked}
    both = {name.split()[-1] for scheduler, name in run if scheduler == "inner_outer_persistent"}
    assert both == {"sized", "tiled_vecN_int32", "tiled_scalar_int32",
                    "registersN_vecN_int32", "registersN_vec1_int32", "stripedN_vecN_int32", "shiftedN_vecN_int32",
                    "staged1_N_vecN_int32", "stagedN_N_vecN_int32", "sharedN_vecN_int32", "shared_vecN_int32",
                    "scratch_vecN_int64", "scratch_scalar_int64"}  # fmt: skip
    assert {name for scheduler, name in run if scheduler in ("pointwise", "transpose")} == {
        "pointwise vecN_int32", "pointwise shifted_vecN_int32", "pointwise scalar_int32", "pointwise scalar_int64",
        "pointwise_rows rows_vecN_int32", "sized", "transpose vecN_int32", "transpose scalar_int32",
        "transpose scalar_int64", "transpose_shifted shifted_vecN_int32", "transpose_narrow narrow_vecN_int32",
        "pointwise lanes_int32",
        "pointwise_strips strips_vecN_int32", "pointwise_folded folded_vecN_int32", "pointwise_walks walks_int32",
        "pointwise few_scalar_int64", "pointwise few_lanes_int32", "pointwise_columns scalar_int32",
        "pointwise copy_vecN_int32", "pointwise_runs runs_int32", "pointwise_runs scalar_int32",
    }  # fmt: skip
