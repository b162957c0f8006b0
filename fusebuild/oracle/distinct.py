"""Indices that a Fusion promises to be distinct: those of scatters with ``unique_indices``. Drawn at random, they keep
that promise where the dim has as many elements as there are updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fusebuild.ir.fusion import Fusion

if TYPE_CHECKING:
    from torch import Tensor

_SAME_ELEMENTS = ("cast", "expand", "set")


def distinct_dims(fusion: Fusion) -> dict[int, int | None]:
    """For each input that is such an index the dim along which no two of its elements are alike; None for one of which
    no two are at all."""
    found: dict[int, int | None] = {}
    for expr in fusion.exprs:
        named: dict[str, Any] = dict(expr.attributes)
        if not named.get("unique_indices"):
            continue
        fid = expr.inputs[1]
        while (made := fusion.expr_of(fid)) is not None and made.op in _SAME_ELEMENTS:
            fid = made.inputs[0]
        if fid in fusion.inputs:
            found[fid] = named["dim"] if expr.op == "scatter" else None
    return found


def draw_distinct(index: Tensor, dim: int | None, low: int, high: int, generator: Any) -> None:
    """Fill ``index`` with integers from ``low`` to below ``high``, as many as there are, no two alike along ``dim``."""
    import torch

    count, span = index.numel() if dim is None else index.shape[dim], high - low
    if count > span:
        return
    device = index.device
    numbers = torch.randperm(span, generator=generator, device=device) + low
    if dim is None:
        index.copy_(numbers[:count].reshape(index.shape))
        return
    lines = [1 if at == dim else size for at, size in enumerate(index.shape)]
    along = [size if at == dim else 1 for at, size in enumerate(index.shape)]
    first = torch.randint(0, span, lines, generator=generator, device=device)
    index.copy_(numbers[(first + torch.arange(count, device=device).reshape(along)) % span])
