"""Rows that clusters take as they get to them: the counters that say which, and the kernel that sets them to zero."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fusebuild.artifact.plan import WorkspaceArg
from fusebuild.build.toolchain import find_toolchain
from fusebuild.kernels.common.spec import VariantSpec
from fusebuild.kernels.common.tickets import COUNTERS, TicketCounters
from fusebuild.kernels.persistent import FAMILY as PERSISTENT
from fusebuild.kernels.render import Origin, render
from fusebuild.passes import run_passes
from fusebuild.planning.tuned import Entry, bucket_of, encode_tuned, segment_digest
from fusebuild.recipe.files import tuned_path
from fusebuild.runtime.loader import load
from fusebuild.segmentation import segment
from fusebuild.target.table import TARGETS
from support.host_artifacts import chosen, compile_for_host
from support.small_recipes import recipe_of, text_of, whole

torch = pytest.importorskip("torch")

BODY = "v, m = var_mean(x, dims=[1], correction=0, keepdim=True)\ny = (x - m) * rsqrt(v + 0.01) * w + b"
INPUTS = {"x": "bfloat16[M, N]", "w": "bfloat16[N]", "b": "bfloat16[N]"}
NORM = whole(INPUTS, BODY, {"y": "bfloat16"})
HOST = TARGETS["host"]
COLUMNS = 163848
"""Of rows that need six vectors of each thread of a cluster of 8 x 512 of them."""
SCALED = text_of(
    {"x": "bfloat16[M, N]", "w": "bfloat16[N]"},
    "y = x * rsqrt(mean(x * x, dims=[1], keepdim=True) + 0.01) * w",
    {"y": "bfloat16"},
    name="scaled",
    cases=f"M: 4, N: {COLUMNS}",
)
ORIGIN = Origin(recipe="test.yaml", segment=0, fid_map={}, scheduler="inner_persistent", variant="test")


def variant_of(columns: int, name: str) -> VariantSpec:
    found = PERSISTENT.schedule(NORM, TARGETS["sm_90"], {"M": 4096, "N": columns})
    return next(variant for variant in found if variant.name == name)


def test_a_kernel_of_one_block_sets_them_to_zero_and_the_next_one_starts_early() -> None:
    variant = variant_of(262144, "resident8_vec8_int32")
    first, second = variant.launches
    assert (first.grid, first.block, first.starts_early) == ((1, 1, 1), (32, 1, 1), False)
    assert (first.kernel.heuristics, second.starts_early) == (TicketCounters(counters=32), True)
    assert variant.scratch == (4 * 32,)
    (counters,) = first.kernel.parameters
    assert counters == second.kernel.parameters[-1]
    assert counters.arg == WorkspaceArg(slot=0)


def test_each_place_that_rows_begin_at_has_one() -> None:
    variant = variant_of(50257, "edged2_vec8_int32")
    assert variant.launches[1].kernel.vec == 8 <= COUNTERS
    text = render(variant.launches[1].kernel, ORIGIN).source
    assert text.count("fb::draw_ticket<kCluster>(counters + first % kVec)") == 2
    assert "const int64_t later = 2 * walkers + first % kVec + kVec * int64_t(ticket);" in text


def test_a_ticket_is_drawn_before_anything_is_loaded_and_awaited_before_the_next_row_is() -> None:
    text = render(variant_of(262144, "resident8_vec8_int32").launches[1].kernel, ORIGIN).source
    steps = ["draw_ticket", "q0[c] = fb::load_packed", "await_ticket", "q0[c] = fb::load_packed",
             "fb::accumulator<fb::Max>(ticket)", "const int64_t later", "draw_ticket", "fb::store"]  # fmt: skip
    assert re.search(".*".join(map(re.escape, steps)), text, flags=re.DOTALL)


def test_the_last_reduction_of_a_row_brings_it() -> None:
    text = render(variant_of(262144, "resident8_vec8_int32").launches[1].kernel, ORIGIN).source
    first, last = (part.partition(";")[0] for part in text.split("fb::reduce_row_in_cluster")[1:])
    assert ("ticket" in first, "ticket" in last) == (False, True)


def entry(way: str, **knobs: int | bool) -> Entry:
    """What the host takes for rows of ``SCALED`` instead of its own choice."""
    fusion = run_passes(recipe_of(SCALED).fusion)
    (only,) = segment(fusion, HOST).segments
    all_knobs = {"threads_per_row": 512, "rows_per_block": 1, "min_blocks": 1, "cluster": 8, **knobs}
    return Entry(
        segment=segment_digest(only.fusion),
        bucket=bucket_of(only.fusion, {"M": 4, "N": COLUMNS}),
        arch="host",
        multiprocessors=HOST.multiprocessors,
        toolchain=find_toolchain([HOST]).digest_for(HOST),
        variant=way,
        knobs=all_knobs,
        heuristic=all_knobs,
        milliseconds=1.0,
        heuristic_milliseconds=1.0,
        device="a CPU",
    )


@pytest.mark.parametrize("ahead", [False, True])
def test_every_row_is_done_once_however_the_next_one_is_loaded(tmp_path: Path, ahead: bool) -> None:
    """By two clusters where rows begin aligned, by one for each place of a vector where they do not."""
    entries = [
        entry("resident_vec8_int32", walkers=2, ahead=ahead),
        entry("edged262144_vec8_int32", walkers=8, ahead=ahead),
    ]
    tuned_path(tmp_path / "scaled.yaml").write_text(encode_tuned("scaled", entries))
    plan = load(compile_for_host(tmp_path, {"scaled": SCALED}) / "scaled.fuse", target="host")
    made = {variant.name: variant.tuned for variant in plan.plan.target("host").segments[0].variants}
    assert [made[name]["ahead"] for name in ("resident8_vec8_int32", "edged262144_vec8_int32")] == [ahead, ahead]
    for rows, columns, name in [(1, COLUMNS, "resident8"), (2, COLUMNS, "resident8"), (7, COLUMNS, "resident8"),
                                (19, COLUMNS - 23, "edged262144")]:  # fmt: skip
        generator = torch.Generator().manual_seed(rows)
        x = torch.randn(rows, columns, generator=generator).bfloat16()
        w = torch.randn(columns, generator=generator).bfloat16()
        assert chosen(plan, x, w) == f"{name}_vec8_int32"
        wide = x.double()
        wanted = wide * torch.rsqrt(wide.square().mean(1, keepdim=True) + 0.01) * w
        assert torch.allclose(plan(x, w).double(), wanted, rtol=2**-7, atol=1e-6)
