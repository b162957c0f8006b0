"""What the index ops mean, in torch: the part of the oracle that moves elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from fusebuild.ir.formula import evaluate
from fusebuild.ir.values import Expr
from fusebuild.ops.indexing import pad_widths, permutation_of, slice_bounds

if TYPE_CHECKING:
    from torch import Tensor

Sizes: TypeAlias = Mapping[str, int]


def _permute(expr: Expr, operands: Sequence[Tensor], sizes: Sizes) -> Tensor:
    return operands[0].permute(permutation_of(dict(expr.attributes), operands[0].dim()))


def _slice(expr: Expr, operands: Sequence[Tensor], sizes: Sizes) -> Tensor:
    (x,) = operands
    named = {name: _numbers(each, sizes) for name, each in expr.attributes}
    named["end_indices"] = tuple(map(max, named["start_indices"], named["end_indices"]))
    bounds = slice_bounds(tuple(x.shape), named)
    return x[tuple(slice(first, first + count * step, step) for first, count, step in bounds)]  # type: ignore[operator]


def _numbers(formulas: Any, sizes: Sizes) -> Any:
    return None if formulas is None else tuple(evaluate(formula, sizes) for formula in formulas)


def _pad(expr: Expr, operands: Sequence[Tensor], sizes: Sizes) -> Tensor:
    import torch

    x = operands[0]
    anything = torch.tensor(float("nan") if x.is_floating_point() else 1, device=x.device)
    value = operands[1] if len(operands) > 1 else anything
    attributes = {"pad_widths": _numbers(expr.attribute("pad_widths"), sizes)}
    widths = [(evaluate(before, {}), evaluate(after, {})) for before, after in pad_widths(x.dim(), attributes)]
    shape = [size + before + after for size, (before, after) in zip(x.shape, widths, strict=True)]
    padded = torch.empty(shape, dtype=x.dtype, device=x.device).copy_(value.to(x.dtype))
    padded[tuple(slice(before, before + size) for size, (before, _) in zip(x.shape, widths, strict=True))] = x
    return padded


def _cat(expr: Expr, operands: Sequence[Tensor], sizes: Sizes) -> Tensor:
    import torch

    return torch.cat(list(operands), dim=_dim(expr))


def _reshape(expr: Expr, operands: Sequence[Tensor], sizes: Sizes) -> Tensor:
    return operands[0].reshape(_numbers(expr.attribute("shape"), sizes))


def _dim(expr: Expr) -> int:
    dim = expr.attribute("dim")
    assert isinstance(dim, int)
    return dim


def _inside(index: Tensor, size: int) -> Tensor:
    return index.long().clamp(0, max(size - 1, 0))


def _take(expr: Expr, operands: Sequence[Tensor], sizes: Sizes) -> Tensor:
    return _taken(operands[0], operands[1], _dim(expr))


def _embedding(expr: Expr, operands: Sequence[Tensor], sizes: Sizes) -> Tensor:
    return _taken(operands[0], operands[1], 0)


def _taken(x: Tensor, index: Tensor, dim: int) -> Tensor:
    if x.shape[dim] == 0:
        return x.new_zeros([*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]])
    flat = x.index_select(dim, _inside(index, x.shape[dim]).flatten())
    return flat.reshape([*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]])


def _take_along_axis(expr: Expr, operands: Sequence[Tensor], sizes: Sizes) -> Tensor:
    import torch

    x, index = operands
    dim = _dim(expr)
    shape = [wanted if other == dim or own == 1 else own
             for other, (own, wanted) in enumerate(zip(x.shape, index.shape, strict=True))]  # fmt: skip
    own = [size if other == dim else shape[other] for other, size in enumerate(x.shape)]
    if x.shape[dim] == 0:
        return x.new_zeros(shape)
    return torch.gather(x.expand(own), dim, _inside(index, x.shape[dim]).expand(shape))


def _triangle(name: str) -> Callable[[Expr, Sequence[Tensor], Sizes], Tensor]:
    def part(expr: Expr, operands: Sequence[Tensor], sizes: Sizes) -> Tensor:
        import torch

        return getattr(torch, name)(operands[0], diagonal=expr.attribute("diagonal"))  # type: ignore[no-any-return]

    return part


REFERENCES: dict[str, Callable[[Expr, Sequence[Tensor], Sizes], Tensor]] = {
    "permute": _permute,
    "slice": _slice,
    "pad": _pad,
    "place": _pad,
    "cat": _cat,
    "contiguous": lambda expr, operands, sizes: operands[0],
    "reshape": _reshape,
    "take": _take,
    "index_select": _take,
    "embedding": _embedding,
    "take_along_axis": _take_along_axis,
    "gather": _take_along_axis,
    "triu": _triangle("triu"),
    "tril": _triangle("tril"),
}
"""Each takes an expr, its operands and the size of every symbol."""
