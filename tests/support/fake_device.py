"""A device to measure on where there is no GPU: the CPU, with a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fusebuild.bench.device import Run, Timed


class FakeDevice:
    """The CPU, with ``host`` artifacts. Every run takes the milliseconds that its place in the first turn says, and
    every look at the clock is one microsecond after the last. ``fails`` is which capture raises, counted from 0."""

    torch_name = "cpu"
    target: str | None = "host"
    cache_bytes = 1000
    roof_bytes = 4000
    description = ("a CPU", "0.1")

    def __init__(self, taken: Sequence[float], backend: str = "eager", fails: int = -1) -> None:
        self._taken, self._backend, self._fails = taken, backend, fails
        self._ticks = 0
        self._known: dict[Timed, float] = {}
        self.captured_calls: list[int] = []
        self.released = 0

    def compiled(self, module: Any) -> Callable[..., Any]:
        import torch

        made: Callable[..., Any] = torch.compile(module, backend=self._backend, fullgraph=True, dynamic=False)
        return made

    def captured(self, calls: Sequence[Run]) -> Run:
        self.captured_calls.append(len(calls))
        if len(self.captured_calls) - 1 == self._fails:
            raise MemoryError("out of memory\nand more of it")
        for call in calls:
            call()
        return lambda: [call() for call in calls]

    def milliseconds(self, lead: Run, contenders: Sequence[Timed]) -> list[float]:
        for each in contenders:
            lead()
            each.before()
            each.run()
        if self._known.keys() != set(contenders):
            self._known = dict(zip(contenders, self._taken, strict=True))
        return [self._known[each] for each in contenders]

    def seconds(self) -> float:
        self._ticks += 1
        return self._ticks * 1e-6

    def wait(self) -> None:
        pass

    def release(self) -> None:
        self.released += 1
