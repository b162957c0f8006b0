"""Timing things side by side on the device, and one thing on the host."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from fusebuild.bench.device import Device, Run, Timed

Name = TypeVar("Name", bound=Hashable)

REPLAYS = 20
WARM_UP = 3
BATCHES, BATCH = 31, 8
"""Host time is taken over batches of so few calls that the launch queue, about a thousand kernels, never fills."""


def side_by_side(contenders: Mapping[Name, Timed], lead: Run, device: Device) -> dict[Name, list[float]]:
    """Milliseconds of each execution of each of ``contenders``, taken in turns, A B C, B C A, C A B: what drifts,
    drifts for all, and nobody is always the first. The first turns are not counted. ``lead`` goes before each;
    see :meth:`Device.milliseconds`."""
    names = list(contenders)
    times: dict[Name, list[float]] = {name: [] for name in names}
    for turn in range(WARM_UP + REPLAYS):
        first = turn % len(names)
        order = [*names[first:], *names[:first]]
        taken = device.milliseconds(lead, [contenders[name] for name in order])
        for name, milliseconds in zip(order, taken, strict=True):
            times[name].append(milliseconds)
    return {name: each[WARM_UP:] for name, each in times.items()}


def timing(times: Sequence[float], calls: int) -> tuple[float, float]:
    """The time of one call, from ``times`` of runs of ``calls`` calls each: the median, and the distance between the
    quartiles over the median."""
    median = statistics.median(times)
    quartiles = statistics.quantiles(times, n=4)
    return median / calls, (quartiles[2] - quartiles[0]) / median if median else 0.0


def call_microseconds(call: Run, device: Device) -> float:
    """Host time of one call in steady state: the median over batches of calls that nobody waits for."""
    taken = []
    for _ in range(BATCHES + 1):
        device.wait()
        start = device.seconds()
        for _ in range(BATCH):
            call()
        taken.append((device.seconds() - start) / BATCH * 1e6)
    device.wait()
    return statistics.median(taken[1:])
