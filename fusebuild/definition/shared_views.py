"""Outputs that only view an input: the caller may have them share its memory, and then nothing computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fusebuild.errors import UsageError
from fusebuild.ir.formula import Formula, evaluate, show
from fusebuild.ir.fusion import Fusion
from fusebuild.ir.values import Expr
from fusebuild.ops.table import Kind, op_of
from fusebuild.oracle.reference import bind_extents
from fusebuild.passes.dead_code import dead_code


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """What an output is of the input ``source``: ``steps`` from it on, each a view of the one before."""

    source: int
    steps: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedViews:
    """``views`` are those outputs of ``fusion`` that only view an input which no output overwrites, by their place
    among all; ``rest`` computes the others, None where there are none."""

    fusion: Fusion
    views: Mapping[int, View]
    rest: Fusion | None

    def made(self, completed: Sequence[Any]) -> dict[int, Any]:
        """The views of ``completed``, the inputs of the Fusion. Raises ``ValueError`` where they do not fit."""
        if not self.views:
            return {}
        try:
            sizes = bind_extents(self.fusion, completed)
        except UsageError as error:
            raise ValueError(f"{self.fusion.name}: {error}") from None
        for relation in self.fusion.relations:
            if not evaluate(relation, sizes):
                raise ValueError(f"{self.fusion.name}: expected {show(relation)}, got sizes {sizes}")
        given = dict(zip(self.fusion.inputs, completed, strict=True))
        return {place: _seen(given[view.source], view.steps, sizes) for place, view in self.views.items()}


def shared_views(fusion: Fusion) -> SharedViews:
    """The outputs of ``fusion`` that only view inputs, and what computes the rest."""
    overwritten = {output.alias for output in fusion.outputs}
    found = {place: _view_of(fusion, output.fid) for place, output in enumerate(fusion.outputs) if output.alias is None}
    views = {place: view for place, view in found.items() if view is not None and view.source not in overwritten}
    others = tuple(output for place, output in enumerate(fusion.outputs) if place not in views)
    rest = dead_code(replace(fusion, outputs=others)) if others else None
    return SharedViews(fusion=fusion, views=views, rest=rest)


def _view_of(fusion: Fusion, fid: int) -> View | None:
    """What ``fid`` views; None for what is computed."""
    steps: list[Expr] = []
    while (expr := fusion.expr_of(fid)) is not None:
        if not (op_of(expr).kind is Kind.VIEW or expr.op in ("set", "permute", "reshape", "slice")):
            return None
        steps.append(expr)
        fid = expr.inputs[0]
    value = fusion.value(fid)
    return View(source=fid, steps=tuple(reversed(steps))) if value.is_tensor and not value.tensor.cpu else None


def _seen(tensor: Any, steps: Sequence[Expr], sizes: Mapping[str, int]) -> Any:
    """``tensor`` through ``steps``. A reshape that no strides say, of a tensor with gaps, is a copy, as in torch."""
    import torch

    def size(extent: Formula) -> int:
        return evaluate(extent, sizes)

    for step in steps:
        op = op_of(step)
        tensor = op.reference(torch, tensor, **op.named(dict(step.attributes), size))
    return tensor
