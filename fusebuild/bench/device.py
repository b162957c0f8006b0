"""What measuring asks of a device, and the current CUDA device."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fusebuild.errors import UsageError

Run = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """``run`` is timed, and ``before``, which goes right ahead of it each time, is not. ``before`` is the same call on
    other tensors, or one on tensors that are too large for a cache. So ``run`` pays for writing back the dirty lines of
    a call like itself, not those of another contender, and does not find its own tensors in the cache."""

    run: Run
    before: Run


class Device(Protocol):
    """A device to measure on; tests bring one that has no GPU."""

    torch_name: str
    """Torch's name for the device: ``cuda`` or ``cpu``."""
    target: str | None
    """The target that is loaded from an artifact; None for the one that fits the device best."""
    cache_bytes: int
    """Bytes of the last-level cache."""
    roof_bytes: int
    """Bytes that the copy that sets the roof reads and writes in all."""

    @property
    def description(self) -> tuple[str, str]:
        """The device's name and its driver's version."""
        ...

    def compiled(self, module: Any) -> Callable[..., Any]:
        """``module`` under ``torch.compile``."""
        import torch

        made: Callable[..., Any] = torch.compile(module, dynamic=False)
        return made

    def captured(self, calls: Sequence[Run]) -> Run:
        """All of ``calls`` in a row as one thing to run. Their results live as long as it does, so that no call writes
        where another did."""
        ...

    def milliseconds(self, lead: Run, contenders: Sequence[Timed]) -> list[float]:
        """Milliseconds that the device takes for what the ``run`` of each of ``contenders`` enqueues, one after the
        other, each behind its own ``before``. ``lead`` goes ahead of every pair and is not timed: it evicts from the
        cache what the contender before has read, and while the device is busy with it the host enqueues the rest, so
        that the device never waits for a launch."""
        ...

    def seconds(self) -> float:
        """The host's clock."""
        return time.perf_counter()

    def wait(self) -> None:
        """Wait until everything that was enqueued is done: nothing to do where nothing is enqueued."""
        return

    def release(self) -> None:
        """Give memory back to the device that nothing refers to, and forget what torch compiled; nothing to do where
        memory needs no giving back."""
        return


class CudaDevice(Device):
    """The current CUDA device. Raises :class:`UsageError` where torch sees none."""

    torch_name = "cuda"
    target: str | None = None
    roof_bytes = 2 * 2**30

    def __init__(self) -> None:
        import torch

        if not torch.cuda.is_available():
            raise UsageError("bench needs a CUDA device, and torch sees none")
        self._cuda: Any = torch.cuda
        self.cache_bytes = int(self._cuda.get_device_properties(self._cuda.current_device()).L2_cache_size)

    @property
    def description(self) -> tuple[str, str]:
        return self._cuda.get_device_name(), _driver_version()

    def captured(self, calls: Sequence[Run]) -> Run:
        """A CUDA graph, after each call ran once on the stream beside: compilers and allocators do their work there. A
        call that waits for the device is found out before the capture, which would not survive it."""
        cuda = self._cuda
        side = cuda.Stream()
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            for call in calls:
                call()
            cuda.set_sync_debug_mode("error")
            try:
                calls[0]()
            finally:
                cuda.set_sync_debug_mode("default")
        cuda.current_stream().wait_stream(side)
        cuda.synchronize()
        graph = cuda.CUDAGraph()
        with cuda.graph(graph, capture_error_mode="thread_local"):
            results = [call() for call in calls]

        def replay() -> object:
            graph.replay()
            return results  # their memory, which it writes, lives as long as it does

        return replay

    def milliseconds(self, lead: Run, contenders: Sequence[Timed]) -> list[float]:
        events = [[self._cuda.Event(enable_timing=True) for _ in range(2)] for _ in contenders]
        for contender, (start, end) in zip(contenders, events, strict=True):
            lead()
            contender.before()
            start.record()
            contender.run()
            end.record()
        events[-1][-1].synchronize()
        return [float(start.elapsed_time(end)) for start, end in events]

    def wait(self) -> None:
        self._cuda.synchronize()

    def release(self) -> None:
        import torch

        torch.compiler.reset()
        gc.collect()
        self._cuda.empty_cache()


def _driver_version() -> str:
    """The kernel driver's version, from the file it shows; empty where there is none."""
    path = Path("/proc/driver/nvidia/version")
    words = path.read_text().split() if path.is_file() else []
    return next((word for word in words if word[0].isdigit() and word.count(".") >= 1), "")
