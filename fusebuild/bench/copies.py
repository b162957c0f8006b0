"""Copies: the rate that the device's memory alone allows."""

from __future__ import annotations

from collections.abc import Callable

from fusebuild.bench.device import Device, Run


def roof_copy(device: Device) -> Run:
    """The copy whose rate is the roof. Not for a graph: there a copy is a memcpy node, which is slower."""
    import torch

    source = torch.zeros(device.roof_bytes // 2, dtype=torch.uint8, device=device.torch_name)
    target = torch.empty_like(source)
    return lambda: target.copy_(source)


def equal_copies(total_bytes: int, count: int, device: Device) -> list[Run]:
    """``count`` copies in memory of their own, each reading and writing half of ``total_bytes``: small tensors do not
    reach the roof of large ones. Each is a kernel (a negation), so that it can be part of a graph."""
    import torch

    def one() -> Callable[[], object]:
        source = torch.zeros(max(1, total_bytes // 8), dtype=torch.int32, device=device.torch_name)
        target = torch.empty_like(source)
        return lambda: torch.neg(source, out=target)

    return [one() for _ in range(count)]
