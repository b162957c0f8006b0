"""What the random ops mean, in torch: the part of the oracle that draws."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from fusebuild.ir.dtype import DType
from fusebuild.ops.random import DRAW_BITS, draws, stretched

if TYPE_CHECKING:
    from torch import Tensor

OPS = frozenset({"linear_index", "uniform", "rand_like", "dropout"})
"""The ops of this module; the references of others stand beside their types."""

Conversion: TypeAlias = "Callable[[Tensor, DType], Tensor]"


def random_results(
    op: str, operands: Sequence[Tensor], sizes: Sequence[int], dtype: DType, device: Any, convert: Conversion
) -> tuple[Tensor, ...]:
    """The results of ``op``, one of :data:`OPS`, of which the first has the shape ``sizes`` and is a ``dtype``;
    ``convert`` makes a tensor what holds the values of a dtype."""
    import torch

    index = torch.arange(math.prod(sizes), device=device).reshape(tuple(sizes))
    if op == "linear_index":
        return (index,)
    *given, seed, offset = operands
    draw = draws(torch, index, seed.long(), offset.long())
    if op == "dropout":
        return _dropout(given[0], given[1], draw, dtype, convert)
    scale = 2.0 ** DRAW_BITS[dtype]
    narrowed = torch.floor(draw * scale) / scale
    return (stretched(torch, narrowed, *given) if op == "uniform" else narrowed,)


def _dropout(x: Tensor, p: Tensor, draw: Tensor, dtype: DType, convert: Conversion) -> tuple[Tensor, Tensor]:
    import torch

    kept, scale = draw >= p.float(), 1.0 / (1.0 - p)
    scale = convert(scale if dtype is DType.DOUBLE else scale.float(), dtype)
    return torch.where(kept, convert(x, dtype) * scale, 0.0), kept
