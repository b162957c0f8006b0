"""Calls that come again are launched as graphs: their results, on streams, threads and devices, are those of any call.
``pytest -m gpu``, on a machine with a GPU and nvcc."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fusebuild.runtime.loader import LoadedPlan
from support import runtime_plans as plans
from support.gpu_plans import check_overlapping, expected, overlapping_plan, reverse_plan

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

CALLS = 60
"""More than twice as many as are launched without a graph."""


def random_inputs(rows: int = 30, columns: int = 64) -> tuple[Any, ...]:
    """Of a call of ``scale_add``; scalars differ from call to call, too."""
    x, y = torch.randn(rows, columns, device="cuda"), torch.randn(rows, columns, device="cuda")
    return x, y, float(torch.randn(())), torch.randn(())


def check(plan: LoadedPlan, arguments: tuple[Any, ...], **more: Any) -> None:
    z, _ = plan(*arguments, **more)
    torch.testing.assert_close(z, expected(*arguments))


def test_every_call_sees_its_own_arguments(open_plan: Any) -> None:
    plan = open_plan(plans.scale_add_plan())
    calls = [random_inputs() for _ in range(CALLS)]
    made = [plan(*arguments)[0] for arguments in calls]  # all alive, so that each is elsewhere
    for arguments, z in zip(calls, made, strict=True):
        torch.testing.assert_close(z, expected(*arguments))


def test_arguments_may_change_while_earlier_calls_wait(open_plan: Any) -> None:
    plan = open_plan(plans.scale_add_plan())
    calls = [random_inputs() for _ in range(CALLS)]
    torch.cuda.synchronize()
    torch.cuda._sleep(200_000_000)
    made = [plan(*arguments)[0] for arguments in calls]
    for arguments, z in zip(calls, made, strict=True):
        torch.testing.assert_close(z, expected(*arguments))


def test_given_outputs_are_written(open_plan: Any) -> None:
    plan = open_plan(plans.scale_add_plan())
    for _ in range(CALLS):
        arguments = random_inputs()
        out = (torch.full_like(arguments[0], float("nan")), torch.zeros(1, dtype=torch.int32, device="cuda"))
        check(plan, arguments, out=out)
        torch.testing.assert_close(out[0], expected(*arguments))


def test_shapes_that_take_turns(open_plan: Any) -> None:
    plan = open_plan(plans.scale_add_plan())
    for _ in range(CALLS):
        for rows in (1, 30, 300):
            check(plan, random_inputs(rows))


def test_launches_still_overlap(open_plan: Any) -> None:
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("needs sm_90")
    plan = open_plan(overlapping_plan())
    for _ in range(CALLS):
        x = torch.randn(500, device="cuda")
        check_overlapping(x, plan(x))


@pytest.mark.parametrize("streams", [2, 12])
def test_more_streams_than_have_graphs(streams: int, open_plan: Any) -> None:
    plan = open_plan(plans.scale_add_plan())
    lanes = [torch.cuda.Stream() for _ in range(streams)]
    for _ in range(CALLS):
        calls = []
        for lane in lanes:
            arguments = random_inputs()
            lane.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(lane):
                calls.append((arguments, plan(*arguments)[0]))
        torch.cuda.synchronize()
        for arguments, z in calls:
            torch.testing.assert_close(z, expected(*arguments))


def test_streams_do_not_wait_for_each_other(open_plan: Any) -> None:
    plan = open_plan(plans.scale_add_plan())
    arguments, lanes = random_inputs(), [torch.cuda.Stream() for _ in range(2)]
    for lane in lanes:
        lane.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(lane):
            for _ in range(CALLS):
                plan(*arguments)
    torch.cuda.synchronize()
    done = [torch.cuda.Event() for _ in lanes]
    with torch.cuda.stream(lanes[0]):
        torch.cuda._sleep(1_000_000_000)
        plan(*arguments)
        done[0].record()
    with torch.cuda.stream(lanes[1]):
        plan(*arguments)
        done[1].record()
    done[1].synchronize()
    assert not done[0].query()


def test_capture_after_graphs_were_made_and_calls_between_replays(open_plan: Any) -> None:
    plan = open_plan(plans.scale_add_plan())
    x, y, alpha, bias = random_inputs()
    for _ in range(CALLS):
        plan(x, y, alpha, bias)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        z, _ = plan(x, y, alpha, bias)
    for _ in range(CALLS):
        x.copy_(torch.randn_like(x))
        check(plan, random_inputs())
        graph.replay()
        torch.testing.assert_close(z, expected(x, y, alpha, bias))


def test_graphs_are_made_while_another_thread_captures(open_plan: Any) -> None:
    """Capture in torch's strictest mode forbids other threads what could disturb it, such as to allocate memory."""
    plan, other = open_plan(plans.scale_add_plan()), open_plan(reverse_plan())
    x, y, alpha, bias = random_inputs()
    own = torch.randn(300, device="cuda")
    out, lane = torch.empty_like(own), torch.cuda.Stream()

    def call() -> None:
        with torch.cuda.stream(lane):
            for _ in range(CALLS):
                other(own, out=out)

    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph), ThreadPoolExecutor(1) as pool:
        z, _ = plan(x, y, alpha, bias)
        pool.submit(call).result()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(z, expected(x, y, alpha, bias))
    torch.testing.assert_close(out, own.flip(0))


@pytest.mark.parametrize("streams", [1, 16])
def test_sixteen_threads(streams: int, open_plan: Any) -> None:
    plan = open_plan(plans.scale_add_plan())
    lanes = [torch.cuda.Stream() for _ in range(streams)]

    def work(thread: int) -> None:
        with torch.cuda.stream(lanes[thread % streams]):
            for _ in range(CALLS):
                check(plan, random_inputs())

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))


def test_results_of_a_plan_that_is_gone_before_they_are_computed(open_plan: Any) -> None:
    plan = open_plan(plans.scale_add_plan())
    arguments = random_inputs(300, 512)
    for _ in range(CALLS):
        plan(*arguments)
    torch.cuda._sleep(500_000_000)
    z, _ = plan(*arguments)
    del plan
    gc.collect()
    torch.testing.assert_close(z, expected(*arguments))


@pytest.fixture
def devices() -> Iterator[int]:
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two devices")
    yield torch.cuda.device_count()
    torch.cuda.set_device(0)


def test_devices_have_graphs_of_their_own(devices: int, open_plan: Any) -> None:
    plan = open_plan(plans.scale_add_plan())
    for _ in range(CALLS):
        for device in range(devices):
            x, y, alpha, bias = random_inputs()
            check(plan, (x.to(device), y.to(device), alpha, bias))
