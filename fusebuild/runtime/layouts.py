"""What results look like before there are any: the sizes, strides and dtypes that a plan's formulas say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fusebuild.formula import evaluate
from fusebuild.plan import Plan, PlanValue, as_formula


class Layout(NamedTuple):
    """What a tensor is made of, in the order in which torch's functions take it: sizes and strides in elements, ints or
    torch's symbols for them, and torch's dtype."""

    shape: tuple[Any, ...]
    strides: tuple[Any, ...]
    dtype: Any

    @property
    def span(self) -> int:
        """How many elements lie from the first to the last, both included."""
        if 0 in self.shape:
            return 0
        steps: Sequence[int] = [(size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True)]
        return 1 + sum(steps)


def sizes_of(plan: Plan, inputs: Sequence[Any]) -> Mapping[str, Any]:
    """The size of each symbol, as the shapes of ``inputs`` have it."""
    places = {fid: place for place, fid in enumerate(plan.inputs)}
    return {
        each.extent: inputs[places[each.input]].shape[each.dim]
        for each in reversed(plan.extents)  # the first input that has a symbol says its size
        if isinstance(each.extent, str)
    }


def layout_of(value: PlanValue, sizes: Mapping[str, Any]) -> Layout:
    """The layout of ``value``, none of whose strides is the caller's."""
    shape, strides = (
        tuple(evaluate(as_formula(each), sizes) for each in formulas) for formulas in (value.shape, value.strides)
    )
    return Layout(shape, strides, _torch_dtype(value.dtype))


def _torch_dtype(dtype: str) -> Any:
    import torch

    return getattr(torch, {"double": "float64", "float": "float32", "half": "float16"}.get(dtype, dtype))
