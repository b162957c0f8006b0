"""Where tuning happens: the machine's own GPU, or its CPU for the host target."""

from __future__ import annotations

import platform
import time
from collections.abc import Sequence
from dataclasses import dataclass

from fusebuild.bench.device import CudaDevice, Device, Run, Timed
from fusebuild.errors import UsageError
from fusebuild.target.device import target_of
from fusebuild.target.table import Target

EXECUTIONS = 5
"""How often the CPU executes a contender; the fastest execution counts."""
LONG_SECONDS = 0.1
"""A contender is not executed again once it has taken this long in all: over so long a time, interruptions by other
processes matter little."""


class HostDevice(Device):
    """The CPU that runs ``host`` artifacts, timed by the wall clock."""

    torch_name = "cpu"
    cache_bytes = 0
    roof_bytes = 2

    def __init__(self, target: str) -> None:
        self.target: str | None = target

    @property
    def description(self) -> tuple[str, str]:
        return platform.processor() or platform.machine(), ""

    def captured(self, calls: Sequence[Run]) -> Run:
        """The calls one after the other, after each ran once."""

        def run() -> None:
            for call in calls:
                call()

        run()
        return run

    def milliseconds(self, lead: Run, contenders: Sequence[Timed]) -> list[float]:
        """The time of the fastest of some executions of each contender; other processes only make executions slower.
        ``lead`` is not used: a CPU has no queue that the host would have to fill ahead."""
        return [1e3 * _fastest(contender) for contender in contenders]


def _fastest(contender: Timed) -> float:
    """Seconds of the fastest execution of ``contender``; its ``before`` runs ahead of each one and is not timed."""
    taken: list[float] = []
    while len(taken) < EXECUTIONS and sum(taken) < LONG_SECONDS:
        contender.before()
        start = time.perf_counter()
        contender.run()
        taken.append(time.perf_counter() - start)
    return min(taken)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A device and the target that is tuned on it."""

    device: Device
    target: Target


def find_place(target: Target | None) -> Place:
    """The place to tune for ``target``, by default the current CUDA device's own.

    Raises :class:`UsageError` where torch or the device is missing, and where ``target`` is not what the device is: not
    its architecture, or planned for another number of multiprocessors.
    """
    try:
        import torch
    except ImportError:
        raise UsageError("tune needs torch, which is not installed") from None
    if target is not None and target.is_host:
        return Place(device=HostDevice(target.name), target=target)
    if not torch.cuda.is_available():
        raise UsageError("tune needs a CUDA device, and torch sees none; --arch host tunes for the CPU")
    device = CudaDevice()
    major, minor = torch.cuda.get_device_capability()
    count = torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count
    return Place(device=device, target=own_target(target, 10 * major + minor, count))


def own_target(target: Target | None, capability: int, multiprocessors: int) -> Target:
    """``target``, or the one for a device of ``capability`` (90 for 9.0) and so many ``multiprocessors``. Raises
    :class:`UsageError` as :func:`find_place` does."""
    own = target_of(capability)
    if target is not None and target.name != own.name:
        raise UsageError(
            f"this device runs code for {own.name}; what {target.name} does best shows on a device of its own"
        )
    if own.multiprocessors != multiprocessors:
        raise UsageError(
            f"this device has {multiprocessors} multiprocessors, but {own.name} is planned for {own.multiprocessors}: "
            "what is best here need not be so there"
        )
    return own
