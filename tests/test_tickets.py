"""Rows that clusters take as they get to them: the counters that say which, and the kernel that sets them to zero."""

from __future__ import annotations

from small_recipes import whole

from fusebuild.plan import WorkspaceArg
from fusebuild.render import Origin, render
from fusebuild.schedule.inner_persistent import InnerPersistentScheduler
from fusebuild.schedule.kernel import VariantSpec
from fusebuild.schedule.tickets import TicketCounters
from fusebuild.target import TARGETS

BODY = "v, m = var_mean(x, dims=[1], correction=0, keepdim=True)\ny = (x - m) * rsqrt(v + 0.01) * w + b"
INPUTS = {"x": "bfloat16[M, N]", "w": "bfloat16[N]", "b": "bfloat16[N]"}
NORM = whole(INPUTS, BODY, {"y": "bfloat16"})
ORIGIN = Origin(recipe="test.yaml", segment=0, fid_map={}, scheduler="inner_persistent", variant="test")


def variant_of(columns: int, name: str) -> VariantSpec:
    found = InnerPersistentScheduler().schedule(NORM, TARGETS["sm_90"], {"M": 4096, "N": columns})
    return next(variant for variant in found if variant.name == name)


def test_a_kernel_of_one_block_sets_them_to_zero_and_the_next_one_waits_for_it() -> None:
    variant = variant_of(262144, "resident8_vec8_int32")
    first, second = variant.launches
    assert (first.grid, first.block, first.overlaps) == ((1, 1, 1), (1, 1, 1), False)
    assert (first.kernel.heuristics, second.overlaps) == (TicketCounters(counters=1), True)
    assert variant.scratch == (4,)
    (counters,) = first.kernel.parameters
    assert counters == second.kernel.parameters[-1]
    assert counters.arg == WorkspaceArg(slot=0)


def test_each_place_that_rows_begin_at_has_one() -> None:
    variant = variant_of(50257, "edged4_vec8_int32")
    assert (variant.launches[0].block, variant.scratch) == ((8, 1, 1), (32,))
    text = render(variant.launches[1].kernel, ORIGIN).source
    assert text.count("fb::draw_ticket<kCluster>(counters + first % kVec)") == 2
    assert "const int64_t later = 2 * kWalkers + first % kVec + kVec * int64_t(ticket);" in text


def test_a_ticket_is_drawn_before_anything_is_loaded_and_awaited_before_the_next_row_is() -> None:
    text = render(variant_of(262144, "resident8_vec8_int32").launches[1].kernel, ORIGIN).source
    steps = ["draw_ticket", "q0[c] = fb::load_packed", "await_ticket", "q0[c] = fb::load_packed",
             "fb::accumulator<fb::Max>(ticket)", "const int64_t later", "draw_ticket", "fb::store"]  # fmt: skip
    places = [0]
    for step in steps:
        places.append(text.index(step, places[-1] + 1))
    assert places == sorted(places)


def test_the_last_reduction_of_a_row_brings_it() -> None:
    text = render(variant_of(262144, "resident8_vec8_int32").launches[1].kernel, ORIGIN).source
    first, last = (part.partition(";")[0] for part in text.split("fb::reduce_row_in_cluster")[1:])
    assert ("ticket" in first, "ticket" in last) == (False, True)
