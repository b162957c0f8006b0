"""Calls behind kernels that are not of their plan: they begin early, and see what was written before them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest

from fusebuild.runtime.loader import LoadedPlan
from support.gpu_plans import first_overlaps_plan, late_plan

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    pytest.mark.skipif(
        torch.cuda.is_available() and torch.cuda.get_device_capability() < (9, 0), reason="overlapping takes sm_90"
    ),
]

ROUNDS = 60
"""More than twice as many calls as are launched without a graph."""


def straight(late: LoadedPlan, first: LoadedPlan, x: Any) -> tuple[Any, ...]:
    t, ended = late(x)
    return (*first(t), t, ended)


def behind_a_copy(late: LoadedPlan, first: LoadedPlan, x: Any) -> tuple[Any, ...]:
    t, ended = late(x)
    copy = torch.empty_like(t)
    copy.copy_(t, non_blocking=True)
    return (*first(copy), t, ended)


def behind_a_kernel_of_torch(late: LoadedPlan, first: LoadedPlan, x: Any) -> tuple[Any, ...]:
    t, ended = late(x)
    return (*first(t * 1), t, ended)


def behind_two_streams(late: LoadedPlan, first: LoadedPlan, x: Any) -> tuple[Any, ...]:
    """What the call reads is written on another stream, while this one has a kernel that ends sooner."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        t, ended = late(x)
    other = x + 1
    torch.cuda.current_stream().wait_stream(side)
    made = (*first(t), t, ended)
    other.zero_()
    return made


def behind_two_late_ones(late: LoadedPlan, first: LoadedPlan, x: Any) -> tuple[Any, ...]:
    t, ended = late(x)
    late(x)
    return (*first(t), t, ended)


WAYS = [straight, behind_a_copy, behind_a_kernel_of_torch, behind_two_streams, behind_two_late_ones]
Way = Callable[[LoadedPlan, LoadedPlan, Any], tuple[Any, ...]]


def check(x: Any, made: tuple[Any, ...]) -> None:
    y, _, t, _ = made
    assert torch.equal(t, 2 * x)
    assert torch.equal(y, t + 1)


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_call_sees_what_was_written_before_it(way: Way, open_plan: Any) -> None:
    late, first = open_plan(late_plan()), open_plan(first_overlaps_plan())
    for _ in range(ROUNDS):
        x = torch.randn(500, device="cuda")
        check(x, way(late, first, x))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_call_in_a_graph_sees_what_was_written_before_it(way: Way, open_plan: Any) -> None:
    late, first = open_plan(late_plan()), open_plan(first_overlaps_plan())
    x = torch.randn(500, device="cuda")
    way(late, first, x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        made = way(late, first, x)
    for _ in range(ROUNDS):
        x.copy_(torch.randn_like(x))
        graph.replay()
        check(x, made)


def test_a_call_on_the_default_stream_waits_for_blocking_streams(open_plan: Any) -> None:
    """CUDA's default stream does so, which is torch's. torch's other streams do not block."""
    late, first = open_plan(late_plan()), open_plan(first_overlaps_plan())
    made = ctypes.c_void_p()
    assert ctypes.CDLL("libcuda.so.1").cuStreamCreate(ctypes.byref(made), 0) == 0
    blocking = torch.cuda.ExternalStream(made.value)
    for _ in range(ROUNDS):
        x = torch.randn(500, device="cuda")
        with torch.cuda.stream(blocking):
            t, ended = late(x)
        check(x, (*first(t), t, ended))


def test_what_a_call_read_may_be_overwritten_behind_it(open_plan: Any) -> None:
    first = open_plan(first_overlaps_plan())
    for _ in range(ROUNDS):
        x = torch.randn(1 << 22, device="cuda")
        expected = x + 1
        y, _ = first(x)
        x.zero_()
        assert torch.equal(y, expected)


def test_a_call_begins_before_the_kernel_before_it_has_ended(open_plan: Any) -> None:
    late, first = open_plan(late_plan()), open_plan(first_overlaps_plan())
    x = torch.randn(500, device="cuda")
    for _ in range(5):
        _, began, _, ended = straight(late, first, x)
    assert began[1].item() < ended[0].item()
